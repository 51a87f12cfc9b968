//! Requests of this process's own on a relay, as in a transaction that a client holds over another protocol: a request
//! and its answer, and a statement with its whole result.
//!
//! After a fault the relay is not clean: the caller resets it, or drops it. Nothing is tried again.

use hopcache_packstream::Value;

use crate::error::{RunError, RunFault};
use crate::gather::{Gathered, Gathering};
use crate::message::{self, Response};
use crate::relay::{Relay, RelayCut};
use crate::run::{Finished, Room};

impl Relay {
    /// Sends the queued requests, and takes the answer to the first unanswered one. That request has no records.
    ///
    /// # Errors
    /// [`RunFault`]: the server refused, or the connection broke.
    pub async fn answer(&mut self) -> Result<Value, RunFault> {
        self.flush().await?;
        let (_, bytes) = self.receive().await?;
        match message::read(&bytes).map_err(RunFault::Protocol)? {
            Response::Success(metadata) => Ok(metadata),
            Response::Failure(failure) => Err(RunFault::Failed(failure)),
            Response::Ignored => Err(RunFault::Protocol("a request was ignored".to_owned())),
            Response::Record { .. } => Err(RunFault::Protocol("a record without a request".to_owned())),
        }
    }

    /// Sends the queued requests, and gathers the result of a RUN and of the PULL of all records behind it, which the
    /// caller has queued. While it waits for room it reads nothing, so the server waits too.
    ///
    /// # Errors
    /// [`RunError`]. An error after the columns were named has them in `fields`, and the server's own failure has the
    /// records before it.
    pub async fn result(&mut self, bytes_max: usize, room: &dyn Room) -> Result<Finished, RunError> {
        let mut gathering = Gathering::new(bytes_max, room);
        match self.gather(&mut gathering, room).await {
            Ok(finished) => Ok(finished),
            Err(fault) => Err(gathering.failed(fault)),
        }
    }

    async fn gather(&mut self, gathering: &mut Gathering, room: &dyn Room) -> Result<Finished, RunFault> {
        self.flush().await?;
        loop {
            gathering.widen(room).await?;
            let (_, bytes) = self.receive().await?;
            if bytes.len() > gathering.message_bytes_max() {
                return Err(gathering.too_large());
            }
            match gathering.take(&bytes)? {
                Gathered::Part => {}
                Gathered::End(end) => return gathering.finish(end),
                Gathered::Piece => {
                    return Err(RunFault::Protocol("a PULL of all records left some".to_owned()));
                }
            }
        }
    }
}

impl From<RelayCut> for RunFault {
    fn from(cut: RelayCut) -> Self {
        Self::Cut(cut.0)
    }
}
