//! Redis killed, stopped, restarted empty, read-only, full, evicting, with few rights (F15 to F22).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hopcache_core::breaker::BreakerState;
use hopcache_core::lease::{Commit, Grant, LeaseAsk, Token};
use hopcache_core::tags::Tag;
use hopcache_core::time::Millis;
use hopcache_engine::ports::{LeaseEnd, Scope, Store, StoreError};
use hopcache_store::problem::StoreProblem;
use hopcache_store::redis::{RedisSettings, RedisStore};
use parking_lot::Mutex;

use super::fixtures::{LogLines, MOVIES, ask, entry, key, leased, noise, until};
use super::server::RedisServer;

/// The promise is 300 ms; a shared machine may stop this process for a while in between.
const BOUND: Duration = Duration::from_millis(300);

async fn comes_back(store: &RedisStore) {
    until(Duration::from_secs(20), "the store is found again", || async { store.ping().await.ok() }).await;
}

#[tokio::test]
async fn a_killed_server_is_an_error_at_once_and_is_found_again_by_itself() {
    let mut server = RedisServer::start(&[]);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let seen = Arc::clone(&seen);
        Arc::new(move |state| seen.lock().push(state))
    };
    let settings = RedisSettings { on_breaker: Some(hook), ..RedisSettings::default() };
    let store = RedisStore::open(&server.uri(), settings).unwrap();
    comes_back(&store).await;
    let (token, _) = leased(store.get_or_lease(&key(1), &ask(1, 60_000)).await.unwrap());
    let cursor = store.invalidations_since(Default::default()).await.unwrap().next;
    seen.lock().clear();
    server.kill();
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let start = Instant::now();
        let outcome = store.get_or_lease(&key(1), &ask(2, 5_000)).await;
        longest = longest.max(start.elapsed());
        assert!(matches!(outcome, Err(StoreError::Unreachable(_) | StoreError::TimedOut)), "{outcome:?}");
    }
    println!("longest answer with Redis killed: {longest:?}");
    assert!(longest < BOUND, "{longest:?}");
    opens(&store).await;
    assert_eq!(seen.lock().first(), Some(&BreakerState::Open));
    server.restart();
    comes_back(&store).await;
    assert_eq!(store.breaker(), BreakerState::Closed);
    assert_eq!(seen.lock().last(), Some(&BreakerState::Closed));
    // F15: it restarted empty, so the lease is gone and its holder is fenced; the log was lost as well.
    let bytes = entry(&key(1), 60_000, "rows");
    assert_eq!(store.commit(&key(1), token, bytes, Millis(9_000)).await, Ok(Commit::Fenced));
    assert!(store.invalidations_since(cursor).await.unwrap().gap);
    let (next, _) = leased(store.get_or_lease(&key(1), &ask(3, 5_000)).await.unwrap());
    assert!(next.counter > token.counter, "counters do not begin again");
}

#[tokio::test]
async fn a_node_starts_without_redis() {
    let mut server = RedisServer::start(&[]);
    server.kill();
    let store = server.store();
    assert!(matches!(store.ping().await, Err(StoreError::Unreachable(_))));
    server.restart();
    comes_back(&store).await;
}

/// Lasting failures open the breaker. Meanwhile each call has its own bound.
async fn opens(store: &RedisStore) {
    until(Duration::from_secs(10), "the breaker opens", || async {
        let start = Instant::now();
        assert!(store.ping().await.is_err());
        assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
        (store.breaker() != BreakerState::Closed).then_some(())
    })
    .await;
}

