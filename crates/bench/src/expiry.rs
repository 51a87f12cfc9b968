//! How clients and Neo4j notice an expiry, by strategy: a mutex, and three rules of early refresh. One hot key, asked at a fixed rate
//! by an open loop over many TTLs, under each strategy and each delay of Neo4j. Strategies are configurations; this knows hopcache
//! by its HTTP interface only.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Subcommand;
use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::{Pool, post};
use hopcache_testbed::metrics;
use hopcache_testbed::report::{Report, Spread, progress};
use serde_json::json;

use crate::cache_status::{CacheStatus, Kind};
use crate::delayed::{MARK, Plan, Scene};
use crate::figures::{Tail, each_us, share};
use crate::graph::login;
use crate::lifetimes::{expiries, late, lifetimes, offset_us, runs_per_window, signed};
use crate::load::{LoadResult, Sample, arrivals, open, turns};
use crate::strategy::Strategy;

/// Options of the expiry benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// One hot key over many TTLs, four strategies.
    Hot(Hot),
}

/// Options of all open loops before a Neo4j that is delayed.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Rounds; each measures every arm once, and begins with another one.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Share by which TTLs are made longer or shorter.
    #[arg(long, default_value_t = 0.1)]
    pub(crate) jitter: f64,
    /// Most requests under way at a time. A request that is due beyond them is dropped, and counts as failed.
    #[arg(long, default_value_t = 512)]
    pub(crate) under_way: usize,
    /// `origin.max_concurrent` of each node.
    #[arg(long, default_value_t = 64)]
    pub(crate) max_concurrent: u32,
    /// Seed of arrivals, keys and delays.
    #[arg(long, default_value_t = 5)]
    pub(crate) seed: u64,
    /// Where the report is kept.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// Options of the hot key.
#[derive(clap::Args)]
struct Hot {
    #[command(flatten)]
    common: Common,
    /// Strategies, in the order of the table.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Strategy::ALL)]
    strategies: Vec<Strategy>,
    /// Mean origin times in ms: log-normal, cv 1.5, at most ten times the mean.
    #[arg(long, value_delimiter = ',', default_values_t = [20, 200])]
    origin_ms: Vec<u64>,
    /// Requests per second.
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// The key's TTL in seconds.
    #[arg(long, default_value_t = 5)]
    ttl: u64,
    /// TTLs that each measurement lasts.
    #[arg(long, default_value_t = 10)]
    ttls: u32,
    /// Degree of the key's anchor, as the clients' hint says it under every strategy.
    #[arg(long, default_value_t = 500)]
    degree: u32,
}

/// Distance from an expiry within which a request counts as near it.
const NEAR_US: i64 = 1_000_000;
/// The nodes' own counts, for the report, beside the figures measured from outside.
const COUNTERS: [&str; 6] = [
    "hopcache_refresh_late_total",
    "xfetch_refresh_triggered_total",
    "xfetch_refresh_failed_total",
    "xfetch_stale_served_total",
    "single_flight_hits_total",
    "stampede_events_total",
];

/// The result of one measurement.
struct Round {
    expiries: usize,
    windows: Vec<usize>,
    late: usize,
    normal: Tail,
    near: Tail,
    mean_age_s: f64,
    failed: usize,
    sent_late_ms: f64,
    counted: String,
    node_cpu_us: f64,
}

