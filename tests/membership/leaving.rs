//! Nodes that leave (F10, F12): a rolling restart without an error or a run, handed-on flights, plans of hot keys, the
//! last node. The quiet cases are in `tests/cluster/leaving.rs`, those under faults in `tests/faults/shutdown.rs`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::balancer::{Asked, Balancer};
use crate::support::cluster::{Cluster, Plan};
use crate::support::{http, say, until};

const WAIT_MAX: Duration = Duration::from_secs(20);

/// F10: every node of three is restarted, one after the other, under load through a balancer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_costs_no_error_and_no_run() {
    const READ: &str = "RETURN $k AS k, 'rolling' AS what";
    const KEYS: usize = 40;
    let mut cluster = Cluster::of(Plan { drain: "6s", ..Plan::default() }).await;
    for k in 0..KEYS {
        cluster.nodes[k % 3].ask(&http::query(READ, &json!({ "k": k }))).await;
    }
    let addrs: Vec<_> = cluster.nodes.iter().map(|node| node.addrs).collect();
    let asked = Asked { statement: READ, keys: KEYS, clients: 8, pause: Duration::from_millis(10) };
    let load = Balancer::start(&addrs, asked);
    until("the load runs", WAIT_MAX, async || load.answered() > 200).await;
    let begun = Instant::now();
    for place in 0..3 {
        let before = load.answered();
        cluster.nodes[place].signal("TERM");
        let status = cluster.nodes[place].exit(Duration::from_secs(10)).await;
        assert_eq!(status.code(), Some(0), "{}", cluster.nodes[place].log());
        assert!(load.answered() > before, "there was no load while it left");
        cluster.bring_back(place).await;
        until("it is in rotation again", WAIT_MAX, async || load.is_in_rotation(place)).await;
    }
    let took = begun.elapsed();
    let so_far = load.answered();
    until("the load goes on", WAIT_MAX, async || load.answered() > so_far + 200).await;
    let ended = load.end().await;
    say(&format!(
        "F10: three nodes restarted in {} ms under load: {} requests, {} hits, {} connections refused, {} runs of {KEYS} keys, {} errors",
        took.as_millis(),
        ended.answered,
        ended.hits,
        ended.refused,
        cluster.proxy.runs("rolling"),
        ended.errors.len()
    ));
    assert!(ended.errors.is_empty(), "{:?}", &ended.errors[..ended.errors.len().min(3)]);
    assert_eq!(ended.hits, ended.answered);
    assert_eq!(cluster.proxy.runs("rolling"), KEYS, "the restart cost runs");
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
}

/// F12: a flight that ends in time is waited for, by followers here and behind a forward: one run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_that_ends_in_time_answers_its_followers() {
    const READ: &str = "RETURN $k AS k, 'in time' AS what";
    let mut cluster = Cluster::of(Plan { drain: "12s", ..Plan::default() }).await;
    let parameters = cluster.owned_by(0, READ).await;
    cluster.proxy.delay_runs("in time", Duration::from_secs(4));
    let request = http::query(READ, &parameters);
    let clients = cluster.clients().into_iter().map(|addr| (addr, request.clone())).collect();
    let crowd = tokio::spawn(http::crowd(clients));
    assert!(cluster.proxy.wait_until("in time", WAIT_MAX, |runs| !runs.is_empty()).await);
    assert_eq!(cluster.redis.keys("hopcache:*:l").len(), 1, "the flight holds its lease");
    cluster.nodes[0].signal("TERM");
    // The node is out of the others' rings while it still answers their requests.
    cluster.nodes[1].wait_for_members(2).await;
    assert!(!crowd.is_finished(), "the flight was over too early to tell");
    for reply in crowd.await.unwrap() {
        assert_eq!(reply.expect("an answer").value(), parameters["k"]);
    }
    let status = cluster.nodes[0].exit(Duration::from_secs(14)).await;
    assert_eq!(status.code(), Some(0), "{}", cluster.nodes[0].log());
    assert_eq!(cluster.proxy.runs("in time"), 1);
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
}

/// F12: the last node has no successor: its flight ends, its value is stored, and it exits in good order. A second
/// SIGTERM does no harm.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_node_leaves_in_good_order() {
    const READ: &str = "RETURN 'the last' AS what";
    let mut cluster = Cluster::of(Plan { started: 1, seeded: 1, drain: "6s", ..Plan::default() }).await;
    cluster.proxy.delay_runs("the last", Duration::from_secs(2));
    let request = http::query(READ, &json!({}));
    let asking = tokio::spawn(http::crowd(vec![(cluster.nodes[0].addrs.client, request.clone())]));
    assert!(cluster.proxy.wait_until("the last", WAIT_MAX, |runs| !runs.is_empty()).await);
    let addr = cluster.nodes[0].addrs.admin;
    for _ in 0..2 {
        let drain = http::ask(addr, &http::post("/admin/v1/drain", "", "{}")).await.unwrap();
        assert_eq!(drain.status, 202, "{drain}");
    }
    let readyz = cluster.nodes[0].admin("/readyz").await.unwrap();
    assert_eq!((readyz.status, readyz.json()["reasons"].clone()), (503, json!(["leaving"])));
    assert_eq!(asking.await.unwrap().remove(0).expect("an answer").value(), "the last");
    let status = cluster.nodes[0].exit(Duration::from_secs(8)).await;
    assert_eq!(status.code(), Some(0), "{}", cluster.nodes[0].log());
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
    cluster.bring_back(0).await;
    assert!(cluster.nodes[0].ask(&request).await.is_hit(), "its entry is in the store for its next life");
    assert_eq!(cluster.proxy.runs("the last"), 1);
}

/// F12: the last node has no other node for its waiters: a client of a run that is too long gets an error that says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_nodes_clients_are_told_before_it_ends() {
    let mut cluster = Cluster::of(Plan { started: 1, seeded: 1, drain: "2s", ..Plan::default() }).await;
    cluster.proxy.delay_runs("too long for the last", Duration::from_secs(25));
    let request = http::query("RETURN 'too long for the last' AS what", &json!({}));
    let clients = vec![(cluster.nodes[0].addrs.client, request); 3];
    let crowd = tokio::spawn(http::crowd(clients));
    assert!(cluster.proxy.wait_until("too long for the last", WAIT_MAX, |runs| !runs.is_empty()).await);
    cluster.nodes[0].signal("TERM");
    let status = cluster.nodes[0].exit(Duration::from_secs(5)).await;
    assert_eq!(status.code(), Some(0), "{}", cluster.nodes[0].log());
    for reply in crowd.await.unwrap() {
        let reply = reply.expect("an answer");
        assert_eq!(reply.status, 503, "{reply}");
        assert_eq!(reply.json()["errors"][0]["code"], "Hopcache.TransientError.Leaving", "{reply}");
    }
}
