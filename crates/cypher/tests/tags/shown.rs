//! Results that show which nodes they are about: rows, and the writes that end them or do not.

#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{SHOWN_BYTES_MAX, SHOWN_NODES_MAX};
use hopcache_core::tags::{Depends, Key, Viewer};
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::{Accounted, WriteEpoch, WriteEvent, WritePosition, WritePositionTable};
use hopcache_cypher::tags::anchored::{AnchoredWrite, ReadShape};
use hopcache_packstream::{Value, encode, tag};

const NAME: DatabaseTag = DatabaseTag(1);
const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);
const ELEMENT: &str = "4:0c5a9f3e-1111-4222-8333-944455566677:";

fn map(entries: &[(&str, Value)]) -> Value {
    Value::Map(entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect())
}

fn list(items: &[Value]) -> Value {
    Value::List(items.to_vec())
}

/// A node with this id, and `x`.
fn node(id: i64) -> Value {
    node_with(id, &[("id", Value::Int(id)), ("x", Value::Int(0))])
}

fn node_with(number: i64, properties: &[(&str, Value)]) -> Value {
    let element = Value::from(format!("{ELEMENT}{number}").as_str());
    let fields = vec![Value::Int(number), list(&["A".into()]), map(properties), element];
    Value::Struct { tag: tag::NODE, fields }
}

fn path(nodes: &[Value]) -> Value {
    Value::Struct { tag: tag::PATH, fields: vec![list(nodes), list(&[]), list(&[])] }
}

fn params() -> Vec<u8> {
    let element = Value::from(format!("{ELEMENT}42").as_str());
    encode(&map(&[("one", Value::Int(1)), ("element", element), ("many", list(&[42.into(), 43.into()]))]))
}

fn records(rows: &[&[Value]]) -> Vec<u8> {
    rows.iter().flat_map(|row| encode(&list(row))).collect()
}

/// What a node knows that has heard of the write alone.
fn told(write: &str) -> WritePositionTable {
    let position = Position { database: DATABASE, id: TransactionId(9) };
    let written = WritePosition::at(WriteEpoch(0), position);
    let touched = AnchoredWrite::of(write, &params()).told();
    let mut table = WritePositionTable::default();
    table.take_event(&WriteEvent { name: NAME, written, since: TransactionId(8), touched }, MonoTime(0));
    table.account(
        DATABASE,
        (WriteEpoch(0), Accounted { reached: TransactionId(9), foreign: TransactionId(0) }),
    );
    table
}

fn ends(table: &WritePositionTable, depends: Depends<'_>) -> bool {
    let needed = table.needed_by(NAME, depends).and_then(|needed| needed.position());
    needed.is_some_and(|needed| needed.id.0 > 0)
}

/// Whether the write ends a result with these rows. Text and parameters alone would say so.
#[track_caller]
fn ends_rows(read: &str, rows: &[u8], write: &str) -> bool {
    let (shape, table) = (ReadShape::of(read), told(write));
    let (needs, of_text) = (shape.told(&[]), shape.told_classes(&params()));
    let classes = of_text.clone().unwrap_or_default();
    let of_read = Depends::OnNeeds(&needs, &classes, Viewer::default());
    assert!(ends(&table, of_read), "anchors separate these: {read} / {write}");
    let Some(shown) = shape.told_shown(&[], &table.covered_keys(DATABASE, &needs)) else { return true };
    let Some(classes) = shown.classes((of_text.as_ref(), rows), usize::MAX) else { return true };
    ends(&table, Depends::OnNeeds(shown.needs(), &classes, Viewer::default()))
}

const SET: &str = "MATCH (k:A {id: 42}) SET k.x = 1";
const SET_BY_ELEMENT: &str = "MATCH (k) WHERE elementId(k) = $element SET k.x = 1";

