//! RUN and PULL to the end of a result. This file changes a connection's readiness: to "in exchange" before the first
//! await, and back only at a clean end.

use std::time::Duration;

use hopcache_packstream::{Reader, Token, Value};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::connection::{Connection, State};
use crate::error::{RunError, RunFault};
use crate::framing::{
    BegunMessage, MessageRead, StreamFault, has_message, read_message, read_or_begin, write_messages,
};
use crate::message::{self, Response};
use crate::pull_size::Pulled;
use crate::records::{DAY, METADATA_BYTES_MAX, Records};
use crate::request_bytes;
use crate::run::{ClosingStatement, NoTap, RecordTap, ResultEnd, Room, Run, Unbounded, WholeResult};
use crate::statuses;

/// Most names in the metadata of one answer (real ones have about ten), so that merging two stays cheap.
const METADATA_NAMES_MAX: usize = 64;

impl Connection {
    /// Runs one statement to its end. RUN and the first PULL leave in one write.
    ///
    /// Afterwards the connection is ready. After a dropped future, or an error other than the server's, it is not ready and
    /// should be closed. Closing it ends the statement on the server within a second.
    ///
    /// # Errors
    /// [`RunError`]. An error after the columns were named has them in `fields`, and the server's own failure
    /// has the records before it.
    pub async fn run(&mut self, run: &Run<'_>) -> Result<WholeResult, RunError> {
        self.run_in(run, &Unbounded).await
    }

    /// Like [`Connection::run`], with a request for room as the records come. While it waits for room it reads
    /// nothing, so the server waits too.
    ///
    /// # Errors
    /// As [`Connection::run`], and [`RunFault::NoRoom`].
    pub async fn run_in(&mut self, run: &Run<'_>, room: &dyn Room) -> Result<WholeResult, RunError> {
        self.run_tapped(run, room, &mut NoTap).await
    }

    /// Like [`Connection::run_in`], while `tap` sees the records as they come.
    ///
    /// If the tap takes the rest of a result, the run ends with [`RunFault::TooLarge`] when the result has grown over
    /// the bound, and with [`RunFault::TimedOut`] when it still grows shortly before the end of the run's time. The
    /// tap has seen every record so far, and [`Connection::rest`] reads the others, without a deadline.
    ///
    /// # Errors
    /// As [`Connection::run_in`].
    pub async fn run_tapped(
        &mut self,
        run: &Run<'_>,
        room: &dyn Room,
        tap: &mut dyn RecordTap,
    ) -> Result<WholeResult, RunError> {
        self.run_to_end(run, None, room, tap).await
    }

    /// Like [`Connection::run_in`], as a transaction with a last statement of the caller's. Also returns the metadata of that
    /// statement's end, a map; `None` if it was not due. After any error but a lost answer of COMMIT nothing is committed.
    ///
    /// # Errors
    /// As [`Connection::run_in`]; the failure may be the last statement's, or COMMIT's.
    pub async fn run_closed(
        &mut self,
        run: &Run<'_>,
        closing: &ClosingStatement<'_>,
        room: &dyn Room,
    ) -> Result<(WholeResult, Option<Value>), RunError> {
        let deadline = deadline_after(run.timeout);
        let finished = self.run_to_end(run, Some(closing), room, &mut NoTap).await?;
        self.state = State::InExchange;
        let outcome = timeout_at(deadline, self.close_transaction(closing, &finished)).await;
        match self.settled(outcome, deadline).await {
            Ok((bookmark, last)) => Ok((WholeResult { bookmark, ..finished }, last)),
            Err(fault) => Err(RunError { fault, fields: Some(finished.fields), records: finished.records }),
        }
    }

    async fn run_to_end(
        &mut self,
        run: &Run<'_>,
        closing: Option<&ClosingStatement<'_>>,
        room: &dyn Room,
        tap: &mut dyn RecordTap,
    ) -> Result<WholeResult, RunError> {
        if !self.is_ready() {
            return Err(RunFault::NotReady.into());
        }
        if !is_one_map(run.params) {
            return Err(RunFault::BadParameters.into());
        }
        self.state = State::InExchange;
        let deadline = deadline_after(run.timeout);
        let mut fields = None;
        let mut records = Records::new(run.bytes_max, room, run.timeout, tap);
        let exchange = self.run_and_pull((run, closing), room, &mut fields, &mut records);
        let outcome = timeout_at(deadline, exchange).await;
        self.settled(outcome, deadline).await.map_err(|fault| records.failed(fault, fields))
    }

