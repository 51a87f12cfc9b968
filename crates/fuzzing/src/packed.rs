//! PackStream, and a stored result's form in it.

use bytes::Bytes;
use hopcache_bolt::server::Version;
use hopcache_bolt::server::old_values::{
    LEGACY_DATE_TIME, LEGACY_DATE_TIME_ZONE, OldForm, has_other_values, may_have_new_values, rewrite,
};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_packstream::{Reader, Value, decode, encode, encode_canonical, tag};

pub(crate) fn check_value(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let skipped = reader.skip();
    let value = Reader::new(bytes).value();
    assert_eq!(skipped.is_ok(), value.is_ok(), "walking and building agree");
    let (Ok(skipped), Ok(value)) = (skipped, value) else {
        assert!(decode(bytes).is_err());
        return;
    };
    assert!(bytes.starts_with(skipped));
    assert_eq!(decode(bytes).is_ok(), skipped.len() == bytes.len());
    assert!(items(&value) <= skipped.len(), "no value that no byte stands for");
    let written = encode(&value);
    assert!(written.len() <= skipped.len(), "the shortest form");
    let again = decode(&written).expect("an encoded value decodes");
    assert_eq!(encode(&again), written);
    check_canonical(&value);
}

/// The canonical form reads back as the value, and again has itself as canonical form. Equal forms are
/// therefore equal values (F33).
fn check_canonical(value: &Value) {
    let canonical = encode_canonical(value);
    let back = decode(&canonical).expect("the canonical form is PackStream");
    assert!(is_same(value, &back), "{value:?} {back:?}");
    assert_eq!(encode_canonical(&back), canonical);
}

/// Equality of Neo4j's values: the last of a repeated key counts, one NaN, and `0.0` is not `-0.0`.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Float(one), Value::Float(other)) => {
            one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan())
        }
        (Value::List(one), Value::List(other)) => are_same(one, other),
        (Value::Struct { tag: one_tag, fields: one }, Value::Struct { tag, fields: other }) => {
            one_tag == tag && are_same(one, other)
        }
        (Value::Map(pairs), Value::Map(others)) => {
            let last = |name: &str| pairs.iter().rev().find(|(key, _)| key == name);
            pairs.iter().all(|(name, _)| others.iter().any(|(key, _)| key == name))
                && others
                    .iter()
                    .all(|(name, other)| last(name).is_some_and(|(_, value)| is_same(value, other)))
        }
        _ => one == other,
    }
}

fn are_same(one: &[Value], other: &[Value]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
}

fn items(value: &Value) -> usize {
    1 + match value {
        Value::List(values) | Value::Struct { fields: values, .. } => values.iter().map(items).sum(),
        Value::Map(pairs) => pairs.iter().map(|(_, value)| 1 + items(value)).sum(),
        _ => 0,
    }
}

/// The form for an older version is PackStream again, has no structure that only newer ones have, and is never larger by
/// more than a map in the place of an empty vector.
pub(crate) fn check_old_values(bytes: &[u8]) {
    fn berlin(zone: &str, utc_s: i64) -> Option<i32> {
        (zone.len() < 40).then_some(if utc_s % 2 == 0 { 7_200 } else { -3_600 })
    }
    for (major, minor) in [(4, 4), (5, 8), (6, 0)] {
        for has_utc in [false, true] {
            let version = Version::new(major, minor);
            let _ = has_other_values(bytes, version, has_utc);
            let (form, mut old) = (OldForm { version, has_utc, offset_of: berlin }, Vec::new());
            let Ok(replaced) = rewrite(bytes, form, &mut old) else { continue };
            let value = decode(&old).expect("the old form is one value");
            assert!(old.len() <= 8 * bytes.len());
            assert!(may_have_new_values(bytes) || replaced.is_none(), "what is missed is not replaced");
            assert_no_new(&value, (version, has_utc));
        }
    }
}

