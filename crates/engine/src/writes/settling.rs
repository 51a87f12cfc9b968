//! Accounts for the ids of this node's own writes as soon as they are over, and tells all nodes.
//!
//! Until the ids up to a write are accounted for, no pair of labels keeps anything from it, and only a run answers its client's bookmark.
//! Most writes count by themselves (`core::proof`, `CountedWrite`). One that sets properties alone may have changed nothing: the next report
//! of the watcher settles it, a quarter of a second later and more, and all that come meanwhile wait with it. So the node asks all
//! nodes for their tallies itself when such a write is over. Nothing has to be asked of Neo4j: the bookmark of the write is its word.
//!
//! What this finds is no more than a report would say, and stricter ([`Accounts::settles`]): nothing may be under way anywhere, by whatever
//! name, no answer may be lost, and each write counts for one id. It begins where all nodes know of all, and not where this node has
//! come to by counts. Schedule:
//!   settled is 40 · B writes 41, tells it with its count to A alone, and dies · A writes 42 · A knows of both, and C of 42 alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use hopcache_core::bookmark::{Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{SETTLE_AGAIN_MS, SETTLE_TRIES_MAX, WATCH_TALLY_MS_MAX};
use hopcache_core::node::NodeName;
use hopcache_core::proof::{Accounts, Doubted, IdRange, Report, SettledIds};
use hopcache_core::time::Millis;

use crate::model::ports::Scope;
use crate::peers;
use crate::peers::message::WriteNews;
use crate::writes::Writes;

/// The databases whose accounts are under way, each with whether a write has ended since its last look.
#[derive(Debug, Default)]
pub(super) struct AccountsUnderWay(BTreeMap<DatabaseTag, bool>);

impl AccountsUnderWay {
    /// A write has ended. Returns whether nobody looks at its database yet.
    fn begin(&mut self, name: DatabaseTag) -> bool {
        self.0.insert(name, true).is_none()
    }

    /// Whether a write has ended since this was asked last. If not, nobody looks any more.
    fn goes_on(&mut self, name: DatabaseTag) -> bool {
        match self.0.get_mut(&name) {
            Some(has_ended @ true) => {
                *has_ended = false;
                true
            }
            _ => {
                self.0.remove(&name);
                false
            }
        }
    }
}

/// What a node finds that asks all others.
enum Found {
    Settled(SettledIds),
    /// A write is under way somewhere, or none of this cluster's has taken some id.
    UnderWay,
    /// Some node does not say.
    Unknown,
}

/// What is to be settled.
struct Unsettled {
    report: Report,
    /// The last id that is settled already.
    after: TransactionId,
    until: TransactionId,
}

impl Writes {
    /// A write of this node is over: all nodes in touch have heard of it.
    pub(super) fn settle_soon(self: &Arc<Self>, name: DatabaseTag) {
        if self.unsettled(name).is_some() && self.settling.lock().begin(name) {
            let writes = Arc::clone(self);
            self.context.spawn(async move { writes.settle_while_written(name).await });
        }
    }

    async fn settle_while_written(&self, name: DatabaseTag) {
        while self.settling.lock().goes_on(name) {
            for _ in 0..SETTLE_TRIES_MAX {
                let Some(unsettled) = self.unsettled(name) else { break };
                match self.settled_now(name, unsettled).await {
                    Found::Settled(settled) => {
                        self.hear_settled(&settled);
                        self.tell_settled(settled).await;
                        break;
                    }
                    Found::Unknown => break,
                    Found::UnderWay => self.context.sleep(Millis(SETTLE_AGAIN_MS)).await,
                }
            }
            self.context.sleep(Millis(SETTLE_AGAIN_MS)).await;
        }
    }

    /// What lies between the last account and the newest mark. `None`: this node knows of all of it, or there is no account to go on from.
    fn unsettled(&self, name: DatabaseTag) -> Option<Unsettled> {
        let report = self.cache.report(name)?;
        let newest = self.cache.write_positions().of_database(report.database)?;
        let Position { id: until, .. } = newest.position().filter(|_| newest.epoch() == report.epoch)?;
        let (_, reached) = self.cache.proofs().reached(report.database)?;
        let after = self.cache.proofs().settled_since(&report)?;
        (reached < until).then_some(Unsettled { report, after, until })
    }

    async fn settled_now(&self, name: DatabaseTag, of: Unsettled) -> Found {
        let Unsettled { report, after, until } = of;
        let Report { database, epoch, foreign, run, .. } = report;
        let accounts = Accounts { settled: after, ..report.accounts };
        let doubted = Doubted::Nothing;
        let range = IdRange { database, epoch, after, until, doubted, is_strict: true };
        if !self.tally(name, &range).unclear.is_empty() {
            return Found::UnderWay;
        }
        let others = self.invalidate.in_order_to_tell(&Scope::All);
        // A node that is cut off from this one, and writes: nobody here can ask it.
        let is_cut_off = |node: &NodeName| !others.contains(node);
        if !self.cache.lease().is_held(self.context.now())
            || self.broadcast.listeners().iter().any(is_cut_off)
        {
            return Found::Unknown;
        }
        let (tallies, has_all) = self.tallies(name, (database, epoch, &accounts), (until, true)).await;
        if !has_all || tallies.len() <= others.len() {
            return Found::Unknown;
        }
        if !accounts.settles(until, &tallies) {
            return Found::UnderWay;
        }
        Found::Settled(SettledIds { database, epoch, foreign, run, settled: until })
    }

    /// Another node, or this one, has settled these ids. A node that was out of touch may lack marks of their writes:
    ///   this node is stopped · its lease runs out, and a write elsewhere waits no longer for it · it goes on, and hears that the write is
    ///   accounted for · its next look brings the mark, and with it the lease.
    pub(super) fn hear_settled(&self, settled: &SettledIds) {
        // Where a mark found no place, entries are forgotten by one name of their database only.
        let has_place = self.cache.write_positions().of_database(settled.database).is_some();
        if has_place && self.cache.lease().is_held(self.context.now()) {
            self.cache.hear_settled(settled);
        }
    }

    /// Nobody repeats this: the next account, or the next report, tells as much.
    async fn tell_settled(&self, settled: SettledIds) {
        let told = || WriteNews {
            events: Vec::new(),
            by: self.context.me().clone(),
            counted: Vec::new(),
            settled: Some(settled),
        };
        let others = self.invalidate.in_order_to_tell(&Scope::All);
        let within = Millis(WATCH_TALLY_MS_MAX);
        let told = others.into_iter().map(|node| {
            let news = peers::written(told());
            async move { self.peers.ask(&node, news, within).await.is_ok() }
        });
        join_all(told).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_looks_at_a_database_and_looks_again_after_each_write() {
        let (mut under_way, [one, other]) = (AccountsUnderWay::default(), [1, 2].map(DatabaseTag));
        assert!(under_way.begin(one) && under_way.goes_on(one));
        assert!(!under_way.begin(one), "it looks already");
        assert!(under_way.begin(other));
        assert!(under_way.goes_on(one), "a write has ended meanwhile");
        assert!(!under_way.goes_on(one));
        assert!(under_way.begin(one), "nobody looks any more");
    }
}
