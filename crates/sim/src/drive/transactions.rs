//! Clients that run explicit transactions with write access: they read through the cache, work, write and commit. As in a node's
//! fronts, `TransactionReads` says how fresh a read has to be, and whether the transaction may still write (I14).
//!
//! Its write is one statement that commits by itself: what it reads before is what matters here. A transaction that has read what may
//! be old ends. A driver would run it again.

use std::sync::Arc;

use hopcache_core::bookmark::Bookmark;
use hopcache_core::time::Millis;
use hopcache_engine::TransactionReads;
use hopcache_engine::ask::Freshness;
use hopcache_engine::outcome::{Answer, Outcome};
use hopcache_engine::ports::{AccessMode, OriginFault};

use crate::check::record::{Record, Want, What};
use crate::drive::clients::Client;
use crate::drive::cluster::Cluster;
use crate::drive::writers::Writer;
use crate::world::node_handle::NodeHandle;
use crate::world::origin::OriginBehavior;
use crate::world::subject::Subject;

/// Reads of a transaction.
const READS_MAX: usize = 2;
/// Longest work of a transaction after a read.
const WORK_MS_MAX: u64 = 1_500;
/// Shortest and longest outage of the origin that ends by itself.
const OUTAGE_MS: (u64, u64) = (300, 4_000);
/// Nodes know of an outage after at most this time.
const NOTICED_MS_MAX: u64 = 200;
/// After an outage, nodes notice after this time that it is over.
const PROBED_MS: u64 = 100;

struct Transaction {
    number: u32,
    handle: NodeHandle,
    record: Arc<Record>,
    /// Each with the work after it.
    reads: Vec<(Client, Millis)>,
    writer: Writer,
}

/// A request of a transaction. If the transaction ends before the answer, its client has left.
struct Open<'a> {
    record: &'a Record,
    ask: u32,
    is_answered: bool,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.record.note(What::Left { ask: self.ask });
        }
    }
}

impl Transaction {
    async fn run(self) {
        let Self { number, handle, record, reads, writer } = self;
        handle.process.on().await;
        let (transaction, node, write) = (number, handle.life.node, writer.number);
        record.note(What::TransactionBegan { transaction, node, write });
        let mut seen = TransactionReads::new(AccessMode::Write, Some(Bookmark::NONE));
        for (mut client, work) in reads {
            client.ask.freshness = seen.freshness(Freshness::default());
            client.ask.bookmarks = seen.asked().cloned().unwrap_or_default();
            record.note(What::TransactionAsks { transaction, ask: client.number });
            let mut open = Open { record: &record, ask: client.number, is_answered: false };
            let outcome = client.ask().await;
            open.is_answered = true;
            let Some(Outcome { answer: Answer::Body(_), how, range, .. }) = outcome else { return };
            seen.answered(&how);
            seen.saw(range.map(|range| range.to()));
            tokio::time::sleep(work.duration()).await;
        }
        if seen.may_go_on(true).is_err() {
            record.cover("transaction outdated");
            return record.note(What::TransactionOutdated { transaction });
        }
        record.cover("transaction written");
        writer.write().await;
    }
}

impl Cluster {
    /// A client runs a transaction through a node.
    pub(crate) fn transact(&mut self, node: usize) {
        let usual: Vec<Subject> =
            self.profile.subjects.iter().copied().filter(|subject| subject.is_usual()).collect();
        if usual.is_empty() {
            return;
        }
        let mut reads = Vec::new();
        for _ in 0..=self.dice.index(READS_MAX) {
            let subject = usual[self.dice.index(usual.len())];
            let Some(mut client) = self.client(node, subject, true) else { return };
            client.want = Want::ToWrite;
            let work = if self.dice.chance(300) { 0 } else { self.dice.below(WORK_MS_MAX) };
            reads.push((client, Millis(work)));
        }
        let Some(writer) = self.writer(node) else { return };
        self.transactions += 1;
        let handle = self.world.nodes[node].clone();
        let (number, record, life) = (self.transactions, Arc::clone(&self.world.record), handle.life);
        let task = tokio::spawn(Transaction { number, handle, record, reads, writer }.run());
        self.tasks.push((life, task.abort_handle()));
    }

    /// The origin cannot be reached for a while. Nodes know it a moment later.
    pub(crate) fn outage(&self) {
        let origin = Arc::clone(&self.world.origin);
        let (noticed_ms, away_ms) =
            (self.dice.below(NOTICED_MS_MAX), self.dice.between(OUTAGE_MS.0, OUTAGE_MS.1));
        origin.set_behavior(OriginBehavior::Fault(OriginFault::Unreachable("seeded".to_owned())));
        tokio::spawn(async move {
            tokio::time::sleep(Millis(noticed_ms).duration()).await;
            origin.set_away(true);
            tokio::time::sleep(Millis(away_ms).duration()).await;
            origin.set_behavior(OriginBehavior::Well);
            tokio::time::sleep(Millis(PROBED_MS).duration()).await;
            origin.set_away(false);
        });
    }
}