/// Whether a write to the node 42 ends a result that shows 7, and that it ends one that shows 42.
#[track_caller]
fn is_kept_for(read: &str, write: &str, row: impl Fn(i64) -> Vec<Value>) -> bool {
    assert!(ends_rows(read, &records(&[&row(7), &row(42)]), write), "{read} / {write}");
    !ends_rows(read, &records(&[&row(7), &row(8)]), write)
}

#[test]
fn whole_nodes_tell_which_they_are() {
    for read in [
        "MATCH (n:A) RETURN n",
        "MATCH (n:A) RETURN DISTINCT n ORDER BY n.y LIMIT 2",
        "MATCH (:B {id: $one})<-[:R]-(n:A) RETURN n",
        "MATCH (n:A) WITH n AS k RETURN k",
        "MATCH (n:A) WITH collect(n) AS ns UNWIND ns AS k RETURN k",
        "MATCH (n:A) RETURN head(collect(n)) AS k",
        "MATCH (n:A) OPTIONAL MATCH (n)-[:R]->(m) RETURN coalesce(m, n) AS k",
        "MATCH (n:A) CALL (n) { MATCH (n)-[:R]->(m) RETURN m } RETURN m",
    ] {
        for write in [SET, SET_BY_ELEMENT] {
            assert!(is_kept_for(read, write, |id| vec![node(id)]), "{read} / {write}");
        }
        assert!(is_kept_for(read, "MATCH (k {id: 42}) SET k += {x: 1}", |id| vec![node(id)]), "{read}");
        assert!(is_kept_for(read, "MATCH (k {id: 42}) SET k:New", |id| vec![node(id)]), "{read}");
    }
    let read = "MATCH (n:A) RETURN collect(n) AS ns";
    assert!(is_kept_for(read, SET, |id| vec![list(&[node(1), node(id)])]));
    let read = "MATCH (n:A)-[:R]->(m) RETURN {node: n, other: [m]} AS both";
    assert!(is_kept_for(read, SET, |id| vec![map(&[("node", node(1)), ("other", list(&[node(id)]))])]));
    let read = "MATCH p = (:A)-[:R]->() RETURN p";
    assert!(is_kept_for(read, SET, |id| vec![path(&[node(1), node(id)])]));
}

#[test]
fn a_key_beside_what_is_read_tells_as_well() {
    let (x, seven) = (Value::Int(0), Value::Int(7));
    let read = "MATCH (n:A) RETURN n.id AS id, n.x AS x, labels(n) AS l, properties(n) AS p";
    assert!(is_kept_for(read, SET, |id| vec![id.into(), x.clone(), list(&[]), map(&[])]));
    assert!(is_kept_for(read, "MATCH (k {id: 42}) SET k:New", |id| vec![
        id.into(),
        x.clone(),
        list(&[]),
        map(&[])
    ]));
    let read = "MATCH (n:A) RETURN n {.id, .x, y: n.y} AS n";
    let shown = |id: i64| vec![map(&[("id", id.into()), ("x", Value::Int(0)), ("y", Value::Null)])];
    assert!(is_kept_for(read, SET, shown) && is_kept_for(&read.replace(".x", ".*"), SET, shown));
    let read = "MATCH (n:A) RETURN collect(DISTINCT n {.id, .x}) AS ns, sum(n.x) AS sum";
    assert!(is_kept_for(read, SET, |id| vec![list(&shown(id)), seven.clone()]));
    let read = "MATCH (n:A) RETURN collect({k: {id: n.id}, x: n.x}) AS ns";
    assert!(is_kept_for(read, SET, |id| vec![list(&[map(&[("k", map(&[("id", id.into())]))])])]));
    // A pattern that begins with such a node.
    let read = "MATCH (n:A) RETURN n.id AS id, COUNT { (n)<-[:R]-(:B) } AS c";
    let write = "MATCH (k:A {id: 42}), (b:B {id: 9}) CREATE (b)-[:R]->(k)";
    assert!(is_kept_for(read, write, |id| vec![id.into(), x.clone()]));
}

