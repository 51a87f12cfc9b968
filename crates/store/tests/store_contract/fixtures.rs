//! Names, entries and clocks that the tests of the stores share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::entry::{ChecksumKey, Entry};
use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::lease::{Grant, GrantKind, LeaseAsk, Token};
use hopcache_core::node::{Holder, Incarnation, NodeName};
use hopcache_core::tags::Tags;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::Clock;
use parking_lot::Mutex;

pub(crate) const SECRET: ChecksumKey = ChecksumKey([1; 32]);
pub(crate) const MOVIES: DatabaseTag = DatabaseTag(0xaaaa_0000_0000_0001);
pub(crate) const PEOPLE: DatabaseTag = DatabaseTag(0xbbbb_0000_0000_0002);

/// The log lines of this thread, which is all of a `#[tokio::test]`, from [`LogLines::collect`] on.
pub(crate) struct LogLines {
    text: Sink,
    _guard: tracing::subscriber::DefaultGuard,
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    pub(crate) fn collect() -> Self {
        let text = Sink::default();
        let writer = text.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    pub(crate) fn contain(&self, part: &str) -> bool {
        String::from_utf8_lossy(&self.text.0.lock()).contains(part)
    }
}

/// A clock that stands still until it is moved.
#[derive(Default)]
pub(crate) struct StillClock(AtomicU64);

impl StillClock {
    pub(crate) fn advance(&self, ms: u64) {
        self.0.fetch_add(ms * 1_000, Ordering::Relaxed);
    }
}

impl Clock for StillClock {
    fn now(&self) -> MonoTime {
        MonoTime(self.0.load(Ordering::Relaxed))
    }
    // tidy: the port's method, which waits for nothing here
    fn sleep(&self, _span: Millis) -> BoxFuture<'static, ()> {
        std::future::ready(()).boxed()
    }
}

pub(crate) fn key(index: u64) -> QueryKey {
    QueryKey(*blake3::hash(&index.to_le_bytes()).as_bytes())
}

pub(crate) fn holder(name: &str) -> Holder {
    Holder { node: NodeName::new(name).unwrap(), incarnation: Incarnation(0xabc) }
}

pub(crate) fn ask(nonce: u128, lease_ms: u64) -> LeaseAsk {
    LeaseAsk {
        nonce,
        holder: holder("node-a"),
        tags: Tags::of_database(MOVIES),
        lease_ms: Millis(lease_ms),
        age_max_ms: None,
        proved_max_ms: Millis::ZERO,
    }
}

/// An entry that lives `soft_ms` fresh, half as long stale and as long again dead.
pub(crate) fn entry(key: &QueryKey, soft_ms: u64, body: impl Into<Bytes>) -> Bytes {
    entry_of(MOVIES, key, soft_ms, body)
}

pub(crate) fn entry_of(database: DatabaseTag, key: &QueryKey, soft_ms: u64, body: impl Into<Bytes>) -> Bytes {
    let entry = Entry {
        total: Millis(soft_ms * 2),
        physical: Millis(soft_ms + soft_ms / 2),
        soft: Millis(soft_ms),
        cost: Millis(5),
        token: Token { counter: 1, nonce: 1 },
        tags: Tags::of_database(database),
        stored_by: NodeName::new("node-a").unwrap(),
        database: DatabaseUuid([7; 16]),
        range: None,
        body: body.into(),
    };
    entry.encode(&SECRET, key).unwrap()
}

/// Bytes that LZ4 cannot shorten.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    out
}

/// The token of a grant that must be a lease.
pub(crate) fn leased(grant: Grant) -> (Token, GrantKind) {
    match grant {
        Grant::Lease { token, kind, .. } => (token, kind),
        other => panic!("a lease was due, not {other:?}"),
    }
}

/// Waits for something that happens by itself; fails when it did not within `limit`.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    limit: Duration,
    what: &str,
    probe: impl Fn() -> F,
) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(start.elapsed() < limit, "{what}: not within {limit:?}");
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn still_clock() -> Arc<StillClock> {
    Arc::default()
}
