//! The cluster key is changed while clients ask: three rolling restarts, every hit stays a hit, nothing fails.

use std::time::Instant;

use super::{Party, Spec, log_count, name, question};
use crate::support::process::{Addrs, NodeProcess};
use crate::support::redis::RedisServer;
use crate::support::say;

const OLD: &str = "the key until this morning";
const NEW: &str = "the key from this evening on";
const QUERIES: usize = 12;

/// The steps of `cluster.previous_key_file`'s documentation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_is_changed_without_a_miss() {
    let (mut party, redis) = (Party::new().await, RedisServer::start().await);
    let (addrs, store) = (Addrs::free(3), redis.uri());
    let seeds: Vec<_> = addrs.iter().map(|each| each.peer).collect();
    let step = |key: &'static str, cluster: &str| Spec {
        key,
        cluster: cluster.to_owned(),
        store: store.clone(),
        ..Spec::seeded(&seeds)
    };
    let data = format!("data_key = \"{OLD}\"");
    let steps = [
        step(OLD, &format!("{data}\nprevious_key = \"{NEW}\"")),
        step(NEW, &format!("{data}\nprevious_key = \"{OLD}\"")),
        step(NEW, &data),
    ];
    for (place, addrs) in addrs.iter().enumerate() {
        party.start(&name(place), *addrs, &step(OLD, ""));
    }
    party.wait_for(3).await;
    for k in 0..QUERIES {
        assert_eq!(party.nodes[0].ask(&question(k)).await.value(), k);
    }
    let (began, mut asked) = (Instant::now(), 0);
    for spec in &steps {
        for (place, addrs) in addrs.iter().enumerate() {
            party.nodes[place].signal("TERM");
            let left = party.nodes[place].exit(super::WAIT_MAX).await;
            assert!(left.success(), "{left}");
            asked += all_hit(&party.nodes, |other| other != place).await;
            let config = spec.config();
            let mut node = NodeProcess::new(party.dir.path(), &name(place), *addrs, &config);
            node.start();
            party.nodes[place] = node;
            party.wait_for(3).await;
            asked += all_hit(&party.nodes, |_| true).await;
        }
    }
    say(&format!("nine restarts in {} ms, {asked} answers, all of them hits", began.elapsed().as_millis()));
    for node in &party.nodes {
        assert_eq!(log_count(node, "another cluster's key or name"), 0, "{}: {}", node.name, node.log());
    }
}

/// Every query at every chosen node is a hit; how many were asked.
async fn all_hit(nodes: &[NodeProcess], chosen: impl Fn(usize) -> bool) -> usize {
    let mut asked = 0;
    for (place, node) in nodes.iter().enumerate().filter(|(place, _)| chosen(*place)) {
        for k in 0..QUERIES {
            let reply = node.ask(&question(k)).await;
            assert!(reply.status == 202 && reply.is_hit(), "{place} {k}: {reply}");
            asked += 1;
        }
    }
    asked
}