/// F17, F22: deadlines hold while the server is stopped. Late replies never reach another call.
#[tokio::test]
async fn a_stopped_server_times_out_and_replies_are_never_mixed() {
    let server = RedisServer::start(&[]);
    let store = Arc::new(server.store());
    comes_back(&store).await;
    for index in 0..50 {
        let (token, _) = leased(granted_in_time(&store, index).await);
        let bytes = entry(&key(index), 60_000, index.to_le_bytes().to_vec());
        until(Duration::from_secs(10), "stored", || async {
            store.commit(&key(index), token, bytes.clone(), Millis(90_000)).await.ok()
        })
        .await;
    }
    for _ in 0..3 {
        server.signal("-STOP");
        let start = Instant::now();
        assert_eq!(store.get_or_lease(&key(1), &ask(2, 5_000)).await, Err(StoreError::TimedOut));
        println!("with Redis stopped: {:?}", start.elapsed());
        assert!(start.elapsed() < BOUND);
        let mut tasks = tokio::task::JoinSet::new();
        for index in 0..50 {
            let store = Arc::clone(&store);
            tasks.spawn(async move { store.peek(&key(index)).await.is_err() });
        }
        assert!(tasks.join_all().await.into_iter().all(|failed| failed));
        assert_eq!(store.breaker(), BreakerState::Closed, "calls that fail together are one failure");
        opens(&store).await;
        server.signal("-CONT");
        comes_back(&store).await;
        everybody_has_its_own(&store).await;
    }
}

/// Callers that leave at any point leave the connection intact (measured: neo4rs #295 was this).
#[tokio::test]
async fn dropped_calls_never_mix_replies() {
    let server = RedisServer::start(&[]);
    let settings = RedisSettings { command_ms: Millis(5_000), ..RedisSettings::default() };
    let store = Arc::new(RedisStore::open(&server.uri(), settings).unwrap());
    for index in 0..50 {
        let (token, _) = leased(store.get_or_lease(&key(index), &ask(1, 5_000)).await.unwrap());
        let bytes = entry(&key(index), 60_000, index.to_le_bytes().to_vec());
        store.commit(&key(index), token, bytes, Millis(90_000)).await.unwrap();
    }
    for round in 0..40_u64 {
        for index in 0..20 {
            let (key, ask) = (key(index), ask(2, 5_000));
            let call = store.get_or_lease(&key, &ask);
            let mut call = Box::pin(call);
            // Polled a few times, so that it is cut before, while and after it is sent.
            for _ in 0..(round + index) % 5 {
                if futures_util::poll!(&mut call).is_ready() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(call);
        }
        everybody_has_its_own(&store).await;
    }
    assert_eq!(store.breaker(), BreakerState::Closed);
}

async fn granted_in_time(store: &RedisStore, index: u64) -> Grant {
    until(Duration::from_secs(10), "a grant", || async {
        store.get_or_lease(&key(index), &ask(1, 60_000)).await.ok()
    })
    .await
}

async fn everybody_has_its_own(store: &Arc<RedisStore>) {
    for index in 0..50 {
        let view =
            until(Duration::from_secs(10), "a view", || async { store.peek(&key(index)).await.ok() }).await;
        assert_eq!(view.entry.unwrap().bytes, entry(&key(index), 60_000, index.to_le_bytes().to_vec()));
    }
}

#[tokio::test]
async fn a_flushed_server_fences_everybody() {
    let server = RedisServer::start(&[]);
    let store = server.store();
    comes_back(&store).await;
    let (token, _) = leased(granted_in_time(&store, 1).await);
    let cursor = store.invalidations_since(Default::default()).await.unwrap().next;
    assert_eq!(server.tell("FLUSHALL"), "+OK");
    let bytes = entry(&key(1), 60_000, "rows");
    assert_eq!(store.commit(&key(1), token, bytes, Millis(9_000)).await, Ok(Commit::Fenced));
    assert_eq!(store.renew(&key(1), token, Millis(9_000)).await, Ok(false));
    store.invalidate(&Scope::All).await.unwrap();
    assert!(
        store.invalidations_since(cursor).await.unwrap().gap,
        "a new log at the same number is another log"
    );
}

/// F20.
#[tokio::test]
async fn a_read_only_replica_refuses() {
    let (leader, server) = (RedisServer::start(&[]), RedisServer::start(&[]));
    let store = server.store();
    comes_back(&store).await;
    assert_eq!(server.tell(&format!("REPLICAOF 127.0.0.1 {}", leader.port)), "+OK");
    let refusal = until(Duration::from_secs(20), "the replica answers", || async {
        match store.get_or_lease(&key(1), &ask(1, 5_000)).await {
            Err(StoreError::Refused(text)) => Some(text),
            _ => None,
        }
    })
    .await;
    assert!(refusal.contains("read only replica"), "{refusal}");
    assert_eq!(server.tell("REPLICAOF NO ONE"), "+OK");
    until(Duration::from_secs(20), "promoted, it is used", || async {
        store.get_or_lease(&key(1), &ask(1, 5_000)).await.ok()
    })
    .await;
}

fn end_of(number: u64, token: Token, entry: Option<Bytes>) -> LeaseEnd {
    LeaseEnd { key: key(number), token, entry: entry.map(|entry| (entry, Millis(90_000))) }
}

/// A server that has forgotten the scripts gets their text, in the middle of a pipeline too.
#[tokio::test]
async fn leases_end_together_at_a_server_that_knows_no_script() {
    let server = RedisServer::start(&[]);
    let store = super::contract::patient(&server);
    comes_back(&store).await;
    let mut ends = Vec::new();
    for number in 0..6 {
        let (token, _) = leased(store.get_or_lease(&key(number), &ask(1, 60_000)).await.unwrap());
        let stored = (number % 2 == 0).then(|| entry(&key(number), 60_000, "rows"));
        ends.push(end_of(number, token, stored));
    }
    assert_eq!(server.tell("SCRIPT FLUSH"), "+OK");
    assert_eq!(store.end_leases(&ends).await, vec![Ok(true); ends.len()]);
    assert_eq!(store.end_leases(&ends).await, vec![Ok(false); ends.len()], "by digest, and over");
}

/// A server that is gone fails all of them at once, and the breaker opens. So does one that is not the master any more.
#[tokio::test]
async fn leases_that_end_together_have_one_fate_when_their_server_is_lost() {
    let mut server = RedisServer::start(&[]);
    let store = server.store();
    comes_back(&store).await;
    let (first, _) = leased(granted_in_time(&store, 1).await);
    let (second, _) = leased(granted_in_time(&store, 2).await);
    let ends = [end_of(1, first, Some(entry(&key(1), 60_000, "rows"))), end_of(2, second, None)];
    assert_eq!(server.tell("REPLICAOF 127.0.0.1 1"), "+OK");
    let answers = store.end_leases(&ends).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Refused(_)))), "{answers:?}");
    server.kill();
    for _ in 0..20 {
        let answers = store.end_leases(&ends).await;
        let is_lost = |answer: &Result<bool, StoreError>| {
            matches!(answer, Err(StoreError::Unreachable(_) | StoreError::TimedOut))
        };
        assert!(answers.len() == 2 && answers.iter().all(is_lost), "{answers:?}");
    }
    opens(&store).await;
}

