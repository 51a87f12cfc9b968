//! A scan beside a working set: what a million queries that are asked once do to Redis, to a node's memory, and to the hits of
//! those who ask for something again and again. Arms differ in `store.run_once_bytes`. A scripted Bolt server makes the results.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::bolt_origin::BoltOrigin;
use crate::closed_loop::each_once;
use crate::expiry::cache_status::{CacheStatus, Kind};
use crate::expiry::figures::share;
use hopcache_testbed::dice::{Dice, Zipf};
use hopcache_testbed::http::{Connection, query_request};
use hopcache_testbed::metrics::number_behind;
use hopcache_testbed::process::{
    ClusterPlan, PREFETCH_OFF, get, hopcache_binary, start_cluster, start_redis, tempdir,
};
use hopcache_testbed::report::Report;

/// Options of the scan.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Queries that the scan asks, each once.
    #[arg(long, default_value_t = 1_000_000)]
    scanned: usize,
    /// Queries of the working set.
    #[arg(long, default_value_t = 10_000)]
    working: usize,
    /// Exponent of the working set's popularity (Zipf).
    #[arg(long, default_value_t = 0.99)]
    exponent: f64,
    /// Requests for the working set before the scan and after it, each. Three times as many warm it.
    #[arg(long, default_value_t = 50_000)]
    requests: usize,
    /// Bytes of each result.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// `node.memory` in MiB.
    #[arg(long, default_value_t = 64)]
    budget_mib: u64,
    /// Connections that scan, and as many that ask for the working set.
    #[arg(long, default_value_t = 16)]
    connections: usize,
    /// `store.run_once_bytes` of each arm.
    #[arg(long, value_delimiter = ',', default_values_t = ["64MiB".to_owned(), "1TiB".to_owned()])]
    room: Vec<String>,
    /// The node's binary, where it is not beside this one.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

const STATEMENT: &str = "MATCH (n:Thing {key: $n}) RETURN $n AS text";
/// How long Redis may take for an answer.
const REDIS_WAIT: Duration = Duration::from_secs(30);

/// Runs every arm once.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let mut report = Report::open("Scan benchmark");
    report.line(&format!(
        "{} queries asked once, beside a working set of {} (Zipf {}); results of {} bytes; one node, node.memory {} MiB, TTL 1 h; Redis without a bound; {} connections each; origin: a scripted Bolt server\n",
        options.scanned, options.working, options.exponent, options.bytes, options.budget_mib, options.connections
    ));
    report.line("| run_once_bytes | phase | requests for the working set | hits | runs at the origin | keys in Redis | Redis MiB | RSS MiB | copies | evicted | s |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|");
    for room in &options.room {
        Arm::start(options, room).await?.measure(options, room, &mut report).await?;
    }
    report.line("\nA hit is one at the node, in memory or from Redis: the client waits for no run. What is evicted from memory is found in Redis, if it was stored.");
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

/// A node with a store and an origin of its own. All end with it.
struct Arm {
    client: SocketAddr,
    admin: SocketAddr,
    redis: SocketAddr,
    origin: BoltOrigin,
    pid: u32,
    _processes: Vec<hopcache_testbed::process::Process>,
}

/// How many requests for the working set were answered, and how many of them by a hit.
#[derive(Clone, Copy, Default)]
struct Counted {
    requests: usize,
    hits: usize,
}

