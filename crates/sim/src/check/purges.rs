//! A purge that reports that it reached the store and every node: no later request gets a value that was read before. One
//! that reached the store only: the same, once every node has read the store's log.
//!
//! Whatever becomes of the store: one that comes back from a snapshot, or as a replica that lagged, has not undone the purge
//! (F43), and a log that lost it tells its readers that something is lost (F44).

use hopcache_core::limits::{INVALIDATION_POLL_MS, NEAR_MS_MAX};
use hopcache_core::time::{Millis, MonoTime};

use super::{Check, Seen};
use crate::process::Power;
use crate::profile::NET_DELAY_MS_MAX;
use crate::record::{Covers, Fact, What};

#[derive(Default)]
pub(super) struct Purges {
    under_way: Vec<(u32, Covers, MonoTime)>,
    done: Vec<Done>,
}

struct Done {
    scope: Covers,
    began: MonoTime,
    /// From then on nobody may be given what was read before it.
    holds_from: MonoTime,
}

/// A forward that a node had begun before it was told may bring an old copy a moment after; the node reads the
/// purge in the store's log as well and forgets again. One look, and one command and one message on the way.
const HEARD_MS: u64 = INVALIDATION_POLL_MS + 150 + NET_DELAY_MS_MAX;
/// A node that has read the purge in the log may get an old copy from an owner that has not, and keep it as a near copy.
const READ_BY_ALL_MS: u64 = HEARD_MS + NEAR_MS_MAX;

impl Check for Purges {
    fn name(&self) -> &'static str {
        "purge"
    }

    fn look(&mut self, seen: &Seen<'_>) -> Result<(), String> {
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
                // What a store that is away or a way that is cut keeps from a node, the purge cannot bring it.
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
    fn judge(&self, fact: &Fact, seen: &Seen<'_>) -> Result<(), String> {
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
