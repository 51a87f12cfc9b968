//! One hot key, asked at a fixed rate over many TTLs, under each strategy and each origin time. Measures how readers
//! notice expiries, and how often the origin runs the query.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use super::cache_status::Kind;
use super::figures::{Tail, percentile, share};
use super::lifetimes::{expiries, late, lifetimes, offset_us, runs_per_window, signed};
use super::open_loop::{OpenLoop, Sample, schedule};
use super::options::{Common, READING, turns};
use super::proxy::MARK;
use super::scene::{NODES, Origin, Plan, Scene, login};
use super::strategy::Strategy;
use crate::output::Output;
use crate::plot::{Chart, Series};
use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::post;
use hopcache_testbed::report::Spread;

/// Options of the hot key.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// The origin. `embedded` has no proxy and cannot be used here.
    #[arg(long, value_enum, default_value_t = Origin::Neo4j)]
    origin: Origin,
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
/// Width of the bins around an expiry.
const BIN_US: i64 = 20_000;

/// The result of one measurement.
struct Round {
    samples: Vec<Sample>,
    expiries: Vec<i64>,
    runs_us: Vec<i64>,
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

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.ttl >= 3, "a TTL below 3 s leaves nothing between the expiries: --ttl 3 or more");
    ensure!(!options.strategies.is_empty() && !options.origin_ms.is_empty(), "nothing to measure");
    let mut output = options.common.open("expiry-hot", "Expiry of a hot key")?;
    output.report.line(&format!(
        "one key, {} requests/s ({:?} arrivals) over three nodes, TTL {} s ± {:.0} %, {} TTLs a round, {} rounds, strategies in turn; hint degree={} under every strategy; origin {:?} behind the delaying proxy; origin.max_concurrent {}; at most {} requests under way",
        options.rate, options.common.arrivals, options.ttl, options.common.jitter * 100.0, options.ttls,
        options.common.rounds, options.degree, options.origin, options.common.max_concurrent, options.common.threads
    ));
    let pairs =
        options.origin_ms.iter().flat_map(|ms| options.strategies.iter().map(move |each| (*ms, *each)));
    let mut arms: Vec<Arm> =
        pairs.map(|(origin_ms, strategy)| Arm { strategy, origin_ms, rounds: Vec::new() }).collect();
    for round in 0..options.common.rounds {
        for place in turns(arms.len(), round) {
            let arm = &mut arms[place];
            output.say(&format!("round {}: {}, {} ms", round + 1, arm.strategy.name(), arm.origin_ms));
            let measured = measure(options, arm, round).await?;
            arm.rounds.push(measured);
        }
    }
    write_report(&mut output, options, &arms);
    output.keep("seconds.csv", &seconds(&arms))?;
    let bins: Vec<Vec<Bin>> = arms.iter().map(bins_of).collect();
    output.keep("around-expiry.csv", &around(&arms, &bins))?;
    for origin_ms in &options.origin_ms {
        let stem = PathBuf::from(format!("around-expiry-{origin_ms}ms"));
        output.draw(&stem, &chart(options, &arms, &bins, *origin_ms))?;
    }
    output.close(READING)
}

async fn measure(options: &Options, arm: &Arm, round: usize) -> anyhow::Result<Round> {
    let common = &options.common;
    let seed = common.seed.wrapping_add(round as u64);
    let ttl = Duration::from_secs(options.ttl);
    let plan = Plan {
        origin: options.origin,
        nodes: NODES,
        entry: arm.strategy.entry(),
        sections: arm.strategy.sections(),
        ttl,
        jitter: common.jitter,
        delay: Duration::from_millis(arm.origin_ms),
        concurrent_max: common.max_concurrent,
        seed,
    };
    let scene = Scene::start(&plan).await?;
    let nodes = scene.clients();
    let headers = format!("{}hopcache-hint: degree={}\r\n", login(options.origin)?, options.degree);
    let statement = format!("UNWIND range(1, 20) AS x RETURN x {MARK}");
    let requests = [post(&statement, &json!({ "n": 1 }), &headers)];
    // Half a TTL more, so that the time around the last expiry is complete.
    let span = ttl * options.ttls + ttl * 3 / 5;
    let schedule = schedule(common.arrivals, options.rate, span, &mut Dice::new(seed), |_| 0);
    let load = OpenLoop { nodes: &nodes, requests: &requests, schedule: &schedule, threads: common.threads };
    let cpu = scene.cpu()?;
    let seen = tokio::task::block_in_place(|| load.run())?;
    let cpu = scene.cpu()?.saturating_sub(cpu);
    let runs = scene.proxy.seen(MARK);
    ensure!(runs.iter().all(|run| run.query == runs[0].query), "the origin ran something else as well");
    let runs_us = runs.iter().map(|run| since(seen.start, run.arrived)).collect();
    let mut measured = round_of(seen.samples, runs_us, ttl, span);
    measured.counted = scene.counters_text().await?;
    measured.node_cpu_us = cpu.as_secs_f64() * 1e6 / f64::from(u32::try_from(schedule.len()).unwrap_or(1));
    Ok(measured)
}