/// All rounds of one row of the table.
struct Arm {
    strategy: Strategy,
    origin_ms: u64,
    rounds: Vec<Round>,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let Workload::Hot(options) = &options.workload;
    ensure!(options.ttl >= 3, "a TTL below 3 s leaves nothing between the expiries: --ttl 3 or more");
    ensure!(!options.strategies.is_empty() && !options.origin_ms.is_empty(), "nothing to measure");
    let common = &options.common;
    let mut report = Report::open("Expiry of a hot key");
    report.line(&format!(
        "one key, {} requests/s (Poisson arrivals) over three nodes, TTL {} s ± {:.0} %, {} TTLs a round, {} rounds, strategies in turn; hint degree={} under every strategy; Neo4j behind the delaying proxy; origin.max_concurrent {}; at most {} requests under way",
        options.rate, options.ttl, common.jitter * 100.0, options.ttls, common.rounds, options.degree, common.max_concurrent, common.under_way
    ));
    let pairs =
        options.origin_ms.iter().flat_map(|ms| options.strategies.iter().map(move |each| (*ms, *each)));
    let mut arms: Vec<Arm> =
        pairs.map(|(origin_ms, strategy)| Arm { strategy, origin_ms, rounds: Vec::new() }).collect();
    for round in 0..common.rounds {
        for place in turns(arms.len(), round) {
            let arm = &mut arms[place];
            progress(&format!("round {}: {}, {} ms", round + 1, arm.strategy.name(), arm.origin_ms));
            let measured = measure(options, arm, round).await?;
            arm.rounds.push(measured);
        }
    }
    write_report(&mut report, &arms);
    report.line(include_str!("expiry.md"));
    common.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

async fn measure(options: &Hot, arm: &Arm, round: usize) -> anyhow::Result<Round> {
    let common = &options.common;
    let seed = common.seed.wrapping_add(round as u64);
    let ttl = Duration::from_secs(options.ttl);
    let plan = Plan {
        entry: arm.strategy.entry(),
        sections: arm.strategy.sections(),
        ttl,
        jitter: common.jitter,
        delay: Duration::from_millis(arm.origin_ms),
        concurrent_max: common.max_concurrent,
        seed,
    };
    let scene = Scene::start(&plan).await?;
    let headers = format!("{}hopcache-hint: degree={}\r\n", login()?, options.degree);
    let statement = format!("UNWIND range(1, 20) AS x RETURN x {MARK}");
    let request = Arc::new(post(&statement, &json!({ "n": 1 }), &headers));
    // Half a TTL more, so that the time around the last expiry is complete.
    let span = ttl * options.ttls + ttl * 3 / 5;
    let due = arrivals(options.rate.into(), span, &mut Dice::new(seed));
    let pools: Arc<Vec<Pool>> = Arc::new(scene.nodes.clients().into_iter().map(Pool::new).collect());
    let ask = move |number: usize| {
        let (pools, request) = (Arc::clone(&pools), Arc::clone(&request));
        async move { CacheStatus::of(pools[number % pools.len()].ask(&request).await) }
    };
    let cpu = scene.nodes.cpu()?;
    let seen = open(ask, due, common.under_way).await?;
    let cpu = scene.nodes.cpu()?.saturating_sub(cpu);
    let runs = scene.proxy.seen(MARK);
    ensure!(runs.iter().all(|run| run.query == runs[0].query), "the origin ran something else as well");
    let runs_us: Vec<i64> = runs.iter().map(|run| since(seen.start, run.arrived)).collect();
    let text = scene.nodes.metrics().await?;
    let count = |name| format!("{name} {}", metrics::sum(&text, name, "").unwrap_or(0));
    let mut measured = round_of(&seen, &runs_us, ttl, span);
    measured.counted = COUNTERS.map(count).join(", ");
    measured.node_cpu_us = each_us(cpu, seen.samples.len());
    Ok(measured)
}

/// Time from the start of the load. Times before it are negative.
fn since(start: Instant, at: Instant) -> i64 {
    micros(at.saturating_duration_since(start)) - micros(start.saturating_duration_since(at))
}

fn micros(span: Duration) -> i64 {
    signed(crate::figures::micros(span))
}

fn round_of(seen: &LoadResult, runs_us: &[i64], ttl: Duration, span: Duration) -> Round {
    let (ttl_us, end_us) = (micros(ttl), micros(span));
    let lifetimes = lifetimes(&seen.samples);
    let expiries = expiries(&lifetimes, ttl_us, ttl_us / 2, end_us - ttl_us / 2);
    // The first load has nothing to be stale from: it is no expiry, and the same for all.
    let settled_us = (ttl_us / 2).min(2_000_000);
    let counted: Vec<&Sample> =
        seen.samples.iter().filter(|sample| signed(sample.due_us) >= settled_us).collect();
    let is_near =
        |sample: &&&Sample| offset_us(&expiries, signed(sample.due_us)).is_some_and(|at| at.abs() <= NEAR_US);
    let (near, normal): (Vec<&Sample>, Vec<&Sample>) = counted.iter().partition(|sample| is_near(sample));
    let tail = |samples: &[&Sample]| Tail::of(samples.iter().map(|sample| sample.took_us()).collect());
    Round {
        windows: runs_per_window(&expiries, runs_us, ttl_us),
        late: late(&expiries, &lifetimes, &seen.samples, ttl_us),
        normal: tail(&normal),
        near: tail(&near),
        mean_age_s: mean_age_s(&counted),
        failed: seen.errors() + seen.dropped,
        sent_late_ms: seen.sent_late_ms(),
        counted: String::new(),
        node_cpu_us: 0.0,
        expiries: expiries.len(),
    }
}

/// Of answers; `Age` is rounded down, so half a second is added to each hit's. A miss is new.
#[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
fn mean_age_s(samples: &[&Sample]) -> f64 {
    let answered = samples.iter().filter(|sample| sample.status.kind != Kind::Failed);
    let age = |sample: &&&Sample| sample.status.age_s.map_or(0.0, |age| f64::from(age) + 0.5);
    let ages: Vec<f64> = answered.map(|sample| age(&sample)).collect();
    ages.iter().sum::<f64>() / ages.len().max(1) as f64
}

fn write_report(report: &mut Report, arms: &[Arm]) {
    report.line("\nLatencies in ms from the intended time, median of the rounds (min–max). Near: due within 1 s of an expiry.\n");
    report.line("| strategy | origin ms | P50 normal | P99 normal | P99.9 normal | P50 near | P99 near | P99.9 near | P99 near ÷ P99 normal | origin runs per TTL window: min–max | windows with exactly one | late expiries | mean age served s | failed |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for Arm { strategy, origin_ms, rounds } in arms {
        let of = |figure: fn(&Round) -> f64| Spread::of(&rounds.iter().map(figure).collect::<Vec<_>>());
        let sum = |figure: fn(&Round) -> usize| rounds.iter().map(figure).sum::<usize>();
        let windows: Vec<usize> = rounds.iter().flat_map(|round| round.windows.clone()).collect();
        let (least, most) = (windows.iter().min().unwrap_or(&0), windows.iter().max().unwrap_or(&0));
        let once = windows.iter().filter(|runs| **runs == 1).count();
        let (late, expiries) = (sum(|round| round.late), sum(|round| round.expiries));
        report.line(&format!(
            "| {} | {origin_ms} | {} | {} | {} | {} | {} | {} | {} | {least}–{most} | {once} of {} | {late} of {expiries} ({:.1} %) | {} | {} |",
            strategy.name(),
            of(|round| round.normal.p50_ms),
            of(|round| round.normal.p99_ms),
            of(|round| round.normal.p999_ms),
            of(|round| round.near.p50_ms),
            of(|round| round.near.p99_ms),
            of(|round| round.near.p999_ms),
            of(|round| round.near.p99_ms / round.normal.p99_ms.max(1e-6)),
            windows.len(),
            share(late, expiries) * 100.0,
            of(|round| round.mean_age_s),
            sum(|round| round.failed),
        ));
    }
    report.line("");
    for Arm { strategy, origin_ms, rounds } in arms {
        let of = |figure: fn(&Round) -> f64| Spread::of(&rounds.iter().map(figure).collect::<Vec<_>>());
        let near = |round: &Round| {
            format!("{} near, {} normal; {}", round.near.count, round.normal.count, round.counted)
        };
        report.line(&format!(
            "{}, {origin_ms} ms: sent late by the generator, P99 ms: {}; nodes' CPU µs per request: {}; requests and nodes' counters by round: {}",
            strategy.name(),
            of(|round| round.sent_late_ms),
            of(|round| round.node_cpu_us),
            rounds.iter().map(near).collect::<Vec<_>>().join("; ")
        ));
    }
}
