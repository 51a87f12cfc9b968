//! Requests of this process's own on a relay, as in a transaction that a client holds over another protocol: a request
//! and its answer, and a statement with its whole result.
//!
//! After a fault the relay is not clean: the caller resets it, or drops it. Nothing is tried again.

use std::time::Duration;

use hopcache_packstream::Value;

use crate::error::{RunError, RunFault};
use crate::exchange::{finish, take_fields};
use crate::message::{self, Response};
use crate::records::{METADATA_BYTES_MAX, Records};
use crate::relay::{Relay, RelayCut};
use crate::run::{NoTap, Room, WholeResult};

impl Relay {
    /// Sends the queued requests, and takes the answer to the first unanswered one. That request has no records.
    ///
    /// # Errors
    /// [`RunFault`]: the server refused, or the connection broke.
    pub async fn answer(&mut self) -> Result<Value, RunFault> {
        self.flush().await?;
        let (_, bytes) = self.receive().await?;
        if bytes.len() > METADATA_BYTES_MAX {
            return Err(RunFault::TooLarge { limit_bytes: METADATA_BYTES_MAX });
        }
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
    pub async fn result(&mut self, bytes_max: usize, room: &dyn Room) -> Result<WholeResult, RunError> {
        let (mut named, mut tap) = (None, NoTap);
        let mut records = Records::new(bytes_max, room, Duration::ZERO, &mut tap);
        match self.gather(&mut named, &mut records, room).await {
            Ok(finished) => Ok(finished),
            Err(fault) => Err(records.failed(fault, named)),
        }
    }

    async fn gather(
        &mut self,
        named: &mut Option<Vec<String>>,
        records: &mut Records<'_>,
        room: &dyn Room,
    ) -> Result<WholeResult, RunFault> {
        let mut opening = self.answer().await?;
        let fields = take_fields(&mut opening)?;
        *named = Some(fields.clone());
        records.columns = fields.len();
        loop {
            records.widen(room).await?;
            let (_, bytes) = self.receive().await?;
            if bytes.len() > records.message_bytes_max() {
                return Err(records.too_large());
            }
            match message::read(&bytes).map_err(RunFault::Protocol)? {
                Response::Record { list, values } => {
                    if !records.push(list, values).await? {
                        return Err(records.too_large());
                    }
                }
                Response::Success(end) if end.get("has_more") == Some(&Value::Bool(true)) => {
                    return Err(RunFault::Protocol("a PULL of all records left some".to_owned()));
                }
                Response::Success(end) => return finish(fields, records, opening, end),
                Response::Failure(failure) => return Err(RunFault::Failed(failure)),
                Response::Ignored => return Err(RunFault::Protocol("PULL was ignored".to_owned())),
            }
        }
    }
}

impl From<RelayCut> for RunFault {
    fn from(cut: RelayCut) -> Self {
        Self::Cut(cut.0)
    }
}
