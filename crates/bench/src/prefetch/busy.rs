//! What prefetch costs where it cannot help: session walks in a closed loop, with prefetch on and off in turn, in short slices of one
//! measurement. Nodes take the setting by a reload, so nothing else differs: caches, connections and Neo4j stay.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use hopcache_testbed::metrics::sum;
use hopcache_testbed::neo4j;
use hopcache_testbed::node::Nodes;
use hopcache_testbed::report::Report;

use super::counts::Counts;
use super::source::Source;
use super::walk::session_trace;
use super::{Asked, asking, reported, requests};
use crate::delayed::NODES;
use crate::figures::each_us;
use crate::load::{Until, closed};

/// Options of the slices.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Pairs of slices: one with prefetch, one without.
    #[arg(long, default_value_t = 24)]
    pairs: usize,
    /// Length of a slice in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Requests of the trace, which is asked again and again.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Sessions whose clicks take turns.
    #[arg(long, default_value_t = 64)]
    sessions: usize,
    /// Requests under way.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// Seed of the clicks.
    #[arg(long, default_value_t = 5)]
    seed: u64,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    data: PathBuf,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Between two slices.
const SETTLING: Duration = Duration::from_secs(2);

/// What is busy.
const SCENES: [(&str, &str, &str); 2] = [
    ("all cores, with hits", "600s", "32"),
    // So short a life that most are misses, and a run at a time: the others wait for it.
    ("Neo4j, with misses", "1s", "1"),
];

/// What a slice has shown.
struct Slice {
    per_s: f64,
    node_cpu_us: f64,
    counts: Counts,
    unconsidered: u64,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let title = "Prefetch on and off in turn, where all is busy";
    let measure = async |source: &Source, report: &mut Report| scenes(options, source, report).await;
    reported(title, (&options.data, options.out.as_ref()), measure).await
}

async fn scenes(options: &Options, source: &Source, report: &mut Report) -> anyhow::Result<()> {
    let clicks = session_trace(&source.graph, (options.requests, options.sessions), options.seed)?;
    let trace = Arc::new(requests(source, &clicks, 1)?);
    report.line(&format!(
        "{} requests in {} sessions, again and again, {} clients, {NODES} nodes; {} pairs of slices of {} s, the first of a pair with prefetch in every other pair; {}; Neo4j, Redis, nodes and clients share the machine\n",
        trace.len(), options.sessions, options.clients, options.pairs, options.seconds, source.size()
    ));
    report.line("| busy | requests/s without | with ÷ without, mean (95 % interval) | nodes' CPU µs a request without | more with, mean (95 % interval) | hits of 100 without, with | prefetches with | not considered with |");
    report.line("|---|---|---|---|---|---|---|---|");
    for (name, ttl, runs_max) in SCENES {
        let cells = scene(options, (ttl, runs_max), &trace).await?;
        report.line(&format!("| {name} | {cells} |"));
    }
    Ok(())
}

