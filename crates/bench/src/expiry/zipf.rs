//! A Zipf mix of queries about persons and their acquaintances. Compares strategies on a graph with hubs.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::cache_status::Kind;
use super::figures::{Tail, share};
use super::graph::{Graph, Hints, Loaded, Names};
use super::hot::{kinds, mean_age_s, since};
use super::lifetimes::signed;
use super::open_loop::{OpenLoop, Sample, schedule};
use super::options::{Common, READING, turns};
use super::proxy::MARK;
use super::scene::{NODES, Origin, Plan, Scene};
use super::strategy::Strategy;
use crate::output::Output;
use hopcache_testbed::bolt_proxy::RunSeen;
use hopcache_testbed::dice::{Dice, Zipf};
use hopcache_testbed::report::Spread;

/// Options of the Zipf mix.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// The graph: `ldbc` is loaded into Neo4j and taken out again, `sample` is inside the nodes.
    #[arg(long, value_enum, default_value_t = Graph::Ldbc)]
    graph: Graph,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    data: PathBuf,
    /// Strategies, in the order of the table.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Strategy::Plain, Strategy::Topology, Strategy::Adaptive])]
    strategies: Vec<Strategy>,
    /// Mean delay that the proxy adds to each run, in ms. The sample graph has no proxy.
    #[arg(long, default_value_t = 20)]
    origin_ms: u64,
    /// Requests per second.
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// Seconds of each round.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// TTL in seconds.
    #[arg(long, default_value_t = 10)]
    ttl: u64,
    /// Exponent of the popularity.
    #[arg(long, default_value_t = 0.99)]
    exponent: f64,
    /// How the persons are ranked by popularity.
    #[arg(long, value_enum, default_value_t = Popular::Hubs)]
    popular: Popular,
    /// The source of degrees.
    #[arg(long, value_enum, default_value_t = Hints::Degree)]
    degrees: Hints,
}

/// Which person has the first rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Popular {
    /// Persons with the most acquaintances first.
    Hubs,
    /// Anybody.
    Anybody,
}

/// The result of one round.
struct Round {
    per_second: f64,
    tail: Tail,
    runs: Runs,
    late: usize,
    renewals: usize,
    mean_age_s: f64,
    kinds: [usize; 4],
    counted: String,
    /// CPU time of all nodes for each request.
    node_cpu_us: f64,
    samples: Vec<Sample>,
}

/// The benchmark's runs at the origin: by the proxy's count, or without a proxy by the nodes' own.
struct Runs {
    count: usize,
    /// Different queries among them.
    keys: usize,
    /// From the start of the load; only the proxy knows.
    at_us: Vec<i64>,
}

impl Runs {
    fn of(runs: &[RunSeen], start: Instant) -> Self {
        let keys: HashSet<&str> = runs.iter().map(|run| run.query.as_str()).collect();
        let at_us = runs.iter().map(|run| since(start, run.arrived)).collect();
        Self { count: runs.len(), keys: keys.len(), at_us }
    }
}

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut output = options.common.open("expiry-zipf", "Expiry in a Zipf mix")?;
    let loaded = match options.graph {
        Graph::Ldbc => Some(Loaded::load(&options.data).await?),
        Graph::Sample => None,
    };
    let outcome = rounds(options, &mut output).await;
    if let Some(loaded) = &loaded {
        loaded.remove().await?;
    }
    outcome?;
    output.close(READING)
}

async fn rounds(options: &Options, output: &mut Output) -> anyhow::Result<()> {
    output.report.line(&format!(
        "graph {:?}; three queries anchored at each person; Zipf {} ({:?} first), {} requests/s ({:?} arrivals) over three nodes for {} s a round, TTL {} s ± {:.0} %, {} rounds, strategies in turn; degrees: {:?}; origin time {}; origin.max_concurrent {}",
        options.graph, options.exponent, options.popular, options.rate, options.common.arrivals, options.seconds, options.ttl,
        options.common.jitter * 100.0, options.common.rounds, options.degrees,
        match options.graph { Graph::Ldbc => format!("Neo4j's and {} ms more in the mean", options.origin_ms), Graph::Sample => "the sample graph's".to_owned() },
        options.common.max_concurrent
    ));
    let mut arms: Vec<(Strategy, Vec<Round>)> =
        options.strategies.iter().map(|each| (*each, Vec::new())).collect();
    for round in 0..options.common.rounds {
        for place in turns(arms.len(), round) {
            output.say(&format!("round {}: {}", round + 1, arms[place].0.name()));
            let measured = measure(options, arms[place].0, round).await?;
            arms[place].1.push(measured);
        }
    }
    write_report(output, &arms);
    output.keep("seconds.csv", &seconds(&arms))
}

