//! Each rule of `hopcache_cypher::tags::anchored` on pairs of a read and a write: which write touches it, and which does not because
//! of a value.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use hopcache_cypher::tags::anchored::{AnchoredRead, AnchoredWrite, ReadShape, TouchFact};
use hopcache_cypher::tags::{Counters, Need, ReadTags, Touch, WriteEffects};
use hopcache_packstream::{Value, encode};

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

/// What the statements below may use.
fn params() -> Vec<u8> {
    let row = |id: i64, x: i64| map(&[("id", Value::Int(id)), ("f", map(&[("x", Value::Int(x))]))]);
    encode(&map(&[
        ("one", Value::Int(1)),
        ("two", Value::Int(2)),
        ("float", Value::Float(1.0)),
        ("text", Value::from("1")),
        ("list", Value::List(vec![Value::Int(2), Value::Int(3)])),
        ("nested", Value::List(vec![Value::List(vec![Value::Int(2)])])),
        ("null", Value::Null),
        ("row", row(2, 5)),
        ("rows", Value::List(vec![row(2, 5), row(3, 5)])),
        ("whole", map(&[("id", Value::Int(2)), ("x", Value::Int(9))])),
        ("many", Value::List((100..170).map(Value::Int).collect())),
    ]))
}

#[track_caller]
fn touches(read: &str, write: &str) -> bool {
    let (tags, effects) = (ReadTags::of(read), WriteEffects::of(write, &params()));
    assert!(tags.touched_by(&effects), "tags alone separate these: {read} / {write}");
    AnchoredRead::of(read, &params()).touched_by(&AnchoredWrite::of(write, &params()))
}

#[track_caller]
fn meets(read: &str, writes: &[&str]) {
    writes.iter().for_each(|write| assert!(touches(read, write), "does not touch: {read} / {write}"));
}

#[track_caller]
fn is_apart(read: &str, writes: &[&str]) {
    writes.iter().for_each(|write| assert!(!touches(read, write), "touches: {read} / {write}"));
}

const X: &str = "MATCH (n:A {id: 1}) RETURN n.x";

#[test]
fn a1_forms_of_anchors() {
    for read in [
        X,
        "MATCH (n:A {id: $one}) RETURN n.x",
        "MATCH (n:A {id: $float}) RETURN n.x",
        "MATCH (n:A) WHERE n.id = $one RETURN n.x",
        "MATCH (n:A) WHERE $one = n.id AND n.y > 3 RETURN n.x",
        "MATCH (n:A) WHERE (n.id = 1 AND (n.y = 1 OR n.y = 2)) RETURN n.x",
        "MATCH (n:A) WHERE n.id IN [1, $one] RETURN n.x",
        "MATCH (n:A WHERE n.id = 1) RETURN n.x",
        "UNWIND [1] AS i MATCH (n:A {id: i}) RETURN n.x",
        "WITH $one AS i MATCH (n:A {id: i}) RETURN n.x",
        "UNWIND [{id: 1}] AS row MATCH (n:A {id: row.id}) RETURN n.x",
        "WITH {id: 1} AS row MATCH (n:A) WHERE row.id = n.id RETURN n.x",
        "MATCH (n:A {id: 1}) WITH n AS m RETURN m.x",
        "MATCH (n:A {id: 1}) WITH collect(n) AS ns UNWIND ns AS m RETURN m.x",
        "MATCH (n:A {id: 1}) CALL (n) { RETURN n.x AS x } RETURN x",
        "MATCH (n:A {id: 1}) CALL { WITH n RETURN n.x AS x } RETURN x",
        "CALL () { MATCH (n:A {id: 1}) RETURN n } RETURN n.x",
        "MATCH (n:A {id: 1}) RETURN n",
        "MATCH (n:A {id: 1}) RETURN n {.x}",
    ] {
        is_apart(
            read,
            &[
                "MATCH (n:A {id: 2}) SET n.x = 1",
                "MATCH (n {id: $two}) SET n += {x: 1}",
                "MATCH (n {id: $text}) SET n.x = 1",
                "MATCH (n) WHERE n.id IN $list SET n.x = 1",
                "UNWIND $rows AS row MATCH (n {id: row.id}) SET n += row.f",
                "MATCH (n {id: $row.id}) SET n = {id: 2, x: 3}",
                "MATCH (n {id: 2}) REMOVE n.x",
            ],
        );
        meets(
            read,
            &[
                "MATCH (n {id: 1}) SET n.x = 1",
                "MATCH (n {id: 1.0}) SET n.x = 1",
                "MATCH (n {uid: 2}) SET n.x = 1",
                "MATCH (n) WHERE n.id = 2 OR n.y = 1 SET n.x = 1",
                "MATCH (n) WHERE NOT n.id = 2 SET n.x = 1",
                "MATCH (n) WHERE n.id IN $nested SET n.x = 1",
                "MATCH (n {id: 2}) SET n.id = 1",
                "MATCH (n {id: 2}) SET n.id = n.y",
                "MATCH (n {id: 2}) SET n = {id: $one}",
                "MATCH (n {uid: 2}) REMOVE n.id",
            ],
        );
    }
}

