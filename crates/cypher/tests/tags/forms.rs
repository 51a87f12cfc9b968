//! A write that is read once for all parameters of one form tells of each run what a reading for that run alone tells.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_core::tags::{ClassId, Touched};
use hopcache_cypher::tags::anchored::{AnchoredWrite, ParamsForm, WriteForm};
use hopcache_cypher::tags::{Counters, WriteEffects};
use hopcache_packstream::{Value, encode};

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

/// Values of one form for each `run`.
fn params(run: i64) -> Vec<u8> {
    let id = format!("4:5f0e8b3a-1b2c-4d5e-8f90-a1b2c3d4e5f6:{run}");
    let row = |of: i64| map(&[("id", Value::Int(run + of)), ("x", Value::String(format!("x{run}")))]);
    let float = Value::Float(0.5 + f64::from(i32::try_from(run).unwrap()));
    encode(&map(&[
        ("a", Value::Int(run)),
        ("b", Value::String(run.to_string())),
        ("again", Value::Int(run)),
        ("float", float),
        ("eid", Value::String(id)),
        ("null", Value::Null),
        ("true", Value::Bool(run % 2 == 0)),
        ("nan", Value::Float(f64::NAN)),
        ("list", Value::List(vec![Value::Int(run), Value::Int(-run - 1)])),
        ("row", row(0)),
        ("rows", Value::List(vec![row(0), row(1_000)])),
    ]))
}

const WRITES: [&str; 30] = [
    "CREATE (:A {id: $a, x: $b})",
    "CREATE (n:A {id: $a}) SET n.x = $b, n.y = $null, n.z = $true",
    "CREATE (:A {id: $nan, x: $float})-[:R {w: $a}]->(:B {id: $again})",
    "MATCH (n:A {id: $a}) SET n.x = $b",
    "MATCH (n:A {id: $a}) SET n.id = $b",
    "MATCH (n:A {id: $a}) SET n.id = 1, n.x = $again",
    "MATCH (n:A {id: $null}) SET n.x = 1",
    "MATCH (n) WHERE elementId(n) = $eid SET n.x = $a",
    "MATCH (n) WHERE elementId(n) = $b SET n.x = $a",
    "MATCH (n) WHERE id(n) = $a DETACH DELETE n",
    "MATCH (n:A) WHERE n.id IN $list SET n.x = 1",
    "MATCH (n:A) WHERE n.id IN [$a, $again, $b] AND n.y = $float SET n.x = 1",
    "MATCH (n:A {id: $row.id}) SET n.x = $row.x",
    "UNWIND $rows AS row MATCH (n:A {id: row.id}) SET n.x = row.x",
    "UNWIND $rows AS row MERGE (n:A {id: row.id}) SET n.x = row.x",
    "UNWIND $rows AS row CREATE (n:A {id: row.id, x: row.x})",
    "MERGE (n:A {id: $a})",
    "MERGE (n:A {id: $a}) ON CREATE SET n.x = $b ON MATCH SET n.x = 'old', n.y = $float",
    "MATCH (a:A {id: $a}), (b:B {id: $b}) MERGE (a)-[r:R]->(b) SET r.w = $float",
    "MATCH (a:A {id: $a})-[r:R]-(:B {id: $b}) DELETE r",
    "MATCH (n:A {id: $a}) SET n += {x: $b, y: $list}",
    "MATCH (n:A {id: $a}) SET n = {id: $again, x: $b}",
    "MATCH (n:A {id: $a}) SET n:B REMOVE n:C, n.x",
    "MATCH (n:A {id: $a}) WITH n AS m, $b AS x SET m.x = x",
    "MATCH (n:A {id: $a}) FOREACH (i IN $list | SET n.x = i)",
    "MATCH (n:A {id: $a}) CALL (n) { SET n.x = $b RETURN 1 AS one } RETURN n",
    "MATCH (n:A {id: $missing}) SET n.x = $a",
    "MATCH (n:A {id: $a}) SET n.list = $list, n.map = $row.x",
    "EXPLAIN MATCH (n:A {id: $a}) SET n.x = 1",
    "MATCH (n:A {id: $a}) CALL { WITH n SET n.x = 1 } IN TRANSACTIONS",
];

fn summaries() -> [Counters; 5] {
    let set = Counters { properties_set: 1, ..Counters::default() };
    [
        Counters::default(),
        set,
        Counters { nodes_created: 1, labels_added: 1, ..set },
        Counters { nodes_created: 2, labels_added: 2, relationships_created: 1, ..set },
        Counters { others: 1, ..set },
    ]
}

#[test]
fn each_run_of_a_form_tells_what_it_tells_alone() {
    let mut told = std::collections::BTreeSet::new();
    for text in WRITES {
        let effects = WriteEffects::of_text(text).unwrap();
        let first = params(7_000);
        let form = WriteForm::of(effects, text, (&first, &ParamsForm::of(&first).unwrap())).unwrap();
        for run in [7_000, 0, 1, 41, 999_999] {
            let params = params(run);
            let (found, alone) = (ParamsForm::of(&params).unwrap(), AnchoredWrite::of(text, &params));
            // 0 and -1: the list's items and `$a`; `$a` and the rows' first id are one value in each run.
            assert!(form.is_of(&found), "{text} {run}");
            assert_eq!(form.told(found.classes()), alone.told(), "{text} {run}");
            assert_eq!(form.effects(), alone.effects(), "{text}");
            assert_eq!(form.tokens().map(|tokens| &**tokens), alone.effects().tokens(), "{text}");
            for counters in summaries() {
                let narrowed = form.narrowed(&counters.as_far_as_they_narrow());
                let alone = alone.narrowed(&counters);
                assert_eq!(narrowed.told(found.classes()), alone.told(), "{text} {run} {counters:?}");
                assert_eq!(narrowed.effects(), alone.effects(), "{text} {counters:?}");
            }
            told.insert(format!("{:?}", alone.told()));
        }
    }
    assert!(told.len() > 60, "values make a difference: {}", told.len());
}

