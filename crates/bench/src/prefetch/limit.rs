//! Session walks in a closed loop, as fast as Neo4j answers, by `origin.max_concurrent`: throughput and waits of each
//! limit beside the others, with shipped defaults otherwise.
//!
//! Clients take the next request of one trace, so all arms answer the same requests in nearly the same order. There is no
//! proxy before Neo4j: it would use the same cores.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use hopcache_testbed::neo4j;
use hopcache_testbed::node::{Nodes, PREFETCH_OFF};
use hopcache_testbed::report::{Report, Spread};

use super::counts::Counts;
use super::source::Source;
use super::walk::session_trace;
use super::{Asked, asking, reported, requests};
use crate::delayed::NODES;
use crate::figures::{Tail, each_us};
use crate::load::{Until, closed, turns};

/// Options of the closed loop.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Values of `origin.max_concurrent`, each an arm. Behind one, `-off` switches prefetch off.
    #[arg(long, value_delimiter = ',', default_values_t = ["32", "1", "2", "4", "adaptive"].map(str::to_owned))]
    limits: Vec<String>,
    /// Requests of each measurement.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Sessions whose clicks take turns.
    #[arg(long, default_value_t = 64)]
    sessions: usize,
    /// Applications that the sessions belong to in turn. Each has its own statements, so the distinct queries, and the
    /// runs at Neo4j, are as many times more.
    #[arg(long, default_value_t = 1)]
    applications: usize,
    /// Requests under way.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// TTL in seconds.
    #[arg(long, default_value_t = 20)]
    ttl: u64,
    /// Nodes.
    #[arg(long, default_value_t = NODES)]
    nodes: usize,
    /// Rounds of each arm.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
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

/// What one measurement has shown.
struct Measured {
    per_s: f64,
    waits: Tail,
    errors: usize,
    counts: Counts,
    /// While the nodes were asked, and from their start to their end.
    node_cpu_us: [f64; 2],
    limits: u64,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let title = "Session walks in a closed loop, by the limit of runs at Neo4j";
    let measure = async |source: &Source, report: &mut Report| rounds(options, source, report).await;
    reported(title, (&options.data, options.out.as_ref()), measure).await
}

async fn rounds(options: &Options, source: &Source, report: &mut Report) -> anyhow::Result<()> {
    let clicks = session_trace(&source.graph, (options.requests, options.sessions), options.seed)?;
    let trace = Arc::new(requests(source, &clicks, options.applications)?);
    let body_of =
        |(request, _): &Asked| request.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    let distinct: BTreeSet<&[u8]> = trace.iter().map(|asked| &asked.0[body_of(asked)..]).collect();
    report.line(&format!(
        "{} requests of {} distinct queries in {} sessions of {} applications, {} clients, {} nodes, TTL {} s; {}; Neo4j, Redis, nodes and clients share the machine\n",
        trace.len(), distinct.len(), options.sessions, options.applications, options.clients, options.nodes, options.ttl, source.size()
    ));
    let warming = warm(options, &trace).await?;
    report.line(&format!("Runs of the first arm that warm Neo4j: {warming:.0?} requests/s.\n"));
    report.line("| round | arm | requests/s | P50 ms | P95 | P99 | longest | errors | runs: miss, refresh, prefetch | node CPU µs a request: while asked, in all | limits at the end, together |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut arms: Vec<Vec<Measured>> = options.limits.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for place in turns(arms.len(), round) {
            let arm = &options.limits[place];
            let seen = measure(options, arm, &trace).await?;
            report.line(&format!("| {} | {arm} | {} |", round + 1, seen.cells()));
            arms[place].push(seen);
        }
    }
    report.line("\n| arm | requests/s, median (least–greatest) | × the first arm, round by round | P99 ms |");
    report.line("|---|---|---|---|");
    for (name, rounds) in options.limits.iter().zip(&arms) {
        let of = |figure: fn(&Measured) -> f64| Spread::of(&rounds.iter().map(figure).collect::<Vec<_>>());
        let beside = rounds.iter().zip(&arms[0]).map(|(one, first)| one.per_s / first.per_s);
        let (rate, p99) = (of(|seen| seen.per_s), of(|seen| seen.waits.p99_ms));
        report.line(&format!("| {name} | {rate} | {} | {p99} |", Spread::of(&beside.collect::<Vec<_>>())));
    }
    Ok(())
}

/// Measurements that warm Neo4j, at most: it compiles what it runs often.
const WARMING_MAX: usize = 6;

/// Requests a second of the first arm, until the last rate is no more than a twentieth above the greatest before.
async fn warm(options: &Options, trace: &Arc<Vec<Asked>>) -> anyhow::Result<Vec<f64>> {
    let mut rates: Vec<f64> = Vec::new();
    let first = options.limits.first().context("no limits")?;
    while rates.len() < WARMING_MAX {
        let rate = measure(options, first, trace).await?.per_s;
        let before = rates.iter().copied().fold(0.0, f64::max);
        let is_warm = !rates.is_empty() && rate < 1.05 * before;
        rates.push(rate);
        if is_warm {
            break;
        }
    }
    Ok(rates)
}

/// The arm answers the whole trace.
async fn measure(options: &Options, arm: &str, trace: &Arc<Vec<Asked>>) -> anyhow::Result<Measured> {
    let (limit, prefetch) = arm.strip_suffix("-off").map_or((arm, ""), |limit| (limit, PREFETCH_OFF));
    let limit = if limit.parse::<u32>().is_ok() { limit.to_owned() } else { format!("{limit:?}") };
    let sections = format!(
        "[origin]\nuri = \"bolt://{}\"\nmax_concurrent = {limit}\n[entry]\nttl = \"{}s\"\n{prefetch}",
        neo4j::bolt()?,
        options.ttl
    );
    let nodes = Nodes::start(options.nodes, &sections).await?;
    let before = nodes.cpu()?;
    let asking = asking(nodes.clients(), Arc::clone(trace));
    let seen = closed(asking, options.clients, Until::Asked(trace.len())).await?;
    let cpu = nodes.cpu()?;
    Ok(Measured {
        per_s: seen.per_s(),
        waits: seen.tail(),
        errors: seen.errors(),
        counts: Counts::of(&nodes.metrics().await?),
        node_cpu_us: [cpu.saturating_sub(before), cpu].map(|cpu| each_us(cpu, trace.len())),
        limits: nodes.metric("hopcache_origin_limit", "").await?,
    })
}

impl Measured {
    fn cells(&self) -> String {
        let Tail { p50_ms, p95_ms, p99_ms, most_ms, .. } = self.waits;
        let Counts { miss_runs, refresh_runs, prefetch_runs, .. } = self.counts;
        let (Self { per_s, errors, limits, .. }, [asked, in_all]) = (self, self.node_cpu_us);
        format!(
            "{per_s:.0} | {p50_ms:.2} | {p95_ms:.1} | {p99_ms:.1} | {most_ms:.0} | {errors} | {miss_runs}, {refresh_runs}, {prefetch_runs} | {asked:.0}, {in_all:.0} | {limits}"
        )
    }
}
