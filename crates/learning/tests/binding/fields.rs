//! Fields: the kept part of a result, and that any result and any bytes do no harm.

use hopcache_core::limits::{FIELDS_BYTES_MAX, FIELDS_LIST_ROWS_MAX};
use hopcache_learning::fields::Fields;
use hopcache_packstream::{Value, decode, encode, tag};
use proptest::prelude::*;

use super::values::{any_result, map, node, raw, result};

fn shown(fields: &Fields) -> Vec<String> {
    let value = |packed: &[u8]| decode(packed).unwrap();
    let shown = fields.scalars().map(|field| {
        let path: String = field.path.iter().map(|key| format!(".{key}")).collect();
        format!("{} {}{path} {:?}", field.row, field.column, value(field.value))
    });
    shown.collect()
}

#[test]
fn scalars_are_found_by_column_and_path() {
    let person = node(&["Person", "Admin"], &[("id", 300.into()), ("name", "Ann".into())]);
    let inner = map(&[("b", 5.into()), ("deep", map(&[("er", 6.into())])), ("p", person.clone())]);
    let rows = [
        vec![person, 7.into(), map(&[("a", inner), ("list", Value::List(vec![8.into()]))])],
        vec![Value::Null, Value::Float(1.0), Value::Bool(true)],
    ];
    let fields = Fields::of(&result(&["p", "n", "m"], &rows));
    assert_eq!(
        shown(&fields),
        ["0 p.id Int(300)", "0 p.name String(\"Ann\")", "0 n Int(7)", "0 m.a.b Int(5)", "1 m Bool(true)"]
    );
    assert_eq!(fields.value(0, "p", &["id".into()]), Some(&encode(&300.into())[..]));
    assert_eq!(fields.value(0, "p", &[]), None);
    assert_eq!(fields.value(1, "p", &["id".into()]), None);
    assert_eq!((fields.rows(), fields.value(9, "n", &[])), (2, None));
}

#[test]
fn only_the_first_rows_and_short_texts() {
    let rows: Vec<_> =
        (0..100).map(|id| vec![Value::Int(id), "x".repeat(60 + id as usize).as_str().into()]).collect();
    let fields = Fields::of(&result(&["id", "text"], &rows));
    assert_eq!(fields.rows(), 100);
    assert_eq!(
        fields.scalars().filter(|field| field.column == "id").count(),
        usize::from(FIELDS_LIST_ROWS_MAX)
    );
    assert_eq!(fields.scalars().filter(|field| field.column == "text").count(), 5, "60 to 64 bytes");
}

/// A key that a map names twice, a column that occurs twice: the first counts, and nothing is found that is not there.
#[test]
fn names_that_come_twice_count_once() {
    let twice = map(&[("a", 11.into()), ("a", 12.into())]);
    let inside = map(&[("b", map(&[("b", 13.into())])), ("b", map(&[("b", 14.into()), ("c", 15.into())]))]);
    assert_eq!(shown(&Fields::of(&result(&["i"], &[vec![inside]]))), ["0 i.b.b Int(13)"]);
    let fields = Fields::of(&result(&["x", "x", "m"], &[vec![1.into(), 2.into(), twice]]));
    assert_eq!(shown(&fields), ["0 x Int(1)", "0 m.a Int(11)"]);
}

