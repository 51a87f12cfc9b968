//! Arms beside each other on the same clicks: exact and template alone, all kinds together, and all kinds without gossip, each
//! beside the same round without prefetch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use hopcache_testbed::node::{Nodes, PREFETCH_OFF};
use hopcache_testbed::process::get;
use hopcache_testbed::report::{Report, Spread, progress};
use serde_json::Value;

use super::counts::Counts;
use super::source::Source;
use super::walk::{Click, Traffic, walks};
use super::{asking, requests, section};
use crate::cache_status::Kind;
use crate::delayed::{MARK, Plan, Scene};
use crate::expiry::Common;
use crate::figures::{Tail, each_us, micros};
use crate::load::{Sample, open, turns};

/// Options of walks.
#[derive(clap::Args)]
#[group(id = "walks")]
pub(crate) struct Options {
    #[command(flatten)]
    common: Common,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    data: PathBuf,
    /// Arms, in the order of the table. `off` is always measured. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// Mean delay that the proxy adds to each run, in ms.
    #[arg(long, default_value_t = 20)]
    origin_ms: u64,
    /// Clicks per second, of all sessions together.
    #[arg(long, default_value_t = 300.0)]
    rate: f64,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds before the measurement. During them sessions begin one by one, caches are empty, and nodes have learned
    /// nothing. A copy counts as wasted only after its life, which is 1.5 TTL.
    #[arg(long, default_value_t = 30)]
    warm: u64,
    /// TTL in seconds. 20 s at 300 clicks/s are 6,000 clicks, over about 24,000 different queries.
    #[arg(long, default_value_t = 20)]
    ttl: u64,
    /// Clicks of a session.
    #[arg(long, default_value_t = 24)]
    clicks: usize,
    /// Pauses between a session's clicks are exponential with a mean of 1 s, times this.
    #[arg(long, default_value_t = 0.5)]
    think: f64,
    /// Share of clicks that follow from an earlier result.
    #[arg(long, default_value_t = 0.7)]
    follow: f64,
    /// Share of follows from a profile that do the usual: open the friends after a jump, or the posts after a choice
    /// from a list.
    #[arg(long, default_value_t = 0.9)]
    usual: f64,
    /// Number of applications; sessions belong to them in turn. Each application has its own statements, so with many
    /// of them a node seldom sees each.
    #[arg(long, default_value_t = 1)]
    applications: usize,
    /// Exponent of the popularity of persons that are jumped to.
    #[arg(long, default_value_t = 0.99)]
    exponent: f64,
}

/// The kinds of prefetch, and whether nodes share what they learn: configurations of the same binary. Nothing else differs between
/// them, requests included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Arm {
    /// No prefetch.
    Off,
    /// Queries that were seen before, with their parameters.
    Exact,
    /// Statements whose parameters are bound to earlier parameters and results.
    Template,
    /// All kinds: these two, and entries that overlap.
    Both,
    /// As `both`, but each node learns alone.
    BothAlone,
}

impl Arm {
    const ALL: [Self; 5] = [Self::Off, Self::Exact, Self::Template, Self::Both, Self::BothAlone];

    fn section(self) -> String {
        match self {
            Self::Off => PREFETCH_OFF.to_owned(),
            Self::Exact => section(&["exact"], true),
            Self::Template => section(&["template"], true),
            Self::Both | Self::BothAlone => section(&["exact", "template", "overlap"], self == Self::Both),
        }
    }
}

/// Pause after the last answer, so that work under way is counted.
const REST: Duration = Duration::from_secs(2);

/// The result of one round of one arm.
struct Round {
    requests: usize,
    /// Requests whose client waited for Neo4j, also for a prefetch that was under way.
    waited: usize,
    errors: usize,
    tail: Tail,
    /// Successors that the node knows which knows least, at the end.
    forms_known: u64,
    /// Of the measured time, and since the nodes' start, at rest.
    counts: Counts,
    whole: Counts,
    /// Runs that the proxy counted.
    proxied: usize,
    /// CPU time of all nodes, from their start on, for each request.
    node_cpu_us: f64,
    sent_late_ms: f64,
}

type Measured = Vec<(Arm, Vec<Round>)>;

