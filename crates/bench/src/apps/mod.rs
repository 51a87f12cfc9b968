//! The traffic of four modelled applications, replayed by Neo4j's JavaScript driver at Neo4j alone and at nodes before it.
//!
//! The traces are not in the repository (`--data`). Each measurement loads the data anew, and has new nodes with a Redis of
//! their own, so that caches begin empty. All of a round's measurements come before those of the next one.
//!
//! | module | decides |
//! |---|---|
//! | [`arms`] | which arms there are, and their configuration |
//! | [`replay`] | how `apps/replay.mjs` is run; what a page, a session and a write share is stands there |
//! | [`measure`] | what is measured around a replay |
//! | [`table`] | rows, and comparisons of answers and of hits |

mod arms;
mod measure;
mod replay;
mod table;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use hopcache_testbed::neo4j;
use hopcache_testbed::process::hopcache_binary;
use hopcache_testbed::report::{Report, progress};
use serde::Serialize;

use self::arms::{ALONE, Arm};
use self::measure::{Figures, Scheme, Stage};
use self::replay::{Target, Traffic};
use self::table::{Answers, Hits, head, loop_name, row};
use crate::load::turns;

/// Shares of writes that the traces can have, in percent.
const SHARES: [u32; 3] = [0, 1, 5];
/// Pages of `--quick`.
const QUICK_PAGES: usize = 150;
/// Pages that Neo4j answers before an application's first measurement, so that its JVM has compiled what they need.
const COMPILING_PAGES: usize = 600;

/// Options of the benchmark of applications.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Folder of the applications: each one is a folder with load.jsonl and trace.jsonl.
    #[arg(long)]
    data: PathBuf,
    /// Applications by name; without this, all of the folder.
    #[arg(long, value_delimiter = ',')]
    apps: Vec<String>,
    /// Shares of writes, in percent: 0, 1 or 5.
    #[arg(long, value_delimiter = ',', default_values_t = SHARES, value_parser = share)]
    writes: Vec<u32>,
    /// Clients of the closed loop. Sessions are dealt out to them in turn.
    #[arg(long, default_value_t = 8)]
    clients: usize,
    /// Pages a second of an open loop, measured after the closed one. Several are measured one after the other.
    #[arg(long, value_delimiter = ',', value_parser = rate)]
    rate: Vec<f64>,
    /// Leave out the closed loop.
    #[arg(long, requires = "rate")]
    open_only: bool,
    /// Use the first so many pages of each trace only.
    #[arg(long)]
    pages: Option<usize>,
    /// Of the pages, so many come before the measured part. Without this, the measured part begins with empty caches.
    #[arg(long, default_value_t = 0)]
    warm: usize,
    /// How often the measured part is replayed.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    passes: u32,
    /// Rounds. Each measures every arm once, and begins with another one.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Nodes of an arm that has nodes.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// How drivers find the nodes.
    #[arg(long, value_enum, default_value_t = Scheme::Bolt)]
    scheme: Scheme,
    /// A further arm of nodes: `NAME: table.key = value; table.key = value`. Can be given several times.
    #[arg(long)]
    arm: Vec<Arm>,
    /// Measure the arms of these names only: neo4j, hopcache (shipped defaults), ttl, and those of `--arm`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Most connections that a driver has to one server.
    #[arg(long, default_value_t = 200)]
    pool: usize,
    /// The node's binary, where it is not beside this one.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Folder whose node_modules holds neo4j-driver. `cargo xtask bench apps` installs it and names it here.
    #[arg(long, env = "HOPCACHE_BENCH_DRIVER")]
    driver: PathBuf,
    /// Delete all that Neo4j holds at the start. Without this, a database that is not empty is an error.
    #[arg(long)]
    wipe: bool,
    /// One application, its first 150 pages, 0 and 5 % of writes.
    #[arg(long)]
    quick: bool,
    /// Where the measurements go, a line of JSON each.
    #[arg(long, default_value = "target/bench-apps/measurements.jsonl")]
    json: PathBuf,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Options {
    /// Of `--quick` the first and the last.
    fn shares(&self) -> Vec<u32> {
        match self.writes[..] {
            [first, .., last] if self.quick => vec![first, last],
            _ => self.writes.clone(),
        }
    }

    /// Of each loop; `None`: closed.
    fn rates(&self) -> Vec<Option<f64>> {
        let closed = (!self.open_only).then_some(None);
        closed.into_iter().chain(self.rate.iter().copied().map(Some)).collect()
    }
}

