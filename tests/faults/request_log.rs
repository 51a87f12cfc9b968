//! Lines about single requests: `log.requests` and `log.slow`. No line has a literal, a parameter or a password.

use std::time::Duration;

use serde_json::json;

use crate::support::cluster::{Cluster, Plan};
use crate::support::{environment, http, say, until};

const LITERAL: &str = "canary_literal_77b1";
const PARAMETER: &str = "canary_parameter_02fe";
/// Of the patterns of the statements here.
const COLUMN: &str = "column_of_the_log";

async fn cluster(lines: &'static str) -> Cluster {
    // A prefetch would have lines of its own.
    Cluster::of(Plan { entry: lines, prefetch: None, ..Plan::default() }).await
}

async fn lines(cluster: &Cluster, message: &str, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    until(&format!("{count} lines: {message}"), Duration::from_secs(20), async || {
        let log: String = cluster.nodes.iter().map(crate::support::process::NodeProcess::log).collect();
        let ours = log.lines().filter(|line| line.contains(message) && line.contains(COLUMN));
        found = ours.map(ToOwned::to_owned).collect();
        found.len() >= count
    })
    .await;
    found
}

fn assert_no_secret(lines: &[String]) {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    for secret in [LITERAL, PARAMETER, &password] {
        let line = lines.iter().find(|line| line.contains(secret));
        assert_eq!(line, None, "a line has {secret}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_has_a_line_if_the_operator_asks_for_it() {
    let cluster = cluster("ttl = \"10m\"\n[log]\nrequests = true\nformat = \"json\"").await;
    let statement = format!("RETURN '{LITERAL}' + $p AS {COLUMN}");
    for _ in 0..2 {
        let reply = cluster.nodes[0].ask(&http::query(&statement, &json!({ "p": PARAMETER }))).await;
        assert_eq!(reply.status, 202, "{reply}");
    }
    let lines = lines(&cluster, "\"message\":\"request\"", 2).await;
    assert_no_secret(&lines);
    let of =
        |class: &str| lines.iter().filter(|line| line.contains(&format!("\"class\":\"{class}\""))).count();
    assert_eq!((lines.len(), of("miss"), of("hit")), (2, 1, 1), "{lines:?}");
    for line in &lines {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["front"], &line["status"], &line["database"]),
            (&json!("http"), &json!(202), &json!("neo4j"))
        );
        assert!(line["took_ms"].as_f64().unwrap() > 0.0, "{line}");
    }
}

/// Two lines say where the time of a slow forwarded miss went: the entry node's, and the parts at the owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_request_says_where_its_time_went() {
    let cluster = cluster("ttl = \"10m\"\n[log]\nslow = \"300ms\"").await;
    let statement = format!("RETURN '{LITERAL}' + $k AS {COLUMN}");
    let parameters = cluster.owned_by(1, &statement).await;
    cluster.proxy.delay_runs(COLUMN, Duration::from_millis(400));
    let reply = cluster.nodes[0].ask(&http::query(&statement, &parameters)).await;
    assert_eq!(reply.status, 202, "{reply}");
    let entry = lines(&cluster, "slow request", 1).await;
    let fetch = lines(&cluster, "slow fetch", 1).await;
    assert_no_secret(&entry);
    assert_no_secret(&fetch);
    assert!(entry[0].contains("owner=\"node-b\"") && entry[0].contains("class=\"miss\""), "{entry:?}");
    let run_ms = fetch[0].split("run_ms=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    assert!(run_ms.parse::<u64>().unwrap() >= 390, "{fetch:?}");
    assert!(fetch[0].contains("lease_ms=") && fetch[0].contains("queue_ms="), "{fetch:?}");
    say(&format!("{}\n{}", entry[0], fetch[0]));
    // A hit is not slow.
    assert!(cluster.nodes[0].ask(&http::query(&statement, &parameters)).await.is_hit());
    assert_eq!(lines(&cluster, "slow request", 1).await.len(), 1);
}
