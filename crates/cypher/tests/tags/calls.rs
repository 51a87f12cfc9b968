//! The rules on functions and procedures, and on maps that differ by row: N8, T12 to T14 of `hopcache_cypher::tags::rules`.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_cypher::tags::{Counters, Need, ReadTags, Touch, WriteEffects};
use hopcache_packstream::Value;

use Need::{Anything, LabelsOfNodes, NodeKeys, RelationshipKeys, Tokens};

use super::rules::{
    key, kind, label, label_changed, needs, new_label, node_key, params, relationship, touches, touches_with,
};

/// W12: a function writes nothing, so one that nobody knows ends no more than the clauses say.
#[test]
fn t12_a_function_in_a_write_touches_nothing_by_itself() {
    touches("MATCH (n:A) SET n.x = own.f(n)", &[key("x")]);
    touches(
        "MATCH (n:A) WHERE own.is(n) CREATE (:B {x: apoc.text.random(3)})",
        &[Touch::NodeCreated, new_label("B")],
    );
    touches(
        "MERGE (n:A {id: apoc.create.uuid()}) SET n.day = date(), n.r = rand()",
        &[Touch::NodeCreated, new_label("A"), key("day"), key("r")],
    );
    let both = [key("x"), Touch::RelationshipKey("x".to_owned())];
    // What a function gives may be any element, and so may what a map or a list from it holds.
    touches("MATCH ()-[r:R]->() SET (own.end(r)).x = 1", &both);
    touches("MATCH ()-[r:R]->() SET (apoc.rel.endNode(r)).x = 1", &both);
    touches("MATCH ()-[r:R]->() WITH own.f() AS m, r UNWIND [r, m.a.b] AS e SET e.x = 1", &both);
    touches("MATCH ()-[r:R]->() UNWIND [r, own.f().a] AS e SET e.x = 1", &both);
    touches(
        "MATCH (n:A), ()-[r:R]->() WITH apoc.map.groupBy([n], 'id') AS m, r UNWIND [r, m.a] AS e SET e.x = 1",
        &[key("x"), Touch::RelationshipKeyOf("R".to_owned(), "x".to_owned())],
    );
    touches("MATCH (n:A) WITH apoc.coll.toSet(collect(n)) AS ns UNWIND ns AS n SET n.x = 1", &[key("x")]);
    touches("MATCH ()-[r:R]->() WITH own.f(r) AS e DELETE e", &[Touch::NodeDeleted, Touch::AnyRelationship]);
    touches("MATCH (n:A) SET n:$(own.labels(n))", &[Touch::AnyLabelChanged]);
    assert_eq!(WriteEffects::of("MATCH (n:A) SET n.x = own.f(n)", &[0xa0]).transactions_max(), Some(1));
}

/// A pure function of a library shows its arguments alone; one that reads the graph, or that nobody knows, may show anything.
#[test]
fn n8_functions_of_libraries() {
    needs("MATCH (n:A) RETURN apoc.text.join(collect(n.x), ',') AS x", &[label("A"), node_key("x")]);
    needs("MATCH (n:A) WITH collect(n.x) AS xs RETURN apoc.coll.sum(xs) AS x", &[label("A"), node_key("x")]);
    needs("RETURN apoc.coll.toSet($l) AS s, gds.similarity.cosine($a, $b) AS c", &[]);
    let whole = [label("A"), LabelsOfNodes, NodeKeys, RelationshipKeys];
    needs("MATCH (n:A) RETURN apoc.convert.toJson(n) AS j", &whole);
    needs("MATCH (n:A) RETURN apoc.any.property(n, 'x') AS x", &whole);
    needs("MATCH (n:A) RETURN size(apoc.map.groupBy(collect(n), 'x')) AS c", &whole);
    needs(
        "MATCH ()-[r:R]->() RETURN apoc.convert.toJson(r) AS j",
        &[kind("R"), LabelsOfNodes, NodeKeys, RelationshipKeys, Need::RelationshipKeysOf("R".to_owned())],
    );
    for read in [
        "MATCH (n:A) RETURN apoc.node.degree(n) AS d",
        "RETURN apoc.label.exists('A') AS is",
        "MATCH (n:A) RETURN own.f(n) AS d",
        "MATCH (n:A) WHERE n.x = 1 AND own.f(n) RETURN n",
    ] {
        needs(read, &[Anything, Tokens]);
        assert!(ReadTags::of(read).is_anything());
    }
    assert!(!ReadTags::of("MATCH (n:A) RETURN apoc.convert.toJson(n) AS j").is_volatile(&[0xa0]));
    assert!(ReadTags::of("MATCH (n:A) RETURN apoc.coll.randomItem(collect(n)) AS j").is_volatile(&[0xa0]));
}

