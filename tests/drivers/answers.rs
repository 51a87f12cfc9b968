//! The same program sees the same: values, summaries, counters, notifications, errors with their GQL status,
//! transactions.

use crate::NEO4J;
use crate::install::{run_javascript, run_python};
use crate::support::authority::Authority;
use crate::support::cluster::OwnLabel;
use crate::support::environment;
use crate::support::lone::{Lone, Spec};

/// Runs a program against Neo4j and against a node before it, over `bolt://`, `neo4j://` and TLS, and compares what it saw.
async fn same(run: fn(&[&str]) -> Vec<String>, label: &str, hits_min: f64) {
    let _writes = NEO4J.read().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let label = OwnLabel::new(label);
    let direct = environment("HOPCACHE_TEST_NEO4J_BOLT");
    let expected = run(&[&direct, "neo4j", &password, &label.0]);
    assert!(expected.len() > 10, "{expected:?}");
    let certificates = tempfile::tempdir().unwrap();
    let pair = Authority::new(certificates.path(), "authority").server(certificates.path(), "node");
    let tls = format!("drain = \"2s\"\nclient_tls = {}", pair.toml());
    for (scheme, node) in [("bolt", None), ("neo4j", None), ("neo4j+ssc", Some(tls))] {
        // A node of its own each time: the first read of a statement is a miss, the second a hit.
        let spec = Spec::on("memory:");
        let node = node.unwrap_or_else(|| spec.node.clone());
        let node = Lone::start(&Spec { node, ..spec }).await;
        let seen = run(&[&format!("{scheme}://{}", node.addrs.bolt), "neo4j", &password, &label.0]);
        for (expected, seen) in expected.iter().zip(&seen) {
            assert_eq!(seen, expected, "{scheme}");
        }
        assert_eq!(seen.len(), expected.len());
        let hits = node.count("cache_hit_total", "").await;
        assert!(hits >= hits_min, "second reads are hits: {hits}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_python_driver_sees_what_neo4j_shows() {
    same(|args| run_python("answers.py", args), "Python", 6.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_javascript_driver_sees_what_neo4j_shows() {
    same(|args| run_javascript("answers.js", args), "JavaScript", 4.0).await;
}