#[test]
fn a1_what_only_looks_like_an_anchor() {
    for read in [
        "MATCH (n:A) WHERE n.id = 1 OR n.y = 2 RETURN n.x",
        "MATCH (n:A) WHERE NOT n.id = 1 RETURN n.x",
        "MATCH (n:A) WHERE n.id = 1 XOR n.y = 2 RETURN n.x",
        "MATCH (n:A) WHERE n.id = 1 = n.y RETURN n.x",
        "MATCH (n:A) WHERE n.id = 1 + n.y RETURN n.x",
        "MATCH (n:A) WHERE n.id + 1 = 1 RETURN n.x",
        "MATCH (n:A) WHERE toString(n.id) = '1' RETURN n.x",
        "MATCH (n:A) WHERE n.id = CASE WHEN n.y = 1 THEN 1 ELSE 2 END RETURN n.x",
        "MATCH (n:A) WHERE n.id STARTS WITH '1' RETURN n.x",
        "MATCH (n:A) WHERE n.id <> 1 RETURN n.x",
        "MATCH (m:B {id: 1}) MATCH (n:A) WHERE n.id = m.id RETURN n.x",
        "MATCH (n:A {id: $null}) RETURN n.x",
        "MATCH (n:A {id: $missing}) RETURN n.x",
        "MATCH (n:A {id: $list}) RETURN n.x",
        "MATCH (n:A) WHERE n.id IN $many RETURN n.x",
        "MATCH (n:A {flag: true}) RETURN n.x",
        "MATCH (n:A) WITH n WHERE n.id = 1 RETURN n.x",
        "MATCH (n:A) OPTIONAL MATCH (n)-[:R]->(m) WHERE n.id = 1 RETURN n.x",
        "MATCH (n:A {id: 1}) RETURN [n IN [] | n.x]",
        "MATCH (n:A {id: 1}), (m:A) WITH coalesce(m, n) AS n RETURN n.x",
        "MATCH (n:A {id: 1}) WITH n.y AS n MATCH (n:A) RETURN n.x",
        "CALL () { MATCH (n:A {id: 1}) RETURN n UNION MATCH (n:A) RETURN n } RETURN n.x",
        "MATCH (n:A {id: '\\u0031'}) RETURN n.x",
        "MATCH (n:A {id: 01}) RETURN n.x",
    ] {
        meets(read, &["MATCH (n {id: 2}) SET n.x = 1"]);
    }
    is_apart(
        "WITH 1 AS a, 2 AS b WITH b AS a, a AS b MATCH (n:A {id: b}) RETURN n.x",
        &["MATCH (n {id: 2}) SET n.x = 1"],
    );
    meets(
        "WITH 1 AS a, 2 AS b WITH b AS a, a AS b MATCH (n:A {id: a}) RETURN n.x",
        &["MATCH (n {id: 2}) SET n.x = 1"],
    );
}

