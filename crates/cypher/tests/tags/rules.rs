//! Each rule of `hopcache_cypher::tags::rules` on statements: the needs of reads, the touches of writes, and which pairs touch.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;

use hopcache_cypher::tags::{Counters, Need, ReadTags, TagId, Touch, WriteEffects};
use hopcache_packstream::{Value, encode};

use Need::{
    Anything, Detached, Label, LabelAt, LabelsOfNodes, NodeKey, NodeKeys, Nodes, RelationshipKey,
    RelationshipKeyOf, RelationshipKeys, RelationshipKeysOf, Relationships, Tokens, Type,
};

pub(super) fn label(name: &str) -> Need {
    Label(name.to_owned())
}

pub(super) fn node_key(name: &str) -> Need {
    NodeKey(name.to_owned())
}

fn at(name: &str) -> Need {
    LabelAt(name.to_owned())
}

/// A property of the relationships of type `R`.
fn r_key(name: &str) -> Need {
    RelationshipKeyOf("R".to_owned(), name.to_owned())
}

pub(super) fn kind(name: &str) -> Need {
    Type(name.to_owned())
}

#[track_caller]
pub(super) fn needs(read: &str, expected: &[Need]) {
    let tags = ReadTags::of(read);
    let mut found = tags.needs().clone();
    // N4, N5: it is there with each relationship, and only then.
    let has_relationship = found.iter().any(|need| matches!(need, Type(_) | Relationships));
    assert_eq!(found.remove(&Detached), has_relationship, "{read}");
    assert_eq!(found, expected.iter().cloned().collect::<BTreeSet<_>>(), "{read}");
}

pub(super) fn params(entries: &[(&str, Value)]) -> Vec<u8> {
    encode(&Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()))
}

#[track_caller]
pub(super) fn touches_with(write: &str, params: &[u8], expected: &[Touch]) {
    let effects = WriteEffects::of(write, params);
    let found: BTreeSet<&Touch> = effects.touches().collect();
    assert_eq!(found, expected.iter().collect::<BTreeSet<_>>(), "{write}");
}

#[track_caller]
pub(super) fn touches(write: &str, expected: &[Touch]) {
    touches_with(write, &[0xa0], expected);
}

pub(super) fn new_label(name: &str) -> Touch {
    Touch::NewLabel(name.to_owned())
}

pub(super) fn relationship(name: &str) -> Touch {
    Touch::Relationship(name.to_owned())
}

fn r_key_changed(name: &str) -> Touch {
    Touch::RelationshipKeyOf("R".to_owned(), name.to_owned())
}

pub(super) fn key(name: &str) -> Touch {
    Touch::NodeKey(name.to_owned())
}

pub(super) fn label_changed(name: &str) -> Touch {
    Touch::LabelChanged(name.to_owned())
}

#[test]
fn n1_a_lone_node_without_a_label_needs_all_nodes() {
    needs("MATCH (n) RETURN count(n)", &[Nodes]);
    needs("MATCH (n:!A) RETURN count(*)", &[Nodes, label("A")]);
    needs("MATCH (n:A|!B) RETURN count(*)", &[Nodes, label("A"), label("B")]);
    needs("MATCH (n)-[:R*0..2]-(m) RETURN count(*)", &[Nodes, kind("R")]);
    needs("MATCH (n) ((a)-[:R]->(b)){0,3} (m) RETURN count(*)", &[Nodes, kind("R")]);
    needs("MATCH (n)-[:R]->*(m) RETURN count(*)", &[Nodes, kind("R")]);
    needs("OPTIONAL MATCH (n) RETURN count(*)", &[Nodes]);
    needs("RETURN EXISTS { (n) }", &[Nodes]);
    needs("MATCH (a:A), (b) RETURN count(*)", &[Nodes, label("A")]);
    needs("MATCH (a:A) WITH count(a) AS c MATCH (a) RETURN count(*)", &[Nodes, label("A")]);
    needs("MATCH (a:A) WITH count(*) AS c WHERE COUNT { (a) } > 1 RETURN c", &[Nodes, label("A")]);
    needs("MATCH (a:A) WITH DISTINCT 1 AS c ORDER BY COUNT { (a) } RETURN c", &[Nodes, label("A")]);
    needs("MATCH p = shortestPath((a)-[:R*]-(b)) RETURN length(p)", &[Nodes, kind("R")]);
}

