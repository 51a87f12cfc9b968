//! From three nodes to five and back under load: how much moves, what it costs at the origin, what clients
//! notice, and when all rings are equal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::balancer::Balancer;
use super::seconds;
use crate::arena::load::{self, Mix, READ};
use crate::arena::origin::USERS;
use crate::arena::{Arena, Plan};
use crate::report::Report;

/// Options of scaling.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Requests per second.
    #[arg(long, default_value_t = 300.0)]
    rate: f64,
    /// Seconds of each of the four phases.
    #[arg(long, default_value_t = 45)]
    span: u64,
    #[arg(long, default_value_t = 2_000)]
    keys: usize,
    /// Seconds that an entry is fresh.
    #[arg(long, default_value_t = 20)]
    ttl: u64,
    #[arg(long, default_value = "docs/benchmarks/2026-11-21-scale")]
    out: PathBuf,
}

const SOON: Duration = Duration::from_secs(60);
/// Keys whose owners are asked for; their share has a standard error of about 1.5 %.
const SAMPLED: i64 = 1_000;
const FEW: usize = 3;
const MANY: usize = 5;

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let ttl = Duration::from_secs(options.ttl);
    // Nobody names those that come later: gossip introduces them to each other.
    let plan = Plan { nodes: MANY, started: FEW, seeded: FEW, ttl, ..Plan::default() };
    let arena = Arc::new(Arena::start(plan).await?);
    let balancer = Balancer::start(&arena)?;
    let mix = Mix {
        rate: options.rate,
        keys: options.keys,
        zipf: 1.0,
        writes: 10,
        targets: vec![balancer.addr],
        seed: 1,
    };
    let stop = CancellationToken::new();
    let load = tokio::spawn(load::run(Arc::clone(&arena), mix, stop.clone()));
    tokio::time::sleep(2 * ttl).await;
    let span = Duration::from_secs(options.span);
    let mut phases = Vec::new();
    let mut moved = Vec::new();
    let mut owners = owners(&arena).await?;
    for (name, change) in
        [("3 nodes, steady", None), ("3 → 5", Some(MANY)), ("5 nodes, steady", None), ("5 → 3", Some(FEW))]
    {
        let (from_us, end) = (arena.history.now_us(), tokio::time::Instant::now() + span);
        if let Some(nodes) = change {
            let steps = to(&arena, nodes).await?;
            let now = self::owners(&arena).await?;
            let share = share_moved(&owners, &now);
            moved.push(format!(
                "{name}: {:.1} % of {SAMPLED} keys moved, ideally 40 %; {}",
                share * 100.0,
                steps.join("; ")
            ));
            owners = now;
        }
        tokio::time::sleep_until(end).await;
        phases.push((name, from_us, arena.history.now_us()));
    }
    stop.cancel();
    load.await?;
    arena.check_runs()?;
    judge(options, &arena, &phases, &moved)
}

/// Nodes join or leave one after the other; what each step took.
async fn to(arena: &Arena, nodes: usize) -> anyhow::Result<Vec<String>> {
    let mut steps = Vec::new();
    if nodes == MANY {
        for place in FEW..MANY {
            arena.nodes[place].start()?;
            let took = arena.all_agree(&(0..=place).collect::<Vec<_>>(), SOON).await?;
            steps.push(format!(
                "{} in every ring, one epoch, {took:.2?} after its start",
                arena.nodes[place].name
            ));
        }
        return Ok(steps);
    }
    for place in (FEW..MANY).rev() {
        let others: Vec<usize> = (0..place).collect();
        let leaving = arena.nodes[place].drain(SOON);
        let agreeing = arena.all_agree(&others, SOON);
        let (ended, agreed) = tokio::join!(leaving, agreeing);
        steps.push(format!(
            "{} left ({}), one epoch of the others after {:.2?}",
            arena.nodes[place].name, ended?, agreed?
        ));
    }
    Ok(steps)
}

/// Who owns each sampled key, by `explain`.
async fn owners(arena: &Arena) -> anyhow::Result<Vec<String>> {
    let mut owners = Vec::new();
    for key in 0..SAMPLED {
        let question =
            json!({"database": "neo4j", "principal": USERS[0], "statement": READ, "parameters": {"k": key}});
        let told = arena.nodes[0].admin("POST", "/admin/v1/explain", &question.to_string()).await?;
        let told: Value = serde_json::from_slice(&told.body)?;
        owners.push(told["owner"].as_str().context("explain names an owner")?.to_owned());
    }
    Ok(owners)
}

#[expect(clippy::cast_precision_loss, reason = "a thousand keys")]
fn share_moved(before: &[String], after: &[String]) -> f64 {
    before.iter().zip(after).filter(|(before, after)| before != after).count() as f64
        / before.len().max(1) as f64
}

fn judge(
    options: &Options,
    arena: &Arena,
    phases: &[(&str, u64, u64)],
    moved: &[String],
) -> anyhow::Result<()> {
    let told = arena.history.so_far();
    let mut report = Report::open("From three nodes to five and back");
    report.line(&format!(
        "{} requests/s, Zipf 1.0 over {} keys of two principals, 1 % writes, TTL {} s, through HAProxy; phases of {} s\n",
        options.rate, options.keys, options.ttl, options.span
    ));
    report.line(seconds::HEAD);
    let spans: Vec<_> = phases.iter().map(|(_, from, to)| seconds::between(&told, *from, *to)).collect();
    phases.iter().zip(&spans).for_each(|((name, ..), span)| report.line(&span.row(name)));
    report.line("");
    for (change, steady) in [(1, 0), (3, 2)] {
        report.line(&format!(
            "- {}: origin runs {:.3} × those of the phase before",
            phases[change].0,
            spans[change].runs_beside(&spans[steady])
        ));
    }
    moved.iter().for_each(|line| report.line(&format!("- {line}")));
    let from_us = phases.first().map_or(0, |phase| phase.1);
    for (error, count) in seconds::errors(&told, from_us) {
        report.line(&format!("- {count} × {error}"));
    }
    let end_us = phases.last().map_or(0, |phase| phase.2);
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(
        options.out.join("seconds.csv"),
        seconds::csv(&seconds::by_second(&told, from_us, end_us)),
    )?;
    report.write(&options.out.join("report.md"))?;
    let errors: u64 = spans.iter().map(|span| span.errors).sum();
    if errors > 0 {
        bail!("{errors} client errors");
    }
    Ok(())
}