/// A name in a subquery of an expression may be another variable there.
#[test]
fn a1_a_name_that_means_two_things() {
    meets(
        "MATCH (n:A {id: 1}), (m:A) RETURN COLLECT { WITH m AS n RETURN n.x }",
        &["MATCH (n {id: 2}) SET n.x = 1"],
    );
    meets("MATCH (n:A {id: 1}) WITH n, [n IN [1] | n] AS l RETURN n.x", &["MATCH (n {id: 2}) SET n.x = 1"]);
    meets(X, &["MATCH (n {id: 2}), (m:A) WITH n AS k, [m] AS l FOREACH (n IN l | SET n.x = 1)"]);
    meets(X, &["MATCH (n {id: 2}), (m:A) SET (head([n IN [m] | n])).x = 1"]);
}

#[test]
fn r1_r3_new_and_deleted_nodes() {
    for read in [X, "MATCH (n {id: 1}) RETURN count(*)"] {
        is_apart(
            read,
            &[
                "CREATE (:A {id: 2})",
                "CREATE (:A $whole)",
                "CREATE (:A {x: 1})",
                "UNWIND $rows AS row CREATE (n:A {id: row.id})",
                "UNWIND $rows AS row CREATE (n:A) SET n = row.f, n.id = row.id",
                "CREATE (n:A) SET n.id = 3 SET n.id = 2",
                "MERGE (n:A {id: 2}) ON CREATE SET n.x = 1",
                "MATCH (n:A {id: 2}) DELETE n",
                "MATCH (n:A) WHERE n.id = 2 DETACH DELETE n",
            ],
        );
        meets(
            read,
            &[
                "CREATE (:A {id: 1})",
                "CREATE (:A {id: 1.0})",
                "CREATE (:A {id: rand()})",
                "CREATE (n:A) SET n.id = 1",
                "CREATE (n:A {id: 2}) SET n.id = $one",
                "CREATE (n:A {id: 2}) SET n += $row.f, n[$text] = 1, n[toString($one)] = 1",
                "CREATE (:A $missing)",
                "MERGE (n:A {id: 2}) ON CREATE SET n.id = 1",
                "MERGE (n:A {uid: 2}) ON CREATE SET n.id = 1",
                "MATCH (n:A {uid: 2}) DELETE n",
                "MATCH (n:A {id: 2}) OPTIONAL MATCH (m:A) DELETE n, m",
            ],
        );
    }
    // A database uses ids again.
    meets("MATCH (n:A) WHERE elementId(n) = $text RETURN n.x", &["CREATE (:A {id: 2})"]);
    let by = |id: &str, rest: &str| format!("MATCH (n:A) WHERE elementId(n) = '4:{UUID}:{id}' {rest}");
    let read = by("1", "RETURN n.x");
    is_apart(&read, &[&by("2", "SET n.x = 1")]);
    // Neo4j finds the node by other spellings of its id as well.
    let other = format!("MATCH (n) WHERE elementId(n) = '4:{}:2' SET n.x = 1", UUID.to_uppercase());
    meets(&read, &[&by("01", "SET n.x = 1"), &other, "MATCH (n) WHERE elementId(n) = $text SET n.x = 1"]);
    is_apart("MATCH (n) WHERE id(n) = 1 RETURN n.x", &["MATCH (n) WHERE id(n) = 2 SET n.x = 1"]);
}

const UUID: &str = "5f0e8b3a-1c2d-4e5f-8a9b-0c1d2e3f4a5b";

