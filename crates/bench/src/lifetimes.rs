//! When entries expire, as their readers see it: lifetimes of entries and their soft expiries, out of answers.
//!
//! A hit sent at `s` and answered at `a` with `ttl=k` (rounded down) belongs to an entry that expires from `s + k`
//! on and before `a + k + 1`. The intersection over all answers of one entry is smaller: a thousand answers a second narrow it down to
//! about a millisecond, because every step of `ttl` occurs. An entry that was refreshed early has an expiry too: the
//! time at which it would have expired. Answers of misses are left out: without protection hundreds of entries replace
//! each other, and only the last one exists when it expires.

use crate::cache_status::Kind;
use crate::load::Sample;

/// Largest difference of two nodes' clocks about the same entry. It is far less than the time between the expiries of
/// two entries of a key (about its TTL).
const SKEW_US: i64 = 250_000;
/// Newer lifetimes that an answer may already have been preceded by: nodes' own copies of an older one.
const LIFETIMES_BACK: usize = 3;

/// Tolerance for the first reader of the next entry: the time of a request, plus the uncertainty of the expiry.
const LATE_US: i64 = 10_000;

/// One entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    earliest_us: i64,
    latest_us: i64,
    /// When the first of its hits was answered.
    pub(crate) first_us: i64,
}

impl Life {
    pub(crate) const fn expiry_us(&self) -> i64 {
        i64::midpoint(self.earliest_us, self.latest_us)
    }

    const fn fits(&self, earliest_us: i64, latest_us: i64) -> bool {
        earliest_us <= self.latest_us + SKEW_US && self.earliest_us <= latest_us + SKEW_US
    }

    fn narrow(&mut self, earliest_us: i64, latest_us: i64) {
        let (earliest, latest) = (self.earliest_us.max(earliest_us), self.latest_us.min(latest_us));
        if earliest <= latest {
            (self.earliest_us, self.latest_us) = (earliest, latest);
        }
    }
}

/// Lifetimes of one key, in the order in which they were first seen.
pub(crate) fn lifetimes<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<Life> {
    let mut lifetimes: Vec<Life> = Vec::new();
    for sample in samples {
        let (Kind::Fresh | Kind::Stale, Some(ttl_s)) = (sample.status.kind, sample.status.ttl_s) else {
            continue;
        };
        let ttl_us = i64::from(ttl_s) * 1_000_000;
        let answered_us = signed(sample.answered_us);
        let (earliest, latest) = (signed(sample.sent_us) + ttl_us, answered_us + ttl_us + 1_000_000);
        let known =
            lifetimes.iter_mut().rev().take(LIFETIMES_BACK).find(|lifetime| lifetime.fits(earliest, latest));
        match known {
            Some(lifetime) => lifetime.narrow(earliest, latest),
            None => lifetimes.push(Life { earliest_us: earliest, latest_us: latest, first_us: answered_us }),
        }
    }
    lifetimes
}

/// Expiries between `from_us` and `to_us` of entries that lived for at least half of the TTL. An entry that was
/// replaced sooner (by another run of the same stampede) could not expire.
pub(crate) fn expiries(lifetimes: &[Life], ttl_us: i64, from_us: i64, to_us: i64) -> Vec<i64> {
    let lasted = |place: usize| {
        lifetimes
            .get(place + 1)
            .is_none_or(|next: &Life| next.first_us - lifetimes[place].first_us >= ttl_us / 2)
    };
    let held = lifetimes.iter().enumerate().filter(|(place, _)| lasted(*place));
    let mut expiries: Vec<i64> = held.map(|(_, lifetime)| lifetime.expiry_us()).collect();
    expiries.retain(|at| (from_us..=to_us).contains(at));
    expiries.sort_unstable();
    expiries
}

/// The nearest expiry's distance: negative before it.
pub(crate) fn offset_us(expiries: &[i64], at_us: i64) -> Option<i64> {
    let next = expiries.partition_point(|expiry| *expiry < at_us);
    let around = [next.checked_sub(1), Some(next)].into_iter().flatten();
    let offsets = around.filter_map(|place| Some(at_us - expiries.get(place)?));
    offsets.min_by_key(|offset| offset.abs())
}

/// Origin runs in each TTL window. A window goes from the middle between an expiry and the one before to the middle
/// between it and the next. So the run that renews an entry, early or late, is in the window of that entry's expiry.
/// The first and the last window are half a TTL wide on their outer side.
pub(crate) fn runs_per_window(expiries: &[i64], runs_us: &[i64], ttl_us: i64) -> Vec<usize> {
    let bound = |before: Option<&i64>, after: Option<&i64>| match (before, after) {
        (Some(before), Some(after)) => i64::midpoint(*before, *after),
        (Some(before), None) => before + ttl_us / 2,
        (None, Some(after)) => after - ttl_us / 2,
        (None, None) => 0,
    };
    (0..expiries.len())
        .map(|place| {
            let before = place.checked_sub(1).and_then(|place| expiries.get(place));
            let from = bound(before, expiries.get(place));
            let to = bound(expiries.get(place), expiries.get(place + 1));
            runs_us.iter().filter(|run| (from..to).contains(*run)).count()
        })
        .collect()
}

