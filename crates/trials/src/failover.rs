//! Tries a late write after each trouble of the store. A run reads the old version and is held · the store is killed,
//! comes back empty, stalls, or fails over to a replica without the lease · the register changes and its key is purged
//! · another run reads the new version, which is stored · the held run is answered. No later request may get the old
//! version (I3). Beside this runs a load, whose history is judged as in chaos.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use tokio_util::sync::CancellationToken;

use crate::checks::{Bounds, Judgement, judge};
use hopcache_testbed::cluster::fault::Fault;
use hopcache_testbed::cluster::history::{Ending, FaultRecord, RequestRecord, RunRecord};
use hopcache_testbed::cluster::load::{self, Mix, move_on, read_once};
use hopcache_testbed::cluster::origin::USERS;
use hopcache_testbed::cluster::{LOOK_EVERY, Plan, TestCluster};
use hopcache_testbed::report::Report;

/// Options of store troubles.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Of each trouble.
    #[arg(long, default_value_t = 20)]
    rounds: i64,
    /// Requests per second beside it.
    #[arg(long, default_value_t = 50.0)]
    rate: f64,
    #[arg(long, default_value = "docs/benchmarks/2026-11-21-failover")]
    out: PathBuf,
}

/// The trouble of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Killed3s,
    RestartedEmpty,
    Stalled5s,
    FailedOverToLaggingReplica,
}

const TROUBLES: [Trouble; 4] =
    [Trouble::Killed3s, Trouble::RestartedEmpty, Trouble::Stalled5s, Trouble::FailedOverToLaggingReplica];
/// Held runs outlast the longest trouble.
const TIMEOUT: Duration = Duration::from_secs(12);
const SOON: Duration = Duration::from_secs(15);
/// Keys of rounds lie above those of the load.
const KEYS_FROM: i64 = 10_000;
const KEYS: usize = 200;
/// Longest time in which a late commit is refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(3);
/// How long every node is asked after the late answer.
const WATCHED: Duration = Duration::from_millis(500);

/// The result of one round.
struct Round {
    trouble: Trouble,
    /// Answers with the old version behind the late write: 0 where I3 holds.
    late: usize,
    /// Whether the held run was answered in the end. Only then was there a late write to refuse.
    is_late_run: bool,
    /// Commits that nodes counted as fenced since the held run was released, and before anything else of this key.
    refused: u64,
    evidence: String,
}

pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let plan = Plan { ttl: Duration::from_secs(10), timeout: TIMEOUT, ..Plan::default() };
    let cluster = Arc::new(TestCluster::start(plan).await?);
    let stop = CancellationToken::new();
    let targets = cluster.nodes.iter().map(|node| node.client).collect();
    let mix = Mix {
        rate: options.rate,
        keys: KEYS,
        zipf: 1.0,
        writes: 10,
        targets,
        seed: 1,
        sessions: 0,
        headers: "",
    };
    let load = tokio::spawn(load::run(Arc::clone(&cluster), mix, stop.clone()));
    let (mut rounds, mut key) = (Vec::new(), KEYS_FROM);
    for trouble in TROUBLES {
        for _ in 0..options.rounds {
            // No round's key is the one that another's answer names as the next: nodes prefetch that.
            key += 10;
            rounds.push(
                round(&cluster, trouble, key).await.with_context(|| format!("{trouble:?}, key {key}"))?,
            );
        }
    }
    stop.cancel();
    load.await?;
    cluster.check_runs()?;
    report(options, &cluster, &rounds)
}

/// Commits that were not stored, on all nodes.
async fn not_stored(cluster: &TestCluster) -> anyhow::Result<u64> {
    let mut sum = 0;
    for node in &cluster.nodes {
        sum += node.metric("hopcache_commits_total", "outcome=\"fenced\"").await?;
    }
    Ok(sum)
}

