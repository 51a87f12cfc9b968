//! Nodes on a scripted Neo4j, whose answers name their principal, and a Redis of their own.

use std::time::Duration;

use super::process::{Addrs, NodeProcess, raise_open_files};
use super::redis::RedisServer;
use super::scripted_neo4j::ScriptedNeo4j;
use super::turn::Turn;

pub struct ScriptedCluster {
    pub nodes: Vec<NodeProcess>,
    pub neo4j: ScriptedNeo4j,
    _redis: RedisServer,
    _dir: tempfile::TempDir,
    _turn: Option<Turn>,
}

/// How many nodes there are, and the file for the first one's stderr, if that is not its log.
#[derive(Debug)]
pub struct Nodes(pub usize, pub Option<std::fs::File>);

impl ScriptedCluster {
    /// Three nodes. Each run takes this time.
    pub async fn start(users: &[(&str, &str)], delay: Duration, lines: Lines<'_>) -> Self {
        Self::of(Nodes(3, None), users, delay, lines).await
    }

    pub async fn of(nodes: Nodes, users: &[(&str, &str)], delay: Duration, lines: Lines<'_>) -> Self {
        let turn = Turn::take().await;
        Self::start_in(Some(turn), nodes, (users, delay), lines).await
    }

    /// A second one, in the turn of the first.
    pub async fn start_beside(_: &Self, users: &[(&str, &str)], delay: Duration, lines: Lines<'_>) -> Self {
        Self::start_in(None, Nodes(3, None), (users, delay), lines).await
    }

    async fn start_in(
        turn: Option<Turn>,
        Nodes(count, stderr): Nodes,
        (users, delay): (&[(&str, &str)], Duration),
        lines: Lines<'_>,
    ) -> Self {
        raise_open_files();
        let neo4j = ScriptedNeo4j::start(users, delay).await;
        let redis = RedisServer::start().await;
        let dir = tempfile::tempdir().unwrap();
        let addrs = Addrs::free(count);
        let seeds: Vec<String> = addrs.iter().map(|each| format!("\"{}\"", each.peer)).collect();
        let text = format!(
            "{}\n[cluster]\nseeds = [{}]\nkey = \"the key of a test's cluster\"\n[origin]\nuri = \"{}\"\n{}\n[store]\nuri = \"{}\"\n[entry]\n{}\n",
            lines.node,
            seeds.join(", "),
            neo4j.uri(),
            lines.origin,
            redis.uri(),
            lines.entry
        );
        let named = ["node-a", "node-b", "node-c"].into_iter().zip(addrs);
        let mut nodes: Vec<_> =
            named.map(|(name, addrs)| NodeProcess::new(dir.path(), name, addrs, &text)).collect();
        nodes[0].stderr = stderr;
        nodes.iter_mut().for_each(NodeProcess::start);
        for node in &nodes {
            node.wait_for_members(count).await;
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
