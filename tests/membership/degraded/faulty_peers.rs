//! A peer that lives and does not work. F8 (a way that loses messages), F10 (answers that the node cannot read), and
//! the stopped process of F2. After a few failures, requests for the peer's keys go to the next node; they go to the
//! peer again when it is well.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::faulty_peer_proxy::{Mode, Way};
use super::{ANN, PLAN, Plan, STATEMENT, Scene, percentile, read};
use crate::support::http::{self, basic, post};
use crate::support::pace::Slowness;
use crate::support::{say, until};

const SOON: Duration = Duration::from_secs(20);
/// A stopped process that goes on says so, if it was stopped for longer than about 2 s.
const STOPPED: Duration = Duration::from_secs(3);
const OPENED: &str = "peer_kind=\"peer\",to=\"open\"";
const CLOSED: &str = "peer_kind=\"peer\",to=\"closed\"";

impl Scene {
    async fn moves(&self, to: &str) -> f64 {
        self.count("hopcache_breaker_transitions_total", to).await
    }

    /// Readiness, gauge and `status` say the same; the node stays ready.
    async fn assert_peer_is_named(&self) {
        let ready = self.degraded().await;
        assert_eq!(ready["status"], "ready", "{ready}");
        assert_eq!(ready["degraded"], json!(["peer"]), "{ready}");
        assert!(ready["why"]["peer"].as_str().unwrap().contains("node-c"), "{ready}");
        assert_eq!(self.count("hopcache_degraded", "part=\"peer\"").await, 1.0);
        let admin = format!("http://{}", self.entry().addrs.admin);
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_hopcache"))
            .args(["status", "--admin-url", &admin])
            .output()
            .await
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains("requests leave out node-c"), "{text}");
    }

    async fn wait_until_peer_is_asked_again(&self) {
        until("the breaker closes", SOON, async || self.moves(CLOSED).await >= 1.0).await;
        until("nothing is degraded", SOON, async || self.degraded().await["degraded"] == json!([])).await;
    }

    /// What is over can still be found at this node.
    async fn is_remembered(&self, node: usize, (part, why): (&str, &str)) {
        until(why, SOON, async || {
            let ring = self.nodes[node].admin("/admin/v1/ring").await.unwrap().json();
            let is_it = |trouble: &Value| {
                trouble["part"] == part
                    && trouble["why"].as_str().unwrap().starts_with(why)
                    && trouble["until_ms"].as_u64() > trouble["first_ms"].as_u64()
            };
            ring["troubles"].as_array().unwrap().iter().any(is_it)
        })
        .await;
    }

    /// One request for each key, in turn; all are answered well.
    async fn ask_each(&self, keys: &[String]) -> Vec<Duration> {
        let mut took = Vec::new();
        for key in keys {
            let reply = http::ask(self.client(), &read(ANN, key)).await.unwrap();
            assert_eq!(reply.status, 202, "{reply}");
            took.push(reply.took);
        }
        took
    }
}

/// Probes are answered, and questions never: without a breaker each request for its keys waits for its own deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_swallows_questions_is_left_out_until_one_is_answered() {
    is_left_out_until_one_is_answered(Way::Http).await;
}

/// The same for questions that share a connection, which goes silent with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_whose_framed_connection_is_silent_is_left_out_until_one_is_answered() {
    is_left_out_until_one_is_answered(Way::Framed).await;
}

