//! Any bytes as records and summary: they become JSON or are refused, and the JSON is never much larger than its input.

use hopcache_packstream::{Reader, Value, encode};
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, ResultView, Times, render};

use crate::packed::{every_type, summary};

/// Most bytes of JSON for a byte of PackStream (I9): a typed null is 32 bytes and a comma. The parts of a node, a
/// duration or a point have less for each byte.
const GROWTH_MAX: usize = 64;

pub(crate) fn check(bytes: &[u8]) {
    // The first value is the summary, the rest are records; with no value in front all is records.
    let mut reader = Reader::new(bytes);
    let summary = reader.value().ok();
    let records = if summary.is_some() { reader.rest() } else { bytes };
    let summary = summary.unwrap_or(Value::Null);
    let names = ["a".to_owned(), "\u{0}\"\u{2028}".to_owned()];
    for encoding in Encoding::ALL {
        for counters in [Counters::Include, Counters::Omit] {
            let view = ResultView {
                kind: None,
                fields: &names,
                records,
                summary: &summary,
                bookmarks: &names,
                errors: &[],
            };
            let Ok(body) = render(&view, ResponseForm { encoding, counters, times: Times::Omit }) else {
                continue;
            };
            assert!(body.len() <= GROWTH_MAX * bytes.len() + 1024, "{} of {}", body.len(), bytes.len());
            assert_json(&body);
        }
    }
    let errors = [(names[1].clone(), String::from_utf8_lossy(bytes).into_owned())];
    let view = ResultView {
        kind: None,
        fields: &names,
        records,
        summary: &summary,
        bookmarks: &[],
        errors: &errors,
    };
    if let Ok(body) = render(
        &view,
        ResponseForm { encoding: Encoding::Plain, counters: Counters::Omit, times: Times::Omit },
    ) {
        assert_json(&body);
    }
}

fn assert_json(body: &[u8]) {
    if let Err(error) = serde_json::from_slice::<serde_json::Value>(body) {
        // serde_json goes 128 levels deep, and each of our levels is two levels of a typed value.
        let is_depth = error.to_string().contains("recursion limit");
        assert!(is_depth, "{error}: {}", String::from_utf8_lossy(body));
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let rows = every_type().into_iter().map(|value| [vec![0xA0], encode(&Value::List(vec![value]))].concat());
    let mut seeds: Vec<Vec<u8>> = rows.collect();
    seeds.push([encode(&summary()), encode(&Value::List(every_type()))].concat());
    seeds
}