async fn scene(
    options: &Options,
    (ttl, runs_max): (&str, &str),
    trace: &Arc<Vec<Asked>>,
) -> anyhow::Result<String> {
    let sections = format!(
        "[origin]\nuri = \"bolt://{}\"\nmax_concurrent = {runs_max}\n[entry]\nttl = \"{ttl}\"\ngrace = 0.0\n[freshness]\nmode = \"ttl\"\n[prefetch]\nenabled = true\n",
        neo4j::bolt()?
    );
    let nodes = Nodes::start(NODES, &sections).await?;
    let asked = Arc::new(AtomicUsize::new(0));
    closed(from(&nodes, trace, &asked), options.clients, Until::Asked(trace.len())).await?;
    let (mut on, mut off): (Vec<Slice>, Vec<Slice>) = Default::default();
    for pair in 0..options.pairs {
        for is_on in [pair % 2 == 0, pair % 2 == 1] {
            set_prefetch(&nodes, is_on).await?;
            // What the slice before has left behind is asked for, or dies.
            slice(SETTLING, options, &nodes, (trace, &asked)).await?;
            let slice = slice(Duration::from_secs(options.seconds), options, &nodes, (trace, &asked)).await?;
            if is_on { on.push(slice) } else { off.push(slice) }
        }
    }
    let pairs = || on.iter().zip(&off);
    // The mean of logarithms: that of ratios is above 1 where nothing differs.
    let ratios: Vec<f64> = pairs().map(|(on, off)| (on.per_s / off.per_s).ln()).collect();
    let more: Vec<f64> = pairs().map(|(on, off)| on.node_cpu_us - off.node_cpu_us).collect();
    let mean_of = |of: &dyn Fn(&Slice) -> f64| mean(&off.iter().map(of).collect::<Vec<_>>()).0;
    let ((log, half), (cpu, cpu_half)) = (mean(&ratios), mean(&more));
    let [ratio, least, most] = [log, log - half, log + half].map(f64::exp);
    let launched: u64 = on.iter().map(|slice| slice.counts.launched).sum();
    let left_out: u64 = on.iter().map(|slice| slice.unconsidered).sum();
    let answered: u64 = on.iter().map(|slice| slice.counts.hits + slice.counts.misses).sum();
    Ok(format!(
        "{:.0} | {ratio:.4} ({least:.4}–{most:.4}) | {:.1} | {cpu:+.1} (± {cpu_half:.1}) | {:.1}, {:.1} | {launched} | {left_out} of {answered}",
        mean_of(&|slice| slice.per_s),
        mean_of(&|slice| slice.node_cpu_us),
        hits_percent(&off),
        hits_percent(&on),
    ))
}

/// The requests of the trace, from where the last slice has stopped.
fn from(
    nodes: &Nodes,
    trace: &Arc<Vec<Asked>>,
    asked: &Arc<AtomicUsize>,
) -> impl Fn(usize) -> crate::load::Answering + Send + Sync + 'static {
    let (ask, asked, count) = (asking(nodes.clients(), Arc::clone(trace)), Arc::clone(asked), trace.len());
    move |_| ask(asked.fetch_add(1, Ordering::Relaxed) % count)
}

async fn slice(
    span: Duration,
    options: &Options,
    nodes: &Nodes,
    (trace, asked): (&Arc<Vec<Asked>>, &Arc<AtomicUsize>),
) -> anyhow::Result<Slice> {
    let unconsidered =
        |metrics: &str| sum(metrics, "hopcache_observations_total", "outcome=\"unconsidered\"").unwrap_or(0);
    let metrics_before = nodes.metrics().await?;
    let before = nodes.cpu()?;
    let seen = closed(from(nodes, trace, asked), options.clients, Until::Over(span)).await?;
    let node_cpu_us = each_us(nodes.cpu()?.saturating_sub(before), seen.results());
    let metrics = nodes.metrics().await?;
    let counts = Counts::of(&metrics).since(&Counts::of(&metrics_before));
    let unconsidered = unconsidered(&metrics).saturating_sub(unconsidered(&metrics_before));
    Ok(Slice { per_s: seen.per_s(), node_cpu_us, counts, unconsidered })
}

async fn set_prefetch(nodes: &Nodes, is_on: bool) -> anyhow::Result<()> {
    for node in &nodes.nodes {
        let line = |is_on: bool| format!("[prefetch]\nenabled = {is_on}\n");
        node.change_config(&line(!is_on), &line(is_on))?;
        let answer = node.admin("POST", "/admin/v1/reload", "").await?;
        ensure!(answer.status() == 200, "reload: {}", answer.head);
    }
    Ok(())
}

fn hits_percent(slices: &[Slice]) -> f64 {
    let sum = |of: fn(&Counts) -> u64| slices.iter().map(|slice| of(&slice.counts)).sum::<u64>();
    let (hits, misses) = (sum(|counts| counts.hits), sum(|counts| counts.misses));
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    let percent = hits as f64 * 100.0 / (hits + misses).max(1) as f64;
    percent
}

/// The mean, and half of its 95 % interval: two standard errors, as of some dozen values (Student).
#[expect(clippy::cast_precision_loss, reason = "some dozens")]
fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, 2.0 * (variance / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_of_the_mean() {
        let (of, half) = mean(&[1.0, 3.0, 1.0, 3.0]);
        assert!((of - 2.0).abs() < 1e-12 && (half - 2.0 * (4.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean(&[]), (0.0, 0.0));
    }
}
