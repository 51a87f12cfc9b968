//! The cost of counting, summing up and answering with many patterns: printed (`--nocapture`, in a release build), and
//! bounded here generously, for a busy machine and a debug build.

use std::time::{Duration, Instant};

use hopcache_core::limits::{PULL_PAGE_BYTES_MAX, PULL_PRINTS_PER_CALL};
use hopcache_learning::TransitionCounts;

use super::{at, form, node, pattern, query};

/// Counts of one step: two sources seen, two forms that followed.
const COUNTS_PER_STEP: u32 = 4;

#[test]
#[expect(clippy::disallowed_methods, reason = "what it costs is the question")]
fn a_large_model_is_counted_and_told_in_bounded_time() {
    let patterns = if cfg!(debug_assertions) { 20_000_u64 } else { 100_000 };
    let steps = 5 * patterns / 2;
    let mut known = node(1, 11, usize::try_from(patterns).unwrap(), at(0));
    let began = Instant::now();
    for n in 0..steps {
        let (now, of) = (at(n / 100), n * 2_654_435_761 % patterns);
        known.saw(pattern(of), now);
        known.saw(query(of), now);
        known.count(pattern(of), form(of % 1_000), now);
        known.count(query(of), form(of), now);
    }
    let took = began.elapsed();
    let per_second = f64::from(COUNTS_PER_STEP) * steps as f64 / took.as_secs_f64();
    println!("{patterns} patterns, {} counts: {per_second:.0} counts/s", u64::from(COUNTS_PER_STEP) * steps);

    let mut newcomer = node(2, 22, usize::try_from(patterns).unwrap(), at(0));
    let (mut longest, mut calls, mut bytes) = (Duration::ZERO, 0, 0);
    let mut first = None;
    let now = at(steps / 100);
    loop {
        let digest = newcomer.digest(now);
        let began = Instant::now();
        let page = known.answer_pull(&digest, now);
        let took = began.elapsed();
        first.get_or_insert(took);
        (longest, calls, bytes) = (longest.max(took), calls + 1, bytes + page.len());
        assert!(page.len() <= PULL_PAGE_BYTES_MAX);
        let merged = newcomer.merge(&TransitionCounts::decode(&page).unwrap(), now, |_| true);
        if !merged.more || calls == 200 {
            break;
        }
    }
    println!(
        "answers to {calls} pulls ({bytes} bytes; at most {PULL_PRINTS_PER_CALL} sources summed up in each): first {first:?}, longest {longest:?}"
    );
    if calls < 200 {
        let (told, heard) = (known.sizes(), newcomer.sizes());
        assert_eq!((heard.patterns, heard.queries), (told.patterns, told.queries), "all of it was pulled");
    }
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}
