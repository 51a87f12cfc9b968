//! How many prefetches one node may launch: a quarter of the demand misses that there would be without any.
//!
//! DESIGN "Prefetch" says 0.25 × the demand misses. Counted on the remaining misses, it would allow a prefetch that
//! saves everything nothing at all, because each used launch removes a demand miss. So a used launch counts as the
//! demand miss that it replaced: it pays in a quarter as that miss would have, and its own token comes back, since its
//! run was needed anyway. Extra launches (those not used) stay below a quarter of the demand misses that there would
//! have been:
//!
//!   launches − used ≤ 0.25 × (demand misses + used) + cap, in any order of events.
//!
//! The bucket begins empty and never goes below zero, so the inequality holds even without the cap. Tokens over the cap
//! are lost, so a quiet night saves up nothing for the morning. It counts quarters of a token, so no fraction is lost.
//!
//! The bound is on the origin's time, not only on runs. A launch that takes longer than the mean demand miss costs as
//! many tokens as it takes times that mean. Example: demand misses take 5 ms, and a candidate 50 ms. It costs 10 tokens,
//! which 40 demand misses pay. A shorter one costs a whole token, so the bound on runs holds as well.
//!
//! It knows no clock, and never decides what is launched.

use hopcache_core::limits::{PREFETCH_MISS_SMOOTHING, PREFETCH_QUARTERS_PER_MISS, PREFETCH_TOKENS_MAX};

/// The quarters of a token.
const TOKEN_QUARTERS: i64 = 4;

/// The price of one launch, in quarters of a token: at least a token, at most a full bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price(i64);

/// The tokens of one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Budget {
    quarters: i64,
    /// The mean time of demand misses at the origin, smoothed.
    miss_ms: Option<f64>,
}

impl Budget {
    /// A demand miss ran at the origin. Runs of its pattern take `run_ms`, if that is known.
    pub fn demand_miss(&mut self, run_ms: Option<f64>) {
        self.add(PREFETCH_QUARTERS_PER_MISS);
        if let Some(run_ms) = run_ms.filter(|run_ms| run_ms.is_finite() && *run_ms > 0.0) {
            let mean = self.miss_ms.unwrap_or(run_ms);
            self.miss_ms = Some(mean + (run_ms - mean) * PREFETCH_MISS_SMOOTHING);
        }
    }

    /// The price of a launch whose run takes about `run_ms`. Without a history it is one token.
    #[must_use]
    pub fn price(&self, run_ms: Option<f64>) -> Price {
        let tokens = match (run_ms, self.miss_ms) {
            (Some(run_ms), Some(miss_ms)) => run_ms / miss_ms,
            _ => 1.0,
        };
        #[expect(clippy::cast_precision_loss, reason = "a small bound")]
        let tokens = if tokens.is_finite() { tokens.clamp(1.0, PREFETCH_TOKENS_MAX as f64) } else { 1.0 };
        #[expect(clippy::cast_possible_truncation, reason = "within the bounds")]
        let quarters = (tokens * TOKEN_QUARTERS as f64) as i64;
        Price(quarters)
    }

    /// Takes the price of a launch. Returns whether there was enough.
    pub fn take(&mut self, price: Price) -> bool {
        let is_within = self.quarters >= price.0;
        if is_within {
            self.quarters -= price.0;
        }
        is_within
    }

    /// A launch that was paid came to no run: its price comes back.
    pub fn give_back(&mut self, price: Price) {
        self.add(price.0);
    }

    /// A launch was used, in time or late.
    pub fn used(&mut self, price: Price) {
        self.add(price.0 + PREFETCH_QUARTERS_PER_MISS);
    }

    /// Whole tokens left.
    #[must_use]
    pub fn tokens(&self) -> i64 {
        self.quarters / TOKEN_QUARTERS
    }

    fn add(&mut self, quarters: i64) {
        self.quarters = (self.quarters + quarters).min(PREFETCH_TOKENS_MAX * TOKEN_QUARTERS);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ONE: Price = Price(TOKEN_QUARTERS);

    #[derive(Debug, Clone, Copy)]
    enum Happens {
        Miss,
        Launch,
        Used,
        NoRun,
    }

    fn happens() -> impl Strategy<Value = Happens> {
        prop_oneof![
            4 => Just(Happens::Miss),
            3 => Just(Happens::Launch),
            2 => Just(Happens::Used),
            1 => Just(Happens::NoRun),
        ]
    }

    proptest! {
        /// DESIGN "Prefetch": the inequality at the head of this file, after every step of every order.
        #[test]
        fn what_is_extra_stays_within_a_quarter(order in prop::collection::vec(happens(), 0..2_000)) {
            let (mut budget, mut misses, mut launches, mut used) = (Budget::default(), 0_i64, 0_i64, 0_i64);
            for each in order {
                match each {
                    Happens::Miss => {
                        misses += 1;
                        budget.demand_miss(None);
                    }
                    Happens::Launch => launches += i64::from(budget.take(ONE)),
                    // Only a launch that is not settled yet can be used, or come to no run.
                    Happens::Used if used < launches => {
                        used += 1;
                        budget.used(ONE);
                    }
                    Happens::NoRun if used < launches => {
                        launches -= 1;
                        budget.give_back(ONE);
                    }
                    Happens::Used | Happens::NoRun => {}
                }
                prop_assert!(4 * (launches - used) <= misses + used + 4 * PREFETCH_TOKENS_MAX);
                prop_assert!((0..=PREFETCH_TOKENS_MAX).contains(&budget.tokens()));
            }
        }

        /// The whole quarter is available on demand: only tokens over the cap are lost.
        #[test]
        fn a_quarter_of_the_misses_is_there_for_the_asking(misses in 0_i64..500) {
            let mut budget = Budget::default();
            let mut launches = 0;
            for _ in 0..misses {
                budget.demand_miss(None);
                launches += i64::from(budget.take(ONE));
            }
            prop_assert_eq!(launches, misses / 4);
        }
    }

    /// A prefetch that is always right never runs out of tokens, however few misses are left.
    #[test]
    fn what_is_used_pays_for_the_next() {
        let mut budget = Budget::default();
        (0..4).for_each(|_| budget.demand_miss(None));
        for _ in 0..1_000 {
            assert!(budget.take(ONE));
            budget.used(ONE);
        }
        (0..PREFETCH_TOKENS_MAX).for_each(|_| assert!(budget.take(ONE)));
        assert!(!budget.take(ONE), "and no more than the cap is saved up");
    }

    /// Issue 18, point 3: expensive candidates weigh their time at the origin, cheap ones still weigh a run.
    #[test]
    fn a_long_run_costs_as_many_tokens_as_it_takes_times_a_miss() {
        let mut budget = Budget::default();
        assert_eq!(budget.price(Some(500.0)), ONE, "no miss was measured");
        (0..200).for_each(|_| budget.demand_miss(Some(5.0)));
        assert_eq!(budget.price(None), ONE);
        assert_eq!(budget.price(Some(1.0)), ONE);
        assert_eq!(budget.price(Some(50.0)), Price(10 * TOKEN_QUARTERS));
        assert_eq!(budget.price(Some(1e9)), Price(PREFETCH_TOKENS_MAX * TOKEN_QUARTERS));
        let before = budget.tokens();
        assert!(budget.take(budget.price(Some(50.0))));
        assert_eq!(budget.tokens(), before - 10);
    }
}
