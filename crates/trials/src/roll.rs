//! A rolling restart of three nodes behind a load balancer, beside a steady state of the same length: errors
//! that clients see, origin runs, hit ratio over time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tokio_util::sync::CancellationToken;

use super::balancer::Balancer;
use super::seconds::{self, Span};
use crate::arena::load::{self, Mix};
use crate::arena::{Arena, Plan, tell};
use crate::expiry::plot::{Chart, Scale, Series, register_font};
use crate::report::Report;

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

/// Origin runs of the restart over those of the steady state, at the most.
const RUNS_RATIO_MAX: f64 = 1.1;
const SOON: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    register_font(None)?;
    let ttl = Duration::from_secs(options.ttl);
    let arena = Arc::new(Arena::start(Plan { ttl, ..Plan::default() }).await?);
    let balancer = Balancer::start(&arena)?;
    let mix = Mix {
        rate: options.rate,
        keys: options.keys,
        zipf: 1.0,
        writes: 10,
        targets: vec![balancer.addr],
        seed: 1,
    };
    let stop = CancellationToken::new();
    let load = tokio::spawn(load::run(Arc::clone(&arena), mix, stop.clone()));
    let span = Duration::from_secs(options.span);
    // Two lives, so that the first misses are over.
    tokio::time::sleep(2 * ttl).await;
    let steady_us = arena.history.now_us();
    tokio::time::sleep(span).await;
    let roll_us = arena.history.now_us();
    let marks = roll(&arena, span).await?;
    let end_us = arena.history.now_us();
    stop.cancel();
    load.await?;
    arena.check_runs()?;
    judge(options, &arena, [steady_us, roll_us, end_us], &marks)
}

/// One node after the other leaves, is started again and is ready before the next; evenly over the span.
async fn roll(arena: &Arena, span: Duration) -> anyhow::Result<Vec<String>> {
    let end = tokio::time::Instant::now() + span;
    let (mut marks, all) = (Vec::new(), (0..arena.nodes.len()).collect::<Vec<_>>());
    for (place, node) in arena.nodes.iter().enumerate() {
        let due = end - span.mul_f64((arena.nodes.len() - place) as f64 / arena.nodes.len() as f64);
        tokio::time::sleep_until(due + Duration::from_secs(1)).await;
        let left_us = arena.history.now_us();
        let ended = node.drain(SOON).await?;
        let gone_us = arena.history.now_us();
        node.start()?;
        arena.all_agree(&all, SOON).await?;
        let back_us = arena.history.now_us();
        marks.push(format!(
            "{}: asked to leave, gone after {} ms ({ended}), ready and in every ring {} ms after its start",
            node.name,
            (gone_us - left_us) / 1_000,
            (back_us - gone_us) / 1_000
        ));
        tell(marks.last().map_or("", String::as_str));
    }
    tokio::time::sleep_until(end).await;
    Ok(marks)
}

fn judge(options: &Options, arena: &Arena, times_us: [u64; 3], marks: &[String]) -> anyhow::Result<()> {
    let [steady_us, roll_us, end_us] = times_us;
    let told = arena.history.so_far();
    let (steady, rolled) =
        (seconds::between(&told, steady_us, roll_us), seconds::between(&told, roll_us, end_us));
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
    for (error, count) in seconds::errors(&told, steady_us) {
        report.line(&format!("- {count} × {error}"));
    }
    let by_second = seconds::by_second(&told, steady_us, end_us);
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(options.out.join("seconds.csv"), seconds::csv(&by_second))?;
    draw(&by_second, options)?;
    report.write(&options.out.join("report.md"))?;
    if rolled.errors > 0 || ratio > RUNS_RATIO_MAX {
        bail!("{} client errors, {ratio:.3} × the origin runs of the steady state", rolled.errors);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "seconds and counts")]
fn draw(by_second: &[Span], options: &Options) -> anyhow::Result<()> {
    let line = |name: &str, figure: &dyn Fn(&Span) -> f64| Series {
        name: name.to_owned(),
        points: by_second.iter().enumerate().map(|(second, each)| (second as f64, figure(each))).collect(),
    };
    let chart = Chart {
        title: format!("Rolling restart from second {} on, {} requests/s", options.span, options.rate),
        across: "second",
        up: "hits in %, origin runs per second",
        scale: Scale::Linear,
        series: vec![
            line("hits, %", &|each| each.hit_ratio() * 100.0),
            line("origin runs per second", &|each| each.runs as f64),
            line("errors per second", &|each| each.errors as f64),
        ],
    };
    chart.write(&options.out.join("hit-ratio"))
}
