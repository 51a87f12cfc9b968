//! I5, must-show 4 of issue 15: four principals with right, wrong, rotated and revoked passwords, keys of three databases,
//! three nodes, HTTP and Bolt. Nobody gets a value of anybody else, and former passwords are refused on every node, over
//! both ways in, within 30 s.
//!
//! A value carries the names of its user and its database: the scripted Neo4j writes them. Both ways in share their
//! entries, and a Bolt connection is used by one principal after the other.
//!
//! `HOPCACHE_TEST_FOUR_REQUESTS` asks for more than 6,000 requests. The test takes 30 s and more: so long may a node
//! believe a password that has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::four_clients::{
    BELIEVED, Counts, FourClient, NODES, REVOKED, ROTATED, Shared, USERS, WAYS, first_password,
    second_password,
};
use super::scripted_cluster::{Lines, ScriptedCluster};
use crate::support::{say, size, until};

const CLIENTS: u64 = 32;
/// Former passwords have to be refused for so long after the 30 s.
const REFUSED_FOR: Duration = Duration::from_secs(3);
/// Longest wait for a million requests.
const PHASE_MAX: Duration = Duration::from_secs(3_600);
/// Between requests of a client that has nothing more to do than to see former passwords refused.
const SLOW: Duration = Duration::from_millis(100);
/// Most answers "busy" to right credentials, of a hundred requests.
const BUSY_PERCENT_MAX: u64 = 2;

/// Asks until it is over: as fast as it can until `requests` were asked by all clients together, then slowly.
async fn go_on(mut client: FourClient, shared: Arc<Shared>, requests: u64) {
    while !shared.is_over.load(Ordering::Relaxed) {
        client.one().await;
        if shared.asked.load(Ordering::Relaxed) >= requests {
            // tidy: the pace of the rest of the load
            tokio::time::sleep(SLOW).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_principals_see_only_their_own_over_http_and_bolt() {
    let requests = size("HOPCACHE_TEST_FOUR_REQUESTS", 6_000);
    let passwords = USERS.map(first_password);
    let users: Vec<_> = USERS.into_iter().zip(passwords.iter().map(String::as_str)).collect();
    // Short, so that there are runs, joined runs and refreshes among the hits.
    let lines = Lines { node: "", origin: "", entry: "ttl = \"2s\"\ngrace = 1.0" };
    let cluster = ScriptedCluster::start(&users, Duration::ZERO, lines).await;
    let nodes: Vec<_> = cluster.nodes.iter().map(|node| (node.addrs.client, node.addrs.bolt)).collect();
    let (shared, began) = (Arc::new(Shared::default()), Instant::now());
    FourClient::connect(&nodes, 1, Arc::clone(&shared)).await.each_first().await;
    let mut clients = JoinSet::new();
    for seed in 2..CLIENTS + 2 {
        let client = FourClient::connect(&nodes, seed, Arc::clone(&shared)).await;
        clients.spawn(go_on(client, Arc::clone(&shared), requests));
    }
    let asked = |count| shared.asked.load(Ordering::Relaxed) >= count;
    wait_for("half of the requests", &mut clients, || asked(requests / 2)).await;
    shared.is_changing.store(true, Ordering::Relaxed);
    cluster.neo4j.change_password(ROTATED, &second_password());
    cluster.neo4j.drop_user(REVOKED);
    let changed = Instant::now();
    shared.changed.set(changed).unwrap();
    wait_for("all requests", &mut clients, || asked(requests)).await;
    let is_long_ago = || changed.elapsed() > BELIEVED + REFUSED_FOR;
    wait_for("former passwords are refused", &mut clients, is_long_ago).await;
    shared.is_over.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    judge(&shared, began.elapsed());
    say(&format!(
        "runs at Neo4j {}, log-ons refused {}",
        cluster.neo4j.runs(),
        cluster.neo4j.logons_refused()
    ));
}

/// Waits while the clients go on. A client that has failed fails the test here.
async fn wait_for(what: &str, clients: &mut JoinSet<()>, holds: impl Fn() -> bool) {
    until(what, PHASE_MAX, async || {
        if let Some(ended) = clients.try_join_next() {
            ended.unwrap();
        }
        holds()
    })
    .await;
}

fn judge(shared: &Shared, took: Duration) {
    let sum = |counter: fn(&Counts) -> &std::sync::atomic::AtomicU64| shared.sum(counter);
    let (asked, busy) = (shared.asked.load(Ordering::Relaxed), sum(|counts| &counts.busy));
    say(&format!(
        "I5: {asked} requests of {} principals in {:.0} s: {} hits, {} runs, {busy} told to wait, {} wrong passwords refused, {} former ones refused, {} still served; 0 leaks",
        USERS.len(),
        took.as_secs_f64(),
        sum(|counts| &counts.hits),
        sum(|counts| &counts.runs),
        sum(|counts| &counts.refused),
        sum(|counts| &counts.former_refused),
        sum(|counts| &counts.former_served),
    ));
    for (node, way) in (0..NODES).flat_map(|node| (0..WAYS.len()).map(move |way| (node, way))) {
        let counts = &shared.counts[node][way];
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        say(&format!(
            "I5: node {node} over {}: former passwords served {} times, the last {} ms after the change, then refused; refused {} times",
            WAYS[way],
            count(&counts.former_served),
            count(&counts.former_served_last_ms),
            count(&counts.former_refused)
        ));
        let all =
            [&counts.hits, &counts.runs, &counts.refused, &counts.former_served, &counts.former_refused];
        assert!(all.into_iter().all(|counter| count(counter) > 0), "nothing was shown: {counts:?}");
    }
    assert!(busy * 100 <= asked * BUSY_PERCENT_MAX, "{busy} of {asked} requests were told to wait");
}
