//! Resident memory of a node with many entries: how the byte budget relates to the machine's memory (promise I9). A
//! scripted Bolt server makes the results, so a million of them take only minutes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::cache_status::CacheStatus;
use crate::load::{Until, closed};
use crate::scripted::{Reply, ScriptedNeo4j};
use hopcache_testbed::http::{Pool, query_request};
use hopcache_testbed::metrics::number_behind;
use hopcache_testbed::node::{Node, Nodes, PREFETCH_OFF};
use hopcache_testbed::process::hopcache_binary;
use hopcache_testbed::report::Report;

/// Options of the memory benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Different queries asked, one after the other.
    #[arg(long, default_value_t = 100_000)]
    entries: usize,
    /// Bytes of each result.
    #[arg(long, default_value_t = 1_024)]
    bytes: usize,
    /// `node.memory` in MiB.
    #[arg(long, default_value_t = 256)]
    budget_mib: u64,
    /// Connections that ask.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// The node's binary, where it is not beside this one.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// How often each query is asked. A copy that is asked for again has its rendering, and its request is remembered.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    asked: u32,
    /// Tags that each entry depends on: a label, and property keys.
    #[arg(long, default_value_t = 3)]
    tags: usize,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The node's own figures, and the kernel's figures about it.
struct Sample {
    rss_kib: u64,
    anonymous_kib: u64,
    peak_kib: u64,
    entries: u64,
    bytes: u64,
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let neo4j = ScriptedNeo4j::start(Reply::Text(options.bytes)).await?;
    let sections = format!(
        "[origin]\nuri = \"bolt://{}\"\n[entry]\nttl = \"1h\"\nonly_if_it_pays = false\n{PREFETCH_OFF}",
        neo4j.addr
    );
    let binary = options.binary.clone().map_or_else(hopcache_binary, Ok)?;
    let budget = format!("memory = \"{}MiB\"\n", options.budget_mib);
    let nodes = Nodes::start_of(&binary, 1, &budget, &sections).await?;
    let look = async || sample(&nodes.nodes[0]).await;
    let mut report = Report::open("Memory benchmark");
    write_head(&mut report, options);
    let idle = look().await?;
    write_report(&mut report, 0, &idle, &idle);
    let (started, mut rounds) = (Instant::now(), Vec::new());
    let steps = 10;
    for step in 0..steps {
        let (from, to) = (options.entries * step / steps, options.entries * (step + 1) / steps);
        ask_all(&nodes, options, from..to).await?;
        write_report(&mut report, to, &look().await?, &idle);
    }
    let took = started.elapsed();
    // All of them again, so that they are warm at one time, and not each step for itself.
    for round in 1..options.asked {
        let began = Instant::now();
        ask_all(&nodes, options, 0..options.entries).await?;
        write_report(&mut report, options.entries * (round as usize + 1), &look().await?, &idle);
        rounds.push(format!("{:.1}", began.elapsed().as_secs_f64()));
    }
    // Renderings that nobody asks for again go with the second sweep (`MEMORY_SWEEP_MS`); the allocator follows.
    tokio::time::sleep(Duration::from_secs(25)).await;
    let last = look().await?;
    write_report(&mut report, options.entries * options.asked as usize, &last, &idle);
    if !rounds.is_empty() {
        report.line(&format!(
            "\nSeconds that each further round took: {}. Renderings of a copy are dropped 10 to 20 s after its last hit.",
            rounds.join(", ")
        ));
    }
    let bound_mib = options.budget_mib * 12 / 10;
    report.line(&format!(
        "\n{:.0} queries/s; runs at the origin: {}; idle RSS {} MiB; RSS beyond it: {} MiB at the end, {} MiB at the peak; budget + 20 %: {bound_mib} MiB: {}",
        ratio(u64::try_from(options.entries)?, 1) / took.as_secs_f64(),
        neo4j.runs(),
        idle.rss_kib >> 10,
        last.rss_kib.saturating_sub(idle.rss_kib) >> 10,
        last.peak_kib.saturating_sub(idle.rss_kib) >> 10,
        if last.peak_kib.saturating_sub(idle.rss_kib) >> 10 <= bound_mib { "kept" } else { "NOT KEPT" },
    ));
    if let Some(path) = &options.out {
        report.write(path)?;
    }
    Ok(())
}

