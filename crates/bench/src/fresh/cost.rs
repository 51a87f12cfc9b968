//! The CPU time of a proved hit beside one that is not, and the time that a write takes, alternated.

use std::time::{Duration, Instant};

use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::Connection;
use hopcache_testbed::report::Report;

use super::scene::{EACH, KINDS, Scene, ask};
use crate::figures::{Tail, micros};
use crate::hot::{self, Arm, Hot, alternate};

/// Options of the benchmark of costs.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    hot: hot::Options,
    /// Writes of each round, one after another.
    #[arg(long, default_value_t = 400)]
    writes: usize,
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
    options.hot.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

async fn hits(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    report.line("## Hits on their owner: one node\n");
    // All of them first: a start writes past the nodes of the others.
    let mut scenes = Vec::new();
    for (name, freshness) in ARMS {
        scenes.push((name, freshness, Scene::start(1, freshness, TTL).await?));
    }
    let mut arms = Vec::new();
    for (name, freshness, scene) in scenes {
        let (request, addr) = (scene.read(0, 0), scene.nodes.client(0));
        if freshness.is_empty() {
            scene.until_proved(0, (0, 0)).await?;
        }
        let mut probe = Connection::open(addr).await?;
        ask(&mut probe, &request).await?;
        let (head, end) = probe.exchange(&request).await?;
        arms.push(Arm::new(name, addr, vec![Hot::Http(request, end - head)], move || scene.nodes.cpu()));
    }
    alternate(&options.hot, &mut arms, report).await
}

async fn writes(options: &Options, report: &mut Report) -> anyhow::Result<()> {
    report.line(&format!(
        "\n## A write's time: three nodes, one write at a time, {} rounds of {} after one to warm up",
        options.hot.rounds, options.writes
    ));
    // One after another: what each arm writes is foreign to the others.
    for (name, freshness) in ARMS {
        let scene = Scene::start(3, freshness, TTL).await?;
        let (mut times, mut dice) = (Vec::new(), Dice::new(5));
        let mut connection = Connection::open(scene.nodes.client(0)).await?;
        for round in 0..=options.hot.rounds {
            for _ in 0..options.writes {
                let request = scene.write(dice.below(KINDS), dice.below(EACH));
                let sent = Instant::now();
                ask(&mut connection, &request).await?;
                if round > 0 {
                    times.push(micros(sent.elapsed()));
                }
            }
        }
        report.line(&format!("- {name}: {}", Tail::of(times)));
    }
    Ok(())
}

/// A node is stopped: the first write waits for its lease.
async fn paused(report: &mut Report) -> anyhow::Result<()> {
    report.line("\n## Writes while one of three nodes is stopped (lease 500 ms), in order");
    let scene = Scene::start(3, "", TTL).await?;
    let mut connection = Connection::open(scene.nodes.client(0)).await?;
    for id in 0..20 {
        ask(&mut connection, &scene.write(0, id)).await?;
    }
    scene.nodes.nodes[2].signal("STOP")?;
    let mut times = Vec::new();
    for id in 0..20 {
        let sent = Instant::now();
        ask(&mut connection, &scene.write(0, id)).await?;
        times.push(format!("{:.1}", sent.elapsed().as_secs_f64() * 1e3));
    }
    scene.nodes.nodes[2].signal("CONT")?;
    report.line(&format!("{} ms", times.join(", ")));
    Ok(())
}
