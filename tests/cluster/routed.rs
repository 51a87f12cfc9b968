//! `neo4j://`: three nodes on a scripted cluster of three Neo4j members (`support/neo4j_members.rs` says what it is made from). Its
//! leader changes, its members lag, die and join, under reads and writes over both fronts.
//!
//! Each register has one writer, whose values grow. So a read is too old if its value is less than the last one that was
//! acknowledged before it was sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::bolt_client::BoltClient;
use crate::support::http;
use crate::support::neo4j_members::Neo4jMembers;
use crate::support::process::{Addrs, NodeProcess};
use crate::support::redis::RedisServer;
use crate::support::turn::Turn;
use crate::support::{environment, say, size, until};

const WRITE: &str = "MERGE (r:Register {k: $k}) SET r.v = $v";
const READ: &str = "MATCH (r:Register {k: $k}) RETURN r.v AS v";
const REGISTERS: usize = 6;
/// How long a faulty member keeps its fault.
const STEP: Duration = Duration::from_millis(700);

struct Stage {
    nodes: Vec<NodeProcess>,
    _redis: RedisServer,
    _dir: tempfile::TempDir,
    _turn: Turn,
}

impl Stage {
    async fn start(members: &Neo4jMembers) -> Self {
        let turn = Turn::take().await;
        let redis = RedisServer::start().await;
        let dir = tempfile::tempdir().unwrap();
        let addrs = Addrs::free(3);
        let seeds: Vec<String> = addrs.iter().map(|each| format!("\"{}\"", each.peer)).collect();
        let text = format!(
            "[cluster]\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"neo4j://{}\"\n[store]\nuri = \"{}\"\n[entry]\nttl = \"10m\"\n[freshness]\nmode = \"proved\"\n",
            seeds.join(", "),
            members.addr(1),
            redis.uri(),
        );
        let named = ["node-a", "node-b", "node-c"].into_iter().zip(addrs);
        let mut nodes: Vec<_> =
            named.map(|(name, addrs)| NodeProcess::new(dir.path(), name, addrs, &text)).collect();
        nodes.iter_mut().for_each(NodeProcess::start);
        for node in &nodes {
            node.wait_for_members(3).await;
        }
        Self { nodes, _redis: redis, _dir: dir, _turn: turn }
    }

    async fn sum(&self, metric: &str) -> f64 {
        let mut sum = 0.0;
        for node in &self.nodes {
            sum += node.metric(metric, "").await.unwrap_or(0.0);
        }
        sum
    }
}

/// What all clients share.
#[derive(Default)]
struct Seen {
    acknowledged: [AtomicI64; REGISTERS],
    is_over: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    failed: AtomicU64,
    too_old: AtomicU64,
}

impl Seen {
    fn failed(&self, what: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        say(what);
    }

    fn has_read(&self, register: usize, floor: i64, value: &Value) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if value.as_i64().is_none_or(|value| value < floor) {
            self.too_old.fetch_add(1, Ordering::Relaxed);
            say(&format!("register {register}: {value} was read after {floor} was acknowledged"));
        }
    }
}