#[test]
fn n1_a_node_that_is_found_otherwise_needs_no_others() {
    needs("MATCH (a)-[:R]->(b) RETURN count(*)", &[kind("R")]);
    needs("MATCH (a:A)-[:R*0..]->(b) RETURN count(*)", &[label("A"), kind("R")]);
    needs("MATCH (a) ((x)-[:R]->(y))+ (b) RETURN count(*)", &[kind("R")]);
    needs("MATCH (a)-[:R]->+(b) RETURN count(*)", &[kind("R")]);
    needs("MATCH (n:A&!B) RETURN count(*)", &[label("A"), label("B")]);
    needs("MATCH (a:A) WITH a MATCH (a) RETURN count(*)", &[label("A")]);
    needs("MATCH (a:A) WITH a AS b MATCH (b) RETURN count(*)", &[label("A")]);
    needs("MATCH (a:A) WITH a AS b WHERE COUNT { (b) } = 1 RETURN count(*)", &[label("A")]);
    needs("MATCH (a:A) CALL (a) { MATCH (a) RETURN 1 AS one } RETURN one", &[label("A")]);
    needs(
        "MATCH (a:A), (b:B), p = shortestPath((a)-[:R*]-(b)) RETURN length(p)",
        &[label("A"), label("B"), kind("R")],
    );
}

#[test]
fn n2_labels_of_nodes_that_are_found_otherwise() {
    needs("MATCH (n:A) WHERE n:B OR NOT n:C RETURN count(*)", &[label("A"), at("B"), at("C")]);
    needs("MATCH (a:A)-[:R]->(b:B) RETURN count(*)", &[at("A"), at("B"), kind("R")]);
    needs("MATCH (a:A)-[:R*0..]->(b:B)-[:R]->(c) RETURN count(*)", &[at("A"), at("B"), kind("R")]);
    needs("MATCH (a:A)-[:R*0..]->(b:B) RETURN count(*)", &[label("A"), label("B"), kind("R")]);
    needs("MATCH (a:A) ((x:X)-[:R]->(y)){0,3} (b) RETURN count(*)", &[label("A"), at("X"), kind("R")]);
    needs("MATCH (a:A) ((x)-[:R]->(y))+ (b) RETURN count(*)", &[at("A"), kind("R")]);
    needs("MATCH (a:A) MATCH (a:B) RETURN count(*)", &[label("A"), at("B")]);
    needs("MATCH (a:A), (a:B) RETURN count(*)", &[label("A"), at("B")]);
    needs("MATCH (a:A) MATCH (a)-[:R*0..]->(b:B) RETURN count(*)", &[label("A"), at("B"), kind("R")]);
    needs("MATCH (a:A) WITH a.x AS a MATCH (a:B) RETURN count(*)", &[label("A"), label("B"), node_key("x")]);
    needs("MATCH (a:A) UNWIND [a] AS b MATCH (b:B) RETURN count(*)", &[label("A"), label("B")]);
    needs("MATCH (a:A) CALL (a) { MATCH (a:B) RETURN 1 AS x } RETURN x", &[label("A"), at("B")]);
    needs("MATCH (a:A) CALL () { MATCH (a:B) RETURN 1 AS x } RETURN x", &[label("A"), label("B")]);
    needs(
        "MATCH (a:A) CALL (a) { MATCH (b:B) RETURN b } MATCH (b:C) RETURN count(*)",
        &[label("A"), label("B"), label("C")],
    );
    needs("RETURN EXISTS { (:A) }, EXISTS { (:B)-[:R]-() }", &[label("A"), at("B"), kind("R")]);
    // What touches `at` touches the other as well.
    needs("MATCH (a:A)-[:R]->(b:B), (c:B) RETURN count(*)", &[at("A"), label("B"), kind("R")]);
    // It fails if both ends are one node, and so without any relationship.
    needs("MATCH p = shortestPath((a:A)-[:R*]-(b:B)) RETURN length(p)", &[label("A"), label("B"), kind("R")]);
    needs(
        "MATCH (a:A) MATCH p = shortestPath((a)-[:R*]-(b:B)) RETURN length(p)",
        &[label("A"), label("B"), kind("R")],
    );
}