/// F18: hits are served, nothing is stored, and the error is a refusal, not an absence.
#[tokio::test]
async fn a_full_server_refuses_to_store_and_serves_on() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let store = server.store();
    comes_back(&store).await;
    let (token, _) = leased(granted_in_time(&store, 1).await);
    let bytes = entry(&key(1), 60_000, "rows");
    assert_eq!(store.commit(&key(1), token, bytes.clone(), Millis(90_000)).await, Ok(Commit::Stored));
    let (running, _) = leased(granted_in_time(&store, 2).await);
    let (given_back, _) = leased(granted_in_time(&store, 4).await);
    assert_eq!(server.tell("CONFIG SET maxmemory 1"), "+OK");
    for _ in 0..10 {
        let refused = store.get_or_lease(&key(3), &ask(1, 5_000)).await;
        assert!(matches!(&refused, Err(StoreError::Refused(text)) if text.contains("OOM")), "{refused:?}");
        let refused = store.commit(&key(2), running, bytes.clone(), Millis(9_000)).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
        assert!(matches!(store.get_or_lease(&key(1), &ask(1, 5_000)).await, Ok(Grant::Value(_))));
    }
    assert_eq!(store.breaker(), BreakerState::Closed);
    // Of leases that end together, the one with an entry is refused, and keeps its lease. The other one ends.
    let ends = [end_of(4, given_back, None), end_of(2, running, Some(bytes.clone()))];
    let answers = store.end_leases(&ends).await;
    assert_eq!(answers[0], Ok(true));
    assert!(matches!(&answers[1], Err(StoreError::Refused(text)) if text.contains("OOM")), "{answers:?}");
    assert_eq!(store.release(&key(2), running).await, Ok(true), "its holder can still give the lease back");
    assert_eq!(
        store.invalidate(&Scope::Key(key(1))).await.err().map(|error| error.to_string().contains("OOM")),
        Some(true),
        "the log could not be written, so the caller gets an error"
    );
    assert_eq!(store.peek(&key(1)).await.unwrap().entry, None, "and the entry is gone in any case");
}

