//! CPU time of a 1 KB hit: on its owner, forwarded over one hop, and on a bare axum handler that answers the same bytes
//! to the same request. The rounds alternate, so that disturbances of the machine affect all three.
//!
//! Forwards are measured twice: with one key for all connections, whose requests share forwards under way, and with a
//! key for each connection, whose requests cannot share.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;

use crate::closed_loop::closed_loop;
use hopcache_testbed::http::{Connection, query_request};
use hopcache_testbed::process::{
    ClusterPlan, PREFETCH_OFF, Process, get, hopcache_binary, start_cluster, start_redis, tempdir, wait_until,
};
use hopcache_testbed::report::{Report, Spread};

/// Options of the hit benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds; each runs every arm once.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of load for each arm in each round.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Keep-alive connections.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Another build of hopcache, measured in the same rounds.
    #[arg(long, value_name = "BINARY")]
    against: Option<PathBuf>,
    /// Prefetch at the nodes of this build: off is for comparison.
    #[arg(long, value_enum, default_value_t = Prefetch::On)]
    prefetch: Prefetch,
    /// Each connection is a session, which its requests name; else they belong to their address.
    #[arg(long)]
    sessions: bool,
    /// Trace this share of the requests at the nodes of this build, to a collector that throws the spans away.
    #[arg(long, value_name = "RATIO")]
    traced: Option<f64>,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Whether nodes prefetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Prefetch {
    /// As by default.
    On,
    /// Nothing is observed.
    Off,
}

/// About 1 KB of JSON.
pub(crate) const STATEMENT: &str = "UNWIND range(1, 205) AS x RETURN x";

/// Arms of one build.
const ARMS: usize = 3;

struct Arm {
    name: String,
    addr: SocketAddr,
    requests: Vec<Vec<u8>>,
    processes: Vec<usize>,
    cpu_us: Vec<f64>,
    per_second: Vec<f64>,
}

impl Arm {
    fn new(name: String, addr: SocketAddr, requests: Vec<Vec<u8>>, processes: Vec<usize>) -> Self {
        Self { name, addr, requests, processes, cpu_us: Vec::new(), per_second: Vec::new() }
    }

