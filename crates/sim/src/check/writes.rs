//! Writes are seen: a request that began after a write was answered gets nothing from before it, on any node in touch.
//! Answers that are marked `stale-if-error` may be older: a cache has to survive a failing origin.
//!
//! Out of touch is a node whose last look at the store failed, and which heard nothing since. Such a node serves by age.
//! A write is not held against anybody if its node could not tell the store, because then no node that it cannot reach
//! hears of it (a fault of two ways at once), or if the store has just lost its list of those who listen.

use std::collections::BTreeMap;

use hopcache_core::limits::FRESHNESS_LEASE_MS_DEFAULT;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::outcome::Detail;

use super::{Check, Seen};
use crate::record::{Fact, Served, Want, What};
use crate::subject::Subject;

#[derive(Default)]
pub(super) struct Writes {
    /// Writes under way: their node, and when they began.
    under_way: BTreeMap<u32, (usize, MonoTime)>,
    /// The newest version that a write's answer has told, as far as it is held against anybody.
    answered: u32,
    /// What requests under way have to see.
    needed: BTreeMap<u32, u32>,
    /// When a look of a node last failed.
    look_failed: BTreeMap<usize, MonoTime>,
    /// When a node last failed to tell the store.
    tell_failed: BTreeMap<usize, MonoTime>,
    /// When the store last lost something, or its clock jumped.
    store_changed: Option<MonoTime>,
}

/// A look is under way for as long as a command lasts, and the next comes after half a lease. After a pause a node waits so
/// long for a look before it serves by age.
const LOOK_MS: u64 = 2 * FRESHNESS_LEASE_MS_DEFAULT + 500;

impl Check for Writes {
    fn name(&self) -> &'static str {
        "writes are seen"
    }

    fn look(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        for fact in seen.facts {
            match &fact.what {
                What::WriteBegan { write, node } => {
                    self.under_way.insert(*write, (*node, fact.at));
                }
                What::WriteEnded { write, version } => {
                    let began = self.under_way.remove(write);
                    if let (Some(began), Some(version)) = (began, version)
                        && self.is_held(began)
                    {
                        self.answered = self.answered.max(*version);
                    }
                }
                What::Asked { ask, .. } => {
                    self.needed.insert(*ask, self.answered);
                }
                What::Left { ask } => {
                    self.needed.remove(ask);
                }
                What::StoreSaid { by, word: "hear_written", .. } => {
                    self.look_failed.insert(by.node, fact.at);
                }
                What::StoreSaid { by, word: "tell_written", .. } => {
                    self.tell_failed.insert(by.node, fact.at);
                }
                What::StoreLost { .. } | What::StoreFellBack { .. } | What::StoreJumped { .. } => {
                    self.store_changed = Some(fact.at);
                }
                What::Answered { ask, served } => self.judge(fact, seen, *ask, served)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Writes {
    fn is_held(&self, (node, began): (usize, MonoTime)) -> bool {
        let lease = Millis(FRESHNESS_LEASE_MS_DEFAULT);
        let is_told = self.tell_failed.get(&node).is_none_or(|at| *at < began);
        is_told && self.store_changed.is_none_or(|at| at + lease < began)
    }

    fn judge(&mut self, fact: &Fact, seen: &Seen<'_>, number: u32, served: &Served) -> Result<(), String> {
        let Some(needed) = self.needed.remove(&number) else { return Ok(()) };
        let Some(ask) = seen.ground.asks.get(&number) else { return Ok(()) };
        let (Some(report), Some(_)) = (served.report, seen.ground.policy.freshness_lease_ms) else {
            return Ok(());
        };
        let is_marked = served.how.detail == Some(Detail::StaleIfError);
        // Runs that bypass the cache carry what their client sent.
        let is_cached = Subject::at(ask.subject).is_usual() && ask.want != Want::Bypass;
        let was_in_touch = self.look_failed.get(&ask.node).is_none_or(|at| *at + Millis(LOOK_MS) < ask.at);
        if report.version >= needed || is_marked || !is_cached || !was_in_touch {
            return Ok(());
        }
        Err(format!("version {needed} was written and answered before the request began: {fact}"))
    }
}