async fn measure(options: &Options, strategy: Strategy, round: usize) -> anyhow::Result<Round> {
    let common = &options.common;
    let (origin, delay_ms) = match options.graph {
        Graph::Ldbc => (Origin::Neo4j, options.origin_ms),
        Graph::Sample => (Origin::Embedded, 0),
    };
    let seed = common.seed.wrapping_add(round as u64);
    let plan = Plan {
        origin,
        nodes: NODES,
        entry: strategy.entry(),
        sections: strategy.sections(),
        ttl: Duration::from_secs(options.ttl),
        jitter: common.jitter,
        delay: Duration::from_millis(delay_ms),
        concurrent_max: common.max_concurrent,
        seed,
    };
    let scene = Scene::start(&plan).await?;
    let names = Names::of(options.graph);
    let mut persons = names.degrees(&scene, origin).await?;
    let mut dice = Dice::new(seed);
    if options.popular == Popular::Anybody {
        dice.shuffle(&mut persons);
    }
    let requests = names.requests(&persons, origin, options.degrees)?;
    let zipf = Zipf::new(requests.len(), options.exponent);
    let span = Duration::from_secs(options.seconds);
    let schedule = schedule(common.arrivals, options.rate, span, &mut dice, |dice| zipf.draw(dice));
    let nodes = scene.clients();
    let load = OpenLoop { nodes: &nodes, requests: &requests, schedule: &schedule, threads: common.threads };
    let runs_before = scene.counter("hopcache_origin_runs_total").await?.unwrap_or(0);
    let cpu = scene.cpu()?;
    let seen = tokio::task::block_in_place(|| load.run())?;
    let cpu = scene.cpu()?.saturating_sub(cpu);
    let runs_after = scene.counter("hopcache_origin_runs_total").await?.unwrap_or(0);
    let distinct: HashSet<usize> = seen.samples.iter().map(|sample| sample.key).collect();
    let runs = match &scene.proxy {
        Some(proxy) => Runs::of(&proxy.seen(MARK), seen.start),
        None => Runs {
            count: usize::try_from(runs_after - runs_before).unwrap_or(0),
            keys: distinct.len(),
            at_us: Vec::new(),
        },
    };
    let counted = scene.counters_text().await?;
    let mut measured = round_of(seen.samples, runs, counted, Duration::from_secs(options.ttl));
    measured.node_cpu_us = cpu.as_secs_f64() * 1e6 / f64::from(u32::try_from(schedule.len()).unwrap_or(1));
    Ok(measured)
}

#[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
fn round_of(samples: Vec<Sample>, runs: Runs, counted: String, ttl: Duration) -> Round {
    let mut by_key: BTreeMap<usize, Vec<&Sample>> = BTreeMap::new();
    samples.iter().for_each(|sample| by_key.entry(sample.key).or_default().push(sample));
    let ttl_us = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
    let end_us = samples.iter().map(|sample| sample.answered_us).max().unwrap_or(0).max(1);
    let kinds = kinds(samples.iter());
    Round {
        per_second: (samples.len() - kinds[3]) as f64 / (end_us as f64 / 1e6),
        tail: Tail::of(samples.iter().map(Sample::took_us).collect()),
        late: by_key.values().map(|samples| late_renewals(samples, ttl_us)).sum(),
        renewals: runs.count.saturating_sub(runs.keys),
        runs,
        mean_age_s: mean_age_s(samples.iter()),
        kinds,
        counted,
        node_cpu_us: 0.0,
        samples,
    }
}

