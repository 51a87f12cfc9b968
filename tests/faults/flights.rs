//! F3, F5: clients that leave a flight, and the cost of thousands of waiters. F4 is in
//! `crates/sim/tests/flight_ends.rs`, because nothing from outside makes a leader panic.
//!
//! `HOPCACHE_TEST_WAITERS=10000` asks for F5's own number of clients (3,000 otherwise); `HOPCACHE_TEST_BINARY` for
//! another build of the node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::support::cluster::{Cluster, Plan};
use crate::support::http::{self, Reply};
use crate::support::process::NodeProcess;
use crate::support::{say, size, until};

const WAIT_MAX: Duration = Duration::from_secs(20);
/// F5.
const WAITING_BYTES_MAX: u64 = 64 << 20;

/// A client that asks and can leave.
async fn asks(addr: SocketAddr, request: &[u8]) -> TcpStream {
    let mut stream = http::connect(addr).await.unwrap();
    stream.write_all(request).await.unwrap();
    stream
}

/// Followers of the owner's flight, by the admin listener.
async fn followers(cluster: &Cluster, owner: usize, statement: &str, parameters: &Value) -> u64 {
    let explained = cluster.nodes[owner].explain(statement, parameters).await;
    explained["flight"]["followers"].as_u64().unwrap_or(0)
}

type Crowd = JoinHandle<Vec<std::io::Result<Reply>>>;

fn crowd(cluster: &Cluster, request: &Arc<[u8]>, count: usize) -> Crowd {
    let clients = cluster.clients();
    let crowd = (0..count).map(|client| (clients[client % clients.len()], request.clone())).collect();
    tokio::spawn(http::crowd(crowd))
}

/// F3: the client that began the flight leaves, and so do some that joined it. No other client notices. Once at the
/// owner and once at a node that forwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_leaves_a_flight_costs_the_others_nothing() {
    let cluster = Cluster::start().await;
    let statement = "RETURN $k AS k, 'F3' AS what";
    cluster.proxy.delay_runs("F3", Duration::from_secs(4));
    for (owner, entry) in [(0, 0), (1, 2)] {
        let parameters = cluster.owned_by(owner, statement).await;
        let request = http::query(statement, &parameters);
        let before = cluster.proxy.runs("F3");
        let leads = asks(cluster.nodes[entry].addrs.client, &request).await;
        assert!(cluster.proxy.wait_until("F3", WAIT_MAX, |runs| runs.len() > before).await, "no run");

        let others = crowd(&cluster, &request, 100);
        let mut leave = Vec::new();
        for place in 0..30 {
            leave.push(asks(cluster.nodes[place % 3].addrs.client, &request).await);
        }
        // The owner's own third of both, and one forward at least.
        until("they all follow", WAIT_MAX, async || {
            followers(&cluster, owner, statement, &parameters).await >= 33 + 10
        })
        .await;
        drop(leads);
        drop(leave);
        until("the owner has seen its own leave", WAIT_MAX, async || {
            followers(&cluster, owner, statement, &parameters).await <= 33 + 3
        })
        .await;
        let run = &cluster.proxy.seen("F3")[before];
        assert!(run.answered.is_none(), "they left after the run had ended");

        for reply in others.await.unwrap() {
            assert_eq!(reply.expect("an answer").value(), parameters["k"]);
        }
        assert_eq!(cluster.proxy.runs("F3"), before + 1, "runs");
        assert!(cluster.nodes[owner].ask(&request).await.is_hit(), "what the flight brought was kept");
        say(&format!(
            "F3: leader's client at node {entry} (owner {owner}) and 30 followers left, 100 answered, 1 run"
        ));
    }
}

/// Issue 5, "Limits": with a TTL of 0 nothing is kept, and nothing is shared but the run under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_ttl_only_the_run_under_way_is_shared() {
    let cluster = Cluster::of(Plan { entry: "ttl = 0", ..Plan::default() }).await;
    let statement = "RETURN $k AS k, 'TTL0' AS what";
    cluster.proxy.delay_runs("TTL0", Duration::from_secs(3));
    let parameters = cluster.owned_by(0, statement).await;
    let request = http::query(statement, &parameters);
    for round in 1..=2 {
        let before = cluster.proxy.runs("TTL0");
        let first = tokio::spawn(http::crowd(vec![(cluster.nodes[0].addrs.client, request.clone())]));
        assert!(cluster.proxy.wait_until("TTL0", WAIT_MAX, |runs| runs.len() > before).await, "no run");
        let others = crowd(&cluster, &request, 30);
        let replies = others.await.unwrap().into_iter().chain(first.await.unwrap());
        for reply in replies {
            let reply = reply.expect("an answer");
            assert_eq!(reply.value(), parameters["k"]);
            assert!(!reply.is_hit(), "kept");
        }
        assert_eq!(cluster.proxy.runs("TTL0"), before + 1, "round {round}: they came while it ran");
    }
    say("TTL 0: 2 rounds of 31 requests on 3 nodes, 2 runs, no hit");
}

fn waiters() -> usize {
    size("HOPCACHE_TEST_WAITERS", 3_000)
}

