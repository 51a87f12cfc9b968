//! A bulk upsert beside readers of another label: how many of their reads are hits before it, while it runs, and behind it. An upsert
//! whose label and keys are known ends nothing that was read of another label. It runs twice: the first one finds nodes that have not asked
//! Neo4j yet whether a node has both labels.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::stage::{NODES, Stage};
use hopcache_testbed::http::{Connection, post};
use hopcache_testbed::neo4j::basic;
use hopcache_testbed::report::Report;

/// Options of the bulk upsert.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Rows that are upserted. Half of them are there before.
    #[arg(long, default_value_t = 10_000)]
    rows: usize,
    /// Rows of one statement.
    #[arg(long, default_value_t = 1_000)]
    batch: usize,
    /// Readers, each with a connection and a key of its own.
    #[arg(long, default_value_t = 1_000)]
    readers: usize,
    /// Milliseconds between two reads of one reader.
    #[arg(long, default_value_t = 3_000)]
    every_ms: u64,
    /// Seconds before the first upsert, and behind each.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Share of reads in percent that have to be hits, in each phase.
    #[arg(long, default_value_t = 99.0)]
    least: f64,
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Bulk loaders write so: the key finds the node, and the row's map has all else.
const UPSERT: &str = "UNWIND $rows AS row MERGE (i:BulkItem {id: row.id}) SET i += row";
/// Whole nodes, as object mappers read them.
const READ: &str = "MATCH (u:BulkUser {id: $id}) RETURN u";
const PHASES: [&str; 5] = ["before", "during the first", "after it", "during the second", "after it"];
type Counts = [Count; PHASES.len()];
/// Behind the readers' first reads, before the first phase.
const CALM: Duration = Duration::from_secs(3);

/// The answers of one phase.
#[derive(Default)]
struct Count {
    hits: usize,
    others: BTreeMap<String, usize>,
}

impl Count {
    fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        other.others.iter().for_each(|(how, count)| *self.others.entry(how.clone()).or_default() += count);
    }

    fn reads(&self) -> usize {
        self.hits + self.others.values().sum::<usize>()
    }

    fn percent(&self) -> f64 {
        100.0 * self.hits as f64 / self.reads().max(1) as f64
    }
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.batch > 0 && options.readers > 0 && options.rows > 0, "nothing to do");
    let stage = Stage::start(false, "", "").await?;
    for text in [
        "CREATE CONSTRAINT bulk_item IF NOT EXISTS FOR (i:BulkItem) REQUIRE i.id IS UNIQUE",
        "CREATE CONSTRAINT bulk_user IF NOT EXISTS FOR (u:BulkUser) REQUIRE u.id IS UNIQUE",
    ] {
        stage.write_again(0, text, &json!({})).await?;
    }
    let users = "UNWIND range(1, $readers) AS id MERGE (u:BulkUser {id: id}) SET u.name = 'user ' + id";
    stage.write_again(0, users, &json!({ "readers": options.readers })).await?;
    // Half of the rows exist before, so the upsert creates and changes.
    let half = rows(options.rows / 2, "old");
    for batch in half.chunks(options.batch) {
        stage.write_again(0, UPSERT, &json!({ "rows": batch })).await?;
    }
    let phase = Arc::new(AtomicUsize::new(PHASES.len()));
    let stop = CancellationToken::new();
    let clients = stage.nodes.clients();
    let every = Duration::from_millis(options.every_ms);
    let readers: Vec<_> = (1..=options.readers)
        .map(|id| {
            let (client, phase, stop) = (clients[id % NODES], Arc::clone(&phase), stop.clone());
            // Spread over the pause, so that they do not ask all at once.
            let first = every.mul_f64(id as f64 / options.readers as f64);
            tokio::spawn(read(client, id, (first, every), phase, stop))
        })
        .collect();
    // The first reads are runs, and some of them may be shed.
    tokio::time::sleep(every * 3 + CALM).await;
    let length = Duration::from_secs(options.seconds);
    phase.store(0, Relaxed);
    tokio::time::sleep(length).await;
    let mut took = [Duration::ZERO; 2];
    for (round, took) in took.iter_mut().enumerate() {
        phase.store(1 + 2 * round, Relaxed);
        let began = Instant::now();
        for (place, batch) in rows(options.rows, &format!("round {round}")).chunks(options.batch).enumerate()
        {
            stage.write(place % NODES, UPSERT, &json!({ "rows": batch })).await?;
        }
        *took = began.elapsed();
        phase.store(2 + 2 * round, Relaxed);
        tokio::time::sleep(length).await;
    }
    stop.cancel();
    let mut counts = Counts::default();
    for reader in readers {
        for (count, seen) in counts.iter_mut().zip(&reader.await??) {
            count.add(seen);
        }
    }
    judge(options, took, &counts)
}

fn rows(count: usize, name: &str) -> Vec<serde_json::Value> {
    (0..count).map(|id| json!({ "id": id, "name": format!("{name} {id}"), "price": id % 100 })).collect()
}

/// Reads one key again and again; what was a hit, and how all else was answered, by phase. A key's first answer is none of them: nothing
/// is cached before it.
async fn read(
    client: SocketAddr,
    id: usize,
    (first, every): (Duration, Duration),
    phase: Arc<AtomicUsize>,
    stop: CancellationToken,
) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    let request = post(READ, &json!({ "id": id }), &basic("neo4j", "any"));
    let mut connection = Connection::open(client).await?;
    let (mut pause, mut has_read) = (first, false);
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(counts),
            () = tokio::time::sleep(pause) => {}
        }
        pause = every;
        let now = phase.load(Relaxed);
        let answer = connection.ask(&request).await?;
        let is_answered = answer.status() == 202;
        let Some(count) = counts.get_mut(now).filter(|_| has_read) else {
            has_read |= is_answered;
            continue;
        };
        has_read |= is_answered;
        let status = answer.header("cache-status").unwrap_or("no Cache-Status");
        // The first member is of the node that had the result, or ran the statement.
        let words: Vec<&str> = status.split(',').next().unwrap_or(status).split(';').map(str::trim).collect();
        if is_answered && words.contains(&"hit") {
            count.hits += 1;
        } else {
            let how =
                words.into_iter().filter(|word| word.starts_with("fwd=") || word.starts_with("detail="));
            let how = [answer.status().to_string()].into_iter().chain(how.map(str::to_owned));
            *count.others.entry(how.collect::<Vec<_>>().join(" ")).or_default() += 1;
        }
    }
}

fn judge(options: &Options, took: [Duration; 2], counts: &Counts) -> anyhow::Result<()> {
    let mut report = Report::open("A bulk upsert beside readers of another label");
    report.line(&format!(
        "{} rows, {} to a statement, twice: {:.1} and {:.1} s; {} readers of whole nodes, each every {} ms",
        options.rows,
        options.batch,
        took[0].as_secs_f64(),
        took[1].as_secs_f64(),
        options.readers,
        options.every_ms
    ));
    report.line("\n| phase | reads | hits | % | others |\n|---|---|---|---|---|");
    for (name, count) in PHASES.iter().zip(counts) {
        let (reads, hits) = (count.reads(), count.hits);
        report.line(&format!("| {name} | {reads} | {hits} | {:.2} | {:?} |", count.percent(), count.others));
    }
    if let Some(out) = &options.out {
        report.write(&out.join("report.md"))?;
    }
    let few =
        PHASES.iter().zip(counts).find(|(_, count)| count.reads() == 0 || count.percent() < options.least);
    if let Some((name, count)) = few {
        bail!("{name}: {:.2} % of {} reads are hits", count.percent(), count.reads());
    }
    Ok(())
}
