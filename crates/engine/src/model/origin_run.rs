//! The request for one run at the origin.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::pattern::PatternId;
use hopcache_core::tags::{TagId, Touched};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_core::write_position::WritePosition;
use hopcache_cypher::checks::calls::{may_be_in_batches, may_call_procedure};
use hopcache_packstream::Value;

use crate::model::fetch_times::FetchTimes;
use crate::model::identity::Identity;
use crate::model::live::LiveRun;

/// Metadata of a transaction, by names.
pub type TransactionMetadata = Arc<[(String, Value)]>;

/// One statement for the origin.
#[derive(Debug, Clone)]
pub struct OriginRun {
    /// The asking identity.
    pub identity: Arc<Identity>,
    /// User to act as, if it is another one.
    pub impersonated: Option<String>,
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// Statement text as the client gave it.
    pub statement: Arc<str>,
    /// The pattern of the text, if it is known: runs of one pattern cost about the same.
    pub pattern: Option<PatternId>,
    /// Parameters: one PackStream map.
    pub params: Bytes,
    /// Access mode to ask for.
    pub mode: AccessMode,
    /// Whether a read may be sent again after it was sent, if nothing of its result came: what it calls does nothing outside of the graph.
    pub may_be_repeated: bool,
    /// What the server waits for before it runs the statement.
    pub bookmarks: RunBookmarks,
    /// Own deadline of this run from now; the server gets it as `tx_timeout` too.
    pub timeout_ms: Millis,
    /// Largest number of result bytes (records) that are read.
    pub bytes_max: usize,
    /// W3C `traceparent`, for the transaction's metadata.
    pub traceparent: Option<String>,
    /// More of it: what Neo4j's list of transactions shows beside the statement.
    pub metadata: Option<TransactionMetadata>,
    /// Its class in the competition for scarce places.
    pub class: RunClass,
    /// Takes the records while the run goes on, and the rest of a result over `bytes_max`.
    pub live: Option<Arc<LiveRun>>,
    /// Takes how long the run waited for a place.
    pub times: FetchTimes,
}

impl OriginRun {
    /// The metadata of its transaction.
    #[must_use]
    pub fn transaction_metadata(&self) -> Vec<(String, Value)> {
        traced(self.metadata.as_deref().unwrap_or_default().to_vec(), self.traceparent.as_deref())
    }
}

/// The metadata of a transaction. Its own `traceparent` stands for the client's: Neo4j refuses a map that has a name twice.
#[must_use]
pub fn traced(mut metadata: Vec<(String, Value)>, traceparent: Option<&str>) -> Vec<(String, Value)> {
    if let Some(parent) = traceparent {
        metadata.retain(|(name, _)| name != TRACEPARENT);
        metadata.push((TRACEPARENT.to_owned(), Value::from(parent)));
    }
    metadata
}

/// The name of W3C's trace context in a transaction's metadata.
const TRACEPARENT: &str = "traceparent";

/// Plain data: what a write is made of, as far as its end needs it.
#[derive(Debug, Clone)]
pub struct WriteOf {
    /// Database name as the client gave it, or the name of its home database.
    pub database: Arc<str>,
    /// The identity that writes. If the write's id is unknown, the origin is asked for it with these credentials.
    pub identity: Arc<Identity>,
    /// User to act as, if it is another one.
    pub impersonated: Option<String>,
    /// How long the write may run at the origin.
    pub timeout_ms: Millis,
    /// Whether a statement of it may name a graph by itself (`USE`). Then it may have written in any database.
    pub may_name_graph: bool,
    /// Whether parts of it may be committed before its end.
    pub parts: Parts,
    /// Whether a statement of it may change users or rights, which Neo4j does in `system` whatever database is named. Then it ends
    /// all entries.
    pub changes_rights: bool,
    /// When its first statement was sent.
    pub began: WriteBegan,
    /// What its statements may change.
    pub touched: Touched,
    /// The labels, types and keys that its statements may use; each that is new takes one transaction id more. `None` if nobody
    /// knows how many ids it takes.
    pub tokens: Option<Arc<[TagId]>>,
}

