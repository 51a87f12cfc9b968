//! What may be cached: what the verdict lets into the cache, the reader of syntax reads. Syntax that it does not know is a
//! bypass, and no read that Cypher 5 has is one.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_cypher::limits::STATEMENT_BYTES_MAX;
use hopcache_cypher::statement::Statement;
use hopcache_cypher::tags::{ReadTags, WriteEffects};
use hopcache_cypher::verdict::{Allowed, BypassReason, TextVerdict};
use hopcache_packstream::{Value, encode};
use serde_json::Value as Json;

fn verdict(text: &str) -> TextVerdict {
    Statement::of(text, &Allowed::new(&[], &["apoc.meta.schema".parse().unwrap()]), true).lexed
}

/// Reads of Cypher 5 with each construct of its grammar. Each was explained by Neo4j 5.26.12 as a read.
const READS: &str = include_str!("cypher5_reads.txt");

fn reads() -> impl Iterator<Item = &'static str> {
    READS.lines().filter(|line| !line.is_empty() && !line.starts_with("//"))
}

#[test]
fn every_construct_of_cypher_5_is_known() {
    let unknown: Vec<&str> = reads().filter(|text| !verdict(text).may_read()).collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
    assert!(reads().count() > 130);
}

/// The golden verdicts, and all statements of the tests of fronts and drivers.
#[test]
fn what_the_verdict_lets_into_the_cache_is_known() {
    let golden: Json = serde_json::from_str(include_str!("../../../../tests/golden/verdicts.json")).unwrap();
    let api: Json =
        serde_json::from_str(include_str!("../../../../tests/golden/query_api_statements.json")).unwrap();
    let rows = golden.as_array().unwrap().iter().map(|row| row["statement"].as_str().unwrap());
    let asked = api["statements"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
    let unknown: Vec<&str> = rows
        .chain(asked)
        .filter(|text| TextVerdict::of(text, &Allowed::default()).may_read() && !verdict(text).may_read())
        .collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

/// Cypher 25 that is not read, and texts that are none. Neo4j 2026.09.0 explains the first ones as reads.
#[test]
fn syntax_that_is_not_known_is_no_read() {
    for text in [
        "MATCH (n:A) SEARCH n IN (VECTOR INDEX i FOR [1, 2] LIMIT 3) RETURN n",
        "RETURN {x IN [1, 2] | toString(x): x} AS m",
        "RETURN allReduce(s = 0, x IN [1, 2] | s + x, s < 9) AS ok",
        "RETURN 'a' 'b'",
        "MATCH (n) RETURN n THEN RETURN 1",
        "MATCH (n) RETURN n WHEN true",
        "RETURN 1 AS a ELSE RETURN 2 AS a",
        "MATCH (n) LET n.x = 1 RETURN n",
        "MATCH (n) RETURN n GROUP n",
        "RETURN 1 AS a NEXT",
        "RETURN (1",
    ] {
        assert!(TextVerdict::of(text, &Allowed::default()).may_read(), "{text}");
        let read = Statement::of(text, &Allowed::default(), true);
        assert_eq!(read.lexed, TextVerdict::Bypass(BypassReason::Unreadable), "{text}");
        assert_eq!(read.shared, None);
        assert!(ReadTags::of(text).is_anything());
    }
}

/// Syntax whose meaning is not known is read by age: every write touches it, and it is never proved.
#[test]
fn syntax_without_a_meaning_depends_on_anything() {
    for text in [
        "CALL db.labels() YIELD label RETURN label",
        "MATCH (n) WHERE n IS A RETURN n",
        "MATCH (n) WHERE n IS LABELED AND RETURN n",
        "MATCH (order:Order) RETURN order",
        "RETURN [x IN $l WHERE x:A | x.y] AS l",
        "MATCH (n:$([x IN $l | x])) RETURN n",
    ] {
        assert!(verdict(text).may_read(), "{text}");
        let tags = ReadTags::of(text);
        assert!(tags.is_anything() && tags.is_volatile(&[0xa0]), "{text}");
    }
    // The `|` of the expression is in brackets of its own, so there is one meaning.
    for text in ["RETURN [x IN $l WHERE (x:A|B) | x.y]", "RETURN [(a:A|B)-[r:R|S]->(b WHERE b:C|D) | b:E|F]"]
    {
        assert!(!ReadTags::of(text).is_anything(), "{text}");
    }
}

/// Of a long text the verdict on the tokens decides alone. One that nests deep may have any syntax.
#[test]
fn a_long_text_is_read_by_its_tokens_and_a_deep_one_is_not_read() {
    let long = |inside: &str| format!("RETURN '{}' AS x {inside}", "x".repeat(STATEMENT_BYTES_MAX));
    let deep = format!("RETURN {}1{} AS x SEARCH RETURN 5 AS y", "[".repeat(200), "]".repeat(200));
    assert!(verdict(&long("")).may_read());
    assert_eq!(verdict(&deep), TextVerdict::Bypass(BypassReason::Unreadable));
    assert_eq!(verdict(&long("NEXT SHOW INDEXES")), TextVerdict::Bypass(BypassReason::Administration));
    assert_eq!(verdict(&long(", s'{rand()}' AS y")), TextVerdict::Bypass(BypassReason::Unreadable));
    // A comment is no reason: texts of one normal form share the verdict.
    let commented = format!("MATCH (n) /* {} */ SEARCH n.x RETURN n", "x".repeat(STATEMENT_BYTES_MAX));
    assert_eq!(verdict(&commented), TextVerdict::Bypass(BypassReason::Unreadable));
}

/// A prefix changes neither what a read depends on nor what a write touches. With `EXPLAIN` a write changes nothing.
#[test]
fn behind_a_prefix_the_tags_are_the_same() {
    let (read, write) = ("MATCH (n:A)-[:R]->(m) RETURN m.x", "MATCH (n:B) SET n.y = 1 CREATE (:C {z: 1})");
    let (tags, effects) = (ReadTags::of(read), WriteEffects::of(write, &[0xa0]));
    for prefix in ["CYPHER", "cypher 5", "CYPHER 25 runtime=slotted", "PROFILE CYPHER 5", "CYPHER 5 foo=bar"]
    {
        assert_eq!(WriteEffects::of(&format!("{prefix} {write}"), &[0xa0]), effects, "{prefix}");
    }
    for prefix in ["CYPHER", "cypher 5", "CYPHER 25 runtime=slotted"] {
        assert_eq!(ReadTags::of(&format!("{prefix} {read}")), tags, "{prefix}");
    }
    assert!(!tags.touched_by(&effects) && !effects.is_anything());
    for prefix in ["EXPLAIN", "EXPLAIN CYPHER 5", "CYPHER 5 EXPLAIN"] {
        let explained = WriteEffects::of(&format!("{prefix} {write}"), &[0xa0]);
        assert_eq!((explained.ids(), explained.transactions_max()), (&[][..], Some(0)), "{prefix}");
    }
    for prefix in ["CYPHER 6", "CYPHER 5 5", "CYPHER foo", "CYPHER foo=$bar", "CYPHER 'x'"] {
        assert!(WriteEffects::of(&format!("{prefix} {write}"), &[0xa0]).is_anything(), "{prefix}");
    }
}

/// B3: what shows the schema alone is cached, proved, and ended by schema changes and by nothing else that is known.
#[test]
fn schema_reads_depend_on_the_schema() {
    for text in [
        "SHOW CONSTRAINTS",
        "CYPHER 5 SHOW INDEXES YIELD name, type, labelsOrTypes, properties;",
        "SHOW CONSTRAINTS YIELD name RETURN name",
        "SHOW VECTOR INDEXES YIELD name, options WHERE name = $name RETURN options.indexConfig AS config",
    ] {
        assert_eq!(verdict(text), TextVerdict::PerhapsRead, "{text}");
        let tags = ReadTags::of(text);
        assert!(!tags.is_anything() && !tags.is_volatile(&[0xa0]), "{text}");
        let touches = |write: &str| tags.touched_by(&WriteEffects::of(write, &[0xa0]));
        assert!(!touches("MATCH (n:A) SET n.x = 1 CREATE (:New {y: 1})"));
        for change in [
            "CREATE CONSTRAINT c FOR (n:A) REQUIRE n.x IS UNIQUE",
            "DROP INDEX i",
            "CREATE VECTOR INDEX v FOR (n:A) ON n.e",
            "CALL apoc.schema.assert({}, {})",
        ] {
            assert!(touches(change), "{text} {change}");
        }
    }
    for text in [
        "SHOW INDEXES",
        "SHOW INDEXES YIELD name, state",
        "SHOW CONSTRAINTS YIELD name RETURN name, datetime()",
        "SHOW INDEXES YIELD name WHERE state = 'ONLINE'",
    ] {
        assert_eq!(verdict(text), TextVerdict::Bypass(BypassReason::Administration), "{text}");
    }
}

/// An interpolated string in a write: whatever it creates, all reads end.
#[test]
fn a_write_with_unknown_syntax_touches_everything() {
    let read = ReadTags::of("MATCH (n:Other) RETURN n.y");
    let params = encode(&Value::Map(Vec::new()));
    for text in [
        "CREATE (:A {x: s'{datetime()}'})",
        "MATCH (n:A) SEARCH n IN (VECTOR INDEX i FOR [1, 2] LIMIT 3) SET n.y = 1",
        "RETURN {x IN [1, 2] | toString(x): x} AS m NEXT CREATE (:A {x: m})",
    ] {
        let effects = WriteEffects::of(text, &params);
        assert!(effects.is_anything() && read.touched_by(&effects), "{text}");
        assert_eq!(effects.transactions_max(), None, "{text}");
    }
}