/// F39: a foreign value under the log's key is deleted, and the new log begins with a gap for every reader of the old
/// one. It does not matter whether a reader meets it first or a purge.
#[tokio::test]
async fn a_foreign_value_under_the_log_is_deleted() {
    let server = RedisServer::start(&[]);
    let store = server.store();
    comes_back(&store).await;
    let cursor = store.invalidations_since(Default::default()).await.unwrap().next;
    assert_eq!(server.tell("SET hopcache:v5:log x"), "+OK");
    let page = store.invalidations_since(cursor).await.unwrap();
    assert!(page.gap, "what stood in the old log is lost");
    let quiet = store.invalidations_since(page.next).await.unwrap();
    assert_eq!((quiet.gap, quiet.next), (false, page.next), "once");
    assert_eq!(server.tell("TYPE hopcache:v5:log"), "+stream");

    assert_eq!(server.tell("SET hopcache:v5:log x"), "+OK");
    assert_eq!(store.invalidate(&Scope::Tag(Tag::Database(MOVIES))).await, Ok(0), "a purge is carried out");
    assert_eq!(server.tell("TYPE hopcache:v5:log"), "+stream");
    let page = store.invalidations_since(quiet.next).await.unwrap();
    assert!(page.gap, "its readers drop what they hold");
    assert!(!store.invalidations_since(page.next).await.unwrap().gap);
}

/// A full server answers reads. A ping writes, so it finds out.
#[tokio::test]
async fn a_ping_says_whether_writes_are_taken_and_leaves_nothing() {
    let server = RedisServer::start(&["--maxmemory-policy", "noeviction"]);
    let store = server.store();
    comes_back(&store).await;
    assert_eq!(server.tell("DBSIZE"), ":0");
    assert_eq!(server.tell("CONFIG SET maxmemory 1"), "+OK");
    assert!(matches!(store.ping().await, Err(StoreError::Refused(text)) if text.contains("OOM")));
    assert_eq!(server.tell("CONFIG SET maxmemory 0"), "+OK");
    assert_eq!(store.ping().await, Ok(()));
}

/// A refused log-on opens the breaker, and the error names the log-on while the breaker is open.
#[tokio::test]
async fn a_refused_log_on_opens_the_breaker() {
    let server = RedisServer::start(&[]);
    assert_eq!(server.tell("ACL SETUSER default >secret"), "+OK");
    for uri in [server.uri(), format!("redis://:wrong@127.0.0.1:{}", server.port)] {
        let store = RedisStore::open(&uri, RedisSettings::default()).unwrap();
        until(Duration::from_secs(10), "the breaker opens", || async {
            assert!(store.peek(&key(1)).await.is_err());
            (store.breaker() == BreakerState::Open).then_some(())
        })
        .await;
        let refused = store.peek(&key(1)).await;
        assert!(matches!(&refused, Err(StoreError::Refused(_))), "{refused:?}");
        assert_eq!(StoreProblem::of(&refused.unwrap_err()), StoreProblem::LogOn);
    }
}

/// F19.
#[tokio::test]
async fn an_evicting_server_is_warned_about() {
    for (policy, is_warned_about) in [("allkeys-lru", true), ("noeviction", false)] {
        let server = RedisServer::start(&["--maxmemory-policy", policy]);
        let store = server.store();
        let log = LogLines::collect();
        comes_back(&store).await;
        assert_eq!(log.contain("Redis may evict leases"), is_warned_about, "{policy}");
    }
}