/// The order of all rows is a matter of these rows; which rows are shown is not.
#[test]
fn what_chooses_the_rows_is_not_a_matter_of_the_rows() {
    let row = |id: i64| vec![id.into(), Value::Int(0)];
    let kept = |read: &str| is_kept_for(read, SET, row);
    assert!(kept("MATCH (n:A) RETURN n.id AS id, n.x AS x ORDER BY x"));
    assert!(kept("MATCH (n:A) RETURN n.id AS id, n.x AS x ORDER BY n.y, id SKIP 1 LIMIT 2"));
    assert!(kept("MATCH (n:A) RETURN n.id AS id, sum(n.x) AS x"));
    assert!(!kept("MATCH (n:A) RETURN n.id AS id, n.x AS x ORDER BY x LIMIT 2"));
    assert!(!kept("MATCH (n:A) RETURN n.id AS id, n.x AS x ORDER BY n.x LIMIT 2"));
    assert!(!kept("MATCH (n:A) RETURN n.id AS id, n.x + 1 AS x ORDER BY toString(x) SKIP 2"));
    assert!(!kept("MATCH (n:A) RETURN DISTINCT n.id AS id, n.x AS x ORDER BY id SKIP 2"));
    assert!(!kept("MATCH (n:A) RETURN n.id AS id, sum(n.x) AS x ORDER BY id LIMIT 2"));
    assert!(!kept("MATCH (n:A) WHERE n.x > 0 RETURN n.id AS id, n.x AS x"));
    assert!(!kept("MATCH (n:A) WITH n ORDER BY n.x RETURN n.id AS id, n.x AS x"));
    assert!(!kept("MATCH (n:A) RETURN n.id AS id, n.x AS x ORDER BY COUNT { (n)--({y: x}) } LIMIT 2"));
}

#[test]
fn what_only_looks_like_a_shown_node_is_none() {
    let one = |value: fn(i64) -> Value| move |id| vec![value(id), Value::Int(0)];
    let column = one(Value::Int);
    for read in [
        "MATCH (n:A)-[:R]->(m) RETURN n.id AS id, m.x AS x",
        "MATCH (n:A)-[:R]->(m) WITH n AS m, m AS n RETURN m.id AS id, n.x AS x",
        "MATCH (n:A) RETURN toInteger(n.id) AS id, n.x AS x",
        "MATCH (n:A) RETURN n.id + 0 AS id, n.x AS x",
        "MATCH (n:A) RETURN n.id AS id, [n IN [n] | n.x][0] AS x",
        "MATCH (n:A) RETURN n.id AS id, 0 AS x UNION MATCH (n:B) RETURN n.y AS id, n.x AS x",
        "MATCH (n:A) WITH point({x: n.x, y: n.x}) AS n RETURN 0 AS id, n AS x",
        "MATCH (n:A) WITH point(n) AS k RETURN 0 AS id, k AS x",
        "MATCH (n:A) RETURN 0 AS id, point(n) AS x",
        "MATCH (n:A) WITH n.x AS x, n.id AS id RETURN id, x",
    ] {
        assert!(!is_kept_for(read, SET, column), "{read}");
    }
    let shown = |id: i64| vec![map(&[("id", id.into()), ("x", Value::Int(0))])];
    for read in [
        "MATCH (n:A)-[:R]->(m) RETURN n {.x, id: m.id} AS n",
        "MATCH (n:A) WITH n, 1 AS id RETURN n {.*, id} AS n",
        "MATCH (n:A) RETURN n {.*, id: 1} AS n",
    ] {
        assert!(!is_kept_for(read, SET, shown), "{read}");
    }
    let read = "MATCH (n:A) RETURN collect(n.id) AS ids, sum(n.x) AS x";
    assert!(!is_kept_for(read, SET, |id| vec![list(&[id.into()]), Value::Int(0)]), "nulls are left out");
    let read = "MATCH (n:A) OPTIONAL MATCH (m:B) RETURN m {.y, at: n {.id}} AS m, n.x AS x";
    let row = |id: i64| vec![map(&[("at", map(&[("id", id.into())]))]), Value::Int(0)];
    assert!(!is_kept_for(read, SET, row), "where m is null, n is not shown");
}

