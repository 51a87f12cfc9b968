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

/// A node is drained, another one killed, a new one comes, and the drained one comes back: all errors that a driver shows are
/// commits whose answer was lost with the killed node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drivers_behind_haproxy_do_not_feel_nodes_that_leave_die_and_come() {
    let _writes = NEO4J.read().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let label = OwnLabel::new("Balanced");
    let plan = Plan { seeded: 4, node: LISTED.to_owned(), prefetch: None, ..Plan::default() };
    let mut cluster = Cluster::of(plan).await;
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
    let says = async |line: &str| {
        until(line, WAIT_MAX, async || haproxy.log().contains(line)).await;
    };
    cluster.nodes[1].signal("TERM");
    assert!(cluster.nodes[1].exit(WAIT_MAX).await.success());
    says("Server bolt_nodes/node-b is DOWN").await;
    cluster.nodes[3].start();
    says("Server bolt_nodes/node-d is UP").await;
    cluster.nodes[2].kill();
    says("Server bolt_nodes/node-c is DOWN").await;
    cluster.nodes[1].start();
    says("Server bolt_nodes/node-b is UP").await;

    let (mut done, mut lost) = (0, 0);
    for (name, client) in clients {
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
        let only = format!(":{}", haproxy.bolt.port());
        assert!(seen.servers.iter().all(|server| server.ends_with(&only)), "{name}: {:?}", seen.servers);
        say(&format!("{name}: {} transactions, {:.0}/s, errors {:?}", seen.done, seen.per_s, seen.errors));
        (done, lost) = (done + seen.done, lost + seen.errors.len());
    }
    say(&format!(
        "D1: a node drained, one killed, one new, one back: {done} transactions, {lost} commits without an answer, 0 other errors"
    ));
}
