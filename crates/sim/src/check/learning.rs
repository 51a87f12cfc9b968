//! Convergence: some time after a complete heal and the last lesson, all nodes have learned the same, even if messages
//! were lost, repeated or overtaken, and nodes restarted or were partitioned (DESIGN "Prefetch"). Counts are absolute
//! and merge by maximum, so equal sums over all counts mean equal predictions.
//!
//! No node ever counts more than happened: the counts of patterns are at most the observations of all lives.
//!
//! The checker skips convergence if patterns evict each other, because each node chooses its own patterns then.

use std::collections::BTreeMap;

use hopcache_core::limits::LIVES_PER_ORIGIN_MAX;
use hopcache_core::time::{Millis, MonoTime};

use super::{Check, NodeView, StepView};
use crate::check::record::{Life, What};
use crate::world::process::Power;

#[derive(Default)]
pub(super) struct Convergence {
    healed: Option<MonoTime>,
    /// Observations of each life. An action comes between two checks, so the observations of a killed node are not
    /// lost.
    taken: BTreeMap<Life, u64>,
}

/// Rings agree this long after a complete heal.
const AGREE: Millis = Millis(18_000);

/// Nodes learn of lessons by pulls: each node pulls from a random one each second. Six nodes need three or four rounds.
/// The chance that for 16 s no node pulls from the only one with the lesson is 0.8^(5 × 16). One more second covers
/// work that has to settle first.
const CONVERGE: Millis = Millis(17_000);

impl Check for Convergence {
    fn name(&self) -> &'static str {
        "convergence"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        self.no_more_than_observed(seen)?;
        let healed = seen.facts.iter().rfind(|fact| matches!(fact.what, What::Healed));
        self.healed = healed.map(|fact| fact.at).or(self.healed);
        let patterns = usize::try_from(seen.ground.policy.prefetch.patterns_max).unwrap_or(usize::MAX);
        let has_room = seen.ground.subjects.len() <= patterns;
        // One that starts again and again has its oldest lives forgotten.
        let has_lives = seen.nodes.iter().all(|node| (node.life.life as usize) < LIVES_PER_ORIGIN_MAX);
        let (Some(healed), true) = (self.healed, has_room && has_lives) else { return Ok(()) };
        let here = || seen.nodes.iter().filter(|node| node.power == Power::On);
        let taught = here().map(|node| node.noted.taught_at).max().unwrap_or_default();
        if seen.now < taught.max(healed + AGREE) + CONVERGE {
            return Ok(());
        }
        let differ = |one: &NodeView| here().any(|other| other.learned.print != one.learned.print);
        if here().next().is_some_and(differ) {
            let learned: Vec<_> = here().map(|node| (node.life, node.learned, node.sizes.learning)).collect();
            return Err(format!("nodes have learned different things: {learned:?}"));
        }
        Ok(())
    }
}

impl Convergence {
    fn no_more_than_observed(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        self.taken.extend(seen.nodes.iter().map(|node| (node.life, node.noted.taken)));
        let taken: u64 = self.taken.values().sum();
        match seen.nodes.iter().find(|node| node.learned.seen > taken as f64) {
            None => Ok(()),
            Some(node) => {
                let (life, known) = (node.life, node.learned.seen);
                Err(format!("{life:?} knows of {known} sightings, and {taken} were observed"))
            }
        }
    }
}