    /// The bookmark of a database's newest transaction: `BEGIN` and `COMMIT` without a statement, in one write. It takes 0.14
    /// ms on Neo4j 5.26, and needs no rights. `None` if the server sends none.
    ///
    /// # Errors
    /// [`RunError`]. Afterwards the connection is as after [`Connection::run`].
    pub async fn newest(
        &mut self,
        database: Option<&str>,
        impersonated: Option<&str>,
        within: Duration,
    ) -> Result<Option<String>, RunError> {
        if !self.is_ready() {
            return Err(RunFault::NotReady.into());
        }
        self.state = State::InExchange;
        let deadline = deadline_after(within);
        let exchange = async {
            let requests = [message::begin(database, impersonated), message::commit()];
            write_messages(&mut self.stream, &requests).await?;
            self.read_run_answer().await?;
            self.read_run_answer().await
        };
        let outcome = timeout_at(deadline, exchange).await;
        Ok(bookmark_of(&self.settled(outcome, deadline).await?))
    }

    /// An exchange has ended, or its time is over. The connection is ready again after a clean end, and after a failure that a
    /// RESET recovers from.
    pub(crate) async fn settled<T>(
        &mut self,
        outcome: Result<Result<T, RunFault>, Elapsed>,
        deadline: Instant,
    ) -> Result<T, RunFault> {
        let ended = outcome.unwrap_or(Err(RunFault::TimedOut));
        match &ended {
            Ok(_) => self.state = State::Ready,
            Err(RunFault::Failed(_)) => Box::pin(self.recover(deadline)).await,
            Err(_) => {}
        }
        ended
    }

    async fn run_and_pull(
        &mut self,
        (run, closing): (&Run<'_>, Option<&ClosingStatement<'_>>),
        room: &dyn Room,
        named: &mut Option<Vec<String>>,
        records: &mut Records<'_>,
    ) -> Result<WholeResult, RunFault> {
        self.pulled = Pulled::first(self.options.pull_rows);
        let pull = message::pull(self.pulled.asked());
        if closing.is_none() {
            write_messages(&mut self.stream, &[message::run(run), pull]).await?;
        } else {
            let within = request_bytes::run(run.statement, run.params, &Value::Map(Vec::new()));
            write_messages(&mut self.stream, &[message::begin_of(run), within, pull]).await?;
            self.read_run_answer().await?;
        }
        let mut metadata = self.read_run_answer().await?;
        let fields = take_fields(&mut metadata)?;
        *named = Some(fields.clone());
        records.columns = fields.len();
        records.tap().begin(&fields, &metadata);
        loop {
            let end = self.read_batch(records, room).await?;
            if end.get("has_more") != Some(&Value::Bool(true)) {
                return finish(fields, records, metadata, end);
            }
            self.pulled = self.pulled.next(self.options.pull_rows);
            write_messages(&mut self.stream, &[message::pull(self.pulled.asked())]).await?;
        }
    }

    /// The last statement, if it is due, and COMMIT, in one write. Returns the bookmark, and the end of that statement.
    async fn close_transaction(
        &mut self,
        closing: &ClosingStatement<'_>,
        finished: &WholeResult,
    ) -> Result<(Option<String>, Option<Value>), RunFault> {
        let is_due =
            (closing.is_due)(finished.statement_type.as_deref(), &finished.summary, closing.may_call);
        let mut requests = vec![message::commit()];
        if is_due {
            let run = request_bytes::run(closing.statement, closing.params, &Value::Map(Vec::new()));
            requests.splice(0..0, [run, message::pull(1)]);
        }
        write_messages(&mut self.stream, &requests).await?;
        let mut last = None;
        if is_due {
            self.read_run_answer().await?;
            last = Some(self.read_run_answer().await?);
        }
        Ok((bookmark_of(&self.read_run_answer().await?), last))
    }

    pub(crate) async fn read_run_answer(&mut self) -> Result<Value, RunFault> {
        let bytes = read_message(&mut self.stream, METADATA_BYTES_MAX).await;
        let bytes = bytes.map_err(|fault| match fault {
            StreamFault::Cut(reason) => RunFault::Cut(reason),
            StreamFault::TooLarge => RunFault::TooLarge { limit_bytes: METADATA_BYTES_MAX },
            StreamFault::NoRoom => RunFault::NoRoom,
        })?;
        match message::read(&bytes).map_err(RunFault::Protocol)? {
            Response::Success(metadata) => Ok(metadata),
            Response::Failure(failure) => Err(RunFault::Failed(failure)),
            Response::Ignored => Err(RunFault::Protocol("RUN was ignored".to_owned())),
            Response::Record { .. } => Err(RunFault::Protocol("a record before RUN's answer".to_owned())),
        }
    }

