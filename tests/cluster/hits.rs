//! A hit costs the store and the origin nothing.

use serde_json::json;

use crate::support::cluster::Cluster;
use crate::support::{http, say};

/// A hit from the owner's memory, forwarded or not, touches neither Redis nor Neo4j (DESIGN section 3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hit_costs_no_redis_command_and_no_run() {
    let cluster = Cluster::start().await;
    let request = http::query("RETURN 'a hit' AS what", &json!({}));
    for node in &cluster.nodes {
        node.ask(&request).await;
    }
    cluster.redis.committed().await;
    let before = cluster.redis.calls();
    // A node asks for the home database of whom it has just accepted, and for the server's edition: that is no hit's doing.
    let own = ["RETURN 1", "CALL dbms.components()"];
    let runs = || {
        let of_nodes: usize = own.iter().map(|question| cluster.proxy.runs(question)).sum();
        cluster.proxy.runs("") - of_nodes
    };
    let runs_before = runs();
    for _ in 0..100 {
        for node in &cluster.nodes {
            let reply = node.ask(&request).await;
            assert!(reply.is_hit(), "{reply}");
        }
    }
    let after = cluster.redis.calls();
    let grew =
        |command: &str| after.get(command).copied().unwrap_or(0) - before.get(command).copied().unwrap_or(0);
    assert_eq!(runs(), runs_before, "a hit ran at Neo4j");
    // Redis counts scripts together with their calls. Each poll of the invalidation log is one EVALSHA that calls
    // XREVRANGE once. Each look for writes is one that calls GET four times, LLEN once and SET twice, and each report of a watcher one
    // that calls GET once, and SET if the report is kept. Every script on a key's slot reads it with GETRANGE or GET.
    for command in ["getrange", "del", "pttl"] {
        assert_eq!(grew(command), 0, "{command} of 300 hits");
    }
    let (polls, scripts) = (grew("xrevrange"), grew("evalsha") + grew("eval"));
    // get = 4 × looks + reports; scripts = polls + looks + reports.
    let looks = (polls + grew("get") - scripts) / 3;
    let reports = scripts - polls - looks;
    assert_eq!(grew("get"), 4 * looks + reports, "GET of 300 hits");
    assert!((2 * looks..=2 * looks + reports).contains(&grew("set")), "SET of 300 hits");
    say(&format!(
        "hits: 300, runs 0, Redis: {polls} polls of the invalidation log, {looks} looks for writes, {reports} reports, and nothing else"
    ));
}