async fn is_left_out_until_one_is_answered(way: Way) {
    let scene = Scene::start(Plan { origin: "timeout = \"1s\"", way, ..PLAN }).await;
    let keys = scene.keys_of(2, "swallowed", 60).await;
    let unloaded = scene.ask_each(&keys[..10]).await;
    scene.proxy.set(Mode::Swallow);
    let mut first = JoinSet::new();
    for (place, key) in keys[10..16].iter().enumerate() {
        let (client, request) = (scene.client(), read(ANN, key));
        first.spawn(async move {
            // tidy: the simulated arrivals
            tokio::time::sleep(Duration::from_millis(100) * u32::try_from(place).unwrap()).await;
            http::ask(client, &request).await.unwrap().status
        });
    }
    until("the breaker opens", SOON, async || scene.moves(OPENED).await >= 1.0).await;
    let statuses = first.join_all().await;
    scene.assert_peer_is_named().await;
    assert_eq!(
        scene.count("hopcache_ring_members", "").await,
        3.0,
        "its probes are answered: it stays in the ring"
    );
    let without = scene.ask_each(&keys[16..56]).await;
    let left_out = scene.count("hopcache_forwards_total", "left_out").await;
    assert!(left_out >= 40.0, "{left_out}");
    // The deadline of such a request is 2 s.
    let most = Slowness::by(unloaded.iter().copied()).bound(Duration::from_secs(1));
    assert!(percentile(&without, 99) < most, "{without:?}, {most:?} at most");
    let spoilt = scene.proxy.seen().1;
    // The proxy counts pieces of a framed connection, and a busy machine sends several questions in one.
    let least = if matches!(way, Way::Framed) { 1 } else { 3 };
    assert!(spoilt >= least, "{spoilt}");
    scene.proxy.set(Mode::Pass);
    scene.wait_until_peer_is_asked_again().await;
    let asked = scene.proxy.seen().0;
    scene.ask_each(&keys[56..]).await;
    assert!(scene.proxy.seen().0 >= asked + 4, "requests go to the owner again");
    say(&format!(
        "peer that swallows questions ({way:?}): {spoilt} swallowed, first ones got {statuses:?}; then p50 {:?} p99 {:?} by the next node (owner well: p50 {:?})",
        percentile(&without, 50),
        percentile(&without, 99),
        percentile(&unloaded, 50),
    ));
}

/// Each framed connection is cut by its first question. Every question is answered by another node, and by the owner again
/// when its connections hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_whose_framed_connections_are_cut_costs_nobody_an_answer() {
    let scene = Scene::start(Plan { way: Way::Framed, ..PLAN }).await;
    let keys = scene.keys_of(2, "cut", 40).await;
    scene.ask_each(&keys[..5]).await;
    let (well, spoilt) = scene.proxy.seen();
    assert!(well >= 5 && spoilt == 0, "{well} questions, {spoilt} spoilt");
    scene.proxy.set(Mode::Cut);
    let took = scene.ask_each(&keys[5..30]).await;
    let cut = scene.proxy.seen().1;
    assert!(cut >= 2, "the first was asked twice: {cut}");
    scene.proxy.set(Mode::Pass);
    for node in &scene.nodes {
        node.wait_for_members(3).await;
    }
    until("nothing is degraded", SOON, async || scene.degraded().await["degraded"] == json!([])).await;
    let before = scene.proxy.seen().0;
    scene.ask_each(&keys[30..]).await;
    assert!(scene.proxy.seen().0 > before, "requests go to the owner again");
    say(&format!("framed connections cut: {cut}, all requests answered, p99 {:?}", percentile(&took, 99)));
}

/// F2's stopped process: membership removes it after two probes, and its waiting requests go to the next node. This
/// opens no breaker, because a probe also fails if the prober had no CPU. Once a probe is answered, nodes ask the owner
/// again at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_owner_is_out_of_the_ring_and_asked_again_when_it_answers_probes() {
    let scene = Scene::start(Plan { origin: "timeout = \"10s\"", ..PLAN }).await;
    let keys = scene.keys_of(2, "stopped", 60).await;
    let unloaded = scene.ask_each(&keys[..5]).await;
    scene.nodes[2].signal("STOP");
    let stopped = Instant::now();
    let mut first = JoinSet::new();
    for key in &keys[5..15] {
        let (client, request) = (scene.client(), read(ANN, key));
        first.spawn(async move { http::ask(client, &request).await.unwrap() });
    }
    let replies = first.join_all().await;
    assert!(replies.iter().all(|reply| reply.status == 202), "none fails: another node answers");
    let waited: Vec<Duration> = replies.iter().map(|reply| reply.took).collect();
    scene.entry().wait_for_members(2).await;
    let out_after = stopped.elapsed();
    let without = scene.ask_each(&keys[15..55]).await;
    let most = Slowness::by(unloaded).bound(Duration::from_secs(1));
    assert!(percentile(&without, 99) < most, "{without:?}, {most:?} at most");
    let opened = scene.moves(OPENED).await;
    assert_eq!(opened, 0.0, "one loss is one failure, however many waited");
    until("it has been stopped for long", SOON, async || stopped.elapsed() > STOPPED).await;
    scene.nodes[2].signal("CONT");
    for node in &scene.nodes {
        node.wait_for_members(3).await;
    }
    let asked = scene.proxy.seen().0;
    scene.ask_each(&keys[55..]).await;
    assert!(scene.proxy.seen().0 > asked, "requests go to the owner again");
    scene.is_remembered(0, ("members", "node-c did not say goodbye and could not be reached")).await;
    scene.is_remembered(2, ("process", "this process did not run")).await;
    say(&format!(
        "SIGSTOP of the owner: first requests p99 {:?}, out of the ring after {out_after:?}; then p50 {:?} p99 {:?}; breaker opened {opened} times",
        percentile(&waited, 99),
        percentile(&without, 50),
        percentile(&without, 99)
    ));
}