/// Maps that are made in subqueries, and that only the result tells.
#[test]
fn maps_that_are_passed_on_tell_their_nodes() {
    let shown = |id: i64| map(&[("id", id.into()), ("x", Value::Int(0))]);
    let inner = "MATCH (this:B {id: $one}) CALL (this) { MATCH (this)-[:R]->(n:A)";
    let outer = "RETURN this {.y, ms: ms} AS this";
    let row = |id: i64| vec![map(&[("y", Value::Null), ("ms", list(&[shown(1), shown(id)]))])];
    let kept = |read: &str| is_kept_for(read, SET, row);
    assert!(kept(&format!("{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} {outer}")));
    assert!(kept(&format!("{inner} WITH n {{.*}} AS n RETURN collect(DISTINCT n) AS ms }} {outer}")));
    assert!(kept(&format!("{inner} RETURN collect(n {{.id, .x}}) AS ms }} {outer}")));
    assert!(kept(&format!(
        "{inner} WITH n ORDER BY n.y LIMIT 3 RETURN collect(n {{.id, .x}}) AS ms }} {outer}"
    )));
    assert!(kept(&format!(
        "{inner} RETURN collect(n {{.id, .x}}) AS ms }} WITH this, ms AS k {}",
        outer.replace("ms: ms", "ms: k")
    )));
    let row = |id: i64| vec![map(&[("one", shown(id))])];
    let head =
        format!("{inner} WITH n {{.id, .x}} AS n RETURN head(collect(n)) AS n }} RETURN {{one: n}} AS k");
    assert!(is_kept_for(&head, SET, row));
    // A value that something else depends on.
    for read in [
        format!("{inner} WITH n {{.id, .x}} AS n WHERE n.x > 0 RETURN collect(n) AS ms }} {outer}"),
        format!("{inner} WITH n {{.id, .x}} AS n ORDER BY n.x LIMIT 3 RETURN collect(n) AS ms }} {outer}"),
        format!("{inner} WITH DISTINCT n {{.id, .x}} AS n RETURN collect(n) AS ms }} {outer}"),
        format!("{inner} WITH n {{.id, .x}} AS n, count(*) AS c RETURN collect(n) AS ms }} {outer}"),
        format!(
            "{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} WITH this, ms WHERE size(ms) = 1 {outer}"
        ),
        format!(
            "{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} WITH this, ms, count(*) AS c {outer}"
        ),
        format!(
            "{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} WITH this, ms[1..] AS ms {outer}"
        ),
        format!(
            "{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} WITH this, [n IN ms | n] AS ms {outer}"
        ),
        format!(
            "{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} {outer} ORDER BY this.ms LIMIT 2"
        ),
        format!(
            "{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} RETURN DISTINCT this {{.y, ms: ms}} AS this LIMIT 2"
        ),
        format!(
            "{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms UNION WITH this RETURN [] AS ms }} {outer}"
        ),
        format!("{inner} WITH n {{.x, id: this.id}} AS n RETURN collect(n) AS ms }} {outer}"),
    ] {
        assert!(ends_rows(&read, &records(&[&row(7)]), SET), "{read}");
        let row = vec![map(&[("y", Value::Null), ("ms", list(&[shown(1), shown(7)]))])];
        assert!(ends_rows(&read, &records(&[&row]), SET), "{read}");
    }
    // The same maps in two places, of which the one has fewer.
    let read = format!("{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} RETURN ms, head(ms) AS k");
    assert!(is_kept_for(&read, SET, |id| vec![list(&[shown(7), shown(id)]), shown(7)]));
    let read = format!("{inner} WITH n {{.id, .x}} AS n RETURN collect(n) AS ms }} RETURN head(ms) AS k, ms");
    assert!(is_kept_for(&read, SET, |id| vec![shown(7), list(&[shown(7), shown(id)])]));
}