/// What is measured, and the columns.
fn write_head(report: &mut Report, options: &Options) {
    report.line(&format!(
        "{} different queries of {} bytes each, {} tags, each asked {} times; node.memory {} MiB; {} connections; origin: a scripted Bolt server\n",
        options.entries, options.bytes, options.tags, options.asked, options.budget_mib, options.connections
    ));
    report.line("| asked | copies | weighed MiB | RSS MiB | peak RSS MiB | RSS per copy, bytes beyond the idle node | of that the heap's |");
    report.line("|---|---|---|---|---|---|---|");
}

/// The heap's part has no pages of the program's file, which a node reads as it first does things.
fn write_report(report: &mut Report, asked: usize, now: &Sample, idle: &Sample) {
    let for_copy = |kib: u64, idle_kib: u64| ratio(kib.saturating_sub(idle_kib) << 10, now.entries.max(1));
    report.line(&format!(
        "| {asked} | {} | {:.1} | {:.1} | {:.1} | {:.0} | {:.0} |",
        now.entries,
        ratio(now.bytes, 1 << 20),
        ratio(now.rss_kib, 1 << 10),
        ratio(now.peak_kib, 1 << 10),
        for_copy(now.rss_kib, idle.rss_kib),
        for_copy(now.anonymous_kib, idle.anonymous_kib)
    ));
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(of: u64, to: u64) -> f64 {
    of as f64 / to as f64
}

/// Asks every key of a range once, over some connections.
async fn ask_all(nodes: &Nodes, options: &Options, keys: std::ops::Range<usize>) -> anyhow::Result<()> {
    let (pool, statement): (_, Arc<str>) =
        (Arc::new(Pool::new(nodes.client(0))), statement(options.tags).into());
    let ask = move |number| {
        let (pool, statement) = (Arc::clone(&pool), Arc::clone(&statement));
        async move { CacheStatus::of(pool.ask(&query_request(&statement, keys.start + number, "")).await) }
    };
    let seen = closed(ask, options.connections, Until::Asked(keys.end - keys.start)).await?;
    ensure!(seen.errors() == 0, "{} requests failed", seen.errors());
    Ok(())
}

/// A read that depends on so many tags: a label, and a property key for each further one.
fn statement(tags: usize) -> String {
    if tags == 0 {
        return "RETURN $n AS text".to_owned();
    }
    let keys: Vec<String> = (1..tags).map(|key| format!("key{key}: $n")).collect();
    format!("MATCH (n:Thing {{{}}}) RETURN $n AS text", keys.join(", "))
}

async fn sample(node: &Node) -> anyhow::Result<Sample> {
    let metrics = node.metrics().await?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let kib = |name: &str| number_behind(&status, name);
    Ok(Sample {
        rss_kib: kib("VmRSS:")?,
        anonymous_kib: kib("RssAnon:")?,
        peak_kib: kib("VmHWM:")?,
        entries: number_behind(&metrics, "hopcache_entries ")?,
        bytes: number_behind(&metrics, "hopcache_entry_bytes ")?,
    })
}

#[cfg(test)]
mod tests {
    use super::statement;

    #[test]
    fn a_statement_has_a_label_and_keys() {
        assert_eq!(statement(0), "RETURN $n AS text");
        assert_eq!(statement(1), "MATCH (n:Thing {}) RETURN $n AS text");
        assert_eq!(statement(3), "MATCH (n:Thing {key1: $n, key2: $n}) RETURN $n AS text");
    }
}
