//! Chaos: a seeded schedule of faults on real processes under open-loop load; then every request and every
//! origin run is judged by the promises. Exits 1 when one is broken.
//!
//! | module | decides |
//! |---|---|
//! | [`faults`] | which fault happens when, and how it is shown to have happened |
//! | [`checks`] | what a history may not hold |
//! | [`told`] | what the report says |

pub(crate) mod checks;
mod faults;
mod told;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use tokio_util::sync::CancellationToken;

use crate::arena::history::Told;
use crate::arena::load::{self, Mix};
use crate::arena::origin::RunTime;
use crate::arena::{Arena, Plan, tell};
use crate::report::Report;
use checks::Bounds;
use faults::Pace;

/// Options of chaos.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Of faults, keys and times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Minutes of faults.
    #[arg(long, default_value_t = 20, conflicts_with = "seconds")]
    minutes: u64,
    /// Seconds of them instead, in quick succession: each is short.
    #[arg(long)]
    seconds: Option<u64>,
    /// Nodes, three to five.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=5))]
    nodes: u8,
    /// Requests per second.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Judge a history that another run left instead, by the present checks.
    #[arg(long)]
    judge: Option<PathBuf>,
    /// Nodes share no runs: a run that has to be found in breach of I1, to see that chaos can fail.
    #[arg(long, hide = true)]
    without_collapse: bool,
    /// Directory for `report.md` and `history.jsonl`.
    #[arg(long, default_value = "target/chaos")]
    out: PathBuf,
}

/// Keys of the mix; each is asked by two users.
const KEYS: usize = 400;
/// Short, so that a key has many windows within a run.
const TTL: Duration = Duration::from_secs(10);
/// A node's patience with a run; what it may add to tell its client.
const TIMEOUT: Duration = Duration::from_secs(4);
const RUN_MOST: Duration = Duration::from_millis(40);
/// Scheduling beside other work; in the short form, of debug builds on the two slow cores of a gate.
const SLACK: Duration = Duration::from_millis(1_000);
const SLACK_SHORT: Duration = Duration::from_millis(2_500);
/// Load without faults: before them, until the first misses are over, and after them.
const WARM_UP: Duration = Duration::from_secs(4);
const CALM: Duration = Duration::from_secs(2);

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(history) = &options.judge {
        let told = Told::read(history)?;
        let has_cuts = told.faults.iter().any(|fault| fault.fault.is_cut());
        return report(options, &told, has_cuts, None);
    }
    let nodes = usize::from(options.nodes);
    let run_time = RunTime { least: Duration::from_millis(5), most: RUN_MOST };
    let plan = Plan {
        nodes,
        started: nodes,
        seeded: nodes,
        ttl: TTL,
        timeout: TIMEOUT,
        run_time,
        seed: options.seed,
        has_cuts: true,
        entry: if options.without_collapse { "collapse = false\n" } else { "" },
    };
    let arena = Arc::new(Arena::start(plan).await?);
    let interrupted = async {
        // Ends the run in good order: processes and packet filter rules go with the arena.
        let _ = tokio::signal::ctrl_c().await;
    };
    tokio::select! {
        outcome = chaos(options, &arena) => outcome,
        () = interrupted => bail!("interrupted"),
    }
}

async fn chaos(options: &Options, arena: &Arc<Arena>) -> anyhow::Result<()> {
    let (stop, stop_faults) = (CancellationToken::new(), CancellationToken::new());
    let mix = Mix {
        rate: options.rate,
        keys: KEYS,
        zipf: 1.0,
        writes: 20,
        targets: arena.nodes.iter().map(|node| node.client).collect(),
        seed: options.seed,
    };
    let load = tokio::spawn(load::run(Arc::clone(arena), mix, stop.clone()));
    let purges = tokio::spawn(load::purge_on(
        Arc::clone(arena),
        KEYS,
        Duration::from_millis(250),
        options.seed ^ 0x5eed,
        stop.clone(),
    ));
    tokio::time::sleep(WARM_UP).await;
    let breaking = faults::run(Arc::clone(arena), pace(options), options.seed, stop_faults.clone());
    let span = options.seconds.map_or(Duration::from_secs(options.minutes * 60), Duration::from_secs);
    let breaking = async {
        let timer = async {
            tokio::time::sleep(span).await;
            stop_faults.cancel();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            broken = breaking => broken,
            () = timer => Ok(()),
        }
    };
    let broken = breaking.await;
    let agreed = arena.all_agree(&(0..arena.nodes.len()).collect::<Vec<_>>(), Duration::from_secs(20)).await;
    tokio::time::sleep(CALM).await;
    stop.cancel();
    load.await?;
    purges.await?;
    let told = arena.history.so_far();
    let file = options.out.join("history.jsonl");
    told.write(&file)?;
    tell(&format!("history: {}", file.display()));
    broken?;
    report(options, &told, arena.rules.is_some(), Some(agreed))
}

/// Judges, and says what came of it. `agreed` is how long the rings took in the end, or why they did not agree; none
/// where that was another run's.
fn report(
    options: &Options,
    told: &Told,
    has_cuts: bool,
    agreed: Option<anyhow::Result<Duration>>,
) -> anyhow::Result<()> {
    let judgement = checks::judge(told, bounds(options));
    let mut report = Report::open("Chaos");
    report.line(&format!(
        "seed {}; {} nodes, {} requests/s over {KEYS} keys of two principals, TTL {TTL:?}, runs of 5 to {} ms",
        options.seed,
        options.nodes,
        options.rate,
        RUN_MOST.as_millis()
    ));
    told::tell(told, &judgement, has_cuts, &mut report);
    let healed = !matches!(agreed, Some(Err(_)));
    match agreed {
        Some(Ok(took)) => report.line(&format!("\nrings agree {took:.1?} after the last fault (I12)")),
        Some(Err(error)) => report.line(&format!("\nBROKEN: I12: {error:#}")),
        None => report.line("\na history that was kept: whether rings agreed after it is in its own report"),
    }
    report.write(&options.out.join("report.md"))?;
    if !judgement.violations.is_empty() || !healed {
        bail!("{} violations", judgement.violations.len() + usize::from(!healed));
    }
    Ok(())
}

/// Long runs have faults of drawn lengths, and between them time in which nothing excuses anything; short
/// ones have each fault about once.
fn pace(options: &Options) -> Pace {
    let ms = Duration::from_millis;
    match options.seconds {
        Some(_) => Pace { least: ms(800), most: ms(1_400), pause: ms(300) },
        None => Pace { least: ms(1_000), most: ms(8_000), pause: ms(10_000) },
    }
}

fn bounds(options: &Options) -> Bounds {
    let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    Bounds {
        ttl_us: us(TTL),
        // A run's own time, as much again for the run before it or a slot, and a second (`front::patience_ms`).
        deadline_us: 2 * us(TIMEOUT) + 1_000_000,
        run_us: us(RUN_MOST),
        nodes: u64::from(options.nodes),
        slack_us: us(if options.seconds.is_some() { SLACK_SHORT } else { SLACK }),
    }
}