/// Time from the start of the load. Times before it are negative.
pub(super) fn since(start: std::time::Instant, at: std::time::Instant) -> i64 {
    let micros = |span: Duration| i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    micros(at.saturating_duration_since(start)) - micros(start.saturating_duration_since(at))
}

fn round_of(samples: Vec<Sample>, runs_us: Vec<i64>, ttl: Duration, span: Duration) -> Round {
    let (ttl_us, end_us) = (micros(ttl), micros(span));
    let lifetimes = lifetimes(&samples);
    let expiries = expiries(&lifetimes, ttl_us, ttl_us / 2, end_us - ttl_us / 2);
    // The first load has nothing to be stale from: it is no expiry, and the same for all.
    let settled_us = (ttl_us / 2).min(2_000_000);
    let counted: Vec<&Sample> = samples.iter().filter(|sample| signed(sample.due_us) >= settled_us).collect();
    let is_near =
        |sample: &&&Sample| offset_us(&expiries, signed(sample.due_us)).is_some_and(|at| at.abs() <= NEAR_US);
    let (near, normal): (Vec<&Sample>, Vec<&Sample>) = counted.iter().partition(|sample| is_near(sample));
    let tail = |samples: &[&Sample]| Tail::of(samples.iter().map(|sample| sample.took_us()).collect());
    let mut sent_late: Vec<u64> =
        counted.iter().map(|sample| sample.sent_us.saturating_sub(sample.due_us)).collect();
    sent_late.sort_unstable();
    Round {
        windows: runs_per_window(&expiries, &runs_us, ttl_us),
        late: late(&expiries, &lifetimes, &samples, ttl_us),
        normal: tail(&normal),
        near: tail(&near),
        mean_age_s: mean_age_s(counted.iter().copied()),
        failed: counted.iter().filter(|sample| sample.status.kind == Kind::Failed).count(),
        sent_late_ms: percentile(&sent_late, 0.99) / 1e3,
        counted: String::new(),
        node_cpu_us: 0.0,
        samples,
        expiries,
        runs_us,
    }
}

/// Of answers; `Age` is rounded down, so half a second is added to each hit's. A miss is new.
#[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
pub(super) fn mean_age_s<'a>(samples: impl Iterator<Item = &'a Sample>) -> f64 {
    let answered = samples.filter(|sample| sample.status.kind != Kind::Failed);
    let age = |sample: &Sample| sample.status.age_s.map_or(0.0, |age| f64::from(age) + 0.5);
    let (sum, count) = answered.fold((0.0, 0_usize), |(sum, count), each| (sum + age(each), count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn write_report(output: &mut Output, options: &Options, arms: &[Arm]) {
    output.report.line("\nLatencies in ms from the intended time, median of the rounds (min–max). Near: due within 1 s of an expiry. README.md says how each figure is made.\n");
    output.report.line("| strategy | origin ms | P50 normal | P99 normal | P99.9 normal | P50 near | P99 near | P99.9 near | P99 near ÷ P99 normal | origin runs per TTL window: min–max | windows with exactly one | late expiries | mean age served s | failed |");
    output.report.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for arm in arms {
        let of = |figure: fn(&Round) -> f64| Spread::of(&arm.rounds.iter().map(figure).collect::<Vec<_>>());
        let windows: Vec<usize> = arm.rounds.iter().flat_map(|round| round.windows.clone()).collect();
        let (least, most) =
            (windows.iter().min().copied().unwrap_or(0), windows.iter().max().copied().unwrap_or(0));
        let once = windows.iter().filter(|runs| **runs == 1).count();
        let late: usize = arm.rounds.iter().map(|round| round.late).sum();
        let failed: usize = arm.rounds.iter().map(|round| round.failed).sum();
        let expiries: usize = arm.rounds.iter().map(|round| round.expiries.len()).sum();
        output.report.line(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {least}–{most} | {once} of {} | {late} of {expiries} ({:.1} %) | {} | {failed} |",
            arm.strategy.name(),
            arm.origin_ms,
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
        ));
    }
    output.report.line("");
    for arm in arms {
        let counted: Vec<&str> = arm.rounds.iter().map(|round| round.counted.as_str()).collect();
        let sent: Vec<f64> = arm.rounds.iter().map(|round| round.sent_late_ms).collect();
        let cpu: Vec<f64> = arm.rounds.iter().map(|round| round.node_cpu_us).collect();
        let near: Vec<String> = arm
            .rounds
            .iter()
            .map(|round| format!("{} near, {} normal", round.near.count, round.normal.count))
            .collect();
        output.report.line(&format!(
            "{}, {} ms: requests {}; sent late by the generator, P99 ms: {}; nodes' CPU µs per request: {}; nodes' counters: {}",
            arm.strategy.name(), arm.origin_ms, near.join("; "), Spread::of(&sent), Spread::of(&cpu), counted.join("; ")
        ));
    }
    output
        .report
        .line(&format!("load of each arm and round: {} requests/s for {} TTLs", options.rate, options.ttls));
}

/// Kinds of some samples: fresh, stale, misses, failed.
pub(super) fn kinds<'a>(samples: impl Iterator<Item = &'a Sample>) -> [usize; 4] {
    let mut counts = [0; 4];
    for sample in samples {
        let place = match sample.status.kind {
            Kind::Fresh => 0,
            Kind::Stale => 1,
            Kind::Miss => 2,
            Kind::Failed => 3,
        };
        counts[place] += 1;
    }
    counts
}

/// One line for each second of each round.
fn seconds(arms: &[Arm]) -> String {
    let mut text = "strategy,origin_ms,round,second,requests,p50_us,p99_us,max_us,fresh,stale,miss,failed,origin_runs,expiries\n".to_owned();
    for arm in arms {
        for (number, round) in arm.rounds.iter().enumerate() {
            let mut rest = round.samples.as_slice();
            for second in 0_u32.. {
                if rest.is_empty() {
                    break;
                }
                let (from, to) = (i64::from(second) * 1_000_000, i64::from(second + 1) * 1_000_000);
                let (now, later) = rest.split_at(rest.partition_point(|sample| signed(sample.due_us) < to));
                rest = later;
                let within = |times: &[i64]| times.iter().filter(|at| (from..to).contains(*at)).count();
                let [fresh, stale, miss, failed] = kinds(now.iter());
                let mut took: Vec<u64> = now.iter().map(Sample::took_us).collect();
                took.sort_unstable();
                let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| percentile(&took, share));
                let _ = writeln!(
                    text,
                    "{},{},{},{second},{},{p50},{p99},{most},{fresh},{stale},{miss},{failed},{},{}",
                    arm.strategy.name(),
                    arm.origin_ms,
                    number + 1,
                    now.len(),
                    within(&round.runs_us),
                    within(&round.expiries)
                );
            }
        }
    }
    text
}

