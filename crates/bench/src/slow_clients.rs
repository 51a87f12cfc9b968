//! Hits at a fixed rate, without and with slow clients beside them. A third of the slow clients send heads a byte at a
//! time, a third send bodies that way, and a third ask for a large answer again and again and read nothing. The rounds
//! alternate, so that disturbances of the machine affect both.
//!
//! Each request has an intended time, and its latency counts from there, whether or not earlier requests were answered.
//! So a stall shows in every request that was due during it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::fixed_rate::{FixedRate, Seen};
use hopcache_testbed::http::{Connection, query_request};
use hopcache_testbed::process::{
    ClusterPlan, NodeAddrs, Process, get, hopcache_binary, start_cluster, tempdir,
};
use hopcache_testbed::report::{Report, Spread};

/// Options of the slow-clients benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Slow clients, a third of each kind.
    #[arg(long, default_value_t = 200)]
    slow: usize,
    /// Hits per second.
    #[arg(long, default_value_t = 500)]
    rate: u32,
    /// Keep-alive connections that the hits are spread over, each with a thread.
    #[arg(long, default_value_t = 16)]
    connections: u32,
    /// Rounds; each runs both arms once, in turn one or the other first.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of each arm in each round: more than the 10 s after which slow clients are cut.
    #[arg(long, default_value_t = 15)]
    seconds: u64,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// About 1 KB of JSON.
const SMALL: &str = "UNWIND range(1, 205) AS x RETURN x";
/// About 590 KB of JSON: more than the sockets' buffers on both sides take.
const LARGE: &str = "UNWIND range(1, 100000) AS x RETURN x";
/// Pause between two bytes of a slow sender, and between two requests of a client that does not read.
const DRIBBLE: Duration = Duration::from_millis(250);
const REASONS: [&str; 3] = ["head_too_slow", "reader_too_slow", "silent"];

/// One arm: all its rounds.
struct Arm {
    name: &'static str,
    slow: usize,
    p50_us: Vec<f64>,
    p99_us: Vec<f64>,
    max_us: Vec<f64>,
    late_p99_us: Vec<f64>,
    cpu_us: Vec<f64>,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let dir = tempdir()?;
    let binary = hopcache_binary()?;
    let common = "[entry]\nttl = \"1h\"\n[log]\nlevel = \"warn\"\n";
    let mut nodes = start_cluster(&ClusterPlan { binary: &binary, dir: &dir, common, node: "" }, 1).await?;
    let (process, addrs) = nodes.pop().context("one node")?;
    let small_len = warm(addrs.client, SMALL).await?;
    let large_len = warm(addrs.client, LARGE).await?;
    let mut arms = [Arm::new("hits alone", 0), Arm::new("hits beside slow clients", options.slow)];
    let mut report = Report::open("Slow clients benchmark");
    report.line(&format!(
        "{} hits/s of {small_len} bytes on {} connections, open loop, latency from the intended time; {} rounds of {} s for each arm; slow clients: {} (heads, bodies, never reading {large_len} bytes, a third each), a new one for each that is cut; one node, default configuration, embedded store and graph; node, hits and slow clients share the machine",
        options.rate, options.connections, options.rounds, options.seconds, options.slow
    ));
    report.line(&format!("load average before: {}", load_average()));
    for round in 0..options.rounds {
        for place in [round % 2, 1 - round % 2] {
            measure(&mut arms[place], options, &process, addrs, small_len).await?;
        }
    }
    write_report(&mut report, &arms, options);
    for reason in REASONS {
        let count = refused(addrs.admin, reason).await?;
        report.line(&format!("connections cut as {reason}: {count}"));
        ensure!(reason == "silent" || count > 0 || options.slow < 3, "no client was slow: {reason}");
    }
    let late_bodies = late_bodies(addrs.admin).await?;
    report.line(&format!("bodies refused with 408: {late_bodies}"));
    ensure!(late_bodies > 0 || options.slow < 3, "no body was slow");
    report.line(&format!("load average after: {}", load_average()));
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

impl Arm {
    fn new(name: &'static str, slow: usize) -> Self {
        let none = Vec::new;
        Self {
            name,
            slow,
            p50_us: none(),
            p99_us: none(),
            max_us: none(),
            late_p99_us: none(),
            cpu_us: none(),
        }
    }

