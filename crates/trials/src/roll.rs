//! A rolling restart of three nodes behind a load balancer, beside a steady state of the same length: errors
//! that clients see, origin runs, hit ratio over time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tokio_util::sync::CancellationToken;

use crate::balancer::Balancer;
use crate::seconds;
use hopcache_testbed::cluster::load::{self, Mix};
use hopcache_testbed::cluster::{Plan, TestCluster};
use hopcache_testbed::report::{Report, progress};

/// Options of the rolling restart.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Requests per second.
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Seconds of the steady state, and of the rolling restart.
    #[arg(long, default_value_t = 90)]
    span: u64,
    #[arg(long, default_value_t = 2_000)]
    keys: usize,
    /// Seconds that an entry is fresh.
    #[arg(long, default_value_t = 20)]
    ttl: u64,
    #[arg(long, default_value = "docs/benchmarks/2026-11-21-roll")]
    out: PathBuf,
}

/// Origin runs of the restart over those of the steady state, at most.
const RUNS_RATIO_MAX: f64 = 1.1;
const SOON: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let ttl = Duration::from_secs(options.ttl);
    let cluster = Arc::new(TestCluster::start(Plan { ttl, ..Plan::default() }).await?);
    let balancer = Balancer::start(&cluster)?;
    let mix = Mix {
        rate: options.rate,
        keys: options.keys,
        zipf: 1.0,
        writes: 10,
        targets: vec![balancer.addr],
        seed: 1,
        sessions: 0,
        headers: "",
    };
    let stop = CancellationToken::new();
    let load = tokio::spawn(load::run(Arc::clone(&cluster), mix, stop.clone()));
    let span = Duration::from_secs(options.span);
    // Two lives, so that the first misses are over.
    tokio::time::sleep(2 * ttl).await;
    let steady_us = cluster.recorder.now_us();
    tokio::time::sleep(span).await;
    let roll_us = cluster.recorder.now_us();
    let marks = roll(&cluster, span).await?;
    let end_us = cluster.recorder.now_us();
    stop.cancel();
    load.await?;
    cluster.check_runs()?;
    judge(options, &cluster, [steady_us, roll_us, end_us], &marks)
}

/// One node after the other leaves, is started again and is ready before the next; evenly over the span.
async fn roll(cluster: &TestCluster, span: Duration) -> anyhow::Result<Vec<String>> {
    let end = tokio::time::Instant::now() + span;
    let (mut marks, all) = (Vec::new(), (0..cluster.nodes.len()).collect::<Vec<_>>());
    for (place, node) in cluster.nodes.iter().enumerate() {
        let due = end - span.mul_f64((cluster.nodes.len() - place) as f64 / cluster.nodes.len() as f64);
        tokio::time::sleep_until(due + Duration::from_secs(1)).await;
        let left_us = cluster.recorder.now_us();
        let ended = node.drain(SOON).await?;
        let gone_us = cluster.recorder.now_us();
        node.start()?;
        cluster.all_agree(&all, SOON).await?;
        let back_us = cluster.recorder.now_us();
        marks.push(format!(
            "{}: asked to leave, gone after {} ms ({ended}), ready and in every ring {} ms after its start",
            node.name,
            (gone_us - left_us) / 1_000,
            (back_us - gone_us) / 1_000
        ));
        progress(marks.last().map_or("", String::as_str));
    }
    tokio::time::sleep_until(end).await;
    Ok(marks)
}

fn judge(
    options: &Options,
    cluster: &TestCluster,
    times_us: [u64; 3],
    marks: &[String],
) -> anyhow::Result<()> {
    let [steady_us, roll_us, end_us] = times_us;
    let history = cluster.recorder.so_far();
    let (steady, rolled) =
        (seconds::between(&history, steady_us, roll_us), seconds::between(&history, roll_us, end_us));
    let ratio = rolled.runs_beside(&steady);
    let mut report = Report::open("Rolling restart of three nodes");
    report.line(&format!(
        "{} requests/s, Zipf 1.0 over {} keys of two principals, 1 % writes, TTL {} s, through HAProxy; {} s steady, then {} s with the restart\n",
        options.rate, options.keys, options.ttl, options.span, options.span
    ));
    report.line(seconds::HEAD);
    report.line(&steady.row("steady"));
    report.line(&rolled.row("rolling restart"));
    report.line(&format!("\norigin runs, restart over steady: {ratio:.3} (goal ≤ {RUNS_RATIO_MAX})\n"));
    marks.iter().for_each(|mark| report.line(&format!("- {mark}")));
    for (error, count) in seconds::errors(&history, steady_us) {
        report.line(&format!("- {count} × {error}"));
    }
    report.write(&options.out.join("report.md"))?;
    if rolled.errors > 0 || ratio > RUNS_RATIO_MAX {
        bail!("{} client errors, {ratio:.3} × the origin runs of the steady state", rolled.errors);
    }
    Ok(())
}
