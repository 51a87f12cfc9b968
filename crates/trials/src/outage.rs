//! An outage of Neo4j as drivers feel it: Python, JavaScript, Java and Go, `bolt://` and `neo4j://`, each way to read with read
//! and with write access, all at once, beside HTTP. Neo4j is stopped, frozen, or behind a line that swallows everything. Some
//! drivers log on in the outage, at nodes that have not met their user. Until `entry.stale_if_error` ends, every cached read
//! has to be answered; then it counts how long it takes until all reads are hits that are proved again.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{bail, ensure};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::stage::{self, Answer, NODES, Stage, driver};
use hopcache_testbed::process::Process;
use hopcache_testbed::report::{Report, progress};
use hopcache_testbed::tcp_proxy::Mode;

/// Options of the outage.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Minutes of each outage.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// `entry.stale_if_error`, in seconds.
    #[arg(long, default_value_t = 900)]
    stale_if_error: u64,
    /// `entry.ttl`, in seconds.
    #[arg(long, default_value_t = 60)]
    ttl: u64,
    /// What happens to Neo4j, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "stopped,frozen,black-holed")]
    how: Vec<How>,
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What happens to Neo4j.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum How {
    /// SIGTERM; its port refuses.
    Stopped,
    /// SIGSTOP; its port takes connections.
    Frozen,
    /// A proxy before it takes connections and passes no byte.
    BlackHoled,
}

/// A line of a program of `drivers`, and whose it is.
struct Read {
    client: String,
    line: Value,
}

const KEYS: i64 = 10;
const TEXT: &str = "MATCH (k:Key {id: $id}) RETURN k.value AS value";
const PROGRAMS: [(&str, &str); 4] =
    [("python", "reads.py"), ("javascript", "reads.js"), ("java", "Reads.java"), ("go", "reads.go")];
/// Before the outage: every loop has read every key twice.
const BEFORE: Duration = Duration::from_secs(30);
/// Drivers that begin in the outage begin when no node takes a log-on for granted any more (30 s).
const LATE: Duration = Duration::from_secs(35);
const AFTER: Duration = Duration::from_secs(60);
const BINS: u64 = 12;
/// Milliseconds before the outage, and of each part of the time behind it.
const SHORT_BIN: u64 = 10_000;

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("Cached reads in an outage of Neo4j");
    let mut bad = 0;
    for how in &options.how {
        bad += one(options, *how, &mut report).await?;
    }
    if let Some(out) = &options.out {
        report.write(&out.join("report.md"))?;
    }
    if bad > 0 {
        bail!("{bad} cached reads were not answered, or not rightly");
    }
    Ok(())
}

/// One outage; how many reads within `entry.stale_if_error` were not answered.
async fn one(options: &Options, how: How, report: &mut Report) -> anyhow::Result<usize> {
    let config =
        format!("[entry]\nttl = \"{}s\"\nstale_if_error = \"{}s\"\n", options.ttl, options.stale_if_error);
    let mut stage = Stage::start(how == How::BlackHoled, &config, "").await?;
    let create = format!("UNWIND range(0, {KEYS} - 1) AS id MERGE (k:Key {{id: id}}) SET k.value = 100 + id");
    stage.write_again(0, &create, &json!({})).await?;
    let stop = CancellationToken::new();
    let over_http: Vec<_> = stage
        .nodes
        .clients()
        .into_iter()
        .map(|addr| tokio::spawn(read_over_http(addr, stop.clone())))
        .collect();
    let mut clients = Vec::new();
    for (place, program) in PROGRAMS.into_iter().enumerate() {
        for scheme in ["bolt", "neo4j"] {
            clients.push(Client::start(&stage, program, (scheme, place % NODES), "neo4j")?);
        }
        // The late drivers' user is met by the first node alone.
        for id in 0..KEYS {
            let read = stage.http(0, &format!("late-{}", program.0), TEXT, &json!({ "id": id })).await;
            ensure!(read.value == Some(100 + id), "{read:?}");
        }
    }
    tokio::time::sleep(BEFORE).await;
    let began = now();
    match how {
        How::Stopped => stage.neo4j.stop()?,
        How::Frozen => stage.neo4j.signal("STOP")?,
        How::BlackHoled => stage.proxy.set(Mode::Silent),
    }
    progress(&format!("{how:?}"));
    let length = Duration::from_secs_f64(options.minutes * 60.0);
    tokio::time::sleep(LATE.min(length / 2)).await;
    for (place, program) in PROGRAMS.into_iter().enumerate() {
        let at = (["bolt", "neo4j"][place % 2], 1 + place % 2);
        clients.push(Client::start(&stage, program, at, &format!("late-{}", program.0))?);
    }
    tokio::time::sleep(length.saturating_sub(Duration::from_millis(now() - began))).await;
    let ended = now();
    match how {
        How::Stopped => stage.neo4j.start_again()?,
        How::Frozen => stage.neo4j.signal("CONT")?,
        How::BlackHoled => stage.proxy.set(Mode::Pass),
    }
    let back = now();
    tokio::time::sleep(AFTER).await;
    stop.cancel();
    let mut reads = gather(over_http).await?;
    for client in clients {
        reads.extend(client.reads()?);
    }
    Ok(judge(options, how, &reads, [began, ended, back], report))
}

/// Neo4j's driver of a language.
struct Client {
    name: String,
    log: PathBuf,
    _process: Process,
}

impl Client {
    fn start(
        stage: &Stage,
        (language, program): (&str, &str),
        (scheme, node): (&str, usize),
        user: &str,
    ) -> anyhow::Result<Self> {
        let name = format!("{language} {scheme}:// {}", user.split('-').next().unwrap_or(user));
        let log = stage.nodes.dir.0.join(format!("{language}-{scheme}-{user}.jsonl"));
        let mut command = driver(language, program)?;
        command.args([format!("{scheme}://{}", stage.nodes.nodes[node].bolt), user.to_owned()]);
        Ok(Self { name, _process: Process::start(&mut command, &log)?, log })
    }