fn share(text: &str) -> Result<u32, String> {
    let known = text.parse().ok().filter(|share| SHARES.contains(share));
    known.ok_or_else(|| "the traces can have 0, 1 or 5 % of writes".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "a rate is a number above 0".to_owned())
}

/// A line of the file of measurements.
#[derive(Serialize)]
struct Measurement<'a> {
    application: &'a str,
    writes_percent: u32,
    #[serde(rename = "loop")]
    loop_name: String,
    clients: usize,
    round: usize,
    arm: &'a str,
    /// Further configuration of the nodes.
    configuration: String,
    nodes: usize,
    scheme: Scheme,
    #[serde(flatten)]
    figures: &'a Figures,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let applications = applications(options)?;
    let arms = Arm::chosen(&options.arm, &options.only)?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None if arms.iter().any(Arm::has_nodes) => hopcache_binary()?,
        None => PathBuf::new(),
    };
    ensure!(
        options.clients > 0 && options.nodes > 0 && options.pool > 0,
        "clients, nodes and pool begin at 1"
    );
    let driver = options.driver.canonicalize().with_context(|| {
        format!("{} is missing: `cargo xtask bench apps` installs the driver", options.driver.display())
    })?;
    let uris = vec![format!(
        "{}://{}",
        if options.scheme == Scheme::Bolt { "bolt" } else { "neo4j" },
        neo4j::bolt()?
    )];
    let alone = Target { uris, password: neo4j::password()?, driver };
    alone.load(None, options.wipe).await.context("empty the database")?;
    let stage = Stage { alone, nodes: options.nodes, scheme: options.scheme, binary: &binary };
    let mut report = Report::open("Traffic of applications");
    describe(options, &arms, &mut report);
    let mut run =
        Run { options, arms: &arms, stage: &stage, json: open(&options.json)?, differing: Vec::new() };
    let mut measured = Ok(());
    for folder in &applications {
        measured = run.application(folder, &mut report).await;
        if measured.is_err() {
            break;
        }
    }
    // Also after a failure: the next run wants an empty database.
    stage.alone.load(None, true).await.context("empty the database")?;
    options.out.as_ref().map_or(Ok(()), |path| report.write(path))?;
    measured?;
    ensure!(
        run.differing.is_empty(),
        "arms give other answers than the first one: {}",
        run.differing.join(", ")
    );
    Ok(())
}

/// Folders of the applications.
fn applications(options: &Options) -> anyhow::Result<Vec<PathBuf>> {
    let data = &options.data;
    let entries = std::fs::read_dir(data).with_context(|| {
        format!(
            "--data: cannot read {}. It is a folder of applications, each a folder with load.jsonl and trace.jsonl",
            data.display()
        )
    })?;
    let is_whole =
        |folder: &PathBuf| ["load.jsonl", "trace.jsonl"].iter().all(|file| folder.join(file).is_file());
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_whole).collect();
    found.sort();
    for name in &options.apps {
        let folder = data.join(name);
        ensure!(found.contains(&folder), "{} lacks load.jsonl or trace.jsonl", folder.display());
    }
    found.retain(|folder| options.apps.is_empty() || options.apps.contains(&name_of(folder)));
    if options.quick {
        found.truncate(1);
    }
    ensure!(!found.is_empty(), "no folder of {} has load.jsonl and trace.jsonl", data.display());
    Ok(found.into_iter().map(|folder| folder.canonicalize().unwrap_or(folder)).collect())
}

fn name_of(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn open(path: &Path) -> anyhow::Result<std::fs::File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

fn describe(options: &Options, arms: &[Arm], report: &mut Report) {
    let spread = match options.scheme {
        Scheme::Bolt => "a `bolt://` driver for each node, sessions dealt out to them in turn",
        Scheme::Neo4j => "one `neo4j://` driver, which spreads by the nodes' routing table",
    };
    report.line(&format!(
        "{} nodes, {spread}; closed loop: {} clients; {} rounds; {} pages before the measured part; data loaded anew, new nodes and a new Redis for each measurement; all processes share the machine. Hits: `cache_hit_total` of all nodes; runs: their `hopcache_origin_runs_total`, and every statement where there are none; CPU: nodes, Redis and Neo4j, not the client.",
        options.nodes, options.clients, options.rounds, options.warm
    ));
    for arm in arms {
        let about = match (arm.has_nodes(), arm.lines()) {
            (false, _) => "Neo4j alone".to_owned(),
            (true, lines) if lines.is_empty() => "shipped defaults".to_owned(),
            (true, lines) => format!("`{lines}`"),
        };
        report.line(&format!("- `{}`: {about}", arm.name));
    }
    report.line("");
}

/// A run under way.
struct Run<'a> {
    options: &'a Options,
    arms: &'a [Arm],
    stage: &'a Stage<'a>,
    json: std::fs::File,
    /// Applications in which an arm without writes gave another answer.
    differing: Vec<String>,
}