pub(super) async fn run(options: &Options) -> anyhow::Result<()> {
    let is_share = (0.0..=1.0).contains(&options.follow);
    ensure!(is_share && options.rate > 0.0 && options.clicks > 0, "no such clicks");
    let mut report = Report::open("Prefetch on walks");
    let measure = async |source: &Source| rounds(options, source, &mut report).await;
    let measured = Source::lend(&options.data, measure).await?;
    table(&measured, &mut report);
    relative(&measured, &mut report);
    details(&measured, &mut report);
    report.line(include_str!("walks.md"));
    options.common.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

async fn rounds(options: &Options, source: &Source, report: &mut Report) -> anyhow::Result<Measured> {
    let Options { common, .. } = options;
    let span = Duration::from_secs(options.warm + options.seconds);
    report.line(&format!(
        "LDBC SNB: {}; {:.0} % of clicks follow from an earlier result (row by AOL's shares of clicks by rank), the others jump to a person (Zipf {} over persons by their friends); {} clicks/s in sessions of {} clicks (Poisson arrivals, exponential pauses of {} s in the mean), each session's clicks round robin over three nodes; {} applications; TTL {} s ± {:.0} %; {} s measured behind {} s of warm-up; {} rounds, arms in turn, the same clicks in every arm; origin time Neo4j's and {} ms more in the mean; origin.max_concurrent {}",
        source.size(),
        options.follow * 100.0,
        options.exponent,
        options.rate,
        options.clicks,
        options.think,
        options.applications,
        options.ttl,
        common.jitter * 100.0,
        options.seconds,
        options.warm,
        common.rounds,
        options.origin_ms,
        common.max_concurrent,
    ));
    let mut arms = if options.arms.is_empty() { Arm::ALL.to_vec() } else { options.arms.clone() };
    if !arms.contains(&Arm::Off) {
        arms.insert(0, Arm::Off);
    }
    let mut measured: Measured = arms.into_iter().map(|arm| (arm, Vec::new())).collect();
    for round in 0..common.rounds {
        let seed = common.seed.wrapping_add(round as u64);
        let traffic = Traffic {
            rate: options.rate,
            span,
            clicks: options.clicks,
            think: Duration::from_secs_f64(options.think),
            follow: options.follow,
            usual: options.usual,
            exponent: options.exponent,
            seed,
        };
        let clicks = walks(&source.graph, &traffic);
        for place in turns(measured.len(), round) {
            let (arm, rounds) = &mut measured[place];
            progress(&format!("round {}: {arm:?}", round + 1));
            rounds.push(measure(options, source, (*arm, seed), &clicks).await?);
        }
    }
    Ok(measured)
}

async fn measure(
    options: &Options,
    source: &Source,
    (arm, seed): (Arm, u64),
    clicks: &[Click],
) -> anyhow::Result<Round> {
    let common = &options.common;
    let plan = Plan {
        entry: "",
        sections: arm.section(),
        ttl: Duration::from_secs(options.ttl),
        jitter: common.jitter,
        delay: Duration::from_millis(options.origin_ms),
        concurrent_max: common.max_concurrent,
        seed,
    };
    let Scene { nodes, proxy } = Scene::start(&plan).await?;
    let nodes = Arc::new(nodes);
    let asked = Arc::new(requests(source, clicks, options.applications)?);
    let due = clicks.iter().map(|click| click.at_us).collect();
    let warm = Duration::from_secs(options.warm);
    let looking = tokio::spawn(look(Arc::clone(&nodes), warm));
    let seen = open(asking(nodes.clients(), asked), due, common.under_way).await?;
    let before = looking.await.context("the look at the counters ended")??;
    tokio::time::sleep(REST).await;
    let whole = Counts::of(&nodes.metrics().await?);
    let node_cpu_us = each_us(nodes.cpu()?, clicks.len());
    let mut forms_known = u64::MAX;
    for node in &nodes.nodes {
        let answer = get(node.admin, "/admin/v1/successors?pattern=&limit=1").await?;
        let answer: Value = serde_json::from_str(&answer)?;
        forms_known = forms_known.min(answer["forms_known"].as_u64().unwrap_or(0));
    }
    let is_measured = |sample: &&Sample| sample.due_us >= micros(warm);
    let measured: Vec<&Sample> = seen.samples.iter().filter(is_measured).collect();
    let waits = |sample: &&&Sample| sample.status.kind == Kind::Miss;
    Ok(Round {
        requests: measured.len(),
        waited: measured.iter().filter(waits).count(),
        errors: seen.errors() + seen.dropped,
        tail: Tail::of(measured.iter().map(|sample| sample.took_us()).collect()),
        forms_known,
        counts: whole.since(&before),
        whole,
        proxied: proxy.runs(MARK),
        node_cpu_us,
        sent_late_ms: seen.sent_late_ms(),
    })
}

/// The counters at the end of the warm-up.
async fn look(nodes: Arc<Nodes>, warm: Duration) -> anyhow::Result<Counts> {
    tokio::time::sleep(warm).await;
    Ok(Counts::of(&nodes.metrics().await?))
}

fn spread(rounds: &[Round], figure: impl Fn(&Round) -> f64) -> Spread {
    Spread::of(&rounds.iter().map(figure).collect::<Vec<_>>())
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn table(measured: &Measured, report: &mut Report) {
    type Count = (&'static str, fn(&Round) -> u64);
    const COUNTS: [Count; 11] = [
        ("requests", |round| round.requests as u64),
        ("hits", |round| round.counts.hits),
        ("waited", |round| round.waited as u64),
        ("demand misses", |round| round.counts.miss_runs),
        ("runs: refresh", |round| round.counts.refresh_runs),
        ("runs: prefetch", |round| round.counts.prefetch_runs),
        ("origin runs", |round| round.counts.runs),
        ("launched", |round| round.counts.launched),
        ("used", |round| round.counts.used),
        ("late", |round| round.counts.late),
        ("wasted", |round| round.counts.wasted),
    ];
    report.line(
        "\nMedian of the rounds (min–max), of the measured time. Latencies in ms from the intended time.\n",
    );
    let heads = COUNTS.map(|(head, _)| head).join(" | ");
    report.line(&format!("| arm | {heads} | accuracy | at least | P50 | P95 | P99 | errors |"));
    report.line(&format!("|{}", "---|".repeat(COUNTS.len() + 7)));
    for (arm, rounds) in measured {
        let count = |(_, of): &Count| {
            let Spread { min, median, max } = spread(rounds, |round| of(round) as f64);
            format!("{median:.0} ({min:.0}–{max:.0})")
        };
        let counts: Vec<String> = COUNTS.iter().map(count).collect();
        report.line(&format!(
            "| {arm:?} | {} | {} | {} | {} | {} | {} | {} |",
            counts.join(" | "),
            spread(rounds, |round| round.counts.accuracy().unwrap_or(0.0)),
            spread(rounds, |round| round.counts.accuracy_at_least().unwrap_or(0.0)),
            spread(rounds, |round| round.tail.p50_ms),
            spread(rounds, |round| round.tail.p95_ms),
            spread(rounds, |round| round.tail.p99_ms),
            rounds.iter().map(|round| round.errors).sum::<usize>(),
        ));
    }
}

/// An arm's round beside the same round without prefetch: the same clicks at the same times.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn relative(measured: &Measured, report: &mut Report) {
    let Some((_, off)) = measured.iter().find(|(arm, _)| *arm == Arm::Off) else { return };
    report.line("\nBeside the same round of `off`, median (min–max):\n");
    report.line("| arm | demand misses fewer % | waits fewer % | origin runs more % | P99 more ms | successors known at the end by the node that knows least |");
    report.line("|---|---|---|---|---|---|");
    for (arm, rounds) in measured.iter().filter(|(arm, _)| *arm != Arm::Off) {
        let more = |of: fn(&Round) -> u64, sign: f64| {
            let more = |(one, off)| sign * 100.0 * (of(one) as f64 / of(off).max(1) as f64 - 1.0);
            Spread::of(&rounds.iter().zip(off).map(more).collect::<Vec<_>>())
        };
        let later = rounds.iter().zip(off).map(|(one, off)| one.tail.p99_ms - off.tail.p99_ms);
        report.line(&format!(
            "| {arm:?} | {} | {} | {} | {} | {:.0} |",
            more(|round| round.counts.miss_runs, -1.0),
            more(|round| round.waited as u64, -1.0),
            more(|round| round.counts.runs, 1.0),
            Spread::of(&later.collect::<Vec<_>>()),
            spread(rounds, |round| round.forms_known as f64).median,
        ));
    }
}

/// The conditions of the run, which a reader needs to judge the figures.
fn details(measured: &Measured, report: &mut Report) {
    report.line("");
    for (arm, rounds) in measured {
        for (number, Round { whole, proxied, sent_late_ms, node_cpu_us, .. }) in rounds.iter().enumerate() {
            let Counts { runs, launched, used, late, wasted, pending, .. } = whole;
            report.line(&format!(
                "- {arm:?} round {}, from the start on: {runs} runs counted; {proxied} runs seen before Neo4j; launched {launched} = used {used} + late {late} + wasted {wasted} + pending {pending}: {}; nodes' CPU {node_cpu_us:.0} µs per request; generator's P99 lateness {sent_late_ms:.2} ms",
                number + 1,
                if whole.is_whole() { "whole" } else { "NOT WHOLE" },
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_differ_in_configuration_only_and_all_do() {
        let sections: std::collections::BTreeSet<String> = Arm::ALL.map(Arm::section).into();
        assert_eq!(sections.len(), Arm::ALL.len());
        assert_eq!(
            Arm::BothAlone.section(),
            "[prefetch]\nenabled = true\nkinds = [\"exact\", \"template\", \"overlap\"]\ngossip = false\nfallback_sessions = false\n"
        );
    }
}