fn assert_no_new(value: &Value, (version, has_utc): (Version, bool)) {
    let within = |inner: &Value| assert_no_new(inner, (version, has_utc));
    match value {
        Value::List(items) => items.iter().for_each(within),
        Value::Map(pairs) => pairs.iter().for_each(|(_, item)| within(item)),
        Value::Struct { tag, fields } => {
            let len = fields.len();
            match *tag {
                tag::VECTOR | tag::UNSUPPORTED => assert!(version.major > 5),
                _ if version.major > 4 => {}
                tag::NODE | tag::UNBOUND_RELATIONSHIP => assert_eq!(len, 3),
                tag::RELATIONSHIP => assert_eq!(len, 5),
                tag::DATE_TIME | tag::DATE_TIME_ZONE => assert!(has_utc),
                _ => {}
            }
            fields.iter().for_each(within);
        }
        Value::Uuid(_) => unreachable!("Bolt 6.1 alone has UUIDs"),
        _ => {}
    }
}

pub(crate) fn check_result(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let Ok(result) = ResultSet::from_bytes(&bytes) else { return };
    assert_eq!(result.bookmark, None);
    assert!(result.weight_bytes() < 64 * bytes.len() + 512);
    let _ = result.has_updates();
    let written = Bytes::from(result.to_bytes());
    let again = ResultSet::from_bytes(&written).expect("an encoded value decodes");
    assert_eq!(again.to_bytes(), written);
}

fn structure(tag: u8, fields: Vec<Value>) -> Value {
    Value::Struct { tag, fields }
}

fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

/// A value of every type that Bolt has.
pub(crate) fn every_type() -> Vec<Value> {
    let ints = |numbers: &[i64]| numbers.iter().copied().map(Value::Int).collect::<Vec<_>>();
    let floats = |srid: i64, at: &[f64]| {
        std::iter::once(Value::Int(srid)).chain(at.iter().copied().map(Value::Float)).collect::<Vec<_>>()
    };
    let properties = map(&[("name", "a".into()), ("since", structure(tag::DATE, ints(&[19_000])))]);
    let labels = Value::List(vec!["A".into(), "B".into()]);
    let node = structure(tag::NODE, vec![Value::Int(1), labels, properties.clone(), "4:x:1".into()]);
    let mut ends = ints(&[7, 1, 2]);
    ends.extend(["R".into(), properties.clone(), "5:x:7".into(), "4:x:1".into(), "4:x:2".into()]);
    let hop =
        structure(tag::UNBOUND_RELATIONSHIP, vec![Value::Int(7), "R".into(), properties, "5:x:7".into()]);
    let nodes = Value::List(vec![node.clone(), node.clone()]);
    let path = vec![nodes, Value::List(vec![hop]), Value::List(ints(&[1, 1]))];
    let zoned = vec![Value::Int(1_700_000_000), Value::Int(5), "Europe/Stockholm".into()];
    vec![
        Value::Null,
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Float(f64::NAN),
        Value::Float(-1.5e300),
        Value::Bytes(vec![0, 255]),
        "a\"\\\u{0}\u{1F600}".into(),
        Value::List(ints(&[1, 300, 70_000])),
        map(&[("b", Value::Int(1)), ("a", Value::Null)]),
        node,
        structure(tag::RELATIONSHIP, ends),
        structure(tag::PATH, path),
        structure(tag::DATE, ints(&[-800_000])),
        structure(tag::TIME, ints(&[3_600_000_000_000, 7_200])),
        structure(tag::LOCAL_TIME, ints(&[1])),
        structure(tag::DATE_TIME, ints(&[1_700_000_000, 5, -3_600])),
        structure(tag::DATE_TIME_ZONE, zoned),
        structure(tag::LOCAL_DATE_TIME, ints(&[1_700_000_000, 5])),
        structure(tag::DURATION, ints(&[14, -3, 5, 700])),
        structure(tag::POINT_2D, floats(4326, &[12.5, 55.0])),
        structure(tag::POINT_3D, floats(9157, &[1.0, 2.0, -0.0])),
        structure(tag::VECTOR, vec![Value::Bytes(vec![0xC9]), Value::Bytes(vec![0, 1, 0xFF, 0xFE])]),
        structure(tag::UNSUPPORTED, vec!["X".into(), Value::Int(6), Value::Int(2), map(&[])]),
        Value::Uuid([7; 16]),
    ]
}

