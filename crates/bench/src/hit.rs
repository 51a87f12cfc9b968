//! CPU time of a 1 KB hit: on its owner, forwarded over one hop, and on a bare axum handler that
//! answers the same bytes to the same request; alternated, so that the machine's mood hits all alike.
//!
//! Forwards are measured twice, with one key for all connections, whose requests share forwards under
//! way, and with a key for each, whose requests cannot.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::load::{Connection, closed_loop, query_request};
use crate::process::{ClusterPlan, Process, get, hopcache_binary, start_cluster, start_redis, wait_until};
use crate::report::{Report, Spread};

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
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// About 1 KB of JSON.
const STATEMENT: &str = "UNWIND range(1, 205) AS x RETURN x";

struct Arm {
    name: &'static str,
    addr: SocketAddr,
    requests: Vec<Vec<u8>>,
    processes: Vec<usize>,
    cpu_us: Vec<f64>,
    per_second: Vec<f64>,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let dir = tempdir()?;
    let (redis, redis_addr) = start_redis(&dir)?;
    let common =
        format!("[store]\nuri = \"redis://{redis_addr}\"\n[entry]\nttl = \"1h\"\n[log]\nlevel = \"warn\"\n");
    let binary = hopcache_binary()?;
    let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "" };
    let nodes = start_cluster(&plan, 2).await?;
    let request = query_request(STATEMENT, 0, "");
    let (owner, body) =
        find_owner(&nodes.iter().map(|(_, addrs)| addrs.client).collect::<Vec<_>>(), &request).await?;
    let bare = start_bare(&dir, &body)?;
    let (bare_process, bare_addr) = bare;
    let other = 1 - owner;
    let mut processes: Vec<Process> = Vec::new();
    let addrs: Vec<_> = nodes.iter().map(|(_, addrs)| *addrs).collect();
    processes.extend(nodes.into_iter().map(|(process, _)| process));
    processes.push(bare_process);
    let one = vec![request];
    let many = keys_forwarded(addrs[other].client, options.connections).await?;
    let arm = |name, addr, requests: &[Vec<u8>], processes| {
        let requests = requests.to_vec();
        Arm { name, addr, requests, processes, cpu_us: Vec::new(), per_second: Vec::new() }
    };
    let mut arms = [
        arm("bare axum handler", bare_addr, &one, vec![2]),
        arm("hit on the owner", addrs[owner].client, &one, vec![owner]),
        arm("forwarded hit, one key", addrs[other].client, &one, vec![owner, other]),
        arm("forwarded hit, a key for each connection", addrs[other].client, &many, vec![owner, other]),
    ];
    let mut report = Report::open("Hit benchmark");
    report.line(&format!(
        "body: {} bytes, {} connections, {} rounds of {} s for each arm, closed loop",
        body.len(),
        options.connections,
        options.rounds,
        options.seconds
    ));
    let span = Duration::from_secs(options.seconds);
    for arm in &arms {
        closed_loop(arm.addr, &arm.requests, options.connections, Duration::from_millis(500), body.len())
            .await?;
    }
    let redis_before = redis_commands(redis_addr)?;
    let hits_before = hits(addrs[0].admin).await? + hits(addrs[1].admin).await?;
    for _ in 0..options.rounds {
        for arm in &mut arms {
            measure(arm, &processes, options.connections, span, body.len()).await?;
        }
    }
    let redis_after = redis_commands(redis_addr)?;
    let hits_after = hits(addrs[0].admin).await? + hits(addrs[1].admin).await?;
    drop(redis);
    tell(&mut report, &arms);
    report.line(&format!(
        "\nRedis: {} commands (each node polls the invalidation log twice a second) for {} hits",
        redis_after - redis_before,
        hits_after - hits_before
    ));
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
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

fn tell(report: &mut Report, arms: &[Arm]) {
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
    for arm in arms {
        let rounds: Vec<String> = arm.cpu_us.iter().map(|cpu| format!("{cpu:.2}")).collect();
        report.line(&format!("raw CPU µs, {}: {}", arm.name, rounds.join(" ")));
    }
}

/// Requests for as many different keys, cached, that the node at `entry` forwards to the other one:
/// none of them can share a forward with another connection's.
async fn keys_forwarded(entry: SocketAddr, keys: usize) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut connection = Connection::open(entry).await?;
    let mut found = Vec::new();
    for n in 1..100 * keys {
        let request = query_request(STATEMENT, n, "");
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

fn start_bare(dir: &std::path::Path, body: &[u8]) -> anyhow::Result<(Process, SocketAddr)> {
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

/// Commands that Redis has processed, by its own word.
pub(crate) fn redis_commands(addr: SocketAddr) -> anyhow::Result<u64> {
    let output = Command::new("redis-cli")
        .args(["-h", &addr.ip().to_string(), "-p", &addr.port().to_string(), "info", "stats"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    Ok(line.context("redis-cli info stats")?.trim().parse()?)
}

/// A directory of this run's own.
pub(crate) fn tempdir() -> anyhow::Result<PathBuf> {
    let dir = std::env::temp_dir().join(format!("hopcache-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}
