//! Writes at the simulated origin: each is one transaction, which is the next version of the data. A write can fail before
//! or after it is committed, and its answer can be lost.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::proof::ServerRun;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{AccessMode, Neo4jFailure, OriginError, OriginFault, OriginRun};
use hopcache_packstream::Value;

use super::behavior::OriginBehavior;
use super::{ScriptedOrigin, failed, seeded_panic};
use crate::check::record::{Life, What};
use crate::world::subject::write_of_trace;
use crate::world::write_statement::{Touches, WRITE_BY_USE, WriteStatement};

/// The database of the clients that name another one in their statement.
const CLIENTS_DATABASE: DatabaseUuid = DatabaseUuid([9; 16]);

/// Longest time between a write's commit and its bookmark.
const TELL_MS_MAX: u64 = 8;

/// The node of a write, and the write's number if a client of the schedule sent it.
#[derive(Clone, Copy)]
struct WrittenBy {
    by: Life,
    number: Option<u32>,
}

/// How a write ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFate {
    /// Well.
    Well,
    /// Well, and its summary shows that it has changed nothing.
    Nothing,
    /// With an error, and nothing is committed.
    Fails,
    /// It is committed, and the connection breaks.
    LostAfter,
    /// The connection breaks, and nothing is committed.
    LostBefore,
    /// The connection breaks, and after so many milliseconds it is committed.
    CommittedLater(u64),
    /// It is committed, and the caller's task panics.
    Panics,
    /// Well, and its summary does not count what a procedure has committed by itself.
    Uncounted,
    /// A part is committed, and the next one is refused.
    RefusedInPart(&'static str),
    /// Well, and it has taken no id although its summary counts updates: `SET` to the same value.
    NoEffect,
    /// With an error of this code. It is rolled back, but for a label that it has made: that takes an id, and stays.
    LeavesLabel(&'static str),
    /// Well, in batches: so many, each committed so many milliseconds after the one before.
    Batches(u32, u64),
}

/// The write that a run is; none for a read.
pub(super) fn write_of(run: &OriginRun) -> Option<WriteStatement> {
    WriteStatement::of_text(&run.statement).filter(|_| run.mode == AccessMode::Write)
}

impl ScriptedOrigin {
    /// How later writes end.
    pub fn set_write_fate(&self, fate: WriteFate) {
        self.state.lock().write_fate = fate;
    }

    /// The newest version.
    #[must_use]
    pub fn version(&self) -> u32 {
        u32::try_from(self.state.lock().version).unwrap_or(0)
    }

    /// It is restored to an earlier version: ids go back, and what nodes have seen of it is gone with their connections.
    pub fn restore(&self, version: i64) {
        let mut state = self.state.lock();
        state.version = version;
        state.transactions.restored();
        drop(state);
        self.record.note(What::Restored { version: u32::try_from(version).unwrap_or(0) });
    }

    /// Another server answers at its address, with a database of its own: the transactions are other ones.
    pub fn replace(&self, database: DatabaseUuid, version: i64) {
        self.state.lock().transactions.database = database;
        self.restore(version);
    }

    fn position(&self, version: i64) -> Position {
        self.state.lock().transactions.at(u64::try_from(version).unwrap_or(0))
    }

    /// It is stopped and started. Nothing is lost.
    pub fn start_anew(&self) {
        self.state.lock().transactions.started();
    }

    pub(super) fn server_run(&self) -> ServerRun {
        ServerRun(self.state.lock().transactions.started)
    }

    /// Ids are counted as Neo4j does it: `EXACT.md`, section 1.
    pub fn count_exactly(&self) {
        self.state.lock().transactions.is_exact = true;
    }

    /// Users or rights change.
    pub fn change_rights(&self) {
        self.state.lock().transactions.system += 1;
        self.record.note(What::RightsChanged);
    }

    /// It answers no question about this database any more.
    pub fn be_silent_about(&self, database: &str) {
        self.state.lock().transactions.silent_about = Some(database.to_owned());
    }

    pub(super) fn is_silent_about(&self, database: &str) -> bool {
        self.state.lock().transactions.silent_about.as_deref() == Some(database)
    }

    /// A client writes past all nodes: it takes one id, and may touch anything.
    pub fn write_past(&self) {
        let version = {
            let mut state = self.state.lock();
            state.version += 1;
            u32::try_from(state.version).unwrap_or(0)
        };
        self.record.note(What::Version { version, by: None, touches: Touches::ALL });
    }

    /// Carries out a write that a node has sent.
    pub(super) async fn write(
        self: &Arc<Self>,
        by: Life,
        run: &OriginRun,
        write: WriteStatement,
    ) -> Result<ResultSet, OriginError> {
        let (behavior, delay_ms, fate, restored) = {
            let state = self.state.lock();
            let fate = self.fate_of_write(state.write_fate, state.trouble);
            (state.behavior_for(by), state.delay_ms, fate, state.transactions.restored)
        };
        let number = run.traceparent.as_deref().and_then(write_of_trace);
        let by = WrittenBy { by, number };
        tokio::time::sleep(Millis(delay_ms.min(run.timeout_ms.0)).duration()).await;
        if let OriginBehavior::Fault(fault) = behavior {
            return Err(failed(fault));
        }
        if self.state.lock().transactions.restored != restored {
            return cut();
        }
        self.end_write(by, write, fate).await
    }

    /// The end of a write that has reached this fate.
    async fn end_write(
        self: &Arc<Self>,
        by: WrittenBy,
        write: WriteStatement,
        fate: WriteFate,
    ) -> Result<ResultSet, OriginError> {
        match fate {
            WriteFate::Well => {
                let own = self.commit_write(by, write);
                let written = self.told_after(own).await;
                self.state.lock().transactions.saw(by.by, written);
                let mut result = written_result(self.position(written), write, 1);
                if write.text == WRITE_BY_USE {
                    let to = Position { database: CLIENTS_DATABASE, id: TransactionId(1) };
                    result.range = ReadRange::new(Bookmark::NONE, to);
                    result.bookmark = Bookmark::NONE.with(Some(to)).encode();
                }
                Ok(result)
            }
            WriteFate::NoEffect => {
                self.record.note(What::Spared { by: by.by });
                Ok(written_result(self.position(i64::from(self.version())), write, 1))
            }
            WriteFate::LeavesLabel(code) => {
                self.write_past();
                Err(OriginError::of_sent(OriginFault::Failed(seeded(code))))
            }
            WriteFate::Batches(count, every_ms) => {
                for _ in 0..count {
                    tokio::time::sleep(Millis(every_ms).duration()).await;
                    self.commit_write(by, write);
                }
                Ok(written_result(self.position(i64::from(self.version())), write, 1))
            }
            WriteFate::Uncounted => Ok(written_result(self.position(self.commit_write(by, write)), write, 0)),
            WriteFate::RefusedInPart(code) => {
                self.commit_write(by, write);
                Err(OriginError::of_sent(OriginFault::Failed(seeded(code))))
            }
            WriteFate::Nothing => Ok(written_result(self.position(i64::from(self.version())), write, 0)),
            WriteFate::Fails => {
                let failure = seeded("Neo.TransientError.Transaction.DeadlockDetected");
                Err(OriginError::of_sent(OriginFault::Transient(failure)))
            }
            WriteFate::LostAfter => {
                self.commit_write(by, write);
                cut()
            }
            WriteFate::LostBefore => cut(),
            WriteFate::CommittedLater(after_ms) => {
                let origin = Arc::clone(self);
                // This is the server's work: nobody waits for it.
                tokio::spawn(async move {
                    tokio::time::sleep(Millis(after_ms).duration()).await;
                    origin.commit_write(by, write);
                });
                cut()
            }
            WriteFate::Panics => {
                self.commit_write(by, write);
                seeded_panic()
            }
        }
    }

    /// The newest transaction, for a node that asks.
    pub(super) fn tell_newest(&self, by: Life, database: &str) -> Result<Option<Position>, OriginError> {
        let mut state = self.state.lock();
        if !state.transactions.tells {
            return Ok(None);
        }
        if let OriginBehavior::Fault(fault) = state.behavior_for(by) {
            return Err(failed(fault));
        }
        if self.dice.chance(state.trouble.cut) {
            return Err(OriginError::of_sent(OriginFault::Cut("seeded: a question".to_owned())));
        }
        if let Some(system) = state.transactions.newest_of_system(database) {
            return Ok(Some(system));
        }
        let version = state.version;
        state.transactions.saw(by, version);
        Ok(Some(state.transactions.at(u64::try_from(version).unwrap_or(0))))
    }

    fn fate_of_write(&self, set: WriteFate, trouble: super::Trouble) -> WriteFate {
        let fates = [WriteFate::LostAfter, WriteFate::LostBefore, WriteFate::CommittedLater(700)];
        if set != WriteFate::Well {
            set
        } else if self.dice.chance(trouble.cut) {
            fates[self.dice.index(fates.len())]
        } else if self.dice.chance(trouble.transient) {
            WriteFate::Fails
        } else if self.dice.chance(trouble.panic) {
            WriteFate::Panics
        } else if self.dice.chance(trouble.no_effect) {
            WriteFate::NoEffect
        } else {
            WriteFate::Well
        }
    }

    fn commit_write(&self, by: WrittenBy, write: WriteStatement) -> i64 {
        let WrittenBy { by, number } = by;
        let mut state = self.state.lock();
        let taken = state.transactions.take(by, write);
        let touches = write.touches_where(state.has_both(state.version));
        state.version += taken.ids;
        let written = state.version;
        if let Some(is_both) = write.leaves_both() {
            state.both.insert(written, is_both);
        }
        state.captured.note(written, write);
        drop(state);
        let version = u32::try_from(written).unwrap_or(0);
        self.record.note(What::Version { version, by: Some(by), touches });
        if let Some(write) = number {
            self.record.note(What::Wrote { write, version, touches });
        }
        if taken.is_spare {
            self.record.note(What::Spared { by });
        }
        written
    }

    /// The transaction in a write's bookmark. Where ids are counted exactly it may be a later one's.
    async fn told_after(&self, own: i64) -> i64 {
        if !self.state.lock().transactions.is_exact {
            return own;
        }
        tokio::time::sleep(Millis(self.dice.below(TELL_MS_MAX)).duration()).await;
        i64::from(self.version())
    }
}

fn cut() -> Result<ResultSet, OriginError> {
    Err(OriginError::of_sent(OriginFault::Cut("seeded: a write".to_owned())))
}

fn seeded(code: &str) -> Neo4jFailure {
    Neo4jFailure { code: code.to_owned(), message: "seeded".to_owned(), as_sent: Vec::new() }
}

/// The bookmark of a write is of the newest transaction: as late as its own, or later.
fn written_result(to: Position, write: WriteStatement, created: i64) -> ResultSet {
    let stats = Value::Map(vec![(write.counter.to_owned(), Value::Int(created))]);
    ResultSet {
        fields: Vec::new(),
        records: Bytes::new(),
        rows: 0,
        kind: Some(StatementKind::Write),
        summary: Value::Map(vec![("stats".to_owned(), stats)]),
        bookmark: Bookmark::NONE.with(Some(to)).encode(),
        range: ReadRange::new(Bookmark::NONE, to),
        marked: None,
    }
}
