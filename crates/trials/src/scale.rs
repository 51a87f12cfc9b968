//! From three nodes to five and back under load: measures moved keys, extra runs at the origin, effects on clients, and
//! the time until all rings are equal.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::balancer::Balancer;
use crate::seconds;
use hopcache_testbed::cluster::load::{self, Mix, READ};
use hopcache_testbed::cluster::origin::USERS;
use hopcache_testbed::cluster::{Plan, TestCluster};
use hopcache_testbed::report::Report;

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
/// Number of sampled keys. The moved share has a standard error of about 1.5 %.
const SAMPLED: i64 = 1_000;
const FEW: usize = 3;
const MANY: usize = 5;

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let ttl = Duration::from_secs(options.ttl);
    // No configuration names the later nodes: gossip introduces them to each other.
    let plan = Plan { nodes: MANY, started: FEW, seeded: FEW, ttl, ..Plan::default() };
    let cluster = Arc::new(TestCluster::start(plan).await?);
    let balancer = Balancer::start(&cluster)?;
    let mix = Mix {
        rate: options.rate,
        keys: options.keys,
        zipf: 1.0,
        writes: 10,
        targets: vec![balancer.addr],
        seed: 1,
        sessions: 0,
        headers: "",
    };
    let stop = CancellationToken::new();
    let load = tokio::spawn(load::run(Arc::clone(&cluster), mix, stop.clone()));
    tokio::time::sleep(2 * ttl).await;
    let span = Duration::from_secs(options.span);
    let mut phases = Vec::new();
    let mut moved = Vec::new();
    let mut owners = owners(&cluster).await?;
    for (name, change) in
        [("3 nodes, steady", None), ("3 → 5", Some(MANY)), ("5 nodes, steady", None), ("5 → 3", Some(FEW))]
    {
        let (from_us, end) = (cluster.recorder.now_us(), tokio::time::Instant::now() + span);
        if let Some(nodes) = change {
            let steps = to(&cluster, nodes).await?;
            let now = self::owners(&cluster).await?;
            let share = share_moved(&owners, &now);
            moved.push(format!(
                "{name}: {:.1} % of {SAMPLED} keys moved, ideally 40 %; {}",
                share * 100.0,
                steps.join("; ")
            ));
            owners = now;
        }
        tokio::time::sleep_until(end).await;
        phases.push((name, from_us, cluster.recorder.now_us()));
    }
    stop.cancel();
    load.await?;
    cluster.check_runs()?;
    judge(options, &cluster, &phases, &moved)
}

/// Nodes join or leave one after the other. Returns the time of each step.
async fn to(cluster: &TestCluster, nodes: usize) -> anyhow::Result<Vec<String>> {
    let mut steps = Vec::new();
    if nodes == MANY {
        for place in FEW..MANY {
            cluster.nodes[place].start()?;
            let took = cluster.all_agree(&(0..=place).collect::<Vec<_>>(), SOON).await?;
            steps.push(format!(
                "{} in every ring, one epoch, {took:.2?} after its start",
                cluster.nodes[place].name
            ));
        }
        return Ok(steps);
    }
    for place in (FEW..MANY).rev() {
        let others: Vec<usize> = (0..place).collect();
        let leaving = cluster.nodes[place].drain(SOON);
        let agreeing = cluster.all_agree(&others, SOON);
        let (ended, agreed) = tokio::join!(leaving, agreeing);
        steps.push(format!(
            "{} left ({}), one epoch of the others after {:.2?}",
            cluster.nodes[place].name, ended?, agreed?
        ));
    }
    Ok(steps)
}

/// The owner of each sampled key, by `explain`.
async fn owners(cluster: &TestCluster) -> anyhow::Result<Vec<String>> {
    let mut owners = Vec::new();
    for key in 0..SAMPLED {
        let question =
            json!({"database": "neo4j", "principal": USERS[0], "statement": READ, "parameters": {"k": key}});
        let answer = cluster.nodes[0].admin("POST", "/admin/v1/explain", &question.to_string()).await?;
        let explained: Value = serde_json::from_slice(&answer.body)?;
        owners.push(explained["owner"].as_str().context("explain names an owner")?.to_owned());
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
    cluster: &TestCluster,
    phases: &[(&str, u64, u64)],
    moved: &[String],
) -> anyhow::Result<()> {
    let history = cluster.recorder.so_far();
    let mut report = Report::open("From three nodes to five and back");
    report.line(&format!(
        "{} requests/s, Zipf 1.0 over {} keys of two principals, 1 % writes, TTL {} s, through HAProxy; phases of {} s\n",
        options.rate, options.keys, options.ttl, options.span
    ));
    report.line(seconds::HEAD);
    let spans: Vec<_> = phases.iter().map(|(_, from, to)| seconds::between(&history, *from, *to)).collect();
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
    for (error, count) in seconds::errors(&history, from_us) {
        report.line(&format!("- {count} × {error}"));
    }
    let end_us = phases.last().map_or(0, |phase| phase.2);
    std::fs::create_dir_all(&options.out)?;
    std::fs::write(
        options.out.join("seconds.csv"),
        seconds::csv(&seconds::by_second(&history, from_us, end_us)),
    )?;
    report.write(&options.out.join("report.md"))?;
    let errors: u64 = spans.iter().map(|span| span.errors).sum();
    if errors > 0 {
        bail!("{errors} client errors");
    }
    Ok(())
}