/// Writes a register, over HTTP or Bolt by its number.
async fn write_on(seen: Arc<Seen>, register: usize, addrs: Addrs) {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let mut bolt = BoltClient::connect(addrs.bolt).await.unwrap();
    bolt.log_on("neo4j", &password).await.unwrap().unwrap();
    let mut value = 0;
    while !seen.is_over.load(Ordering::Relaxed) {
        value += 1;
        let parameters = json!({"k": register, "v": value});
        let ended = match register % 3 {
            0 => {
                let reply = http::ask(addrs.client, &http::query(WRITE, &parameters)).await.unwrap();
                if reply.status == 202 { Ok(()) } else { Err(reply.to_string()) }
            }
            1 => bolt
                .write("neo4j", WRITE, &parameters)
                .await
                .unwrap()
                .map(drop)
                .map_err(|failure| format!("{failure:?}")),
            _ => managed_write(addrs.bolt, &parameters).await,
        };
        match ended {
            Ok(()) => {
                seen.writes.fetch_add(1, Ordering::Relaxed);
                seen.acknowledged[register].fetch_max(value, Ordering::SeqCst);
            }
            Err(failure) => seen.failed(&format!("a write of register {register}: {failure}")),
        }
        // tidy: the pace of a writer
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// A managed transaction of a driver: it is run again after a transient error.
async fn managed_write(addr: SocketAddr, parameters: &Value) -> Result<(), String> {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let mut bolt = BoltClient::connect(addr).await.unwrap();
        bolt.log_on("neo4j", &password).await.unwrap().unwrap();
        match bolt.write_in_transaction("neo4j", WRITE, parameters).await.unwrap() {
            Ok(()) => return Ok(()),
            Err(failure) if failure.code.starts_with("Neo.TransientError.") && Instant::now() < deadline => {
                // tidy: a driver's pause before its next try
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(failure) => return Err(format!("{failure:?}")),
        }
    }
}

async fn read_on(seen: Arc<Seen>, first: usize, addrs: Addrs) {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let mut bolt = BoltClient::connect(addrs.bolt).await.unwrap();
    bolt.log_on("neo4j", &password).await.unwrap().unwrap();
    for register in (0..REGISTERS).cycle().skip(first) {
        if seen.is_over.load(Ordering::Relaxed) {
            return;
        }
        let parameters = json!({ "k": register });
        let floor = seen.acknowledged[register].load(Ordering::SeqCst);
        if register % 2 == 0 {
            let reply = http::ask(addrs.client, &http::query(READ, &parameters)).await.unwrap();
            match reply.status {
                202 => seen.has_read(register, floor, &reply.value()),
                _ => seen.failed(&format!("a read: {reply}")),
            }
        } else {
            match bolt.run("neo4j", READ, &parameters).await.unwrap() {
                Ok(rows) => seen.has_read(register, floor, &rows.rows[0][0]),
                Err(failure) => seen.failed(&format!("a read: {failure:?}")),
            }
        }
        // tidy: the pace of a reader
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// `HOPCACHE_TEST_ROUNDS=200` makes it last ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_leader_changes_shows_nothing_older_than_an_acknowledged_write() {
    let mut members = Neo4jMembers::start(3).await;
    let stage = Stage::start(&members).await;
    let seen = Arc::new(Seen::default());
    let addrs = |place: usize| stage.nodes[place % 3].addrs;
    let mut clients = tokio::task::JoinSet::new();
    for register in 0..REGISTERS {
        clients.spawn(write_on(Arc::clone(&seen), register, addrs(register)));
        clients.spawn(read_on(Arc::clone(&seen), register, addrs(register + 1)));
    }
    let pause = || tokio::time::sleep(STEP); // tidy: how long a fault lasts
    for round in 0..size("HOPCACHE_TEST_ROUNDS", 4) {
        let (leader, next, third) = (round % 3, (round + 1) % 3, (round + 2) % 3);
        members.set_lag(third, Duration::from_secs(5));
        members.set_lag(next, Duration::from_millis(300));
        pause().await;
        members.elect(Some(next));
        pause().await;
        members.set_lag(third, Duration::ZERO);
        members.kill(leader);
        pause().await;
        members.join(leader).await;
        members.set_lag(next, Duration::ZERO);
        pause().await;
    }
    seen.is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
    let count = |what: &AtomicU64| what.load(Ordering::Relaxed);
    let hits = stage.sum("hopcache_proved_hits_total").await;
    let counts: Vec<_> = (0..3).map(|member| members.counts(member)).collect();
    say(&format!(
        "{} reads ({hits} proved hits), {} writes, {} failed, {} too old; [reads, writes, refused, tables] of the members: {counts:?}",
        count(&seen.reads),
        count(&seen.writes),
        count(&seen.failed),
        count(&seen.too_old),
    ));
    assert_eq!(count(&seen.too_old), 0);
    assert_eq!(count(&seen.failed), 0, "the retries absorb every fault");
    assert!(hits > 0.0 && count(&seen.writes) > 0);
    assert!(
        counts.iter().map(|each| each[2]).sum::<u64>() > 0,
        "no member refused a write: nothing was tried"
    );
    for (register, acknowledged) in seen.acknowledged.iter().enumerate() {
        let written = members.written(i64::try_from(register).unwrap());
        assert!(
            written.contains(&acknowledged.load(Ordering::SeqCst)),
            "register {register} has lost a write"
        );
        assert!(written.windows(2).all(|pair| pair[0] < pair[1]), "register {register}: {written:?}");
    }
}

/// `hopcache status` says who leads.
#[tokio::test]
async fn members_are_shown() {
    let members = Neo4jMembers::start(3).await;
    let stage = Stage::start(&members).await;
    let reply = http::ask(stage.nodes[0].addrs.client, &http::query(READ, &json!({"k": 1}))).await.unwrap();
    assert_eq!(reply.value(), json!(0));
    until("the leader is shown", Duration::from_secs(10), async || {
        let mut leads = Vec::new();
        for node in &stage.nodes {
            let ready = node.admin("/readyz").await.unwrap().json();
            let shown = ready["neo4j"].as_array().cloned().unwrap_or_default();
            // Watchers ask for `system` as well: it leads that, too.
            let leads_it = |member: &Value| {
                member["leads"].as_array().is_some_and(|databases| databases.contains(&json!("neo4j")))
            };
            leads.extend(shown.into_iter().filter(leads_it));
        }
        leads.iter().any(|member| member["name"] == members.addr(0).to_string())
    })
    .await;
}
