//! PackStream: written values are read back, equal values have one form, and no bytes from outside panic, recurse
//! without end or allocate by a claimed length (I13, F33).

use hopcache_packstream::{
    CoordinateType, DEPTH_MAX, DecodeError, PASSED_DEPTH_MAX, Reader, Value, Vector, decode, encode,
    encode_canonical,
};
use proptest::prelude::*;

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-300_i64..300).prop_map(Value::Int),
        any::<f64>()
            .prop_filter("NaN is not equal to itself", |number| !number.is_nan())
            .prop_map(Value::Float),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
        ".{0,40}".prop_map(Value::String),
        any::<[u8; 16]>().prop_map(Value::Uuid),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 64, 20, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..20).prop_map(Value::List),
            proptest::collection::btree_map(".{0,8}", inner.clone(), 0..20)
                .prop_map(|pairs| Value::Map(pairs.into_iter().collect())),
            (any::<u8>(), proptest::collection::vec(inner, 0..15))
                .prop_map(|(tag, fields)| Value::Struct { tag, fields }),
        ]
    })
}

/// The same value with every map turned round.
fn reversed(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(reversed).collect()),
        Value::Map(pairs) => {
            Value::Map(pairs.iter().rev().map(|(key, value)| (key.clone(), reversed(value))).collect())
        }
        Value::Struct { tag, fields } => {
            Value::Struct { tag: *tag, fields: fields.iter().map(reversed).collect() }
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in value()) {
        let bytes = encode(&value);
        prop_assert_eq!(&decode(&bytes).unwrap(), &value);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.skip().unwrap(), &bytes[..]);
        prop_assert!(reader.is_empty());
    }

    #[test]
    fn the_order_of_a_map_does_not_show_in_the_canonical_form(value in value()) {
        prop_assert_eq!(encode_canonical(&value), encode_canonical(&reversed(&value)));
    }

    #[test]
    fn the_canonical_form_tells_values_apart(one in value(), other in value()) {
        let are_same = decode(&encode_canonical(&one)).unwrap() == decode(&encode_canonical(&other)).unwrap();
        prop_assert_eq!(encode_canonical(&one) == encode_canonical(&other), are_same);
    }

    #[test]
    fn every_cut_is_refused(value in value(), at: prop::sample::Index) {
        let bytes = encode(&value);
        let cut = at.index(bytes.len());
        prop_assert!(decode(&bytes[..cut]).is_err());
    }

    #[test]
    fn arbitrary_bytes_panic_nobody(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
        let _ = Reader::new(&bytes).skip();
    }
}

/// As Neo4j 2026.09 has sent them at Bolt 6.1.
#[test]
fn uuids_and_vectors_have_the_bytes_of_bolt_6() {
    let mut uuid = vec![0xE0];
    uuid.extend_from_slice(&0x550e_8400_e29b_41d4_a716_4466_5544_0000_u128.to_be_bytes());
    let value = decode(&uuid).unwrap();
    assert_eq!(value, Value::Uuid(0x550e_8400_e29b_41d4_a716_4466_5544_0000_u128.to_be_bytes()));
    assert_eq!(encode(&value), uuid);
    let floats = [0xB2, 0x56, 0xCC, 1, 0xC6, 0xCC, 8, 0x3F, 0x80, 0, 0, 0x40, 0, 0, 0];
    let mut reader = Reader::new(&floats[2..]);
    let vector = Vector::read(&mut reader).unwrap().unwrap();
    assert_eq!((vector.of, vector.dimensions()), (CoordinateType::Float32, 2));
    for wrong in [&[0xCC, 1, 0xC6, 0xCC, 3, 1, 2, 3][..], &[0xCC, 1, 0x01, 0xCC, 0], &[0x01, 0xCC, 0]] {
        assert_eq!(Vector::read(&mut Reader::new(wrong)), Ok(None), "{wrong:02X?}");
    }
}