/// F10: after any unreadable answer of the peer, the node runs the query itself, and stops asking the peer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_not_understood_costs_nobody_an_answer() {
    let scene = Scene::start(PLAN).await;
    let keys = scene.keys_of(2, "babble", 40).await;
    scene.proxy.set(Mode::Babble);
    let took = scene.ask_each(&keys[..30]).await;
    let refused = scene.count("hopcache_forwards_total", "outcome=\"refused\"").await;
    let spoilt = scene.proxy.seen().1;
    assert!(refused >= 3.0 && spoilt >= 3, "{refused} refused, {spoilt} babbled");
    until("the breaker opens", SOON, async || {
        scene.ask_each(&keys[30..36]).await;
        scene.moves(OPENED).await >= 1.0
    })
    .await;
    scene.assert_peer_is_named().await;
    scene.proxy.set(Mode::Pass);
    scene.wait_until_peer_is_asked_again().await;
    assert!(!scene.entry().log().contains("panicked"));
    say(&format!(
        "F10 babble: {spoilt} answers not understood, 36 of 36 requests answered, p99 {:?}",
        percentile(&took, 99)
    ));
}

/// Two of three hops are refused, so no breaker opens. Retries stay a share of requests, and a request without a retry
/// gets an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_half_dead_peer_is_not_answered_with_a_storm_of_retries() {
    const REQUESTS: usize = 400;
    let scene = Scene::start(PLAN).await;
    let key = scene.keys_of(2, "half", 1).await.remove(0);
    let body = json!({"statement": STATEMENT, "parameters": {"k": key}});
    // Each request asks for its own read, so none shares a hop.
    let headers = format!("{}cache-control: no-cache\r\n", basic(ANN.0, ANN.1));
    let request = post("/db/neo4j/query/v2", &headers, &body.to_string());
    scene.proxy.set(Mode::Refuse { of: 3 });
    let began = Instant::now();
    let mut connection = http::Connection::open(scene.client()).await.unwrap();
    let (mut well, mut failed) = (0, 0);
    for _ in 0..REQUESTS {
        let reply = connection.ask(&request).await.unwrap();
        match reply.status {
            202 => well += 1,
            503 => {
                assert_eq!(reply.header("retry-after"), "1", "{reply}");
                failed += 1;
            }
            _ => panic!("{reply}"),
        }
    }
    let took = began.elapsed();
    let left_out = scene.count("hopcache_retries_refused_total", "").await;
    let refused = scene.count("hopcache_forwards_total", "outcome=\"refused\"").await;
    assert_eq!(scene.moves(OPENED).await, 0.0, "this tests the budget");
    assert!(refused >= REQUESTS as f64 / 2.0, "{refused}");
    let retries = refused - left_out;
    // 20 % of the requests, and 10 a second for the window and as long as it took.
    let most = 0.2 * REQUESTS as f64 + 10.0 * (10.0 + took.as_secs_f64());
    assert!(left_out > 0.0 && retries <= most, "{retries} retries of {REQUESTS} requests, {most} at most");
    assert_eq!(f64::from(failed), left_out, "each request without a retry and without a copy failed");
    assert!(scene.degraded().await["degraded"].as_array().unwrap().contains(&json!("retries")));
    assert_eq!(scene.count("hopcache_degraded", "part=\"retries\"").await, 1.0);
    scene.proxy.set(Mode::Pass);
    until("nothing is degraded", SOON, async || scene.degraded().await["degraded"] == json!([])).await;
    say(&format!(
        "retry budget: {REQUESTS} requests in {took:?}, {refused} hops refused, {retries} retries ({most:.0} at most), {failed} got 503, {well} answered"
    ));
}