#[test]
fn n2_n3_labels() {
    needs("MATCH (n:A:B) RETURN count(*)", &[label("A"), label("B")]);
    needs("MATCH (n:`A ``B`) RETURN count(*)", &[label("A `B")]);
    needs("MATCH (n:A) RETURN labels(n)", &[label("A"), LabelsOfNodes]);
    needs("MATCH (n:%) RETURN count(*)", &[Nodes, LabelsOfNodes]);
    needs("MATCH (n:$($x)) RETURN count(*)", &[Nodes, LabelsOfNodes]);
    needs("MATCH (n IS A) RETURN count(*)", &[label("A")]);
    needs("MATCH (a:A)-[:R]->(b WHERE b:C) RETURN count(*)", &[at("A"), at("C"), kind("R")]);
}

#[test]
fn n4_n5_types() {
    needs("MATCH ()-[r:R|S]->() RETURN count(r)", &[kind("R"), kind("S")]);
    needs("MATCH ()-[r]->() RETURN type(r)", &[Relationships]);
    needs("MATCH ()-->() RETURN count(*)", &[Relationships]);
    needs("MATCH ()-[:!R]->() RETURN count(*)", &[Relationships]);
    needs("MATCH (a:A)-[:$($t)]->() RETURN count(*)", &[at("A"), Relationships]);
    needs("MATCH (a:A) WHERE NOT (a)--() RETURN count(*)", &[label("A"), Relationships]);
    needs("MATCH (a:A) RETURN size([(a)-[:R]-() | 1])", &[label("A"), kind("R")]);
    needs("MATCH (a:A) RETURN COUNT { (a)--() }", &[label("A"), Relationships]);
    needs("MATCH (a:A) WHERE EXISTS { (a)-[:R]->(:B) } RETURN count(a)", &[label("A"), at("B"), kind("R")]);
    needs(
        "MATCH (a:A) WHERE EXISTS { MATCH (a)-[:R]->(b:B) RETURN b } RETURN 1",
        &[label("A"), at("B"), kind("R")],
    );
}

#[test]
fn n6_keys_by_the_kinds_of_the_variable() {
    needs("MATCH (n:A {id: 1}) RETURN n.x", &[label("A"), node_key("id"), node_key("x")]);
    needs("MATCH (n:A)-[r:R {w: 1}]-() RETURN r.x", &[at("A"), kind("R"), r_key("w"), r_key("x")]);
    needs(
        "MATCH ()-[r:R|S]->() RETURN r.x",
        &[kind("R"), kind("S"), r_key("x"), RelationshipKeyOf("S".into(), "x".into())],
    );
    needs(
        "MATCH ()-[r {w: 1}]->() RETURN r.x",
        &[Relationships, RelationshipKey("w".into()), RelationshipKey("x".into())],
    );
    // More types than needs tell apart.
    let many = (0..9).map(|at| format!("R{at}")).collect::<Vec<_>>();
    let types = many.iter().map(|name| kind(name)).chain([RelationshipKey("x".into())]);
    needs(&format!("MATCH ()-[r:{}]->() RETURN r.x", many.join("|")), &types.collect::<Vec<_>>());
    needs("MATCH (n:A) RETURN n['x']", &[label("A"), node_key("x")]);
    needs("MATCH (n:A) RETURN n {.x, y: n.z}", &[label("A"), node_key("x"), node_key("z")]);
    needs("MATCH (n:A) WITH n AS m RETURN m.x ORDER BY m.y", &[label("A"), node_key("x"), node_key("y")]);
    needs(
        "MATCH (n:A) WITH collect(n) AS ns RETURN [m IN ns WHERE m.x > 1 | m.y]",
        &[label("A"), node_key("x"), node_key("y")],
    );
    needs(
        "MATCH (n:A)-[r:R]-() UNWIND [n, r] AS e RETURN e.x",
        &[at("A"), kind("R"), node_key("x"), r_key("x")],
    );
    needs("MATCH p = (:A)-[:R]-() RETURN [m IN nodes(p) | m.x]", &[at("A"), kind("R"), node_key("x")]);
    needs("MATCH ()-[r:R]->() RETURN startNode(r).x", &[kind("R"), node_key("x")]);
    needs("UNWIND $rows AS row MATCH (n:A {id: row.id}) RETURN row.x", &[label("A"), node_key("id")]);
    needs("MATCH (n:A) RETURN date('2020-01-01').year", &[label("A")]);
}

