//! The history of a key: cost and heat.

use hopcache_core::refresh::{Cost, CostHistory, Heat};
use hopcache_core::time::{Millis, MonoTime};

use super::dice::{Dice, RunTimes};

fn after(runs: impl IntoIterator<Item = u64>) -> CostHistory {
    let mut history = CostHistory::default();
    runs.into_iter().for_each(|took| history.observe(Millis(took)));
    history
}

#[test]
fn nothing_is_known_before_the_first_run() {
    assert_eq!(CostHistory::default().cost(), None);
    assert_eq!(Cost::UNKNOWN.mean_ms, 50.0, "DESIGN: 50 ms until known");
}

/// The prior: about 3 × the mean after one run, near 1 after some tens of equal ones.
#[test]
fn the_tail_begins_at_the_prior_and_forgets_it() {
    let mut before = f64::INFINITY;
    println!("equal runs  tail / mean");
    for runs in [1, 4, 16, 50, 100, 200] {
        let cost = after(std::iter::repeat_n(200, runs)).cost().unwrap();
        let factor = cost.tail_ms / cost.mean_ms;
        println!("{runs:>10}  {factor:.3}");
        assert!((cost.mean_ms - 200.0).abs() < 1e-9);
        assert!(factor < before || factor == 1.0, "{factor} after {runs} runs");
        before = factor;
    }
    assert!(before < 1.1, "{before}");
    let first = after([200]).cost().unwrap();
    assert!((first.tail_ms / first.mean_ms - 3.0).abs() < 0.5, "{first:?}");
}

/// Over many keys' histories of 200 runs, the median estimates are the distribution's.
#[test]
fn mean_and_tail_are_found_in_what_varies() {
    let times = RunTimes { mean_ms: 200.0, cv: 1.5 };
    let tail_ms = times.quantile_ms(2.326);
    let mut dice = Dice(5);
    let mut found: Vec<Cost> = (0..400)
        .map(|_| after((0..200).map(|_| times.one_ms(&mut dice).round() as u64)).cost().unwrap())
        .collect();
    found.sort_by(|a, b| a.tail_ms.total_cmp(&b.tail_ms));
    let (low, median, high) = (found[40].tail_ms, found[200].tail_ms, found[360].tail_ms);
    let mean = found.iter().map(|cost| cost.mean_ms).sum::<f64>() / found.len() as f64;
    println!(
        "P99 {tail_ms:.0} ms; found in 200 runs: {low:.0} … {median:.0} … {high:.0} (10, 50, 90 %); mean {mean:.0}"
    );
    assert!((median / tail_ms - 1.0).abs() < 0.15, "{median}");
    assert!((mean / 200.0 - 1.0).abs() < 0.10, "{mean}");
    assert!(low > tail_ms / 2.0 && high < tail_ms * 2.0);
}

#[test]
fn a_slower_origin_is_followed_within_ten_runs() {
    let cost = after(std::iter::repeat_n(100, 100).chain(std::iter::repeat_n(1_000, 10))).cost().unwrap();
    assert!(cost.mean_ms > 600.0, "{cost:?}");
    let at_once = after(std::iter::repeat_n(100, 100).chain([1_000, 1_000])).cost().unwrap();
    assert!(at_once.tail_ms > 2.0 * 100.0, "the tail is longer at once: {at_once:?}");
}

/// A pattern's history is the key's prior: used at once, outweighed by the key's own runs.
#[test]
fn a_patterns_history_is_a_prior() {
    let pattern = after(std::iter::repeat_n(400, 100));
    let mut key = CostHistory::from_prior(&pattern);
    assert_eq!(key.cost(), pattern.cost());
    for _ in 0..15 {
        key.observe(Millis(50));
    }
    let cost = key.cost().unwrap();
    assert!(cost.mean_ms < 150.0, "{cost:?}");
    assert_eq!(CostHistory::from_prior(&CostHistory::default()).cost(), None);
}

/// A history that was put down as cost and number of runs goes on as if it had not been: one run weighs as one run.
#[test]
fn a_history_goes_on_from_its_cost_and_number_of_runs() {
    let one = after([10_000]);
    assert_eq!(CostHistory::of_runs(one.cost().unwrap(), one.runs()), one);
    for runs in [&[10_000, 100][..], &[400, 400, 50], &[400, 400, 400, 400, 50]] {
        let mut own = after(runs.iter().copied());
        let mut put_down = CostHistory::of_runs(own.cost().unwrap(), own.runs());
        assert_eq!(usize::from(put_down.runs()), runs.len());
        own.observe(Millis(100));
        put_down.observe(Millis(100));
        let (own, put_down) = (own.cost().unwrap(), put_down.cost().unwrap());
        assert!((own.mean_ms - put_down.mean_ms).abs() < 1e-6, "{own:?}, {put_down:?}");
        assert!((0.5..2.0).contains(&(own.tail_ms / put_down.tail_ms)), "{own:?}, {put_down:?}");
    }
    assert_eq!(CostHistory::of_runs(Cost::UNKNOWN, 0), CostHistory::default());
}

const fn s(seconds: u64) -> MonoTime {
    MonoTime(seconds * 1_000_000)
}

#[test]
fn heat_is_unknown_until_watched_and_known_for_ever_after() {
    let heat = Heat::new(s(100), None);
    assert_eq!(heat.rate_per_s(s(109)), None, "nobody asked, and nobody looked for long");
    assert_eq!(heat.rate_per_s(s(110)), Some(0.0), "ten seconds without a request are an answer");
    heat.arrive(15);
    assert_eq!(heat.rate_per_s(s(105)), None, "15 in 5 s");
    heat.arrive(1);
    assert_eq!(heat.rate_per_s(s(104)), Some(4.0), "16 are enough");
    assert_eq!(heat.rate_per_s(MonoTime(100_900_000)), None, "but not all at once");
    let next = Heat::new(s(200), heat.rate_per_s(s(104)).map(|rate| rate as f32));
    assert_eq!(next.rate_per_s(s(200)), Some(4.0), "the next copy knows it from the start");
}

#[test]
fn heat_blends_what_was_with_what_is() {
    let heat = Heat::new(s(0), Some(100.0));
    heat.arrive(1_000);
    assert_eq!(heat.rate_per_s(s(10)), Some(100.0));
    assert_eq!(heat.rate_per_s(s(90)), Some(20.0), "90 s at 11/s outweigh ten seconds at 100/s");
}

/// F23: a clock that steps back, and numbers from other nodes.
#[test]
fn heat_stays_a_number() {
    let heat = Heat::new(s(100), Some(5.0));
    heat.arrive(1_000);
    assert_eq!(heat.rate_per_s(s(1)), Some(5.0), "nothing can be timed: the rate before");
    for before in [f32::NAN, f32::INFINITY, -1.0] {
        assert_eq!(Heat::new(s(0), Some(before)).rate_per_s(s(1)), None, "{before} is no rate");
    }
    let full = Heat::new(s(0), Some(f32::MAX));
    for _ in 0..300 {
        full.arrive(u32::MAX);
    }
    assert_eq!(full.arrivals(), 1 << 31, "as many as are counted; it does not wrap");
    assert_eq!(full.rate_per_s(s(1)), Some(1e7));
}

/// Concurrent arrivals are all counted.
#[test]
fn heat_counts_without_a_lock() {
    let heat = Heat::new(s(0), None);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..10_000).for_each(|_| {
                    heat.arrive(1);
                });
            });
        }
    });
    assert_eq!(heat.arrivals(), 40_000);
}
