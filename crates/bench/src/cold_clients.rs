//! One process' share of the clients of `cold`: connects all of them, waits for the start, asks, and prints the result.
//! There are several processes because the limit of open files bounds the sockets of one.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use anyhow::bail;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};

use hopcache_testbed::http::{Connection, query_request};
use hopcache_testbed::neo4j;

/// Connections being opened at a time by one process; all processes together stay below the kernel's queue of
/// one listener, where an overflow costs a second.
const CONNECTS_AT_A_TIME: usize = 128;

/// The options of one process.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Clients of this process.
    #[arg(long)]
    clients: usize,
    /// Nodes that they are spread over.
    #[arg(long, value_delimiter = ',')]
    nodes: Vec<SocketAddr>,
    /// The clients' request.
    #[arg(long)]
    statement: String,
}

/// The result of one process' clients.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProcessResult {
    /// Time from each client's sending to its last byte, in µs.
    pub(crate) took_us: Vec<u64>,
    /// Answers by status and body.
    pub(crate) answers: BTreeMap<String, usize>,
}

/// Prints `ready` when all clients are connected, asks when a line comes on stdin, and prints [`ProcessResult`] as JSON.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let headers = neo4j::basic("neo4j", &neo4j::password()?);
    let request: Arc<[u8]> = query_request(&options.statement, 0, &headers).into();
    let connects = Arc::new(Semaphore::new(CONNECTS_AT_A_TIME));
    let (go, _) = watch::channel(false);
    let (connected, mut all_connected) = watch::channel(0);
    let connected = Arc::new(connected);
    let mut clients = tokio::task::JoinSet::new();
    for client in 0..options.clients {
        let addr = options.nodes[client % options.nodes.len()];
        let (request, connects, connected) =
            (Arc::clone(&request), Arc::clone(&connects), Arc::clone(&connected));
        let mut started = go.subscribe();
        clients.spawn(async move {
            let permit = connects.acquire_owned().await?;
            let connection = Connection::open(addr).await;
            drop(permit);
            connected.send_modify(|count| *count += 1);
            started.wait_for(|started| *started).await?;
            let started = Instant::now();
            let answer = connection?.ask(&request).await?;
            let took_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
            anyhow::Ok((took_us, format!("{} {}", answer.status(), String::from_utf8_lossy(&answer.body))))
        });
    }
    all_connected.wait_for(|count| *count == options.clients).await?;
    print_line("ready")?;
    let word = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    if word.await?? == 0 {
        bail!("the benchmark is gone");
    }
    go.send_replace(true);
    let mut seen = ProcessResult::default();
    while let Some(ended) = clients.join_next().await {
        let answer = match ended? {
            Ok((took_us, answer)) => {
                seen.took_us.push(took_us);
                answer
            }
            Err(error) => format!("no answer: {error:#}"),
        };
        *seen.answers.entry(answer).or_default() += 1;
    }
    print_line(&serde_json::to_string(&seen)?)
}

fn print_line(line: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(format!("{line}\n").as_bytes())?;
    Ok(stdout.flush()?)
}
