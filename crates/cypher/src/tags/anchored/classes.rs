//! Classes of values: two values are of one class if Cypher's `=` is true for them.
//!
//! | values | class |
//! |---|---|
//! | strings | by code units: case, accents and blanks at the end count |
//! | integers and floats | by their exact number: `1` and `1.0` are one class, and so are `0.0` and `-0.0`; 2^53 + 1 and 2^53 as a float are not |
//! | null, NaN, booleans, lists, maps, temporal values, points, bytes | none |
//!
//! Tried on Neo4j 5.26 with `=`, `IN` and inline maps, with and without an index. Booleans are left out because two values narrow nothing.

use hopcache_core::tags::ClassId;
use hopcache_packstream::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The class of `value`, if it has one.
///
/// ```
/// use hopcache_cypher::tags::anchored::class_of;
/// use hopcache_packstream::Value;
///
/// assert_eq!(class_of(&Value::Int(1)), class_of(&Value::Float(1.0)));
/// assert_ne!(class_of(&Value::Int(1)), class_of(&Value::from("1")));
/// assert_eq!(class_of(&Value::Null), None);
/// ```
#[must_use]
pub fn class_of(value: &Value) -> Option<ClassId> {
    match value {
        Value::String(text) => Some(of_text(text)),
        Value::Int(number) => Some(of_int(*number)),
        Value::Float(number) => of_float(*number),
        _ => None,
    }
}

pub(super) fn of_text(text: &str) -> ClassId {
    of_hash(xxh3_64_with_seed(text.as_bytes(), 0))
}

pub(super) fn of_int(number: i64) -> ClassId {
    of_hash(xxh3_64_with_seed(&number.to_be_bytes(), 1))
}

pub(super) fn of_float(number: f64) -> Option<ClassId> {
    match integer(number) {
        _ if number.is_nan() => None,
        Some(number) => Some(of_int(number)),
        None => Some(of_hash(xxh3_64_with_seed(&number.to_bits().to_be_bytes(), 2))),
    }
}

/// Some classes share a number with others, so that no value has the number of a place ([`of_place`]). That ends more than necessary.
const fn of_hash(hash: u64) -> ClassId {
    ClassId(if hash >= PLACES_FROM { hash - PLACES } else { hash })
}

/// The numbers of places among the values of a run's parameters.
const PLACES: u64 = 1 << 16;
const PLACES_FROM: u64 = u64::MAX - PLACES + 1;

/// Stands for the class of a value that a run will have at this place (`form`).
pub(super) const fn of_place(place: u8) -> ClassId {
    ClassId(PLACES_FROM + place as u64)
}

/// The place for which a class stands, if it stands for one.
pub(super) fn place_of(class: ClassId) -> Option<usize> {
    class.0.checked_sub(PLACES_FROM).and_then(|place| usize::try_from(place).ok())
}

/// The integer of 64 bits that is the same number, if there is one.
#[allow(clippy::cast_possible_truncation, reason = "the number is integral and in the range of i64")]
fn integer(number: f64) -> Option<i64> {
    /// 2^63: the first float that is too large. Its negative is the smallest `i64`.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    let fits = (-TOO_LARGE..TOO_LARGE).contains(&number) && number.fract() == 0.0;
    fits.then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn int(number: i64) -> Option<ClassId> {
        class_of(&Value::Int(number))
    }

    #[test]
    fn no_value_has_the_class_of_a_place() {
        for hash in [0, 1 << 63, PLACES_FROM - 1, PLACES_FROM, u64::MAX] {
            assert_eq!(place_of(of_hash(hash)), None, "{hash}");
        }
        assert_eq!([0, 255].map(|place| place_of(of_place(place))), [Some(0), Some(255)]);
    }

    fn float(number: f64) -> Option<ClassId> {
        class_of(&Value::Float(number))
    }

    #[test]
    fn numbers_are_of_one_class_if_they_are_one_number() {
        assert_eq!(int(0), float(-0.0));
        assert_eq!(float(0.0), float(-0.0));
        assert_ne!(int((1 << 53) + 1), float(9_007_199_254_740_992.0));
        assert_eq!(int(1 << 53), float(9_007_199_254_740_992.0));
        assert_eq!(int(i64::MIN), float(-9_223_372_036_854_775_808.0));
        assert_ne!(int(i64::MAX), float(9_223_372_036_854_775_808.0));
        assert_ne!(float(0.5), float(0.25));
        assert!(float(f64::INFINITY).is_some() && float(f64::INFINITY) != float(f64::NEG_INFINITY));
    }

    #[test]
    fn values_that_never_anchor_have_no_class() {
        let date = Value::Struct { tag: hopcache_packstream::tag::DATE, fields: vec![Value::Int(1)] };
        let values = [
            Value::Null,
            Value::Bool(true),
            Value::Float(f64::NAN),
            Value::List(vec![Value::Int(1)]),
            Value::Map(vec![]),
            Value::Bytes(vec![1]),
            date,
        ];
        assert!(values.iter().all(|value| class_of(value).is_none()));
    }

    #[test]
    fn strings_differ_by_each_code_unit() {
        let of = |text: &str| class_of(&Value::from(text));
        let alike = ["a", "A", "a ", "á", "a\u{301}", "", "1"];
        let classes: std::collections::BTreeSet<_> = alike.iter().map(|text| of(text)).collect();
        assert_eq!(classes.len(), alike.len());
        assert_ne!(of("1"), int(1));
    }

    proptest! {
        /// What Cypher compares as equal is of one class, and hashes do not collide by chance here.
        #[test]
        fn equal_numbers_and_no_others(one in any::<i64>(), other in any::<f64>()) {
            let small = one >> 12;
            #[allow(clippy::cast_precision_loss, reason = "a number of 52 bits is exact")]
            let as_float = small as f64;
            prop_assert_eq!(int(small), float(as_float));
            if !other.is_nan() {
                let is_equal = integer(other) == Some(one);
                prop_assert_eq!(int(one) == float(other), is_equal);
            }
        }
    }
}