#[test]
fn one_number_in_three_types_is_three_values() {
    let forms = [Value::Int(1), Value::Float(1.0), Value::String("1".to_owned()), Value::Bool(true)];
    for (place, one) in forms.iter().enumerate() {
        for other in &forms[place + 1..] {
            assert_ne!(encode_canonical(one), encode_canonical(other));
        }
    }
    assert_ne!(encode_canonical(&Value::Float(0.0)), encode_canonical(&Value::Float(-0.0)));
}

#[test]
fn every_nan_is_one_nan() {
    let quiet = f64::from_bits(0x7FF8_0000_0000_0001);
    let negative = f64::from_bits(0xFFF8_0000_0000_0000);
    assert_eq!(encode_canonical(&Value::Float(quiet)), encode_canonical(&Value::Float(negative)));
}

#[test]
fn of_a_repeated_key_the_last_counts() {
    let pairs = [("a", 1), ("b", 2), ("a", 3)].map(|(key, number)| (key.to_owned(), Value::Int(number)));
    let once = [("b", 2), ("a", 3)].map(|(key, number)| (key.to_owned(), Value::Int(number)));
    assert_eq!(encode_canonical(&Value::Map(pairs.to_vec())), encode_canonical(&Value::Map(once.to_vec())));
}

/// A message of a few bytes that claims four billion items costs nothing.
#[test]
fn a_claimed_length_allocates_nothing() {
    for marker in [0xCE_u8, 0xD2, 0xD6, 0xDA] {
        let bytes = [marker, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert_eq!(decode(&bytes).unwrap_err(), DecodeError::Truncated);
    }
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| [vec![0x91_u8; levels], vec![0xC0]].concat();
    assert!(decode(&nested(DEPTH_MAX)).is_ok());
    assert_eq!(decode(&nested(DEPTH_MAX + 1)).unwrap_err(), DecodeError::Depth);
    // What is only passed over may nest deeper: by lists, maps and structures, also behind others.
    for level in [&[0x91][..], &[0xA1, 0x81, b'k'], &[0xB1, 0x4E], &[0x92, 0x01]] {
        let deep = [level.repeat(PASSED_DEPTH_MAX / 2), vec![0xC0]].concat();
        let behind = [&deep[..], &[0x07]].concat();
        assert_eq!(Reader::new(&behind).skip(), Ok(&deep[..]));
    }
    let both = [&[0x92][..], &nested(DEPTH_MAX), &nested(DEPTH_MAX)].concat();
    assert_eq!(Reader::new(&both).skip(), Ok(&both[..]));
    let keyless = [&[0x91].repeat(20)[..], &[0xA1, 0x01, 0x02]].concat();
    assert_eq!(Reader::new(&keyless).skip().unwrap_err(), DecodeError::Key);
    assert_eq!(Reader::new(&nested(1_000_000)).skip().unwrap_err(), DecodeError::Depth);
    assert_eq!(Reader::new(&nested(100)[..100]).skip().unwrap_err(), DecodeError::Truncated);
}

/// On half of the stack that a worker of the runtime has: decoded, encoded in both forms, and dropped.
#[test]
fn the_deepest_tree_fits_the_stack() {
    let trees = || {
        for level in [&[0x91][..], &[0xA1, 0x81, b'k'], &[0xB1, 0x4E], &[0xA2, 0x81, b'a', 0xC0, 0x81, b'k']]
        {
            let deep = [level.repeat(DEPTH_MAX), vec![0xC0]].concat();
            let tree = decode(&deep).unwrap();
            assert_eq!((encode(&tree), encode_canonical(&tree)), (deep.clone(), deep));
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(trees).unwrap().join().unwrap();
}

#[test]
fn integers_and_lengths_take_their_shortest_form() {
    let sizes = [(-17_i64, 2), (-16, 1), (127, 1), (128, 3), (-129, 3), (40_000, 5), (i64::MAX, 9)];
    for (number, bytes) in sizes {
        assert_eq!(encode(&Value::Int(number)).len(), bytes, "{number}");
    }
    for (len, head) in [(15, 1), (16, 2), (255, 2), (256, 3), (65_536, 5)] {
        assert_eq!(encode(&Value::String("x".repeat(len))).len(), len + head);
    }
}
