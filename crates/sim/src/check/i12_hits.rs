//! I12: after a complete heal the hit ratio is at least 95 % of the ratio before. Both ratios are measured over two
//! TTLs of even requests. The second measurement begins when the rings have had time to agree: a simulated TTL is a
//! thirtieth of the usual one, and fixed times (leases, probes, gossip) do not shrink with it.

use std::collections::BTreeSet;

use hopcache_engine::outcome::Class;

use super::{Check, StepView};
use crate::check::record::What;

#[derive(Default)]
pub(super) struct Hits {
    /// While it is asked evenly: before the faults, or after.
    under_way: Option<bool>,
    asked: [BTreeSet<u32>; 2],
    keys: BTreeSet<usize>,
    hits: [u32; 2],
}

/// Least hit ratio after the heal, as a percentage of the ratio before the faults.
const LEAST: f64 = 0.95;

impl Check for Hits {
    fn name(&self) -> &'static str {
        "I12 hits"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            match &fact.what {
                What::Even { is_after, is_on } => self.under_way = is_on.then_some(*is_after),
                What::Asked { ask, subject, .. } => {
                    if let Some(is_after) = self.under_way {
                        self.asked[usize::from(is_after)].insert(*ask);
                        self.keys.insert(*subject);
                    }
                }
                What::Answered { ask, served } => {
                    for (asked, hits) in self.asked.iter().zip(&mut self.hits) {
                        let is_hit = asked.contains(ask) && served.how.class == Class::Hit;
                        *hits += u32::from(is_hit);
                    }
                }
                _ => {}
            }
        }
        if seen.is_quiet { self.compare() } else { Ok(()) }
    }
}

impl Hits {
    fn compare(&self) -> Result<(), String> {
        let ratio = |which: usize| f64::from(self.hits[which]) / self.asked[which].len().max(1) as f64;
        let (before, after) = (ratio(0), ratio(1));
        // One expiry more or less of each key in so short a time is a matter of when it began.
        let edge = self.keys.len() as f64 / self.asked[1].len().max(1) as f64;
        if self.asked.iter().all(|asked| !asked.is_empty()) && after + edge < LEAST * before {
            return Err(format!(
                "hits were {before:.3} of {} before and are {after:.3} of {} after",
                self.asked[0].len(),
                self.asked[1].len()
            ));
        }
        Ok(())
    }
}
