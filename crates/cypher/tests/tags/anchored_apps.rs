//! What the statements of four modelled applications need and touch, as a golden file. `apps.tsv` has each statement with the parameters of
//! one run.
//!
//! `HOPCACHE_TEST_WRITE_GOLDEN=1` writes the file anew.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use hopcache_cypher::tags::anchored::{AnchoredWrite, NeedFact, ReadShape, TouchFact};
use hopcache_packstream::{Value, encode};
use serde_json::Value as Json;

use super::anchored::says_what_the_tags_say;

pub(super) fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(is_true) => Value::Bool(*is_true),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| Value::Float(number.as_f64().unwrap()), Value::Int)
        }
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::List(items.iter().map(value).collect()),
        Json::Object(entries) => {
            Value::Map(entries.iter().map(|(key, entry)| (key.clone(), value(entry))).collect())
        }
    }
}

fn needs(text: &str) -> BTreeSet<String> {
    let shape = ReadShape::of(text);
    // `lost` and `gained` are always together.
    let is_gained = shape.facts().map(|fact| matches!(fact, NeedFact::KeyGained(_)));
    let words = shape.words().into_iter().zip(is_gained).filter(|(_, is_gained)| !is_gained);
    words.map(|(words, _)| format!("  needs   {words}")).collect()
}

fn touches(text: &str, params: &[u8]) -> BTreeSet<String> {
    let write = AnchoredWrite::of(text, params);
    let line = |fact: &TouchFact, roles: Vec<String>| format!("  touches {fact:?} at {}", roles.join("-->"));
    let words = |touch: &hopcache_cypher::tags::anchored::AnchoredTouch| {
        line(&touch.fact, touch.roles.iter().map(ToString::to_string).collect())
    };
    write.touches().iter().map(words).collect()
}

#[test]
fn statements_of_applications() {
    let mut printed = String::new();
    for line in include_str!("apps.tsv").lines().filter(|line| !line.starts_with("//")) {
        let (text, params) = line.split_once('\t').unwrap();
        let params = encode(&value(&serde_json::from_str(params).unwrap()));
        says_what_the_tags_say(text);
        let touches = touches(text, &params);
        let all = if touches.is_empty() { needs(text) } else { touches };
        let lines: Vec<String> = all.into_iter().collect();
        printed += &format!("{text}\n{}\n\n", lines.join("\n"));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tags/apps.golden");
    if std::env::var_os("HOPCACHE_TEST_WRITE_GOLDEN").is_some() {
        std::fs::write(path, &printed).unwrap();
    }
    let expected = std::fs::read_to_string(path).unwrap();
    let differs = printed.lines().zip(expected.lines()).find(|(printed, expected)| printed != expected);
    assert_eq!(differs, None);
    assert_eq!(printed.lines().count(), expected.lines().count());
}