/// What is compared between the arms of an application.
#[derive(Default)]
struct Compared {
    hits: Hits,
    answers: Answers,
}

impl Run<'_> {
    async fn application(&mut self, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
        let name = name_of(folder);
        progress(&format!("{name}: Neo4j compiles"));
        self.compile(folder).await?;
        report.line(&head());
        let mut compared = Compared::default();
        for writes in self.options.shares() {
            for rate in self.options.rates() {
                let traffic = self.traffic(folder, writes, rate);
                let measured = self.arms(folder, &traffic, &mut compared).await?;
                for (arm, rounds) in self.arms.iter().zip(&measured) {
                    report.line(&row(&name, writes, rate, &arm.name, rounds));
                }
            }
        }
        report.line("");
        let arms: Vec<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        let hits = compared.hits.line(&name, &arms);
        compared.answers.lines().into_iter().chain(hits).for_each(|line| report.line(&line));
        report.line("");
        if compared.answers.differ() {
            self.differing.push(name);
        }
        Ok(())
    }

    /// All rounds of every arm with this traffic; in the order of the arms.
    async fn arms(
        &mut self,
        folder: &Path,
        traffic: &Traffic,
        compared: &mut Compared,
    ) -> anyhow::Result<Vec<Vec<Figures>>> {
        let (name, load) = (name_of(folder), folder.join("load.jsonl"));
        let asking = loop_name(traffic.rate);
        let mut measured = vec![Vec::new(); self.arms.len()];
        for round in 0..self.options.rounds {
            for place in turns(self.arms.len(), round) {
                let arm = &self.arms[place];
                progress(&format!(
                    "{name}, {} % writes, {asking}, round {round}: {}",
                    traffic.writes, arm.name
                ));
                let (figures, replayed) = self
                    .stage
                    .measure(arm, &load, traffic)
                    .await
                    .with_context(|| format!("{name}, arm {}", arm.name))?;
                self.keep(&name, traffic, (round, arm), &figures)?;
                compared.hits.add(traffic.writes, traffic.rate, &arm.name, &figures);
                if traffic.digest {
                    compared.answers.compare(&arm.name, &replayed.digests);
                }
                measured[place].push(figures);
            }
        }
        Ok(measured)
    }

    /// Reads at Neo4j alone that nobody measures.
    async fn compile(&self, folder: &Path) -> anyhow::Result<()> {
        let all = self.traffic(folder, 0, None);
        let pages = Some(all.pages.unwrap_or(COMPILING_PAGES).min(COMPILING_PAGES));
        let traffic = Traffic { pages, warm: 0, digest: false, ..all };
        let alone = Arm::chosen(&[], &[ALONE.to_owned()])?;
        self.stage.measure(&alone[0], &folder.join("load.jsonl"), &traffic).await.map(drop)
    }

    fn traffic(&self, folder: &Path, writes: u32, rate: Option<f64>) -> Traffic {
        let options = self.options;
        Traffic {
            trace: folder.join("trace.jsonl"),
            writes,
            clients: options.clients,
            rate,
            pages: options.pages.or(options.quick.then_some(QUICK_PAGES)),
            warm: options.warm,
            passes: options.passes as usize,
            pool: options.pool,
            digest: writes == 0,
        }
    }

    fn keep(
        &mut self,
        application: &str,
        traffic: &Traffic,
        (round, arm): (usize, &Arm),
        figures: &Figures,
    ) -> anyhow::Result<()> {
        let line = serde_json::to_string(&Measurement {
            application,
            writes_percent: traffic.writes,
            loop_name: loop_name(traffic.rate),
            clients: self.options.clients,
            round,
            arm: &arm.name,
            configuration: arm.lines(),
            nodes: if arm.has_nodes() { self.options.nodes } else { 0 },
            scheme: self.options.scheme,
            figures,
        })?;
        writeln!(self.json, "{line}").context("cannot write the measurements")
    }
}