#[test]
fn n7_whole_elements() {
    needs("MATCH (n:A) RETURN n", &[label("A"), LabelsOfNodes, NodeKeys]);
    needs("MATCH (:A)-[r:R]-() RETURN r", &[at("A"), kind("R"), RelationshipKeysOf("R".into())]);
    needs("MATCH (:A)-[r]-() RETURN r", &[at("A"), Relationships, RelationshipKeys]);
    needs("MATCH ()-[r:R $map]->() RETURN 1", &[kind("R"), RelationshipKeysOf("R".into())]);
    needs(
        "MATCH p = (:A)-[:R]-() RETURN p",
        &[at("A"), kind("R"), LabelsOfNodes, NodeKeys, RelationshipKeys],
    );
    needs("MATCH (n:A) RETURN *", &[label("A"), LabelsOfNodes, NodeKeys]);
    needs("MATCH (n:A) RETURN {a: n}", &[label("A"), LabelsOfNodes, NodeKeys]);
    needs(
        "MATCH (n:A) WITH {a: n} AS m RETURN m.a",
        &[label("A"), LabelsOfNodes, NodeKey("a".into()), NodeKeys],
    );
    needs("MATCH (n:A) RETURN collect(n)[0]", &[label("A"), LabelsOfNodes, NodeKeys]);
    needs(
        "MATCH (n:A) RETURN COLLECT { MATCH (n)-[:R]-(m) RETURN m }",
        &[label("A"), kind("R"), LabelsOfNodes, NodeKeys],
    );
    needs(
        "MATCH (n:A) CALL (n) { MATCH (n)-[:R]-(m) RETURN m AS x } RETURN x",
        &[label("A"), kind("R"), LabelsOfNodes, NodeKeys],
    );
    needs("MATCH ()-[r:R]->() RETURN endNode(r)", &[kind("R"), LabelsOfNodes, NodeKeys]);
    needs("MATCH (n:A) RETURN properties(n)", &[label("A"), NodeKeys]);
    needs("MATCH (n:A) RETURN keys(n)", &[label("A"), NodeKeys]);
    needs("MATCH (n:A) RETURN n[$k] IS NULL", &[label("A"), NodeKeys]);
    // The function makes another key of it.
    needs("MATCH (n:A) RETURN n[trim(' x')] IS NULL", &[label("A"), NodeKeys]);
    needs("MATCH (n:A) RETURN n {.*}", &[label("A"), NodeKeys]);
    needs("MATCH (n:A) RETURN [(n)-[:R]-(m) | m]", &[label("A"), kind("R"), LabelsOfNodes, NodeKeys]);
    needs(
        "MATCH (n:A) RETURN n UNION MATCH (n:B) RETURN n.x AS n",
        &[label("A"), label("B"), node_key("x"), LabelsOfNodes, NodeKeys],
    );
}