fn rows(maps: &[&[&str]]) -> Value {
    let map =
        |keys: &&[&str]| Value::Map(keys.iter().map(|key| ((*key).to_owned(), Value::Int(1))).collect());
    Value::List(maps.iter().map(map).collect())
}

#[test]
fn t14_a_bulk_upsert_touches_the_keys_of_its_rows() {
    let given = params(&[("rows", rows(&[&["id", "x"], &["id", "y"], &[]])), ("other", rows(&[&["z"]]))]);
    let created = [Touch::NodeCreated, new_label("L")];
    let keys =
        |names: &[&str]| [&created[..], &names.iter().map(|name| key(name)).collect::<Vec<_>>()].concat();
    let upsert = "MERGE (n:L {id: row.id}) SET n += row";
    touches_with(&format!("UNWIND $rows AS row {upsert}"), &given, &keys(&["id", "x", "y"]));
    touches_with(
        &format!("CYPHER 5 UNWIND $rows AS row WITH row {upsert}"),
        &given,
        &keys(&["id", "x", "y"]),
    );
    touches_with(
        "FOREACH (row IN $rows | MERGE (n:L {id: row.id}) SET n += row)",
        &given,
        &keys(&["id", "x", "y"]),
    );
    let any = [&created[..], &[Touch::AnyNodeKey]].concat();
    for before in [
        "UNWIND $rows AS row WITH coalesce(null, row, {q: 1}) AS row",
        "UNWIND $rows AS row WITH row {.*, q: 1} AS row",
        "UNWIND $rows AS row WITH apoc.map.merge(row, {q: 1}) AS row",
        "UNWIND $rows AS row WITH 1 AS one UNWIND $other AS row",
        "UNWIND $rows AS row WITH 1 AS one MATCH (row:A)",
        "UNWIND $rows + $other AS row",
        "UNWIND [$rows] AS row",
        "UNWIND $unknown AS row",
    ] {
        touches_with(&format!("{before} {upsert}"), &given, &any);
    }
    touches_with("UNWIND $rows AS row MERGE (n:L {id: row.id}) SET n = row", &given, &any);
    let one = "UNWIND $rows AS row MATCH (n:L {id: row.id}) SET n += row";
    let none = [Value::Null, Value::List(Vec::new())].map(|value| params(&[("rows", value)]));
    none.iter().for_each(|given| touches_with(one, given, &[]));
    touches_with(one, &params(&[("rows", Value::Map(vec![("x".to_owned(), Value::Int(1))]))]), &[key("x")]);
    let mixed = Value::List(vec![Value::Map(Vec::new()), Value::from("x")]);
    touches_with(one, &params(&[("rows", mixed)]), &[Touch::AnyNodeKey]);
}

#[test]
fn t14_maps_inside_of_rows_and_parameters() {
    let inner = Value::Map(vec![("x".to_owned(), Value::Int(1))]);
    let row =
        |inner: Value| Value::Map(vec![("id".to_owned(), Value::Int(1)), ("properties".to_owned(), inner)]);
    let given = params(&[
        ("rows", Value::List(vec![row(inner.clone()), row(Value::Null), row(Value::Map(Vec::new()))])),
        ("p", row(inner)),
    ]);
    touches_with("UNWIND $rows AS row MATCH (n {id: row.id}) SET n += row.properties", &given, &[key("x")]);
    touches_with("MATCH (n:A) SET n += $p.properties", &given, &[key("x")]);
    touches_with("MATCH (n:A) SET n += $p.nothing", &given, &[]);
    touches_with("MATCH (n:A) SET n += $p.id", &given, &[Touch::AnyNodeKey]);
    touches_with("UNWIND $rows AS row MATCH (n:A) SET n += row['properties']", &given, &[Touch::AnyNodeKey]);
    let wide: Vec<String> = (0..300).map(|at| format!("k{at}")).collect();
    let wide: Vec<&str> = wide.iter().map(String::as_str).collect();
    let given = params(&[("rows", rows(&[&wide]))]);
    touches_with("UNWIND $rows AS row MATCH (n:A) SET n += row", &given, &[Touch::AnyNodeKey]);
}

