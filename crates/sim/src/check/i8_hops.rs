//! I8: a request makes at most one hop, and a forwarded request waits for nothing that waits for another node.
//!
//! Every forward carries the trace context of its request. So a forward by another node than the request's entry node
//! is a second hop. A forwarded request that waits at its owner must wait for a flight that leads there. Without such a
//! flight it may wait for one command to the store (a stale fallback after a failure). A node that was stopped may also
//! wait for the invalidation log.
//!
//! A node whose lease of freshness has run out looks for writes first. While its looks fail, the request may wait for
//! [`WRITTEN_POLL_MS_MAX`], and no longer. Example (seed 742): the store is down · a node joins and has not looked yet ·
//! a forwarded request comes · look after look fails · after 500 ms the node serves by age.

use std::collections::BTreeMap;

use hopcache_core::limits::{
    IDS_BACK_PURGE_MS_MAX, PAUSE_POLL_MS_MAX, PAUSE_POLL_RETRY_MS, STORE_COMMAND_MS_DEFAULT,
    WRITTEN_POLL_MS_MAX,
};
use hopcache_core::time::{Millis, MonoTime};

use super::{Check, StepView};
use crate::check::record::{Covers, KeyId, Life, What};
use crate::world::process::Power;

#[derive(Default)]
pub(super) struct Hops {
    served: BTreeMap<u32, Serving>,
    /// Purges under way, and at which node: it forgets somewhere in between.
    purging: BTreeMap<u32, usize>,
    /// When a node last began to purge, for an operator or by itself.
    purges: BTreeMap<usize, MonoTime>,
    /// When a node's process went on.
    resumed: BTreeMap<usize, MonoTime>,
    /// When a look for writes last failed.
    look_failed: BTreeMap<Life, MonoTime>,
    /// When a node last failed to use the store.
    store_failed: BTreeMap<Life, MonoTime>,
}

struct Serving {
    by: Life,
    key: KeyId,
    came: MonoTime,
    /// The request came twice, or the node had to forget the key since. Then the checker cannot know what the request
    /// waits for.
    unclear: bool,
    /// Since when the owner has no leading flight for the request.
    alone: Option<MonoTime>,
}

impl Serving {
    fn new(came: MonoTime, (by, key): (Life, KeyId), unclear: bool) -> Self {
        Self { by, key, came, unclear, alone: None }
    }
}

/// The longest command to the store, and the rounding of times.
const COMMAND: Millis = Millis(STORE_COMMAND_MS_DEFAULT + 20);

/// The longest purge of the engine's own: while the store is away it is repeated. If ids go back once more meanwhile, the node
/// forgets at once, and begins no further purge (seeds 17958 and 18835).
const PURGE: Millis = Millis(IDS_BACK_PURGE_MS_MAX + 5_000);

impl Check for Hops {
    fn name(&self) -> &'static str {
        "I8 hops"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            match &fact.what {
                What::Hop { ask: Some(ask), from, .. } => {
                    let entry = seen.ground.asks.get(ask).map(|ask| ask.node);
                    if entry.is_some_and(|entry| entry != *from) {
                        return Err(format!("a second hop, the ask's entry node is {entry:?}: {fact}"));
                    }
                }
                What::ServeBegan { hop, by, key, plain } => {
                    let twice = self.served.contains_key(hop);
                    let purges = self.purging.values().any(|node| *node == by.node);
                    let unclear = twice || purges || !plain;
                    self.served.insert(*hop, Serving::new(fact.at, (*by, *key), unclear));
                }
                // An unclear one stays known, so that its second coming is unclear too.
                What::ServeEnded { hop } => {
                    self.served.retain(|each, serving| each != hop || serving.unclear);
                }
                // Followers still wait for a flight that was taken out of its table.
                What::Forgot { node } => self.forgets(*node),
                What::Purges { node } => {
                    self.purges.insert(*node, fact.at);
                    // Where ids have gone back, the node forgets first and then purges.
                    self.forgets(*node);
                }
                // A purge of the engine's own has no other end in the record: after a write whose mark nobody can tell, the
                // node purges the database (seed 5478).
                What::Removed { node }
                    if self.purges.get(node).is_some_and(|began| fact.at <= *began + PURGE) =>
                {
                    self.forgets(*node);
                }
                What::PurgeBegan { purge, node, .. } => {
                    self.purging.insert(*purge, *node);
                    self.forgets(*node);
                }
                // A node that reads an invalidation in the log forgets the key. The writer forgets it too: after a
                // refusal by the server there is no purge.
                What::Invalidated { scope: Covers::Key(key), .. } => {
                    let waiting = self.served.values_mut().filter(|serving| serving.key == *key);
                    waiting.for_each(|serving| serving.unclear = true);
                }
                What::Power { node, power: "on" } => {
                    self.resumed.insert(*node, fact.at);
                }
                What::PurgeEnded { purge, .. } => {
                    self.purging.remove(purge);
                }
                What::StoreSaid { by, word, .. } => {
                    if *word == "hear_written" {
                        self.look_failed.insert(*by, fact.at);
                    }
                    self.store_failed.insert(*by, fact.at);
                }
                _ => {}
            }
        }
        self.waits(seen)
    }
}

impl Hops {
    fn forgets(&mut self, node: usize) {
        let there = self.served.values_mut().filter(|serving| serving.by.node == node);
        there.for_each(|serving| serving.unclear = true);
    }

    fn waits(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for (hop, serving) in self.served.iter_mut().filter(|(_, serving)| !serving.unclear) {
            let here = seen.nodes.iter().find(|node| node.life == serving.by && node.power == Power::On);
            if here.is_none_or(|node| node.flights.contains(&serving.key)) {
                serving.alone = None;
                continue;
            }
            let resumed = self.resumed.get(&serving.by.node).copied().unwrap_or_default();
            let awake = resumed + Millis(PAUSE_POLL_MS_MAX);
            // The next look, if the last one failed, as long as the request may wait for looks.
            let failed = self.look_failed.get(&serving.by).copied().unwrap_or_default();
            let looks_end = serving.came.max(awake) + Millis(WRITTEN_POLL_MS_MAX);
            // A look is not over when the store has answered: it puts back what the store lacks, and that may fail too
            // (seed 5479).
            let is_store_ill =
                self.store_failed.get(&serving.by).is_some_and(|at| *at + COMMAND >= serving.came);
            let look =
                if is_store_ill { looks_end } else { looks_end.min(failed + Millis(PAUSE_POLL_RETRY_MS)) };
            let since = (*serving.alone.get_or_insert(seen.now)).max(awake).max(look);
            if seen.now.since(since) > COMMAND {
                let (key, by) = (serving.key, serving.by);
                return Err(format!("hop {hop} waits at {by:?} for {key:?}, and no flight leads there"));
            }
        }
        Ok(())
    }
}
