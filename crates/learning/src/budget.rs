//! How many prefetches one node may launch: a quarter of the demand misses that there would have been without any.
//!
//! DESIGN "Prefetch" says 0.25 × the demand misses. Read as "of the misses that are left" it would allow a prefetch that
//! saves everything nothing at all: each used launch takes a demand miss away. So a used launch counts as the demand miss
//! whose place it took: it pays in a quarter as that miss would have, and its own token comes back, since its run was
//! going to be made anyway. What is extra (launches that are not used) stays below a quarter of the demand misses that there
//! would have been:
//!
//!   launches − used ≤ 0.25 × (demand misses + used) + cap, in whatever order they come.
//!
//! The bucket begins empty and never goes below zero, so the inequality holds even without the cap; what flows over the cap is
//! lost, so a quiet night saves up nothing for the morning. Counts quarters of a token: no fraction is lost. Knows no
//! clock, and never decides what is launched.

use hopcache_core::limits::{PREFETCH_QUARTERS_PER_MISS, PREFETCH_TOKENS_MAX};

/// What a launch costs, in quarters.
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

    /// Takes the token of a launch; whether there was one.
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

    /// A launch for which a token was taken came to no run: as if it had not been taken.
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
        /// DESIGN "Prefetch": the inequality of this file's head, after every step of every order.
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
                    // Only what was launched and not settled yet can be used, or come to no run.
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

        /// The whole quarter can be had, if it is asked for: nothing is lost but what flows over.
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

    /// A prefetch that is always right is never out of tokens, however few misses are left.
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
