//! How soon a killed node is out of routing, with traffic to notice it and without, and whether nodes on a
//! machine without idle time suspect each other.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::seconds;
use hopcache_testbed::cluster::load::{self, Mix};
use hopcache_testbed::cluster::{Node, Plan, TestCluster};
use hopcache_testbed::report::Report;

/// Options of detection.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Kills with traffic, and as many without.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Seconds without idle time on any core.
    #[arg(long, default_value_t = 600)]
    busy: u64,
    /// Requests per second, in rounds with traffic.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    #[arg(long, default_value = "docs/benchmarks/2026-11-21-detect")]
    out: PathBuf,
}

const SOON: Duration = Duration::from_secs(60);
/// Pause between two looks at every ring: the resolution of the measured times.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const DOWNS: &str = "hopcache_gossip_downs_total";
const BUSY_LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let cluster = Arc::new(TestCluster::start(Plan::default()).await?);
    let mut report = Report::open("Failure detection");
    report.line("three nodes; from SIGKILL until all others have the node out\n");
    report.line(
        "| traffic | what | rounds | least ms | P50 ms | P95 ms | max ms |\n|---|---|---|---|---|---|---|",
    );
    let silent = kills(&cluster, options.rounds).await?;
    silent.rows("none", &mut report);
    let stop = CancellationToken::new();
    let targets = cluster.nodes.iter().map(|node| node.client).collect();
    let mix = Mix {
        rate: options.rate,
        keys: 2_000,
        zipf: 0.5,
        writes: 0,
        targets,
        seed: 1,
        sessions: 0,
        headers: "",
    };
    let load = tokio::spawn(load::run(Arc::clone(&cluster), mix, stop.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let loaded = kills(&cluster, options.rounds).await?;
    loaded.rows(&format!("{} requests/s", options.rate), &mut report);
    let (load_before, from_us) = (load_average(), cluster.recorder.now_us());
    let seen = busy(&cluster, Duration::from_secs(options.busy)).await;
    stop.cancel();
    load.await?;
    let seen = seen?;
    report.line(&format!(
        "\n{} s with a busy thread for each core, {} requests/s beside it (load average {load_before} before, {} at the end), {} looks at rings:\n",
        options.busy, options.rate, load_average(), seen.looks
    ));
    seen.write(&mut report);
    let history = cluster.recorder.so_far();
    let span = seconds::between(&history, from_us, cluster.recorder.now_us());
    report.line(&format!("\nrequests meanwhile:\n\n{}\n{}", seconds::HEAD, span.row("busy")));
    report.write(&options.out.join("report.md"))?;
    if !seen.suspected.is_empty() || !seen.out.is_empty() {
        bail!("{} false suspicions, {} times out of routing", seen.suspected.len(), seen.out.len());
    }
    Ok(())
}

/// CPU time by the kernel's count. It includes other work on the machine.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Milliseconds from each kill until all others have noticed.
#[derive(Default)]
struct Noticed {
    /// The node has no share in any ring, by any cause.
    out_ms: Vec<f64>,
    /// Gossip itself declares this life dead: `hopcache_gossip_downs_total` has grown.
    gossip_ms: Vec<f64>,
}

impl Noticed {
    fn rows(self, traffic: &str, report: &mut Report) {
        row(traffic, "out of routing", self.out_ms, report);
        row(traffic, "gossip alone says down", self.gossip_ms, report);
    }
}

fn row(traffic: &str, what: &str, mut took_ms: Vec<f64>, report: &mut Report) {
    took_ms.sort_by(f64::total_cmp);
    let at = |place: usize| took_ms.get(place).copied().unwrap_or(0.0);
    report.line(&format!(
        "| {traffic} | {what} | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
        took_ms.len(),
        at(0),
        at(took_ms.len() / 2),
        at(took_ms.len() * 95 / 100),
        at(took_ms.len().saturating_sub(1))
    ));
}

/// Kills one node after the other; each is in every ring again before the next.
async fn kills(cluster: &TestCluster, rounds: usize) -> anyhow::Result<Noticed> {
    let all: Vec<usize> = (0..cluster.nodes.len()).collect();
    let mut noticed = Noticed::default();
    for round in 0..rounds {
        let killed = &cluster.nodes[round % cluster.nodes.len()];
        let others: Vec<&Node> = cluster.nodes.iter().filter(|node| node.name != killed.name).collect();
        let mut downs = Vec::new();
        for other in &others {
            downs.push(other.metric(DOWNS, "").await?);
        }
        let start = Instant::now();
        killed.kill()?;
        let since_ms = || start.elapsed().as_secs_f64() * 1e3;
        let (mut out_ms, mut gossip_ms) = (None, None);
        while out_ms.is_none() || gossip_ms.is_none() {
            let (mut is_routed, mut has_gossip) = (false, true);
            for (other, before) in others.iter().zip(&downs) {
                is_routed |= out_ms.is_none() && other.routes_to(&killed.name).await != Some(false);
                has_gossip &= gossip_ms.is_none() && other.metric(DOWNS, "").await? > *before;
            }
            out_ms = out_ms.or_else(|| (!is_routed).then(since_ms));
            gossip_ms = gossip_ms.or_else(|| has_gossip.then(since_ms));
            ensure!(
                start.elapsed() < SOON,
                "{} after {SOON:?}: out after {out_ms:?} ms, by gossip {gossip_ms:?} ms",
                killed.name
            );
            tokio::time::sleep(LOOK_EVERY).await;
        }
        noticed.out_ms.extend(out_ms);
        noticed.gossip_ms.extend(gossip_ms);
        killed.start()?;
        cluster.all_agree(&all, SOON).await?;
    }
    Ok(noticed)
}

/// How living nodes saw each other while every core had work: which node saw which, in which state.
#[derive(Default)]
struct Seen {
    looks: u64,
    /// Left Up and stayed in routing.
    suspected: Vec<String>,
    /// Without a share.
    out: Vec<String>,
    /// Probes that failed, as the nodes logged them: between two looks, too.
    probes_failed: Vec<String>,
    /// Deaths that gossip announced, and those that it took back.
    gossip: [u64; 2],
}

impl Seen {
    fn write(&self, report: &mut Report) {
        let list = |what: &str, all: &[String]| format!("- {what}: {} {}", all.len(), all.join("; "));
        report.line(&list("false suspicions (left Up, still routed to)", &self.suspected));
        report.line(&list("out of routing", &self.out));
        report.line(&list("probes failed, by the nodes' logs", &self.probes_failed));
        let [downs, rejoins] = self.gossip;
        report.line(&format!("- deaths that gossip announced: {downs}; objections to one's own: {rejoins}"));
    }

    async fn read(cluster: &TestCluster) -> anyhow::Result<([u64; 2], Vec<String>)> {
        let (mut gossip, mut failed) = ([0, 0], Vec::new());
        for node in &cluster.nodes {
            gossip[0] += node.metric(DOWNS, "").await?;
            gossip[1] += node.metric("hopcache_gossip_rejoins_total", "").await?;
            failed.extend(node.logged("peer: "));
        }
        Ok((gossip, failed))
    }
}

async fn busy(cluster: &TestCluster, span: Duration) -> anyhow::Result<Seen> {
    let (gossip, failed) = Seen::read(cluster).await?;
    let is_over = Arc::new(AtomicBool::new(false));
    let burners: Vec<_> = (0..std::thread::available_parallelism().map_or(1, usize::from))
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut sum = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    sum = std::hint::black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            })
        })
        .collect();
    let watched = watch(cluster, span).await;
    is_over.store(true, Ordering::Relaxed);
    for burner in burners {
        burner.join().ok().context("a burner panicked")?;
    }
    let (mut seen, (gossip_after, failed_after)) = (watched?, Seen::read(cluster).await?);
    seen.gossip = [gossip_after[0] - gossip[0], gossip_after[1] - gossip[1]];
    seen.probes_failed = failed_after.into_iter().filter(|line| !failed.contains(line)).collect();
    Ok(seen)
}

