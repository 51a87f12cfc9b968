//! Finds a smaller plan that breaks the same promise. Removes actions of a seed's schedule, and its weather, as long as
//! the same checker fails (delta debugging: Zeller, Hildebrandt, IEEE TSE 28(2), 2002).
//!
//! In worlds with joins and leaves each action has its own dice, so removing one changes no other. In other worlds
//! removing an action changes the later ones, and the result is still a smaller plan.

use std::collections::BTreeSet;

use crate::drive::simulate::{Keep, Report, Without, simulate_without};

/// Bound of plans to try. A seed takes some tens of milliseconds.
const TRIES_MAX: usize = 1_500;

/// The smallest plan that was found, and its result. Nothing for a seed that breaks no promise.
#[must_use]
pub fn minimise(seed: u64) -> Option<(Without, Report)> {
    let whole = simulate_without(seed, Keep::Failures, &Without::default());
    let check = whole.violation.as_ref()?.check;
    let mut search = Search { seed, check, tries: 0, best: (Without::default(), whole) };
    search.leave_out_weather();
    search.leave_out_acts();
    // The smaller plan may not need the weather any more.
    search.leave_out_weather();
    Some(search.best)
}

struct Search {
    seed: u64,
    check: &'static str,
    tries: usize,
    best: (Without, Report),
}

impl Search {
    fn leave_out_weather(&mut self) {
        if !self.best.0.weather {
            let fair = Without { weather: true, ..self.best.0.clone() };
            self.tries_it(fair);
        }
    }

    /// Removes halves, quarters and so on of the remaining acts, down to single acts.
    fn leave_out_acts(&mut self) {
        let acts = self.best.1.acts;
        let mut size = acts.div_ceil(2).max(1);
        loop {
            let left: Vec<usize> = (0..acts).filter(|act| !self.best.0.acts.contains(act)).collect();
            let mut has_shrunk = false;
            for some in left.chunks(size) {
                let more: BTreeSet<usize> = self.best.0.acts.iter().chain(some).copied().collect();
                has_shrunk |= self.tries_it(Without { acts: more, ..self.best.0.clone() });
            }
            if self.tries >= TRIES_MAX || size == 1 && !has_shrunk {
                return;
            }
            size = if has_shrunk { size } else { size.div_ceil(2) };
        }
    }

    fn tries_it(&mut self, without: Without) -> bool {
        if self.tries >= TRIES_MAX {
            return false;
        }
        self.tries += 1;
        let report = simulate_without(self.seed, Keep::Failures, &without);
        let is_same = report.violation.as_ref().is_some_and(|violation| violation.check == self.check);
        if is_same {
            self.best = (without, report);
        }
        is_same
    }
}