#[test]
fn r1_r2_labels() {
    let read = "MATCH (n:A:B {id: 1}) RETURN n.x";
    is_apart(read, &["CREATE (:A {id: 1})", "MATCH (n {id: 2}) SET n:B", "CREATE (n:A {id: 1}) SET n:C"]);
    meets(
        read,
        &[
            "CREATE (:A:B {id: 1})",
            "CREATE (n:A {id: 1}) SET n:B",
            "CREATE (n:A {id: 1}) SET n:$($missing)",
            "CREATE (n:A {id: 1}) WITH n MATCH (m:A) SET m:B",
            "MATCH (n {id: 1}) SET n:B",
        ],
    );
    is_apart("MATCH (n:A {id: 1}) WHERE n:B RETURN labels(n)", &["MATCH (n {id: 2}) SET n:B"]);
    meets("MATCH (n:A {id: 1}) WHERE n:B RETURN labels(n)", &["MATCH (n {id: 1}) SET n:B"]);
}

#[test]
fn r4_r6_relationships() {
    let read = "MATCH (a:A {id: 1})-[:R]->(b) RETURN count(b)";
    is_apart(
        read,
        &[
            "MATCH (a {id: 2}), (b {id: 1}) CREATE (a)-[:R]->(b)",
            "MATCH (a {id: 2}) CREATE (a)-[:R]->(:B {id: 1})",
            "MATCH (a {id: 2}), (b) MERGE (a)-[:R]->(b)",
            "MATCH (a {id: 2})-[r:R]->() DELETE r",
            "CREATE (:A {id: 2})-[:R]->(:A {id: 1})",
        ],
    );
    meets(
        read,
        &[
            "MATCH (a {id: 1}), (b {id: 2}) CREATE (a)-[:R]->(b)",
            "MATCH (b {id: 1}), (a {id: 2}) CREATE (a)<-[:R]-(b)",
            "MATCH (a {id: 2}), (b {id: 1}) MERGE (a)-[:R]-(b)",
            "MATCH (a {id: 2})-[r:R]-() DELETE r",
            "MATCH (a {id: 2})-[r]-() DELETE r",
            "CREATE (:A {id: 1})-[:R]->(:A {id: 2})",
            "CREATE (:A {id: rand()})-[:R]->(:A {id: 2})",
            // It may be the far end.
            "MATCH (n {id: 2}) DETACH DELETE n",
            "MATCH (:A {id: 2})-[rs:R*1..2]->() FOREACH (r IN rs | DELETE r)",
        ],
    );
    let either = "MATCH (a:A {id: 1})-[:R]-(b {id: 3}) RETURN 1 AS one";
    is_apart(
        either,
        &["MATCH (a {id: 2}), (b {id: 3}) CREATE (a)-[:R]->(b)", "MATCH (n {id: 2}) DETACH DELETE n"],
    );
    meets(
        either,
        &[
            "MATCH (a {id: 3}), (b {id: 1}) CREATE (a)-[:R]->(b)",
            "MATCH (a {id: 1}), (b {id: 3}) CREATE (a)-[:R]->(b)",
            "MATCH (n {id: 3}) DETACH DELETE n",
        ],
    );
    for read in [
        "MATCH (a:A {id: 1})-[:R*]->(b) RETURN count(b)",
        "MATCH (a:A {id: 1}) ((x)-[:R]->(y))+ (b) RETURN count(b)",
        "MATCH (a:A {id: 1}), (b:B), p = shortestPath((a)-[:R*]-(b)) RETURN length(p)",
        "MATCH ANY SHORTEST (a:A)-[:R]->+(b) WHERE a.id = 1 RETURN count(b)",
    ] {
        meets(read, &["MATCH (a {id: 2}), (b {id: 3}) CREATE (a)-[:R]->(b)"]);
    }
    // The condition is asked when paths have been chosen.
    meets(
        "MATCH ANY SHORTEST (a:A)-[:R]->(b)-[:R]->(c) WHERE b.id = 1 RETURN count(c)",
        &["MATCH (a {id: 2}), (b {id: 3}) CREATE (a)-[:R]->(b)"],
    );
    let far = "MATCH (:A {id: 1})-[:R]->(b)-[:S]->(c {id: 3}) RETURN b.x";
    is_apart(far, &["MATCH (b), (c {id: 2}) CREATE (b)-[:S]->(c)"]);
    meets(far, &["MATCH (b {id: 2}), (c {id: 3}) CREATE (b)-[:S]->(c)", "MATCH (b {id: 2}) SET b.x = 1"]);
}

