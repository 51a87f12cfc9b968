//! Connections that a server closed: by its restart, or because they were idle (F46).

use std::time::{Duration, Instant};

use hopcache_core::lease::Commit;
use hopcache_core::tags::Tag;
use hopcache_core::time::Millis;
use hopcache_engine::ports::{LogCursor, Scope, Store};
use hopcache_store::redis::{RedisSettings, RedisStore};

use super::fixtures::{MOVIES, ask, entry, key, leased, noise, until};
use super::server::RedisServer;

fn patient(server: &RedisServer, idle_ms: u64) -> RedisStore {
    let settings = RedisSettings {
        command_ms: Millis(5_000),
        body_ms: Millis(5_000),
        idle_ms: Millis(idle_ms),
        ..RedisSettings::default()
    };
    RedisStore::open(&server.uri(), settings).unwrap()
}

/// The first use of either connection after a restart: calls that may be repeated are carried out.
#[tokio::test]
async fn what_may_be_repeated_is_repeated_once_after_a_restart() {
    let mut server = RedisServer::start(&[]);
    let store = patient(&server, 5_000);
    for scope in [Scope::Key(key(1)), Scope::Tag(Tag::Database(MOVIES)), Scope::All] {
        assert_eq!(store.invalidate(&scope).await, Ok(0), "both connections are open");
        server.kill();
        server.restart();
        assert_eq!(store.invalidate(&scope).await, Ok(0), "{scope:?} on connections that are closed");
    }
    server.kill();
    server.restart();
    assert!(store.peek(&key(1)).await.is_ok());
    server.kill();
    server.restart();
    assert!(store.invalidations_since(LogCursor::default()).await.is_ok());
    server.kill();
    server.restart();
    assert_eq!(store.ping().await, Ok(()));
}

/// A server that is gone is an error at once. An invalidation alone is tried until its deadline: the server may just
/// restart.
#[tokio::test]
async fn a_server_that_is_gone_is_an_error_at_once() {
    let mut server = RedisServer::start(&[]);
    let (store, soon) = (patient(&server, 30_000), patient(&server, 500));
    assert!(store.peek(&key(1)).await.is_ok());
    soon.invalidate(&Scope::All).await.unwrap();
    server.kill();
    let start = Instant::now();
    assert!(store.peek(&key(1)).await.is_err());
    assert!(soon.invalidate(&Scope::All).await.is_err());
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
}

/// Redis closes connections that are idle for a second. A PING keeps the connection of bodies, on which nothing else
/// is sent.
#[tokio::test]
async fn the_connection_of_bodies_is_kept_alive() {
    let server = RedisServer::start(&["--timeout", "1"]);
    let store = patient(&server, 100);
    let (token, _) = leased(store.get_or_lease(&key(1), &ask(1, 60_000)).await.unwrap());
    let bytes = entry(&key(1), 60_000, noise(100_000, 1));
    assert_eq!(store.commit(&key(1), token, bytes, Millis(90_000)).await, Ok(Commit::Stored));
    let start = Instant::now();
    until(Duration::from_secs(20), "Redis has had the time to close what is idle", || async {
        store.invalidations_since(LogCursor::default()).await.unwrap();
        (start.elapsed() > Duration::from_millis(2_500)).then_some(())
    })
    .await;
    let clients = server.tell_lines("INFO clients", 3).remove(2);
    assert_eq!(clients, "connected_clients:3", "both connections, and this question's own");
}
