//! CPU time of a 1 KB hit on its owner over Bolt, beside the same hit over HTTP, and beside a bare server of each protocol
//! that answers the same bytes. RUN and PULL are sent together, as drivers do. The rounds alternate.

pub(crate) mod bare;
mod client;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use hopcache_testbed::http::{Connection, query_request};
use hopcache_testbed::process::{
    ClusterPlan, Process, hopcache_binary, start_cluster, start_redis, tempdir, wait_until,
};
use hopcache_testbed::report::{Report, Spread};

use self::client::{BoltConnection, bolt_loop};
use crate::closed_loop::closed_loop;
use crate::hit::{STATEMENT, start_bare};

/// Options of the benchmark of hits over Bolt.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rounds; each runs every arm once.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of load for each arm in each round.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Connections.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// How an arm is asked.
enum Way {
    Bolt,
    /// With the length of the body.
    Http(usize),
}

struct Arm {
    name: &'static str,
    addr: SocketAddr,
    way: Way,
    process: Process,
    cpu_us: Vec<f64>,
    per_second: Vec<f64>,
}

impl Arm {
    async fn load(&self, connections: usize, span: Duration) -> anyhow::Result<(u64, Duration)> {
        let loaded = match self.way {
            Way::Bolt => bolt_loop(self.addr, STATEMENT, connections, span).await?,
            Way::Http(body_len) => {
                closed_loop(self.addr, &[query_request(STATEMENT, 0, "")], connections, span, body_len)
                    .await?
            }
        };
        Ok((loaded.requests, loaded.wall))
    }

    async fn measure(&mut self, connections: usize, span: Duration) -> anyhow::Result<()> {
        let before = self.process.cpu()?;
        let (requests, wall) = self.load(connections, span).await?;
        let used = self.process.cpu()? - before;
        #[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
        let requests = requests as f64;
        self.cpu_us.push(used.as_secs_f64() * 1e6 / requests);
        self.per_second.push(requests / wall.as_secs_f64());
        Ok(())
    }
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let dir = tempdir()?;
    let (_redis, redis) = start_redis(&dir)?;
    let mut arms = start_arms(&dir, redis).await?;
    let mut report = Report::open("Hits over Bolt");
    report.line(&format!(
        "{STATEMENT}: {} connections, {} rounds of {} s for each arm, closed loop, one node",
        options.connections, options.rounds, options.seconds
    ));
    let span = Duration::from_secs(options.seconds);
    for arm in &arms {
        arm.load(options.connections, Duration::from_millis(500)).await?;
    }
    for _ in 0..options.rounds {
        for arm in &mut arms {
            arm.measure(options.connections, span).await?;
        }
    }
    write_report(&mut report, &arms);
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

/// Two nodes of their own, so that an arm's CPU time is its protocol's alone, and the two bare servers.
async fn start_arms(dir: &Path, redis: SocketAddr) -> anyhow::Result<Vec<Arm>> {
    let common =
        format!("[store]\nuri = \"redis://{redis}\"\n[entry]\nttl = \"1h\"\n[log]\nlevel = \"warn\"\n");
    let (over_http, client, _) = start_node(&dir.join("http"), &common).await?;
    let (over_bolt, _, bolt) = start_node(&dir.join("bolt"), &common).await?;
    let request = query_request(STATEMENT, 0, "");
    let mut connection = Connection::open(client).await?;
    connection.ask(&request).await?;
    let answer = connection.ask(&request).await?;
    ensure!(answer.head.contains("; hit;"), "no hit over HTTP: {}", answer.head);
    let mut connection = BoltConnection::open(bolt).await?;
    connection.ask(STATEMENT).await?;
    let replies = connection.ask(STATEMENT).await?;
    ensure!(String::from_utf8_lossy(&replies).contains("; hit;"), "no hit over Bolt");
    let body_len = answer.body.len();
    let (bare_http, bare_http_addr) = start_bare(dir, &answer.body)?;
    let (bare_bolt, bare_bolt_addr) = start_bare_bolt(dir, &replies)?;
    let arm = |name, addr, way, process| Arm {
        name,
        addr,
        way,
        process,
        cpu_us: Vec::new(),
        per_second: Vec::new(),
    };
    Ok(vec![
        arm("bare Bolt server", bare_bolt_addr, Way::Bolt, bare_bolt),
        arm("hit over Bolt", bolt, Way::Bolt, over_bolt),
        arm("bare axum handler", bare_http_addr, Way::Http(body_len), bare_http),
        arm("hit over HTTP", client, Way::Http(body_len), over_http),
    ])
}

/// A cluster of one, and its addresses for HTTP and Bolt.
async fn start_node(dir: &Path, common: &str) -> anyhow::Result<(Process, SocketAddr, SocketAddr)> {
    std::fs::create_dir_all(dir)?;
    let plan = ClusterPlan { binary: &hopcache_binary()?, dir, common, node: "" };
    let mut nodes = start_cluster(&plan, 1).await?;
    let (process, addrs) = nodes.remove(0);
    Ok((process, addrs.client, addrs.bolt))
}

fn start_bare_bolt(dir: &Path, replies: &[u8]) -> anyhow::Result<(Process, SocketAddr)> {
    let (replies_file, addr_file) = (dir.join("replies"), dir.join("bare-bolt.addr"));
    std::fs::write(&replies_file, replies)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("bare-bolt").arg("--replies").arg(&replies_file).arg("--addr-file").arg(&addr_file);
    let process = Process::start(&mut command, &dir.join("bare-bolt.log"))?;
    wait_until("the bare Bolt server is up", || addr_file.exists())?;
    Ok((process, std::fs::read_to_string(&addr_file)?.parse()?))
}

fn write_report(report: &mut Report, arms: &[Arm]) {
    report.line("\n| arm | CPU µs per request: median (min–max) | requests/s: median (min–max) |");
    report.line("|---|---|---|");
    for arm in arms {
        report.line(&format!(
            "| {} | {} | {} |",
            arm.name,
            Spread::of(&arm.cpu_us),
            Spread::of(&arm.per_second)
        ));
    }
    let ratios = |over: &Arm, under: &Arm| -> Vec<f64> {
        over.cpu_us.iter().zip(&under.cpu_us).map(|(over, under)| over / under).collect()
    };
    report.line(&format!("\nBolt ÷ HTTP by CPU, pair by pair: {}", Spread::of(&ratios(&arms[1], &arms[3]))));
    report.line(&format!("Bolt ÷ its bare server: {}", Spread::of(&ratios(&arms[1], &arms[0]))));
    for arm in arms {
        let rounds: Vec<String> = arm.cpu_us.iter().map(|cpu| format!("{cpu:.2}")).collect();
        report.line(&format!("raw CPU µs, {}: {}", arm.name, rounds.join(" ")));
    }
}
