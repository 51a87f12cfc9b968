//! Results and parameters for tests.

use bytes::Bytes;
use hopcache_core::result::ResultSet;
use hopcache_packstream::{Value, encode, encode_canonical, tag};
use proptest::prelude::*;

pub(crate) fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

pub(crate) fn params(pairs: &[(&str, Value)]) -> Vec<u8> {
    encode_canonical(&map(pairs))
}

pub(crate) fn node(labels: &[&str], properties: &[(&str, Value)]) -> Value {
    let labels = Value::List(labels.iter().map(|label| Value::from(*label)).collect());
    let fields = vec![Value::Int(77), labels, map(properties), Value::from("4:x:77")];
    Value::Struct { tag: tag::NODE, fields }
}

pub(crate) fn result(columns: &[&str], rows: &[Vec<Value>]) -> ResultSet {
    let records: Vec<u8> = rows.iter().flat_map(|row| encode(&Value::List(row.clone()))).collect();
    raw(columns, Bytes::from(records), rows.len() as u64)
}

pub(crate) fn raw(columns: &[&str], records: Bytes, rows: u64) -> ResultSet {
    let fields = columns.iter().map(|name| (*name).to_owned()).collect();
    ResultSet {
        fields,
        records,
        rows,
        kind: None,
        summary: Value::Map(Vec::new()),
        bookmark: None,
        range: None,
        marked: None,
    }
}

/// Any value; small ones and nodes more often than by chance.
pub(crate) fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-20..60_i64).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        "[ab]{0,3}".prop_map(Value::String),
        (0..90_usize).prop_map(|len| Value::String("é".repeat(len))),
        prop::collection::vec(any::<u8>(), 0..4).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let pairs = prop::collection::vec(("[abc]{0,2}", inner.clone()), 0..5).prop_map(Value::Map);
        let labels = prop::collection::vec("[AB]".prop_map(Value::String), 0..6).prop_map(Value::List);
        let node = (labels, pairs.clone()).prop_map(|(labels, properties)| Value::Struct {
            tag: tag::NODE,
            fields: vec![Value::Int(1), labels, properties, Value::from("4:x:1")],
        });
        let structure = (any::<u8>(), prop::collection::vec(inner.clone(), 0..5))
            .prop_map(|(tag, fields)| Value::Struct { tag, fields });
        prop_oneof![prop::collection::vec(inner, 0..5).prop_map(Value::List), pairs, node, structure]
    })
}

/// Any result of up to 9 rows.
pub(crate) fn any_result() -> impl Strategy<Value = ResultSet> {
    let name = prop_oneof!["[abc]{0,2}", (0..140_usize).prop_map(|len| "x".repeat(len))];
    let columns = prop::collection::vec(name, 0..6);
    let rows = prop::collection::vec(prop::collection::vec(any_value(), 0..6), 0..10);
    (columns, rows)
        .prop_map(|(columns, rows)| result(&columns.iter().map(String::as_str).collect::<Vec<_>>(), &rows))
}

/// Any parameters, canonical as in a request.
pub(crate) fn any_params() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(("[abc]{0,2}", any_value()), 0..4)
        .prop_map(|pairs| encode_canonical(&Value::Map(pairs)))
}
