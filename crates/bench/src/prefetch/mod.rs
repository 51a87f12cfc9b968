//! The use of prefetch: sessions walk over a graph on three nodes in turn, in arms that differ only in `[prefetch]`.
//!
//! This knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`walks`] | arms beside each other |
//! | [`busy`] | on and off in turn, where all cores or Neo4j are busy |
//! | [`limit`] | walks in a closed loop, as fast as Neo4j answers, by `origin.max_concurrent` |
//! | [`walk`], [`pages`], [`graph`], [`source`] | the clicks, the queries, the graph and its source |
//! | [`counts`] | the nodes' counters |

mod busy;
pub(crate) mod counts;
mod graph;
mod limit;
pub(crate) mod pages;
pub(crate) mod source;
pub(crate) mod walk;
mod walks;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Subcommand;
use hopcache_testbed::http::{Pool, post};
use hopcache_testbed::report::Report;

use self::pages::parameters;
use self::source::Source;
use self::walk::Click;
use crate::cache_status::CacheStatus;
use crate::graph::login;
use crate::load::Answering;

/// Options of the prefetch benchmark.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    mode: Option<Mode>,
    #[command(flatten)]
    walks: walks::Options,
}

#[derive(Subcommand)]
enum Mode {
    /// Walks in a closed loop, by the limit of runs at Neo4j: throughput and waits.
    Limit(limit::Options),
    /// Prefetch on and off in turn, where all cores or Neo4j are busy: what it costs.
    Busy(busy::Options),
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.mode {
        None => walks::run(&options.walks).await,
        Some(Mode::Limit(options)) => limit::run(options).await,
        Some(Mode::Busy(options)) => busy::run(options).await,
    }
}

/// Measures at a graph that it loads for this, and keeps the report where it is wanted.
async fn reported(
    title: &str,
    (data, out): (&Path, Option<&PathBuf>),
    measure: impl AsyncFnOnce(&Source, &mut Report) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut report = Report::open(title);
    Source::lend(data, async |source: &Source| measure(source, &mut report).await).await?;
    out.map_or(Ok(()), |path| report.write(path))
}

/// `[prefetch]` with these kinds of candidates, for requests that name their sessions.
pub(crate) fn section(kinds: &[&str], gossip: bool) -> String {
    format!("[prefetch]\nenabled = true\nkinds = {kinds:?}\ngossip = {gossip}\nfallback_sessions = false\n")
}

/// A request, and which node is asked.
type Asked = (Vec<u8>, usize);

/// The requests of clicks. Each session's go to the nodes in turn.
fn requests(source: &Source, clicks: &[Click], applications: usize) -> anyhow::Result<Vec<Asked>> {
    let login = login()?;
    let request = |click: &Click| {
        let headers = format!("{login}hopcache-session: walk-{}\r\n", click.session);
        let text = source.names.statement(click.page, click.session % applications.max(1));
        (post(&text, &parameters(&source.graph, click.page, click.place), &headers), click.turn)
    };
    Ok(clicks.iter().map(request).collect())
}

/// Answers these requests by number.
fn asking(
    nodes: Vec<std::net::SocketAddr>,
    asked: Arc<Vec<Asked>>,
) -> impl Fn(usize) -> Answering + Send + Sync {
    let pools: Arc<Vec<Pool>> = Arc::new(nodes.into_iter().map(Pool::new).collect());
    move |number| {
        let (pools, asked) = (Arc::clone(&pools), Arc::clone(&asked));
        Box::pin(async move {
            let (request, turn) = &asked[number];
            CacheStatus::of(pools[turn % pools.len()].ask(request).await)
        })
    }
}
