//! Many keys loaded within a second: measures the wave of their refreshes one TTL later, with and without TTL jitter,
//! against the even rate of keys ÷ TTL.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

use super::figures::{Tail, busiest};
use super::hot::{kinds, since};
use super::open_loop::{Due, OpenLoop, Sample, Seen, schedule};
use super::options::{Common, READING, turns};
use super::proxy::MARK;
use super::scene::{NODES, Origin, Plan, Scene, login};
use super::strategy::Strategy;
use crate::output::Output;
use crate::plot::{Chart, Scale, Series};
use hopcache_testbed::bolt_proxy::RunSeen;
use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::post;
use hopcache_testbed::report::Spread;

/// Options of the keys loaded together.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// The origin. Neo4j may need more than a second to load the keys; the report has the time.
    #[arg(long, value_enum, default_value_t = Origin::Scripted)]
    origin: Origin,
    /// The strategy of both arms.
    #[arg(long, value_enum, default_value_t = Strategy::Adaptive)]
    strategy: Strategy,
    /// Mean delay that the proxy adds to each run, in ms.
    #[arg(long, default_value_t = 0)]
    origin_ms: u64,
    /// Keys.
    #[arg(long, default_value_t = 10_000)]
    keys: usize,
    /// Requests per second over all keys, behind the loading.
    #[arg(long, default_value_t = 5_000)]
    rate: u32,
    /// TTL in seconds.
    #[arg(long, default_value_t = 60)]
    ttl: u64,
}

/// Over which the origin's busiest time is counted.
const WINDOW_US: i64 = 1_000_000;
/// Loading ends this long before the wave is counted.
const SETTLE: Duration = Duration::from_secs(2);

/// Jitter of TTLs.
struct Arm {
    jitter: f64,
    rounds: Vec<Round>,
}

struct Round {
    loaded_in_s: f64,
    runs: usize,
    peak: usize,
    peak_at_s: f64,
    ratio: f64,
    tail: Tail,
    kinds: [usize; 4],
    /// Runs, from the start of the loading.
    runs_us: Vec<i64>,
}

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(
        options.origin != Origin::Embedded,
        "the wave is counted by the proxy: --origin scripted or neo4j"
    );
    ensure!(options.keys > 0 && options.ttl >= 5, "at least one key and a TTL of 5 s");
    let mut output = options.common.open("expiry-together", "Keys that were loaded together")?;
    output.report.line(&format!(
        "{} keys due within one second, then {} requests/s over all of them ({:?} arrivals, keys at random), TTL {} s, strategy {}, origin {:?} with {} ms in the mean, {} rounds, arms in turn; even rate: {:.1} runs/s; origin.max_concurrent {}",
        options.keys, options.rate, options.common.arrivals, options.ttl, options.strategy.name(), options.origin,
        options.origin_ms, options.common.rounds, even_rate(options), options.common.max_concurrent
    ));
    let mut arms = [options.common.jitter, 0.0].map(|jitter| Arm { jitter, rounds: Vec::new() });
    for round in 0..options.common.rounds {
        for place in turns(arms.len(), round) {
            output.say(&format!("round {}: jitter {}", round + 1, arms[place].jitter));
            let measured = measure(options, arms[place].jitter, round).await?;
            arms[place].rounds.push(measured);
        }
    }
    write_report(&mut output, options, &arms);
    output.keep("origin-rate.csv", &rates(&arms))?;
    output.draw(&PathBuf::from("origin-rate"), &chart(options, &arms))?;
    output.close(READING)
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn even_rate(options: &Options) -> f64 {
    options.keys as f64 / options.ttl as f64
}

async fn measure(options: &Options, jitter: f64, round: usize) -> anyhow::Result<Round> {
    let common = &options.common;
    let seed = common.seed.wrapping_add(round as u64);
    let ttl = Duration::from_secs(options.ttl);
    let plan = Plan {
        origin: options.origin,
        nodes: NODES,
        entry: options.strategy.entry(),
        sections: options.strategy.sections(),
        ttl,
        jitter,
        delay: Duration::from_millis(options.origin_ms),
        concurrent_max: common.max_concurrent,
        seed,
    };
    let scene = Scene::start(&plan).await?;
    let (nodes, headers) = (scene.clients(), login(options.origin)?);
    let statement = format!("RETURN $n {MARK}");
    let requests: Vec<Vec<u8>> =
        (0..options.keys).map(|n| post(&statement, &json!({ "n": n }), &headers)).collect();
    // The text's first sight costs an EXPLAIN, and log-ons cost connections: both before the clock runs.
    let beyond = [post(&statement, &json!({ "n": -1 }), &headers)];
    let first: Vec<Due> = (0..common.threads).map(|turn| Due { at_us: 0, key: 0, turn }).collect();
    let warm = OpenLoop { nodes: &nodes, requests: &beyond, schedule: &first, threads: common.threads };
    tokio::task::block_in_place(|| warm.run())?;
    let mut due: Vec<Due> = (0..options.keys)
        .map(|key| Due { at_us: (key as u64) * 1_000_000 / (options.keys as u64), key, turn: key })
        .collect();
    // A whole TTL, the jitter, and the time in which late keys are asked again.
    let span = SETTLE + ttl.mul_f64(1.3);
    let steady =
        schedule(common.arrivals, options.rate, span, &mut Dice::new(seed), |dice| dice.below(options.keys));
    due.extend(steady.iter().map(|each| Due { at_us: each.at_us + 1_000_000, ..*each }));
    let load = OpenLoop { nodes: &nodes, requests: &requests, schedule: &due, threads: common.threads };
    let seen = tokio::task::block_in_place(|| load.run())?;
    let proxy = scene.proxy.as_ref().context("there is a proxy")?;
    let mut runs = proxy.seen(MARK);
    runs.retain(|run| since(seen.start, run.arrived) >= 0);
    round_of(options, &seen, &runs)
}

