//! A purge that reached the store and every node: no later request gets a value from before it. A purge that reached
//! only the store: the same, after every node has read the store's log.
//!
//! A store that comes back from a snapshot, or as a replica that lagged, does not undo the purge (F43). A log that lost
//! the purge tells its readers of the loss (F44).

use hopcache_core::limits::{INVALIDATION_POLL_MS, NEAR_MS_MAX};
use hopcache_core::time::{Millis, MonoTime};

use super::{Check, StepView};
use crate::check::record::{Covers, Fact, What};
use crate::drive::profile::NET_DELAY_MS_MAX;
use crate::world::process::Power;

#[derive(Default)]
pub(super) struct Purges {
    under_way: Vec<(u32, Covers, MonoTime)>,
    done: Vec<Done>,
}

struct Done {
    scope: Covers,
    began: MonoTime,
    /// From this time on, no request may get a value from before the purge.
    holds_from: MonoTime,
}

/// A node may begin a forward before the purge reaches it. The forward's answer may bring an old copy a moment later.
/// Then the node reads the purge in the store's log and forgets the copy again. This takes one read of the log, one
/// command and one message.
const HEARD_MS: u64 = INVALIDATION_POLL_MS + 150 + NET_DELAY_MS_MAX;
/// A node that has read the purge in the log may get an old copy from an owner that has not, and keep it as a near
/// copy.
const READ_BY_ALL_MS: u64 = HEARD_MS + NEAR_MS_MAX;

impl Check for Purges {
    fn name(&self) -> &'static str {
        "purge"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            match &fact.what {
                What::PurgeBegan { purge, scope, .. } => self.under_way.push((*purge, *scope, fact.at)),
                What::PurgeEnded { purge, stored, unreached, nodes } => {
                    let living = seen.nodes.iter().filter(|node| node.power != Power::Off).count();
                    let all = *stored && *unreached == 0 && *nodes as usize >= living;
                    let place = self.under_way.iter().position(|(each, ..)| each == purge);
                    if let Some((_, scope, began)) = place.map(|place| self.under_way.remove(place))
                        && *stored
                    {
                        let within = Millis(if all { HEARD_MS } else { READ_BY_ALL_MS });
                        self.done.push(Done { scope, began, holds_from: fact.at + within });
                    }
                }
                // A purge cannot reach a node whose store is down or cut off.
                What::StoreIs { .. }
                | What::StoreLink { .. }
                | What::StoreSaid { word: "since", .. }
                | What::Power { .. } => {
                    self.done.clear();
                    self.under_way.clear();
                }
                What::Answered { .. } => self.judge(fact, seen)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Purges {
    fn judge(&self, fact: &Fact, seen: &StepView<'_>) -> Result<(), String> {
        let What::Answered { ask, served } = &fact.what else { return Ok(()) };
        let ground = seen.ground;
        let run = served.report.and_then(|report| ground.runs.get(&report.run));
        let (Some(ask), Some(run)) = (ground.asks.get(ask), run) else { return Ok(()) };
        let key = ground.subjects.iter().find(|(_, subject)| **subject == ask.subject).map(|(key, _)| *key);
        let (Some(key), Some(tag)) = (key, ground.tag_of(ask.subject)) else { return Ok(()) };
        let old = self
            .done
            .iter()
            .find(|purge| purge.scope.has(key, tag) && run.began < purge.began && ask.at > purge.holds_from);
        old.map_or(Ok(()), |purge| {
            Err(format!("read before the purge of {:?} and served long after: {fact}", purge.began))
        })
    }
}