#[test]
fn n7_elements_that_the_client_does_not_get() {
    needs("MATCH (n:A) WITH n, count(*) AS c RETURN c", &[label("A")]);
    needs(
        "MATCH (n:A)-[r:R]-(m) WHERE n <> m RETURN count(DISTINCT m), id(n), elementId(r)",
        &[at("A"), kind("R")],
    );
    needs("MATCH (n:A) RETURN n IS NULL", &[label("A")]);
    needs("MATCH (n:A) WITH n ORDER BY n.x LIMIT 2 RETURN n.y", &[label("A"), node_key("x"), node_key("y")]);
    needs("MATCH (n:A) WITH collect(n) AS ns RETURN size(ns)", &[label("A")]);
    needs("MATCH (n:A) RETURN {id: n.id, name: n.name}", &[label("A"), node_key("id"), node_key("name")]);
}

#[test]
fn n8_unknown_constructs() {
    for read in [
        "CALL db.index.fulltext.queryNodes('names', 'Ada')",
        "LOAD CSV FROM 'x' AS row RETURN row",
        "CYPHER 6 MATCH (n) RETURN n",
        "USE neo4j MATCH (n) RETURN n",
        "MATCH (n:A) SET n.x = 1 RETURN n",
        "CREATE (n) RETURN n",
        "MATCH (n) DELETE n",
        "MATCH (n:A) RETURN [x IN [n] WHERE x:A | x.y]",
        "MATCH (n:A) MATCH (m:$([x IN [{a: n}] | x.a.name])) RETURN count(m)",
        "MATCH (n:A) RETURN [x IN [n] WHERE x:A|B | x.y]",
        "MATCH (n RETURN n",
        "RETURN 'cut",
        "RETURN 1; RETURN 2",
        "",
    ] {
        needs(read, &[Anything]);
    }
}

#[test]
fn n9_tokens() {
    for read in ["CALL db.labels()", "CALL db.propertyKeys() YIELD propertyKey RETURN 1", "SHOW INDEXES"] {
        needs(read, &[Anything, Tokens]);
        assert!(ReadTags::of(read).ids().contains(&TagId::TOKENS), "{read}");
    }
    let plain = ReadTags::of("MATCH (n:A) RETURN n.x");
    assert!(!plain.ids().contains(&TagId::TOKENS));
    let warned = plain.clone().with_tokens();
    assert!(
        warned.ids().contains(&TagId::TOKENS) && warned.is_volatile(&[0xa0]) == plain.is_volatile(&[0xa0])
    );
    let elsewhere = WriteEffects::of("CREATE (:Elsewhere {x: 1})", &[0xa0]);
    assert!(warned.touched_by(&elsewhere) && !plain.touched_by(&elsewhere));
}

#[test]
fn t1_t2_creations() {
    touches("CREATE (:A:B {x: 1})", &[Touch::NodeCreated, new_label("A"), new_label("B")]);
    touches("CREATE (n:A&B $props) RETURN n", &[Touch::NodeCreated, new_label("A"), new_label("B")]);
    touches("MERGE (n:A {id: $id})", &[Touch::NodeCreated, new_label("A")]);
    touches("MATCH (a:A), (b:B) CREATE (a)-[:R {w: 1}]->(b)", &[Touch::NodeCreated, relationship("R")]);
    touches(
        "UNWIND $rows AS row CREATE (:A {id: row.id})-[:R]->(:B)",
        &[Touch::NodeCreated, new_label("A"), new_label("B"), relationship("R")],
    );
    touches("FOREACH (i IN range(1, 3) | CREATE (:A {x: i}))", &[Touch::NodeCreated, new_label("A")]);
    touches(
        "MATCH (n) CALL (n) { CREATE (:A) } IN TRANSACTIONS OF 10 ROWS",
        &[Touch::NodeCreated, new_label("A")],
    );
}