impl WriteOf {
    /// No write: with whose credentials the origin is asked about a database.
    #[must_use]
    pub fn question(
        database: Arc<str>,
        identity: Arc<Identity>,
        impersonated: Option<String>,
        timeout_ms: Millis,
    ) -> Self {
        Self {
            database,
            identity,
            impersonated,
            timeout_ms,
            may_name_graph: false,
            parts: Parts::None,
            changes_rights: false,
            began: WriteBegan::At(None),
            touched: Touched::nothing(),
            tokens: None,
        }
    }
}

/// When the first statement of a write was sent, as a mark of its database: all up to it was committed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteBegan {
    /// It is sent now.
    Now,
    /// When this was the mark; `None`: nobody knows.
    At(Option<WritePosition>),
}

impl WriteBegan {
    /// The mark. `now` is that of this moment.
    pub(crate) fn mark(self, now: Option<WritePosition>) -> Option<WritePosition> {
        match self {
            Self::Now => now,
            Self::At(began) => began,
        }
    }
}

/// Whether parts of a write may be committed before its end, and although it fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Parts {
    /// It is committed as a whole, or not at all.
    #[default]
    None,
    /// In batches (`CALL { … } IN TRANSACTIONS`), or by a statement of its transaction that nobody can be asked about any more.
    Batches,
    /// By a procedure that its statement calls. The server tells whether that statement writes.
    Called {
        /// The statement.
        statement: Arc<str>,
        /// Its parameters: one PackStream map.
        params: Bytes,
    },
}

impl Parts {
    /// The parts of a statement that is a write by itself.
    #[must_use]
    pub fn of(statement: &str, params: &[u8]) -> Self {
        if may_call_procedure(statement) {
            return Self::Called { statement: statement.into(), params: Bytes::copy_from_slice(params) };
        }
        if may_be_in_batches(statement) { Self::Batches } else { Self::None }
    }
}

/// The bookmarks of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunBookmarks {
    /// A client's, as the client wrote them.
    AsSent(Vec<String>),
    /// A client's, and the newest that the origin's adapter knows of the database: of a run whose result may be kept. Such a
    /// result answers all whose bookmarks its run carried.
    After {
        /// The client's.
        client: Bookmark,
        /// How far the database has been written. The run carries no less, unless the server does not reach it: then the
        /// adapter has asked the server, and the run carries what the server has. The range of the result shows that.
        written: Option<WritePosition>,
    },
}

impl Default for RunBookmarks {
    fn default() -> Self {
        Self::AsSent(Vec::new())
    }
}

/// Access mode of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessMode {
    /// The server refuses writes.
    Read,
    /// The server allows writes.
    Write,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ask::{Query, RunBounds};

    /// Neo4j refuses a map that has a name twice.
    #[test]
    fn a_run_has_one_trace() {
        let own: TransactionMetadata =
            vec![("app".to_owned(), "shop".into()), (TRACEPARENT.to_owned(), "theirs".into())].into();
        let of = |traceparent: Option<&str>, metadata: Option<&TransactionMetadata>| {
            let bounds = RunBounds { timeout_ms: Millis(1), bytes_max: 1 };
            let run = Query::of_text("RETURN 1").reading(bounds, traceparent.map(str::to_owned));
            OriginRun { metadata: metadata.cloned(), ..run }.transaction_metadata()
        };
        let app = || ("app".to_owned(), Value::from("shop"));
        let trace = |text: &str| (TRACEPARENT.to_owned(), Value::from(text));
        assert_eq!(of(None, None), []);
        assert_eq!(of(None, Some(&own)), [app(), trace("theirs")]);
        assert_eq!(of(Some("ours"), Some(&own)), [app(), trace("ours")]);
        assert_eq!(of(Some("ours"), None), [trace("ours")]);
    }
}
