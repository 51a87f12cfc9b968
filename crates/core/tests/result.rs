//! A result's stored form: loss-free, without the bookmark, and refused when it is invalid (I10, I13).

use bytes::Bytes;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_packstream::{Value, encode};
use proptest::prelude::*;

fn stats(name: &str, value: Value) -> Value {
    Value::Map(vec![("stats".to_owned(), Value::Map(vec![(name.to_owned(), value)]))])
}

fn result(summary: Value, rows: Vec<i64>) -> ResultSet {
    let records: Vec<u8> = rows.iter().flat_map(|row| encode(&Value::List(vec![Value::Int(*row)]))).collect();
    ResultSet {
        fields: vec!["a".to_owned(), "b".to_owned()],
        records: records.into(),
        rows: rows.len() as u64,
        kind: Some(StatementKind::Read),
        summary,
        bookmark: Some("FB:secret".to_owned()),
        range: None,
        marked: None,
    }
}

proptest! {
    #[test]
    fn what_is_stored_is_read_back_without_the_bookmark(rows in proptest::collection::vec(any::<i64>(), 0..50)) {
        let sent = result(Value::Map(vec![("db".to_owned(), Value::from("neo4j"))]), rows);
        let got = ResultSet::from_bytes(&Bytes::from(sent.to_bytes())).unwrap();
        prop_assert_eq!(got, ResultSet { bookmark: None, range: None, ..sent });
    }

    #[test]
    fn arbitrary_bytes_panic_nobody(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = ResultSet::from_bytes(&Bytes::from(bytes));
    }
}

/// I6: any counter in the summary that is not zero or false is an update.
#[test]
fn updates_are_seen_in_the_summary() {
    let nothing = [Value::Int(0), Value::Bool(false)];
    for value in nothing {
        assert!(!result(stats("nodes-created", value), vec![]).has_updates());
    }
    assert!(!result(Value::Map(Vec::new()), vec![]).has_updates());
    for value in [Value::Int(1), Value::Bool(true), Value::Null, Value::from("x")] {
        assert!(result(stats("nodes-created", value), vec![]).has_updates());
    }
    let unreadable = Value::Map(vec![("stats".to_owned(), Value::Int(0))]);
    assert!(result(unreadable, vec![]).has_updates(), "what cannot be read is not taken for harmless");
}

#[test]
fn kinds_are_bolts_letters() {
    for letter in ["r", "rw", "w", "s"] {
        assert_eq!(StatementKind::from_bolt(letter).map(StatementKind::to_bolt), Some(letter));
    }
    assert_eq!(StatementKind::from_bolt("x"), None);
}
