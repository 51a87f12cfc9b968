//! Request bodies, plain and typed (F33).
//!
//! The canonical form is injective if the written value can be read back: then equal bytes mean equal values. So the
//! target compares the value read back with the value that another JSON reader gets from the body. It also compares a
//! typed value with itself after a round trip through the renderer.

use std::collections::BTreeMap;

use hopcache_packstream::{Value, decode, encode, encode_canonical};
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, ResultView, Times, render};
use hopcache_queryapi::request::{QueryRequest, parse};
use serde_json::Value as Json;

pub(crate) fn check(bytes: &[u8]) {
    for encoding in Encoding::ALL {
        match parse(bytes, encoding) {
            Ok(request) => {
                let params = canonical(&request);
                if encoding == Encoding::TypedV12 {
                    survives_the_round_trip(&params);
                }
            }
            Err(error) => {
                assert!(matches!(error.status(), 400 | 500), "{error}");
                assert!(!error.message().is_empty() && !error.code().is_empty());
            }
        }
    }
    agrees_with_another_reader(bytes);
}

/// The parameters read back; writing them again changes nothing.
fn canonical(request: &QueryRequest) -> Value {
    assert!(!request.statement.is_empty());
    let params = decode(&request.parameters).expect("parameters are PackStream");
    let Value::Map(pairs) = &params else { panic!("parameters are a map") };
    assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0), "sorted, and no key twice");
    assert_eq!(encode_canonical(&params), request.parameters);
    params
}

fn survives_the_round_trip(params: &Value) {
    // In the hour that a zone passes twice the server shows both moments the same way (`crates/queryapi/src/zone.rs`).
    if has_zone(params) {
        return;
    }
    let records = encode(&Value::List(vec![params.clone()]));
    let view = ResultView {
        kind: None,
        fields: &[],
        records: &records,
        summary: &Value::Null,
        bookmarks: &[],
        errors: &[],
    };
    let form = ResponseForm { encoding: Encoding::TypedV12, counters: Counters::Omit, times: Times::Omit };
    // A value that no result can have (a point of an unknown system) is an error, as it is on the server.
    let Ok(body) = render(&view, form) else { return };
    let body = String::from_utf8(body).expect("JSON is text");
    let start = body.find("\"values\":[[").expect("values") + 11;
    let end = body.rfind("]]}").expect("the end of the values");
    let again = format!("{{\"statement\":\"x\",\"parameters\":{{\"p\":{}}}}}", &body[start..end]);
    let Ok(read) = parse(again.as_bytes(), Encoding::TypedV12) else {
        // One level deeper than it was: only that may be too much.
        assert!(depth(params) + 2 > hopcache_packstream::DEPTH_MAX, "{again}");
        return;
    };
    let expected = encode_canonical(&Value::Map(vec![("p".to_owned(), params.clone())]));
    assert_eq!(read.parameters, expected, "{again}");
}

fn has_zone(value: &Value) -> bool {
    match value {
        Value::List(items) => items.iter().any(has_zone),
        Value::Map(pairs) => pairs.iter().any(|(_, value)| has_zone(value)),
        Value::Struct { tag, .. } => *tag == hopcache_packstream::tag::DATE_TIME_ZONE,
        _ => false,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::List(items) | Value::Struct { fields: items, .. } => {
            1 + items.iter().map(depth).max().unwrap_or(0)
        }
        Value::Map(pairs) => 1 + pairs.iter().map(|(_, value)| depth(value)).max().unwrap_or(0),
        _ => 0,
    }
}

/// serde_json is stricter (lone surrogates, numbers beyond a double) and less exact (the last digit of a double). If
/// both readers accept a body, they have to read the same value.
fn agrees_with_another_reader(bytes: &[u8]) {
    let first = serde_json::Deserializer::from_slice(bytes).into_iter::<Json>().next();
    let Some(Ok(Json::Object(theirs))) = first else { return };
    // Both readers stop at the end of the value, but ours requires the whole body to be UTF-8.
    if std::str::from_utf8(bytes).is_err() {
        return;
    }
    let ours = match parse(bytes, Encoding::Plain) {
        Ok(ours) => ours,
        Err(error) => {
            assert!(has_repeated_members(bytes, &theirs) || !is_plainly_good(&theirs), "{error}");
            return;
        }
    };
    if let Some(Json::String(statement)) = theirs.get("statement") {
        assert_eq!(&ours.statement, statement);
    }
    let nothing = Json::Object(serde_json::Map::new());
    let params = theirs.get("parameters").filter(|params| !params.is_null()).unwrap_or(&nothing);
    assert!(equal(&decode(&ours.parameters).unwrap(), params), "{params}");
}

