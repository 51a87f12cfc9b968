//! Reads with a share of writes, in a closed loop: hits, runs and times of both modes, alternated.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::Connection;
use hopcache_testbed::report::{Report, Spread};
use tokio::task::JoinSet;

use super::figures::{Times, share};
use super::scene::{EACH, KINDS, Keys, Popularity, Scene, ask};

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

/// What one client, or all, has seen.
#[derive(Default)]
struct Seen {
    reads: Vec<Duration>,
    writes: Vec<Duration>,
    hits: u64,
    proved: u64,
}

/// The figures of all rounds of an arm.
#[derive(Default)]
struct Arm {
    per_s: Vec<f64>,
    hits: Vec<f64>,
    proved: Vec<f64>,
    runs: Vec<f64>,
    times: [Vec<f64>; 3],
    write_times: [Vec<f64>; 2],
}

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
    report.line("\n| keys | writes % | arm | requests/s | hits of reads % | proved of hits % | reading runs per read | read P50 ms | P95 | P99 | write P50 ms | P99 |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for keys in &options.keys {
        for writes in &options.writes {
            let mut arms = [Arm::default(), Arm::default()];
            for round in 0..options.rounds {
                for place in [round % 2, 1 - round % 2] {
                    arms[place].add(
                        measure(options, ARMS[place].1, (*keys, *writes), round).await?,
                        options.seconds,
                    );
                }
            }
            for ((name, _), arm) in ARMS.iter().zip(&arms) {
                report.line(&format!("| {keys:?} | {writes} | {name} | {} |", arm.cells().join(" | ")));
            }
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
            let dice = Dice::new(u64::try_from(seed).unwrap_or(0));
            clients.spawn(client(Arc::clone(&scene), Arc::clone(&keys), (place, dice), (writes, span)));
        }
        clients
    };
    together(clients(WARM_UP, 0)).await?;
    let before = scene.reading_runs().await?;
    let seen = together(clients(Duration::from_secs(options.seconds), 1)).await?;
    let runs = scene.reading_runs().await? - before;
    Ok((seen, runs))
}

async fn together(mut clients: JoinSet<anyhow::Result<Seen>>) -> anyhow::Result<Seen> {
    let mut all = Seen::default();
    while let Some(ended) = clients.join_next().await {
        let seen = ended??;
        all.reads.extend(seen.reads);
        all.writes.extend(seen.writes);
        all.hits += seen.hits;
        all.proved += seen.proved;
    }
    Ok(all)
}

async fn client(
    scene: Arc<Scene>,
    keys: Arc<Keys>,
    (place, mut dice): (usize, Dice),
    (writes, span): (f64, Duration),
) -> anyhow::Result<Seen> {
    let (mut seen, until) = (Seen::default(), Instant::now() + span);
    let mut connection = Connection::open(scene.client(place)).await?;
    while Instant::now() < until {
        let (kind, id) = keys.draw(&mut dice);
        let is_write = dice.unit() * 100.0 <= writes;
        let request = if is_write { scene.write(kind, id) } else { scene.read(kind, id) };
        let sent = Instant::now();
        let how = ask(&mut connection, &request).await?;
        if is_write {
            seen.writes.push(sent.elapsed());
        } else {
            seen.reads.push(sent.elapsed());
            seen.hits += u64::from(how.is_hit);
            seen.proved += u64::from(how.is_proved);
        }
    }
    Ok(seen)
}

impl Arm {
    fn add(&mut self, (mut seen, runs): (Seen, u64), seconds: u64) {
        let reads = seen.reads.len() as u64;
        let all = reads + seen.writes.len() as u64;
        self.per_s.push(share(all, seconds));
        self.hits.push(100.0 * share(seen.hits, reads));
        self.proved.push(100.0 * share(seen.proved, seen.hits));
        self.runs.push(share(runs, reads));
        let (read, write) = (Times::of(&mut seen.reads), Times::of(&mut seen.writes));
        for (all, each) in self.times.iter_mut().zip([read.p50, read.p95, read.p99]) {
            all.push(each);
        }
        for (all, each) in self.write_times.iter_mut().zip([write.p50, write.p99]) {
            all.push(each);
        }
    }

    fn cells(&self) -> Vec<String> {
        let rate = Spread::of(&self.per_s);
        let mut cells = vec![format!("{:.0} ({:.0}–{:.0})", rate.median, rate.min, rate.max)];
        cells.extend([&self.hits, &self.proved].map(|all| format!("{:.1}", Spread::of(all).median)));
        cells.push(format!("{:.4}", Spread::of(&self.runs).median));
        cells.extend(self.times.iter().map(|all| Spread::of(all).to_string()));
        cells.extend(self.write_times.iter().map(|all| Spread::of(all).to_string()));
        cells
    }
}