/// Bad input of the issue: 10⁵ ids in one column, in as many columns, in as many rows, in as many keys.
#[test]
fn huge_results_are_little_work() {
    let ids = || (0..100_000).map(Value::Int);
    let names: Vec<String> = (0..100_000).map(|at| format!("c{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let keys = Value::Map(names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect());
    let one_row = |value: Value| result(&["a", "b"], &[vec![1.into(), value]]);
    let results = [
        one_row(Value::List(ids().collect())),
        result(&names, &[ids().collect()]),
        result(&["id"], &ids().map(|id| vec![id]).collect::<Vec<_>>()),
        one_row(keys),
        one_row((0..120).fold(Value::Null, |inner, _| map(&[("k", inner)]))),
        one_row("x".repeat(1 << 20).as_str().into()),
    ];
    #[expect(clippy::disallowed_methods, reason = "a test measures")]
    let started = std::time::Instant::now();
    for result in &results {
        let fields = Fields::of(result);
        assert!(fields.encode().len() <= FIELDS_BYTES_MAX);
        assert!(fields.scalars().next().is_some());
    }
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
}

/// Fields without room are left out from there on; the kept ones equal the result's.
#[test]
fn wide_rows_fill_the_room_and_no_more() {
    let names: Vec<String> = (0..30).map(|at| format!("property-{at}")).collect();
    let properties = |row: i64| -> Vec<(&str, Value)> {
        names.iter().map(|name| (name.as_str(), format!("{row:0>60}").as_str().into())).collect()
    };
    let rows: Vec<_> = (0..8).map(|row| vec![node(&["P"], &properties(row))]).collect();
    let fields = Fields::of(&result(&["p"], &rows));
    let count = |row| fields.scalars().filter(|field| field.row == row).count();
    assert_eq!(count(0), 30);
    assert!((1..30).contains(&count(1)) && count(2) == 0, "{} {}", count(1), count(2));
    let len = fields.encode().len();
    assert!((FIELDS_BYTES_MAX - 100..=FIELDS_BYTES_MAX).contains(&len), "{len}");
}

/// The value at a place, looked up in the tree.
fn at_place<'a>(value: &'a Value, path: &[Box<str>]) -> Option<&'a Value> {
    let Some((key, rest)) = path.split_first() else { return Some(value) };
    let pairs = match value {
        Value::Map(pairs) => pairs,
        Value::Struct { tag: tag::NODE, fields } => match fields.get(2)? {
            Value::Map(pairs) => pairs,
            _ => return None,
        },
        _ => return None,
    };
    // If a key occurs twice, the first that has a value there.
    pairs.iter().filter(|(name, _)| **name == **key).find_map(|(_, inner)| at_place(inner, rest))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every field is a scalar of the result at its stated place, and everything is bounded.
    #[test]
    fn fields_are_in_the_result(result in any_result()) {
        let fields = Fields::of(&result);
        let bytes = fields.encode();
        prop_assert!(bytes.len() <= FIELDS_BYTES_MAX);
        prop_assert_eq!(Fields::decode(&bytes), Some(fields.clone()));
        prop_assert_eq!(fields.rows(), result.rows);
        let mut rest = hopcache_packstream::Reader::new(&result.records);
        let rows: Vec<Value> = (0..result.rows).map(|_| rest.value().unwrap()).collect();
        for field in fields.scalars() {
            let row = rows[usize::from(field.row)].as_list().unwrap();
            let column = result.fields.iter().position(|name| *name == *field.column).unwrap();
            let value = decode(field.value).unwrap();
            prop_assert!(matches!(value, Value::Int(_) | Value::Bool(_) | Value::String(_)));
            prop_assert_eq!(fields.value(field.row, field.column, field.path), Some(field.value));
            let found = row.get(column).and_then(|found| at_place(found, field.path));
            prop_assert!(found.is_some(), "{:?}", field);
        }
    }

    /// I13: any records, with any claimed number of rows.
    #[test]
    fn garbage_records_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), rows in any::<u64>()) {
        let fields = Fields::of(&raw(&["a", "b", "c"], bytes.into(), rows));
        let written = fields.encode();
        prop_assert!(written.len() <= FIELDS_BYTES_MAX);
        prop_assert_eq!(Fields::decode(&written), Some(fields));
    }

    /// I13: any bytes, also changed bytes of fields, decode to fields or not at all.
    #[test]
    fn any_bytes_are_read(result in any_result(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = Fields::of(&result).encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Some(fields) = Fields::decode(&bytes) {
            let again = Fields::decode(&fields.encode());
            prop_assert_eq!(again.as_ref(), Some(&fields));
            prop_assert!(fields.scalars().count() < 5_000);
        }
        bytes.truncate(at);
        prop_assert_eq!(Fields::decode(&bytes), None);
    }
}

/// Another spelling of the query was run: a template finds its field under the name that its own spelling has.
#[test]
fn fields_have_the_names_of_the_asker() {
    let rows = [vec![Value::Int(1), "two".into()]];
    let fields = Fields::of(&result(&["n.id", "name"], &rows));
    let names = |names: &[&str]| names.iter().map(|name| Box::from(*name)).collect::<Vec<Box<str>>>();
    let named = fields.named(Some(&names(&["friend", "n.id"]))).into_owned();
    assert_eq!(named.value(0, "friend", &[]), fields.value(0, "n.id", &[]));
    assert_eq!(named.value(0, "n.id", &[]), fields.value(0, "name", &[]));
    assert_eq!(named.value(0, "name", &[]), None);
    assert_eq!(*fields.named(None), fields);
    // Which column is which is not known.
    assert_eq!(*fields.named(Some(&names(&["a", "b", "c"]))), fields);
    assert_eq!(*fields.named(Some(&names(&["a"]))), fields);
}
