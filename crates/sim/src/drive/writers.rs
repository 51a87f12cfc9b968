//! Clients that write through a node. The record has when each came and how it ended.

use std::sync::Arc;

use hopcache_core::time::Millis;
use hopcache_engine::ask::Ask;
use hopcache_engine::outcome::{Answer, FailureKind};

use crate::check::record::{Record, What};
use crate::drive::cluster::Cluster;
use crate::drive::profile::WAIT_MS_MAX;
use crate::world::listeners::ListenerKind;
use crate::world::node_handle::NodeHandle;
use crate::world::process::Power;
use crate::world::subject::{DATABASES, PRINCIPALS, trace_of_write};
use crate::world::write_statement::{Touches, WriteStatement};

/// The body of a write's answer has nothing, but its range names its transaction.
pub(crate) struct Writer {
    pub(crate) number: u32,
    handle: NodeHandle,
    record: Arc<Record>,
    ask: Ask,
    touches: Touches,
}

impl Writer {
    pub(crate) async fn write(self) {
        let Self { number, handle, record, ask, touches } = self;
        handle.process.on().await;
        let Some(_connection) = handle.listeners.enter(ListenerKind::Client) else { return };
        record.note(What::WriteBegan { write: number, node: handle.life.node });
        let came = crate::world::clock::sim_now() + handle.apart;
        let deadline = came + Millis(WAIT_MS_MAX);
        let ask = Ask { deadline, traceparent: Some(trace_of_write(number)), ..ask };
        let outcome = handle.engine.path().answer(&ask).await;
        handle.process.on().await;
        record.cover_with(|coverage| coverage.outcome(&outcome));
        let range = outcome.range.as_ref().filter(|_| matches!(outcome.answer, Answer::Body(_)));
        let version = range.and_then(|range| u32::try_from(range.to().id.0).ok());
        let is_told = match &outcome.answer {
            Answer::Body(_) => true,
            // A panic of the caller's task is a bad result: what it wrote is found out behind its client's back.
            Answer::Failed(failure) => !matches!(
                failure.kind,
                FailureKind::DeadlinePassed | FailureKind::Leaving | FailureKind::BadResult
            ),
        };
        record.note(What::WriteEnded { write: number, version, touches, is_told });
    }
}

impl Cluster {
    /// A client writes through a node. Some leave before their answer.
    pub(crate) fn write_through(&mut self, node: usize) {
        let Some(writer) = self.writer(node) else { return };
        let life = writer.handle.life;
        let task = tokio::spawn(writer.write());
        if self.dice.chance(100) {
            let (leaves, after_ms) = (task.abort_handle(), self.dice.below(300));
            tokio::spawn(async move {
                tokio::time::sleep(Millis(after_ms).duration()).await;
                leaves.abort();
            });
        }
        self.tasks.push((life, task.abort_handle()));
    }

    /// A client that will write through a node, unless that is dead.
    pub(crate) fn writer(&mut self, node: usize) -> Option<Writer> {
        let handle = self.world.nodes[node].clone();
        if handle.process.power() == Power::Off {
            return None;
        }
        self.writes += 1;
        let number = self.writes;
        let database = DATABASES[self.dice.index(self.profile.names_written())];
        let principal = PRINCIPALS[self.dice.index(PRINCIPALS.len())];
        let WriteStatement { text, touches, .. } = self.statement_of_write();
        let ask = self.world.ask_in(database, text, principal);
        Some(Writer { number, handle, record: Arc::clone(&self.world.record), ask, touches })
    }

    /// Worlds that have one statement of writes only draw no number, because the seeds of `tests/regression_seeds.rs` are
    /// such worlds.
    fn statement_of_write(&self) -> WriteStatement {
        match WriteStatement::of_world(self.profile.is_tagged) {
            [only] => *only,
            all => all[self.dice.index(all.len())],
        }
    }
}