    /// Reads records up to the SUCCESS that ends one PULL, and returns its metadata.
    async fn read_batch(&mut self, records: &mut Records<'_>, room: &dyn Room) -> Result<Value, RunFault> {
        loop {
            if records.need_room() {
                // Neo4j waits meanwhile: what this node reads then says nothing about its pace.
                self.pulled.rests();
                let widened = records.widen(room).await;
                self.pulled.goes_on();
                widened?;
            }
            if !has_message(&self.stream) {
                records.tap().pause();
                if records.is_nearly_late() {
                    return self.left_open(records, RunFault::TimedOut);
                }
            }
            let message = match read_or_begin(&mut self.stream, records.message_bytes_max()).await? {
                MessageRead::Whole(message) => message,
                MessageRead::Begun(begun) => return self.left_behind(records, begun),
            };
            let values = match message::read(&message).map_err(RunFault::Protocol)? {
                Response::Record { list, .. } if records.leaves_to_rest(list.len()) => {
                    return self.left_behind(records, BegunMessage::whole(message));
                }
                Response::Record { values, list } => {
                    self.pulled.add(list.len());
                    values
                }
                Response::Success(metadata) => return Ok(metadata),
                Response::Failure(failure) => return Err(RunFault::Failed(failure)),
                Response::Ignored => return Err(RunFault::Protocol("PULL was ignored".to_owned())),
            };
            if !records.take(message, values).await? {
                let fault = records.too_large();
                return self.left_open(records, fault);
            }
        }
    }

    /// The run ends before a message that has no room. Who takes the rest reads it: only then it needs more room.
    fn left_behind(&mut self, records: &mut Records<'_>, begun: BegunMessage) -> Result<Value, RunFault> {
        self.begun = Some(begun);
        let fault = records.too_large();
        self.left_open(records, fault)
    }

    /// The run ends. If the caller takes the rest of its result, it stays open.
    fn left_open(&mut self, records: &mut Records<'_>, fault: RunFault) -> Result<Value, RunFault> {
        if records.tap().takes_rest() {
            self.state = State::InResult;
            self.pulled.rests();
        }
        Err(fault)
    }
}

/// A timeout past the end of the clock is replaced by a day.
fn deadline_after(timeout: Duration) -> Instant {
    Instant::now().checked_add(timeout).unwrap_or_else(|| Instant::now() + DAY)
}

/// The bookmark in COMMIT's answer.
fn bookmark_of(end: &Value) -> Option<String> {
    end.get("bookmark").and_then(Value::as_str).map(str::to_owned)
}

pub(crate) fn take_fields(metadata: &mut Value) -> Result<Vec<String>, RunFault> {
    let wrong = || RunFault::Protocol("RUN's answer names no fields".to_owned());
    let Value::Map(pairs) = metadata else { return Err(wrong()) };
    let place = pairs.iter().position(|(name, _)| name == "fields").ok_or_else(wrong)?;
    let (_, Value::List(names)) = pairs.remove(place) else { return Err(wrong()) };
    let text = |name| match name {
        Value::String(text) => Ok(text),
        _ => Err(wrong()),
    };
    names.into_iter().map(text).collect()
}

pub(crate) fn finish(
    fields: Vec<String>,
    records: &mut Records<'_>,
    first: Value,
    last: Value,
) -> Result<WholeResult, RunFault> {
    let ResultEnd { statement_type, bookmark, summary } = ended([first, last])?;
    let (rows, records) = (records.rows(), records.take_all());
    Ok(WholeResult { fields, records, rows, statement_type, bookmark, summary })
}

/// The metadata of a result's end, from RUN's answer (if it is there) and the last PULL's.
pub(crate) fn ended<const N: usize>(parts: [Value; N]) -> Result<ResultEnd, RunFault> {
    let mut ended = ResultEnd { statement_type: None, bookmark: None, summary: Value::Null };
    let mut rest: Vec<(String, Value)> = Vec::new();
    for part in parts {
        let Value::Map(pairs) = part else { continue };
        if pairs.len() > METADATA_NAMES_MAX {
            return Err(RunFault::Protocol(format!("metadata of {} names", pairs.len())));
        }
        for (name, value) in pairs {
            match (name.as_str(), value) {
                ("type", Value::String(text)) => ended.statement_type = Some(text),
                ("bookmark", Value::String(text)) => ended.bookmark = Some(text),
                ("has_more" | "qid", _) => {}
                (_, value) => match rest.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, known)) => *known = value,
                    None => rest.push((name, value)),
                },
            }
        }
    }
    if let Some((_, statuses)) = rest.iter().find(|(name, _)| name == "statuses")
        && let Some(all) = statuses::notifications(statuses)
    {
        rest.push(("notifications".to_owned(), all));
    }
    ended.summary = Value::Map(rest);
    Ok(ended)
}

fn is_one_map(params: &[u8]) -> bool {
    let mut reader = Reader::new(params);
    matches!(reader.clone().token(), Ok(Token::Map(_))) && reader.skip().is_ok() && reader.is_empty()
}
