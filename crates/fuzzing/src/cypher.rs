//! Query text: tokens, normal form, verdict, pattern.

use hopcache_core::cypher::lexer::{TokenKind, tokens};
use hopcache_core::cypher::normal::NormalForm;
use hopcache_core::cypher::pattern::{PatternId, pattern};
use hopcache_core::cypher::verdict::Lexed;
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
    let allowed = ["my.own".to_owned()];
    let verdict = Lexed::of(&text, &allowed);
    // Texts of one normal form share an entry: they have to share the verdict that lets them.
    assert_eq!(Lexed::of(normal.as_str(), &allowed), verdict);
    assert!(!has_trouble || matches!(verdict, Lexed::Bypass(_)), "what cannot be read is never cached");
    let bound = verdict.with_params(bytes);
    assert!(bound == verdict || verdict == Lexed::PerhapsReadOfParams);
    assert_eq!(pattern(normal.as_str()), pattern(&text));
    assert_eq!(PatternId::of(normal.as_str()), PatternId::of(&text));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let golden: Json =
        serde_json::from_str(include_str!("../../../tests/golden/verdicts.json")).expect("JSON");
    let texts = golden.as_array().into_iter().flatten();
    texts.filter_map(|row| Some(row["statement"].as_str()?.as_bytes().to_vec())).collect()
}
