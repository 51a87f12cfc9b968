//! A client that leaves ends its statement at Neo4j, as at Neo4j itself, also where the cache runs it and another node leads.
//! If somebody else waits for the same run, it goes on (F3).

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::drivers::raw::{Raw, is_running};
use crate::support::cluster::{Cluster, OwnLabel, Plan};
use crate::support::{http, say, until};

/// How a client leaves.
#[derive(Debug, Clone, Copy)]
enum Leave {
    Reset,
    Goodbye,
    Vanish,
}

const LEAVES: [Leave; 3] = [Leave::Reset, Leave::Goodbye, Leave::Vanish];
/// On a quiet machine some milliseconds. A run that goes on ends after 30 s.
const GONE_WITHIN: Duration = Duration::from_secs(3);

fn cluster() -> Plan {
    Plan { prefetch: None, ..Plan::default() }
}

/// A read that the cache takes: twelve nested loops of a hundred, with no end within any test.
fn endless(tag: &str) -> String {
    let loops: String = (0..12).map(|n| format!("UNWIND range(1, 100) AS a{n} ")).collect();
    format!("{loops} WITH a0 WHERE a0 > 100 RETURN '{tag}' AS tag")
}

async fn leave(mut raw: Raw, leave: Leave) -> Option<Raw> {
    match leave {
        Leave::Reset => {
            raw.send(&[0xB0, 0x0F]).await;
            // RUN is ignored, PULL is ignored, and RESET is answered.
            while raw.reply().await[1] != 0x70 {}
            Some(raw)
        }
        Leave::Goodbye => {
            raw.send(&[0xB0, 0x02]).await;
            None
        }
        Leave::Vanish => None,
    }
}

async fn time_until_gone(watcher: &mut Raw, tag: &str, left: Instant) -> Duration {
    until("Neo4j has ended the statement", GONE_WITHIN, async || !is_running(watcher, tag).await).await;
    left.elapsed()
}

/// Must-show 6 and 7, for what the cache runs: by itself and as the first statement of a transaction, through each node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_ends_the_run_of_a_read() {
    let label = OwnLabel::new("Leaving");
    let cluster = Cluster::of(cluster()).await;
    let mut watcher = Raw::at_neo4j().await;
    let (mut slowest, mut cases) = (Duration::ZERO, 0);
    for (node, way, in_transaction) in (0..3).flat_map(|node| {
        LEAVES
            .into_iter()
            .flat_map(move |way| [false, true].map(|in_transaction| (node, way, in_transaction)))
    }) {
        let tag = format!("{} {node} {way:?} {in_transaction}", label.0);
        let mut raw = Raw::logged_on(&cluster.nodes[node]).await;
        if in_transaction {
            raw.begin_and_run(&tag, &endless(&tag)).await;
            assert_eq!(raw.reply().await[1], 0x70, "BEGIN");
        } else {
            raw.run(&endless(&tag)).await;
        }
        until("Neo4j runs it", Duration::from_secs(20), async || is_running(&mut watcher, &tag).await).await;
        let left = Instant::now();
        let still_there = leave(raw, way).await;
        slowest = slowest.max(time_until_gone(&mut watcher, &tag, left).await);
        if let Some(mut raw) = still_there {
            raw.run("RETURN 1").await;
            assert_eq!(raw.reply().await[1], 0x70, "the connection works on");
        }
        cases += 1;
    }
    say(&format!("reads of the cache whose clients left in {cases} ways ended at Neo4j within {slowest:?}"));
}

/// The first statement of a transaction over HTTP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_a_transaction_over_http_ends_the_run_of_its_read() {
    let label = OwnLabel::new("LeavingHttp");
    let cluster = Cluster::of(cluster()).await;
    let mut watcher = Raw::at_neo4j().await;
    for (node, each) in cluster.nodes.iter().enumerate() {
        let tag = format!("{} {node}", label.0);
        let body = json!({"statement": endless(&tag)}).to_string();
        let mut client = http::connect(each.addrs.client).await.unwrap();
        client.write_all(&http::post("/db/neo4j/query/v2/tx", &http::login(), &body)).await.unwrap();
        until("Neo4j runs it", Duration::from_secs(20), async || is_running(&mut watcher, &tag).await).await;
        drop(client);
        time_until_gone(&mut watcher, &tag, Instant::now()).await;
    }
}

/// F3: a client over HTTP waits for the run that a client over Bolt leads and leaves. There is one run, at whichever node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_somebody_else_waits_for_goes_on() {
    let label = OwnLabel::new("LeavingOne");
    let cluster = Cluster::of(cluster()).await;
    cluster.proxy.delay_runs(&label.0, Duration::from_secs(2));
    for (node, way) in (0..3).flat_map(|node| LEAVES.map(|way| (node, way))) {
        let statement = format!("RETURN '{} {node} {way:?}' AS tag", label.0);
        let mut raw = Raw::logged_on(&cluster.nodes[node]).await;
        raw.run(&statement).await;
        let is_there = |runs: &[_]| runs.len() == 1;
        assert!(cluster.proxy.wait_until(&statement, Duration::from_secs(20), is_there).await, "no run");
        let (client, asked) = (cluster.nodes[node].addrs.client, http::query(&statement, &json!({})));
        let waits = tokio::spawn(async move { http::ask(client, &asked).await.unwrap() });
        // Another rendering, so at another node than the owner it is a forward of its own.
        let follows = async || {
            let explained = cluster.nodes[node].explain(&statement, &json!({})).await;
            explained["flight"]["followers"].as_u64() >= Some(1)
        };
        until("it is waited for", Duration::from_secs(2), follows).await;
        leave(raw, way).await;
        let reply = waits.await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        assert_eq!(cluster.proxy.runs(&statement), 1, "{node} {way:?}");
    }
}
