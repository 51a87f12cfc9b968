//! Values at every version, against what a real server sends and against trees.

use hopcache_packstream::{Value, decode, encode};
use proptest::prelude::*;

use super::*;

const V4: Version = Version::new(4, 4);
const LEGACY: OldForm = OldForm { version: V4, has_utc: false, offset_of: two_hours };
const UTC: OldForm = OldForm { has_utc: true, ..LEGACY };

fn two_hours(zone: &str, _: i64) -> Option<i32> {
    (zone == "Europe/Berlin").then_some(7_200)
}

fn structure(tag: u8, fields: Vec<Value>) -> Value {
    Value::Struct { tag, fields }
}

fn ints(numbers: &[i64]) -> Vec<Value> {
    numbers.iter().copied().map(Value::Int).collect()
}

fn old(value: &Value, form: OldForm) -> Result<Value, NoOldForm> {
    let mut out = Vec::new();
    rewrite(&encode(value), form, &mut out)?;
    Ok(decode(&out).unwrap())
}

#[test]
fn date_times_are_local_unless_utc_was_agreed() {
    let offset = structure(tag::DATE_TIME, ints(&[1_000, 5, -3_600]));
    let zone = structure(tag::DATE_TIME_ZONE, vec![Value::Int(1_000), Value::Int(5), "Europe/Berlin".into()]);
    assert_eq!(old(&offset, LEGACY), Ok(structure(LEGACY_DATE_TIME, ints(&[-2_600, 5, -3_600]))));
    let local = vec![Value::Int(8_200), Value::Int(5), "Europe/Berlin".into()];
    assert_eq!(old(&zone, LEGACY), Ok(structure(LEGACY_DATE_TIME_ZONE, local)));
    assert_eq!((old(&offset, UTC), old(&zone, UTC)), (Ok(offset), Ok(zone)));
}

#[test]
fn what_has_no_old_form_is_named() {
    let nowhere = structure(tag::DATE_TIME_ZONE, vec![Value::Int(1), Value::Int(5), "Mars/Olympus".into()]);
    assert_eq!(old(&nowhere, LEGACY), Err(NoOldForm::Zone("Mars/Olympus".to_owned())));
    let late = structure(tag::DATE_TIME, ints(&[i64::MAX, 0, 1]));
    assert_eq!(old(&late, LEGACY), Err(NoOldForm::Structure(tag::DATE_TIME)));
    let short = structure(tag::NODE, ints(&[1, 2, 3]));
    assert_eq!(old(&short, UTC), Err(NoOldForm::Structure(tag::NODE)));
    let deep = (0..=DEPTH_MAX).fold(Value::Null, |inner, _| Value::List(vec![inner]));
    assert_eq!(old(&deep, UTC), Err(NoOldForm::PackStream(DecodeError::Depth)));
}