#[test]
fn t3_t4_deletions() {
    touches("MATCH (n:A) DELETE n", &[Touch::NodeDeleted]);
    touches("MATCH (n:A) DETACH DELETE n", &[Touch::NodeDeleted, Touch::Detached]);
    touches(
        "MATCH p = (:A)-[:R]->() DETACH DELETE p",
        &[Touch::NodeDeleted, Touch::Detached, Touch::AnyRelationship],
    );
    touches("MATCH (:A)-[r:R|S]->() DELETE r", &[relationship("R"), relationship("S")]);
    touches("MATCH (:A)-[r]->() DELETE r", &[Touch::AnyRelationship]);
    touches("MATCH (:A)-[r:R]->() WITH r AS s DELETE s", &[relationship("R")]);
    touches(
        "MATCH (:A)-[r:R]->() WITH 1 AS x MATCH ()-[r:S]->() DELETE r",
        &[relationship("R"), relationship("S")],
    );
    touches("MATCH p = (:A)-[:R]->() DELETE p", &[Touch::NodeDeleted, Touch::AnyRelationship]);
    touches("MATCH (n:A)-[r:R]->() DELETE r, n", &[Touch::NodeDeleted, relationship("R")]);
    touches("MATCH (n:A) WITH collect(n) AS ns FOREACH (m IN ns | DELETE m)", &[Touch::NodeDeleted]);
}

#[test]
fn t5_labels() {
    touches("MATCH (n:A) SET n:B:C", &[label_changed("B"), label_changed("C")]);
    touches("MATCH (n:A) REMOVE n:A", &[label_changed("A")]);
}

#[test]
fn t6_t7_keys() {
    touches("MATCH (n:A) SET n.x = 1, n.y = n.z", &[key("x"), key("y")]);
    touches("MATCH (n:A) REMOVE n.x", &[key("x")]);
    touches("MATCH ()-[r:R]->() SET r.x = 1", &[r_key_changed("x")]);
    touches("MATCH ()-[r]->() SET r.x = 1", &[Touch::RelationshipKey("x".into())]);
    touches("MATCH ()-[r:R]->() SET r = {x: 1}", &[Touch::AnyRelationshipKeyOf("R".into())]);
    touches("MATCH ()-[r]->() SET r += $map", &[Touch::AnyRelationshipKey]);
    touches(
        "MATCH ()-[r:R|S]->() REMOVE r.x",
        &[r_key_changed("x"), Touch::RelationshipKeyOf("S".into(), "x".into())],
    );
    touches("MATCH (n:A) SET n += {x: 1, y: 2}", &[key("x"), key("y")]);
    touches("MATCH (n:A) SET n = {x: 1}", &[Touch::AnyNodeKey]);
    touches("MATCH (n:A) SET n += $props", &[Touch::AnyNodeKey]);
    let props = params(&[("props", Value::Map(vec![("x".to_owned(), Value::Int(1))]))]);
    touches_with("MATCH (n:A) SET n += $props", &props, &[key("x")]);
    touches_with("MATCH (n:A) SET n = $props", &props, &[Touch::AnyNodeKey]);
    touches("MATCH (n:A) SET (CASE WHEN true THEN n END).x = 1", &[key("x")]);
    touches("UNWIND $ns AS n SET n.x = 1", &[key("x"), Touch::RelationshipKey("x".into())]);
    let both = [key("x"), r_key_changed("x")];
    let any = [key("x"), Touch::RelationshipKey("x".into())];
    touches("MATCH (m:B), ()-[n:R]->() SET (head([{a: n}.a, m])).x = 1", &both);
    touches("MATCH (m:B), ()-[n]->() SET (head([{a: n}.a, m])).x = 1", &any);
    touches("MATCH (n:B), ()-[r:R]->() WITH collect(r) AS rs, n AS m SET (head([n IN rs | n])).x = 1", &both);
    touches("MATCH (n:B) WITH n AS m SET (head(COLLECT { MATCH ()-[n:R]->() RETURN n })).x = 1", &both);
    touches("MATCH (n:B), ()-[r:R]->() WITH n AS m, collect(r) AS rs REMOVE (head([n IN rs | n])).x", &both);
    touches("MATCH (n:A) MATCH ()-[r:R]->() UNWIND [n, r] AS e SET e.x = 1", &[key("x"), r_key_changed("x")]);
}

