//! Lines about single requests: `log.requests` and `log.slow`. No line has a literal, a parameter or a password.

use std::time::Duration;

use serde_json::json;

use crate::support::bolt_client::BoltClient;
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
    let figure = |line: &str, name: &str| -> f64 {
        let text = line.split(&format!(" {name}=")).nth(1).and_then(|rest| rest.split(' ').next());
        text.unwrap_or_else(|| panic!("{name}: {line}")).parse().unwrap()
    };
    // The owner's work is a part of the hop, and the hop is a part of the request.
    let (took_ms, hop_ms) = (figure(&entry[0], "took_ms"), figure(&entry[0], "hop_ms"));
    assert!(hop_ms >= 390.0 && hop_ms <= took_ms, "{entry:?}");
    assert!(hop_ms + 1.0 >= figure(&fetch[0], "took_ms"), "{entry:?} {fetch:?}");
    say(&format!("{}\n{}", entry[0], fetch[0]));
    // A hit is not slow.
    assert!(cluster.nodes[0].ask(&http::query(&statement, &parameters)).await.is_hit());
    assert_eq!(lines(&cluster, "slow request", 1).await.len(), 1);
}

/// What goes to Neo4j past the cache over Bolt has a line as well: by itself, in a transaction, and when Neo4j refuses it. So has a
/// slow miss whose records are streamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_statement_past_the_cache_has_a_line_too() {
    let cluster = cluster("ttl = \"10m\"\n[log]\nslow = \"300ms\"").await;
    let mut client = BoltClient::connect(cluster.nodes[0].addrs.bolt).await.unwrap();
    client.log_on("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD")).await.unwrap().unwrap();
    let (write, volatile) = (
        format!("CREATE (n:HcSlow {{k: '{LITERAL}'}}) DELETE n RETURN 1 AS {COLUMN}_write"),
        format!("RETURN rand() AS {COLUMN}_volatile, '{LITERAL}' AS literal, $p AS parameter"),
    );
    let (broken, miss) = (
        format!("CREATE (n:HcSlow {{k: 1 / 0}}) RETURN n AS {COLUMN}_broken"),
        format!("RETURN $k AS {COLUMN}_miss"),
    );
    cluster.proxy.delay_runs(COLUMN, Duration::from_millis(400));
    let parameters = json!({ "p": PARAMETER });
    client.write("neo4j", &write, &parameters).await.unwrap().unwrap();
    client.run("neo4j", &volatile, &parameters).await.unwrap().unwrap();
    client.write_in_transaction("neo4j", &write, &parameters).await.unwrap().unwrap();
    client.write("neo4j", &broken, &parameters).await.unwrap().unwrap_err();
    client.run("neo4j", &miss, &cluster.owned_by(0, &miss).await).await.unwrap().unwrap();
    let lines = lines(&cluster, "slow request", 5).await;
    assert_no_secret(&lines);
    let count =
        |words: &[&str]| lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
    assert_eq!(count(&["front=\"bolt\""]), 5, "{lines:#?}");
    assert_eq!(count(&["class=\"bypass\"", "detail=\"write\"", "status=202", "_write"]), 2, "{lines:#?}");
    assert_eq!(count(&["class=\"bypass\"", "detail=\"volatile-function\"", "status=202"]), 1, "{lines:#?}");
    assert_eq!(count(&["class=\"bypass\"", "status=400", "_broken"]), 1, "{lines:#?}");
    assert_eq!(count(&["class=\"miss\"", "_miss"]), 1, "{lines:#?}");
}