/// The statements of four modelled applications, each with the parameters of a run, and with others of the same form.
#[test]
fn applications_tell_the_same() {
    fn other(value: &mut Value) {
        match value {
            Value::String(text) => text.push('!'),
            Value::Int(number) => *number += 1_000_000,
            Value::List(items) => items.iter_mut().for_each(other),
            Value::Map(entries) => entries.iter_mut().for_each(|(_, value)| other(value)),
            _ => {}
        }
    }
    let mut formed = 0;
    for line in include_str!("apps.tsv").lines().filter(|line| !line.starts_with("//")) {
        let (text, params) = line.split_once('\t').unwrap();
        let mut value = super::anchored_apps::value(&serde_json::from_str(params).unwrap());
        let first = encode(&value);
        let Some(effects) = WriteEffects::of_text(text).filter(|effects| !effects.ids().is_empty()) else {
            continue;
        };
        let Some(form) = WriteForm::of(effects, text, (&first, &ParamsForm::of(&first).unwrap())) else {
            panic!("no form: {text}");
        };
        formed += 1;
        other(&mut value);
        for params in [first, encode(&value)] {
            let (found, alone) = (ParamsForm::of(&params).unwrap(), AnchoredWrite::of(text, &params));
            assert!(form.is_of(&found), "{text}");
            assert_eq!(form.told(found.classes()), alone.told(), "{text}");
        }
    }
    assert!(formed >= 20, "{formed} writes");
}

/// What decides what a write touches is in the form: which values there are, and which are equal.
#[test]
fn other_parameters_have_another_form() {
    let one = |value| encode(&map(&[("p", value)]));
    let two = |value, other| encode(&map(&[("p", value), ("q", other)]));
    let list = |items: &[i64]| Value::List(items.iter().copied().map(Value::Int).collect());
    let all = [
        one(Value::Null),
        one(Value::Bool(true)),
        one(Value::Int(1)),
        one(Value::from("4:5f0e8b3a-1b2c-4d5e-8f90-a1b2c3d4e5f6:1")),
        one(list(&[])),
        one(list(&[1])),
        one(list(&[1, 2])),
        one(list(&[1, 1])),
        one(map(&[("id", Value::Int(1))])),
        one(map(&[("ie", Value::Int(1))])),
        one(map(&[("id", Value::Int(1)), ("id", Value::Int(1))])),
        two(Value::Int(1), Value::Int(1)),
        two(Value::Int(1), Value::Int(2)),
        encode(&map(&[("q", Value::Int(1))])),
        encode(&map(&[])),
    ];
    let effects = || WriteEffects::of_text("MATCH (n {id: $p}) SET n.x = $q").unwrap();
    for (at, params) in all.iter().enumerate() {
        let found = ParamsForm::of(params).unwrap();
        let form = WriteForm::of(effects(), "MATCH (n {id: $p}) SET n.x = $q", (params, &found)).unwrap();
        let same: Vec<usize> =
            (0..all.len()).filter(|at| form.is_of(&ParamsForm::of(&all[*at]).unwrap())).collect();
        assert_eq!(same, [at]);
    }
    let same = |one: &[u8], other: &[u8]| {
        let form =
            WriteForm::of(effects(), "MATCH (n {id: $p}) SET n.x = $q", (one, &ParamsForm::of(one).unwrap()));
        form.unwrap().is_of(&ParamsForm::of(other).unwrap())
    };
    assert!(same(&one(Value::Int(1)), &one(Value::from("b"))), "values of any kind with a class");
    assert!(same(&one(Value::Bool(true)), &one(Value::Float(f64::NAN))), "values without one");
    assert!(same(&two(Value::Int(1), Value::Float(1.0)), &two(Value::from("b"), Value::from("b"))));
}

#[test]
fn what_has_no_form() {
    let nested = (0..20).fold(Value::Int(1), |value, _| Value::List(vec![value]));
    let many = Value::List((0..100).map(Value::Int).collect());
    let long = Value::List(vec![Value::Null; 10_000]);
    for value in [nested, many, long] {
        assert!(ParamsForm::of(&encode(&map(&[("p", value)]))).is_none());
    }
    for params in [encode(&Value::Int(1)), Vec::new(), vec![0xa1], [encode(&map(&[])), vec![1]].concat()] {
        assert!(ParamsForm::of(&params).is_none(), "{params:?}");
    }
    assert!(WriteEffects::of_text("CREATE (n:A) SET n += $row").is_none(), "its names are parameters");
}

/// A literal that happens to be a parameter's value tells no less of the write than it may: the same tags, and its anchors.
#[test]
fn a_literal_beside_an_equal_value_stays() {
    let text = "MATCH (n:A {id: $p}) SET n.id = 1";
    let params = |id| encode(&map(&[("p", Value::Int(id))]));
    let form = WriteForm::of(
        WriteEffects::of_text(text).unwrap(),
        text,
        (&params(5), &ParamsForm::of(&params(5)).unwrap()),
    );
    let form = form.unwrap();
    for id in [1, 2] {
        let (params, classes) = (params(id), ParamsForm::of(&params(id)).unwrap());
        assert_eq!(form.told(classes.classes()), AnchoredWrite::of(text, &params).told());
    }
    let Touched::These(touched) = form.told(&[ClassId(1)]) else { panic!("known") };
    assert!(!touched.refinement().unwrap().anchors().is_empty());
}