#[test]
fn t8_what_the_statement_has_created_has_no_keys() {
    let created = [Touch::NodeCreated, new_label("A")];
    touches("CREATE (n:A) SET n.x = 1, n += $props", &created);
    touches("CREATE (n:A) SET n:B", &[Touch::NodeCreated, new_label("A"), new_label("B")]);
    touches("MERGE (n:A {id: 1}) ON CREATE SET n.x = 1", &created);
    touches(
        "MERGE (n:A {id: 1}) ON CREATE SET n.x = 1 ON MATCH SET n.y = 1",
        &[Touch::NodeCreated, new_label("A"), key("y")],
    );
    touches("MERGE (n:A {id: 1}) SET n.x = 1", &[Touch::NodeCreated, new_label("A"), key("x")]);
    touches(
        "MATCH (m:B) MERGE (n:A {id: 1}) ON CREATE SET m.x = 1",
        &[Touch::NodeCreated, new_label("A"), key("x")],
    );
    touches(
        "MATCH (a:A), (b:A) MERGE (a)-[r:R]->(b) ON CREATE SET r.x = 1, a.y = 2",
        &[Touch::NodeCreated, relationship("R"), key("y")],
    );
    // The variable may be another one behind these.
    touches(
        "CREATE (n:A) WITH 1 AS one MATCH (n:B) SET n.x = 1",
        &[Touch::NodeCreated, new_label("A"), key("x")],
    );
    touches(
        "MATCH (m:B) CREATE (m)-[:R]->(n:A) SET m.x = 1, n.y = 2",
        &[Touch::NodeCreated, new_label("A"), relationship("R"), key("x")],
    );
    touches(
        "CREATE (n:A) FOREACH (n IN $list | SET n.x = 1)",
        &[Touch::NodeCreated, new_label("A"), key("x")],
    );
}

#[test]
fn t9_dynamic_names_come_from_the_parameters() {
    let known = params(&[("x", Value::from("A")), ("xs", Value::List(vec!["B".into(), "C".into()]))]);
    touches_with("CREATE (:$($x))", &known, &[Touch::NodeCreated, new_label("A")]);
    touches_with("MATCH (n:A) SET n:$($xs)", &known, &[label_changed("B"), label_changed("C")]);
    touches_with(
        "MATCH (a:A), (b:A) CREATE (a)-[:$($x)]->(b)",
        &known,
        &[Touch::NodeCreated, relationship("A")],
    );
    touches_with("MATCH (n:A) SET n[$x] = 1", &known, &[key("A")]);
    let mut twice = params(&[("x", Value::from("A")), ("y", Value::from("B"))]);
    let at = twice.iter().rposition(|byte| *byte == b'y').unwrap();
    twice[at] = b'x';
    touches_with("CREATE (:$($x))", &twice, &[Touch::NodeCreated, Touch::NewAnyLabel]);
    touches("CREATE (:$($x))", &[Touch::NodeCreated, Touch::NewAnyLabel]);
    touches("MATCH (n:A) SET n:$($xs)", &[Touch::AnyLabelChanged]);
    touches("MATCH (n:A) REMOVE n:$(n.name)", &[Touch::AnyLabelChanged]);
    touches("MATCH (n:A) SET n[n.name] = 1", &[Touch::AnyNodeKey]);
    touches("MATCH (a:A), (b:A) MERGE (a)-[:$($x)]->(b)", &[Touch::NodeCreated, Touch::AnyRelationship]);
}

#[test]
fn t10_unknown_constructs() {
    for write in [
        "CREATE INDEX FOR (n:A) ON (n.x)",
        "CREATE CONSTRAINT FOR (n:A) REQUIRE n.x IS UNIQUE",
        "CALL apoc.refactor.rename.label('A', 'B')",
        "MATCH (n) CALL my.proc(n) YIELD x SET x.y = 1",
        "MATCH (n) SET n.x = 1 WITH n CALL my.procedure(n) RETURN n",
        "CREATE (n",
        "DROP INDEX x",
        "CREATE USER x SET PASSWORD 'y'",
    ] {
        touches(write, &[Touch::Anything]);
    }
}