/// Expiries that readers noticed: an answer near the expiry was stale or a miss, or the next entry's first reader came
/// after the expiry. The second condition does not depend on how a node labels an answer that waited for another
/// request's run. Stale answers and misses count from a little before the expiry, because a node's clock may be ahead
/// of the others.
pub(crate) fn late(expiries: &[i64], lifetimes: &[Life], samples: &[Sample], ttl_us: i64) -> usize {
    let has_waited = |expiry: i64| {
        let from = samples.partition_point(|sample| signed(sample.due_us) < expiry - SKEW_US);
        let about = samples[from..].iter().take_while(|sample| signed(sample.due_us) < expiry + ttl_us / 2);
        about.into_iter().any(|sample| matches!(sample.status.kind, Kind::Stale | Kind::Miss))
    };
    let came_behind = |expiry: i64| {
        let next = lifetimes.iter().find(|lifetime| lifetime.expiry_us() > expiry + ttl_us / 2);
        next.is_some_and(|next| next.first_us > expiry + LATE_US)
    };
    expiries.iter().filter(|expiry| has_waited(**expiry) || came_behind(**expiry)).count()
}

/// A time as a number from which others may be taken away.
pub(crate) fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_status::CacheStatus;

    const TTL_US: i64 = 5_000_000;

    /// An answer of an entry that expires at `expiry_us`, as a node writes it.
    fn answer(at_us: u64, expiry_us: i64) -> Sample {
        let left_us = expiry_us - signed(at_us);
        let ttl_s = i32::try_from(left_us.div_euclid(1_000_000)).unwrap();
        let kind = if ttl_s < 0 { Kind::Stale } else { Kind::Fresh };
        let status = CacheStatus { ttl_s: Some(ttl_s), ..CacheStatus::only(kind) };
        Sample { due_us: at_us, sent_us: at_us, answered_us: at_us + 300, status }
    }

    #[test]
    fn expiry_is_found_to_about_a_millisecond() {
        // Refreshed at 4.6 s, 400 ms early; the second is served stale for 200 ms.
        let first = (0..4_600).map(|at| answer(at * 1_000, 5_000_000));
        let second = (4_600..9_800).map(|at| answer(at * 1_000, 9_600_000));
        let third = (9_800..12_000).map(|at| answer(at * 1_000, 14_800_000));
        let samples: Vec<Sample> = first.chain(second).chain(third).collect();
        let lifetimes = lifetimes(&samples);
        assert_eq!(lifetimes.len(), 3, "{lifetimes:?}");
        let found = expiries(&lifetimes, TTL_US, 0, 11_000_000);
        assert_eq!(found.len(), 2);
        assert!((found[0] - 5_000_000).abs() < 1_500 && (found[1] - 9_600_000).abs() < 1_500, "{found:?}");
        assert_eq!(late(&found, &lifetimes, &samples, TTL_US), 1);
    }

    #[test]
    fn a_late_entry_is_late_whatever_its_readers_are_told() {
        let first = (0..5_000).map(|at| answer(at * 1_000, 5_000_000));
        let waited =
            (5_000..5_200).map(|at| Sample { answered_us: 5_200_000, ..answer(at * 1_000, 10_000_000) });
        let second = (5_200..9_900).map(|at| answer(at * 1_000, 10_000_000));
        let third = (9_900..15_000).map(|at| answer(at * 1_000, 15_000_000));
        let samples: Vec<Sample> = first.chain(waited).chain(second).chain(third).collect();
        let lifetimes = lifetimes(&samples);
        let found = expiries(&lifetimes, TTL_US, 0, 11_000_000);
        assert_eq!((found.len(), late(&found, &lifetimes, &samples, TTL_US)), (2, 1), "{lifetimes:?}");
    }

    #[test]
    fn answers_of_an_older_copy_make_no_new_life() {
        let mut samples: Vec<Sample> = (0..4_600).map(|at| answer(at * 1_000, 5_000_000)).collect();
        samples.extend((4_600..4_800).map(|at| answer(at * 1_000, 5_000_000 + (at as i64 % 2) * 4_600_000)));
        assert_eq!(lifetimes(&samples).len(), 2);
    }

    #[test]
    fn entries_stored_over_one_another_are_no_expiries() {
        let mut samples: Vec<Sample> = (0..20).map(|at| answer(at * 1_000, 4_600_000)).collect();
        samples.extend((20..4_000).map(|at| answer(at * 1_000, 5_400_000)));
        let lifetimes = lifetimes(&samples);
        let found = expiries(&lifetimes, TTL_US, 0, 10_000_000);
        assert_eq!((lifetimes.len(), found.len()), (2, 1));
        assert!((found[0] - 5_400_000).abs() < 1_500, "{found:?}");
    }

    #[test]
    fn each_window_has_one_expiry_and_the_runs_about_it() {
        let expiries = [5_000_000, 10_000_000, 14_000_000];
        // Early, late, and twice.
        let runs = [0, 4_600_000, 10_200_000, 13_500_000, 13_900_000, 40_000_000];
        assert_eq!(runs_per_window(&expiries, &runs, TTL_US), [1, 1, 2]);
        assert!(runs_per_window(&[], &runs, TTL_US).is_empty());
    }

    #[test]
    fn offsets_are_to_the_nearest_expiry() {
        let expiries = [5_000_000, 10_000_000];
        assert_eq!(offset_us(&expiries, 4_900_000), Some(-100_000));
        assert_eq!(offset_us(&expiries, 5_200_000), Some(200_000));
        assert_eq!(offset_us(&expiries, 9_000_000), Some(-1_000_000));
        assert_eq!(offset_us(&expiries, 99_000_000), Some(89_000_000));
        assert_eq!(offset_us(&[], 0), None);
    }
}
