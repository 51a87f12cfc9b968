//! One transaction that a node holds open. It reaches Neo4j with the first statement that the cache cannot answer. From
//! then on everything in it runs on its one relay, which no other transaction uses.
//!
//! After an error the transaction is over: the caller drops it, or rolls it back. COMMIT is sent once, and its lost
//! answer is never asked for again (I6).

use std::sync::Arc;
use std::time::Duration;

use hopcache_bolt::server::Kind;
use hopcache_bolt::{Finished, RunError, RunFault, request_bytes};
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_core::result::StatementKind;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{AccessMode, OriginError, OriginFault};
use hopcache_packstream::Value;
use tokio::time::timeout;

use super::lazy_begin::LazyBegin;
use crate::origin::fault;
use crate::origin::relays::{LentRelay, Relays};

/// Plain data: what holds for every statement of a transaction.
#[derive(Clone)]
pub(crate) struct Terms {
    /// The client that began it.
    pub(crate) login: Arc<Identity>,
    /// The identity that its statements run as.
    pub(crate) acting: Arc<Identity>,
    /// Another user to act as.
    pub(crate) impersonated: Option<String>,
    pub(crate) database: Arc<str>,
    pub(crate) mode: AccessMode,
    /// W3C trace context of the request that began it.
    pub(crate) traceparent: Option<String>,
}

/// An open transaction.
pub(crate) struct HeldTransaction {
    terms: Terms,
    begin: LazyBegin,
    /// `None` for the sample graph, which has no transactions.
    relays: Option<Arc<Relays>>,
    /// Present from BEGIN on.
    relay: Option<LentRelay>,
    has_written: bool,
}

impl HeldTransaction {
    /// A transaction that Neo4j does not know of yet.
    pub(crate) fn new(terms: Terms, begin: LazyBegin, relays: Option<Arc<Relays>>) -> Self {
        Self { terms, begin, relays, relay: None, has_written: false }
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Whether there is a Neo4j that has transactions.
    pub(crate) fn has_neo4j(&self) -> bool {
        self.relays.is_some()
    }

    /// Whether Neo4j may hold a change of this transaction, which COMMIT would show.
    pub(crate) fn has_written(&self) -> bool {
        self.has_written
    }

    /// What is known of a transaction that has not begun at Neo4j.
    pub(crate) fn lazy(&mut self) -> Option<&mut LazyBegin> {
        self.relay.is_none().then_some(&mut self.begin)
    }

    /// Begins at Neo4j without a statement.
    pub(crate) async fn begin_now(&mut self, within: Duration) -> Result<(), OriginError> {
        let relay = self.queue_begin().await?;
        in_time(within, async { relay.answer().await.map(drop).map_err(RunError::from) }).await
    }

    /// Runs a statement to its end. The first one takes BEGIN along.
    pub(crate) async fn run(
        &mut self,
        statement: &str,
        params: &[u8],
        within: Duration,
    ) -> Result<Finished, OriginError> {
        let begins = self.relay.is_none();
        let Some(relays) = self.relays.clone() else { return Err(no_relays()) };
        let relay = match &mut self.relay {
            Some(relay) => relay,
            None => self.queue_begin().await?,
        };
        relay.queue(&request_bytes::run(statement, params, &Value::Map(Vec::new())));
        relay.queue(&request_bytes::pull_all());
        let place = relays.results().place();
        let exchange = in_time(within, async {
            if begins {
                relay.answer().await?;
            }
            relay.result(PASS_THROUGH_BYTES_MAX, &place).await
        });
        match exchange.await {
            Ok(finished) => {
                let kind = finished.statement_type.as_deref().and_then(StatementKind::from_bolt);
                self.has_written |= kind != Some(StatementKind::Read);
                Ok(Finished { records: place.keep(finished.records), ..finished })
            }
            Err(mut error) => {
                error.records = place.keep(error.records);
                Err(error)
            }
        }
    }

    /// Commits, and returns the bookmark. A transaction that Neo4j does not know of has only read: its bookmark covers
    /// what the client asked for, and what the cache has shown.
    pub(crate) async fn commit(mut self, within: Duration) -> Result<Option<String>, OriginError> {
        let Some(relay) = &mut self.relay else {
            self.begin.check_time()?;
            return Ok(self.begin.asked().and_then(Bookmark::encode));
        };
        relay.queue(&request_bytes::bare(Kind::Commit));
        let success = in_time(within, async { relay.answer().await.map_err(RunError::from) }).await?;
        relay.set_clean();
        let bookmark = success.get("bookmark").and_then(Value::as_str).map(str::to_owned);
        if let Some(bookmark) = &bookmark {
            let asked = self.begin.asked().cloned().unwrap_or_default();
            if let Some(relays) = &self.relays {
                relays.saw_bookmark(&self.terms.database, asked, bookmark);
            }
        }
        Ok(bookmark)
    }

    /// Rolls back. When this returns Neo4j has rolled back, or the connection is closed, which makes it roll back.
    pub(crate) async fn roll_back(self: Box<Self>) {
        if let Some(relay) = self.relay {
            relay.reset().await;
        }
    }

    /// Borrows a relay, and queues BEGIN.
    async fn queue_begin(&mut self) -> Result<&mut LentRelay, OriginError> {
        let Some(relays) = &self.relays else { return Err(no_relays()) };
        let version = relays.gathering_version().await;
        let mut relay = relays.lend(&self.terms.login, version).await?;
        relay.queue(&self.begin.message());
        Ok(self.relay.insert(relay))
    }
}

fn no_relays() -> OriginError {
    OriginFault::Unreachable("the sample graph has no transactions".to_owned()).into()
}

/// Waits for Neo4j at most that long.
async fn in_time<T>(
    within: Duration,
    exchange: impl Future<Output = Result<T, RunError>>,
) -> Result<T, OriginError> {
    let ended = timeout(within, exchange).await.unwrap_or_else(|_| Err(RunFault::TimedOut.into()));
    ended.map_err(fault::of_transaction)
}
