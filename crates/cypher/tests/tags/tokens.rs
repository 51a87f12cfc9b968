//! Rule T11 of `hopcache_cypher::tags::rules`, and how many transaction ids a run consumes: on statements.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use hopcache_cypher::tags::{Counters, ReadTags, TagId, Token, WriteEffects};
use hopcache_packstream::{Value, encode};

fn params(entries: &[(&str, Value)]) -> Vec<u8> {
    encode(&Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()))
}

#[track_caller]
fn tokens_with(write: &str, params: &[u8], expected: &[Token<'_>]) {
    let expected: BTreeSet<TagId> = expected.iter().map(|token| TagId::from(*token)).collect();
    let effects = WriteEffects::of(write, params);
    assert_eq!(effects.tokens(), Some(expected.into_iter().collect::<Vec<_>>().as_slice()), "{write}");
    assert_eq!(effects.narrowed(&Counters::default()).tokens(), effects.tokens(), "{write}");
}

#[test]
fn t11_tokens() {
    let (a, b, k, l) = (Token::Label("A"), Token::Label("B"), Token::Key("k"), Token::Key("l"));
    let tokens = |write: &str, expected: &[Token<'_>]| tokens_with(write, &[0xa0], expected);
    tokens("CREATE (:A:B {k: 1})-[:R {l: 1}]->()", &[a, b, k, l, Token::Type("R")]);
    tokens("MERGE (n:A {k: 1}) ON CREATE SET n.l = 1 ON MATCH SET n:B", &[a, b, k, l]);
    tokens("CREATE (n:A) SET n.k = 1", &[a, k]);
    tokens("MATCH (n:A) SET n.k = n.m, n += {l: 1}", &[k, l]);
    tokens("MATCH (n:A) SET n = {l: 1}", &[l]);
    tokens("MATCH (n:A {m: 1}) SET n:B", &[b]);
    tokens("FOREACH (i IN [1] | CREATE (:A {k: i}))", &[a, k]);
    tokens("MATCH (n) CALL (n) { SET n.k = 1 } IN TRANSACTIONS", &[k]);
    tokens("MATCH (n:A)-[r:R {k: 1}]-() RETURN n {.l, m: r.x}", &[]);
    tokens("MATCH (n:A) REMOVE n:B, n.k DETACH DELETE n", &[]);
    let known = params(&[
        ("label", Value::from("A")),
        ("key", Value::from("k")),
        ("map", Value::Map(vec![("l".to_owned(), Value::Int(1))])),
    ]);
    tokens_with("CREATE (n:$($label) $map) SET n[$key] = 1, n += $map", &known, &[a, k, l]);
    let marks = ReadTags::of("MATCH (n:A)-[:R]->() RETURN n.k");
    for token in [a, k, Token::Type("R")] {
        assert!(!marks.ids().contains(&TagId::from(token)), "{token:?}");
    }
}

#[test]
fn t11_unknown_tokens() {
    for write in [
        "CREATE (:$($label))",
        "CREATE (:A $map)",
        "MATCH (n:A) SET n:$(n.name)",
        "MATCH (n:A) SET n[n.name] = 1",
        "MATCH (n:A) SET n += $map",
        "UNWIND $rows AS row MERGE (n:A {id: row.id}) SET n += row",
        "CREATE INDEX FOR (n:A) ON (n.x)",
        "CALL apoc.create.node(['A'], {})",
        "CREATE (n",
    ] {
        assert_eq!(WriteEffects::of(write, &[0xa0]).tokens(), None, "{write}");
    }
    let many: String = (0..257).map(|at| format!("CREATE (:A {{k{at}: 1}}) ")).collect();
    assert_eq!(WriteEffects::of(&many, &[0xa0]).tokens(), None);
}

#[test]
fn transactions_at_most() {
    let max = |write: &str| WriteEffects::of(write, &[0xa0]).transactions_max();
    assert_eq!(max("MATCH (n:A) RETURN n"), Some(0));
    assert_eq!(max("CREATE (:A)"), Some(1));
    assert_eq!(max("MATCH (n:A) SET n:$(n.name), n += $map"), Some(1));
    for unknown in [
        "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS",
        "CALL { MATCH (n) CALL (n) { DELETE n } IN TRANSACTIONS }",
        "CALL db.awaitIndexes()",
        "CREATE INDEX FOR (n:A) ON (n.x)",
        "CREATE (n",
        "CREATE ((n:A))",
    ] {
        assert_eq!(max(unknown), None, "{unknown}");
        assert_eq!(
            WriteEffects::of(unknown, &[0xa0]).narrowed(&Counters::default()).transactions_max(),
            None
        );
    }
    let merge = WriteEffects::of("MERGE (n:A {id: 1})", &[0xa0]);
    assert_eq!(merge.narrowed(&Counters::default()).transactions_max(), Some(0));
    assert_eq!(merge.narrowed(&Counters::of([("nodes-created", 1)])).transactions_max(), Some(1));
    assert_eq!(merge.narrowed(&Counters::of([("indexes-added", 1)])).transactions_max(), None);
}