#[test]
fn r7_anchored_keys_are_needs() {
    is_apart("MATCH (n:A {id: 1, t: 3}) RETURN n.x", &["MATCH (n {id: 2}) SET n.t = 3"]);
    meets(
        "MATCH (n:A {id: 1, t: 3}) RETURN n.x",
        &[
            "MATCH (n {id: 1}) SET n.t = 3",
            "MATCH (n {t: 3}) SET n.t = 4",
            // Both change, and neither alone would make it match.
            "MATCH (n {id: 2, t: 4}) SET n.t = 3, n.id = 1",
            "MATCH (n {id: 2, t: 4}) SET n += {t: 3, id: 1}",
            "MATCH (n {id: 2, t: 4}) SET n = {t: 3, id: 1}",
            "MATCH (n {id: 1, t: 3}) SET n.t = 4, n.id = 2",
            // By another name of the node.
            "MATCH (n {id: 2, t: 4}) WITH n AS m, n SET m.t = 3 SET n.id = 1",
            "MATCH (n {id: 2, t: 4}), (m {id: 2}) SET m.t = 3 SET n.id = 1",
            "CREATE (n:A {id: 2, t: 4}) WITH n MATCH (m:A {t: 4}) SET m.id = 1 SET n.t = 3",
        ],
    );
    is_apart("MATCH (n:A {id: 1}) RETURN n.id", &["MATCH (n {id: 2}) SET n.id = 3"]);
    // Of one class, and another value.
    meets("MATCH (n:A {id: 1}) RETURN n.id", &["MATCH (n {id: 1}) SET n.id = 1.0"]);
}

#[test]
fn r9_w10_properties_of_relationships() {
    let read = "MATCH (:A {id: 1})-[r:R]->(:B {id: 3}) RETURN r.w";
    is_apart(
        read,
        &[
            "MATCH (:A {id: 2})-[r:R]->() SET r.w = 1",
            "MATCH (:A {id: 1})-[r:R]->({id: 2}) SET r = {w: 1}",
            "MATCH ({id: 2})<-[r]-() SET r.w = 1",
            "MATCH (a {id: 1}), (b {id: 2}) MERGE (a)-[r:R]->(b) SET r.w = 1",
            "MATCH (a {id: 1}), (b {id: 2}) MERGE (a)-[r:R]->(b) ON MATCH SET r.w = 1",
        ],
    );
    meets(
        read,
        &[
            "MATCH (:A {id: 1})-[r:R]->() SET r.w = 1",
            "MATCH ({id: 3})-[r:R]-() SET r.w = 1",
            "MATCH ({id: 2})-[r:R]->() WITH collect(r) AS rs, 1 AS one MATCH ()-[r:R]->() SET r.w = 1",
            "MATCH (:A {id: 2})-[rs:R*]->() FOREACH (r IN rs | SET r.w = 1)",
        ],
    );
}

/// A node that the write makes matters where a read finds it.
#[test]
fn r11_w3_new_ends() {
    let read = "MATCH (:A {id: 1})-[:R]->(b)-[:S]->(c) RETURN count(c)";
    is_apart(
        read,
        &[
            "MATCH (a {id: 2}) CREATE (a)-[:R]->(:B {id: 5})-[:S]->(:C)",
            "MATCH (c {id: 1}) CREATE (:B {id: 5})-[:S]->(c)",
        ],
    );
    meets(
        read,
        &[
            "MATCH (a {id: 1}) CREATE (a)-[:R]->(:B {id: 5})-[:S]->(:C)",
            "MATCH (b {id: 2}) CREATE (b)-[:S]->(:C)",
            // It may have been there.
            "MERGE (b:B {id: 5}) MERGE (c:C {id: 6}) MERGE (b)-[:S]->(c)",
            "MATCH (x:X) CREATE (b)-[:S]->(x)",
        ],
    );
    let backwards = "MATCH (c)<-[:S]-(b)<-[:R]-(:A {id: 1}) RETURN count(c)";
    is_apart(backwards, &["MATCH (c {id: 9}) CREATE (:B)-[:S]->(c)"]);
    meets(backwards, &["MATCH (b {id: 9}) CREATE (b)-[:S]->(:C)"]);
    // Each end of a lone relationship is found by it.
    meets("MATCH (a)-[:R]->(b) RETURN count(*)", &["CREATE (:A {id: 2})-[:R]->(:B)"]);
    meets("MATCH (a)-[:R*0..]->(b)-[:S]->(c) RETURN count(*)", &["CREATE (:A {id: 2})-[:S]->(:B)"]);
    meets(
        "MATCH (a:A {id: 1}) MATCH (a)-[:R]->(b) RETURN count(b)",
        &["MATCH (a {id: 1}) CREATE (a)-[:R]->()"],
    );
}