/// The rights in the module's documentation are enough, and a lack of rights is reported as such.
#[tokio::test]
async fn the_documented_rights_are_enough() {
    let server = RedisServer::start(&[]);
    let documented = include_str!("../../../store/src/redis/mod.rs");
    let start = documented.find("~hopcache:v5:*").unwrap();
    let rights: String = documented[start..].chars().take_while(|c| *c != '`').collect();
    let rights = rights.replace("\n//!", "");
    assert_eq!(server.tell(&format!("ACL SETUSER hop on >secret {rights}")), "+OK");
    assert_eq!(server.tell("ACL SETUSER weak on >secret ~hopcache:v5:* -@all +ping"), "+OK");
    let open = |user: &str| {
        let uri = format!("redis://{user}:secret@127.0.0.1:{}", server.port);
        let settings = RedisSettings { command_ms: Millis(5_000), ..RedisSettings::default() };
        RedisStore::open(&uri, settings).unwrap()
    };
    let store = open("hop");
    store.ping().await.unwrap();
    let (token, _) = leased(store.get_or_lease(&key(1), &ask(1, 5_000)).await.unwrap());
    assert_eq!(store.renew(&key(1), token, Millis(9_000)).await, Ok(true));
    let bytes = entry(&key(1), 60_000, noise(100_000, 1));
    assert_eq!(store.commit(&key(1), token, bytes, Millis(9_000)).await, Ok(Commit::Stored));
    assert_eq!(store.invalidate(&Scope::Tag(Tag::Database(MOVIES))).await, Ok(1));
    let cursor = store.invalidations_since(Default::default()).await.unwrap().next;
    assert!(!store.invalidations_since(cursor).await.unwrap().gap);
    assert!(matches!(open("weak").peek(&key(1)).await, Err(StoreError::Refused(_))));
    assert!(matches!(open("nobody").ping().await, Err(StoreError::Refused(_))));
}

/// One server that has all slots of a cluster: routing by key, SCAN on the masters.
#[tokio::test]
async fn a_cluster_is_used_through_its_own_address_form() {
    let bus = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let server = RedisServer::start(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    assert_eq!(server.tell("CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
    let settings = RedisSettings { command_ms: Millis(5_000), ..RedisSettings::default() };
    let store = RedisStore::open(&format!("redis+cluster://127.0.0.1:{}", server.port), settings).unwrap();
    comes_back(&store).await;
    until(Duration::from_secs(20), "the cluster is up", || async {
        store.get_or_lease(&key(0), &ask(1, 60_000)).await.ok()
    })
    .await;
    let mut ends = Vec::new();
    for index in 100..140 {
        let (token, _) = leased(store.get_or_lease(&key(index), &ask(1, 60_000)).await.unwrap());
        ends.push(end_of(index, token, (index % 2 == 0).then(|| entry(&key(index), 60_000, "rows"))));
    }
    assert_eq!(store.end_leases(&ends).await, vec![Ok(true); ends.len()], "each at its own slot");
    assert_eq!(store.invalidate(&Scope::Tag(Tag::Database(MOVIES))).await, Ok(20));
    for index in 1..40 {
        let (token, _) = leased(store.get_or_lease(&key(index), &ask(1, 60_000)).await.unwrap());
        let bytes = entry(&key(index), 60_000, "rows");
        assert_eq!(store.commit(&key(index), token, bytes, Millis(90_000)).await, Ok(Commit::Stored));
    }
    assert_eq!(store.invalidate(&Scope::Tag(Tag::Database(MOVIES))).await, Ok(39));
    let late = LeaseAsk { lease_ms: Millis(1_000), ..ask(2, 1_000) };
    assert!(matches!(store.get_or_lease(&key(0), &late).await, Ok(Grant::Lease { .. })), "leases ended too");
}

/// The Sentinel is asked for the leader at each connect, so after a fail-over the new one is found (F20).
#[tokio::test]
async fn a_sentinel_is_asked_who_leads() {
    let mut leader = RedisServer::start(&[]);
    let sentinel = RedisServer::sentinel_of(&leader);
    let settings = RedisSettings { command_ms: Millis(5_000), ..RedisSettings::default() };
    let uri = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port);
    let store = RedisStore::open(&uri, settings).unwrap();
    comes_back(&store).await;
    leased(store.get_or_lease(&key(1), &ask(1, 5_000)).await.unwrap());
    let other = RedisServer::start(&[]);
    leader.kill();
    assert_eq!(sentinel.tell("SENTINEL REMOVE main"), "+OK");
    assert_eq!(sentinel.tell(&format!("SENTINEL MONITOR main 127.0.0.1 {} 1", other.port)), "+OK");
    comes_back(&store).await;
    leased(store.get_or_lease(&key(1), &ask(1, 5_000)).await.unwrap());
    assert!(other.tell("DBSIZE").starts_with(":1"), "the lease is at the new leader");
}
