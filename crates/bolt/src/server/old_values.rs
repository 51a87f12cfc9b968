//! Values as Bolt 4 has them, made from the bytes of Bolt 5: nodes, relationships and paths without element ids, and
//! date-times in local seconds unless the client has agreed on UTC (`patch_bolt: ["utc"]`).
//!
//! Bytes in, bytes out: no value becomes a tree. Everything else keeps its bytes. (Bolt documentation, "Structure
//! semantics", "Legacy DateTime"; Bolt 5.0 itself has the values of 5.8.)

use hopcache_packstream::{DEPTH_MAX, DecodeError, Reader, Token, Writer, tag};

/// Legacy date-time with offset: local seconds, nanoseconds, offset in seconds.
pub const LEGACY_DATE_TIME: u8 = 0x46;
/// Legacy date-time with zone name: local seconds, nanoseconds, zone id.
pub const LEGACY_DATE_TIME_ZONE: u8 = 0x66;

/// The offset in seconds of a named zone at a moment in UTC seconds.
pub type OffsetOf = fn(&str, i64) -> Option<i32>;

/// How a client of Bolt 4 wants its values.
#[derive(Debug, Clone, Copy)]
pub struct OldForm {
    /// Whether date-times stay in UTC.
    pub has_utc: bool,
    /// The rules of time zones.
    pub offset_of: OffsetOf,
}

/// Why a value has no old form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoOldForm {
    /// The bytes are not PackStream.
    #[error("{0}")]
    PackStream(#[from] DecodeError),
    /// A structure without the fields of Bolt 5.
    #[error("structure 0x{0:02X} does not have the fields of Bolt 5")]
    Structure(u8),
    /// A time zone without rules here, or a moment outside of all of them.
    #[error("the time zone {0:?} is not known here")]
    Zone(String),
}

/// Appends the old form of the one value that `bytes` begin with.
///
/// # Errors
/// [`NoOldForm`]; then `out` has a part of the value.
pub fn rewrite(bytes: &[u8], form: OldForm, out: &mut Vec<u8>) -> Result<(), NoOldForm> {
    Rewriter { reader: Reader::new(bytes), form, out }.value(0)
}

