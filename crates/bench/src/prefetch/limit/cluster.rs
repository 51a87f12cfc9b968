//! One arm's cluster: it answers the trace as fast as it can, and says what that costs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use hopcache_testbed::http::Connection;
use hopcache_testbed::neo4j;
use hopcache_testbed::process::{
    ClusterPlan, NodeAddrs, Process, get, hopcache_binary, start_cluster, start_redis, tempdir,
};
use tokio::task::JoinSet;

use crate::prefetch::counts::Counts;
use crate::prefetch::pages::Page;

/// What all arms have in common.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) clients: usize,
    pub(super) nodes: usize,
    pub(super) ttl_s: u64,
}

/// One request of the trace.
pub(super) struct Ask {
    pub(super) bytes: Vec<u8>,
    pub(super) turn: usize,
    pub(super) page: Page,
}

/// One answer.
pub(super) struct Answered {
    pub(super) page: Page,
    pub(super) took_us: u64,
    pub(super) is_ok: bool,
}

/// What a cluster has shown.
pub(super) struct Found {
    pub(super) answers: Vec<Answered>,
    /// How long it was asked.
    pub(super) took: Duration,
    pub(super) counts: Counts,
    /// CPU time of its nodes: while they were asked, and in all.
    pub(super) cpu: [Duration; 2],
    /// The nodes' limits at the end, and the machine's load.
    pub(super) limits: String,
}

/// Nodes and their store.
pub(super) struct Cluster {
    load: Load,
    nodes: Vec<(Process, NodeAddrs)>,
    _redis: Process,
}

impl Cluster {
    pub(super) async fn start(load: Load, arm: &str) -> anyhow::Result<Self> {
        let (dir, binary) = (tempdir()?, hopcache_binary()?);
        let (redis, redis_addr) = start_redis(&dir)?;
        let common = configuration(load, arm, &redis_addr.to_string())?;
        let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "" };
        let nodes = start_cluster(&plan, load.nodes).await?;
        Ok(Self { load, nodes, _redis: redis })
    }

    /// Asks the whole trace, waits for all answers, and ends the nodes.
    pub(super) async fn answer(self, trace: &Arc<Vec<Ask>>) -> anyhow::Result<Found> {
        let addrs: Vec<_> = self.nodes.iter().map(|(_, addrs)| addrs.client).collect();
        let cpu_before = self.cpu_so_far()?;
        let (began, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for _ in 0..self.load.clients {
            clients.spawn(client(addrs.clone(), Arc::clone(trace), Arc::clone(&next)));
        }
        let mut answers = Vec::new();
        while let Some(ended) = clients.join_next().await {
            answers.extend(ended??);
        }
        let (took, cpu_asked) = (began.elapsed(), self.cpu_so_far()?);
        let (mut metrics, mut limits) = (String::new(), Vec::new());
        for (_, addrs) in &self.nodes {
            let text = get(addrs.admin, "/metrics").await?;
            let limit = hopcache_testbed::metrics::sum(&text, "hopcache_origin_limit", "").unwrap_or(0);
            limits.push(limit.to_string());
            metrics.push_str(&text);
        }
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let limits = format!("{}; {}", limits.join(" "), load.split(' ').next().unwrap_or(""));
        let cpu = [cpu_asked.saturating_sub(cpu_before), cpu_asked];
        Ok(Found { answers, took, counts: Counts::of(&metrics), cpu, limits })
    }

    fn cpu_so_far(&self) -> anyhow::Result<Duration> {
        self.nodes.iter().map(|(process, _)| process.cpu()).sum()
    }
}

fn configuration(load: Load, arm: &str, redis: &str) -> anyhow::Result<String> {
    let (limit, prefetch) = match arm.split_once('-') {
        None => (arm, ""),
        Some((limit, "off")) => (limit, "[prefetch]\nenabled = false\n"),
        Some((limit, "learning")) => (limit, "[prefetch]\nmax_queries = 0\n"),
        Some((limit, "alone")) => (limit, "[prefetch]\ngossip = false\n"),
        Some((_, other)) => bail!("{arm}: -{other} is none of -off, -learning and -alone"),
    };
    let limit = if limit.parse::<u32>().is_ok() { limit.to_owned() } else { format!("{limit:?}") };
    Ok(format!(
        "[origin]\nuri = \"bolt://{}\"\nmax_concurrent = {limit}\n[store]\nuri = \"redis://{redis}\"\n[entry]\nttl = \"{}s\"\n[log]\nlevel = \"warn\"\n{prefetch}",
        neo4j::bolt()?,
        load.ttl_s
    ))
}

async fn client(
    addrs: Vec<SocketAddr>,
    trace: Arc<Vec<Ask>>,
    next: Arc<AtomicUsize>,
) -> anyhow::Result<Vec<Answered>> {
    let mut connections: Vec<Option<Connection>> = addrs.iter().map(|_| None).collect();
    let mut answers = Vec::new();
    while let Some(ask) = trace.get(next.fetch_add(1, Ordering::Relaxed)) {
        let (sent, place) = (Instant::now(), ask.turn % addrs.len());
        let status = ask_at(addrs[place], &mut connections[place], &ask.bytes).await;
        let is_ok = status.is_ok_and(|status| status == 202);
        let took_us = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
        answers.push(Answered { page: ask.page, took_us, is_ok });
    }
    Ok(answers)
}

/// The status of the answer. A connection that fails is not used again.
async fn ask_at(addr: SocketAddr, kept: &mut Option<Connection>, request: &[u8]) -> anyhow::Result<u16> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => Connection::open(addr).await?,
    };
    let status = connection.ask(request).await?.status();
    *kept = Some(connection);
    Ok(status)
}
