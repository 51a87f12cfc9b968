//! Large reads over Bolt through one node, beside Neo4j alone: time to the first row, rows a second, and the node's
//! resident memory. The two arms alternate, and each read is of a statement that neither has seen.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use hopcache_testbed::neo4j;
use hopcache_testbed::process::{ClusterPlan, PREFETCH_OFF, hopcache_binary, start_cluster, tempdir};
use hopcache_testbed::report::{Report, Spread};

use crate::stream_client::{Client, Seen, has};

/// Options of the stream benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows of each read; a square number.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Rounds; each reads every statement once through each arm.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Records of one PULL; 0 for all at once. Drivers ask for 1,000.
    #[arg(long, default_value_t = 1_000)]
    fetch: u32,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

const LABEL: &str = "HopcacheBenchStream";

/// What is read.
const STATEMENTS: [(&str, Statement); 4] = [
    ("numbers, which an entry can hold", |rows, n| format!("UNWIND range(1, {rows}) AS x RETURN x AS x{n}")),
    ("numbers past the cache", |rows, n| {
        format!("UNWIND range(1, {rows}) AS x RETURN x + toInteger(rand()) AS x{n}")
    }),
    ("nodes, too large for an entry", |_, n| {
        format!("MATCH (a:{LABEL}), (b:{LABEL}) RETURN a AS a{n}, b.n AS b{n}")
    }),
    ("ten rows", |_, n| format!("MATCH (a:{LABEL}) RETURN a AS a{n} LIMIT 10")),
];

type Statement = fn(u64, usize) -> String;

/// All rounds of one statement through one arm.
#[derive(Default)]
struct Arm {
    first_ms: Vec<f64>,
    rows_per_s: Vec<f64>,
}

impl Arm {
    #[expect(clippy::cast_precision_loss, reason = "row counts are far below 2^53")]
    fn add(&mut self, seen: &Seen) {
        self.first_ms.push(seen.first_row.as_secs_f64() * 1e3);
        self.rows_per_s.push(seen.rows as f64 / seen.whole.as_secs_f64());
    }
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let (dir, binary) = (tempdir()?, hopcache_binary()?);
    let (bolt, password) = (neo4j::bolt()?, neo4j::password()?);
    let common = format!("[origin]\nuri = \"bolt://{bolt}\"\n[log]\nlevel = \"warn\"\n{PREFETCH_OFF}");
    let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "" };
    let (process, addrs) = start_cluster(&plan, 1).await?.pop().context("one node")?;
    let mut alone = Client::connect(&bolt, &password).await?;
    let mut through = Client::connect(&addrs.bolt.to_string(), &password).await?;
    let side = options.rows.isqrt();
    alone.write(&format!("MATCH (n:{LABEL}) DETACH DELETE n")).await?;
    alone
        .write(&format!("UNWIND range(1, {side}) AS n CREATE (:{LABEL} {{n: n, name: 'node number ' + n}})"))
        .await?;
    let mut report = Report::open("Stream benchmark");
    report.line(&format!(
        "{} rows, {} at a time (0: all), {} rounds after one to warm up; median (least to greatest); one node, default configuration, store in memory; Neo4j, node and client share the machine",
        options.rows, options.fetch, options.rounds
    ));
    let mut text = 0;
    for (name, statement) in STATEMENTS {
        let memory = Watched::start(process.id())?;
        let mut arms = [Arm::default(), Arm::default()];
        for round in 0..=options.rounds {
            for place in [round % 2, 1 - round % 2] {
                text += 1;
                let client = if place == 0 { &mut alone } else { &mut through };
                let seen = client.read(&statement(options.rows, text), options.fetch).await?;
                ensure!(place == 0 || has(&seen.end, b"hopcache"), "not through hopcache");
                if round > 0 {
                    arms[place].add(&seen);
                }
            }
        }
        line(&mut report, name, &arms, &memory);
    }
    alone.write(&format!("MATCH (n:{LABEL}) DETACH DELETE n")).await?;
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

fn line(report: &mut Report, name: &str, [alone, through]: &[Arm; 2], memory: &Watched) {
    let [first_alone, first_through] = [alone, through].map(|arm| Spread::of(&arm.first_ms));
    let [rate_alone, rate_through] = [alone, through].map(|arm| Spread::of(&arm.rows_per_s));
    let (idle_mib, most_mib) = memory.mib();
    report.line(&format!("## {name}"));
    report.line(&format!(
        "first row: Neo4j {first_alone} ms, through hopcache {first_through} ms: {:.2} times",
        first_through.median / first_alone.median
    ));
    report.line(&format!(
        "rows a second: Neo4j {:.0}, through hopcache {:.0}: {:.2} times",
        rate_alone.median,
        rate_through.median,
        rate_through.median / rate_alone.median
    ));
    report.line(&format!(
        "memory: {idle_mib:.1} MiB before, {most_mib:.1} MiB at most: {:.1} MiB more",
        most_mib - idle_mib
    ));
}

/// The resident memory of a process, looked at all the time.
struct Watched {
    idle_kib: u64,
    most_kib: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Watched {
    fn start(pid: u32) -> anyhow::Result<Self> {
        let idle_kib = rss_kib(pid)?;
        let (most_kib, is_over) = (Arc::new(AtomicU64::new(idle_kib)), Arc::new(AtomicBool::new(false)));
        let (most, over) = (Arc::clone(&most_kib), Arc::clone(&is_over));
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(rss_kib(pid).unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Ok(Self { idle_kib, most_kib, is_over })
    }

    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    fn mib(&self) -> (f64, f64) {
        (self.idle_kib as f64 / 1024.0, self.most_kib.load(Ordering::Relaxed) as f64 / 1024.0)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn rss_kib(pid: u32) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