#[test]
fn w2_w6_batches_and_maps() {
    let read = "MATCH (n:A {id: 1}) RETURN n";
    is_apart(
        read,
        &[
            "UNWIND $rows AS row MERGE (n:A {id: row.id}) SET n += row.f",
            "UNWIND $rows AS row MERGE (n:A {id: row.id}) SET n = row.f",
            "MERGE (n:A {id: $whole.id}) ON CREATE SET n = $whole ON MATCH SET n = $whole",
            "MATCH (n:A {id: 2}) SET n = $whole",
            "MATCH (n:A {id: 2}) CALL (n) { MATCH (n) SET n.y = 1 }",
            "MATCH (n:A {id: 2}) WITH collect(n) AS ns FOREACH (m IN ns | SET m.y = 1)",
            "FOREACH (i IN [2, 3] | MERGE (n:A {id: i}) SET n.y = 1)",
        ],
    );
    meets(
        read,
        &[
            "UNWIND $rows AS row MERGE (n:A {id: row.id - 1}) SET n += row.f",
            "UNWIND $rows AS row MERGE (n:A {id: row.id}) SET n += row.f, n.id = row.id - 1",
            "MATCH (n:A {id: 2}) SET n = $missing",
            "MATCH (n:A {id: 2}), (m) SET n += m",
            "UNWIND $many AS i MERGE (n:A {id: i}) SET n.y = 1",
            "MATCH (n:A {id: 2}) OPTIONAL MATCH (n)-[:R]->(m) SET m.y = 1",
            "MATCH (n:A {id: 2}) CALL () { MATCH (n) SET n.y = 1 }",
        ],
    );
    // What the caps leave out widens.
    let keys: Vec<String> = (0..6).map(|at| format!("k{at}: 1")).collect();
    let wide = format!("MATCH (n:A {{{}}}) RETURN n.x", keys.join(", "));
    is_apart(&wide, &["MATCH (n {k0: 2}) SET n.x = 1"]);
    meets(&wide, &["MATCH (n {k5: 2}) SET n.x = 1", "MATCH (n {uid: 2}) SET n.k5 = 1"]);
}

#[test]
fn counters_narrow_and_what_is_unknown_touches() {
    let read = AnchoredRead::of("MATCH (n:A {id: 1}) RETURN n.x", &params());
    let write = AnchoredWrite::of("MERGE (n:A {id: 1}) ON MATCH SET n.x = 2", &params());
    assert!(read.touched_by(&write));
    let touched = |counters| read.touched_by(&write.narrowed(&Counters::of(counters)));
    assert!(touched([("properties-set", 1)]) && touched([("indexes-added", 1)]));
    assert!(!touched([("labels-removed", 1)]));
    let parts = AnchoredWrite::of("MATCH (n:A {id: 1}) CALL (n) { SET n.x = 1 } IN TRANSACTIONS", &params());
    assert!(read.touched_by(&parts.narrowed(&Counters::default())));
    for write in ["CALL a.b()", "CREATE INDEX FOR (n:A) ON (n.x)", "MATCH (n RETURN n"] {
        assert!(read.touched_by(&AnchoredWrite::of(write, &params())), "{write}");
    }
    let unknown = AnchoredRead::of("CALL a.b()", &params());
    assert!(unknown.touched_by(&AnchoredWrite::of("CREATE (:A)", &params())));
    let loose = AnchoredWrite::loose(WriteEffects::from_parts([Touch::NodeKey("id".into())]));
    assert!(read.touched_by(&loose));
    let loose = AnchoredWrite::loose(WriteEffects::from_parts([Touch::NodeKey("y".into())]));
    assert!(!read.touched_by(&loose));
}