async fn round(cluster: &Arc<TestCluster>, trouble: Trouble, key: i64) -> anyhow::Result<Round> {
    if trouble == Trouble::FailedOverToLaggingReplica {
        // Before the lease, so that the replica does not get the lease.
        cluster.store().lag();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    cluster.origin.hold_next(key);
    let asking = {
        let cluster = Arc::clone(cluster);
        tokio::spawn(async move { read_once(&cluster, 0, USERS[0], key).await })
    };
    let held = begun(cluster, key, None).await?;
    let began_us = cluster.recorder.now_us();
    let evidence = happen(cluster, trouble).await?;
    let fault = match trouble {
        Trouble::Killed3s | Trouble::RestartedEmpty => Fault::StoreKill,
        Trouble::Stalled5s => Fault::StoreStall,
        Trouble::FailedOverToLaggingReplica => Fault::FailOver,
    };
    let ended_us = cluster.recorder.now_us();
    let nodes = Vec::new();
    cluster.recorder.fault(FaultRecord {
        fault,
        nodes,
        began_us,
        struck_us: began_us,
        ended_us,
        evidence: evidence.clone(),
    });
    let start = Instant::now();
    while !move_on(cluster, 1, key).await {
        ensure!(start.elapsed() < SOON, "no purge was heard by all");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let (newer, refused) = write_late(cluster, trouble, &held).await?;
    let version =
        newer.row.with_context(|| format!("no newer value: {} {}", newer.status, newer.error))?.version;
    ensure!(version > held.version, "the newer value is version {version}");
    let first = asking.await?;
    let mut late = 0;
    let start = Instant::now();
    while start.elapsed() < WATCHED {
        for node in 0..cluster.nodes.len() {
            let asked = read_once(cluster, node, USERS[0], key).await;
            late += usize::from(asked.row.is_some_and(|row| row.version < version));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let is_late_run = cluster
        .recorder
        .so_far()
        .runs
        .iter()
        .any(|run| run.number == held.number && run.ending == Some(Ending::Answered));
    let evidence = format!(
        "{evidence}; the waiting client got {} {}",
        first.status,
        first.row.map_or(0, |row| row.version)
    );
    Ok(Round { trouble, late, is_late_run, refused, evidence })
}

/// Reads the newer value and answers the held run. Returns the read values and the number of refused commits. On a
/// replica without the old lease, the newer run is under way with its own lease when the late commit comes: a fence
/// that accepts any lease would let the late commit in.
async fn write_late(
    cluster: &Arc<TestCluster>,
    trouble: Trouble,
    held: &RunRecord,
) -> anyhow::Result<(RequestRecord, u64)> {
    let key = held.key;
    let reading = {
        let cluster = Arc::clone(cluster);
        async move { read_once(&cluster, 1, USERS[0], key).await }
    };
    if trouble != Trouble::FailedOverToLaggingReplica {
        let newer = reading.await;
        let before = not_stored(cluster).await?;
        cluster.origin.release(held.number);
        return Ok((newer, refused_since(cluster, before).await?));
    }
    cluster.origin.hold_next(key);
    let reading = tokio::spawn(reading);
    let second = begun(cluster, key, Some(held.number)).await?;
    let before = not_stored(cluster).await?;
    cluster.origin.release(held.number);
    let refused = refused_since(cluster, before).await?;
    cluster.origin.release(second.number);
    Ok((reading.await?, refused))
}

/// Waits until a commit has been refused, for a while.
async fn refused_since(cluster: &TestCluster, before: u64) -> anyhow::Result<u64> {
    let start = Instant::now();
    loop {
        let refused = not_stored(cluster).await?.saturating_sub(before);
        if refused > 0 || start.elapsed() > REFUSED_WITHIN {
            return Ok(refused);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A held run, when it has arrived: the key's first, or the first after another.
async fn begun(cluster: &TestCluster, key: i64, after: Option<u64>) -> anyhow::Result<RunRecord> {
    let start = Instant::now();
    let is_it = |run: &RunRecord| run.key == key && after.is_none_or(|after| run.number > after);
    loop {
        if let Some(run) = cluster.recorder.so_far().runs.into_iter().find(is_it) {
            return Ok(run);
        }
        ensure!(start.elapsed() < SOON, "no run of key {key}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn happen(cluster: &TestCluster, trouble: Trouble) -> anyhow::Result<String> {
    match trouble {
        Trouble::Killed3s | Trouble::RestartedEmpty => {
            let killed = cluster.store().kill()?;
            if trouble == Trouble::Killed3s {
                tokio::time::sleep(Duration::from_secs(3)).await;
            }
            let again = cluster.store().start_empty()?;
            Ok(format!("{killed}; {again}"))
        }
        Trouble::Stalled5s => {
            let state = cluster.store().stall()?;
            tokio::time::sleep(Duration::from_secs(5)).await;
            cluster.store().resume()?;
            Ok(format!("{state} for 5 s"))
        }
        Trouble::FailedOverToLaggingReplica => {
            let evidence = cluster.store().fail_over()?;
            cluster.store().start_replica()?;
            Ok(evidence)
        }
    }
}

fn report(options: &Options, cluster: &TestCluster, rounds: &[Round]) -> anyhow::Result<()> {
    let us = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
    let bounds = Bounds {
        ttl_us: us(cluster.plan.ttl),
        deadline_us: us(TIMEOUT) + 1_000_000,
        run_us: us(TIMEOUT),
        nodes: 3,
        slack_us: 1_000_000,
    };
    let history = cluster.recorder.so_far();
    history.write(&PathBuf::from("target/chaos/failover.jsonl"))?;
    let judgement: Judgement = judge(&history, bounds);
    let mut report = Report::open("A late write about each trouble of the store");
    report.line("| trouble | rounds | I3 holds | of them with a late write to refuse | of them with a commit refused as fenced | evidence of the last |\n|---|---|---|---|---|---|");
    for trouble in TROUBLES {
        let of: Vec<&Round> = rounds.iter().filter(|round| round.trouble == trouble).collect();
        report.line(&format!(
            "| {trouble:?} | {} | {} | {} | {} | {} |",
            of.len(),
            of.iter().filter(|round| round.late == 0).count(),
            of.iter().filter(|round| round.is_late_run).count(),
            of.iter().filter(|round| round.refused > 0).count(),
            of.last().map_or("", |round| &round.evidence)
        ));
    }
    let took = history.requests.iter().map(|asked| asked.ended_us - asked.sent_us).max().unwrap_or(0);
    report.line(&format!(
        "\n{} requests, {} of them not 202, the longest {} ms (deadline {} ms); {} runs; extra runs by trouble: {:?}",
        history.requests.len(),
        history.requests.iter().filter(|asked| asked.status != 202).count(),
        took / 1_000,
        TIMEOUT.as_millis(),
        history.runs.len(),
        judgement.extra_runs
    ));
    report.line(&format!(
        "violations of I1 to I8 and of deadlines in the load: {}",
        judgement.violations.len()
    ));
    judgement.violations.iter().take(10).for_each(|each| report.line(&format!("- {each:?}")));
    report.line(&format!("{} rounds of each; load of {} requests/s", options.rounds, options.rate));
    report.write(&options.out.join("report.md"))?;
    if rounds.iter().any(|round| round.late > 0) || !judgement.violations.is_empty() {
        bail!("a promise was broken");
    }
    check_shown(rounds)
}

/// A round without a late write, or without its refusal, shows nothing of I3.
fn check_shown(rounds: &[Round]) -> anyhow::Result<()> {
    for trouble in TROUBLES {
        let mut of = rounds.iter().filter(|round| round.trouble == trouble).peekable();
        ensure!(of.peek().is_some(), "no round of {trouble:?}");
        for (place, round) in of.enumerate() {
            ensure!(round.is_late_run, "{trouble:?}, round {place}: no late write; {}", round.evidence);
            ensure!(round.refused > 0, "{trouble:?}, round {place}: nothing was refused; {}", round.evidence);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_counts_only_with_a_late_write_and_its_refusal() {
        let sound =
            |trouble| Round { trouble, late: 0, is_late_run: true, refused: 1, evidence: String::new() };
        let rounds = || TROUBLES.map(sound).into_iter().collect::<Vec<_>>();
        assert!(check_shown(&rounds()).is_ok());
        assert!(check_shown(&rounds()[1..]).is_err(), "a trouble that never came");
        let spoils: [fn(&mut Round); 2] = [|round| round.is_late_run = false, |round| round.refused = 0];
        for spoil in spoils {
            let mut rounds = rounds();
            spoil(&mut rounds[2]);
            assert!(check_shown(&rounds).is_err());
        }
    }
}
