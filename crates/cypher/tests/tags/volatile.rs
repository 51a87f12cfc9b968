//! Rules V1 to V4 of `hopcache_cypher::tags::rules` on statements. `tests/oracle` has all functions of a real Neo4j.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use hopcache_cypher::tags::ReadTags;
use hopcache_packstream::{Value, encode};

fn params(entries: &[(&str, Value)]) -> Vec<u8> {
    encode(&Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()))
}

#[test]
fn v1_to_v4_volatile_reads() {
    let is_volatile = |read: &str, params: &[u8]| ReadTags::of(read).is_volatile(params);
    for read in [
        "MATCH (n:A) WHERE n.x > 1 RETURN toUpper(n.name), count(*) ORDER BY n.name",
        "MATCH (n:A {day: date('2026-01-01')}) RETURN duration.between(n.from, n.to)",
        "MATCH (n:A) RETURN datetime({epochMillis: n.at}).year",
        "RETURN $day",
        "MATCH (rand:A) RETURN rand.timestamp",
        "MATCH (n:A) RETURN n.x IS :: INTEGER",
    ] {
        assert!(!is_volatile(read, &[0xa0]), "{read}");
    }
    for read in [
        "MATCH (n:A) RETURN n ORDER BY rand()",
        "RETURN randomUUID()",
        "RETURN Timestamp()",
        "MATCH (n:A) WHERE n.at > datetime() - duration('P1D') RETURN n",
        "MATCH (n:A) RETURN date(n.day)",
        "RETURN date.realtime(), localtime.transaction('Z')",
        "RETURN date.truncate('day')",
        "MATCH (n:A) RETURN my.function(n)",
        "CALL db.labels()",
        "CALL db.index.fulltext.queryNodes('i', 'x')",
        "CALL () { CALL db.labels() YIELD label RETURN label } RETURN label",
        "LOAD CSV FROM 'x' AS row RETURN row",
        "SHOW INDEXES",
        "MATCH (n:A) SET n.x = 1 RETURN n",
        "MATCH (n",
    ] {
        assert!(is_volatile(read, &[0xa0]), "{read}");
    }
    assert!(ReadTags::anything().is_volatile(&[0xa0]));
    assert!(ReadTags::from_needs(BTreeSet::new()).is_volatile(&[0xa0]));
}

#[test]
fn v2_a_parameter_may_be_a_clock() {
    let tags = ReadTags::of("MATCH (n:A) WHERE n.day > date($from) RETURN n");
    assert!(!tags.is_volatile(&params(&[("from", Value::from("2026-01-01"))])));
    let zone = Value::Map(vec![("timezone".to_owned(), Value::from("Z"))]);
    assert!(tags.is_volatile(&params(&[("from", zone)])));
}
