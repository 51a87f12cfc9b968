//! An explicit transaction. BEGIN is lazy: it reaches Neo4j with the first statement that has to. Reads before that may be
//! answered by the cache; from then on everything in the transaction runs on its one relay.
//!
//! A transaction that has reached Neo4j ends there before its client is told so. When the client is gone its relay is
//! closed, and Neo4j rolls back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::server::Kind;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::BOLT_RESULTS_MAX;
use hopcache_engine::outcome::Reason;
use hopcache_packstream::Value;
use tokio::time::Instant;

use super::login::keeps_values;
use super::said::Said;
use super::session::{OpenResult, Session, Trouble};
use super::statement::{Asked, Statement};
use super::terms::{Terms, for_neo4j, with_map};

const TIMED_OUT: &str = "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration";

/// A transaction of one session.
pub(super) struct Transaction {
    terms: Terms,
    /// BEGIN's options, as Neo4j gets them.
    extra: Value,
    deadline: Option<Instant>,
    /// Whether Neo4j has it.
    has_begun: bool,
    results: BTreeMap<i64, OpenResult>,
    next_qid: i64,
    /// Whether the cache has answered in it. What is read from then on is no older: `terms.asked` covers what was shown.
    has_shown: bool,
}

impl Transaction {
    /// Open results.
    pub(super) fn open_results(&self) -> usize {
        self.results.len()
    }

    /// How much of its time is left, if it has a bound.
    fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn take_qid(&mut self) -> i64 {
        let qid = self.next_qid;
        self.next_qid += 1;
        qid
    }
}

impl Session {
    /// BEGIN. What Neo4j would refuse here is refused here: credentials, an unknown database, bad options and bookmarks.
    pub(super) async fn begin(&mut self, extra: Value) -> Result<Value, Trouble> {
        self.check_stays()?;
        let terms = Terms::read(&extra)?;
        let identity = self.login()?.identity.clone();
        self.check(&identity).await?;
        let acting = self.acting(&terms)?;
        let deadline = terms.timeout_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        let sent = for_neo4j(&extra, &self.hello, self.version);
        let is_eager = terms.asked.is_none() || terms.no_store || !keeps_values(self.version);
        let mut transaction = Transaction {
            terms: terms.clone(),
            extra: sent,
            deadline,
            has_begun: false,
            results: BTreeMap::new(),
            next_qid: 0,
            has_shown: false,
        };
        if is_eager && self.front.relays.is_some() {
            self.need_relay(&terms).await?;
            self.queue(&with_map(Kind::Begin, &transaction.extra))?;
            let success = self.answer().await?;
            transaction.has_begun = true;
            self.transaction = Some(transaction);
            return Ok(success);
        }
        let front = Arc::clone(&self.front);
        let (user, name) = (terms.impersonated.as_deref(), terms.database.as_deref());
        let database = self.out.wait_for(front.database(&acting, user, name)).await?;
        let database = database.map_err(|error| Said::of_fault(&error.kind))?;
        self.transaction = Some(transaction);
        let named = self.version.at_least(5, 8).then(|| ("db".to_owned(), Value::from(&*database)));
        Ok(Value::Map(named.into_iter().collect()))
    }

    /// RUN in the transaction.
    pub(super) async fn run_in_transaction(
        &mut self,
        statement: &Statement,
        extra: &Value,
    ) -> Result<Value, Trouble> {
        let transaction = self.transaction_mut()?;
        if transaction.open_results() >= BOLT_RESULTS_MAX {
            let message =
                format!("Over {BOLT_RESULTS_MAX} results are open in this transaction: read or drop some.");
            return Err(Said::own("TooManyResults", message).into());
        }
        if transaction.left() == Some(Duration::ZERO) {
            return Err(
                Said::new(TIMED_OUT, "The transaction has been terminated: its timeout has passed.").into()
            );
        }
        let mut reason = Some(Reason::Transaction);
        if !transaction.has_begun {
            let mut terms = transaction.terms.clone();
            terms.timeout_ms =
                transaction.left().map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            match self.ask(&terms, statement).await? {
                Asked::Answered(mut result) => {
                    let (version, hello) = (self.version, self.hello.clone());
                    let transaction = self.transaction_mut()?;
                    result.filter(version, &transaction.extra, &hello);
                    transaction.has_shown = true;
                    if let Some(asked) = &mut transaction.terms.asked {
                        result.read_to().into_iter().for_each(|position| asked.add(position));
                    }
                    let qid = transaction.take_qid();
                    let opening = result.opening(Some(qid));
                    transaction.results.insert(qid, OpenResult::Cached(result));
                    return Ok(opening);
                }
                Asked::Passes(why) => reason = why,
            }
            self.queue_begin(&terms).await?;
        }
        let (mut success, result) = self.pass_run(statement, extra, reason).await?;
        let transaction = self.transaction_mut()?;
        let qid = transaction.take_qid();
        transaction.results.insert(qid, OpenResult::Passing(result));
        set(&mut success, "qid", Value::Int(qid));
        Ok(success)
    }

