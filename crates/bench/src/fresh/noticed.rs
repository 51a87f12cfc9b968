//! After what time a write past Hopcache is noticed: from its answer until an entry of before it is proved no more. And what the
//! watcher costs, and how often it is wrong.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::Connection;
use hopcache_testbed::neo4j;
use hopcache_testbed::report::Report;
use tokio::task::JoinSet;

use super::scene::{EACH, KINDS, Scene, ask};
use crate::figures::{Tail, micros};

/// Options of the benchmark of the watcher.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// `freshness.watch_interval`, in ms.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 250, 1_000])]
    watch: Vec<u64>,
    /// Writes a second through Hopcache.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 200])]
    own: Vec<u32>,
    /// Writes past Hopcache in each arm.
    #[arg(long, default_value_t = 60)]
    samples: usize,
    /// Seconds without writes past Hopcache, in which every alarm is false.
    #[arg(long, default_value_t = 20)]
    quiet: u64,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

const NODES: usize = 3;
/// Writers through Hopcache.
const WRITERS: u32 = 8;
/// Kinds that own writes touch. The others are read.
const OWN_KINDS: usize = 5;

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("Writes past Hopcache: when they are noticed, and what that costs");
    report.line(&format!(
        "{NODES} nodes; {} samples of each arm: a write at Neo4j itself, then one client asks for an entry of before it, without pause, until it is proved no more. False alarms: foreign transactions found in {} s without any. CPU of all nodes and looks at Neo4j in the same time.",
        options.samples, options.quiet
    ));
    report.line("\n| watch_interval ms | own writes/s | noticed after | false alarms | looks/s | of them uncertain | CPU of the nodes, % of a core |");
    report.line("|---|---|---|---|---|---|---|");
    for own in &options.own {
        for watch in &options.watch {
            let line = measure(options, *watch, *own).await?;
            report.line(&format!("| {watch} | {own} | {line} |"));
        }
    }
    options.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

async fn measure(options: &Options, watch: u64, own: u32) -> anyhow::Result<String> {
    let freshness = format!("watch_interval = \"{watch}ms\"");
    let scene = Arc::new(Scene::start(NODES, &freshness, Duration::from_secs(600)).await?);
    let mut writers = JoinSet::new();
    if own > 0 {
        for place in 0..WRITERS {
            writers.spawn(writer(Arc::clone(&scene), place, own));
        }
    }
    scene.until_proved(0, (KINDS - 1, EACH - 1)).await?;
    // What began beside it has been accounted for.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let quiet = quiet(&scene, Duration::from_secs(options.quiet)).await?;
    let mut noticed = Vec::new();
    for sample in 0..options.samples {
        noticed.push(micros(notice(&scene, sample).await?));
    }
    if let Some(ended) = writers.try_join_next() {
        ended??;
    }
    Ok(format!("{} | {quiet}", Tail::of(noticed)))
}

/// The watcher's work and its false alarms, without writes past Hopcache.
async fn quiet(scene: &Scene, span: Duration) -> anyhow::Result<String> {
    let found = async || -> anyhow::Result<[u64; 3]> {
        let mut all = [0; 3];
        for (count, word) in all.iter_mut().zip(["known", "foreign", "uncertain"]) {
            *count = scene.nodes.metric("hopcache_watched_total", &format!("found=\"{word}\"")).await?;
        }
        Ok(all)
    };
    let (before, cpu) = (found().await?, scene.nodes.cpu()?);
    tokio::time::sleep(span).await;
    let (after, cpu) = (found().await?, scene.nodes.cpu()?.saturating_sub(cpu));
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let [known, foreign, uncertain] = [0, 1, 2].map(|place| (after[place] - before[place]) as f64);
    let looks = known + foreign + uncertain;
    Ok(format!(
        "{foreign} | {:.1} | {:.1} % | {:.2}",
        looks / span.as_secs_f64(),
        100.0 * uncertain / looks.max(1.0),
        100.0 * cpu.as_secs_f64() / span.as_secs_f64()
    ))
}

/// A writer through one node, at its share of the rate.
async fn writer(scene: Arc<Scene>, place: u32, own: u32) -> anyhow::Result<()> {
    let mut dice = Dice::new(u64::from(place) + 1);
    let place = usize::try_from(place)?;
    let mut connection = Connection::open(scene.nodes.client(place)).await?;
    let mut ticks = tokio::time::interval(Duration::from_secs(1) * WRITERS / own);
    loop {
        ticks.tick().await;
        ask(&mut connection, &scene.write(dice.below(OWN_KINDS), dice.below(EACH))).await?;
    }
}

/// One write past Hopcache: the time until it is noticed.
async fn notice(scene: &Scene, sample: usize) -> anyhow::Result<Duration> {
    // An entry that was read since the last one.
    let (kind, id) = (OWN_KINDS + sample % OWN_KINDS, sample / OWN_KINDS % EACH);
    let read = scene.read(kind, id);
    scene.until_proved(sample, (kind, id)).await?;
    let mut reader = Connection::open(scene.nodes.client(sample)).await?;
    let mut past = Connection::open(neo4j::http()?).await?;
    past.ask(&scene.write(kind, EACH - 1)).await?.succeeded()?;
    let written = Instant::now();
    while ask(&mut reader, &read).await?.is_proved {
        ensure!(written.elapsed() < Duration::from_secs(20), "a write past Hopcache is not noticed");
    }
    Ok(written.elapsed())
}
