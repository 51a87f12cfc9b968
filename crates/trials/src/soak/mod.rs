//! Mixed load with faults on a timer, for as long as asked: whether memory, descriptors and tasks stay
//! flat, and whether the counters' identities hold at the end. Exits 1 when one does not.
//!
//! | module | decides |
//! |---|---|
//! | [`scene`] | processes, and how they are stopped, killed and started again |
//! | [`load`] | what clients ask, and what they count |
//! | [`faults`] | which fault comes when |
//! | [`watch`] | samples, and the slope of a line through them |
//! | [`verdict`] | what has to hold at the end |

mod faults;
mod load;
mod scene;
mod verdict;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::report::Report;
use load::Ledger;
use scene::Scene;
use watch::Samples;

/// Options of the soak.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Minutes of load, faults included.
    #[arg(long, default_value_t = 30)]
    minutes: u64,
    /// Clients, spread over the nodes; each waits for its answer and then a little.
    #[arg(long, default_value_t = 48)]
    clients: usize,
    /// Pause of a client after each answer, in ms.
    #[arg(long, default_value_t = 40)]
    pause_ms: u64,
    /// Seconds between the end of a fault and the next.
    #[arg(long, default_value_t = 8)]
    fault_pause: u64,
    /// Directory for `report.md` and `samples.csv`.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Time at the end of the load in which nothing is broken any more.
const CALM: Duration = Duration::from_secs(30);
/// Pause between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let scene = Arc::new(Scene::start().await?);
    let outcome = soak(options, &scene).await;
    scene.clean_up().await;
    outcome
}

async fn soak(options: &Options, scene: &Arc<Scene>) -> anyhow::Result<()> {
    let mut report = Report::open("Soak");
    report.line(&format!(
        "{} minutes; {} clients with {} ms between an answer and the next request; a fault every {} s beside its own length; 3 nodes of 48 MiB, Redis, Neo4j behind a counting proxy, all on this machine",
        options.minutes, options.clients, options.pause_ms, options.fault_pause
    ));
    let idle = scene.idle().await?;
    let span = Duration::from_secs(options.minutes * 60).max(2 * CALM);
    let (stop, stop_faults) = (CancellationToken::new(), CancellationToken::new());
    let ledger = Arc::new(Ledger::default());
    let mut clients = load::start(options, scene, &ledger, &stop);
    let breaking = tokio::spawn(faults::run(
        Arc::clone(scene),
        Duration::from_secs(options.fault_pause),
        stop_faults.clone(),
    ));
    let mut samples = Samples::new(options.out.as_deref());
    let end = Instant::now() + span;
    while Instant::now() < end {
        tokio::time::sleep(SAMPLE_EVERY.min(end - Instant::now())).await;
        samples.take(scene).await?;
        if end - Instant::now() < CALM {
            stop_faults.cancel();
        }
    }
    let done = breaking.await??;
    stop.cancel();
    while let Some(ended) = clients.join_next().await {
        ended?;
    }
    report.line(&format!("\nfaults: {}", done.told()));
    ledger.tell(&mut report);
    let mut verdict = verdict::Verdict::default();
    verdict.of_end(scene, &ledger, &idle, &mut report).await?;
    verdict.of_calm(options, scene, &mut report).await?;
    verdict.of_samples(&samples, &mut report);
    verdict.told(&mut report);
    if let Some(dir) = &options.out {
        report.write(&dir.join("report.md"))?;
    }
    verdict.result()
}