/// Requests at one distance from an expiry, over all expiries of all rounds.
struct Bin {
    offset_us: i64,
    took_us: Vec<u64>,
    kinds: [usize; 4],
}

fn bins_of(arm: &Arm) -> Vec<Bin> {
    let first = -NEAR_US.div_euclid(BIN_US);
    (first..-first)
        .map(|place| {
            let offset_us = place * BIN_US;
            let (mut took_us, mut counts) = (Vec::new(), [0; 4]);
            for round in &arm.rounds {
                for expiry in &round.expiries {
                    let place = |at: i64| round.samples.partition_point(|sample| signed(sample.due_us) < at);
                    let bin = &round.samples[place(expiry + offset_us)..place(expiry + offset_us + BIN_US)];
                    took_us.extend(bin.iter().map(Sample::took_us));
                    let more = kinds(bin.iter());
                    counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
                }
            }
            took_us.sort_unstable();
            Bin { offset_us, took_us, kinds: counts }
        })
        .collect()
}

fn around(arms: &[Arm], bins: &[Vec<Bin>]) -> String {
    let mut text =
        "strategy,origin_ms,from_expiry_ms,requests,p50_us,p99_us,max_us,fresh,stale,miss,failed\n"
            .to_owned();
    for (arm, bins) in arms.iter().zip(bins) {
        for bin in bins {
            let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| percentile(&bin.took_us, share));
            let [fresh, stale, miss, failed] = bin.kinds;
            let _ = writeln!(
                text,
                "{},{},{},{},{p50},{p99},{most},{fresh},{stale},{miss},{failed}",
                arm.strategy.name(),
                arm.origin_ms,
                bin.offset_us / 1_000,
                bin.took_us.len()
            );
        }
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds of a second")]
fn chart(options: &Options, arms: &[Arm], bins: &[Vec<Bin>], origin_ms: u64) -> Chart {
    let of_time = arms.iter().zip(bins).filter(|(arm, _)| arm.origin_ms == origin_ms);
    let series = of_time.map(|(arm, bins)| Series {
        name: arm.strategy.name().to_owned(),
        points: bins
            .iter()
            .filter(|bin| !bin.took_us.is_empty())
            .map(|bin| (bin.offset_us as f64 / 1e3, percentile(&bin.took_us, 0.99) / 1e3))
            .collect(),
    });
    Chart {
        title: format!(
            "A hot key's expiry: P99 of {} requests/s, origin {origin_ms} ms (log-normal)",
            options.rate
        ),
        across: "ms from the expiry (20 ms bins over all expiries and rounds)",
        up: "P99 latency from the intended time, ms",
        series: series.collect(),
    }
}