/// Whether a member may occur twice in its object, in which case serde_json shows only the last. Then more members are
/// written than serde_json has read. Colons behind the body count too, which only asks less.
fn has_repeated_members(bytes: &[u8], read: &serde_json::Map<String, Json>) -> bool {
    let (mut written, mut is_in_text, mut is_escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_in_text => is_escaped = true,
            b'"' => is_in_text = !is_in_text,
            b':' if !is_in_text => written += 1,
            _ => {}
        }
    }
    written > members_of(read)
}

fn members_of(read: &serde_json::Map<String, Json>) -> usize {
    read.len() + read.values().map(members_in).sum::<usize>()
}

fn members_in(value: &Json) -> usize {
    match value {
        Json::Object(members) => members_of(members),
        Json::Array(items) => items.iter().map(members_in).sum(),
        _ => 0,
    }
}

/// Whether no reader could have a reason to refuse the body.
fn is_plainly_good(body: &serde_json::Map<String, Json>) -> bool {
    let statement = matches!(body.get("statement"), Some(Json::String(text)) if !text.is_empty());
    let params = body.get("parameters").is_none_or(|params| params.is_object() && is_small(params, 100));
    statement && params && body.keys().all(|name| name == "statement" || name == "parameters")
}

fn is_small(value: &Json, levels: usize) -> bool {
    levels > 0
        && match value {
            Json::Array(items) => items.iter().all(|item| is_small(item, levels - 1)),
            Json::Object(members) => members.values().all(|member| is_small(member, levels - 1)),
            // serde_json reads an integer beyond 64 bits as a double.
            Json::Number(number) => number.as_i64().is_some(),
            _ => true,
        }
}

fn equal(ours: &Value, theirs: &Json) -> bool {
    match (ours, theirs) {
        (Value::Null, Json::Null) => true,
        (Value::Bool(one), Json::Bool(other)) => one == other,
        (Value::String(one), Json::String(other)) => one == other,
        // `-0` is the integer 0 to Neo4j and a double to serde_json.
        (Value::Int(0), Json::Number(other)) => other.as_f64() == Some(0.0),
        (Value::Int(one), Json::Number(other)) => other.as_i64() == Some(*one),
        (Value::Float(one), Json::Number(other)) => other.as_f64().is_some_and(|other| is_near(*one, other)),
        (Value::List(one), Json::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| equal(one, other))
        }
        (Value::Map(one), Json::Object(other)) => {
            let one: BTreeMap<&str, &Value> = one.iter().map(|(key, value)| (key.as_str(), value)).collect();
            let has =
                |(key, value): (&String, &Json)| one.get(key.as_str()).is_some_and(|ours| equal(ours, value));
            one.len() == other.len() && other.iter().all(has)
        }
        _ => false,
    }
}

fn is_near(one: f64, other: f64) -> bool {
    // Subnormal numbers have fewer digits to agree in.
    one.to_bits() == other.to_bits()
        || (one - other).abs() <= 1e-14 * one.abs().max(other.abs())
        || one.abs().max(other.abs()) < 1e-300
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let golden: Json =
        serde_json::from_str(include_str!("../../../tests/golden/query_api_requests.json")).expect("JSON");
    let bodies =
        ["plain", "typed"].into_iter().flat_map(|name| golden[name].as_array().into_iter().flatten());
    let mut seeds: Vec<Vec<u8>> =
        bodies.filter_map(|body| Some(body.as_str()?.as_bytes().to_vec())).collect();
    for body in [
        r#"{"statement":"RETURN $p","parameters":{"a":1,"a":1.0,"b":"1","c":[1,{"d":null}]},"includeCounters":true}"#,
        r#"{"statement":"x","accessMode":"READ","bookmarks":["a",1],"impersonatedUser":" u ","maxExecutionTime":"3"}"#,
        r#"{"statement":"x","parameters":{"s":"\ud83d\ude00\ud800\u0000\/\b"}} trailing"#,
        r#"{"statement":"x","parameters":{"p":{"$type":"Point","_value":"SRID=4979;POINT Z (1 2 3)"}}}"#,
        r#"{"statement":"x","parameters":{"p":{"$type":"Map","_value":{"k":{"$type":"Base64","_value":"AQI="}}}}}"#,
        "\"RETURN 1\"",
    ] {
        seeds.push(body.as_bytes().to_vec());
    }
    seeds
}