/// Whether a client of Bolt 4 has sent date-times in a form that Bolt 5 does not have, or that it has not agreed on.
/// Bytes that are not PackStream have none.
#[must_use]
pub fn has_other_times(bytes: &[u8], has_utc: bool) -> bool {
    let is_other = |found: u8| match found {
        LEGACY_DATE_TIME | LEGACY_DATE_TIME_ZONE => true,
        tag::DATE_TIME | tag::DATE_TIME_ZONE => !has_utc,
        _ => false,
    };
    let mut reader = Reader::new(bytes);
    // Every token stands for itself: where a structure is nested does not matter.
    while !reader.is_empty() {
        match reader.token() {
            Ok(Token::Struct { tag, .. }) if is_other(tag) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
    false
}

struct Rewriter<'a, 'o> {
    reader: Reader<'a>,
    form: OldForm,
    out: &'o mut Vec<u8>,
}

impl Rewriter<'_, '_> {
    fn value(&mut self, depth: usize) -> Result<(), NoOldForm> {
        let start = self.reader.rest();
        let token = self.reader.token()?;
        if depth >= DEPTH_MAX && matches!(token, Token::List(_) | Token::Map(_) | Token::Struct { .. }) {
            return Err(DecodeError::Depth.into());
        }
        if let Token::Struct { tag, len } = token {
            return self.structure(start, (tag, len), depth);
        }
        self.out.extend_from_slice(&start[..start.len() - self.reader.rest().len()]);
        match token {
            Token::List(len) => self.values(len, depth),
            Token::Map(len) => {
                for _ in 0..len {
                    let start = self.reader.rest();
                    self.reader.key()?;
                    self.out.extend_from_slice(&start[..start.len() - self.reader.rest().len()]);
                    self.value(depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn values(&mut self, len: usize, depth: usize) -> Result<(), NoOldForm> {
        for _ in 0..len {
            self.value(depth + 1)?;
        }
        Ok(())
    }

    fn structure(&mut self, start: &[u8], (found, len): (u8, usize), depth: usize) -> Result<(), NoOldForm> {
        // Bolt 5 has added its fields at the end of each.
        let (new_len, old_len) = match found {
            tag::NODE => (4, 3),
            tag::RELATIONSHIP => (8, 5),
            tag::UNBOUND_RELATIONSHIP => (4, 3),
            tag::DATE_TIME | tag::DATE_TIME_ZONE if !self.form.has_utc => return self.date_time(found, len),
            _ => {
                self.out.extend_from_slice(&start[..start.len() - self.reader.rest().len()]);
                return self.values(len, depth);
            }
        };
        if len != new_len {
            return Err(NoOldForm::Structure(found));
        }
        let mut writer = Writer::new();
        writer.structure(found, old_len);
        self.out.extend_from_slice(&writer.into_bytes());
        self.values(old_len, depth)?;
        for _ in old_len..new_len {
            self.reader.skip()?;
        }
        Ok(())
    }

    /// Local seconds in place of UTC seconds. Nanoseconds, and offset or zone, stay as they are.
    fn date_time(&mut self, found: u8, len: usize) -> Result<(), NoOldForm> {
        let wrong = || NoOldForm::Structure(found);
        let Token::Int(utc_s) = self.reader.token()? else { return Err(wrong()) };
        let kept = self.reader.rest();
        let nanoseconds = self.reader.token()?;
        let place = self.reader.token()?;
        let kept = &kept[..kept.len() - self.reader.rest().len()];
        let (old, offset_s) = match (nanoseconds, place) {
            (Token::Int(_), Token::Int(offset_s)) if found == tag::DATE_TIME => (LEGACY_DATE_TIME, offset_s),
            (Token::Int(_), Token::Str(zone)) if found == tag::DATE_TIME_ZONE => {
                let offset_s = (self.form.offset_of)(zone, utc_s);
                let offset_s = offset_s.ok_or_else(|| NoOldForm::Zone(zone.to_owned()))?;
                (LEGACY_DATE_TIME_ZONE, i64::from(offset_s))
            }
            _ => return Err(wrong()),
        };
        let local_s = utc_s.checked_add(offset_s).filter(|_| len == 3).ok_or_else(wrong)?;
        let mut writer = Writer::new();
        writer.structure(old, len);
        writer.int(local_s);
        writer.raw(kept);
        self.out.extend_from_slice(&writer.into_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::{Value, decode, encode};
    use proptest::prelude::*;

    use super::*;

    const LEGACY: OldForm = OldForm { has_utc: false, offset_of: two_hours };
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
        let zone =
            structure(tag::DATE_TIME_ZONE, vec![Value::Int(1_000), Value::Int(5), "Europe/Berlin".into()]);
        assert_eq!(old(&offset, LEGACY), Ok(structure(LEGACY_DATE_TIME, ints(&[-2_600, 5, -3_600]))));
        let local = vec![Value::Int(8_200), Value::Int(5), "Europe/Berlin".into()];
        assert_eq!(old(&zone, LEGACY), Ok(structure(LEGACY_DATE_TIME_ZONE, local)));
        assert_eq!((old(&offset, UTC), old(&zone, UTC)), (Ok(offset), Ok(zone)));
    }

    #[test]
    fn what_has_no_old_form_is_named() {
        let nowhere =
            structure(tag::DATE_TIME_ZONE, vec![Value::Int(1), Value::Int(5), "Mars/Olympus".into()]);
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
        assert!(has_other_times(&legacy, true) && has_other_times(&legacy, false));
        assert!(!has_other_times(&utc, true) && has_other_times(&utc, false));
        assert!(!has_other_times(&within(structure(tag::DATE, ints(&[1]))), false));
        assert!(!has_other_times(&within("Ff".into()), false), "a text is no structure");
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
            let form = OldForm { has_utc, ..LEGACY };
            if rewrite(&bytes, form, &mut out).is_ok() {
                prop_assert_eq!(Reader::new(&out).skip().map(<[u8]>::len), Ok(out.len()));
            }
            let _ = has_other_times(&bytes, has_utc);
        }
    }
}