/// How often readers of one key found it expired: a stale answer or a wait after a fresh hit, at most once in half a
/// TTL (nodes' own copies may be stale for a moment longer).
fn late_renewals(samples: &[&Sample], ttl_us: i64) -> usize {
    let (mut late, mut was_fresh, mut not_before_us) = (0, false, i64::MIN);
    for sample in samples {
        match sample.status.kind {
            Kind::Fresh => was_fresh = true,
            Kind::Stale | Kind::Miss if was_fresh && signed(sample.due_us) >= not_before_us => {
                late += 1;
                was_fresh = false;
                not_before_us = signed(sample.due_us) + ttl_us / 2;
            }
            Kind::Stale | Kind::Miss | Kind::Failed => {}
        }
    }
    late
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn write_report(output: &mut Output, arms: &[(Strategy, Vec<Round>)]) {
    output.report.line("\nMedian of the rounds (min–max). Latencies in ms from the intended time, over all answers. README.md says how each figure is made.\n");
    output.report.line("| strategy | answered/s | P50 | P95 | P99 | P99.9 | origin runs | keys asked | late renewals % | fresh hits % | stale hits % | waited for the origin % | mean age served s | nodes' CPU µs per request | failed |");
    output.report.line("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (strategy, rounds) in arms {
        let of = |figure: &dyn Fn(&Round) -> f64| Spread::of(&rounds.iter().map(figure).collect::<Vec<_>>());
        let kind =
            |place: usize| of(&move |round: &Round| share(round.kinds[place], round.samples.len()) * 100.0);
        let failed: usize = rounds.iter().map(|round| round.kinds[3]).sum();
        output.report.line(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {failed} |",
            strategy.name(),
            of(&|round| round.per_second),
            of(&|round| round.tail.p50_ms),
            of(&|round| round.tail.p95_ms),
            of(&|round| round.tail.p99_ms),
            of(&|round| round.tail.p999_ms),
            of(&|round| round.runs.count as f64),
            of(&|round| round.runs.keys as f64),
            of(&|round| share(round.late, round.renewals) * 100.0),
            kind(0),
            kind(1),
            kind(2),
            of(&|round| round.mean_age_s),
            of(&|round| round.node_cpu_us),
        ));
    }
    output.report.line("");
    for (strategy, rounds) in arms {
        for (number, round) in rounds.iter().enumerate() {
            output.report.line(&format!(
                "{} round {}: {} late of {} renewals; {}",
                strategy.name(),
                number + 1,
                round.late,
                round.renewals,
                round.counted
            ));
        }
    }
}

fn seconds(arms: &[(Strategy, Vec<Round>)]) -> String {
    let mut text =
        "strategy,round,second,requests,p50_us,p95_us,p99_us,fresh,stale,miss,failed,origin_runs\n"
            .to_owned();
    for (strategy, rounds) in arms {
        for (number, round) in rounds.iter().enumerate() {
            for (second, now) in round
                .samples
                .chunk_by(|one, other| one.due_us / 1_000_000 == other.due_us / 1_000_000)
                .enumerate()
            {
                let at = now.first().map_or(second as u64, |sample| sample.due_us / 1_000_000);
                let within = |run: &&i64| run.div_euclid(1_000_000) == signed(at);
                let tail = Tail::of(now.iter().map(Sample::took_us).collect());
                let [fresh, stale, miss, failed] = kinds(now.iter());
                let [p50, p95, p99] = [tail.p50_ms, tail.p95_ms, tail.p99_ms].map(|ms| ms * 1e3);
                let _ = writeln!(
                    text,
                    "{},{},{at},{},{p50:.0},{p95:.0},{p99:.0},{fresh},{stale},{miss},{failed},{}",
                    strategy.name(),
                    number + 1,
                    now.len(),
                    round.runs.at_us.iter().filter(within).count()
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::cache_status::CacheStatus;
    use super::*;

    #[test]
    fn a_renewal_is_late_once_however_many_notice() {
        let answer = |at_s: u64, kind| {
            let at_us = at_s * 1_000_000;
            let status = CacheStatus { kind, ttl_s: None, age_s: None };
            Sample { key: 0, due_us: at_us, sent_us: at_us, answered_us: at_us, status }
        };
        use Kind::{Fresh, Miss, Stale};
        let kinds = [Miss, Fresh, Fresh, Stale, Stale, Fresh, Stale, Fresh, Fresh, Fresh, Miss];
        let samples: Vec<Sample> = kinds.iter().zip(0..).map(|(kind, at)| answer(at, *kind)).collect();
        let samples: Vec<&Sample> = samples.iter().collect();
        // The first load is no renewal; the stale answer at 6 s belongs to the renewal of 3 s.
        assert_eq!(late_renewals(&samples, 10_000_000), 2);
    }
}