/// Neo4j counts nothing of what a procedure does, so counters narrow nothing beside one.
#[test]
fn t13_procedures_that_write() {
    let given = params(&[
        ("labels", Value::List(vec!["A".into(), "B".into()])),
        ("props", Value::Map(vec![("p".to_owned(), Value::Int(1))])),
    ]);
    let node = [Touch::NodeCreated, new_label("A"), new_label("B")];
    touches_with("CALL apoc.merge.node($labels, {id: 1}, {a: 1}) YIELD node RETURN node", &given, &node);
    let matched = [&node[..], &[key("p")]].concat();
    touches_with(
        "CALL apoc.merge.node(['A', 'B'], {id: 1}, {a: 1}, $props) YIELD node RETURN node",
        &given,
        &matched,
    );
    // APOC writes these names into a statement as they are.
    for merge in [
        r"CALL apoc.merge.node(['B`:`A'], {id: 1}) YIELD node RETURN node",
        r"CALL apoc.merge.node(['A'], {`id``: 1}) SET n.y = 2 //`: 1}) YIELD node RETURN node",
        r"CALL apoc.merge.node([$nobody], {id: 1}) YIELD node RETURN node",
        r"CALL apoc.merge.node(['A'], $nobody) YIELD node RETURN node",
        r"CALL apoc.merge.node(['\\u0041'], {id: 1}) YIELD node RETURN node",
        r"MATCH (a), (b) CALL apoc.merge.relationship(a, 'R`', {}, {}, b) YIELD rel RETURN rel",
    ] {
        touches(merge, &[Touch::Anything]);
    }
    touches(
        "CALL apoc.create.node([$l], {id: 1}) YIELD node RETURN node",
        &[Touch::NodeCreated, Touch::NewAnyLabel],
    );
    touches(
        "MATCH (a:A), (b:B) CALL apoc.merge.relationship(a, 'R', {}, {}, b, {w: 1}) YIELD rel RETURN rel",
        &[relationship("R"), Touch::RelationshipKey("w".to_owned())],
    );
    touches(
        "MATCH (a:A), (b:B) CALL apoc.create.relationship(a, a.t, {}, b) YIELD rel RETURN rel",
        &[Touch::AnyRelationship],
    );
    touches("MATCH (n:A) CALL db.create.setNodeVectorProperty(n, 'v', $v)", &[key("v")]);
    touches(
        "MATCH (n:A) CALL apoc.create.addLabels(n, ['B']) YIELD node AS m SET m.x = 1",
        &[label_changed("B"), key("x")],
    );
    touches(
        "MATCH (n:A) CALL apoc.create.setLabels(n, ['B']) YIELD node RETURN 1",
        &[Touch::AnyLabelChanged],
    );
    touches("MATCH (n:A) CALL apoc.util.validate(n.x > 1, 'no', []) SET n.x = 1", &[key("x")]);
    for write in [
        "CALL apoc.merge.node $x",
        "CALL apoc.merge.node",
        "CALL apoc.Merge.node(['A'], {})",
        "CALL `apoc.merge`.node(['A'], {})",
        "CALL apoc.periodic.iterate('MATCH (n) RETURN n', 'SET n.x = 1', {})",
        "MATCH (n:A) CALL apoc.cypher.doIt('SET n.x = 1', {n: n}) YIELD value RETURN value",
        "CALL db.labels() YIELD label CREATE (:A)",
    ] {
        touches(write, &[Touch::Anything]);
    }
    let effects = WriteEffects::of(
        "MATCH (n:A) CALL apoc.create.addLabels(n, ['B']) YIELD node SET node.x = 1",
        &[0xa0],
    );
    assert_eq!((effects.transactions_max(), effects.tokens()), (None, None));
    assert_eq!(effects.narrowed(&Counters::default()), effects);
    let validated =
        WriteEffects::of("MATCH (n:A) CALL apoc.util.validate(n.x > 1, 'no', []) SET n.x = 1", &[0xa0]);
    assert_eq!(validated.narrowed(&Counters::default()).ids(), &[]);
    needs(
        "MATCH (n:A) CALL apoc.util.validate(n.x > 1, 'no', [n.y]) RETURN n.z",
        &[label("A"), node_key("x"), node_key("y"), node_key("z")],
    );
}
