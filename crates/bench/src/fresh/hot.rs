//! One key that many read and one writes once a second. No reader may get a value of before a write that was answered before it
//! asked.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use hopcache_testbed::http::Connection;
use hopcache_testbed::report::Report;
use tokio::task::JoinSet;

use super::figures::{Times, share};
use super::scene::{Scene, ask};

/// Options of the benchmark of a hot key.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Reads a second.
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// Seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Readers.
    #[arg(long, default_value_t = 32)]
    clients: u32,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

const NODES: usize = 3;

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("A hot key that is written once a second");
    let scene = Arc::new(Scene::start(NODES, "", Duration::from_secs(60)).await?);
    scene.until_proved(0, (0, 0)).await?;
    let (answered, until) =
        (Arc::new(AtomicU64::new(0)), Instant::now() + Duration::from_secs(options.seconds));
    let before = scene.reading_runs().await?;
    let mut readers = JoinSet::new();
    for place in 0..options.clients {
        let gap = Duration::from_secs(1) * options.clients / options.rate;
        readers.spawn(reader(Arc::clone(&scene), (place, gap), Arc::clone(&answered), until));
    }
    let mut writes = Vec::new();
    let mut connection = Connection::open(scene.client(0)).await?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    while Instant::now() < until {
        ticks.tick().await;
        let sent = Instant::now();
        ask(&mut connection, &scene.write(0, 0)).await?;
        answered.fetch_add(1, Ordering::SeqCst);
        writes.push(sent.elapsed());
    }
    let (mut times, mut old) = (Vec::new(), 0);
    while let Some(ended) = readers.join_next().await {
        let (reader, reader_old) = ended??;
        times.extend(reader);
        old += reader_old;
    }
    let runs = scene.reading_runs().await? - before;
    report.line(&format!(
        "{NODES} nodes, {} readers, {} reads: {}",
        options.clients,
        times.len(),
        Times::of(&mut times)
    ));
    report.line(&format!("{} writes: {}", writes.len(), Times::of(&mut writes)));
    report.line(&format!("runs per write: {:.2}", share(runs, writes.len() as u64)));
    report.line(&format!("answers of before a write that was answered: {old}"));
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

/// The times of its reads, and how many were too old.
async fn reader(
    scene: Arc<Scene>,
    (place, gap): (u32, Duration),
    answered: Arc<AtomicU64>,
    until: Instant,
) -> anyhow::Result<(Vec<Duration>, u64)> {
    let mut connection = Connection::open(scene.client(usize::try_from(place)?)).await?;
    let request = scene.read(0, 0);
    let (mut times, mut old) = (Vec::new(), 0);
    let mut ticks = tokio::time::interval(gap);
    while Instant::now() < until {
        ticks.tick().await;
        let (least, sent) = (answered.load(Ordering::SeqCst), Instant::now());
        let value = ask(&mut connection, &request).await?.value.context("an answer without a value")?;
        times.push(sent.elapsed());
        old += u64::from(value < least);
    }
    Ok((times, old))
}
