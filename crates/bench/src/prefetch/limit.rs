//! Session walks in a closed loop, as fast as Neo4j answers, by `origin.max_concurrent`: throughput and waits of each
//! limit beside the others, with shipped defaults otherwise.
//!
//! Clients take the next request of one trace, so all arms answer the same requests in nearly the same order. There is no
//! proxy before Neo4j: it would use the same cores.

mod cluster;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use hopcache_testbed::http::post;
use hopcache_testbed::report::{Report, Spread};

use self::cluster::{Ask, Cluster, Found, Load};
use super::counts::Counts;
use super::pages::{Page, parameters};
use super::source::Source;
use super::walk::{Click, whole_sessions};
use super::warming::{is_warm, listed};
use crate::expiry::figures::Tail;
use crate::expiry::options::turns;
use crate::expiry::scene::{NODES, Origin, login};

/// Options of the closed loop.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Values of `origin.max_concurrent`, each an arm. Behind one, `-off` switches prefetch off, `-learning` launches
    /// nothing, and `-alone` shares no lessons.
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

impl Options {
    const fn load(&self) -> Load {
        Load { clients: self.clients, nodes: self.nodes, ttl_s: self.ttl }
    }
}

/// What one measurement has shown.
struct Seen {
    per_s: f64,
    waits: Tail,
    most_ms: f64,
    by_page: Vec<(Page, Tail)>,
    errors: usize,
    counts: Counts,
    /// While the nodes were asked, and from their start to their end.
    node_cpu_us: [f64; 2],
    limits: String,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("Session walks in a closed loop, by the limit of runs at Neo4j");
    let measure = async |source: &Source| rounds(options, source, &mut report).await;
    Source::lend(&options.data, measure).await?;
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

async fn rounds(options: &Options, source: &Source, report: &mut Report) -> anyhow::Result<()> {
    let trace = Arc::new(trace(options, source)?);
    let distinct: BTreeSet<&[u8]> = trace.iter().map(|ask| body_of(&ask.bytes)).collect();
    report.line(&format!(
        "{} requests of {} distinct queries in {} sessions of {} applications, {} clients, {} nodes, TTL {} s; {}; Neo4j, Redis, nodes and clients share the machine\n",
        trace.len(), distinct.len(), options.sessions, options.applications, options.clients, options.nodes, options.ttl, source.size()
    ));
    let warming = listed(&warm(options, &trace).await?);
    report.line(&format!("Runs of the first arm that warm Neo4j: {warming} requests/s.\n"));
    report.line("| round | arm | requests/s | P50 ms | P95 | P99 | longest | errors | runs: miss, refresh, prefetch | node CPU µs a request: while asked, in all | limits, load |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut arms: Vec<Vec<Seen>> = options.limits.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for place in turns(arms.len(), round) {
            let arm = &options.limits[place];
            let seen = measure(options, arm, &trace).await?;
            report.line(&format!("| {} | {arm} | {} |", round + 1, seen.cells()));
            arms[place].push(seen);
        }
    }
    summary(options, &arms, report);
    Ok(())
}

/// Measurements that warm Neo4j, at most: it compiles what it runs often.
const WARMING_MAX: usize = 6;

/// Requests a second of the first arm, until it gets no faster.
async fn warm(options: &Options, trace: &Arc<Vec<Ask>>) -> anyhow::Result<Vec<f64>> {
    let mut rates: Vec<f64> = Vec::new();
    let first = options.limits.first().context("no limits")?;
    while rates.len() < WARMING_MAX {
        rates.push(measure(options, first, trace).await?.per_s);
        if rates.len() > 1 && is_warm(&rates) {
            break;
        }
    }
    Ok(rates)
}

/// The requests of all sessions, each session's next one in turn.
fn trace(options: &Options, source: &Source) -> anyhow::Result<Vec<Ask>> {
    let clicks = options.requests.div_ceil(options.sessions);
    let sessions = whole_sessions(&source.graph, (options.sessions, clicks), options.seed)?;
    let login = login(Origin::Neo4j)?;
    let mut order: Vec<(usize, Click)> =
        sessions.into_iter().flat_map(|clicks| clicks.into_iter().enumerate()).collect();
    order.sort_by_key(|(number, click)| (*number, click.session));
    order.truncate(options.requests);
    let ask = |(_, click): &(usize, Click)| {
        let headers = format!("{login}hopcache-session: walk-{}\r\n", click.session);
        let text = source.names.statement(click.page, click.session % options.applications.max(1));
        let bytes = post(&text, &parameters(&source.graph, click.page, click.place), &headers);
        Ask { bytes, turn: click.turn, page: click.page }
    };
    Ok(order.iter().map(ask).collect())
}

fn body_of(request: &[u8]) -> &[u8] {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(0);
    &request[end..]
}

/// The arm answers the whole trace.
async fn measure(options: &Options, arm: &str, trace: &Arc<Vec<Ask>>) -> anyhow::Result<Seen> {
    Cluster::start(options.load(), arm).await?.answer(trace).await.map(Seen::of)
}

impl Seen {
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn of(Found { answers, took, counts, cpu, limits }: Found) -> Self {
        let tail = |page: Option<Page>| {
            let of_page = answers.iter().filter(|each| page.is_none_or(|page| page == each.page));
            Tail::of(of_page.map(|each| each.took_us).collect())
        };
        Self {
            per_s: answers.len() as f64 / took.as_secs_f64(),
            waits: tail(None),
            most_ms: answers.iter().map(|each| each.took_us).max().unwrap_or(0) as f64 / 1e3,
            by_page: Page::ALL.map(|page| (page, tail(Some(page)))).to_vec(),
            errors: answers.iter().filter(|each| !each.is_ok).count(),
            counts,
            node_cpu_us: cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / answers.len().max(1) as f64),
            limits,
        }
    }

    fn cells(&self) -> String {
        let Tail { p50_ms, p95_ms, p99_ms, .. } = self.waits;
        let Counts { miss_runs, refresh_runs, prefetch_runs, .. } = self.counts;
        format!(
            "{:.0} | {p50_ms:.2} | {p95_ms:.1} | {p99_ms:.1} | {:.0} | {} | {miss_runs}, {refresh_runs}, {prefetch_runs} | {:.0}, {:.0} | {}",
            self.per_s, self.most_ms, self.errors, self.node_cpu_us[0], self.node_cpu_us[1], self.limits
        )
    }
}

/// Medians of each arm, and round by round beside the first arm.
fn summary(options: &Options, arms: &[Vec<Seen>], report: &mut Report) {
    report.line("\n| arm | requests/s, median (least–greatest) | × the first arm, round by round | P99 ms | P99 by page: profile, friends, posts, replies, tags, tagged |");
    report.line("|---|---|---|---|---|");
    for (name, rounds) in options.limits.iter().zip(arms) {
        let of = |figure: &dyn Fn(&Seen) -> f64| Spread::of(&rounds.iter().map(figure).collect::<Vec<_>>());
        let beside: Vec<f64> =
            rounds.iter().zip(&arms[0]).map(|(one, first)| one.per_s / first.per_s).collect();
        let pages: Vec<String> = (0..Page::ALL.len())
            .map(|page| format!("{:.0}", of(&|seen| seen.by_page[page].1.p99_ms).median))
            .collect();
        report.line(&format!(
            "| {name} | {} | {} | {} | {} |",
            of(&|seen| seen.per_s),
            Spread::of(&beside),
            of(&|seen| seen.waits.p99_ms),
            pages.join(", ")
        ));
    }
}