async fn watch(cluster: &TestCluster, span: Duration) -> anyhow::Result<Seen> {
    let (start, mut seen) = (Instant::now(), Seen::default());
    let mut before: Vec<BTreeSet<(bool, String)>> = vec![BTreeSet::new(); cluster.nodes.len()];
    while start.elapsed() < span {
        for (place, node) in cluster.nodes.iter().enumerate() {
            // A ring that cannot be had in time says nothing of members.
            let Ok(ring) = node.ring().await else { continue };
            seen.looks += 1;
            let members = ring["members"].as_array().context("members")?;
            let mut now = BTreeSet::new();
            for member in members.iter().filter(|member| member["state"] != "up" || !has_share(member)) {
                let text = format!("{} sees {} {}", node.name, member["name"], member["state"]);
                now.insert((has_share(member), text));
            }
            if members.len() < cluster.nodes.len() {
                now.insert((false, format!("{} sees {} members", node.name, members.len())));
            }
            for (is_routed, text) in now.difference(&before[place]) {
                let list = if *is_routed { &mut seen.suspected } else { &mut seen.out };
                list.push(format!("{:.1} s {text}", start.elapsed().as_secs_f64()));
            }
            before[place] = now;
        }
        tokio::time::sleep(BUSY_LOOK_EVERY).await;
    }
    ensure!(seen.looks > 0, "no ring could be looked at");
    Ok(seen)
}

fn has_share(member: &Value) -> bool {
    member["share"].as_f64().is_some_and(|share| share > 0.0)
}
