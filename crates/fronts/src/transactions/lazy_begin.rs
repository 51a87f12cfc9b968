//! BEGIN of a transaction that reaches Neo4j only when it has to: with the first statement that the cache cannot answer.
//! Until then the cache may answer its reads. This file keeps what BEGIN has to say then.

use std::time::Duration;

use bytes::Bytes;
use hopcache_bolt::request_bytes;
use hopcache_bolt::server::Kind;
use hopcache_core::bookmark::Bookmark;
use hopcache_engine::TransactionReads;
use hopcache_engine::ports::{Neo4jFailure, OriginFault};
use hopcache_packstream::{Reader, Value, encode};
use tokio::time::Instant;

/// BEGIN, as long as it has not been sent.
pub(crate) struct LazyBegin {
    /// Its options for Neo4j, encoded: a decoded map takes many times its bytes, and a transaction may be open for long.
    extra: Bytes,
    /// Whether its statements may commit for themselves.
    is_implicit: bool,
    deadline: Option<Instant>,
    /// What the transaction has read from the cache.
    pub(crate) reads: TransactionReads,
}

impl LazyBegin {
    /// A transaction that may take `timeout_ms` from now.
    pub(crate) fn new(extra: &Value, timeout_ms: Option<u64>, reads: TransactionReads) -> Self {
        let deadline = timeout_ms.and_then(|ms| Instant::now().checked_add(Duration::from_millis(ms)));
        let is_implicit = extra.get("tx_type").is_some_and(|kind| kind.as_str() != Some("DEFAULT"));
        Self { extra: encode(extra).into(), is_implicit, deadline, reads }
    }

    /// Whether its statements may commit for themselves, as `CALL { … } IN TRANSACTIONS` does. Neo4j calls this kind
    /// implicit.
    pub(crate) fn is_implicit(&self) -> bool {
        self.is_implicit
    }

    /// The time that is left, if the transaction has a time limit.
    pub(crate) fn left_ms(&self) -> Option<u64> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        Some(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    /// Whether the time of the transaction is not over yet.
    ///
    /// # Errors
    /// Neo4j's own failure when it is.
    pub(crate) fn check_time(&self) -> Result<(), OriginFault> {
        let is_over = self.left_ms() == Some(0);
        if is_over { Err(OriginFault::Failed(Neo4jFailure::clients_time_is_over())) } else { Ok(()) }
    }

    /// The message is sent, and is not sent again.
    pub(crate) fn forget_options(&mut self) {
        self.extra = Bytes::new();
    }

    /// The message for Neo4j, to be sent now.
    pub(crate) fn message(&self) -> Vec<u8> {
        // It was encoded here, so it can be read.
        let mut extra = Reader::new(&self.extra).value().unwrap_or_else(|_| Value::Map(Vec::new()));
        if let Some(left_ms) = self.left_ms() {
            let left_ms = i64::try_from(left_ms).unwrap_or(i64::MAX).max(1);
            set(&mut extra, "tx_timeout", Value::Int(left_ms));
        }
        // Neo4j must not show what is older than what the cache has shown.
        if self.reads.has_read()
            && let Some(text) = self.reads.asked().and_then(Bookmark::encode)
        {
            set(&mut extra, "bookmarks", Value::List(vec![Value::String(text)]));
        }
        request_bytes::with_map(Kind::Begin, &extra)
    }
}

/// Sets a member of a map.
pub(crate) fn set(map: &mut Value, name: &str, value: Value) {
    let Value::Map(pairs) = map else { return };
    match pairs.iter_mut().find(|(known, _)| known == name) {
        Some((_, old)) => *old = value,
        None => pairs.push((name.to_owned(), value)),
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
    use hopcache_engine::ports::AccessMode;

    use super::*;

    fn reads(asked: Option<Bookmark>) -> TransactionReads {
        TransactionReads::new(AccessMode::Write, asked)
    }

    fn at(id: u64) -> Position {
        Position { database: DatabaseUuid([7; 16]), id: TransactionId(id) }
    }

    fn sent(begin: &LazyBegin) -> Value {
        Reader::new(&begin.message()[2..]).value().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn begin_carries_what_is_left_of_the_time() {
        let begin = LazyBegin::new(
            &Value::Map(vec![("tx_timeout".to_owned(), Value::Int(5_000))]),
            Some(5_000),
            reads(None),
        );
        assert_eq!(sent(&begin).get("tx_timeout"), Some(&Value::Int(5_000)));
        assert_eq!(begin.check_time(), Ok(()));
        tokio::time::advance(Duration::from_millis(1_200)).await;
        assert_eq!(
            (begin.left_ms(), sent(&begin).get("tx_timeout")),
            (Some(3_800), Some(&Value::Int(3_800)))
        );
        tokio::time::advance(Duration::from_secs(9)).await;
        assert_eq!(begin.left_ms(), Some(0));
        assert_eq!(begin.check_time(), Err(OriginFault::Failed(Neo4jFailure::clients_time_is_over())));
        assert_eq!(sent(&begin).get("tx_timeout"), Some(&Value::Int(1)), "zero would be no limit");
        assert_eq!(LazyBegin::new(&Value::Map(Vec::new()), None, reads(None)).left_ms(), None);
    }

    #[test]
    fn only_a_transaction_of_another_kind_commits_by_itself() {
        let of_kind = |kind: &str| Value::Map(vec![("tx_type".to_owned(), Value::from(kind))]);
        let is_implicit = |extra| LazyBegin::new(&extra, None, reads(None)).is_implicit();
        assert!(is_implicit(of_kind("IMPLICIT")) && is_implicit(of_kind("of a later server")));
        assert!(!is_implicit(of_kind("DEFAULT")) && !is_implicit(Value::Map(Vec::new())));
    }

    /// Neo4j must not show less than the cache has shown.
    #[test]
    fn begin_carries_what_the_cache_has_shown() {
        let client = Bookmark::NONE.with(Some(at(3)));
        let text = |bookmark: &Bookmark| Value::List(vec![Value::String(bookmark.encode().unwrap())]);
        let extra = Value::Map(vec![("bookmarks".to_owned(), text(&client))]);
        let mut begin = LazyBegin::new(&extra, None, reads(Some(client.clone())));
        assert_eq!(sent(&begin).get("bookmarks"), Some(&text(&client)));
        begin.reads.saw(Some(at(9)));
        begin.reads.saw(Some(at(5)));
        let newest = Bookmark::NONE.with(Some(at(9)));
        assert_eq!(
            (begin.reads.asked(), sent(&begin).get("bookmarks")),
            (Some(&newest), Some(&text(&newest)))
        );
    }
}
