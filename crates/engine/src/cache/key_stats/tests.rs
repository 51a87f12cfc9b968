//! The history of a key's runs: what it begins with, and what a run weighs in it.

use bytes::Bytes;
use hopcache_core::result::ResultSet;
use hopcache_packstream::Value;

use super::*;
use crate::cache::copy::CopyTimes;

/// The first run takes ten seconds, as in a cold server, and the next ones a tenth.
const COLD: Millis = Millis(10_000);
const WARM: Millis = Millis(100);
/// The mean of both. A cold run that weighed four runs would give 8,020 ms.
const MEAN_MS: f64 = 5_050.0;

/// A copy of a run that took this long. It knows no more of the key's cost, as one from the store.
fn copy_of(query: &Query, cost_ms: Millis) -> MemoryCopy {
    let ms = Millis(60_000);
    let times = CopyTimes { read_started: MonoTime(0), soft_ms: ms, physical_ms: ms, total_ms: ms, cost_ms };
    let result = ResultSet {
        fields: Vec::new(),
        records: Bytes::new(),
        rows: 0,
        kind: None,
        summary: Value::Map(Vec::new()),
        bookmark: None,
        range: None,
        marked: None,
    };
    MemoryCopy::new(&result, times, None, query.tags.clone())
}

/// The copy of the first run of a key, as it is made from that run.
fn first_copy(history: &mut History, query: &Query) -> MemoryCopy {
    let mut cost = history.prior(query);
    cost.observe(COLD);
    let copy = copy_of(query, COLD).with_first_cost(&cost);
    history.observe(query, Hints::default(), (None, COLD));
    assert_eq!(history.lens().0, 0, "a key that ran once has no history");
    copy
}

fn mean_ms(history: &History, query: &Query) -> f64 {
    history.keys.peek(&query.key).unwrap().cost().unwrap().mean_ms
}

/// A copy that the second run replaces, with and without hits that plan for it, and given other times before.
#[test]
fn a_first_run_weighs_as_one_run() {
    let query = Query::of_text("RETURN 1");
    for (is_planned, is_short) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut history = History::new();
        let mut copy = first_copy(&mut history, &query);
        if is_short {
            copy = copy.with_times(CopyTimes { soft_ms: Millis(2_000), ..copy.times() });
            assert_eq!(copy.schedule().first_cost().map(|cost| cost.runs()), Some(1));
        }
        if is_planned {
            let known = history.seen(&query.key, &copy, None).cost.unwrap();
            assert!((known.mean_ms - 10_000.0).abs() < 1.0);
        }
        history.observe(&query, Hints::default(), (Some(&copy), WARM));
        let mean_ms = mean_ms(&history, &query);
        assert!((mean_ms - MEAN_MS).abs() < 1.0, "{mean_ms} ms, planned {is_planned}, short {is_short}");
    }
}

/// A copy from the store says how long its run took: a hit that plans for it leaves no history without that run.
#[test]
fn a_copy_of_the_store_begins_the_history_with_its_run() {
    let (mut history, query) = (History::new(), Query::of_text("RETURN 1"));
    let copy = copy_of(&query, COLD);
    let known = history.seen(&query.key, &copy, Some(3.0)).cost.unwrap();
    assert!((known.mean_ms - 10_000.0).abs() < 1.0, "{known:?}");
    history.observe(&query, Hints::default(), (Some(&copy), WARM));
    let mean_ms = mean_ms(&history, &query);
    assert!((mean_ms - MEAN_MS).abs() < 1.0, "{mean_ms} ms");
}

/// A history without a run, of hints alone, begins with what the pattern and the copy in memory say.
#[test]
fn a_history_without_a_run_begins_with_what_is_known() {
    let (mut history, hinted, other) =
        (History::new(), Query::of_text("RETURN 1"), Query::of_text("RETURN 2"));
    assert_eq!(hinted.cost_key(), other.cost_key(), "one pattern");
    for _ in 0..4 {
        history.observe(&other, Hints::default(), (None, COLD));
    }
    history.keys.get_or_insert(&hinted.key, KeyHistory::default).note_hints(Some(7), None);
    history.observe(&hinted, Hints::default(), (Some(&copy_of(&hinted, COLD)), WARM));
    let mean_ms = mean_ms(&history, &hinted);
    assert!(
        (mean_ms - 50_100.0 / 6.0).abs() < 1.0,
        "of four runs of the pattern, one before and this one: {mean_ms} ms"
    );
    assert_eq!(history.keys.peek(&hinted.key).unwrap().degree(), Some(7));
}