/// F5, I1, I9: thousands of clients of all nodes wait for one key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_waiters_cost_one_run_and_little_memory() {
    let cluster = Cluster::start().await;
    let (statement, count) = ("RETURN 'F5' AS what, range(1, 20) AS numbers", waiters());
    // Long enough for all clients to arrive: a debug build on a busy machine takes a thousand a second.
    let run = Duration::from_secs(3) + Duration::from_millis(count as u64);
    cluster.proxy.delay_runs("F5", run);
    let warm = http::query("RETURN 'warm' AS what", &json!({}));
    for node in &cluster.nodes {
        node.ask(&warm).await;
    }
    let resident = || cluster.nodes.iter().map(NodeProcess::resident_bytes).collect::<Vec<u64>>();
    let before = resident();
    let (calls, started) = (cluster.redis.calls(), Instant::now());

    let request = http::query(statement, &json!({}));
    let waiting = crowd(&cluster, &request, count);
    let arrived = cluster.proxy.wait_until("F5", WAIT_MAX, |runs| !runs.is_empty());
    assert!(arrived.await, "the run did not arrive");
    let mut most = before.clone();
    until("the run is answered", run + WAIT_MAX, async || {
        for (most, now) in most.iter_mut().zip(resident()) {
            *most = now.max(*most);
        }
        cluster.proxy.seen("F5")[0].answered.is_some()
    })
    .await;
    let replies: Vec<Reply> =
        waiting.await.unwrap().into_iter().map(|reply| reply.expect("an answer")).collect();
    let after = resident();

    assert!(replies.iter().all(|reply| reply.value() == "F5"));
    assert_eq!(cluster.proxy.runs("F5"), 1);
    let waited = replies.iter().filter(|reply| !reply.is_hit()).count();
    assert!(waited * 10 >= count * 9, "only {waited} of {count} waited; the others came too late and hit");
    let mib =
        |bytes: &[u64]| bytes.iter().map(|bytes| (bytes >> 20).to_string()).collect::<Vec<_>>().join(" + ");
    let evals = |calls: &std::collections::BTreeMap<String, u64>| {
        ["eval", "evalsha"].iter().filter_map(|name| calls.get(*name)).sum::<u64>()
    };
    let scripts = evals(&cluster.redis.calls()) - evals(&calls);
    say(&format!(
        "F5: {count} clients on 3 nodes, {waited} waited, 1 run of {} ms, all answered; resident MiB before {}, at most while they waited {}, after {}; {scripts} scripts run by Redis",
        run.as_millis(),
        mib(&before),
        mib(&most),
        mib(&after)
    ));
    for ((node, before), most) in cluster.nodes.iter().zip(&before).zip(&most) {
        let grown = most - before;
        assert!(grown <= WAITING_BYTES_MAX, "{} grew by {} MiB", node.name, grown >> 20);
    }
    // One competition, one commit, and at most one renewal a second. Each node reads the invalidation log twice a
    // second, and looks for writes four times.
    let most = 20 + 20 * started.elapsed().as_secs();
    assert!(scripts <= most, "{scripts} scripts, not at most {most}: the waiters poll the store");
}

/// F5, F2: waiters of a holder that sleeps: each node polls the store once for all its waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_behind_a_sleeping_holder_poll_the_store_as_one() {
    let cluster = Cluster::start().await;
    let statement = "RETURN $k AS k, 'sleeping holder' AS what";
    cluster.proxy.delay_runs("sleeping holder", Duration::from_secs(1));
    let parameters = cluster.owned_by(0, statement).await;
    let request = http::query(statement, &parameters);
    let holder = tokio::spawn(http::crowd(vec![(cluster.nodes[0].addrs.client, request.clone())]));
    assert!(cluster.proxy.wait_until("sleeping holder", WAIT_MAX, |runs| !runs.is_empty()).await);
    cluster.nodes[0].signal("STOP");
    let evals = || cluster.redis.calls().get("evalsha").copied().unwrap_or(0);
    let (before, started) = (evals(), Instant::now());
    let others =
        vec![cluster.nodes[1].addrs.client; 450].into_iter().chain(vec![cluster.nodes[2].addrs.client; 450]);
    let replies = http::crowd(others.map(|addr| (addr, request.clone())).collect()).await;
    let (scripts, took) = (evals() - before, started.elapsed());
    cluster.nodes[0].signal("CONT");
    for reply in replies {
        assert_eq!(reply.expect("an answer").value(), parameters["k"]);
    }
    let late = holder.await.unwrap().remove(0).expect("the holder answers its client");
    assert_eq!(late.value(), parameters["k"]);
    assert_eq!(cluster.proxy.runs("sleeping holder"), 2, "the holder's run and its successor's");
    say(&format!(
        "F5: 900 clients behind a sleeping holder: {scripts} scripts run by Redis in {} ms",
        took.as_millis()
    ));
    // At most two nodes poll, each after 10, 20, … 160 ms, halved by jitter. The rest is as above.
    let polls = 2 * (took.as_millis() / 80) + 60;
    assert!(u128::from(scripts) <= polls, "{scripts} scripts in {took:?}");
    assert!(scripts >= 10, "no node polled: the lease was not waited for");
}