impl Arm {
    async fn start(options: &Options, room: &str) -> anyhow::Result<Self> {
        let origin = BoltOrigin::start(options.bytes).await?;
        let dir = tempdir()?;
        let (store, redis) = start_redis(&dir)?;
        let common = format!(
            "[origin]\nuri = \"bolt://{}\"\n[store]\nuri = \"redis://{redis}\"\nrun_once_bytes = \"{room}\"\n[entry]\nttl = \"1h\"\n[log]\nlevel = \"warn\"\n{PREFETCH_OFF}",
            origin.addr()
        );
        let binary = options.binary.clone().map_or_else(hopcache_binary, Ok)?;
        let node = format!("memory = \"{}MiB\"\n", options.budget_mib);
        let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: &node };
        let (process, addrs) = start_cluster(&plan, 1).await?.pop().context("a node")?;
        let pid = process.id();
        let processes = vec![process, store];
        Ok(Self { client: addrs.client, admin: addrs.admin, redis, origin, pid, _processes: processes })
    }

    async fn measure(&self, options: &Options, room: &str, report: &mut Report) -> anyhow::Result<()> {
        let mut seed = 1;
        for (phase, requests) in [("warm", 3 * options.requests), ("before", options.requests)] {
            let (began, runs) = (Instant::now(), self.origin.runs());
            let counted = self.ask_working(options, Until::Count(requests), seed).await?;
            seed += 1;
            self.line(report, (room, phase), counted, (runs, began)).await?;
        }
        let (began, runs) = (Instant::now(), self.origin.runs());
        let next = Arc::new(AtomicUsize::new(0));
        let until = Until::Scanned(Arc::clone(&next), options.scanned);
        let first = options.working;
        let requests = move |number| vec![query_request(STATEMENT, first + number, "")];
        let scanning = each_once(self.client, options.connections, (&next, options.scanned), requests);
        let (counted, scanned) = tokio::join!(self.ask_working(options, until, seed), scanning);
        scanned?;
        self.line(report, (room, "during"), counted?, (runs, began)).await?;
        let (began, runs) = (Instant::now(), self.origin.runs());
        let counted = self.ask_working(options, Until::Count(options.requests), seed + 1).await?;
        self.line(report, (room, "after"), counted, (runs, began)).await
    }

    /// Asks for the working set until there is enough.
    async fn ask_working(&self, options: &Options, until: Until, seed: u64) -> anyhow::Result<Counted> {
        let zipf = Arc::new(Zipf::new(options.working, options.exponent));
        let mut loops = tokio::task::JoinSet::new();
        for place in 0..options.connections {
            let (addr, zipf, until) = (self.client, Arc::clone(&zipf), until.clone());
            let mut dice = Dice::new(1_000 * seed + u64::try_from(place)?);
            let connections = options.connections;
            loops.spawn(async move {
                let mut connection = Connection::open(addr).await?;
                let mut counted = Counted::default();
                while !until.is_over(counted.requests * connections) {
                    let is_hit = ask(&mut connection, zipf.draw(&mut dice)).await?;
                    counted.requests += 1;
                    counted.hits += usize::from(is_hit);
                }
                anyhow::Ok(counted)
            });
        }
        let mut all = Counted::default();
        while let Some(ended) = loops.join_next().await {
            let Counted { requests, hits } = ended??;
            (all.requests, all.hits) = (all.requests + requests, all.hits + hits);
        }
        Ok(all)
    }

    async fn line(
        &self,
        report: &mut Report,
        (room, phase): (&str, &str),
        counted: Counted,
        (runs, began): (u64, Instant),
    ) -> anyhow::Result<()> {
        let took = began.elapsed();
        let metrics = get(self.admin, "/metrics").await?;
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        report.line(&format!(
            "| {room} | {phase} | {} | {:.2} % | {} | {} | {} | {} | {} | {} | {:.0} |",
            counted.requests,
            100.0 * share(counted.hits, counted.requests),
            self.origin.runs() - runs,
            redis_number(self.redis, "DBSIZE", ":")?,
            redis_number(self.redis, "INFO memory", "used_memory:")? >> 20,
            number_behind(&status, "VmRSS:")? >> 10,
            number_behind(&metrics, "hopcache_entries ")?,
            number_behind(&metrics, "hopcache_evictions_total ")?,
            took.as_secs_f64(),
        ));
        Ok(())
    }
}

/// When those who ask for the working set stop.
#[derive(Clone)]
enum Until {
    /// After so many requests, of all connections together.
    Count(usize),
    /// When the scan has asked so many.
    Scanned(Arc<AtomicUsize>, usize),
}

impl Until {
    fn is_over(&self, requests: usize) -> bool {
        match self {
            Self::Count(count) => requests >= *count,
            Self::Scanned(next, count) => next.load(Ordering::Relaxed) >= *count,
        }
    }
}

/// Asks one query. Returns whether the answer was a hit.
async fn ask(connection: &mut Connection, number: usize) -> anyhow::Result<bool> {
    let answer = connection.ask(&query_request(STATEMENT, number, "")).await?;
    match CacheStatus::of(&answer.head).kind {
        Kind::Failed => bail!("{}{}", answer.head, String::from_utf8_lossy(&answer.body)),
        Kind::Fresh | Kind::Stale => Ok(true),
        Kind::Miss => Ok(false),
    }
}

/// The number behind a word in Redis' answer to a command without arguments that hold blanks.
fn redis_number(addr: SocketAddr, command: &str, word: &str) -> anyhow::Result<u64> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(REDIS_WAIT))?;
    stream.write_all(format!("{command}\r\n").as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let text = match first.strip_prefix('$') {
        None => first,
        Some(bytes) => {
            let mut text = vec![0; bytes.trim().parse()?];
            reader.read_exact(&mut text)?;
            String::from_utf8(text)?
        }
    };
    number_behind(&text, word).with_context(|| format!("Redis answered {command} with {text:?}"))
}
