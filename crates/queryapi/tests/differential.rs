//! This crate's output, compared with that of the same server's own Query API.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::panic)]

use super::bolt::{Bolt, post};
use hopcache_packstream::{Value, decode};
use hopcache_queryapi::headers::media;
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, ResultView, Times, render};
use hopcache_queryapi::request;

const GOLDEN: &str = include_str!("../../../tests/golden/query_api_statements.json");

fn statements(part: &str) -> Vec<String> {
    let golden: serde_json::Value = serde_json::from_str(GOLDEN).unwrap();
    golden[part].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn without_bookmarks(body: &str) -> &str {
    let whole = body.strip_suffix('}').unwrap_or(body);
    whole.split_once(",\"bookmarks\":").map_or(whole, |(head, _)| head)
}

fn ours(bolt: &mut Bolt, statement: &str, parameters: Value, form: ResponseForm) -> String {
    let run = bolt.run(statement, parameters);
    let text = |name| run.end.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    let errors = if run.failed { vec![(text("code"), text("message"))] } else { vec![] };
    let view = ResultView {
        kind: None,
        fields: &run.fields,
        records: &run.records,
        summary: &run.end,
        bookmarks: &[],
        errors: &errors,
    };
    String::from_utf8(render(&view, form).unwrap()).unwrap()
}

/// Every value type reads as the server itself writes it (the contract of INTERFACE section 1).
#[test]
fn every_golden_statement_renders_as_the_servers_own_answer() {
    let mut bolt = Bolt::connect();
    statements("setup").iter().for_each(|statement| drop(bolt.run(statement, Value::Map(vec![]))));
    let list = statements("statements");
    assert!(list.len() >= 100);
    let mut differences = Vec::new();
    for statement in &list {
        for (encoding, counters) in [(Encoding::Plain, Counters::Omit), (Encoding::Typed, Counters::Include)]
        {
            let include = counters == Counters::Include;
            let body = serde_json::json!({"statement": statement, "includeCounters": include}).to_string();
            let (status, theirs) = post(body.as_bytes(), media::PLAIN, media::name(encoding));
            assert_eq!(status, 202, "{statement}: {theirs}");
            let ours = ours(
                &mut bolt,
                statement,
                Value::Map(vec![]),
                ResponseForm { encoding, counters, times: Times::Omit },
            );
            if without_bookmarks(&ours) != without_bookmarks(&theirs) {
                differences.push(format!("{statement}\n  ours   {ours}\n  theirs {theirs}"));
            }
        }
    }
    statements("teardown").iter().for_each(|statement| drop(bolt.run(statement, Value::Map(vec![]))));
    assert!(differences.is_empty(), "{} differ\n{}", differences.len(), differences.join("\n"));
}

/// Parameters have the server's meaning, and a body that the server refuses is refused with its code and message.
#[test]
fn every_golden_request_is_read_as_the_server_reads_it() {
    let mut bolt = Bolt::connect();
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/golden/query_api_requests.json")).unwrap();
    let mut differences = Vec::new();
    for (part, encoding) in [("plain", Encoding::Plain), ("typed", Encoding::Typed)] {
        for body in golden[part].as_array().unwrap().iter().map(|body| body.as_str().unwrap()) {
            let (status, theirs) = post(body.as_bytes(), media::name(encoding), media::TYPED);
            let ours = match request::parse(body.as_bytes(), encoding) {
                Ok(request) => {
                    let form = ResponseForm {
                        encoding: Encoding::Typed,
                        counters: Counters::Omit,
                        times: Times::Omit,
                    };
                    let parameters = decode(&request.parameters).unwrap();
                    (202, ours(&mut bolt, &request.statement, parameters, form))
                }
                Err(error) => {
                    let body = hopcache_queryapi::failure::body(error.code(), error.message());
                    (error.status(), String::from_utf8(body).unwrap())
                }
            };
            if (ours.0, without_bookmarks(&ours.1)) != (status, without_bookmarks(&theirs)) {
                differences.push(format!("{body}\n  ours   {ours:?}\n  theirs {status} {theirs}"));
            }
        }
    }
    assert!(differences.is_empty(), "{} differ\n{}", differences.len(), differences.join("\n"));
}