/// A summary with every part that is shown.
pub(crate) fn summary() -> Value {
    let place = map(&[("offset", Value::Int(1)), ("line", Value::Int(1)), ("column", Value::Int(2))]);
    let note = map(&[
        ("code", "Neo.ClientNotification.X".into()),
        ("title", "t".into()),
        ("description", "d".into()),
        ("severity", "WARNING".into()),
        ("position", place),
    ]);
    let child = map(&[("operatorType", "AllNodesScan".into()), ("children", Value::List(Vec::new()))]);
    let plan = map(&[
        ("operatorType", "ProduceResults".into()),
        ("args", map(&[("Details", "n".into()), ("EstimatedRows", Value::Float(1.0))])),
        ("identifiers", Value::List(vec!["n".into()])),
        ("children", Value::List(vec![child])),
    ]);
    map(&[
        ("notifications", Value::List(vec![note])),
        ("stats", map(&[("nodes-created", Value::Int(1)), ("contains-updates", Value::Bool(true))])),
        ("plan", plan),
        ("db", "neo4j".into()),
    ])
}

pub(crate) fn value_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = every_type().iter().map(encode).collect();
    seeds.push(encode(&Value::List(every_type())));
    seeds.push(encode(&summary()));
    let deep = (0..100).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    seeds.push(encode(&deep));
    seeds.extend([vec![0xCE, 0xFF, 0xFF, 0xFF, 0xFF, 1], vec![0xDA, 0x7F, 0xFF, 0xFF, 0xFF, 0x81, b'a', 1]]);
    seeds
}

/// Values that change on their way to a client of Bolt 4, values that have such a form already, and values without one.
pub(crate) fn old_value_seeds() -> Vec<Vec<u8>> {
    let ints = |numbers: &[i64]| numbers.iter().copied().map(Value::Int).collect::<Vec<_>>();
    let zoned = |zone: &str, at: i64| vec![Value::Int(at), Value::Int(999_999_999), zone.into()];
    let node =
        || every_type().into_iter().find(|value| matches!(value, Value::Struct { tag: tag::NODE, .. }));
    let nested = map(&[("at", structure(tag::DATE_TIME, ints(&[0, 0, 64_800]))), ("of", node().unwrap())]);
    let new = [
        structure(tag::DATE_TIME, ints(&[-2_208_988_800, 123_456_789, -41_400])),
        structure(tag::DATE_TIME, ints(&[i64::MAX, 0, 1])),
        structure(tag::DATE_TIME, ints(&[i64::MIN, 0, -1])),
        structure(tag::DATE_TIME_ZONE, zoned("Europe/Berlin", 1_729_990_800)),
        structure(tag::DATE_TIME_ZONE, zoned("Europe/Berlin", -1)),
        structure(tag::DATE_TIME_ZONE, zoned(&"Nowhere/".repeat(6), 0)),
        Value::List(vec![nested.clone(), nested]),
    ];
    let old = [
        structure(LEGACY_DATE_TIME, ints(&[3_600, 0, 3_600])),
        structure(LEGACY_DATE_TIME_ZONE, zoned("Asia/Kolkata", 1_700_000_000)),
        structure(tag::NODE, vec![Value::Int(1), Value::List(Vec::new()), map(&[])]),
        structure(tag::RELATIONSHIP, ints(&[7, 1, 2, 0, 0])),
        structure(tag::UNBOUND_RELATIONSHIP, ints(&[7, 0, 0])),
        structure(tag::DATE_TIME, ints(&[1, 2])),
        structure(tag::DATE_TIME, ints(&[1, 2, 3, 4])),
        structure(tag::DATE_TIME_ZONE, ints(&[1, 2, 3])),
    ];
    let mut seeds = value_seeds();
    seeds.extend(new.iter().chain(&old).map(encode));
    seeds
}

pub(crate) fn result_seeds() -> Vec<Vec<u8>> {
    let row = encode(&Value::List(every_type()));
    let kinds = [Some(StatementKind::Read), None];
    let results = kinds.into_iter().map(|kind| ResultSet {
        fields: (0..every_type().len()).map(|at| format!("f{at}")).collect(),
        records: [row.clone(), row.clone()].concat().into(),
        rows: 2,
        kind,
        summary: summary(),
        bookmark: Some("FB:x".to_owned()),
        range: None,
        marked: None,
    });
    let mut seeds: Vec<Vec<u8>> = results.map(|result| result.to_bytes()).collect();
    seeds.push(vec![0x90, 0x80, 0xA0, 0]);
    seeds
}
