//! Reads with a share of writes, in a closed loop: hits, runs and times of both modes, alternated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::Pool;
use hopcache_testbed::report::{Report, Spread};

use super::scene::{EACH, KINDS, Keys, Popularity, Scene};
use crate::cache_status::{CacheStatus, Kind};
use crate::figures::{Tail, share};
use crate::load::{Sample, Until, closed, turns};

/// Options of the mix.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Shares of writes, in percent.
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.1, 1.0, 5.0, 20.0])]
    writes: Vec<f64>,
    /// How often keys are asked for.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Popularity::Uniform, Popularity::Zipf])]
    keys: Vec<Popularity>,
    /// TTL in seconds.
    #[arg(long, default_value_t = 20)]
    ttl: u64,
    /// Seconds of each measurement, after two to warm up.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Rounds of each arm.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Clients.
    #[arg(long, default_value_t = 32)]
    clients: usize,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

const WARM_UP: Duration = Duration::from_secs(2);
const NODES: usize = 3;
/// Name, and lines of `[freshness]`.
const ARMS: [(&str, &str); 2] = [("proved", ""), ("ttl", "mode = \"ttl\"")];
/// The columns, and the digits behind the point of each.
const HEADS: [(&str, usize); 9] = [
    ("requests/s", 0),
    ("hits of reads %", 1),
    ("proved of hits %", 1),
    ("reading runs per read", 4),
    ("read P50 ms", 2),
    ("P95", 2),
    ("P99", 2),
    ("write P50 ms", 2),
    ("P99", 2),
];

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("Reads with writes: proved beside ttl");
    report.line(&format!(
        "{} clients, {NODES} nodes, {KINDS} kinds of {EACH} nodes each; a write sets a property of one kind; TTL {} s; {} rounds of {} s after {} s to warm up; median (min–max) of the rounds; Neo4j, Redis, nodes and clients share the machine\n",
        options.clients,
        options.ttl,
        options.rounds,
        options.seconds,
        WARM_UP.as_secs()
    ));
    let heads: Vec<&str> = HEADS.iter().map(|(head, _)| *head).collect();
    report.line(&format!("| keys | writes % | arm | {} |", heads.join(" | ")));
    report.line(&format!("|{}", "---|".repeat(3 + HEADS.len())));
    for keys in &options.keys {
        for writes in &options.writes {
            let mut measured = ARMS.map(|_| Vec::new());
            for round in 0..options.rounds {
                for arm in turns(ARMS.len(), round) {
                    measured[arm].push(measure(options, ARMS[arm].1, (*keys, *writes), round).await?);
                }
            }
            for ((name, _), rounds) in ARMS.iter().zip(&measured) {
                let cell = |(place, (_, digits)): (usize, &(&str, usize))| {
                    let all: Vec<f64> = rounds.iter().map(|round| round[place]).collect();
                    let Spread { min, median, max } = Spread::of(&all);
                    format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
                };
                let cells: Vec<String> = HEADS.iter().enumerate().map(cell).collect();
                report.line(&format!("| {keys:?} | {writes} | {name} | {} |", cells.join(" | ")));
            }
        }
    }
    options.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

/// The figures of [`HEADS`].
async fn measure(
    options: &Options,
    freshness: &str,
    (popularity, writes): (Popularity, f64),
    round: usize,
) -> anyhow::Result<[f64; HEADS.len()]> {
    let scene = Arc::new(Scene::start(NODES, freshness, Duration::from_secs(options.ttl)).await?);
    let keys = Arc::new(Keys::new(popularity));
    let pools: Arc<Vec<Pool>> = Arc::new(scene.nodes.clients().into_iter().map(Pool::new).collect());
    let asking = |salt: usize| {
        let (scene, keys, pools) = (Arc::clone(&scene), Arc::clone(&keys), Arc::clone(&pools));
        move |number: usize| {
            // The same requests in both modes.
            let mut dice = Dice::new(((round * 2 + salt) << 32 | number) as u64);
            let (kind, id) = keys.draw(&mut dice);
            let is_write = dice.unit() * 100.0 <= writes;
            let request = if is_write { scene.write(kind, id) } else { scene.read(kind, id) };
            let pools = Arc::clone(&pools);
            async move {
                let answer = pools[number % NODES].ask_once(&request, is_write, &mut false).await;
                match CacheStatus::of(answer) {
                    CacheStatus { kind: Kind::Miss, .. } if is_write => CacheStatus::only(Kind::Write),
                    status => status,
                }
            }
        }
    };
    closed(asking(0), options.clients, Until::Over(WARM_UP)).await?;
    let before = scene.reading_runs().await?;
    let span = Duration::from_secs(options.seconds);
    let seen = closed(asking(1), options.clients, Until::Over(span)).await?;
    let runs = usize::try_from(scene.reading_runs().await? - before)?;
    ensure!(seen.errors() == 0, "{} requests failed", seen.errors());
    let tail = |is_write: bool| {
        let meant = seen.samples.iter().filter(|each| (each.status.kind == Kind::Write) == is_write);
        Tail::of(meant.map(Sample::took_us).collect())
    };
    let (read, write) = (tail(false), tail(true));
    let hits = seen.count(CacheStatus::is_hit);
    Ok([
        seen.per_s(),
        100.0 * share(hits, read.count),
        100.0 * share(seen.count(|status| status.is_hit() && status.is_proved), hits),
        share(runs, read.count),
        read.p50_ms,
        read.p95_ms,
        read.p99_ms,
        write.p50_ms,
        write.p99_ms,
    ])
}
