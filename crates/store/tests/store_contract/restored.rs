//! A Redis whose content goes back: a snapshot, an append-only file that lost its end, a replica that lagged, a shard
//! of a cluster, an old log (F16, F43, F44). Its earlier content counts as gone.

use std::time::Duration;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::{Commit, Grant, SlotView, Token};
use hopcache_core::tags::Tag;
use hopcache_core::time::Millis;
use hopcache_engine::ports::{LogCursor, Scope, Store};
use hopcache_store::redis::{RedisSettings, RedisStore};

use super::fixtures::{LogLines, MOVIES, ask, entry, key, leased, until};
use super::no_info;
use super::server::RedisServer;

fn patient(uri: &str) -> RedisStore {
    let settings =
        RedisSettings { command_ms: Millis(5_000), body_ms: Millis(5_000), ..RedisSettings::default() };
    RedisStore::open(uri, settings).unwrap()
}

async fn stored(store: &RedisStore, key: &QueryKey) {
    let (token, _) = leased(store.get_or_lease(key, &ask(1, 60_000)).await.unwrap());
    let bytes = entry(key, 60_000, "of before the purge");
    assert_eq!(store.commit(key, token, bytes, Millis(90_000)).await, Ok(Commit::Stored));
}

/// An entry, and a lease whose holder has read.
async fn entry_and_lease(store: &RedisStore) -> Token {
    stored(store, &key(1)).await;
    leased(store.get_or_lease(&key(2), &ask(2, 60_000)).await.unwrap()).0
}

/// I3, I4: no entry and no lease from before a restore is left, and the log is another one.
async fn counts_as_empty(store: &RedisStore, old: Token, cursor: LogCursor) {
    until(Duration::from_secs(20), "the store is found again", || async { store.ping().await.ok() }).await;
    assert_eq!(store.peek(&key(1)).await, Ok(SlotView::default()), "a purged entry came back (I4)");
    assert_eq!(store.peek(&key(2)).await, Ok(SlotView::default()), "a replaced lease came back (I3)");
    assert_eq!(store.renew(&key(2), old, Millis(60_000)).await, Ok(false));
    assert_eq!(store.release(&key(2), old).await, Ok(false));
    let late = entry(&key(2), 60_000, "read before the purge");
    assert_eq!(store.commit(&key(2), old, late, Millis(90_000)).await, Ok(Commit::Fenced), "I3");
    let page = store.invalidations_since(cursor).await.unwrap();
    assert!(page.gap, "readers of the log must drop what they hold");
    assert!(!store.invalidations_since(page.next).await.unwrap().gap, "once");
    let grant = store.get_or_lease(&key(1), &ask(3, 60_000)).await.unwrap();
    let Grant::Lease { token, stale: None, .. } = grant else { panic!("a purged value: {grant:?}") };
    let bytes = entry(&key(1), 60_000, "of after the purge");
    assert_eq!(store.commit(&key(1), token, bytes.clone(), Millis(90_000)).await, Ok(Commit::Stored));
    let Ok(Grant::Value(found)) = store.get_or_lease(&key(1), &ask(4, 60_000)).await else { panic!("new") };
    assert_eq!(found.bytes, bytes, "what is written now is kept");
}

/// F43: SAVE, purge, SIGKILL, restart.
#[tokio::test]
async fn a_restored_snapshot_counts_as_empty() {
    let mut server = RedisServer::start(&[]);
    let store = patient(&server.uri());
    let old = entry_and_lease(&store).await;
    let cursor = store.invalidations_since(LogCursor::default()).await.unwrap().next;
    assert_eq!(server.tell("SAVE"), "+OK");
    store.invalidate(&Scope::Tag(Tag::Database(MOVIES))).await.unwrap();
    server.kill();
    server.restart();
    assert_eq!(server.tell("DBSIZE"), ":3", "the snapshot is back: entry, lease and log");
    counts_as_empty(&store, old, cursor).await;
}

