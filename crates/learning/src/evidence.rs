//! Combines the exact counts of a query with the templates that predict the same query. Launches nothing.
//!
//! One exact query has few sightings, and a single one is no habit yet: alone they would launch at random (1 of 1 is
//! certain, 1 of 2 with one unseen alternative is a half). Templates have many sightings, and none specific to this
//! query. So the templates' probability is the prior of the exact one (a Dirichlet prior whose base measure is the
//! coarser model: MacKay, Peto, "A hierarchical Dirichlet language model", Natural Language Engineering 1995, section
//! 3):
//!
//!   p = (seen + w · prior) / (sightings + w)
//!
//! with w = [`EXACT_PRIOR_WEIGHT`] and a prior of 0 if no template predicts the query.

use hopcache_core::limits::{
    EXACT_PRIOR_WEIGHT, NEIGHBOUR_PRIOR, NEIGHBOUR_PRIOR_WEIGHT, NEIGHBOUR_ROW_SHARE,
};

/// Probability that a query follows. It did so `seen` times in `sightings` (both decayed), and templates predict it
/// with `prior`.
#[must_use]
pub fn posterior(seen: f64, sightings: f64, prior: f64) -> f64 {
    ((seen + EXACT_PRIOR_WEIGHT * prior) / (sightings.max(seen) + EXACT_PRIOR_WEIGHT)).min(1.0)
}

/// The least prior with which a query that was never seen to follow, in `sightings`, has more than the probability `p`.
/// It may be above 1: then no prior is enough.
#[must_use]
pub fn prior_above(p: f64, sightings: f64) -> f64 {
    p * (sightings + EXACT_PRIOR_WEIGHT) / EXACT_PRIOR_WEIGHT
}

/// Probability that a node which this row of a result names is asked for next, if that was never seen in so many sightings.
#[must_use]
pub fn of_neighbour(row: u8, sightings: f64) -> f64 {
    let prior = NEIGHBOUR_PRIOR * NEIGHBOUR_ROW_SHARE.powi(i32::from(row));
    prior * NEIGHBOUR_PRIOR_WEIGHT / (NEIGHBOUR_PRIOR_WEIGHT + sightings.max(0.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gain::Prices;

    /// The threshold of an idle origin is a quarter (`gain.rs`).
    #[test]
    fn one_sighting_is_no_habit_and_two_are() {
        let pays = |seen, sightings, prior| Prices::of(50.0, 0.0).pays(posterior(seen, sightings, prior));
        assert!(!pays(1.0, 1.0, 0.0) && pays(2.0, 2.0, 0.0));
        assert!(!pays(1.0, 2.0, 0.0) && pays(3.0, 6.0, 0.0), "half of the times, known for long");
        assert!(pays(1.0, 1.0, 0.1), "what a template foresees too has to be seen once");
        assert!(pays(0.0, 0.0, 0.3) && pays(0.0, 0.5, 0.3), "what was not looked at is as the template says");
        assert!(!pays(0.0, 1.0, 0.3) && !pays(0.0, 12.0, 0.9), "the template is wrong of this query");
    }

    #[test]
    fn the_first_neighbours_pay_until_sessions_do_not_ask_for_them() {
        let pays = |row, sightings| Prices::of(50.0, 0.0).pays(of_neighbour(row, sightings));
        assert!((0..4).all(|row| pays(row, 0.0)) && !pays(4, 0.0));
        assert!(pays(0, 22.0) && !pays(1, 22.0) && !pays(0, 23.0));
    }

    proptest! {
        /// What is below the least prior never pays, and what is above it does.
        #[test]
        fn the_least_prior_is_the_bound(p in 0.0..=1.0_f64, sightings in 0.0..1e4_f64, prior in 0.0..=1.0_f64) {
            let least = prior_above(p, sightings);
            if (prior - least).abs() > 1e-9 {
                prop_assert_eq!(prior > least, posterior(0.0, sightings, prior) > p);
            }
        }

        /// It lies between the two probabilities.
        #[test]
        fn it_lies_between_the_two(of in (0.0..1e6_f64, 0.0..=1.0_f64), prior in 0.0..=1.0_f64) {
            let (sightings, share) = of;
            let p = posterior(sightings * share, sightings, prior);
            prop_assert!(p >= share.min(prior) - 1e-9 && p <= share.max(prior) + 1e-9, "{}", p);
        }
    }
}
