//! What separates more than the values of a pattern: what a variable holds at a place of the text, and counters that show that a `MERGE` has
//! made its node.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_cypher::tags::Counters;
use hopcache_cypher::tags::anchored::{AnchoredRead, AnchoredWrite};
use hopcache_packstream::{Value, encode};

fn params() -> Vec<u8> {
    let row = |id: i64| Value::Map(vec![("id".to_owned(), Value::Int(id)), ("x".to_owned(), Value::Int(7))]);
    encode(&Value::Map(vec![("rows".to_owned(), Value::List(vec![row(2), row(3)]))]))
}

/// Whether a run of this write that has made so many nodes touches the read.
fn touches(read: &str, write: &str, nodes_created: i64) -> bool {
    let counters = Counters {
        nodes_created,
        labels_added: nodes_created,
        properties_set: 1,
        relationships_created: 1,
        ..Counters::default()
    };
    let write = AnchoredWrite::of(write, &params()).narrowed(&counters);
    AnchoredRead::of(read, &params()).touched_by(&write)
}

fn sets(read: &str, write: &str) -> bool {
    touches(read, write, 0)
}

const TWO_X: &str = "MATCH (n:A {id: 2}) SET n.x = 1";
const TWO_Y: &str = "MATCH (n:A {id: 2}) SET n.y = 1";

#[test]
fn a_map_that_takes_the_name_of_a_node_is_no_node() {
    let rebound = "MATCH (a:A {id: 1}) CALL (a) { MATCH (a)-[r:R]->(b:B) WITH b {.x, at: r.at} AS b RETURN collect(b) AS bs } \
                   RETURN a {.x, bs: bs} AS a";
    assert!(!sets(rebound, TWO_Y), "the result shows no other property of `b`");
    assert!(sets(rebound, TWO_X), "which may be a `b`");
    assert!(!sets("MATCH (a:A {id: 1}) WITH a {.y} AS a RETURN a", TWO_X));
    let whole = "MATCH (a:A {id: 1})-->(b) WITH a {.y, b: b} AS a RETURN a";
    assert!(sets(whole, TWO_X), "the map holds `b`");
}

#[test]
fn entries_of_maps_are_followed() {
    let edges = "MATCH (a:A {id: 1}) WITH collect({node: a, n: 1}) AS edges UNWIND edges AS edge WITH edge.node AS b, edge.n AS n ";
    let read = |end: &str| format!("{edges}{end}");
    assert!(!sets(&read("RETURN b.x, n"), TWO_X));
    assert!(sets(&read("RETURN b.x, n"), "MATCH (n:A {id: 1}) SET n.x = 1"));
    assert!(!sets(&read("RETURN n"), "MATCH (n:A {id: 2}) SET n.node = 1"), "an entry is no property");
    // A new node at `b` would have been found by the first pattern.
    let linked = read("CALL { WITH b MATCH (b)<-[:R]-(c:C) RETURN count(c) AS cs } RETURN cs");
    let made = "MATCH (c:C {id: 5}) CREATE (c)-[:R]->(:A {id: 6})";
    assert!(!touches(&linked, made, 1));
    assert!(touches(&linked, "MATCH (c:C {id: 5}), (a:A {id: 1}) CREATE (c)-[:R]->(a)", 0));
    assert!(
        sets("MATCH (n:A) RETURN {n: n}.n.x", TWO_X)
            && sets("MATCH (n:A) RETURN COLLECT { RETURN {n: n} AS m }[0].n.x", TWO_X)
    );
    let unknown = "MATCH (a:A {id: 1}), (c:A) WITH [{node: a}, {node: c}] AS edges UNWIND edges AS edge RETURN edge.node.x";
    assert!(sets(unknown, TWO_X));
}

#[test]
fn a_map_without_elements_may_be_another_alternative() {
    for maps in ["[d] + $rows", "[d, {id: 2}]", "[coalesce($m, d)]", "[CASE WHEN $c THEN d ELSE {id: 2} END]"]
    {
        let read = format!(
            "WITH {{id: 5}} AS d UNWIND {maps} AS row WITH row.id AS i MATCH (n:A {{id: i}}) RETURN n.x"
        );
        assert!(sets(&read, TWO_X), "{read}");
    }
    assert!(sets("MATCH (n:A {id: 1}) WITH {a: 1, a: n} AS m RETURN m.a", "MATCH (n:A {id: 1}) SET n.x = 1"));
    let held = "MATCH (n:A) WITH {n: n, id: 5} AS m MATCH (b:B) WHERE m.id = 5 RETURN m, b";
    assert!(sets(held, TWO_X), "a condition on the map says nothing of the node in it");
}

#[test]
fn a_list_of_several_variables_has_what_all_of_them_have() {
    let both = "MATCH (a:A {id: 1}), (b:A {id: 1}) WITH collect(a) + collect(b) AS found UNWIND found AS one RETURN one.x";
    assert!(!sets(both, TWO_X));
    let differ = "MATCH (a:A {id: 1}), (b:A {id: 2}) WITH collect(a) + collect(b) AS found UNWIND found AS one RETURN one.x";
    assert!(sets(differ, TWO_X));
}

