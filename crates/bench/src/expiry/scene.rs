//! The processes of one measurement: three nodes, their own Redis, and the origin behind the delaying proxy. Every
//! measurement has new processes, so nothing is warm from an earlier one.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use super::delay::Delays;
use super::proxy;
use crate::bolt_origin::BoltOrigin;
use hopcache_testbed::bolt_proxy::BoltProxy;
use hopcache_testbed::http::Connection;
use hopcache_testbed::process::{
    ClusterPlan, NodeAddrs, PREFETCH_OFF, Process, get, hopcache_binary, start_cluster, start_redis, tempdir,
};
use hopcache_testbed::{metrics, neo4j};

/// Nodes of a measurement that does not say otherwise.
pub(crate) const NODES: usize = 3;
/// Length of the scripted origin's one value.
const SCRIPTED_BYTES: usize = 200;

const COUNTERS: [&str; 6] = [
    "hopcache_refresh_late_total",
    "xfetch_refresh_triggered_total",
    "xfetch_refresh_failed_total",
    "xfetch_stale_served_total",
    "single_flight_hits_total",
    "stampede_events_total",
];

/// The origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Origin {
    /// The Neo4j of `HOPCACHE_TEST_NEO4J_BOLT`, behind the delaying proxy.
    Neo4j,
    /// A scripted Bolt server in this process, behind the same proxy.
    Scripted,
}

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) origin: Origin,
    pub(crate) nodes: usize,
    /// More lines of `[entry]`.
    pub(crate) entry: &'static str,
    /// Further sections of the configuration.
    pub(crate) sections: String,
    pub(crate) ttl: Duration,
    pub(crate) jitter: f64,
    /// Mean delay that the proxy adds to each run.
    pub(crate) delay: Duration,
    /// `origin.max_concurrent` of each node.
    pub(crate) concurrent_max: u32,
    pub(crate) seed: u64,
}

/// Everything that runs. Dropped in this order: clients go before servers.
pub(crate) struct Scene {
    nodes: Vec<(Process, NodeAddrs)>,
    _redis: Process,
    pub(crate) proxy: BoltProxy,
    _scripted: Option<BoltOrigin>,
}

impl Scene {
    pub(crate) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        let delays = Delays::new(plan.delay, plan.seed);
        let (proxy, scripted) = match plan.origin {
            Origin::Neo4j => (proxy::start(&neo4j::bolt()?, delays).await?, None),
            Origin::Scripted => {
                let server = BoltOrigin::start(SCRIPTED_BYTES).await?;
                (proxy::start(&server.addr().to_string(), delays).await?, Some(server))
            }
        };
        let dir = tempdir()?;
        let (redis, redis_addr) = start_redis(&dir)?;
        let uri = format!("bolt://{}", proxy.addr());
        let common = configuration(plan, &uri, redis_addr);
        let binary = hopcache_binary()?;
        let cluster = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "" };
        let started = start_cluster(&cluster, plan.nodes).await;
        let nodes = started.with_context(|| {
            let log = std::fs::read_to_string(dir.join("node-0.log")).unwrap_or_default();
            format!("the nodes do not start; logs in {}; the first one says:\n{log}", dir.display())
        })?;
        Ok(Self { nodes, _redis: redis, proxy, _scripted: scripted })
    }

    /// Where clients ask.
    pub(crate) fn clients(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|(_, addrs)| addrs.client).collect()
    }

    /// All nodes' metrics, one behind the other: a [`metrics::sum`] over it is one over the nodes.
    pub(crate) async fn metrics(&self) -> anyhow::Result<String> {
        metrics_of(&self.admins()).await
    }

    /// Where operators ask.
    pub(crate) fn admins(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|(_, addrs)| addrs.admin).collect()
    }

    /// The nodes' own counts, for the report, beside the figures measured from outside.
    pub(crate) async fn counters_text(&self) -> anyhow::Result<String> {
        let (text, mut counters) = (self.metrics().await?, Vec::new());
        for name in COUNTERS {
            let count = metrics::sum(&text, name, "").map_or("none".to_owned(), |count| count.to_string());
            counters.push(format!("{name} {count}"));
        }
        Ok(counters.join(", "))
    }

    /// The CPU time that all nodes have used.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(|(process, _)| process.cpu()).sum()
    }
}

/// All these nodes' metrics, one behind the other.
pub(crate) async fn metrics_of(admins: &[SocketAddr]) -> anyhow::Result<String> {
    let mut text = String::new();
    for admin in admins {
        text.push_str(&get(*admin, "/metrics").await?);
    }
    Ok(text)
}

fn configuration(plan: &Plan, uri: &str, redis: SocketAddr) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "[origin]\nuri = \"{uri}\"\nmax_concurrent = {}\ntimeout = \"30s\"",
        plan.concurrent_max
    );
    let _ = writeln!(text, "[store]\nuri = \"redis://{redis}\"");
    let _ = writeln!(text, "[entry]\nttl = \"{}ms\"\nttl_jitter = {:?}", plan.ttl.as_millis(), plan.jitter);
    let _ = writeln!(text, "{}{}[log]\nlevel = \"warn\"", plan.entry, plan.sections);
    // What is measured is the end of a TTL.
    if !plan.sections.contains("[freshness]") {
        text.push_str("[freshness]\nmax_life = \"0s\"\n");
    }
    // Arms are compared by their runs, so prefetch is off unless it is measured.
    if !plan.sections.contains("[prefetch]") {
        text.push_str(PREFETCH_OFF);
    }
    text
}

/// `Authorization` for an origin that asks for it, with its line end.
pub(crate) fn login(origin: Origin) -> anyhow::Result<String> {
    let password = match origin {
        Origin::Neo4j => neo4j::password()?,
        Origin::Scripted => "believed".to_owned(),
    };
    Ok(neo4j::basic("neo4j", &password))
}

/// Rows of a statement's answer, from a node or from Neo4j itself.
pub(crate) async fn ask(addr: SocketAddr, request: &[u8]) -> anyhow::Result<Vec<Value>> {
    let answer = Connection::open(addr).await?.ask(request).await?;
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match body["data"]["values"].as_array() {
        Some(rows) if answer.status() == 202 => Ok(rows.clone()),
        _ => bail!("{}{}", answer.head, String::from_utf8_lossy(&answer.body)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::strategy::Strategy;
    use super::*;

    #[test]
    fn strategies_differ_in_configuration_only() {
        let plan = |strategy: Strategy| Plan {
            origin: Origin::Scripted,
            nodes: NODES,
            entry: strategy.entry(),
            sections: strategy.sections(),
            ttl: Duration::from_secs(5),
            jitter: 0.0,
            delay: Duration::ZERO,
            concurrent_max: 8,
            seed: 1,
        };
        let text = |strategy| configuration(&plan(strategy), "bolt://x:1", "127.0.0.1:1".parse().unwrap());
        let texts: Vec<String> = Strategy::ALL.map(text).to_vec();
        assert!(texts[0].contains("ttl = \"5000ms\"\nttl_jitter = 0.0\ngrace = 0.0\n"));
        assert!(texts[3].contains("grace = 0.5\n[refresh]\nmode = \"adaptive\"\n"));
        assert!((1..4).all(|place| texts[place] != texts[place - 1]));
    }
}
