//! Writes at the simulated origin: each is one transaction, which is the next version of the data. A write can fail before
//! or after it is committed, and its answer can be lost.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{AccessMode, Neo4jFailure, OriginError, OriginFault, OriginRun};
use hopcache_packstream::Value;

use super::behavior::OriginBehavior;
use super::{ScriptedOrigin, failed, seeded_panic, transactions};
use crate::record::{Life, What};
use crate::write_statement::{WRITE_BY_USE, WriteStatement};

/// The database of the clients that name another one in their statement.
const CLIENTS_DATABASE: DatabaseUuid = DatabaseUuid([9; 16]);

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
        state.transactions.forget();
    }

    /// Carries out a write that a node has sent.
    pub(super) async fn write(
        self: &Arc<Self>,
        by: Life,
        run: &OriginRun,
        write: WriteStatement,
    ) -> Result<ResultSet, OriginError> {
        let (behavior, delay_ms, fate) = {
            let state = self.state.lock();
            (state.behavior.clone(), state.delay_ms, self.fate_of_write(state.write_fate, state.trouble))
        };
        tokio::time::sleep(Millis(delay_ms.min(run.timeout_ms.0)).duration()).await;
        if let OriginBehavior::Fault(fault) = behavior {
            return Err(failed(fault));
        }
        let cut = || Err(OriginError::of_sent(OriginFault::Cut("seeded: a write".to_owned())));
        match fate {
            WriteFate::Well => {
                let written = self.commit_write(by, write);
                self.state.lock().transactions.saw(by, written);
                let mut result = written_result(written, write, 1);
                if write.text == WRITE_BY_USE {
                    let to = Position { database: CLIENTS_DATABASE, id: TransactionId(1) };
                    result.range = ReadRange::new(Bookmark::NONE, to);
                    result.bookmark = Bookmark::NONE.with(Some(to)).encode();
                }
                Ok(result)
            }
            WriteFate::Nothing => Ok(written_result(i64::from(self.version()), write, 0)),
            WriteFate::Fails => {
                let code = "Neo.TransientError.Transaction.DeadlockDetected".to_owned();
                Err(OriginError::of_sent(OriginFault::Transient(Neo4jFailure {
                    code,
                    message: "seeded".to_owned(),
                })))
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
    pub(super) fn tell_newest(&self, by: Life) -> Result<Option<Position>, OriginError> {
        let mut state = self.state.lock();
        if !state.transactions.tells {
            return Ok(None);
        }
        if let OriginBehavior::Fault(fault) = &state.behavior {
            return Err(failed(fault.clone()));
        }
        if self.dice.chance(state.trouble.cut) {
            return Err(OriginError::of_sent(OriginFault::Cut("seeded: a question".to_owned())));
        }
        let version = state.version;
        state.transactions.saw(by, version);
        Ok(Some(transactions::at(u64::try_from(version).unwrap_or(0))))
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
        } else {
            WriteFate::Well
        }
    }

    fn commit_write(&self, by: Life, write: WriteStatement) -> i64 {
        let mut state = self.state.lock();
        state.version += 1;
        let version = state.version;
        drop(state);
        let number = u32::try_from(version).unwrap_or(0);
        self.record.note(What::Version { version: number, by: Some(by), touches: write.touches });
        version
    }
}

/// The bookmark of a write is of the newest transaction: as late as its own, or later.
fn written_result(version: i64, write: WriteStatement, created: i64) -> ResultSet {
    let to = transactions::at(u64::try_from(version).unwrap_or(0));
    let stats = Value::Map(vec![(write.counter.to_owned(), Value::Int(created))]);
    ResultSet {
        fields: Vec::new(),
        records: Bytes::new(),
        rows: 0,
        kind: Some(StatementKind::Write),
        summary: Value::Map(vec![("stats".to_owned(), stats)]),
        bookmark: Bookmark::NONE.with(Some(to)).encode(),
        range: ReadRange::new(Bookmark::NONE, to),
    }
}
