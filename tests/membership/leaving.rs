//! Nodes that leave (F10, F12): a rolling restart without an error or a run, handed-on flights, plans of hot keys, the
//! last node. The quiet cases are in `tests/cluster/leaving.rs`, those under faults in `tests/faults/shutdown.rs`.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::balancer::{Asked, Balancer};
use crate::support::cluster::{Cluster, OwnLabel, Plan};
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

/// F12, I2: a node gives up a flight that would outlast it: first its lease, then its followers. The new owner's run
/// answers them: the leaving node's own client and another node's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_that_is_too_long_is_handed_on() {
    const READ: &str = "RETURN $k AS k, 'handed on' AS what";
    let mut cluster = Cluster::of(Plan { drain: "8s", ..Plan::default() }).await;
    let parameters = cluster.owned_by(0, READ).await;
    cluster.proxy.delay_runs("handed on", Duration::from_secs(60));
    let request = http::query(READ, &parameters);
    let clients = cluster.clients().into_iter().map(|addr| (addr, request.clone())).collect();
    let crowd = tokio::spawn(http::crowd(clients));
    assert!(cluster.proxy.wait_until("handed on", WAIT_MAX, |runs| !runs.is_empty()).await);
    until("the others' requests have joined", WAIT_MAX, async || {
        cluster.nodes[0].metric("hopcache_flights", "").await >= Some(1.0)
            && cluster.nodes[1].metric("hopcache_flights", "").await == Some(1.0)
            && cluster.nodes[2].metric("hopcache_flights", "").await == Some(1.0)
    })
    .await;
    // The run under way goes on waiting; later ones do not.
    cluster.proxy.heal();
    cluster.nodes[0].signal("TERM");
    let sigterm_at = Instant::now();
    for reply in crowd.await.unwrap() {
        assert_eq!(reply.expect("an answer").value(), parameters["k"]);
    }
    let answered = sigterm_at.elapsed();
    let status = cluster.nodes[0].exit(Duration::from_secs(10)).await;
    say(&format!(
        "F12: a flight of 60 s, drain 8 s: three followers answered after {} ms, exit {:?} after {} ms, {} runs",
        answered.as_millis(),
        status.code(),
        sigterm_at.elapsed().as_millis(),
        cluster.proxy.runs("handed on")
    ));
    let log = cluster.nodes[0].log();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("flights are handed on"), "{log}");
    assert!(!log.contains("leaving before everything has ended"), "{log}");
    assert_eq!(cluster.proxy.runs("handed on"), 2, "the one that was given up, and one for all three");
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
}

/// F12: a run takes longer than the node has, and as long at the new owner. Clients of the leaving node get an error
/// before it ends: to ask again, or for a write that it may have been carried out. Other nodes' clients get the value.
/// No connection ends without an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn own_clients_that_cannot_be_answered_in_time_are_told_so() {
    const READ: &str = "RETURN $k AS k, 'longer than drain' AS what";
    let mut cluster = Cluster::of(Plan { drain: "3s", ..Plan::default() }).await;
    let parameters = cluster.owned_by(0, READ).await;
    let label = OwnLabel::new("Leaving");
    let write = format!("CREATE (n:{} {{what: 'longer than drain'}}) RETURN n.what AS what", label.0);
    cluster.proxy.delay_runs("longer than drain", Duration::from_secs(7));
    let [own, _, _] = cluster.clients()[..] else { unreachable!("three nodes") };
    let read = http::query(READ, &parameters);
    let mut clients = vec![(own, read.clone()); 10];
    clients.push((own, http::query(&write, &json!({}))));
    clients.extend(cluster.clients().into_iter().skip(1).map(|addr| (addr, read.clone())));
    let crowd = tokio::spawn(http::crowd(clients));
    // One more that has not even sent its whole request.
    let half = read[..read.len() - 5].to_vec();
    let unread = tokio::spawn(async move { http::send_raw(own, &half, Duration::from_secs(10)).await });
    assert!(cluster.proxy.wait_until("longer than drain", WAIT_MAX, |runs| runs.len() == 2).await);
    cluster.nodes[0].signal("TERM");
    let sigterm_at = Instant::now();
    let status = cluster.nodes[0].exit(Duration::from_secs(5)).await;
    let gone = sigterm_at.elapsed();
    assert_eq!(status.code(), Some(0), "{}", cluster.nodes[0].log());
    assert!(cluster.nodes[0].log().contains("flights are handed on"), "{}", cluster.nodes[0].log());
    let replies: Vec<_> = crowd.await.unwrap().into_iter().map(|reply| reply.expect("an answer")).collect();
    let unread = unread.await.unwrap();
    let unread = unread.replies();
    say(&format!(
        "F12: runs of 7 s, drain 3 s: gone after {} ms; own clients {:?}, unread {:?}, others {:?}",
        gone.as_millis(),
        replies[..11].iter().map(|reply| reply.status).collect::<Vec<_>>(),
        unread.iter().map(|reply| reply.status).collect::<Vec<_>>(),
        replies[11..].iter().map(|reply| reply.status).collect::<Vec<_>>(),
    ));
    assert_eq!(unread.len(), 1, "the connection of half a request was closed without a word");
    for reply in replies[..10].iter().chain(&unread) {
        assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{reply}");
        assert_eq!(reply.header("connection"), "close", "{reply}");
        let error = &reply.json()["errors"][0];
        assert_eq!(error["code"], "Hopcache.TransientError.Leaving", "{reply}");
    }
    // To repeat the write would carry it out twice.
    let write = &replies[10];
    assert_eq!((write.status, write.header("retry-after")), (500, ""), "{write}");
    assert_eq!(write.json()["errors"][0]["code"], "Neo.DatabaseError.General.UnknownError", "{write}");
    assert_eq!(write.header("connection"), "close", "{write}");
    let in_doubt = |reply: &http::Reply| reply.to_string().contains("may have been carried out");
    assert!(in_doubt(&replies[10]), "{}", replies[10]);
    assert!(!replies[..10].iter().chain(&unread).any(in_doubt), "a read is in no doubt");
    for reply in &replies[11..] {
        assert_eq!(reply.value(), parameters["k"]);
    }
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
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

