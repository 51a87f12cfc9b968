//! A5: Neo4j answers, and slower than usual: the node says so where operators look, and says when it is over.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::cluster::{Cluster, OwnLabel, Plan};
use crate::support::http;
use crate::support::process::program;
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::{environment, say, until};

const WAIT_MAX: Duration = Duration::from_secs(30);
const AT_A_TIME: usize = 4;

/// Runs of one pattern, each of another key: none is answered by the cache. Returns the slowest.
async fn run(cluster: &Cluster, mark: &str, keys: std::ops::Range<usize>) -> Duration {
    let addr = cluster.nodes[0].addrs.client;
    let requests: Vec<_> =
        keys.map(|key| http::query(&format!("RETURN $k AS {mark}"), &json!({ "k": key }))).collect();
    let mut slowest = Duration::ZERO;
    for some in requests.chunks(AT_A_TIME) {
        let replies = http::crowd(some.iter().map(|request| (addr, request.clone())).collect()).await;
        for reply in replies {
            let reply = reply.expect("an answer");
            assert_eq!(reply.status, 202, "{reply}");
            slowest = slowest.max(reply.took);
        }
    }
    slowest
}

fn status(cluster: &Cluster) -> String {
    let url = format!("http://{}", cluster.nodes[0].addrs.admin);
    let output = Command::new(program()).args(["status", "--admin-url", &url]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_neo4j_that_is_slower_than_usual_is_said_with_its_factor_and_its_hour() {
    let mark = OwnLabel::new("Usual").0.clone();
    let neo4j =
        ScriptedNeo4j::start(&[("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD"))], Duration::ZERO)
            .await;
    let plan =
        Plan { started: 1, seeded: 1, upstream: Some(neo4j.addr()), prefetch: None, ..Plan::default() };
    let cluster = Cluster::of(plan).await;
    let node = &cluster.nodes[0];
    let usual = run(&cluster, &mark, 0..64).await;
    assert!(!node.is_degraded("slow").await, "as usual");
    assert!(!status(&cluster).contains("slower than usual since"), "{}", status(&cluster));

    // However busy the machine is, that is over four times as long as usual.
    cluster.proxy.delay_runs(&mark, 5 * usual.max(Duration::from_millis(20)));
    run(&cluster, &mark, 64..152).await;
    until("it is degraded", WAIT_MAX, async || node.is_degraded("slow").await).await;
    let ready: Value = node.admin("/readyz").await.unwrap().json();
    let said = ready["why"]["slow"].as_str().expect("a sentence").to_owned();
    assert!(said.starts_with("Neo4j answers ") && said.contains(" times slower than usual since "), "{said}");
    assert_eq!(ready["status"], "ready", "it serves");
    let factor = node.metric("hopcache_origin_slowdown", "").await.unwrap();
    assert!(factor > 4.0, "{factor}");
    assert!(status(&cluster).contains("slower than usual since"), "{}", status(&cluster));
    until("the log has it", WAIT_MAX, async || node.log().contains("slower than usual since")).await;

    cluster.proxy.heal();
    run(&cluster, &mark, 152..480).await;
    until("it is over", WAIT_MAX, async || !node.is_degraded("slow").await).await;
    until("the log has its end", WAIT_MAX, async || node.log().contains("as fast as usual again")).await;
    let told = node.log().matches("slower than usual since").count();
    assert_eq!(told, 1, "one line for each time");
    say(&format!("A5: {said} (hopcache_origin_slowdown {factor:.1})"));
}
