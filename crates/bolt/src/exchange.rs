//! RUN and PULL to the end of a result. This file changes a connection's readiness: to "in exchange" before the first
//! await, and back only at a clean end.

use std::time::Duration;

use hopcache_packstream::{Reader, Token};
use tokio::time::{Instant, timeout_at};

use crate::connection::{Connection, State};
use crate::error::{RunError, RunFault};
use crate::framing::{StreamFault, read_message, write_messages};
use crate::gather::{Gathered, Gathering};
use crate::message;
use crate::run::{Finished, Room, Run, Unbounded};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Connection {
    /// Runs one statement to its end. RUN and the first PULL leave in one write.
    ///
    /// Afterwards the connection is ready. After a dropped future, or an error other than the server's, it is not ready and
    /// should be closed. Closing it ends the statement on the server within a second.
    ///
    /// # Errors
    /// [`RunError`]. An error after the columns were named has them in `fields`, and the server's own failure
    /// has the records before it.
    pub async fn run(&mut self, run: &Run<'_>) -> Result<Finished, RunError> {
        self.run_in(run, &Unbounded).await
    }

    /// Like [`Connection::run`], with a request for room as the records come. While it waits for room it reads
    /// nothing, so the server waits too.
    ///
    /// # Errors
    /// As [`Connection::run`], and [`RunFault::NoRoom`].
    pub async fn run_in(&mut self, run: &Run<'_>, room: &dyn Room) -> Result<Finished, RunError> {
        if !self.is_ready() {
            return Err(RunFault::NotReady.into());
        }
        if !is_one_map(run.params) {
            return Err(RunFault::BadParameters.into());
        }
        self.state = State::InExchange;
        // A timeout past the end of the clock is replaced by a day.
        let deadline = Instant::now().checked_add(run.timeout).unwrap_or_else(|| Instant::now() + DAY);
        let mut gathering = Gathering::new(run.bytes_max, room);
        let outcome = timeout_at(deadline, self.run_and_pull(run, room, &mut gathering)).await;
        let fault = match outcome {
            Ok(Ok(finished)) => {
                self.state = State::Ready;
                return Ok(finished);
            }
            Ok(Err(fault)) => fault,
            Err(_) => RunFault::TimedOut,
        };
        if matches!(fault, RunFault::Failed(_)) {
            self.recover(deadline).await;
        }
        Err(gathering.failed(fault))
    }

    async fn run_and_pull(
        &mut self,
        run: &Run<'_>,
        room: &dyn Room,
        gathering: &mut Gathering,
    ) -> Result<Finished, RunFault> {
        let pull = message::pull(self.options.pull_rows.max(1));
        write_messages(&mut self.stream, &[message::run(run), pull.clone()]).await?;
        loop {
            gathering.widen(room).await?;
            let read = read_message(&mut self.stream, gathering.message_bytes_max()).await;
            let bytes = read.map_err(|fault| match fault {
                StreamFault::Cut(reason) => RunFault::Cut(reason),
                StreamFault::TooLarge => gathering.too_large(),
            })?;
            match gathering.take(&bytes)? {
                Gathered::Part => {}
                Gathered::Piece => write_messages(&mut self.stream, std::slice::from_ref(&pull)).await?,
                Gathered::End(end) => return gathering.finish(end),
            }
        }
    }
}

fn is_one_map(params: &[u8]) -> bool {
    let mut reader = Reader::new(params);
    matches!(reader.clone().token(), Ok(Token::Map(_))) && reader.skip().is_ok() && reader.is_empty()
}