/// F12, I1: only other nodes' requests follow a flight, and they keep the peer port open. The run succeeds after the
/// draining node has stopped serving clients, and both others know by then that the node drains.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flight_that_only_other_nodes_follow_is_waited_for() {
    const READ: &str = "RETURN $k AS k, 'others follow' AS what";
    let mut cluster = Cluster::of(Plan { drain: "16s", ..Plan::default() }).await;
    let parameters = cluster.owned_by(0, READ).await;
    cluster.proxy.delay_runs("others follow", Duration::from_secs(5));
    let request = http::query(READ, &parameters);
    let clients = cluster.clients().into_iter().skip(1).map(|addr| (addr, request.clone())).collect();
    let crowd = tokio::spawn(http::crowd(clients));
    assert!(cluster.proxy.wait_until("others follow", WAIT_MAX, |runs| !runs.is_empty()).await);
    cluster.nodes[0].signal("TERM");
    let sigterm_at = Instant::now();
    for node in &cluster.nodes[1..] {
        node.wait_for_members(2).await;
    }
    let client = cluster.nodes[0].addrs.client;
    until("the clients' port is closed", WAIT_MAX, async || {
        tokio::net::TcpStream::connect(client).await.is_err()
    })
    .await;
    let closed = sigterm_at.elapsed();
    assert!(!crowd.is_finished(), "the flight was over too early to tell");
    for reply in crowd.await.unwrap() {
        assert_eq!(reply.expect("an answer").value(), parameters["k"]);
    }
    let answered = sigterm_at.elapsed();
    let status = cluster.nodes[0].exit(Duration::from_secs(18)).await;
    say(&format!(
        "F12: a run of 5 s, followed from two other nodes: clients' port closed after {} ms, answered after {} ms, exit {:?} after {} ms, {} run",
        closed.as_millis(),
        answered.as_millis(),
        status.code(),
        sigterm_at.elapsed().as_millis(),
        cluster.proxy.runs("others follow")
    ));
    let log = cluster.nodes[0].log();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(!log.contains("flights are handed on") && !log.contains("leaving before"), "{log}");
    assert_eq!(cluster.proxy.runs("others follow"), 1, "the new owner ran what ran already");
    for node in &cluster.nodes[1..] {
        let ready = node.admin("/readyz").await.unwrap();
        assert_eq!(
            ready.json()["degraded"],
            json!([]),
            "a node that said goodbye does not degrade the cluster: {ready}"
        );
    }
    assert!(cluster.redis.keys("hopcache:*:l").is_empty(), "a lease was left behind");
}

/// F12: the next owner has the leaving node's plan of a hot key from the first hit on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_keys_refresh_plan_moves_to_its_new_owner() {
    const READ: &str = "RETURN $k AS k, 'hot plan' AS what";
    let mut cluster = Cluster::of(Plan { started: 2, seeded: 2, drain: "4s", ..Plan::default() }).await;
    let parameters = cluster.owned_by(0, READ).await;
    cluster.proxy.delay_runs("hot plan", Duration::from_millis(150));
    let request = http::query(READ, &parameters);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        cluster.nodes[0].ask(&request).await;
    }
    let before = cluster.nodes[0].explain(READ, &parameters).await["refresh"].clone();
    assert!(before["rate_per_s"].as_f64() > Some(1.0), "{before}");
    cluster.nodes[0].signal("TERM");
    assert_eq!(cluster.nodes[0].exit(Duration::from_secs(8)).await.code(), Some(0));
    cluster.nodes[1].wait_for_members(1).await;
    assert!(cluster.nodes[1].ask(&request).await.is_hit());
    let explained = cluster.nodes[1].explain(READ, &parameters).await;
    let after = &explained["refresh"];
    let learned = cluster.nodes[1].metric("hopcache_handover_total", "\"plans_learned\"").await;
    say(&format!(
        "F12: a hot key's plan moved: rate {} then {}, cost {} then {}, {learned:?} keys handed on",
        before["rate_per_s"], after["rate_per_s"], before["cost_ms"], after["cost_ms"]
    ));
    assert_eq!(explained["owner"], "node-b");
    assert!(learned >= Some(1.0));
    let (rate, known) = (after["rate_per_s"].as_f64(), before["rate_per_s"].as_f64());
    assert!(rate.is_some() && rate > known.map(|known| known / 4.0), "{before} {after}");
    assert!(after["cost_ms"]["mean"].as_f64() >= Some(140.0), "{after}");
    assert!(explained["refresh_probability"].as_f64().is_some(), "{explained}");
    assert_eq!(cluster.proxy.runs("hot plan"), 1);
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