    /// With its processes that many places further on.
    fn moved(mut self, places: usize) -> Self {
        self.processes.iter_mut().for_each(|place| *place += places);
        self
    }
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let dir = tempdir()?;
    let (redis, redis_addr) = start_redis(&dir)?;
    let mut more = if options.prefetch == Prefetch::Off { PREFETCH_OFF.to_owned() } else { String::new() };
    let collector = match options.traced {
        Some(ratio) => Some(Collector::start(ratio, &mut more).await?),
        None => None,
    };
    let plan = (options.connections, options.sessions);
    let subject = Subject::start(("", &more), &hopcache_binary()?, &dir, redis_addr, plan).await?;
    let (bare, bare_addr) = start_bare(&dir, &subject.body)?;
    let body_len = subject.body.len();
    let mut arms = vec![Arm::new("bare axum handler".to_owned(), bare_addr, subject.one.clone(), Vec::new())];
    arms.extend(subject.arms());
    let mut processes = subject.processes;
    processes.push(bare);
    arms[0].processes = vec![processes.len() - 1];
    let mut other_redis = None;
    if let Some(binary) = &options.against {
        let dir = dir.join("against");
        std::fs::create_dir_all(&dir)?;
        let (redis, addr) = start_redis(&dir)?;
        other_redis = Some(redis);
        let other = Subject::start((", the other build", ""), binary, &dir, addr, plan).await?;
        let before = processes.len();
        arms.extend(other.arms().into_iter().map(|arm| arm.moved(before)));
        processes.extend(other.processes);
    }
    let mut report = Report::open("Hit benchmark");
    report.line(&format!(
        "body: {body_len} bytes, {} connections, {} rounds of {} s for each arm, closed loop",
        options.connections, options.rounds, options.seconds
    ));
    let span = Duration::from_secs(options.seconds);
    for arm in &arms {
        closed_loop(arm.addr, &arm.requests, options.connections, Duration::from_millis(500), body_len)
            .await?;
    }
    let admins = subject.admins;
    let redis_before = redis_commands(redis_addr)?;
    let hits_before = hits(admins[0]).await? + hits(admins[1]).await?;
    for _ in 0..options.rounds {
        for arm in &mut arms {
            measure(arm, &processes, options.connections, span, body_len).await?;
        }
    }
    let redis_after = redis_commands(redis_addr)?;
    let hits_after = hits(admins[0]).await? + hits(admins[1]).await?;
    drop((redis, other_redis));
    write_report(&mut report, &arms);
    report.line(&format!(
        "\nRedis: {} commands (each node polls the invalidation log twice a second) for {} hits",
        redis_after - redis_before,
        hits_after - hits_before
    ));
    if let Some(collector) = collector {
        let batches = collector.batches.load(Ordering::Relaxed);
        report.line(&format!("traced: {} of the requests; {batches} batches of spans came", collector.ratio));
        anyhow::ensure!(collector.ratio == 0.0 || batches > 0, "no span came");
    }
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

/// Two nodes of one build of hopcache, warm.
struct Subject {
    name: &'static str,
    processes: Vec<Process>,
    clients: Vec<SocketAddr>,
    admins: Vec<SocketAddr>,
    owner: usize,
    body: Vec<u8>,
    /// The same query, for each connection.
    one: Vec<Vec<u8>>,
    many: Vec<Vec<u8>>,
}

/// The line that names a connection's session, if they are sessions.
fn header(are_sessions: bool, connection: usize) -> String {
    if are_sessions { format!("hopcache-session: connection {connection}\r\n") } else { String::new() }
}

impl Subject {
    async fn start(
        (name, more): (&'static str, &str),
        binary: &Path,
        dir: &Path,
        redis: SocketAddr,
        (keys, are_sessions): (usize, bool),
    ) -> anyhow::Result<Self> {
        let common = format!(
            "[store]\nuri = \"redis://{redis}\"\n[entry]\nttl = \"1h\"\n[log]\nlevel = \"warn\"\n{more}"
        );
        let nodes = start_cluster(&ClusterPlan { binary, dir, common: &common, node: "" }, 2).await?;
        let clients: Vec<_> = nodes.iter().map(|(_, addrs)| addrs.client).collect();
        let (owner, body) = find_owner(&clients, &query_request(STATEMENT, 0, "")).await?;
        let one =
            (0..keys).map(|number| query_request(STATEMENT, 0, &header(are_sessions, number))).collect();
        let many = keys_forwarded(clients[1 - owner], keys, are_sessions).await?;
        let admins = nodes.iter().map(|(_, addrs)| addrs.admin).collect();
        let processes = nodes.into_iter().map(|(process, _)| process).collect();
        Ok(Self { name, processes, clients, admins, owner, body, one, many })
    }

    fn arms(&self) -> Vec<Arm> {
        let (owner, other) = (self.owner, 1 - self.owner);
        let arm = |what: &str, node: usize, requests: Vec<Vec<u8>>, processes| {
            Arm::new(format!("{what}{}", self.name), self.clients[node], requests, processes)
        };
        vec![
            arm("hit on the owner", owner, self.one.clone(), vec![owner]),
            arm("forwarded hit, one key", other, self.one.clone(), vec![owner, other]),
            arm("forwarded hit, a key for each connection", other, self.many.clone(), vec![owner, other]),
        ]
    }
}

/// Takes batches of spans, and throws them away.
struct Collector {
    ratio: f64,
    batches: Arc<AtomicU64>,
    _serving: tokio::task::JoinHandle<()>,
}

impl Collector {
    /// Listens, and adds the lines by which nodes find it.
    async fn start(ratio: f64, lines: &mut String) -> anyhow::Result<Self> {
        let batches = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&batches);
        let take = move |_: Bytes| async move {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        // Writing into a text does not fail.
        let _ = write!(lines, "[trace]\notlp_endpoint = \"{endpoint}\"\nsample_ratio = {ratio:?}\n");
        let app = Router::new().route("/v1/traces", post(take));
        let serving = tokio::spawn(async move {
            // It ends with the benchmark.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self { ratio, batches, _serving: serving })
    }
}

async fn measure(
    arm: &mut Arm,
    processes: &[Process],
    connections: usize,
    span: Duration,
    body_len: usize,
) -> anyhow::Result<()> {
    let cpu =
        || -> anyhow::Result<Duration> { arm.processes.iter().map(|place| processes[*place].cpu()).sum() };
    let before = cpu()?;
    let loaded = closed_loop(arm.addr, &arm.requests, connections, span, body_len).await?;
    let used = cpu()? - before;
    #[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
    let requests = loaded.requests as f64;
    arm.cpu_us.push(used.as_secs_f64() * 1e6 / requests);
    arm.per_second.push(requests / loaded.wall.as_secs_f64());
    Ok(())
}

fn write_report(report: &mut Report, arms: &[Arm]) {
    report.line("\nforwarded: CPU of both processes together\n\n| arm | CPU µs per request: median (min–max) | requests/s: median (min–max) |");
    report.line("|---|---|---|");
    for arm in arms {
        report.line(&format!(
            "| {} | {} | {} |",
            arm.name,
            Spread::of(&arm.cpu_us),
            Spread::of(&arm.per_second)
        ));
    }
    let ratios: Vec<f64> = arms[0].cpu_us.iter().zip(&arms[1].cpu_us).map(|(bare, hit)| bare / hit).collect();
    report.line(&format!("\nbare ÷ hit by CPU, pair by pair: {}", Spread::of(&ratios)));
    // Behind the bare handler: the arms of this build, then those of the other.
    let (these, others) = arms[1..].split_at(ARMS.min(arms.len() - 1));
    for (this, other) in these.iter().zip(others) {
        let ratios: Vec<f64> = this.cpu_us.iter().zip(&other.cpu_us).map(|(a, b)| a / b).collect();
        report.line(&format!("this build ÷ the other by CPU, {}: {}", this.name, Spread::of(&ratios)));
    }
    for arm in arms {
        let rounds: Vec<String> = arm.cpu_us.iter().map(|cpu| format!("{cpu:.2}")).collect();
        report.line(&format!("raw CPU µs, {}: {}", arm.name, rounds.join(" ")));
    }
}

/// Requests for different cached keys that the node at `entry` forwards to the other node. No request can share a
/// forward with another connection's request.
async fn keys_forwarded(entry: SocketAddr, keys: usize, are_sessions: bool) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut connection = Connection::open(entry).await?;
    let mut found = Vec::new();
    for n in 1..100 * keys {
        let request = query_request(STATEMENT, n, &header(are_sessions, found.len()));
        connection.ask(&request).await?;
        if connection.ask(&request).await?.head.contains("fwd=miss; detail=owner") {
            found.push(request);
        }
        if found.len() == keys {
            return Ok(found);
        }
    }
    bail!("the other node owns too few keys")
}

/// Which node says that it owns the key, and the answer's body as a hit has it.
async fn find_owner(clients: &[SocketAddr], request: &[u8]) -> anyhow::Result<(usize, Vec<u8>)> {
    for _ in 0..2 {
        for addr in clients {
            let answer = Connection::open(*addr).await?.ask(request).await?;
            if answer.status() != 202 {
                bail!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
            }
        }
    }
    for (place, addr) in clients.iter().enumerate() {
        let answer = Connection::open(*addr).await?.ask(request).await?;
        let status = answer.head.lines().find(|line| line.to_ascii_lowercase().starts_with("cache-status:"));
        let status = status.context("an answer without cache-status")?;
        if status.contains("; hit") && !status.contains("fwd=") {
            return Ok((place, answer.body));
        }
    }
    bail!("no node answers the key as its owner")
}

pub(crate) fn start_bare(dir: &Path, body: &[u8]) -> anyhow::Result<(Process, SocketAddr)> {
    let (body_file, addr_file) = (dir.join("body.json"), dir.join("bare.addr"));
    std::fs::write(&body_file, body)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare").arg("--body").arg(&body_file).arg("--addr-file").arg(&addr_file);
    let process = Process::start(&mut command, &dir.join("bare.log"))?;
    wait_until("the bare handler is up", || addr_file.exists())?;
    Ok((process, std::fs::read_to_string(&addr_file)?.parse()?))
}

async fn hits(admin: SocketAddr) -> anyhow::Result<u64> {
    let metrics = get(admin, "/metrics").await?;
    let line = metrics.lines().find(|line| line.starts_with("cache_hit_total"));
    Ok(line.and_then(|line| line.rsplit(' ').next()).and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// Number of commands that Redis has processed, as Redis reports it.
pub(crate) fn redis_commands(addr: SocketAddr) -> anyhow::Result<u64> {
    let output = Command::new("redis-cli")
        .args(["-h", &addr.ip().to_string(), "-p", &addr.port().to_string(), "info", "stats"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    Ok(line.context("redis-cli info stats")?.trim().parse()?)
}