    fn add(&mut self, mut seen: Seen, cpu: Duration) {
        seen.latency_us.sort_unstable();
        seen.late_us.sort_unstable();
        self.p50_us.push(percentile(&seen.latency_us, 50));
        self.p99_us.push(percentile(&seen.latency_us, 99));
        self.max_us.push(percentile(&seen.latency_us, 100));
        self.late_p99_us.push(percentile(&seen.late_us, 99));
        #[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
        self.cpu_us.push(cpu.as_secs_f64() * 1e6 / seen.latency_us.len().max(1) as f64);
    }
}

async fn measure(
    arm: &mut Arm,
    options: &Options,
    process: &Process,
    addrs: NodeAddrs,
    body_len: usize,
) -> anyhow::Result<()> {
    let slow = SlowClients::start(arm.slow, addrs.client).await?;
    let before = process.cpu()?;
    let paced = FixedRate {
        addr: addrs.client,
        request: query_request(SMALL, 0, ""),
        body_len,
        connections: options.connections,
        rate: options.rate,
        span: Duration::from_secs(options.seconds),
    };
    let seen = tokio::task::spawn_blocking(move || paced.run()).await??;
    let cpu = process.cpu()?.saturating_sub(before);
    drop(slow);
    arm.add(seen, cpu);
    Ok(())
}

fn write_report(report: &mut Report, arms: &[Arm], options: &Options) {
    report.line("\n| arm | P50 µs: median (min–max) | P99 µs | slowest µs | sent late by the generator, P99 µs | node's CPU µs per hit |");
    report.line("|---|---|---|---|---|---|");
    for arm in arms {
        let spreads = [&arm.p50_us, &arm.p99_us, &arm.max_us, &arm.late_p99_us, &arm.cpu_us];
        let spreads: Vec<String> = spreads.iter().map(|rounds| Spread::of(rounds).to_string()).collect();
        report.line(&format!("| {} | {} |", arm.name, spreads.join(" | ")));
    }
    let ratios: Vec<f64> =
        arms[0].p99_us.iter().zip(&arms[1].p99_us).map(|(alone, beside)| beside / alone).collect();
    report.line(&format!("\nP99 beside ÷ P99 alone, round by round: {}", Spread::of(&ratios)));
    for arm in arms {
        let rounds: Vec<String> = arm.p99_us.iter().map(|p99| format!("{p99:.0}")).collect();
        report.line(&format!("raw P99 µs, {}: {}", arm.name, rounds.join(" ")));
    }
    let hits = u64::from(options.rate) * options.seconds * options.rounds as u64;
    report.line(&format!("hits of each arm: {hits}, all answered\n"));
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of seconds")]
fn percentile(sorted: &[u64], share: usize) -> f64 {
    sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0) as f64
}

/// Asks until the answer is a hit; the length of its body.
async fn warm(node: SocketAddr, statement: &str) -> anyhow::Result<usize> {
    let (request, mut connection) = (query_request(statement, 0, ""), Connection::open(node).await?);
    for _ in 0..3 {
        let answer = connection.ask(&request).await?;
        if answer.head.contains("; hit") {
            return Ok(answer.body.len());
        }
    }
    bail!("{statement} does not become a hit")
}

async fn refused(admin: SocketAddr, reason: &str) -> anyhow::Result<u64> {
    let labels = format!("hopcache_connections_refused_total{{listener=\"client\",reason=\"{reason}\"}}");
    counter(&get(admin, "/metrics").await?, &labels)
}

async fn late_bodies(admin: SocketAddr) -> anyhow::Result<u64> {
    let series = "hopcache_requests_total{class=\"bypass\",status=\"408\",front=\"http\"}";
    counter(&get(admin, "/metrics").await?, series)
}

fn counter(metrics: &str, series: &str) -> anyhow::Result<u64> {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series));
    Ok(line.with_context(|| format!("no {series}"))?.trim().parse()?)
}

fn load_average() -> String {
    std::fs::read_to_string("/proc/loadavg")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// Slow clients that run until this is dropped.
struct SlowClients {
    _clients: JoinSet<()>,
}

impl SlowClients {
    /// Starts them and waits until each is connected and has begun.
    async fn start(count: usize, node: SocketAddr) -> anyhow::Result<Self> {
        let head = b"POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: bench\r\nx: ".to_vec();
        let body = b"POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\naccept: application/json\r\ncontent-length: 900\r\n\r\n".to_vec();
        let kinds = [(head, b"x".to_vec()), (body, b" ".to_vec()), (Vec::new(), query_request(LARGE, 0, ""))];
        let (begun, mut begins) = mpsc::channel(count.max(1));
        let mut clients = JoinSet::new();
        for client in 0..count {
            let ((first, again), begun) = (kinds[client % kinds.len()].clone(), begun.clone());
            clients.spawn(async move {
                loop {
                    // A client that was cut off connects again. An error is the end of a connection.
                    if let Ok(mut stream) = begin(node, &first).await {
                        let _ = begun.try_send(());
                        while stream.write_all(&again).await.is_ok() {
                            tokio::time::sleep(DRIBBLE).await;
                        }
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
        }
        let deadline = Instant::now() + Duration::from_secs(10);
        for _ in 0..count {
            let left = deadline.saturating_duration_since(Instant::now());
            tokio::time::timeout(left, begins.recv()).await.context("slow clients do not connect")?;
        }
        Ok(Self { _clients: clients })
    }
}

/// A connection with a small receive buffer, and the begin of its request.
async fn begin(node: SocketAddr, first: &[u8]) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4 << 10)?;
    let mut stream = socket.connect(node).await?;
    stream.set_nodelay(true)?;
    stream.write_all(first).await?;
    Ok(stream)
}
