//! D1: the four official drivers through the shipped HAProxy configuration, with `neo4j://` and `bolt://`, while nodes leave, die and
//! come. `HOPCACHE_TEST_TRANSACTIONS` says how many transactions each of the eight clients makes before that and behind it (60).

use std::time::Duration;

use crate::drivers::NEO4J;
use crate::drivers::cluster::DriverResult;
use crate::drivers::install::{Driver, Running};
use crate::support::cluster::{Cluster, OwnLabel, Plan};
use crate::support::haproxy::{Haproxy, LISTED};
use crate::support::{environment, say, until};

const WAIT_MAX: Duration = Duration::from_secs(30);
const SCHEMES: [&str; 2] = ["neo4j", "bolt"];
/// How drivers name a COMMIT whose answer was lost. It may have happened, so no driver of these two runs the transaction again.
const LOST_COMMITS: [&str; 2] = ["IncompleteCommit", "during commit"];

/// Four nodes of which three run, HAProxy before them, and the eight clients, which have begun.
struct Scene {
    cluster: Cluster,
    haproxy: Haproxy,
    clients: Vec<(String, Running)>,
    _label: OwnLabel,
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    done: usize,
    /// Commits without an answer.
    lost: usize,
}

impl Scene {
    async fn start() -> Self {
        let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
        let label = OwnLabel::new("Balanced");
        let plan = Plan { seeded: 4, node: LISTED.to_owned(), prefetch: None, ..Plan::default() };
        let cluster = Cluster::of(plan).await;
        let haproxy = Haproxy::before(&cluster.nodes).await;
        let start = |driver: Driver, scheme: &str| {
            // Not the address: a driver with neo4j:// goes where the table leads it, which is what it has dialled.
            let uri = format!("{scheme}://localhost:{}", haproxy.bolt.port());
            let running = Running::of(driver, "cluster", &[&uri, "neo4j", &password, &label.0]);
            (format!("{} {} {scheme}", driver.language, driver.version), running)
        };
        let mut clients: Vec<_> = Driver::newest_of_each()
            .into_iter()
            .flat_map(|driver| SCHEMES.map(|scheme| (driver, scheme)))
            .map(|(driver, scheme)| start(driver, scheme))
            .collect();
        for (name, client) in &mut clients {
            assert_eq!(client.line(), "begun", "{name}");
        }
        Self { cluster, haproxy, clients, _label: label }
    }

    /// HAProxy has seen that a node has come, or gone. Each line says so once more than before.
    async fn says(&self, node: usize, state: &str, times: usize) {
        let line = format!("Server bolt_nodes/{} is {state}", self.cluster.nodes[node].name);
        until(&line, WAIT_MAX, async || self.haproxy.log().matches(&line).count() >= times).await;
    }

    /// A node leaves in good order and comes back.
    async fn drains_and_comes_back(&mut self, node: usize, times: usize) {
        self.cluster.nodes[node].signal("TERM");
        assert!(self.cluster.nodes[node].exit(WAIT_MAX).await.success());
        self.says(node, "DOWN", times).await;
        self.cluster.nodes[node].start();
        self.says(node, "UP", times).await;
    }

    /// Ends the clients. No error is of another kind than a commit whose answer was lost.
    fn end(self) -> Seen {
        let mut all = Seen::default();
        for (name, client) in self.clients {
            let seen: DriverResult = serde_json::from_str(&client.finish()).unwrap();
            let is_lost = |error: &&String| LOST_COMMITS.iter().any(|words| error.contains(words));
            let others: Vec<_> = seen.errors.iter().filter(|error| !is_lost(error)).collect();
            assert!(others.is_empty(), "{name}: {others:?} of {}", seen.done);
            assert!(
                seen.errors.len() <= seen.clients,
                "{name}: one commit under way for each: {:?}",
                seen.errors
            );
            // Some drivers name the address that they have looked up.
            let only = format!(":{}", self.haproxy.bolt.port());
            assert!(seen.servers.iter().all(|server| server.ends_with(&only)), "{name}: {:?}", seen.servers);
            say(&format!(
                "{name}: {} transactions, {:.0}/s, errors {:?}",
                seen.done, seen.per_s, seen.errors
            ));
            all.done += seen.done;
            all.lost += seen.errors.len();
        }
        all
    }
}

/// A node is drained, another one killed, a new one comes, and the drained one comes back: all errors that a driver shows are
/// commits whose answer was lost with the killed node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drivers_behind_haproxy_do_not_feel_nodes_that_leave_die_and_come() {
    let _writes = NEO4J.read().await;
    let mut scene = Scene::start().await;
    scene.cluster.nodes[1].signal("TERM");
    assert!(scene.cluster.nodes[1].exit(WAIT_MAX).await.success());
    scene.says(1, "DOWN", 1).await;
    scene.cluster.nodes[3].start();
    scene.says(3, "UP", 1).await;
    scene.cluster.nodes[2].kill();
    scene.says(2, "DOWN", 1).await;
    scene.cluster.nodes[1].start();
    scene.says(1, "UP", 1).await;
    let Seen { done, lost } = scene.end();
    say(&format!(
        "D1: a node drained, one killed, one new, one back: {done} transactions, {lost} commits without an answer, 0 other errors"
    ));
}

/// Each of three nodes is drained and comes back, twice: no driver shows an error, and no commit loses its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drivers_behind_haproxy_lose_nothing_to_nodes_that_are_drained() {
    let _writes = NEO4J.read().await;
    let mut scene = Scene::start().await;
    for round in 0..2 {
        for node in 0..3 {
            scene.drains_and_comes_back(node, round + 1).await;
        }
    }
    let Seen { done, lost } = scene.end();
    assert_eq!(lost, 0, "commits without an answer, of {done} transactions");
    say(&format!("D1: six nodes drained, one after the other: {done} transactions, no error"));
}
