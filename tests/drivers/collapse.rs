//! I1 over Bolt: one run in the whole cluster, however many connections ask.

use std::time::Duration;

use tokio::time::Instant;

use crate::drivers::raw::Raw;
use crate::support::cluster::{Cluster, Plan};
use crate::support::process::raise_open_files;
use crate::support::{say, size};

const SECOND: Duration = Duration::from_secs(1);
/// Connections that log on at a time: each log-on of a new principal would wait for Neo4j.
const LOGONS_AT_A_TIME: usize = 100;

/// `HOPCACHE_TEST_BOLT_CROWD=2000` for more connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_bolt_connections_costs_one_run() {
    raise_open_files();
    let cluster = Cluster::of(Plan { prefetch: None, ..Plan::default() }).await;
    cluster.proxy.delay_runs("one cold key over Bolt", SECOND);
    let crowd = size("HOPCACHE_TEST_BOLT_CROWD", 300);
    let mut open = Vec::new();
    while open.len() < crowd {
        let more = (open.len()..crowd.min(open.len() + LOGONS_AT_A_TIME))
            .map(|at| Raw::logged_on(&cluster.nodes[at % cluster.nodes.len()]));
        open.extend(futures_util::future::join_all(more).await);
    }
    let asked = open.into_iter().map(async |mut raw| {
        let began = Instant::now();
        raw.run("RETURN 'one cold key over Bolt' AS what").await;
        let replies = [raw.reply().await, raw.reply().await, raw.reply().await];
        assert_eq!(replies.each_ref().map(|reply| reply[1]), [0x70, 0x71, 0x70]);
        let [_, record, _] = replies;
        (record, began.elapsed(), raw)
    });
    let answered = futures_util::future::join_all(asked).await;
    let slowest = answered.iter().map(|(_, took, _)| *took).max().unwrap();
    assert!(answered.iter().all(|(record, ..)| *record == answered[0].0));
    let runs = cluster.proxy.runs("one cold key over Bolt");
    say(&format!(
        "I1 over Bolt: {crowd} connections of 3 nodes, {runs} run, slowest {} ms",
        slowest.as_millis()
    ));
    assert_eq!(runs, 1, "runs at Neo4j");
}