/// F43 at a server that refuses INFO inside scripts: the node asks outside, and says what it loses by that.
#[tokio::test]
async fn where_scripts_may_not_ask_the_node_asks_for_the_life() {
    let mut server = RedisServer::start(&[]);
    let relayed = no_info::relay(server.port).await;
    let store = patient(&format!("redis://127.0.0.1:{relayed}"));
    let log = LogLines::collect();
    store.ping().await.unwrap();
    assert!(log.contain("Redis refuses INFO inside scripts"));
    let direct = patient(&server.uri());
    let old = entry_and_lease(&store).await;
    assert_ne!(
        direct.peek(&key(1)).await,
        Ok(SlotView::default()),
        "it is the life that scripts name where they may"
    );
    let cursor = store.invalidations_since(LogCursor::default()).await.unwrap().next;
    assert_eq!(server.tell("SAVE"), "+OK");
    store.invalidate(&Scope::Tag(Tag::Database(MOVIES))).await.unwrap();
    server.kill();
    server.restart();
    counts_as_empty(&store, old, cursor).await;
}

/// F43: an append-only file that lost its last second, as `appendfsync everysec` does with the machine.
#[tokio::test]
async fn an_append_only_file_without_its_end_counts_as_empty() {
    let mut server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let store = patient(&server.uri());
    let old = entry_and_lease(&store).await;
    let cursor = store.invalidations_since(LogCursor::default()).await.unwrap().next;
    let file = server.append_only_file();
    store.invalidate(&Scope::All).await.unwrap();
    server.kill();
    server.put_back_append_only_file(&file);
    server.restart();
    assert_eq!(server.tell("DBSIZE"), ":3", "the file without its end is back: entry, lease and log");
    counts_as_empty(&store, old, cursor).await;
}

fn replica_of(leader: &RedisServer) -> RedisServer {
    RedisServer::start(&["--replicaof", "127.0.0.1", &leader.port.to_string()])
}

async fn in_step(replica: &RedisServer, keys: &str) {
    until(Duration::from_secs(20), "the replica has all", || async {
        (replica.tell("DBSIZE") == keys).then_some(())
    })
    .await;
}

/// F16, F43: a purge that a replica never got, and its promotion. The promoted server has the earlier entry, lease
/// and log, and another history from here on.
#[tokio::test]
async fn a_promoted_replica_that_lagged_counts_as_empty() {
    let leader = RedisServer::start(&[]);
    let store = patient(&leader.uri());
    let old = entry_and_lease(&store).await;
    let cursor = store.invalidations_since(LogCursor::default()).await.unwrap().next;
    let replica = replica_of(&leader);
    in_step(&replica, ":3").await;
    // Cut off from the leader and promoted before the purge: it lags by all later commands.
    assert_eq!(replica.tell("REPLICAOF NO ONE"), "+OK");
    store.invalidate(&Scope::All).await.unwrap();
    drop((store, leader));
    counts_as_empty(&patient(&replica.uri()), old, cursor).await;
}

/// F16, F43: A leads, B takes over without A's last purge, A follows B and leads again. A's process is the same all
/// the time, and its content is still from before the purge. `run_id` does not show that; the replication id does.
#[tokio::test]
async fn a_leader_that_leads_again_counts_as_empty() {
    let first = RedisServer::start(&[]);
    let store = patient(&first.uri());
    let old = entry_and_lease(&store).await;
    let cursor = store.invalidations_since(LogCursor::default()).await.unwrap().next;
    let second = replica_of(&first);
    in_step(&second, ":3").await;
    assert_eq!(second.tell("REPLICAOF NO ONE"), "+OK");
    store.invalidate(&Scope::All).await.unwrap();
    assert_eq!(first.tell(&format!("REPLICAOF 127.0.0.1 {}", second.port)), "+OK");
    in_step(&first, ":3").await;
    assert_eq!(first.tell("REPLICAOF NO ONE"), "+OK");
    counts_as_empty(&patient(&first.uri()), old, cursor).await;
}

