//! Facts about Neo4j that the rules rest on.

use std::collections::BTreeSet;

use hopcache_cypher::tags::{Counters, ReadTags};

use super::neo4j::Graph;
use super::random::Random;

fn made() -> Graph {
    let mut graph = Graph::connect();
    graph.make(&mut Random::new(1));
    graph
}

/// The counters of a write that is taken back.
fn counted(graph: &mut Graph, write: &str) -> Counters {
    graph.begin();
    let counters = graph.write(write).unwrap();
    graph.rollback();
    counters
}

/// `WriteEffects::narrowed` drops what a counter of zero excludes.
#[test]
fn counters_count_every_kind_of_change() {
    let mut graph = made();
    graph.write("CREATE (:LA {g: $g, uid: 50, x: 1})-[:TR]->(:LB {g: $g, uid: 51})").unwrap();
    let mut count = |write: &str| counted(&mut graph, write);
    let found = "MATCH (n {g: $g, uid: 50})";
    assert_eq!(count(&format!("{found} REMOVE n.x")).properties_set, 1);
    assert_eq!(count(&format!("{found} SET n.x = null")).properties_set, 1);
    assert!(count(&format!("{found} SET n = {{}}")).properties_set > 0);
    assert!(count(&format!("{found} SET n += {{x: 2}}")).properties_set > 0);
    assert_eq!(count(&format!("{found} SET n:LC")).labels_added, 1);
    assert_eq!(count(&format!("{found} REMOVE n:LA")).labels_removed, 1);
    let detached = count(&format!("{found} DETACH DELETE n"));
    assert_eq!((detached.nodes_deleted, detached.relationships_deleted), (1, 1));
    let created = count("CREATE (:LA {g: $g, x: 1})-[:TR {x: 1}]->(:LB)");
    assert_eq!((created.nodes_created, created.relationships_created), (2, 1));
    let nested =
        count(&format!("{found} CALL (n) {{ FOREACH (i IN [1] | SET n.x = 5 CREATE (:LA {{g: $g}})) }}"));
    assert_eq!((nested.properties_set > 0, nested.nodes_created), (true, 1));
    let merged = count("MERGE (n:LA {g: $g, uid: 52}) ON CREATE SET n.y = 1");
    assert_eq!((merged.nodes_created, merged.labels_added), (1, 1));
    graph.wipe();
}

/// Rule T8 takes variables of these patterns for new elements.
#[test]
fn a_pattern_that_creates_refuses_variables_that_are_bound() {
    let mut graph = made();
    for write in [
        "MATCH (n {g: $g}) CREATE (n)",
        "MATCH (n {g: $g}) CREATE (n:LA)-[:TR]->()",
        "MATCH (n {g: $g}) CREATE (n {x: 1})-[:TR]->()",
        "MATCH (n {g: $g})-[r]->() CREATE (n)-[r:TR]->()",
        "MATCH (n {g: $g})-[r]->() MERGE (n)-[r:TR]->(m)",
        "MATCH (n {g: $g}) MERGE (n)",
        "MATCH (n {g: $g}) MERGE (n:LA)",
        "MATCH (n {g: $g}) MERGE (n:LA)-[:TR]->()",
        "MATCH (n {g: $g}) MERGE ()-[:TR]->(n {x: 1})",
    ] {
        let refusal = graph.write(write);
        assert!(refusal.is_err(), "{write}: {refusal:?}");
    }
    graph.wipe();
}

/// Rules V1 to V3. A function that a later server adds has to be put on a list of `hopcache_cypher::verdict`, or
/// here.
#[test]
fn every_function_of_the_server_is_known_to_be_volatile_or_not() {
    let names = Graph::connect().strings("SHOW FUNCTIONS YIELD name, isBuiltIn WHERE isBuiltIn RETURN name");
    assert!(names.len() > 100, "{names:?}");
    let is_volatile = |name: &&String| {
        let arguments = if *name == "reduce" { "s = 0, i IN [1] | s + i" } else { "1" };
        ReadTags::of(&format!("RETURN {name}({arguments})")).is_volatile(&[0xa0])
    };
    let volatile: BTreeSet<&str> = names.iter().filter(is_volatile).map(String::as_str).collect();
    let of_other_things =
        ["file", "graph.byElementId", "graph.byName", "linenumber", "rand", "randomUUID", "timestamp"];
    let clocks = ["date", "datetime", "localdatetime", "localtime", "time"].iter().flat_map(|family| {
        ["", ".realtime", ".statement", ".transaction", ".truncate"].map(|member| format!("{family}{member}"))
    });
    let clocks: Vec<String> = clocks.collect();
    let expected = clocks.iter().map(String::as_str).chain(of_other_things).collect::<BTreeSet<_>>();
    assert_eq!(volatile, expected);
}
