//! Rows of the encoding table from hand-built PackStream, without a server.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_packstream::{Value, encode, tag};
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, ResultView, render};

fn value_of(value: &Value, encoding: Encoding) -> String {
    let records = encode(&Value::List(vec![value.clone()]));
    let view = ResultView {
        fields: &["v".into()],
        records: &records,
        summary: &Value::Null,
        bookmarks: &[],
        errors: &[],
    };
    let body = String::from_utf8(render(&view, ResponseForm { encoding, counters: Counters::Omit }).unwrap())
        .unwrap();
    let inside = body.strip_prefix("{\"data\":{\"fields\":[\"v\"],\"values\":[[").unwrap();
    inside.strip_suffix("]]}}").unwrap().to_owned()
}

fn ints(tag: u8, numbers: &[i64]) -> Value {
    Value::Struct { tag, fields: numbers.iter().copied().map(Value::Int).collect() }
}

#[test]
fn values_are_written_as_the_table_has_them() {
    let zone = |utc_s| Value::Struct {
        tag: tag::DATE_TIME_ZONE,
        fields: vec![Value::Int(utc_s), Value::Int(0), Value::from("Europe/Stockholm")],
    };
    let point = Value::Struct {
        tag: tag::POINT_2D,
        fields: vec![Value::Int(7203), Value::Float(1.5), Value::Float(-2.0)],
    };
    // Type, plain form, and the text of `_value` if it differs from the plain form in quotes.
    let table = [
        (Value::Int(i64::MIN), "Integer", "-9223372036854775808", "\"-9223372036854775808\""),
        (Value::Float(1e7), "Float", "1.0E7", "\"1.0E7\""),
        (Value::Float(f64::NAN), "Float", "\"NaN\"", "\"NaN\""),
        (Value::from("aé😀\0/<"), "String", r#""aé\uD83D\uDE00\u0000/<""#, r#""aé\uD83D\uDE00\u0000/<""#),
        (Value::Bytes(vec![0, 1, 255]), "Base64", "\"AAH/\"", "\"AAH/\""),
        (ints(tag::DATE, &[19_782]), "Date", "\"2024-02-29\"", "\"2024-02-29\""),
        (ints(tag::TIME, &[43_200_000_000_000, 0]), "Time", "\"12:00:00Z\"", "\"12:00:00Z\""),
        (
            ints(tag::DURATION, &[-1, 3, -4, 5]),
            "Duration",
            "\"P-1M3DT-3.999999995S\"",
            "\"P-1M3DT-3.999999995S\"",
        ),
        (point, "Point", "\"SRID=7203;POINT (1.5 -2.0)\"", "\"SRID=7203;POINT (1.5 -2.0)\""),
        // Both passes of the hour that the clocks repeat show the earlier offset.
        (
            zone(1_729_989_000),
            "ZonedDateTime",
            "\"2024-10-27T02:30:00+02:00\"",
            "\"2024-10-27T02:30:00+02:00[Europe/Stockholm]\"",
        ),
        (
            zone(1_729_992_600),
            "ZonedDateTime",
            "\"2024-10-27T02:30:00+02:00\"",
            "\"2024-10-27T02:30:00+02:00[Europe/Stockholm]\"",
        ),
    ];
    for (value, name, plain, typed) in table {
        assert_eq!(value_of(&value, Encoding::Plain), plain);
        let typed = format!("{{\"$type\":\"{name}\",\"_value\":{typed}}}");
        assert_eq!(value_of(&value, Encoding::Typed), typed);
    }
}