/// F44: the log alone is put back, under a server that goes on. The record with the number of a lost one is another
/// record. So a reader of the lost one meets a gap, and does not skip the new record.
#[tokio::test]
async fn a_log_that_was_put_back_and_filled_anew_is_a_gap() {
    let server = RedisServer::start(&[]);
    let store = patient(&server.uri());
    let start = store.invalidations_since(LogCursor::default()).await.unwrap().next;
    let log = server.key("*:log");
    assert_eq!(server.tell(&format!("COPY {log} before")), ":1");
    store.invalidate(&Scope::Key(key(1))).await.unwrap();
    let read = store.invalidations_since(start).await.unwrap();
    assert_eq!((read.gap, read.scopes.as_slice()), (false, &[Scope::Key(key(1))][..]));
    assert_eq!(server.tell(&format!("COPY before {log} REPLACE")), ":1");
    store.invalidate(&Scope::Key(key(2))).await.unwrap();
    let page = store.invalidations_since(read.next).await.unwrap();
    assert!(
        page.gap || page.scopes == [Scope::Key(key(2))],
        "the purge of another key was skipped: {page:?}"
    );
    let unaware = store.invalidations_since(start).await.unwrap();
    assert_eq!((unaware.gap, unaware.scopes.as_slice()), (false, &[Scope::Key(key(2))][..]));
}

fn cluster_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// F43: each shard of a cluster has a life of its own. One shard comes back from its snapshot: its slots are empty,
/// and those of the other shard are not.
#[tokio::test]
async fn of_a_cluster_only_the_restored_shard_is_empty() {
    let buses = [cluster_port(), cluster_port()];
    let [mut first, second] =
        [0, 1].map(|at| RedisServer::start(&["--cluster-enabled", "yes", "--cluster-port", &buses[at]]));
    assert_eq!(first.tell("CLUSTER ADDSLOTSRANGE 0 8191"), "+OK");
    assert_eq!(second.tell("CLUSTER ADDSLOTSRANGE 8192 16383"), "+OK");
    assert_eq!(first.tell(&format!("CLUSTER MEET 127.0.0.1 {} {}", second.port, buses[1])), "+OK");
    until(Duration::from_secs(30), "the cluster is up", || async {
        let is_up = |server: &RedisServer| server.tell_lines("CLUSTER INFO", 2)[1] == "cluster_state:ok";
        (is_up(&first) && is_up(&second)).then_some(())
    })
    .await;
    let store = patient(&format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", first.port, second.port));
    for index in 0..20 {
        stored(&store, &key(index)).await;
    }
    assert_eq!(first.tell("SAVE"), "+OK");
    first.kill();
    first.restart();
    let mut absent = 0;
    for index in 0..20 {
        let view = until(Duration::from_secs(30), "the shard is found again", || async {
            store.peek(&key(index)).await.ok()
        });
        absent += u32::from(view.await.entry.is_none());
    }
    assert!((1..20).contains(&absent), "{absent} of 20");
    assert_eq!(first.tell("DBSIZE"), format!(":{absent}"), "the snapshot brought back what counts as empty");
}

/// The persistence of a server is read at the connect. A managed service refuses CONFIG, and then it is unknown.
#[tokio::test]
async fn what_a_server_keeps_on_disk_is_looked_at() {
    const UNKNOWN: &str = "Redis does not say whether it keeps snapshots";
    const RESTORES: &str = "Redis keeps snapshots or an append-only file";
    let cases: [(&[&str], &str); 4] = [
        (&[], "Redis keeps nothing on disk"),
        (&["--save", "3600 1"], RESTORES),
        (&["--appendonly", "yes"], RESTORES),
        (&["--rename-command", "CONFIG", ""], UNKNOWN),
    ];
    for (args, due) in cases {
        let server = RedisServer::start(args);
        let store = patient(&server.uri());
        let log = LogLines::collect();
        store.ping().await.unwrap();
        assert!(log.contain(due), "{args:?}");
    }
    // The documented ACL has no right to CONFIG. A refusal would be a line of ACL LOG.
    let server = RedisServer::start(&[]);
    assert_eq!(
        server.tell("ACL SETUSER hop on >secret ~hopcache:* -@all +eval +evalsha +set +del +info"),
        "+OK"
    );
    let store = patient(&format!("redis://hop:secret@127.0.0.1:{}", server.port));
    let log = LogLines::collect();
    store.ping().await.unwrap();
    assert!(log.contain(UNKNOWN));
    assert_eq!(server.tell("ACL LOG"), "*0", "the server refused nothing");
}