/// On half of the stack that a worker of the runtime has.
#[test]
fn the_deepest_value_fits_the_stack() {
    let check = || {
        let node = |inner| {
            let properties = Value::Map(vec![("k".to_owned(), inner)]);
            structure(tag::NODE, vec![Value::Int(1), Value::List(vec![]), properties, "4:x:1".into()])
        };
        let deep = (0..DEPTH_MAX / 2).fold(Value::Null, |inner, _| node(inner));
        assert!(old(&deep, UTC).is_ok());
        let lists = (0..DEPTH_MAX).fold(Value::Null, |inner, _| Value::List(vec![inner]));
        assert_eq!(old(&lists, UTC), Ok(lists));
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
}

#[test]
fn parameters_with_other_times_are_found() {
    let within = |inner: Value| encode(&Value::Map(vec![("p".to_owned(), Value::List(vec![inner]))]));
    let legacy = within(structure(LEGACY_DATE_TIME, ints(&[1, 2, 3])));
    let utc = within(structure(tag::DATE_TIME, ints(&[1, 2, 3])));
    assert!(has_other_values(&legacy, V4, true) && has_other_values(&legacy, V4, false));
    assert!(!has_other_values(&utc, V4, true) && has_other_values(&utc, V4, false));
    assert!(!has_other_values(&within(structure(tag::DATE, ints(&[1]))), V4, false));
    assert!(!has_other_values(&within("Ff".into()), V4, false), "a text is no structure");
}

/// Neo4j 2026.09 refuses each of these at the versions that are named here, and takes it at the others.
#[test]
fn parameters_that_a_version_does_not_have_are_found() {
    let within = |inner: Value| encode(&Value::Map(vec![("p".to_owned(), Value::List(vec![inner]))]));
    let versions = [V4, Version::new(5, 4), Version::new(5, 8), Version::new(6, 0), Version::new(6, 1)];
    let refused = |bytes: &[u8]| versions.map(|version| has_other_values(bytes, version, true));
    assert_eq!(refused(&within(vector(0xC9, &[0, 1, 0, 2]))), [true, true, true, false, false]);
    assert_eq!(refused(&within(Value::Uuid(ID))), [true, true, true, true, false]);
    assert_eq!(refused(&within(unsupported("UUID"))), [true; 5]);
    for text in ["\u{B2}V", "\u{FF}?", "\u{E0}"] {
        assert_eq!(refused(&within(text.into())), [false; 5], "{text}");
    }
}

const ID: [u8; 16] = 0x550e_8400_e29b_41d4_a716_4466_5544_0000_u128.to_be_bytes();

fn vector(of: u8, bytes: &[u8]) -> Value {
    structure(tag::VECTOR, vec![Value::Bytes(vec![of]), Value::Bytes(bytes.to_vec())])
}

fn unsupported(name: &str) -> Value {
    structure(tag::UNSUPPORTED, vec![name.into(), Value::Int(6), Value::Int(1), Value::Map(vec![])])
}

fn placeholder(full: &str) -> Value {
    let pairs = [("reason", "UNKNOWN_TYPE"), ("originalType", full)];
    Value::Map(pairs.map(|(name, text)| (name.to_owned(), text.into())).to_vec())
}

/// The bytes that Neo4j 2026.09 sends at each version for the same statement.
#[test]
fn new_types_have_the_forms_of_each_version() {
    let at = |value: &Value, version| {
        let mut out = Vec::new();
        let form = OldForm { version, has_utc: true, offset_of: two_hours };
        let replaced = rewrite(&encode(value), form, &mut out).unwrap();
        (decode(&out).unwrap(), replaced)
    };
    let (v5, v60, v61) = (Version::new(5, 8), Version::new(6, 0), Version::new(6, 1));
    for (value, kind, full) in [
        (vector(0xC1, &[0; 24]), "VECTOR", "VECTOR(3, FLOAT64)"),
        (vector(0xC6, &[0; 8]), "VECTOR", "VECTOR(2, FLOAT32)"),
        (vector(0xC8, &[1, 2]), "VECTOR", "VECTOR(2, INTEGER8)"),
        (vector(0xC9, &[0, 1]), "VECTOR", "VECTOR(1, INTEGER16)"),
        (vector(0xCA, &[0; 4]), "VECTOR", "VECTOR(1, INTEGER32)"),
        (vector(0xCB, &[0; 8]), "VECTOR", "VECTOR(1, INTEGER64)"),
        (unsupported("SPHERE"), "SPHERE", "SPHERE"),
    ] {
        for old in [V4, Version::new(5, 0), v5] {
            assert_eq!(at(&value, old), (placeholder(full), Some(kind.to_owned())), "{old}");
        }
        assert_eq!(at(&value, v60), (value.clone(), None));
        assert_eq!(at(&value, v61), (value.clone(), None));
    }
    let id = Value::Uuid(ID);
    assert_eq!(at(&id, v5), (placeholder("UUID"), Some("UUID".to_owned())));
    assert_eq!(at(&id, v60), (unsupported("UUID"), None));
    assert_eq!(at(&id, v61), (id.clone(), None));
    let mut bytes = Vec::new();
    let form = OldForm { version: v60, has_utc: true, offset_of: two_hours };
    rewrite(&encode(&id), form, &mut bytes).unwrap();
    assert_eq!(bytes, b"\xB4\x3F\x84UUID\x06\x01\xA0");
    // Of several types the first is named, wherever it is nested.
    let both =
        Value::Map(vec![("a".to_owned(), Value::List(vec![id])), ("b".to_owned(), vector(0xC8, &[1]))]);
    assert_eq!(at(&both, v5).1.as_deref(), Some("UUID"));
    let node = |inner: Value| {
        let properties = Value::Map(vec![("e".to_owned(), inner)]);
        structure(tag::NODE, vec![Value::Int(1), Value::List(vec![]), properties, "4:x:1".into()])
    };
    assert_eq!(at(&node(vector(0xC8, &[1])), v5).0, node(placeholder("VECTOR(1, INTEGER8)")));
}

#[test]
fn what_is_no_vector_is_named() {
    for wrong in [
        vector(0x01, &[1]),
        vector(0xC9, &[1]),
        structure(tag::VECTOR, vec![Value::Int(1), Value::Bytes(vec![])]),
        structure(tag::VECTOR, vec![Value::Bytes(vec![0xC8]), Value::Bytes(vec![]), Value::Null]),
        structure(tag::UNSUPPORTED, vec![Value::Int(1)]),
    ] {
        let Value::Struct { tag, .. } = &wrong else { unreachable!() };
        assert_eq!(old(&wrong, UTC), Err(NoOldForm::Structure(*tag)), "{wrong:?}");
    }
}

/// What [`rewrite`] does, on trees.
fn expected(value: &Value, form: OldForm) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(|item| expected(item, form)).collect()),
        Value::Map(pairs) => {
            Value::Map(pairs.iter().map(|(name, item)| (name.clone(), expected(item, form))).collect())
        }
        Value::Struct { tag, fields } => {
            let mut fields: Vec<Value> = fields.iter().map(|field| expected(field, form)).collect();
            let mut tag = *tag;
            match tag {
                tag::NODE | tag::UNBOUND_RELATIONSHIP => fields.truncate(3),
                tag::RELATIONSHIP => fields.truncate(5),
                tag::DATE_TIME if !form.has_utc => {
                    tag = LEGACY_DATE_TIME;
                    let sum = fields[0].as_int().unwrap() + fields[2].as_int().unwrap();
                    fields[0] = Value::Int(sum);
                }
                tag::DATE_TIME_ZONE if !form.has_utc => {
                    tag = LEGACY_DATE_TIME_ZONE;
                    fields[0] = Value::Int(fields[0].as_int().unwrap() + 7_200);
                }
                _ => {}
            }
            Value::Struct { tag, fields }
        }
        other => other.clone(),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let seconds = -1_000_000_000_000_i64..1_000_000_000_000;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e300..1e300_f64).prop_map(Value::Float),
        ".{0,20}".prop_map(Value::String),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
        (seconds.clone(), 0..1_000_000_000_i64, -64_800..64_800_i64)
            .prop_map(|(at, nano, offset)| structure(tag::DATE_TIME, ints(&[at, nano, offset]))),
        (seconds, 0..1_000_000_000_i64).prop_map(|(at, nano)| {
            let fields = vec![Value::Int(at), Value::Int(nano), "Europe/Berlin".into()];
            structure(tag::DATE_TIME_ZONE, fields)
        }),
        any::<[i64; 4]>().prop_map(|parts| structure(tag::DURATION, ints(&parts))),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        let items = proptest::collection::vec(inner.clone(), 0..20);
        let pairs = proptest::collection::vec((".{0,9}", inner.clone()), 0..5);
        let sized = |tag: u8, len: usize| {
            proptest::collection::vec(inner.clone(), len).prop_map(move |fields| structure(tag, fields))
        };
        prop_oneof![
            items.prop_map(Value::List),
            pairs.prop_map(Value::Map),
            sized(tag::NODE, 4),
            sized(tag::RELATIONSHIP, 8),
            sized(tag::UNBOUND_RELATIONSHIP, 4),
            sized(tag::PATH, 3),
        ]
    })
}

proptest! {
    #[test]
    fn bytes_become_what_the_trees_become(value in values(), has_utc in any::<bool>()) {
        let form = OldForm { has_utc, ..LEGACY };
        prop_assert_eq!(old(&value, form), Ok(expected(&value, form)));
    }

    /// I13.
    #[test]
    fn any_bytes_are_rewritten_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..400), has_utc in any::<bool>()) {
        let mut out = Vec::new();
        for version in [V4, Version::new(5, 8), Version::new(6, 0)] {
            out.clear();
            if rewrite(&bytes, OldForm { version, has_utc, ..LEGACY }, &mut out).is_ok() {
                prop_assert_eq!(Reader::new(&out).skip().map(<[u8]>::len), Ok(out.len()));
            }
        }
        for version in [V4, Version::new(5, 8), Version::new(6, 0)] {
            let _ = has_other_values(&bytes, version, has_utc);
        }
    }
}
