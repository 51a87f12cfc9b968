//! The same program sees the same: values, summaries, counters, notifications, errors with their GQL status, transactions.

use crate::NEO4J;
use crate::install::{run_javascript, run_python};
use crate::support::cluster::OwnLabel;
use crate::support::environment;
use crate::support::lone::{Lone, Spec};

/// Runs a program against Neo4j and against a node before it, over `bolt://` and `neo4j://`, and compares what it saw.
async fn same(run: fn(&[&str]) -> Vec<String>, label: &str, hits_min: f64) {
    let _writes = NEO4J.read().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let label = OwnLabel::new(label);
    let direct = environment("HOPCACHE_TEST_NEO4J_BOLT");
    let expected = run(&[&direct, "neo4j", &password, &label.0]);
    assert!(expected.len() > 10, "{expected:?}");
    for scheme in ["bolt", "neo4j"] {
        // A node of its own each time: the first read of a statement is a miss, the second a hit.
        let node = Lone::start(&Spec::on("memory:")).await;
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