#[expect(clippy::cast_precision_loss, reason = "counts and microseconds are far below 2^53")]
fn round_of(options: &Options, seen: &Seen, runs: &[RunSeen]) -> anyhow::Result<Round> {
    let (mut loaded, mut loaded_us) = (HashSet::new(), None);
    for run in runs {
        if loaded.insert(run.query.as_str()) && loaded.len() == options.keys {
            loaded_us = Some(since(seen.start, run.arrived));
        }
    }
    let loaded_us = loaded_us.with_context(|| format!("{} keys were loaded", loaded.len()))?;
    let (samples, runs_us) = (&seen.samples, sorted(runs, seen.start));
    let settled_us = loaded_us + i64::try_from(SETTLE.as_micros()).unwrap_or(0);
    let wave = &runs_us[runs_us.partition_point(|at| *at < settled_us)..];
    let (peak, peak_at_us) = busiest(wave, WINDOW_US);
    let behind =
        &samples[samples.partition_point(|sample| super::lifetimes::signed(sample.due_us) < settled_us)..];
    Ok(Round {
        loaded_in_s: loaded_us as f64 / 1e6,
        runs: wave.len(),
        peak,
        peak_at_s: peak_at_us as f64 / 1e6,
        ratio: peak as f64 / even_rate(options),
        tail: Tail::of(behind.iter().map(Sample::took_us).collect()),
        kinds: kinds(behind.iter()),
        runs_us,
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn write_report(output: &mut Output, options: &Options, arms: &[Arm]) {
    output.report.line("\nMedian of the rounds (min–max). Peak: most origin runs that arrived in any one second behind the loading, wherever it begins.\n");
    output.report.line("| TTL jitter | loaded in s | peak runs/s | peak ÷ even rate | peak at s | runs behind the loading | P99 ms | fresh | stale | waited | failed |");
    output.report.line("|---|---|---|---|---|---|---|---|---|---|---|");
    for arm in arms {
        let of =
            |figure: &dyn Fn(&Round) -> f64| Spread::of(&arm.rounds.iter().map(figure).collect::<Vec<_>>());
        let sum = |place: usize| arm.rounds.iter().map(|round| round.kinds[place]).sum::<usize>();
        output.report.line(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            arm.jitter,
            of(&|round| round.loaded_in_s),
            of(&|round| round.peak as f64),
            of(&|round| round.ratio),
            of(&|round| round.peak_at_s),
            of(&|round| round.runs as f64),
            of(&|round| round.tail.p99_ms),
            sum(0),
            sum(1),
            sum(2),
            sum(3)
        ));
    }
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let each = f64::from(options.rate) / options.keys as f64;
    output.report.line(&format!("\neach key is asked {each:.2} times a second: a key without requests is not refreshed, so a lower rate spreads the wave"));
}

/// Two connections' runs may have been noted in another order than they arrived in.
fn sorted(runs: &[RunSeen], start: Instant) -> Vec<i64> {
    let mut at_us: Vec<i64> = runs.iter().map(|run| since(start, run.arrived)).collect();
    at_us.sort_unstable();
    at_us
}

fn per_second(runs_us: &[i64]) -> Vec<usize> {
    let seconds = runs_us.last().map_or(0, |last| usize::try_from(last / WINDOW_US).unwrap_or(0) + 1);
    let mut counts = vec![0; seconds];
    for at in runs_us {
        if let Some(count) = usize::try_from(at / WINDOW_US).ok().and_then(|second| counts.get_mut(second)) {
            *count += 1;
        }
    }
    counts
}

fn rates(arms: &[Arm]) -> String {
    let mut text = "jitter,round,second,origin_runs\n".to_owned();
    for arm in arms {
        for (number, round) in arm.rounds.iter().enumerate() {
            for (second, count) in per_second(&round.runs_us).iter().enumerate() {
                let _ = writeln!(text, "{},{},{second},{count}", arm.jitter, number + 1);
            }
        }
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn chart(options: &Options, arms: &[Arm]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    for arm in arms {
        let Some(round) = arm.rounds.first() else { continue };
        let counts = per_second(&round.runs_us);
        let points = counts.iter().enumerate().map(|(second, count)| (second as f64, *count as f64));
        series.push(Series { name: format!("TTL jitter {}", arm.jitter), points: points.collect() });
    }
    let end = series.iter().filter_map(|each| each.points.last()).map(|point| point.0).fold(1.0, f64::max);
    let even = even_rate(options);
    series.push(Series { name: "even rate".to_owned(), points: vec![(0.0, even), (end, even)] });
    Chart {
        title: format!("{} keys due within one second, TTL {} s", options.keys, options.ttl),
        across: "seconds from the start of the loading (first round)",
        up: "origin runs per second",
        scale: Scale::Linear,
        names: Vec::new(),
        series,
    }
}
