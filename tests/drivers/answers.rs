//! The same program sees the same: values, summaries, counters, notifications, errors with their GQL status,
//! transactions. Before Neo4j, and before a cluster before it: over `bolt://`, `neo4j://`, plain and TLS.

use crate::drivers::NEO4J;
use crate::drivers::install::{Driver, file};
use crate::support::authority::Authority;
use crate::support::cluster::{Cluster, OwnLabel, Plan};
use crate::support::environment;

/// A driver, and what its program sees at Neo4j: over `bolt://` and over `neo4j://`.
struct Expected {
    driver: Driver,
    lines: [Vec<String>; 2],
}

impl Expected {
    fn of(driver: Driver) -> Self {
        let neo4j = environment("HOPCACHE_TEST_NEO4J_BOLT");
        let address = neo4j.trim_start_matches("bolt://");
        let lines = ["bolt", "neo4j"].map(|scheme| answers(driver, &format!("{scheme}://{address}")));
        assert!(lines[0].len() > 40, "{lines:?}");
        Self { driver, lines }
    }

    /// What the program sees elsewhere, and not at Neo4j, line by line.
    fn differences(&self, uri: &str) -> Vec<String> {
        let Driver { language, version } = self.driver;
        let lines = &self.lines[usize::from(uri.starts_with("neo4j"))];
        let seen = answers(self.driver, uri);
        let mut found = Vec::new();
        for (expected, seen) in lines.iter().zip(&seen).filter(|(expected, seen)| expected != seen) {
            found.push(format!("{language} {version} {uri}\n   Neo4j: {expected}\nHopcache: {seen}"));
        }
        if seen.len() != lines.len() {
            found.push(format!("{language} {version} {uri}: {} lines, {} at Neo4j", seen.len(), lines.len()));
        }
        found
    }
}

/// What the program sees, with a label of its own: nothing of an earlier run is in the cache. All labels have one length,
/// for the positions in messages.
fn answers(driver: Driver, uri: &str) -> Vec<String> {
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let statements = file("statements.cypher");
    let label = OwnLabel::new("Driver");
    let args = [uri, "neo4j", &password, &label.0, statements.to_str().unwrap()];
    driver.run("answers", &args).iter().map(|line| line.replace(&label.0, "LABEL")).collect()
}

async fn hits(cluster: &Cluster) -> f64 {
    let mut hits = 0.0;
    for node in &cluster.nodes {
        hits += node.metric("cache_hit_total", "").await.unwrap_or(0.0);
    }
    hits
}

/// Every driver's program before a cluster. A program is one after the other, since three wrong passwords in a row lock
/// Neo4j's user out.
async fn before_a_cluster(expected: &[Expected], schemes: [&str; 2], node: String) -> Vec<String> {
    let cluster = Cluster::of(Plan { node, ..Plan::default() }).await;
    let mut found = Vec::new();
    for (each, (place, scheme)) in
        expected.iter().flat_map(|each| schemes.iter().enumerate().map(move |scheme| (each, scheme)))
    {
        let before = hits(&cluster).await;
        found.extend(each.differences(&format!("{scheme}://{}", cluster.nodes[place].addrs.bolt)));
        let hits = hits(&cluster).await - before;
        // A Bolt 4 client bypasses the cache.
        if each.driver.major() > 4 && hits < 6.0 {
            found.push(format!("{:?} {scheme}: second reads are hits: {hits}", each.driver));
        }
    }
    found
}

/// Must-show 1: the newest driver of each language; older ones with `HOPCACHE_TEST_DRIVERS=all`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_sees_what_neo4j_shows() {
    let _writes = NEO4J.read().await;
    let expected: Vec<Expected> = Driver::tested().into_iter().map(Expected::of).collect();
    let mut found = before_a_cluster(&expected, ["bolt", "neo4j"], String::new()).await;
    let certificates = tempfile::tempdir().unwrap();
    let pair = Authority::new(certificates.path(), "authority").server(certificates.path(), "node");
    let tls = format!("client_tls = {}", pair.toml());
    found.extend(before_a_cluster(&expected, ["bolt+ssc", "neo4j+ssc"], tls).await);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
