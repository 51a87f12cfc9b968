//! The CPU time of a proved hit beside one that is not, and the time that a write takes, alternated.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::Connection;
use hopcache_testbed::process::signal;
use hopcache_testbed::report::{Report, Spread};

use super::figures::Times;
use super::scene::{EACH, KINDS, Scene, ask};
use crate::closed_loop::closed_loop;

/// Options of the benchmark of costs.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds of each arm.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of hits in each round.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Connections that ask for hits.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Writes of each round, one after another.
    #[arg(long, default_value_t = 400)]
    writes: usize,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Name, and lines of `[freshness]`.
const ARMS: [(&str, &str); 3] =
    [("proved", ""), ("proved, max_life 0", "max_life = \"0s\""), ("ttl", "mode = \"ttl\"")];
const TTL: Duration = Duration::from_secs(600);

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("What proofs cost");
    hits(options, &mut report).await?;
    writes(options, &mut report).await?;
    paused(&mut report).await?;
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
async fn hits(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    report.line(&format!(
        "## Hits on their owner: one node, {} connections, {} rounds of {} s; CPU µs per request, median (least to greatest)",
        options.connections, options.rounds, options.seconds
    ));
    let mut scenes = Vec::new();
    for (_, freshness) in ARMS {
        scenes.push(Scene::start(1, freshness, TTL).await?);
    }
    let mut cpu = [const { Vec::new() }; ARMS.len()];
    for round in 0..=options.rounds {
        for place in (0..ARMS.len()).map(|place| (place + round) % ARMS.len()) {
            let scene = &scenes[place];
            let request = scene.read(0, round % EACH);
            if place == 0 {
                scene.until_proved(0, (0, round % EACH)).await?;
            } else {
                ask(&mut Connection::open(scene.client(0)).await?, &request).await?;
            }
            let mut probe = Connection::open(scene.client(0)).await?;
            let (head, end) = probe.exchange(&request).await?;
            let (before, span) = (scene.cpu()?, Duration::from_secs(options.seconds));
            let loaded =
                closed_loop(scene.client(0), &[request], options.connections, span, end - head).await?;
            if round > 0 {
                let spent = scene.cpu()?.saturating_sub(before).as_secs_f64() * 1e6;
                cpu[place].push(spent / loaded.requests as f64);
            }
        }
    }
    for ((name, _), all) in ARMS.iter().zip(&cpu) {
        report.line(&format!("- {name}: {}", Spread::of(all)));
    }
    Ok(())
}

async fn writes(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    report.line(&format!(
        "\n## A write's time: three nodes, one write at a time, {} rounds of {} after one to warm up",
        options.rounds, options.writes
    ));
    // One after another: what each arm writes is foreign to the others.
    for (name, freshness) in ARMS {
        let scene = Scene::start(3, freshness, TTL).await?;
        let (mut times, mut dice) = (Vec::new(), Dice::new(5));
        let mut connection = Connection::open(scene.client(0)).await?;
        for round in 0..=options.rounds {
            for _ in 0..options.writes {
                let request = scene.write(dice.below(KINDS), dice.below(EACH));
                let sent = Instant::now();
                ask(&mut connection, &request).await?;
                if round > 0 {
                    times.push(sent.elapsed());
                }
            }
        }
        report.line(&format!("- {name}: {}", Times::of(&mut times)));
    }
    Ok(())
}

/// A node is stopped: the first write waits for its lease.
async fn paused(report: &mut Report) -> anyhow::Result<()> {
    report.line("\n## Writes while one of three nodes is stopped (lease 500 ms), in order");
    let scene = Scene::start(3, "", TTL).await?;
    let mut connection = Connection::open(scene.client(0)).await?;
    for id in 0..20 {
        ask(&mut connection, &scene.write(0, id)).await?;
    }
    let stopped = scene.nodes[2].0.id();
    signal(stopped, "STOP")?;
    let mut times = Vec::new();
    for id in 0..20 {
        let sent = Instant::now();
        ask(&mut connection, &scene.write(0, id)).await?;
        times.push(format!("{:.1}", sent.elapsed().as_secs_f64() * 1e3));
    }
    signal(stopped, "CONT")?;
    report.line(&format!("{} ms", times.join(", ")));
    Ok(())
}
