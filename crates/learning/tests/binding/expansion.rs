//! Neighbours: only of labelled nodes, by the key of the statement's own anchor.

use hopcache_learning::expansion::neighbours;
use hopcache_learning::fields::Fields;
use hopcache_packstream::Value;

use crate::values::{map, node, params, result};

const FRIENDS: &str = "MATCH (p:Person {id: $id})-[:KNOWS]-(f:Person) RETURN f.id, f.age LIMIT $limit";
const NODES: &str = "MATCH (p:Person)-->(x) WHERE p.id = $id RETURN x";

fn own() -> Vec<u8> {
    params(&[("id", 10.into()), ("limit", 50.into())])
}

fn with_id(id: impl Into<Value>) -> Vec<u8> {
    params(&[("id", id.into()), ("limit", 50.into())])
}

fn found(statement: &str, columns: &[&str], rows: &[Vec<Value>], depth: usize) -> Vec<Vec<u8>> {
    let fields = Fields::of(&result(columns, rows));
    neighbours(statement, &own(), &fields, depth).into_iter().map(|found| found.params).collect()
}

#[test]
fn columns_that_the_text_shows_to_be_ids_are_expanded() {
    let rows: Vec<_> = [20, 10, 30, 20, 40].map(|id: i64| vec![id.into(), 33.into()]).to_vec();
    assert_eq!(found(FRIENDS, &["f.id", "f.age"], &rows, 9), [with_id(20), with_id(30), with_id(40)]);
    assert_eq!(found(FRIENDS, &["f.id", "f.age"], &rows, 1), [with_id(20)], "depth");
    assert!(found(FRIENDS, &["f.id", "f.age"], &rows, 0).is_empty());
    assert!(found(FRIENDS, &["f.age"], &rows, 9).is_empty(), "never any integer");
}

#[test]
fn nodes_with_the_label_and_key_are_expanded_wherever_they_stand() {
    let person = |id: i64| node(&["Admin", "Person"], &[("id", id.into()), ("age", 33.into())]);
    let post = node(&["Post"], &[("id", 99.into())]);
    let rows = [
        vec![post.clone()],
        vec![person(20)],
        vec![person(10)],
        vec![node(&["Person"], &[("name", "Ann".into())])],
        vec![map(&[
            ("friend", person(30)),
            ("post", post),
            ("id", 55.into()),
            ("Person", map(&[("id", 56.into())])),
        ])],
    ];
    assert_eq!(found(NODES, &["x"], &rows, 9), [with_id(20), with_id(30)]);
}

#[test]
fn without_a_sure_anchor_nothing_is_expanded() {
    let rows = [vec![node(&["Person"], &[("id", 20.into())]), 20.into()]];
    for statement in [
        "MATCH (p {id: $id}) RETURN p, p.id",
        "MATCH (p:Person {id: 10}) RETURN p, p.id",
        "MATCH (p:Person) RETURN p, p.id",
        "MATCH (p:Person) WHERE p.id = $id OR p.x = 1 RETURN p, p.id",
        "MATCH (p:Person {id: $other}) RETURN p, p.id",
        "MATCH (p:Post {id: $id}) RETURN p",
        "RETURN $id AS p",
        "",
    ] {
        assert!(found(statement, &["p", "p.id"], &rows, 9).is_empty(), "{statement}");
    }
}

/// An id of another type belongs to another key, or is a type error at the server.
#[test]
fn ids_are_of_the_anchors_type() {
    let rows = [vec!["20".into()], vec![Value::Float(20.0)], vec![Value::Bool(true)], vec![21.into()]];
    assert_eq!(found(FRIENDS, &["f.id"], &rows, 9), [with_id(21)]);
    let text = params(&[("id", "10".into())]);
    let fields = Fields::of(&result(&["f.id"], &rows));
    let found = neighbours("MATCH (f:Person {id: $id}) RETURN f.id", &text, &fields, 9);
    assert_eq!((found.len(), &found[0].params, found[0].row), (1, &params(&[("id", "20".into())]), 0));
    let flag = params(&[("id", Value::Bool(false))]);
    assert!(neighbours("MATCH (f:Person {id: $id}) RETURN f.id", &flag, &fields, 9).is_empty());
}

/// I9: 10⁵ ids in the result, and a statement of a megabyte.
#[test]
fn huge_results_are_little_work() {
    let rows: Vec<_> = (20..100_020_i64).map(|id| vec![id.into()]).collect();
    assert_eq!(found(FRIENDS, &["f.id"], &rows, usize::MAX).len(), 8);
    let long = format!("{FRIENDS} /* {} */", "x".repeat(1 << 20));
    assert!(found(&long, &["f.id"], &rows, 9).is_empty());
}