    /// Queues BEGIN before the first statement, so that both go in one packet.
    async fn queue_begin(&mut self, terms: &Terms) -> Result<(), Trouble> {
        self.need_relay(terms).await?;
        let transaction = self.transaction_mut()?;
        let mut extra = transaction.extra.clone();
        if let Some(left) = transaction.left() {
            let left_ms = i64::try_from(left.as_millis()).unwrap_or(i64::MAX).max(1);
            set(&mut extra, "tx_timeout", Value::Int(left_ms));
        }
        // Neo4j must not show what is older than what the cache has shown.
        if transaction.has_shown
            && let Some(text) = transaction.terms.asked.as_ref().and_then(Bookmark::encode)
        {
            set(&mut extra, "bookmarks", Value::List(vec![Value::String(text)]));
        }
        self.queue(&with_map(Kind::Begin, &extra))
    }

    /// Takes Neo4j's answer to a BEGIN that went with the statement behind it.
    pub(super) async fn await_begin(&mut self) -> Result<(), Trouble> {
        if self.transaction.as_ref().is_some_and(|transaction| !transaction.has_begun) {
            self.answer().await?;
            self.transaction_mut()?.has_begun = true;
        }
        Ok(())
    }

    /// PULL or DISCARD in the transaction: which result, by its number or the last one.
    pub(super) fn result_in_transaction(&mut self, qid: Option<i64>) -> Result<(i64, OpenResult), Trouble> {
        let transaction = self.transaction_mut()?;
        let qid = qid.unwrap_or(transaction.next_qid - 1);
        let result = transaction.results.remove(&qid);
        let result = result
            .ok_or_else(|| Said::invalid(format!("There is no open result {qid} in this transaction.")))?;
        Ok((qid, result))
    }

    /// A result that is not at its end yet.
    pub(super) fn put_back(&mut self, qid: i64, result: OpenResult) {
        if let Some(transaction) = &mut self.transaction {
            transaction.results.insert(qid, result);
        }
    }

    /// The answer to a COMMIT or ROLLBACK of a transaction that has not reached Neo4j.
    fn end_unbegun(&mut self, kind: Kind) -> Value {
        let transaction = self.transaction.take().filter(|_| kind == Kind::Commit);
        let bookmark = transaction.and_then(|transaction| transaction.terms.asked?.encode());
        Value::Map(bookmark.map(|text| ("bookmark".to_owned(), Value::String(text))).into_iter().collect())
    }

    /// COMMIT or ROLLBACK. Where Neo4j has the transaction, its answer is Neo4j's. An answer that is lost ends the
    /// connection: the driver knows then that a commit may or may not have happened, and nobody tries it again.
    pub(super) async fn end_transaction(&mut self, kind: Kind) -> Result<Value, Trouble> {
        if !self.transaction_mut()?.has_begun {
            return Ok(self.end_unbegun(kind));
        }
        self.queue(&[0xB0, kind.signature().0])?;
        let success = self.answer().await?;
        if let Some(transaction) = self.transaction.take() {
            let Terms { database, asked, .. } = transaction.terms;
            self.note_bookmark(&success, database.as_deref(), asked.unwrap_or_default());
        }
        self.release();
        Ok(success)
    }

    fn transaction_mut(&mut self) -> Result<&mut Transaction, Trouble> {
        self.transaction.as_mut().ok_or_else(|| Said::invalid("There is no open transaction.").into())
    }
}

/// Sets a member of a map.
fn set(map: &mut Value, name: &str, value: Value) {
    let Value::Map(pairs) = map else { return };
    match pairs.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => pairs.push((name.to_owned(), value)),
    }
}