#[test]
fn a_merge_that_has_made_its_node_touches_no_other() {
    let by_y = "MATCH (n:A {y: 5}) RETURN n.id";
    let merge = "MERGE (n:A {id: 2}) SET n = {id: 2, y: 6}";
    assert!(!touches(by_y, merge, 1), "it was made, with `y` 6");
    assert!(touches(by_y, merge, 0), "it was found, and may have had `y` 5");
    assert!(touches("MATCH (n:A {y: 6}) RETURN n.id", merge, 1));
    let on_match = "MERGE (n:A {id: 2}) ON CREATE SET n.y = 6 ON MATCH SET n.y = 5";
    assert!(!touches(by_y, on_match, 1) && touches(by_y, on_match, 0));
}

#[test]
fn only_as_many_nodes_as_rows_show_that_each_row_has_made_one() {
    let by_x = "MATCH (n:A {x: 5}) RETURN n.id";
    let rows = "UNWIND $rows AS row MERGE (n:A {id: row.id}) SET n += row";
    assert!(!touches(by_x, rows, 2));
    assert!(touches(by_x, rows, 1) && touches(by_x, rows, 0));
    let two = "MERGE (n:A {id: 2}) SET n.x = 6 MERGE (m:A {id: 3}) SET m.x = 7";
    assert!(!touches(by_x, two, 2) && touches(by_x, two, 1));
    let created = "CREATE (m:B) MERGE (n:A {id: 2}) SET n.x = 6";
    assert!(!touches(by_x, created, 2) && touches(by_x, created, 1), "the one node is `m`");
    // How many rows there are is not known.
    for unknown in [
        "MATCH (b:B) MERGE (n:A {id: b.id}) SET n.x = 6",
        "UNWIND $rows AS row UNWIND $rows AS other MERGE (n:A {id: row.id}) SET n.x = 6",
        "FOREACH (i IN [1, 2] | MERGE (n:A {id: i}) SET n.x = 6)",
        "CALL () { MERGE (n:A {id: 2}) SET n.x = 6 }",
    ] {
        assert!((0..5).all(|nodes| touches(by_x, unknown, nodes)), "{unknown}");
    }
    // A name that WITH has not passed on is free for a new node.
    for again in [
        "MERGE (a:A {id: 2}) SET a.x = 6 WITH 1 AS one CREATE (a:B {t: 1})",
        "MERGE (a:A {id: 2}) WITH 1 AS one MERGE (a:A {id: 3}) SET a.x = 6",
        "MERGE (a:A {id: 2}) SET a.x = 6 WITH a AS b CREATE (a:B)",
    ] {
        assert!(touches(by_x, again, 1), "{again}");
    }
    assert!(!touches(by_x, "MERGE (a:A {id: 2}) SET a.x = 6 WITH a CREATE (a)-[:R]->(a)", 1));
    let found = "MERGE (n:A {id: 2}) SET n.x = 6 WITH n MATCH (b:A {id: 3}) SET b.x = 6";
    assert!(touches(by_x, found, 1), "`b` was there");
}

/// A `MERGE` that finds two nodes goes on with two rows, and what follows makes twice as many: as many in all as if it had made its node too.
#[test]
fn what_follows_a_merge_may_make_the_nodes_that_it_has_not_made() {
    let by_x = "MATCH (n:A {x: 5}) RETURN n.id";
    let merge = "MERGE (n:A {id: 2}) SET n.x = 6 ";
    for next in [
        "CREATE (m:B)",
        "CREATE (n)-[:R]->(m:B)",
        "MERGE (n)-[:R]->(m:B)",
        "MERGE (n)-[:R]->(m:B {id: 3})",
        "MERGE (m:B {y: n.y})",
        "MERGE (m:B {y: randomUUID()})",
        "MERGE (m:B {y: [n.y]})",
        "MERGE (m:B {y: 1})-[:R {y: n.y}]->(n)",
        "MERGE (m:$(n.y))",
        "MERGE (n)-[:R]->(n) CREATE (m:B)",
        "UNWIND [1] AS i MERGE (m:B {i: i, y: n.y})",
        // The second row does not find what the first one has made.
        "MERGE (m:B {id: 3}) ON CREATE SET m.id = 4",
        "MERGE (m:B {id: 3}) ON CREATE SET m[$y] = 4",
        "MERGE (m:B {id: 3}) ON CREATE SET m += $y",
        "MERGE (m:B {id: 3}) ON MATCH SET m = {y: 1}",
        "MERGE (m:B {id: 3}) MERGE (m)-[:R]->(n) ON CREATE SET m.id = 4",
    ] {
        let write = format!("{merge}{next}");
        assert!((0..4).all(|nodes| touches(by_x, &write, nodes)), "{write}");
    }
    // A second row of the same values finds what the first one has made.
    for next in [
        "MERGE (m:B {id: 3})",
        "MERGE (m:B {id: 3}) ON CREATE SET m.y = timestamp(), m:C SET m.id = 4",
        "MERGE (m:B)",
        "MERGE (m:B {y: $y})",
        "MERGE (m:B {y: -1}) MERGE (n)-[:R]->(m)",
        "UNWIND [1] AS i MERGE (m:B:C {i: i})",
    ] {
        let write = format!("{merge}{next}");
        assert!(!touches(by_x, &write, 2) && touches(by_x, &write, 1), "{write}");
    }
    let pairs = "UNWIND $rows AS row MERGE (n:A {id: row.id}) SET n.x = 6 MERGE (m:B {id: row.id})";
    assert!(!touches(by_x, pairs, 4) && touches(by_x, pairs, 3));
}
