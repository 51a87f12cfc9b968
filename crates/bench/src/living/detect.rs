//! How soon a killed node is out of routing, with traffic to notice it and without, and whether nodes on a
//! machine without idle time suspect each other.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio_util::sync::CancellationToken;

use crate::arena::load::{self, Mix};
use crate::arena::{Arena, Plan};
use crate::report::Report;

/// Options of detection.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Kills with traffic, and as many without.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// Seconds without idle time on any core.
    #[arg(long, default_value_t = 600)]
    busy: u64,
    /// Requests per second, where there is traffic.
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    #[arg(long, default_value = "docs/benchmarks/2026-11-21-detect")]
    out: PathBuf,
}

const SOON: Duration = Duration::from_secs(60);
/// Pause between two looks at every ring: the resolution of what is measured.
const LOOK_EVERY: Duration = Duration::from_millis(2);
const BUSY_LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let arena = Arc::new(Arena::start(Plan::default()).await?);
    let mut report = Report::open("Failure detection");
    report.line("three nodes; from SIGKILL until it has no share in any other node's ring\n");
    report.line("| traffic | rounds | P50 ms | max ms |\n|---|---|---|---|");
    let silent = kills(&arena, options.rounds).await?;
    row("none: membership alone", silent, &mut report);
    let stop = CancellationToken::new();
    let targets = arena.nodes.iter().map(|node| node.client).collect();
    let mix = Mix { rate: options.rate, keys: 2_000, zipf: 0.5, writes: 0, targets, seed: 1 };
    let load = tokio::spawn(load::run(Arc::clone(&arena), mix, stop.clone()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let loaded = kills(&arena, options.rounds).await?;
    row(&format!("{} requests/s: a refused connection", options.rate), loaded, &mut report);
    let left = busy(&arena, Duration::from_secs(options.busy)).await;
    stop.cancel();
    load.await?;
    let (left, looks) = left?;
    report.line(&format!(
        "\n{} s of full load on every core, {} requests/s beside it: {} looks at rings, members left Up {} times{}",
        options.busy,
        options.rate,
        looks,
        left.len(),
        left.iter().fold(String::new(), |text, each| text + "; " + each)
    ));
    report.write(&options.out.join("report.md"))?;
    if !left.is_empty() {
        bail!("{} false suspicions", left.len());
    }
    Ok(())
}

fn row(traffic: &str, mut took_ms: Vec<f64>, report: &mut Report) {
    took_ms.sort_by(f64::total_cmp);
    let at = |place: usize| took_ms.get(place).copied().unwrap_or(0.0);
    report.line(&format!(
        "| {traffic} | {} | {:.0} | {:.0} |",
        took_ms.len(),
        at(took_ms.len() / 2),
        at(took_ms.len().saturating_sub(1))
    ));
}

/// Milliseconds from each kill until all others have the node out.
async fn kills(arena: &Arena, rounds: usize) -> anyhow::Result<Vec<f64>> {
    let all: Vec<usize> = (0..arena.nodes.len()).collect();
    let mut took_ms = Vec::new();
    for round in 0..rounds {
        let killed = &arena.nodes[round % arena.nodes.len()];
        let start = Instant::now();
        killed.kill()?;
        loop {
            let others = arena.nodes.iter().filter(|node| node.name != killed.name);
            let mut is_seen = false;
            for other in others {
                is_seen |= other.routes_to(&killed.name).await != Some(false);
            }
            if !is_seen {
                break;
            }
            ensure!(start.elapsed() < SOON, "{} still has a share after {SOON:?}", killed.name);
            tokio::time::sleep(LOOK_EVERY).await;
        }
        took_ms.push(start.elapsed().as_secs_f64() * 1e3);
        killed.start()?;
        arena.all_agree(&all, SOON).await?;
    }
    Ok(took_ms)
}

/// Members that were seen to leave Up while every core had work: who saw whom, and as what; and the looks.
async fn busy(arena: &Arena, span: Duration) -> anyhow::Result<(Vec<String>, u64)> {
    let is_over = Arc::new(AtomicBool::new(false));
    let burners: Vec<_> = (0..std::thread::available_parallelism().map_or(1, usize::from))
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut sum = 0_u64;
                while !is_over.load(Ordering::Relaxed) {
                    sum = std::hint::black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                }
            })
        })
        .collect();
    let watched = watch(arena, span).await;
    is_over.store(true, Ordering::Relaxed);
    for burner in burners {
        burner.join().ok().context("a burner panicked")?;
    }
    watched
}

async fn watch(arena: &Arena, span: Duration) -> anyhow::Result<(Vec<String>, u64)> {
    let (start, mut left, mut looks) = (Instant::now(), Vec::new(), 0_u64);
    let mut before: Vec<Vec<String>> = vec![Vec::new(); arena.nodes.len()];
    while start.elapsed() < span {
        for (place, node) in arena.nodes.iter().enumerate() {
            // A ring that cannot be had in time says nothing of members.
            let Ok(ring) = node.ring().await else { continue };
            looks += 1;
            let members = ring["members"].as_array().context("members")?;
            let out = members.iter().filter(|member| member["state"] != "up");
            let mut now: Vec<String> = out
                .map(|member| format!("{} sees {} {}", node.name, member["name"], member["state"]))
                .collect();
            if members.len() < arena.nodes.len() {
                now.push(format!("{} sees {} members", node.name, members.len()));
            }
            left.extend(now.iter().filter(|each| !before[place].contains(each)).cloned());
            before[place] = now;
        }
        tokio::time::sleep(BUSY_LOOK_EVERY).await;
    }
    ensure!(looks > 0, "no ring could be looked at");
    Ok((left, looks))
}