/// A shown node that gets another value is no longer told apart; one that gets a shown value may be one of them.
#[test]
fn a_change_of_what_is_shown_ends_a_result() {
    for (read, rows) in [
        ("MATCH (n:A) RETURN n", records(&[&[node(7)]])),
        ("MATCH (n:A) RETURN n.id AS id, n.x AS x", records(&[&[Value::Int(7), Value::Int(0)]])),
    ] {
        let ends = |write| ends_rows(read, &rows, write);
        assert!(ends("MATCH (k {id: 7}) SET k.id = 42"));
        assert!(ends("MATCH (k {id: 42}) SET k.id = 7"));
        assert!(ends("MATCH (k {id: 42}) SET k.id = k.y"));
        assert!(ends("MATCH (k {y: 1}) SET k.id = 9, k.x = 1"));
        assert!(ends("MATCH (k {y: 1}) SET k = {id: 9}"));
        assert!(ends("MATCH (k {id: 42}) SET k = {id: 7}"));
        assert!(ends("MATCH (k:A) SET k.x = 1"));
        assert!(!ends("MATCH (k {id: 42}) SET k.id = 43"));
        assert!(!ends("MATCH (k {id: 42}) SET k = {id: 42, x: 1}"));
        assert!(!ends("UNWIND $many AS id MATCH (k {id: id}) SET k.x = 1"));
    }
}

#[test]
fn no_node_is_none() {
    let (none, read) =
        (Value::Null, "MATCH (n:A) OPTIONAL MATCH (n)-[:R]->(m) RETURN n, m, m {.id, .x} AS k");
    assert!(!ends_rows(read, &records(&[&[node(7), none.clone(), none.clone()]]), SET));
    assert!(!ends_rows(read, &records(&[]), SET));
    assert!(ends_rows(read, &records(&[&[node(7), node(42), none.clone()]]), SET));
    // Whether there is no node, or one without an id.
    let read = "MATCH (n:A) OPTIONAL MATCH (n)-[:R]->(m) RETURN m.id AS id, m.x AS x";
    assert!(ends_rows(read, &records(&[&[none.clone(), none.clone()]]), SET));
    let read = "MATCH (n:A) RETURN n";
    for odd in [Value::Bool(true), list(&[7.into()]), Value::Float(f64::NAN), Value::Null] {
        let rows = records(&[&[node(7)], &[node_with(8, &[("id", odd)])]]);
        assert!(ends_rows(read, &rows, SET));
        assert!(!ends_rows(read, &rows, SET_BY_ELEMENT), "its other key tells");
    }
    assert!(ends_rows(read, &records(&[&[node_with(42, &[("id", Value::Float(42.0))])]]), SET));
}

#[test]
fn a_large_result_tells_nothing() {
    let read = "MATCH (n:A) RETURN n";
    let most = i64::try_from(SHOWN_NODES_MAX).unwrap();
    let rows = |count: i64| (100..100 + count).flat_map(|id| records(&[&[node(id)]])).collect::<Vec<u8>>();
    assert!(!ends_rows(read, &rows(most), SET) && ends_rows(read, &rows(most + 1), SET));
    let long = "x".repeat(SHOWN_BYTES_MAX);
    let rows = records(&[&[node_with(7, &[("id", Value::Int(7)), ("text", long.as_str().into())])]]);
    assert!(ends_rows(read, &rows, SET));
    assert!(ends_rows(read, &[0x91], SET) && ends_rows(read, &[0x01], SET), "these are no rows");
    let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    let read = format!("MATCH ({}) RETURN {}", names.join(")-[:R]->("), names.join(", "));
    let rows = |count: i64| {
        (100..100 + count).flat_map(|id| records(&[&vec![node(id); names.len()]])).collect::<Vec<u8>>()
    };
    assert!(
        !ends_rows(&read, &rows(40), SET) && ends_rows(&read, &rows(60), SET),
        "more classes than are kept"
    );
}

