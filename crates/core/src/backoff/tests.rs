//! The back-off's bounds, one by one and at random.

use proptest::prelude::*;

use super::*;

fn at(ms: u64) -> MonoTime {
    MonoTime(ms * 1_000)
}

/// A failure of a run that began just before it.
fn after(before: Option<BackOff>, failure: RunFailure, now_ms: u64) -> BackOff {
    BackOff::after(before, failure, at(now_ms), at(now_ms), 0.999_999)
}

#[test]
fn a_timeout_holds_back_at_once_and_bad_luck_has_one_more_try() {
    assert!(after(None, RunFailure::TimedOut, 1_000).left(at(1_000)).is_some());
    let once = after(None, RunFailure::Cut, 1_000);
    assert_eq!(once.left(at(1_000)), None);
    let twice = after(Some(once), RunFailure::Cut, 1_001);
    assert!(twice.left(at(1_001)).is_some());
    assert_eq!(twice.failures(), 2);
}

#[test]
fn pauses_double_up_to_the_bound() {
    let (mut last, mut now_ms, mut pauses) = (None, 0, Vec::new());
    for _ in 0..12 {
        let next = after(last, RunFailure::TimedOut, now_ms);
        let left = next.left(at(now_ms)).unwrap();
        pauses.push(left.0);
        now_ms += left.0 + 1;
        last = Some(next);
    }
    let expected: Vec<u64> = (0..12).map(|n| (BACKOFF_MS_FIRST << n).min(BACKOFF_MS_MAX) - 1).collect();
    assert_eq!(pauses, expected, "one less each: the draw is just below 1");
}

/// A hundred runs of one key that fail together (rings that disagree, `no-cache`) are one failure.
#[test]
fn runs_under_way_together_count_as_one() {
    let first = after(None, RunFailure::TimedOut, 1_000);
    let mut last = first;
    for place in 0..100 {
        last = BackOff::after(Some(last), RunFailure::TimedOut, at(900), at(1_001 + place), 0.5);
    }
    assert_eq!(last, first);
}

#[test]
fn old_setbacks_are_forgotten() {
    let mut row = after(None, RunFailure::TimedOut, 0);
    for _ in 0..5 {
        row = after(Some(row), RunFailure::TimedOut, 0);
    }
    let left = row.left(at(0)).unwrap().0;
    assert_eq!(after(Some(row), RunFailure::TimedOut, left + BACKOFF_MS_MAX - 1).failures(), 7);
    assert_eq!(after(Some(row), RunFailure::TimedOut, left + BACKOFF_MS_MAX + 1).failures(), 1);
}

proptest! {
    /// However runs end, a key is held back for no longer than the bound, and `left` runs out.
    #[test]
    fn no_pause_is_over_the_bound(
        story in prop::collection::vec((any::<bool>(), 0_u64..20_000, 0_u64..40_000, any::<f64>()), 1..60),
    ) {
        let (mut last, mut now_ms) = (None, 0);
        for (timed_out, pause, took, unit) in story {
            now_ms += pause;
            let failure = if timed_out { RunFailure::TimedOut } else { RunFailure::Cut };
            let began = at(now_ms);
            now_ms += took;
            let next = BackOff::after(last, failure, began, at(now_ms), unit);
            let left = next.left(at(now_ms)).unwrap_or_default();
            prop_assert!(left.0 <= BACKOFF_MS_MAX);
            prop_assert_eq!(next.left(at(now_ms) + left), None);
            prop_assert!(next.failures() >= 1);
            last = Some(next);
        }
    }

    /// However eagerly clients ask, a key that never answers runs about log₂ + time ÷ bound times.
    #[test]
    fn an_eager_crowd_runs_a_failing_key_seldom(took in 0_u64..3_000, gap in 1_u64..50, unit in 0.0..1.0_f64) {
        const SPAN_MS: u64 = 120_000;
        let (mut last, mut now_ms, mut runs) = (None::<BackOff>, 0, 0);
        while now_ms < SPAN_MS {
            if last.and_then(|last| last.left(at(now_ms))).is_none() {
                let began = at(now_ms);
                now_ms += took;
                runs += 1;
                last = Some(BackOff::after(last, RunFailure::TimedOut, began, at(now_ms), unit));
            }
            now_ms += gap;
        }
        // Halved by jitter at worst: six doublings, then one run in half the bound.
        let bound = 8 + SPAN_MS / (BACKOFF_MS_MAX / 2);
        prop_assert!(runs <= bound, "{} runs, bound {}", runs, bound);
    }
}
