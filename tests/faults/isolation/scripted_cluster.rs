//! Three nodes on a scripted Neo4j, whose answers name their principal, and their own Redis.

use std::time::Duration;

use crate::support::process::{Addrs, NodeProcess, raise_open_files};
use crate::support::redis::RedisServer;
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::turn::Turn;

pub struct ScriptedCluster {
    pub nodes: Vec<NodeProcess>,
    pub neo4j: ScriptedNeo4j,
    _redis: RedisServer,
    _dir: tempfile::TempDir,
    _turn: Option<Turn>,
}

impl ScriptedCluster {
    /// `node` are lines of `[node]`, `origin` of `[origin]`, `entry` of `[entry]`.
    pub async fn start(users: &[(&str, &str)], delay: Duration, config: Lines<'_>) -> Self {
        let turn = Turn::take().await;
        Self::start_in(Some(turn), users, delay, config).await
    }

    /// A second one, in the turn of the first.
    pub async fn start_beside(_: &Self, users: &[(&str, &str)], delay: Duration, config: Lines<'_>) -> Self {
        Self::start_in(None, users, delay, config).await
    }

    async fn start_in(
        turn: Option<Turn>,
        users: &[(&str, &str)],
        delay: Duration,
        config: Lines<'_>,
    ) -> Self {
        raise_open_files();
        let neo4j = ScriptedNeo4j::start(users, delay).await;
        let redis = RedisServer::start().await;
        let dir = tempfile::tempdir().unwrap();
        let addrs = Addrs::free(3);
        let seeds: Vec<String> = addrs.iter().map(|each| format!("\"{}\"", each.peer)).collect();
        let text = format!(
            "{}\n[cluster]\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"{}\"\n{}\n[store]\nuri = \"{}\"\n[entry]\n{}\n",
            config.node,
            seeds.join(", "),
            neo4j.uri(),
            config.origin,
            redis.uri(),
            config.entry
        );
        let named = ["node-a", "node-b", "node-c"].into_iter().zip(addrs);
        let mut nodes: Vec<_> =
            named.map(|(name, addrs)| NodeProcess::new(dir.path(), name, addrs, &text)).collect();
        nodes.iter_mut().for_each(NodeProcess::start);
        for node in &nodes {
            node.wait_for_members(3).await;
        }
        Self { nodes, neo4j, _redis: redis, _dir: dir, _turn: turn }
    }

    /// Sum of a metric over the nodes.
    pub async fn metric(&self, name: &str, labels: &str) -> f64 {
        let mut sum = 0.0;
        for node in &self.nodes {
            sum += node.metric(name, labels).await.unwrap_or(0.0);
        }
        sum
    }
}

/// Further lines of the nodes' configuration.
#[derive(Debug, Clone, Copy)]
pub struct Lines<'a> {
    pub node: &'a str,
    pub origin: &'a str,
    pub entry: &'a str,
}

/// Pseudo-random numbers from a seed (xorshift64*), so that a run can be repeated.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(high).unwrap() % most
    }
}
