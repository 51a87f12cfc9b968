//! The budget of retries: a share of the requests of the last seconds, and a small floor.
//!
//! When part of a cluster is sick, each request that fails there and goes to another node is additional load there. If
//! retries are a share of requests, they add that share and no more, however much fails; a bound for each request
//! (`FORWARDS_MAX`) multiplies instead. This is the retry budget of Finagle (`RetryBudget`: `percentCanRetry` 0.2,
//! `minRetriesPerSec` 10, `ttl` 10 s) and of linkerd's service profiles (`retryRatio`, `minRetriesPerSecond`, `ttl`),
//! which have the same three numbers.
//!
//! Requests pay in, retries take out. A payment is valid for [`RETRY_WINDOW_S`] seconds, so a quiet night saves up
//! nothing for the morning. It knows no clock: `now` comes in. It never decides what happens instead of a retry.

use crate::limits::{RETRIES_PER_S_MIN, RETRY_PERCENT, RETRY_WINDOW_S};
use crate::time::MonoTime;

/// The price of one retry; a request pays in [`RETRY_PERCENT`] of it.
const RETRY_COST: i64 = 100;
const US_PER_S: u64 = 1_000_000;

/// The budget of one node.
#[derive(Debug, Clone)]
pub struct RetryBudget {
    /// Payments less withdrawals, for each of the last seconds.
    seconds: [i64; RETRY_WINDOW_S],
    /// The current second.
    now_s: u64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { seconds: [0; RETRY_WINDOW_S], now_s: 0 }
    }
}

impl RetryBudget {
    /// A request was tried for the first time.
    pub fn request(&mut self, now: MonoTime) {
        let place = self.turn_to(now);
        self.seconds[place] = self.seconds[place].saturating_add(RETRY_PERCENT);
    }

    /// Whether the budget allows one more retry. If so, it is spent.
    pub fn take(&mut self, now: MonoTime) -> bool {
        let place = self.turn_to(now);
        let floor = RETRIES_PER_S_MIN * RETRY_COST * i64::try_from(RETRY_WINDOW_S).unwrap_or(i64::MAX);
        let left = self.seconds.iter().fold(floor, |sum, second| sum.saturating_add(*second));
        let is_within = left >= RETRY_COST;
        if is_within {
            self.seconds[place] -= RETRY_COST;
        }
        is_within
    }

    /// The place of this second, after forgetting seconds older than the window.
    fn turn_to(&mut self, now: MonoTime) -> usize {
        let window = RETRY_WINDOW_S as u64;
        let now_s = (now.0 / US_PER_S).max(self.now_s);
        let passed = (now_s - self.now_s).min(window);
        for second in now_s - passed + 1..=now_s {
            self.seconds[Self::place(second)] = 0;
        }
        self.now_s = now_s;
        Self::place(now_s)
    }

    fn place(second: u64) -> usize {
        usize::try_from(second % RETRY_WINDOW_S as u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    fn taken(budget: &mut RetryBudget, now: MonoTime, tries: usize) -> usize {
        (0..tries).filter(|_| budget.take(now)).count()
    }

    /// Finagle's numbers: 10 a second over 10 s, and a fifth of the requests.
    #[test]
    fn retries_are_a_fifth_of_requests_and_a_floor() {
        let mut budget = RetryBudget::default();
        assert_eq!(taken(&mut budget, at(0), 1_000), 100, "the floor alone");
        (0..1_000).for_each(|_| budget.request(at(500)));
        assert_eq!(taken(&mut budget, at(900), 1_000), 200);
    }

    #[test]
    fn what_was_put_in_and_taken_out_is_forgotten_after_the_window() {
        let mut budget = RetryBudget::default();
        (0..10_000).for_each(|_| budget.request(at(0)));
        assert_eq!(taken(&mut budget, at(10_500), 5_000), 100, "a quiet night saves up nothing");
        assert_eq!(taken(&mut budget, at(19_900), 5_000), 0);
        assert_eq!(taken(&mut budget, at(20_500), 5_000), 100);
    }

    /// However much fails, over any long time: retries ≤ share × requests + floor × (time + window).
    #[test]
    fn a_sick_cluster_is_asked_no_more_than_its_share_again() {
        let (mut budget, mut retries) = (RetryBudget::default(), 0);
        for ms in 0..60_000 {
            budget.request(at(ms));
            retries += taken(&mut budget, at(ms), 2);
        }
        assert!(
            (12_000..=12_000 + 700).contains(&retries),
            "{retries} retries of 60,000 requests that all failed"
        );
    }

    /// A clock that stands still, or a caller that reads it too early.
    #[test]
    fn an_earlier_now_changes_nothing() {
        let mut budget = RetryBudget::default();
        assert_eq!(taken(&mut budget, at(50_000), 100), 100);
        assert_eq!(taken(&mut budget, at(100), 10), 0);
    }
}
