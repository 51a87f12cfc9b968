//! Soak: mixed load with faults on a timer, for a chosen time. Judges whether memory, descriptors and tasks stay flat,
//! and whether the counters' identities hold at the end. Exits with 1 if one does not. Nodes have the shipped defaults,
//! prefetch included, and both sides count prefetch runs.
//!
//! | module | decides |
//! |---|---|
//! | [`options`] | the options |
//! | [`scene`] | processes, and how they are stopped, killed and started again |
//! | [`load`] | the clients' requests and counts |
//! | [`faults`] | which fault comes when |
//! | [`watch`] | samples, and the slope of a line through them |
//! | [`verdict`] | the conditions at the end |

mod faults;
mod load;
mod options;
mod scene;
mod verdict;
mod watch;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use hopcache_testbed::report::Report;
use load::Ledger;
pub(crate) use options::Options;
use options::SAMPLE_EVERY;
use scene::Scene;
use watch::Samples;

/// The last part of the load, without faults.
const CALM: Duration = Duration::from_secs(30);
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
    let idle = scene.idle()?;
    let span = Duration::from_secs(options.minutes * 60).max(2 * CALM);
    let (stop, stop_faults) = (CancellationToken::new(), CancellationToken::new());
    let ledger = Arc::new(Ledger::default());
    let mut clients = load::start(options, scene, &ledger, &stop);
    let breaking = tokio::spawn(faults::run(
        Arc::clone(scene),
        Duration::from_secs(options.fault_pause),
        stop_faults.clone(),
    ));
    let mut samples = Samples::new();
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
    report.line(&format!("\nfaults: {}", done.summary()));
    ledger.write(&mut report);
    let mut verdict = verdict::Verdict::default();
    verdict.of_end(scene, &ledger, &idle, &mut report).await?;
    verdict.of_calm(options, scene, &mut report).await?;
    verdict.of_samples(&samples, &mut report);
    verdict.write(&mut report);
    if let Some(dir) = &options.out {
        report.write(&dir.join("report.md"))?;
    }
    verdict.result()
}