/// One that was read before the other could hide the other's change: each is judged by itself.
#[test]
fn each_of_two_keys_is_judged_by_itself() {
    let shape = ReadShape::of("MATCH (n:A) RETURN n");
    let keys = ["id", "y"].map(|name| Key::Property(Box::from(name)));
    let shown = shape.told_shown(&[], &keys).unwrap();
    let rows = records(&[&[node_with(1, &[("id", Value::Int(7)), ("y", Value::Int(8))])]]);
    let classes = shown.classes((None, &rows), usize::MAX).unwrap();
    let ends = |write| ends(&told(write), Depends::OnNeeds(shown.needs(), &classes, Viewer::default()));
    assert!(!ends("MATCH (k {id: 7, y: 42}) SET k.x = 1") && !ends("MATCH (k {id: 42}) SET k.x = 1"));
    assert!(ends("MATCH (k {id: 7, y: 8}) SET k.x = 1"));
    // The run has seen y as 8, and id as it was before this write.
    assert!(ends("MATCH (k {id: 7, y: 42}) SET k.id = 1"));
    assert!(ends("MATCH (k {id: 42, y: 8}) SET k.y = 1"));
    assert!(shape.told_shown(&[], &[]).is_none());
    assert!(ReadShape::of("MATCH (n:A) RETURN n.x").told_shown(&[], &keys).is_none());
    assert!(!ReadShape::of("MATCH (n:A) RETURN count(n) AS c").shows_nodes());
}

/// In words: what is read of nodes that the result shows.
#[test]
fn needs_of_shown_nodes() {
    let words = |read| {
        let needs = ReadShape::of(read).words();
        needs.into_iter().filter(|need| need.contains("shown")).collect::<Vec<_>>()
    };
    assert_eq!(
        words("MATCH (n:A) RETURN n.id AS id, n.x AS x, n.y AS y ORDER BY y LIMIT 3"),
        [".id of nodes at (:A) shown", ".x of nodes at (:A) shown"]
    );
    assert_eq!(
        words("MATCH (n:A)-[:R]->(m:B) RETURN n.x AS x, m ORDER BY m.y LIMIT 3"),
        [".x of nodes at (:A) shown", "any label at (:B) shown", "any property of nodes at (:B) shown"]
    );
    assert_eq!(words("MATCH (n:A)-[:R]->(m) RETURN count(m) AS c, n.x + 1 AS x"), [""; 0]);
    assert_eq!(
        words("MATCH (n:A) WHERE n.x = 1 RETURN n.x AS x"),
        ["lost .x at (:A {x: 1}) shown", "gained .x at (:A {x: 1}) shown"]
    );
    assert_eq!(words("MATCH (n:A) RETURN *"), [""; 0]);
}

/// A map with an id, and `x`.
fn shown_map(id: i64) -> Value {
    map(&[("id", id.into()), ("x", Value::Int(0))])
}

/// A map that a `WITH` of an expression's subquery makes is no node of a column, and moves none.
#[test]
fn maps_of_an_expressions_subquery_move_no_shown_node() {
    let made = "MATCH (m)<-[:ON]-(q:Q) WITH q {.id, .text} AS c RETURN c";
    for read in [
        format!("MATCH (n:A)-[:R]->(m:A) RETURN n, m, COLLECT {{ {made} }} AS cs"),
        format!("MATCH (n:A)-[:R]->(m:A) RETURN n, m, COUNT {{ {made} }} AS c"),
        format!("MATCH (n:A)-[:R]->(m:A) RETURN n, m, EXISTS {{ {made} }} AS e"),
        format!("MATCH (n:A)-[:R]->(m:A) RETURN n, m, 0 AS c ORDER BY COUNT {{ {made} }}"),
    ] {
        assert!(is_kept_for(&read, SET, |id| vec![node(1), node(id), Value::Int(0)]), "{read}");
        assert!(is_kept_for(&read, SET, |id| vec![node(id), node(1), Value::Int(0)]), "{read}");
    }
}

