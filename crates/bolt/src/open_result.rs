//! The rest of a result that a run has left open: records in pieces, as fast as the caller takes them, without a bound
//! and without a deadline.

use bytes::Bytes;
use hopcache_packstream::Value;

use crate::connection::{Connection, State};
use crate::copying::append;
use crate::error::{RunError, RunFault};
use crate::exchange::ended;
use crate::framing::{PlacedMessage, StreamFault, has_record, read_record, skip_record, write_messages};
use crate::message::{self, Response};
use crate::records::{MOVED_BYTES_MIN, RECORD_BYTES_MAX};
use crate::run::{Left, ResultEnd, Room};

/// Bytes of records after which a piece ends.
const PIECE_BYTES: usize = 64 << 10;

/// The next part of an open result.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Records, one behind the other; at least one.
    Records(Bytes),
    /// There are no more.
    End(ResultEnd),
}

impl Connection {
    /// The next records of a result that [`Connection::run_tapped`] has left open. It reads nothing between two calls, so
    /// the server waits for a slow caller. After [`Piece::End`] the connection is ready. A large record takes its place in `room`
    /// before it is read, and holds it as long as its piece is held. One that is discarded takes none.
    ///
    /// # Errors
    /// [`RunError`], also when no result is open. The connection has to be closed then.
    pub async fn rest(&mut self, left: Left, room: &dyn Room) -> Result<Piece, RunError> {
        if self.state != State::InResult {
            return Err(RunFault::NotReady.into());
        }
        self.state = State::InExchange;
        self.pulled.goes_on();
        let piece = self.piece(left, room).await?;
        self.pulled.rests();
        self.state = if matches!(piece, Piece::End(_)) { State::Ready } else { State::InResult };
        Ok(piece)
    }

    async fn piece(&mut self, left: Left, room: &dyn Room) -> Result<Piece, RunFault> {
        let (mut records, mut begun) = (Vec::new(), self.begun.take());
        loop {
            if records.len() >= PIECE_BYTES || (!records.is_empty() && !has_record(&self.stream)) {
                return Ok(Piece::Records(records.into()));
            }
            let message = match left {
                Left::Pulled => read_record(&mut self.stream, begun.take(), room).await.map_err(too_large)?,
                Left::Discarded => {
                    match skip_record(&mut self.stream, begun.take()).await.map_err(too_large)? {
                        Some(message) => PlacedMessage::from(message),
                        None => continue,
                    }
                }
            };
            match message::read(&message.bytes).map_err(RunFault::Protocol)? {
                Response::Record { .. } if left == Left::Discarded => {}
                Response::Record { list, .. } => {
                    self.pulled.add(list.len());
                    let list_at = message.bytes.len() - list.len();
                    if list.len() < MOVED_BYTES_MIN {
                        append(&mut records, list).await;
                        continue;
                    }
                    // It is not copied, and has a piece of its own: behind others only what is in the read buffer is read, which has
                    // half its room.
                    debug_assert!(records.is_empty(), "a large record behind others");
                    return Ok(Piece::Records(message.kept_from(list_at)));
                }
                Response::Success(end) if end.get("has_more") == Some(&Value::Bool(true)) => {
                    let next = match left {
                        Left::Pulled => {
                            self.pulled = self.pulled.next(self.options.pull_rows);
                            message::pull(self.pulled.asked())
                        }
                        Left::Discarded => message::discard_all(),
                    };
                    write_messages(&mut self.stream, &[next]).await?;
                }
                Response::Success(end) => return Ok(Piece::End(ended([end])?)),
                Response::Failure(failure) => return Err(RunFault::Failed(failure)),
                Response::Ignored => return Err(RunFault::Protocol("PULL was ignored".to_owned())),
            }
        }
    }
}

fn too_large(fault: StreamFault) -> RunFault {
    match fault {
        StreamFault::Cut(reason) => RunFault::Cut(reason),
        StreamFault::TooLarge => RunFault::TooLarge { limit_bytes: RECORD_BYTES_MAX },
        StreamFault::NoRoom => RunFault::NoRoom,
    }
}
