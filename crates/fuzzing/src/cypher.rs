//! Query text: tokens, normal form, verdict, pattern.

use hopcache_cypher::anchor::Anchor;
use hopcache_cypher::forms::normal::NormalForm;
use hopcache_cypher::forms::pattern::{pattern, pattern_id};
use hopcache_cypher::forms::shared::SharedForm;
use hopcache_cypher::lexer::{TokenKind, tokens};
use hopcache_cypher::limits::{ANCHOR_TEXT_BYTES_MAX, SHARED_TEXT_BYTES_MAX};
use hopcache_cypher::statement::Statement;
use hopcache_cypher::tags::ReadTags;
use hopcache_cypher::verdict::{Allowed, TextVerdict};
use hopcache_packstream::{Value, decode, encode_canonical};
use serde_json::Value as Json;

pub(crate) fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut end = 0;
    let mut has_trouble = false;
    for token in tokens(&text) {
        assert!(token.start >= end && token.end > token.start, "in order, disjoint, not empty");
        assert!(!token.text(&text).is_empty(), "on the boundaries of characters");
        has_trouble |= matches!(token.kind, TokenKind::Trouble(_));
        end = token.end;
    }
    assert!(end <= text.len());
    let normal = NormalForm::of(&text);
    assert_eq!(NormalForm::of(normal.as_str()).as_str(), normal.as_str(), "normalising is idempotent");
    assert!(normal.as_str().len() <= text.len());
    let own = ["my.own*".parse().unwrap()];
    let allowed = Allowed::new(&own, &own);
    let verdict = TextVerdict::of(&text, &allowed);
    // Texts of one normal form share an entry: they have to share the verdict that lets them.
    assert_eq!(TextVerdict::of(normal.as_str(), &allowed), verdict);
    assert!(!has_trouble || matches!(verdict, TextVerdict::Bypass(_)), "what cannot be read is never cached");
    check_statement(&text, (&normal, verdict), &allowed);
    let bound = verdict.with_params(bytes);
    assert!(bound == verdict || verdict == TextVerdict::PerhapsReadOfParams);
    check_anchor(&text, &normal);
    check_shared(&text, (&normal, verdict), &allowed);
    assert_eq!(pattern(normal.as_str()), pattern(&text));
    assert_eq!(pattern_id(normal.as_str()), pattern_id(&text));
}

/// What the reader does not know is no read. It takes no other verdict back, and texts of one normal form share it.
fn check_statement(text: &str, (normal, verdict): (&NormalForm, TextVerdict), allowed: &Allowed) {
    let read = Statement::of(text, allowed, true);
    assert!(read.lexed == verdict || (verdict.may_read() && read.shared.is_none()));
    assert_eq!(Statement::of(normal.as_str(), allowed, true).lexed, read.lexed);
    let tags = ReadTags::of(text);
    assert!(read.lexed.may_read() || tags.is_anything() || tags.is_volatile(&[0xa0]), "a proved bypass");
}

/// A shared form is a text with that form, for all texts of a normal form the same, and a read if the text is one.
fn check_shared(text: &str, (normal, verdict): (&NormalForm, TextVerdict), allowed: &Allowed) {
    let shared = SharedForm::of(text);
    if text.len() <= SHARED_TEXT_BYTES_MAX {
        assert_eq!(SharedForm::of(normal.as_str()), shared);
    }
    let Some(shared) = shared else { return };
    let again = SharedForm::of(shared.as_str()).map(|again| again.as_str().to_owned());
    assert!(again.is_some_and(|again| again == shared.as_str()), "a form is its own form");
    if verdict == TextVerdict::PerhapsRead {
        assert_eq!(TextVerdict::of(shared.as_str(), allowed), verdict);
    }
}

/// An anchor is made of names in the text, and is the same for all that share an entry.
fn check_anchor(text: &str, normal: &NormalForm) {
    let params = encode_canonical(&Value::Map(vec![("id".to_owned(), Value::Int(7))]));
    let anchor = Anchor::of(normal.as_str(), &params);
    if text.len() <= ANCHOR_TEXT_BYTES_MAX {
        assert_eq!(Anchor::of(text, &params), anchor);
    }
    let _ = Anchor::of(text, text.as_bytes());
    let Some(anchor) = anchor else { return };
    for name in [anchor.label.as_str(), anchor.key.as_str()] {
        let quoted = format!("`{}`", name.replace('`', "``"));
        assert!(tokens(text).any(|token| [name, &quoted].contains(&token.text(text))), "{name:?}");
    }
    assert!(matches!(decode(&anchor.value), Ok(Value::Int(_) | Value::String(_) | Value::Bool(_))));
    let question = anchor.degree_statement();
    assert_eq!(TextVerdict::of(&question, &Allowed::default()), TextVerdict::PerhapsRead, "{question}");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let golden: Json =
        serde_json::from_str(include_str!("../../../tests/golden/verdicts.json")).expect("JSON");
    let texts = golden.as_array().into_iter().flatten();
    let texts = texts.filter_map(|row| Some(row["statement"].as_str()?.as_bytes().to_vec()));
    texts.chain(ANCHORED.iter().map(|text| text.as_bytes().to_vec())).collect()
}

/// Texts with an anchor, to begin from.
const ANCHORED: [&str; 4] = [
    "MATCH (p:Person {id: $id})-[:KNOWS]-(f) RETURN f",
    "MATCH (a)-[r*1..2]->(:`B ``c`:D {x: null, `y z`: 'it\\'s'}) RETURN a",
    "MATCH (p:Person)<--(q) WHERE NOT p.x AND p.id = -5 AND q.name STARTS WITH 'x' RETURN p",
    "MATCH x = (p:Person), (q) WHERE $id = p.id WITH p RETURN p",
];
