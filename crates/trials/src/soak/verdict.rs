//! The conditions at the end of a soak.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio_util::sync::CancellationToken;

use super::load::{self, Ledger};
use super::options::{Options, SAMPLE_EVERY};
use super::scene::{NODES, Scene, descriptors};
use super::watch::{Sample, Samples};
use hopcache_testbed::metrics;
use hopcache_testbed::report::Report;

/// Longest time until nodes are at rest: a run's deadline, and a lease.
const REST: Duration = Duration::from_secs(40);
/// Longer than a request takes to be observed, learned from and followed by a prefetch.
const QUIET: Duration = Duration::from_secs(2);
/// How long the connections of clients that are gone may take to be noticed.
const DESCRIPTORS_MORE_MAX: usize = 160;
/// Rise over the second half, of the mean, that still counts as flat.
const RISE_MAX: f64 = 0.10;
/// Length of the phase without faults in which counters have to agree to the last one.
const EXACT: Duration = Duration::from_secs(10);

/// Points that held and points that did not.
#[derive(Default)]
pub(super) struct Verdict {
    lines: Vec<String>,
    broken: usize,
}

impl Verdict {
    fn point(&mut self, holds: bool, what: String) {
        self.broken += usize::from(!holds);
        self.lines.push(format!("- {}: {what}", if holds { "holds" } else { "BROKEN" }));
    }

    /// After the load: everything at rest, and every request counted once.
    pub(super) async fn of_end(
        &mut self,
        scene: &Scene,
        ledger: &Ledger,
        idle: &[usize],
        report: &mut Report,
    ) -> anyhow::Result<()> {
        report.line("\n| node | life | requests | hits | misses | bypasses | sent to it | answered | flights | leases | descriptors | before |");
        report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
        for (node, before) in idle.iter().enumerate() {
            let rest = at_rest(scene, node, before + DESCRIPTORS_MORE_MAX).await?;
            let [requests, hits, misses, bypasses] = rest.counts;
            let (sent, answered) = (ledger.sent(node), ledger.answered(node));
            report.line(&format!(
                "| {node} | {} | {requests} | {hits} | {misses} | {bypasses} | {sent} | {answered} | {} | {} | {} | {before} |",
                rest.life, rest.flights, rest.leases, rest.descriptors
            ));
            self.point(
                requests == hits + misses + bypasses,
                format!(
                    "node {node}: {requests} requests = {hits} hits + {misses} misses + {bypasses} bypasses"
                ),
            );
            self.point(rest.flights == 0, format!("node {node}: {} flights at rest", rest.flights));
            self.point(rest.leases == 0, format!("node {node}: {} leases held at rest", rest.leases));
            self.point(
                rest.descriptors <= before + DESCRIPTORS_MORE_MAX,
                format!("node {node}: {} descriptors at rest, {before} at the start", rest.descriptors),
            );
            if rest.life == 1 {
                self.point(
                    answered <= requests && requests <= sent,
                    format!("node {node}, never killed: {answered} answers seen ≤ {requests} counted ≤ {sent} sent"),
                );
            }
        }
        let wrong = ledger.wrong();
        self.point(
            wrong.is_empty(),
            format!("answers that must not be: {} {}", wrong.len(), wrong.join("; ")),
        );
        Ok(())
    }

    /// Some seconds of the same load without faults. The runs that nodes count equal the runs that the proxy before
    /// Neo4j counts, and the clients' requests equal the nodes'.
    pub(super) async fn of_calm(
        &mut self,
        options: &Options,
        scene: &Arc<Scene>,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let (before, proxied) = settled(scene).await?;
        let (ledger, stop) = (Arc::new(Ledger::default()), CancellationToken::new());
        let mut clients = load::start(options, scene, &ledger, &stop);
        tokio::time::sleep(EXACT).await;
        stop.cancel();
        while let Some(ended) = clients.join_next().await {
            ended?;
        }
        for node in 0..NODES {
            at_rest(scene, node, usize::MAX).await?;
        }
        let (after, proxied_after) = settled(scene).await?;
        let seen = u64::try_from(proxied_after - proxied)?;
        let (runs, requests) = (after.runs - before.runs, after.requests - before.requests);
        let unsent = after.unsent - before.unsent;
        let (sent, answered): (u64, u64) = (0..NODES)
            .map(|node| (ledger.sent(node), ledger.answered(node)))
            .fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        report.line(&format!(
            "\nwithout faults, {} s: {sent} sent, {answered} answered, {requests} counted; {runs} runs counted, of them {unsent} that never reached Neo4j, {seen} seen by the proxy",
            EXACT.as_secs()
        ));
        self.point(
            sent == answered && answered == requests,
            format!("without faults: {sent} sent = {answered} answered = {requests} counted"),
        );
        self.point(
            runs - unsent.min(runs) == seen,
            format!("without faults: {runs} − {unsent} runs counted = {seen} seen before Neo4j"),
        );
        Ok(())
    }