#[test]
fn counters_narrow() {
    let merge = WriteEffects::of("MERGE (n:A {id: 1}) ON CREATE SET n.x = 1 ON MATCH SET n.y = 2", &[0xa0]);
    let read = |text| ReadTags::of(text);
    let matched = merge.narrowed(&Counters::of([("properties-set", 1)]));
    assert!(!read("MATCH (n:A) RETURN n.id").touched_by(&matched));
    assert!(read("MATCH (n:A) RETURN n.y").touched_by(&matched));
    let nothing = merge.narrowed(&Counters::default());
    assert!(nothing.ids().is_empty());
    assert!(!read("CALL db.labels()").touched_by(&nothing));
    let parts = WriteEffects::of("MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS", &[0xa0]);
    assert_eq!(parts.narrowed(&Counters::default()), parts);
    let unknown = WriteEffects::of("CALL x.y()", &[0xa0]);
    assert!(read("RETURN 1").touched_by(&unknown.narrowed(&Counters::default())));
    let schema = merge.narrowed(&Counters::of([("indexes-added", 1)]));
    assert!(schema.is_anything());
}

/// A row for each mark: a read and a write that share it, and a write beside it that does not.
#[test]
fn marks() {
    for (read, touching, beside) in [
        ("MATCH (n) RETURN count(n)", "CREATE (:A)", "MATCH (n) SET n:A"),
        ("MATCH (n) RETURN count(n)", "MATCH (n:A) DELETE n", "MATCH (n:A) SET n.x = 1"),
        ("MATCH (n:A) RETURN count(n)", "CREATE (:A)", "CREATE (:B)"),
        ("MATCH (n:A) RETURN count(n)", "MATCH (n) SET n:A", "MATCH (n:A) SET n:B"),
        ("MATCH (n:A) RETURN count(n)", "MATCH (n:B) DELETE n", "MATCH (:A)-[r]-() DELETE r"),
        ("MATCH (n:A) RETURN count(n)", "CREATE (:$($x))", "CREATE ()"),
        ("MATCH (n:A) RETURN n", "MATCH (n:A) SET n:B", "CREATE (:B {x: 1})"),
        ("MATCH (n:A) RETURN n", "MATCH (m:B) SET m.x = 1", "MATCH ()-[r:R]->() SET r.x = 1"),
        ("MATCH ()-[:R]->() RETURN count(*)", "MATCH (a), (b) CREATE (a)-[:R]->(b)", "CREATE ()-[:S]->()"),
        ("MATCH ()-[:R]->() RETURN count(*)", "MATCH (n) DETACH DELETE n", "MATCH (n) DELETE n"),
        ("MATCH ()-->() RETURN count(*)", "CREATE ()-[:S]->()", "CREATE (:A)"),
        ("MATCH (a:A)-[:R]->(b) RETURN b", "MATCH (n) SET n:C", "CREATE (:C)"),
        ("MATCH (a:A)-[:R]->() RETURN 1", "MATCH (n) SET n:A", "CREATE (:A)"),
        ("MATCH (a:A)-[:R]->() RETURN 1", "MATCH (n) SET n:$('A')", "MATCH (n:A) DELETE n"),
        ("MATCH (a:A)-[:R]->() RETURN 1", "MATCH (n) REMOVE n:$(n.x)", "CREATE (:$($x))"),
        ("MATCH ()-->() RETURN count(*)", "MATCH (n) DETACH DELETE n", "MATCH (n) DELETE n"),
        ("CALL db.labels()", "CREATE (:A)", "MATCH (n) RETURN n"),
        ("RETURN 1", "CREATE INDEX FOR (n:A) ON (n.x)", "CREATE (:A)"),
    ] {
        let tags = ReadTags::of(read);
        assert!(tags.touched_by(&WriteEffects::of(touching, &[0xa0])), "{read} / {touching}");
        assert!(!tags.touched_by(&WriteEffects::of(beside, &[0xa0])), "{read} / {beside}");
    }
}
