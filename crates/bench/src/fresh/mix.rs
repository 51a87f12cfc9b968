//! Reads with a share of writes, in a closed loop: hits, runs and times of both modes, alternated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hopcache_testbed::dice::Dice;
use hopcache_testbed::report::Report;
use tokio::task::JoinSet;

use super::arms::{self, ARMS, Arm, Seen, client, together};
use super::scene::{EACH, KINDS, Keys, Popularity, Scene};

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

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("Reads with writes: proved beside ttl");
    report.line(&format!(
        "{} clients, {NODES} nodes, {KINDS} kinds of {EACH} nodes each; a write sets a property of one kind; TTL {} s; {} rounds of {} s after {} s to warm up; median (least to greatest) of the rounds; Neo4j, Redis, nodes and clients share the machine",
        options.clients,
        options.ttl,
        options.rounds,
        options.seconds,
        WARM_UP.as_secs()
    ));
    arms::head(&mut report);
    for keys in &options.keys {
        for writes in &options.writes {
            let mut measured = [Arm::default(), Arm::default()];
            for round in 0..options.rounds {
                for place in [round % 2, 1 - round % 2] {
                    measured[place].add(
                        measure(options, ARMS[place].1, (*keys, *writes), round).await?,
                        options.seconds,
                    );
                }
            }
            arms::rows(&mut report, (&format!("{keys:?}"), *writes), &measured);
        }
    }
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

async fn measure(
    options: &Options,
    freshness: &str,
    (popularity, writes): (Popularity, f64),
    round: usize,
) -> anyhow::Result<(Seen, u64)> {
    let scene = Arc::new(Scene::start(NODES, freshness, Duration::from_secs(options.ttl)).await?);
    let keys = Arc::new(Keys::new(popularity));
    let clients = |span: Duration, salt: usize| {
        let mut clients = JoinSet::new();
        for place in 0..options.clients {
            let seed = (round * 2 + salt) * 1_000 + place;
            let mut dice = Dice::new(u64::try_from(seed).unwrap_or(0));
            let (scene, keys) = (Arc::clone(&scene), Arc::clone(&keys));
            clients.spawn(client(scene.client(place), span, move || {
                let (kind, id) = keys.draw(&mut dice);
                let is_write = dice.unit() * 100.0 <= writes;
                let request = if is_write { scene.write(kind, id) } else { scene.read(kind, id) };
                (request.into(), is_write)
            }));
        }
        clients
    };
    together(clients(WARM_UP, 0)).await?;
    let before = scene.reading_runs().await?;
    let seen = together(clients(Duration::from_secs(options.seconds), 1)).await?;
    let runs = scene.reading_runs().await? - before;
    Ok((seen, runs))
}