    /// Memory, descriptors and tasks of each node's last life over the second half.
    pub(super) fn of_samples(&mut self, samples: &Samples, report: &mut Report) {
        report.line(&format!("\nsecond half, last life of each node, a sample every {} s:\n\n| node | figure | samples | over s | mean | slope per minute | rise over the span |\n|---|---|---|---|---|---|---|", SAMPLE_EVERY.as_secs()));
        type Figure = fn(&Sample) -> u64;
        let figures: [(&str, Figure); 5] = [
            ("RSS, KiB", |each| each.rss_kib),
            ("descriptors", |each| each.descriptors),
            ("tasks", |each| each.tasks),
            ("threads", |each| each.threads),
            ("entries", |each| each.entries),
        ];
        for node in 0..NODES {
            for (name, figure) in figures {
                let Some(line) = samples.line(node, figure) else { continue };
                report.line(&format!(
                    "| {node} | {name} | {} | {:.0} | {:.0} | {:+.2} | {:+.1} % |",
                    line.points,
                    line.span_s,
                    line.mean,
                    line.per_s * 60.0,
                    line.rise() * 100.0
                ));
                // A short life with few samples proves nothing, because purges change the number of entries.
                if name != "entries" && line.points >= 12 {
                    let rise = line.rise();
                    self.point(
                        rise <= RISE_MAX,
                        format!(
                            "node {node}: {name} rises by {:.1} % over {:.0} s",
                            rise * 100.0,
                            line.span_s
                        ),
                    );
                }
            }
        }
    }

    pub(super) fn write(&self, report: &mut Report) {
        report.line("");
        self.lines.iter().for_each(|line| report.line(line));
        report.line(&format!("\n{} of {} points are broken", self.broken, self.lines.len()));
    }

    pub(super) fn result(&self) -> anyhow::Result<()> {
        if self.broken > 0 {
            bail!("{} points are broken", self.broken);
        }
        Ok(())
    }
}

/// A node after the load.
struct Rest {
    life: u32,
    counts: [u64; 4],
    flights: u64,
    leases: u64,
    descriptors: usize,
}

/// A node's figures once it rests, or when it has had its time.
async fn at_rest(scene: &Scene, node: usize, descriptors_max: usize) -> anyhow::Result<Rest> {
    let deadline = Instant::now() + REST;
    loop {
        let pid = scene.node(node).pid().context("every node runs at the end")?;
        let metrics = scene.node(node).metrics().await?;
        let rest = Rest {
            life: scene.node(node).lives(),
            counts: ["hopcache_requests_total", "cache_hit_total", "cache_miss_total", "cache_bypass_total"]
                .map(|name| sum(&metrics, name, "")),
            flights: sum(&metrics, "hopcache_flights", ""),
            leases: sum(&metrics, "xfetch_active_locks", ""),
            descriptors: descriptors(pid)?,
        };
        let rests = rest.flights == 0 && rest.leases == 0 && rest.descriptors <= descriptors_max;
        if rests || Instant::now() > deadline {
            return Ok(rest);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// The nodes' counters and the proxy's runs, once neither changes for [`QUIET`]: the clients' last requests may still
/// cause prefetches. After [`REST`] the last values, which have to be equal then.
async fn settled(scene: &Scene) -> anyhow::Result<(Totals, usize)> {
    let deadline = Instant::now() + REST;
    let mut before = (totals(scene).await?, scene.proxy.runs(""));
    loop {
        tokio::time::sleep(QUIET).await;
        let now = (totals(scene).await?, scene.proxy.runs(""));
        if now == before || Instant::now() > deadline {
            return Ok(now);
        }
        before = now;
    }
}

/// Counters of all nodes together.
#[derive(PartialEq, Eq)]
struct Totals {
    requests: u64,
    runs: u64,
    unsent: u64,
}

async fn totals(scene: &Scene) -> anyhow::Result<Totals> {
    let mut totals = Totals { requests: 0, runs: 0, unsent: 0 };
    let metrics = scene.nodes.metrics().await?;
    totals.requests = sum(&metrics, "hopcache_requests_total", "");
    totals.runs = sum(&metrics, "hopcache_origin_runs_total", "");
    for kind in ["kind=\"unreachable\"", "kind=\"overloaded\""] {
        totals.unsent += sum(&metrics, "hopcache_origin_errors_total", kind);
    }
    Ok(totals)
}

fn sum(metrics: &str, name: &str, label: &str) -> u64 {
    metrics::sum(metrics, name, label).unwrap_or(0)
}