/// Without constraints, the needs are those of the tags, and the touches no others than those of the effects. Tags ask what a name holds
/// anywhere in the text, so they may need keys besides where a map has the name of an element.
#[track_caller]
pub(super) fn says_what_the_tags_say(text: &str) {
    let tags = ReadTags::of(text);
    let shape = ReadShape::of(text);
    let mut folded: BTreeSet<Need> =
        shape.facts().map(hopcache_cypher::tags::anchored::NeedFact::tag).collect();
    if !folded.is_empty() {
        // `Label` says what `LabelAt` says.
        let found = folded.clone();
        folded.retain(
            |need| !matches!(need, Need::LabelAt(name) if found.contains(&Need::Label(name.clone()))),
        );
        let makes_maps = text.contains('{') && text.contains(" AS ");
        let is_there = |need: &&Need| folded.contains(need) || (makes_maps && is_shown(need));
        let missing = tags.needs().iter().find(|need| !is_there(need));
        assert_eq!(missing, None, "{text}\n{:?}\n{folded:?}", tags.needs());
        let is_known = folded.is_subset(tags.needs()) || ReadTags::from_needs(folded.clone()).is_anything();
        assert!(is_known, "{text}\n{:?}\n{folded:?}", tags.needs());
    }
    let write = AnchoredWrite::of(text, &params());
    let named: BTreeSet<&Touch> = write.effects().touches().collect();
    for touch in write.touches() {
        if let TouchFact::Tag(touch) = &touch.fact {
            let is_key =
                matches!(touch, Touch::NodeKey(_) | Touch::RelationshipKey(_) | Touch::RelationshipKeyOf(..));
            assert!(is_key || named.contains(touch), "{text}\n{touch:?}\n{named:?}");
        }
    }
    for touch in named {
        let is_there = write.touches().iter().any(|other| match (&other.fact, touch) {
            (TouchFact::Tag(other), touch) if other == touch => true,
            // The map's keys are known after all.
            (TouchFact::Tag(Touch::NodeKey(_)), Touch::AnyNodeKey) => true,
            (TouchFact::Tag(Touch::RelationshipKeyOf(..)), Touch::AnyRelationshipKeyOf(_)) => true,
            (TouchFact::Tag(Touch::RelationshipKey(_)), Touch::AnyRelationshipKey) => true,
            _ => false,
        });
        assert!(is_there || *touch == Touch::NodeCreated, "{text}\n{touch:?}\n{:?}", write.touches());
    }
}

/// Whether it is what an element shows, and not how it is found.
const fn is_shown(need: &Need) -> bool {
    matches!(
        need,
        Need::NodeKey(_)
            | Need::NodeKeys
            | Need::LabelsOfNodes
            | Need::RelationshipKey(_)
            | Need::RelationshipKeyOf(..)
            | Need::RelationshipKeys
            | Need::RelationshipKeysOf(_)
    )
}

#[test]
fn constraints_apart_it_says_what_the_tags_say() {
    let rows = include_str!("rules.rs").lines().chain(include_str!("cypher5_reads.txt").lines());
    let quoted = rows.filter_map(|line| line.split('"').nth(1).or(Some(line)));
    let texts: Vec<&str> = quoted.filter(|text| !WriteEffects::of(text, &params()).is_anything()).collect();
    assert!(texts.len() > 250, "{}", texts.len());
    texts.into_iter().for_each(says_what_the_tags_say);
}
