//! Properties that hold for all bytes and all values.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

use hopcache_packstream::{Value, decode, encode, tag};
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, ResultView, Times, render};
use hopcache_queryapi::request;
use proptest::prelude::*;

const TYPED: ResponseForm =
    ResponseForm { encoding: Encoding::Typed, counters: Counters::Include, times: Times::Omit };
const PLAIN: ResponseForm =
    ResponseForm { encoding: Encoding::Plain, counters: Counters::Include, times: Times::Omit };

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        any::<String>().prop_map(Value::String),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(Value::Bytes),
        (any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>()).prop_map(|(a, b, c, d)| Value::Struct {
            tag: tag::DURATION,
            fields: [a, b, c, d].map(Value::Int).to_vec()
        }),
        (any::<i64>(), any::<i64>()).prop_map(|(utc_s, nanos)| Value::Struct {
            tag: tag::DATE_TIME_ZONE,
            fields: vec![Value::Int(utc_s), Value::Int(nanos), Value::from("Europe/Stockholm")]
        }),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 40, 5, |inner| {
        let structure = (any::<u8>(), prop::collection::vec(inner.clone(), 0..9));
        let temporal = prop::sample::select(vec![
            tag::NODE,
            tag::RELATIONSHIP,
            tag::PATH,
            tag::DATE,
            tag::TIME,
            tag::LOCAL_TIME,
            tag::DATE_TIME,
            tag::LOCAL_DATE_TIME,
            tag::POINT_2D,
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::List),
            prop::collection::vec((any::<String>(), inner.clone()), 0..5).prop_map(Value::Map),
            structure.prop_map(|(tag, fields)| Value::Struct { tag, fields }),
            (temporal, prop::collection::vec(any::<i64>().prop_map(Value::Int), 1..5))
                .prop_map(|(tag, fields)| Value::Struct { tag, fields }),
        ]
    })
}

fn body(records: &[u8], summary: &Value, form: ResponseForm) -> Option<Vec<u8>> {
    let view = ResultView { kind: None, fields: &[], records, summary, bookmarks: &[], errors: &[] };
    render(&view, form).ok()
}

proptest! {
    #[test]
    fn any_record_renders_as_json_or_is_refused(row in value(), summary in value()) {
        let records = encode(&Value::List(vec![row]));
        for form in [PLAIN, TYPED] {
            if let Some(body) = body(&records, &summary, form) {
                prop_assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok());
            }
        }
    }

    #[test]
    fn any_bytes_render_or_are_refused(records: Vec<u8>) {
        body(&records, &Value::Null, TYPED);
    }

    #[test]
    fn any_body_parses_or_is_refused(bytes: Vec<u8>, text in "[\\[\\]{}\",:a-z0-9\\\\ .$_-]{0,40}") {
        for encoding in [Encoding::Plain, Encoding::Typed] {
            let _ = request::parse(&bytes, encoding);
            let _ = request::parse(text.as_bytes(), encoding);
            let typed = |kind: &str| {
                let value = serde_json::json!({"$type": kind, "_value": text});
                serde_json::json!({"statement": "x", "parameters": {"p": value}}).to_string()
            };
            for kind in ["Duration", "Point", "Date", "Time", "ZonedDateTime", "Float", "Base64"] {
                let _ = request::parse(typed(kind).as_bytes(), encoding);
            }
        }
    }

    /// A typed rendering reads back as the same canonical parameters.
    #[test]
    fn typed_values_survive_the_round_trip(number: i64, float: f64, text: String, day in -300_000_i64..300_000,
        months in -1_000_i64..1_000, seconds in -1_000_000_i64..1_000_000, nanos in 0_i64..1_000_000_000) {
        let date = Value::Struct { tag: tag::DATE, fields: vec![Value::Int(day)] };
        let duration = [months, day, seconds, nanos].map(Value::Int).to_vec();
        let duration = Value::Struct { tag: tag::DURATION, fields: duration };
        let row = Value::List(vec![Value::Int(number), Value::Float(float), Value::String(text), date, duration]);
        let body = body(&encode(&Value::List(vec![row.clone()])), &Value::Null, TYPED).unwrap();
        let body = String::from_utf8(body).unwrap();
        let start = body.find("\"values\":[[").unwrap() + 11;
        let end = body.find("]]},\"counters\"").unwrap();
        let request = format!("{{\"statement\":\"x\",\"parameters\":{{\"p\":{}}}}}", &body[start..end]);
        let parsed = request::parse(request.as_bytes(), Encoding::Typed).unwrap();
        let expected = hopcache_packstream::encode_canonical(&Value::Map(vec![("p".into(), row)]));
        prop_assert_eq!(decode(&parsed.parameters).is_ok(), true);
        prop_assert_eq!(parsed.parameters, expected);
    }
}

/// Nesting is bounded on both sides, and no stack overflows.
#[test]
fn deep_nesting_is_refused() {
    let deep = format!("{{\"statement\":\"x\",\"parameters\":{{\"p\":{}", "[".repeat(100_000));
    for encoding in [Encoding::Plain, Encoding::Typed] {
        assert_eq!(request::parse(deep.as_bytes(), encoding).unwrap_err().status(), 400);
    }
    assert!(body(&vec![0x91; 100_000], &Value::Null, TYPED).is_none());
}

/// As deep as Neo4j writes and reads (1,000 levels of JSON), on half of the stack that a worker of the runtime has: the deepest
/// calls of each kind.
#[test]
fn what_neo4j_writes_and_reads_fits_the_stack() {
    let check = || {
        let named = |name: &str, value| (name.to_owned(), value);
        let node = |inner| Value::Struct {
            tag: tag::NODE,
            fields: vec![
                Value::Int(1),
                Value::List(vec![]),
                Value::Map(vec![named("p", inner), named("q", Value::Null)]),
                Value::from("4:x:1"),
            ],
        };
        let levels: [(&dyn Fn(Value) -> Value, usize); 4] = [
            (&|inner| Value::List(vec![inner]), 996),
            (&|inner| Value::Map(vec![named("k", inner)]), 996),
            (&|inner| Value::Map(vec![named("a", Value::Int(1)), named("k", inner)]), 996),
            (&node, 498),
        ];
        for (level, count) in levels {
            let row = (0..count).fold(Value::Int(7), |inner, _| level(inner));
            let records = encode(&Value::List(vec![row]));
            for form in [PLAIN, TYPED] {
                assert!(body(&records, &Value::Null, form).is_some(), "{count} levels");
            }
        }
        let plain = ("[".repeat(996), "]".repeat(996));
        let typed = ("{\"$type\":\"List\",\"_value\":[".repeat(996), "]}".repeat(996));
        for ((open, close), encoding) in [(plain, Encoding::Plain), (typed, Encoding::Typed)] {
            let text = format!("{{\"statement\":\"x\",\"parameters\":{{\"p\":{open}{close}}}}}");
            assert!(request::parse(text.as_bytes(), encoding).is_ok(), "{encoding:?}");
        }
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(check).unwrap().join().unwrap();
}
