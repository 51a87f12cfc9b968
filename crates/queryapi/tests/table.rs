//! Rows of the encoding table from hand-built PackStream, without a server.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_packstream::{Value, decode, encode, tag};
use hopcache_queryapi::render::{
    Counters, Encoding, ResponseForm, ResultView, Times, answer, render, with_bookmark,
};
use hopcache_queryapi::request::parse;

fn value_of(value: &Value, encoding: Encoding) -> String {
    let records = encode(&Value::List(vec![value.clone()]));
    let view = ResultView {
        kind: None,
        fields: &["v".into()],
        records: &records,
        summary: &Value::Null,
        bookmarks: &[],
        errors: &[],
    };
    let body = String::from_utf8(
        render(&view, ResponseForm { encoding, counters: Counters::Omit, times: Times::Omit }).unwrap(),
    )
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

/// As Neo4j 2026.09 writes them under each media type.
#[test]
fn vectors_and_uuids_are_written_as_their_media_types_have_them() {
    let vector = |of: u8, bytes: &[u8]| Value::Struct {
        tag: tag::VECTOR,
        fields: vec![Value::Bytes(vec![of]), Value::Bytes(bytes.to_vec())],
    };
    let floats = [1.0_f32, 0.1, 1.0e10].map(f32::to_be_bytes).concat();
    let typed = |kind: &str, texts: &str| {
        format!(r#"{{"$type":"Vector","_value":{{"coordinatesType":"{kind}","coordinates":[{texts}]}}}}"#)
    };
    for (value, plain, typed) in [
        (vector(0xC6, &floats), "[1.0,0.1,1.0E10]", typed("FLOAT32", r#""1.0","0.1","1.0E10""#)),
        (vector(0xC1, &2.5_f64.to_be_bytes()), "[2.5]", typed("FLOAT64", r#""2.5""#)),
        (vector(0xC8, &[1, 0xFF]), "[1,-1]", typed("INT8", r#""1","-1""#)),
        (vector(0xC9, &[1, 0]), "[256]", typed("INT16", r#""256""#)),
        (vector(0xCA, &[0xFF; 4]), "[-1]", typed("INT32", r#""-1""#)),
        (vector(0xCB, &[0, 0, 0, 0, 0, 0, 0, 7]), "[7]", typed("INT64", r#""7""#)),
        (vector(0xCB, &[]), "[]", typed("INT64", "")),
    ] {
        assert_eq!(value_of(&value, Encoding::Plain), plain);
        assert_eq!(value_of(&value, Encoding::TypedV11), typed);
        assert_eq!(value_of(&value, Encoding::TypedV12), typed);
    }
    let id = Value::Uuid(0x550e_8400_e29b_41d4_a716_4466_5544_0000_u128.to_be_bytes());
    let text = "\"550e8400-e29b-41d4-a716-446655440000\"";
    assert_eq!(value_of(&id, Encoding::Plain), text);
    assert_eq!(value_of(&id, Encoding::TypedV12), format!(r#"{{"$type":"UUID","_value":{text}}}"#));
    let unsupported =
        r#"{"$type":"Unsupported","_value":"Type \"UUID\" is not supported in the current MimeType."}"#;
    assert_eq!(value_of(&id, Encoding::TypedV11), unsupported);
}

/// A media type without vectors ends the answer, as Neo4j 2026.09 does: what comes before is there, then an error.
#[test]
fn an_answer_ends_at_a_type_that_its_media_type_does_not_have() {
    let vector =
        Value::Struct { tag: tag::VECTOR, fields: vec![Value::Bytes(vec![0xC8]), Value::Bytes(vec![1])] };
    let records = encode(&Value::List(vec![Value::Int(1), vector, Value::Int(2)]));
    let fields = ["a".to_owned(), "v".to_owned(), "b".to_owned()];
    let view = ResultView {
        kind: None,
        fields: &fields,
        records: &records,
        summary: &Value::Null,
        bookmarks: &[],
        errors: &[],
    };
    let expected = r#"{"data":{"fields":["a","v","b"],"values":[[{"$type":"Integer","_value":"1"}]]},"errors":[{"code":"Neo.ClientError.Request.Invalid","message":"Type VECTOR is not supported."}]}"#;
    for encoding in [Encoding::Typed, Encoding::TypedV10] {
        let form = ResponseForm { encoding, counters: Counters::Include, times: Times::Omit };
        for bookmark in [None, Some("FB:x")] {
            let body = answer(&view, form, bookmark, 1 << 10).unwrap();
            assert_eq!(String::from_utf8(body.clone()).unwrap(), expected);
            assert_eq!(with_bookmark(&body, "FB:y"), None, "there is no bookmark to replace");
        }
    }
}

/// Neo4j 2026.09 was asked for each.
#[test]
fn typed_parameters_are_read_as_their_media_types_have_them() {
    let parameter = |value: &str, encoding| {
        let body = format!(r#"{{"statement":"x","parameters":{{"p":{value}}}}}"#);
        let Value::Map(pairs) = decode(&parse(body.as_bytes(), encoding).ok()?.parameters).unwrap() else {
            return None;
        };
        pairs.into_iter().next().map(|(_, value)| value)
    };
    let vector = |of: u8, bytes: &[u8]| {
        let fields = vec![Value::Bytes(vec![of]), Value::Bytes(bytes.to_vec())];
        Some(Value::Struct { tag: tag::VECTOR, fields })
    };
    let of = |kind: &str, texts: &str| {
        format!(r#"{{"$type":"Vector","_value":{{"coordinatesType":"{kind}","coordinates":[{texts}]}}}}"#)
    };
    let id = r#"{"$type":"UUID","_value":"550E8400-e29b-41d4-a716-446655440000"}"#;
    let two_floats = [1.0_f32, 0.1].map(f32::to_be_bytes).concat();
    for (value, read) in [
        (of("FLOAT32", r#""1.0","0.1""#), vector(0xC6, &two_floats)),
        (of("INT8", r#""1","-2""#), vector(0xC8, &[1, 0xFE])),
        (of("INT64", "1"), vector(0xCB, &[0, 0, 0, 0, 0, 0, 0, 1])),
        (of("INT32", ""), vector(0xCA, &[])),
        (
            r#"{"$type":"Vector","_value":{"coordinates":["1"],"coordinatesType":"INT16"}}"#.to_owned(),
            vector(0xC9, &[0, 1]),
        ),
        (of("INT8", r#""300""#), None),
        (of("INT8", r#""1.5""#), None),
        (of("int8", r#""1""#), None),
        (of("INTEGER8", r#""1""#), None),
        (r#"{"$type":"Vector","_value":null}"#.to_owned(), None),
        (r#"{"$type":"Vector","_value":{"coordinatesType":"INT8"}}"#.to_owned(), None),
    ] {
        for encoding in [Encoding::TypedV11, Encoding::TypedV12] {
            assert_eq!(parameter(&value, encoding), read, "{value}");
        }
        for encoding in [Encoding::Typed, Encoding::TypedV10] {
            assert_eq!(parameter(&value, encoding), None, "{value}");
        }
    }
    let uuid = Value::Uuid(0x550e_8400_e29b_41d4_a716_4466_5544_0000_u128.to_be_bytes());
    assert_eq!(parameter(id, Encoding::TypedV12), Some(uuid));
    assert_eq!(parameter(id, Encoding::TypedV11), None);
}

/// Neo4j 2026.09 has three members more in each answer, before bookmarks and errors.
#[test]
fn a_new_server_tells_the_kind_and_the_times() {
    let summary =
        Value::Map(vec![("t_first".to_owned(), Value::Int(4)), ("t_last".to_owned(), Value::Int(3))]);
    let fields = ["a".to_owned()];
    let view = ResultView {
        kind: Some("r"),
        fields: &fields,
        records: &encode(&Value::List(vec![Value::Int(1)])),
        summary: &summary,
        bookmarks: &[],
        errors: &[],
    };
    let form = |times| ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times };
    let text =
        |times, bookmark| String::from_utf8(answer(&view, form(times), bookmark, 1 << 10).unwrap()).unwrap();
    let data = r#"{"data":{"fields":["a"],"values":[[1]]}"#;
    let times = r#","queryType":"r","resultAvailableAfter":4,"resultConsumedAfter":7"#;
    assert_eq!(text(Times::Include, Some("FB:x")), format!(r#"{data}{times},"bookmarks":["FB:x"]}}"#));
    assert_eq!(text(Times::Include, None), format!(r#"{data}{times},"bookmarks":[]}}"#));
    assert_eq!(text(Times::Omit, Some("FB:x")), format!(r#"{data},"bookmarks":["FB:x"]}}"#));
    let body = answer(&view, form(Times::Include), None, 1 << 10).unwrap();
    assert_eq!(with_bookmark(&body, "FB:x").unwrap(), text(Times::Include, Some("FB:x")).into_bytes());
}
