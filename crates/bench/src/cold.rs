//! Thousands of clients of all nodes ask one cold key at the same moment. Measures how often Neo4j runs the query (a
//! proxy before Neo4j counts) and how long the slowest client waits.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::cold_clients::ProcessResult;
use hopcache_testbed::bolt_proxy::BoltProxy;
use hopcache_testbed::neo4j;
use hopcache_testbed::node::{Nodes, PREFETCH_OFF};
use hopcache_testbed::report::Report;

/// Options of the cold-key benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Clients, all at the same moment.
    #[arg(long, default_value_t = 19_500)]
    clients: usize,
    /// Nodes that they are spread over.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Processes that the clients live in; each opens its share of sockets.
    #[arg(long, default_value_t = 3)]
    processes: usize,
    /// By how much the proxy delays the run, in ms.
    #[arg(long, default_value_t = 1_000)]
    run_ms: u64,
    /// Number of rounds. Each has its own key.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The result of one round.
struct Round {
    runs: usize,
    explains: usize,
    origin: Duration,
    seen: ProcessResult,
    wall: Duration,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    neo4j::password()?;
    let proxy = BoltProxy::start(&neo4j::bolt()?).await?;
    let sections = format!(
        "[origin]\nuri = \"bolt://{}\"\n[entry]\nttl = \"1h\"\nonly_if_it_pays = false\n{PREFETCH_OFF}",
        proxy.addr()
    );
    let nodes = Nodes::start(options.nodes, &sections).await?;
    let addrs = nodes.clients();
    let mut report = Report::open("Cold key benchmark");
    report.line(&format!(
        "{} clients in {} processes ask one cold key of {} nodes at the same moment; the proxy before Neo4j delays the run by {} ms; default configuration; the Neo4j server, Redis, nodes, and clients share the machine",
        options.clients, options.processes, options.nodes, options.run_ms
    ));
    report.line("\n| round | runs | EXPLAINs | answers | different | origin ms | fastest ms | P50 ms | P99 ms | slowest ms | slowest − origin ms | go to last ms |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for place in 0..options.rounds {
        let round = ask_one_key(options, &proxy, &addrs, place).await?;
        write_report(&mut report, place, &round);
    }
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

async fn ask_one_key(
    options: &Options,
    proxy: &BoltProxy,
    addrs: &[SocketAddr],
    place: usize,
) -> anyhow::Result<Round> {
    let what = format!("cold key {place}.");
    let statement = format!("UNWIND range(1, 205) AS x RETURN x, '{what}' AS what");
    proxy.delay_runs(&what, Duration::from_millis(options.run_ms));
    let mut processes = Vec::new();
    for process in 0..options.processes {
        let extra = usize::from(process < options.clients % options.processes);
        let clients = options.clients / options.processes + extra;
        processes.push(Clients::start(clients, addrs, &statement)?);
    }
    for process in &mut processes {
        if process.line().await? != "ready" {
            bail!("a process of clients did not get ready");
        }
    }
    let go = Instant::now();
    for process in &mut processes {
        process.go().await?;
    }
    let mut seen = ProcessResult::default();
    for process in &mut processes {
        let share: ProcessResult = serde_json::from_str(&process.line().await?)?;
        seen.took_us.extend(share.took_us);
        for (answer, count) in share.answers {
            *seen.answers.entry(answer).or_default() += count;
        }
    }
    let wall = go.elapsed();
    seen.took_us.sort_unstable();
    let runs = proxy.seen(&what);
    let first = runs.first().context("nothing ran at Neo4j")?;
    let origin = first.answered.unwrap_or(first.arrived) - first.arrived;
    Ok(Round { runs: runs.len(), explains: proxy.explains(&what), origin, seen, wall })
}

fn write_report(report: &mut Report, place: usize, round: &Round) {
    let took = &round.seen.took_us;
    let at = |share: usize| {
        took.get((took.len() * share / 100).min(took.len().saturating_sub(1))).copied().unwrap_or(0) / 1_000
    };
    let origin_ms = round.origin.as_millis();
    let late_ms = u128::from(at(100)).saturating_sub(origin_ms);
    report.line(&format!(
        "| {place} | {} | {} | {} | {} | {origin_ms} | {} | {} | {} | {} | {late_ms} | {} |",
        round.runs,
        round.explains,
        took.len(),
        round.seen.answers.len(),
        at(0),
        at(50),
        at(99),
        at(100),
        round.wall.as_millis(),
    ));
    if round.seen.answers.len() > 1 {
        tell_answers(report, &round.seen.answers);
    }
}

fn tell_answers(report: &mut Report, answers: &BTreeMap<String, usize>) {
    for (answer, count) in answers.iter().take(8) {
        let short: String = answer.chars().take(160).collect();
        report.line(&format!("{count} × {short}"));
    }
}

/// A process of clients.
struct Clients {
    child: Child,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl Clients {
    fn start(clients: usize, addrs: &[SocketAddr], statement: &str) -> anyhow::Result<Self> {
        let nodes: Vec<String> = addrs.iter().map(ToString::to_string).collect();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["cold-clients", "--clients", &clients.to_string(), "--nodes", &nodes.join(",")])
            .args(["--statement", statement])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        Ok(Self { child, stdout })
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        self.stdout.next_line().await?.context("a process of clients ended early")
    }

    async fn go(&mut self) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("a pipe")?;
        Ok(stdin.write_all(b"go\n").await?)
    }
}