/// `ORDER BY` and `WHERE` see the names of before their projection.
#[test]
fn a_map_that_chooses_rows_under_its_old_name_is_used() {
    let before = "MATCH (n:A) WITH n {.id, .x} AS y";
    for (read, row) in [
        ("RETURN y AS m ORDER BY y.x LIMIT 5", shown_map(7)),
        ("RETURN {row: y} AS m ORDER BY y.x LIMIT 5", map(&[("row", shown_map(7))])),
        ("WITH y AS m ORDER BY y.x DESC LIMIT 3 RETURN collect(m) AS ms", list(&[shown_map(7)])),
        ("WITH y AS m WHERE y.x = 0 RETURN m", shown_map(7)),
        ("WITH y AS m WHERE EXISTS { MATCH (:B {y: y.x}) } RETURN m", shown_map(7)),
    ] {
        assert!(ends_rows(&format!("{before} {read}"), &records(&[&[row]]), SET), "{read}");
    }
    let read = "MATCH (n:A) CALL (n) { WITH n {.id, .x} AS y RETURN y AS m ORDER BY y.x LIMIT 3 } RETURN m";
    assert!(ends_rows(read, &records(&[&[shown_map(7)]]), SET), "{read}");
    assert!(is_kept_for(&format!("{before} RETURN y AS m LIMIT 5"), SET, |id| vec![shown_map(id)]));
}

/// `DISTINCT` keeps the first of equal values, so hidden ones decide which is the last.
#[test]
fn the_last_of_a_list_depends_on_hidden_maps() {
    let before = "MATCH (n:A) WITH n ORDER BY n.y WITH n {.id, .x} AS y";
    for read in [
        "RETURN last(collect(DISTINCT y)) AS l",
        "WITH last(collect(DISTINCT y)) AS l RETURN l",
        "WITH collect(DISTINCT y) AS ys RETURN last(ys) AS l",
    ] {
        assert!(ends_rows(&format!("{before} {read}"), &records(&[&[shown_map(7)]]), SET), "{read}");
    }
    let read = format!("{before} WITH collect(DISTINCT y) AS ys RETURN head(ys) AS l");
    assert!(is_kept_for(&read, SET, |id| vec![shown_map(id)]));
}

/// Which of two entries with one name counts is the server's choice.
#[test]
fn a_map_with_one_key_twice_shows_nothing() {
    let found = "MATCH (n:A)-[:R]->(m:A)";
    for (read, row) in [
        ("RETURN {id: n.id, id: m.id} AS k, n.x AS x", vec![map(&[("id", 7.into())]), Value::Int(0)]),
        ("RETURN collect({id: n.id, id: m.id, x: m.x}) AS ks", vec![list(&[shown_map(7)])]),
        (
            "WITH n {.id, .x} AS n, m {.id, .x} AS m RETURN {k: n, k: m} AS ks",
            vec![map(&[("k", shown_map(7))])],
        ),
    ] {
        assert!(ends_rows(&format!("{found} {read}"), &records(&[&row]), SET), "{read}");
    }
}

/// Which keys count does not depend on which of two writes was the latest.
#[test]
fn the_keys_that_tell_nodes_apart_have_one_order() {
    let shape = ReadShape::of("MATCH (n:A)-[:R]->(m) RETURN n.id AS id, n.x AS x, m");
    let keys = |names: &[&str]| names.iter().map(|name| Key::Property(Box::from(*name))).collect::<Vec<_>>();
    assert_eq!(shape.shown_keys(&keys(&["x", "id"])), shape.shown_keys(&keys(&["id", "x"])));
    assert_eq!(shape.shown_keys(&keys(&["x", "id"])), keys(&["id", "x"]));
    assert_eq!(
        shape.shown_keys(&keys(&["y", "z", "id", "x"])),
        keys(&["id", "x", "y", "z"]),
        "two of each node"
    );
    assert_eq!(shape.shown_keys(&[]), []);
    let alone = ReadShape::of("MATCH (n:A) RETURN n.id AS id, n.x AS x");
    assert_eq!(alone.shown_keys(&keys(&["y", "z"])), [], "it shows none of these");
}