    fn reads(self) -> anyhow::Result<Vec<Read>> {
        let text = std::fs::read_to_string(&self.log)?;
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        let reads: Vec<_> = lines.map(|line| Read { client: self.name.clone(), line }).collect();
        ensure!(!reads.is_empty(), "{}: {text:.2000}", self.name);
        Ok(reads)
    }
}

/// The same as the programs do, over HTTP.
async fn read_over_http(addr: SocketAddr, stop: CancellationToken) -> Vec<Read> {
    let mut reads = Vec::new();
    for n in 0.. {
        if stop.is_cancelled() {
            break;
        }
        let (at, id) = (now(), n % KEYS);
        let Answer { value, status, error } = stage::http(addr, "neo4j", TEXT, &json!({ "id": id })).await;
        let took = now() - at;
        let mut line =
            json!({"at": at, "took": took, "way": "HTTP", "id": id, "value": value, "status": status});
        if !error.is_empty() {
            line["error"] = json!(error);
        }
        reads.push(Read { client: "HTTP".to_owned(), line });
        tokio::time::sleep(Duration::from_millis(1_000_u64.saturating_sub(took))).await;
    }
    reads
}

async fn gather(tasks: Vec<JoinHandle<Vec<Read>>>) -> anyhow::Result<Vec<Read>> {
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await?);
    }
    Ok(all)
}

impl Read {
    fn number(&self, member: &str) -> u64 {
        self.line[member].as_u64().unwrap_or(0)
    }

    fn is_right(&self) -> bool {
        self.line["value"].as_i64() == self.line["id"].as_i64().map(|id| 100 + id)
    }

    fn is_within(&self, from: u64, to: u64) -> bool {
        (from..to).contains(&self.number("at"))
    }

    fn error(&self) -> String {
        let text = self.line["error"].as_str().unwrap_or("another value");
        text.chars().take(100).collect()
    }
}

/// Writes what came of the reads. Returns how many of those within `entry.stale_if_error` were not answered rightly.
fn judge(
    options: &Options,
    how: How,
    reads: &[Read],
    [began, ended, back]: [u64; 3],
    report: &mut Report,
) -> usize {
    report.line(&format!(
        "\n## {how:?} for {:.0} s, stale_if_error {} s, ttl {} s\n",
        (ended - began) as f64 / 1e3,
        options.stale_if_error,
        options.ttl
    ));
    report.line(&format!("| client, within stale_if_error {HEAD}"));
    let (mut of_clients, mut errors) = (BTreeMap::<_, Vec<_>>::new(), BTreeMap::<_, Vec<_>>::new());
    let promised = ended.min(began + options.stale_if_error * 1_000);
    for read in reads.iter().filter(|read| read.is_within(began, promised)) {
        of_clients.entry(&read.client).or_default().push(read);
        if !read.is_right() {
            let way = read.line["way"].as_str().unwrap_or_default();
            errors.entry((&read.client, read.error())).or_default().push(way);
        }
    }
    of_clients.iter().for_each(|(client, reads)| report.line(&row(client, reads)));
    let mut wrong = 0;
    for ((client, error), ways) in errors {
        wrong += ways.len();
        let ways: BTreeMap<_, _> =
            ways.iter().map(|way| (way, ways.iter().filter(|other| *other == way).count())).collect();
        report.line(&format!("- {client}: {error}: {ways:?}"));
    }
    report.line(&format!("\n| seconds since the outage began {HEAD}"));
    let step = (ended - began).div_ceil(BINS).max(1);
    let of_outage = (0..BINS).map(|bin| (began + bin * step, (began + bin * step + step).min(ended)));
    let before = (began - SHORT_BIN, began);
    let after = (back..back + AFTER.as_millis() as u64)
        .step_by(SHORT_BIN as usize)
        .map(|from| (from, from + SHORT_BIN));
    for (from, to) in std::iter::once(before).chain(of_outage).chain([(ended, back)]).chain(after) {
        let of_bin: Vec<_> = reads.iter().filter(|read| read.is_within(from, to)).collect();
        let since = |at: u64| (at as f64 - began as f64) / 1e3;
        report.line(&row(&format!("{:.0} to {:.0}", since(from), since(to)), &of_bin));
    }
    let failed = reads.iter().filter(|read| read.is_within(back, u64::MAX) && !read.is_right());
    let last = failed.map(|read| read.number("at") + read.number("took")).max();
    report.line(&format!(
        "\nNeo4j is back after {:.1} s; the last read that began later and failed ended {:.1} s later",
        (back - began) as f64 / 1e3,
        last.map_or(0.0, |last| (last - back) as f64 / 1e3)
    ));
    wrong
}

const HEAD: &str = "| reads | answered | errors | slowest ms | proved hits, of those that can see it |\n|---|---|---|---|---|---|";

fn row(name: &str, reads: &[&Read]) -> String {
    let right = reads.iter().filter(|read| read.is_right()).count();
    let slowest = reads.iter().map(|read| read.number("took")).max().unwrap_or(0);
    let statuses: Vec<_> = reads.iter().filter_map(|read| read.line["status"].as_str()).collect();
    let proved = statuses.iter().filter(|status| status.contains("; proved")).count();
    let wrong = reads.len() - right;
    format!("| {name} | {} | {right} | {wrong} | {slowest} | {proved} of {} |", reads.len(), statuses.len())
}

/// Milliseconds since 1970, as the programs write them.
fn now() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}
