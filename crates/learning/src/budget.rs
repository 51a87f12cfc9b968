//! How many prefetches one node may launch: a quarter of the demand misses that there would be without any.
//!
//! DESIGN "Prefetch" says 0.25 × the demand misses. Counted on the remaining misses, it would allow a prefetch that
//! saves everything nothing at all, because each used launch removes a demand miss. So a used launch counts as the
//! demand miss that it replaced: it pays in a quarter as that miss would have, and its own token comes back, since its
//! run was needed anyway. Extra launches (those not used) stay below a quarter of the demand misses that there would
//! have been:
//!
//!
//!   launches − used ≤ 0.25 × (demand misses + used) + cap, in any order of events.
//!
//! The bucket begins empty and never goes below zero, so the inequality holds even without the cap. Tokens over the cap
//! are lost, so a quiet night saves up nothing for the morning. It counts quarters of a token, so no fraction is lost.
//! It knows no clock, and never decides what is launched.

use hopcache_core::limits::{PREFETCH_QUARTERS_PER_MISS, PREFETCH_TOKENS_MAX};

/// The price of a launch, in quarters.
const LAUNCH_QUARTERS: i64 = 4;

/// The tokens of one node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Budget {
    quarters: i64,
}

impl Budget {
    /// A demand miss ran at the origin.
    pub fn demand_miss(&mut self) {
        self.add(PREFETCH_QUARTERS_PER_MISS);
    }

    /// Takes the token of a launch. Returns whether there was one.
    pub fn take(&mut self) -> bool {
        let is_within = self.has_token();
        if is_within {
            self.quarters -= LAUNCH_QUARTERS;
        }
        is_within
    }

    /// Whether there is a token.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.quarters >= LAUNCH_QUARTERS
    }

    /// A launch that took a token came to no run: the token comes back.
    pub fn give_back(&mut self) {
        self.add(LAUNCH_QUARTERS);
    }

    /// A launch was used, in time or late.
    pub fn used(&mut self) {
        self.add(LAUNCH_QUARTERS + PREFETCH_QUARTERS_PER_MISS);
    }

    /// Whole tokens left.
    #[must_use]
    pub fn tokens(&self) -> i64 {
        self.quarters / LAUNCH_QUARTERS
    }

    fn add(&mut self, quarters: i64) {
        self.quarters = (self.quarters + quarters).min(PREFETCH_TOKENS_MAX * LAUNCH_QUARTERS);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
                        budget.demand_miss();
                    }
                    Happens::Launch => launches += i64::from(budget.take()),
                    // Only a launch that is not settled yet can be used, or come to no run.
                    Happens::Used if used < launches => {
                        used += 1;
                        budget.used();
                    }
                    Happens::NoRun if used < launches => {
                        launches -= 1;
                        budget.give_back();
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
                budget.demand_miss();
                launches += i64::from(budget.take());
            }
            prop_assert_eq!(launches, misses / 4);
        }
    }

    /// A prefetch that is always right never runs out of tokens, however few misses are left.
    #[test]
    fn what_is_used_pays_for_the_next() {
        let mut budget = Budget::default();
        (0..4).for_each(|_| budget.demand_miss());
        for _ in 0..1_000 {
            assert!(budget.take());
            budget.used();
        }
        (0..PREFETCH_TOKENS_MAX).for_each(|_| assert!(budget.take()));
        assert!(!budget.take(), "and no more than the cap is saved up");
    }
}
