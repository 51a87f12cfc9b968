//! Causes faults and records evidence of each. The seed decides the schedule: all faults in a drawn order, again and
//! again. One in four comes together with a fault of another part of the system.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use tokio_util::sync::CancellationToken;

use hopcache_testbed::cluster::TestCluster;
use hopcache_testbed::cluster::fault::{Fault, Part};
use hopcache_testbed::cluster::history::{FaultRecord, History};
use hopcache_testbed::cluster::origin::OriginMode;
use hopcache_testbed::cluster::packet_filter::Dropped;
use hopcache_testbed::dice::Dice;
use hopcache_testbed::report::progress;

/// How long a node may take to leave or to be ready again.
const SOON: Duration = Duration::from_secs(30);
/// Longest extension of a cut of the origin, if the cut has met no run yet.
const MET_WITHIN: Duration = Duration::from_secs(5);
/// Longer than the lease of the cluster's short runs, which is the shortest lease (`LEASE_MS_MIN`).
const LONGER_THAN_A_LEASE: Duration = Duration::from_millis(2_500);

/// How long things last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// A fault, at least and at most.
    pub(super) least: Duration,
    pub(super) most: Duration,
    /// From the end of one to the next.
    pub(super) pause: Duration,
    /// `None`: faults end with the time. Otherwise they go on until each has happened, up to this bound.
    pub(super) at_most: Option<Duration>,
}

/// A fault that is about to happen.
#[derive(Debug, Clone)]
struct Due {
    fault: Fault,
    /// Two different nodes; most faults are about the first.
    nodes: [usize; 2],
    length: Duration,
}

/// Causes faults until the history time `stop`. Then heals the faults under way.
pub(super) async fn run(
    cluster: Arc<TestCluster>,
    pace: Pace,
    seed: u64,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let pace_end = pace.at_most.map(|span| Instant::now() + span);
    // Of a short run, the time says only how long it takes at least.
    let is_over = || {
        let is_late = pace_end.is_none_or(|end| Instant::now() >= end);
        stop.is_cancelled()
            && (is_late || missing(&cluster.recorder.so_far(), cluster.rules.is_some()).is_empty())
    };
    let mut dice = Dice::new(seed);
    // A lone kill first, before anything else is felt: I7 is judged by those.
    let mut bag = vec![Fault::Kill];
    let mut is_first = true;
    while !is_over() {
        if bag.is_empty() {
            bag = full_bag(&cluster, &mut dice);
        }
        let Some(fault) = bag.pop() else { break };
        let first = draw(fault, &cluster, pace, &mut dice);
        let second = (!std::mem::take(&mut is_first) && dice.below(4) == 0)
            .then(|| bag.iter().rposition(|other| other.part() != fault.part()))
            .flatten()
            .map(|place| draw(bag.remove(place), &cluster, pace, &mut dice));
        tokio::select! {
            () = stop.cancelled(), if pace_end.is_none() => break,
            () = tokio::time::sleep(pace.pause) => {}
        }
        cluster.check_runs().context("I13")?;
        let both = async {
            match second {
                Some(second) => tokio::try_join!(happen(&cluster, first), happen(&cluster, second)).map(drop),
                None => happen(&cluster, first).await,
            }
        };
        both.await?;
    }
    cluster.check_runs().context("I13")
}

/// Faults that did not happen, of those that can.
pub(super) fn missing(history: &History, has_filter: bool) -> Vec<Fault> {
    let can = Fault::ALL.into_iter().filter(|fault| has_filter || !fault.is_cut());
    can.filter(|fault| history.faults.iter().all(|seen| seen.fault != *fault)).collect()
}

fn full_bag(cluster: &TestCluster, dice: &mut Dice) -> Vec<Fault> {
    let mut bag: Vec<Fault> =
        Fault::ALL.into_iter().filter(|fault| cluster.rules.is_some() || !fault.is_cut()).collect();
    dice.shuffle(&mut bag);
    bag
}

fn draw(fault: Fault, cluster: &TestCluster, pace: Pace, dice: &mut Dice) -> Due {
    let nodes = cluster.plan.nodes;
    let first = dice.below(nodes);
    let second = (first + 1 + dice.below(nodes - 1)) % nodes;
    let length = pace.least + (pace.most - pace.least).mul_f64(dice.unit());
    Due { fault, nodes: [first, second], length }
}

async fn happen(cluster: &TestCluster, due: Due) -> anyhow::Result<()> {
    let Due { fault, nodes, length } = due.clone();
    let began_us = cluster.recorder.now_us();
    let struck_us = cluster.recorder.now_us();
    let evidence = match fault.part() {
        Part::Store => of_store(cluster, fault, length).await,
        Part::Origin => of_origin(cluster, fault, length).await,
        Part::Node if fault.is_cut() => cut(cluster, &due).await,
        Part::Node => of_node(cluster, &due).await,
    };
    let evidence = evidence.with_context(|| format!("{fault:?} of {nodes:?}"))?;
    let concerned = match (fault.part(), fault) {
        (Part::Store | Part::Origin, _) => Vec::new(),
        (Part::Node, Fault::CutPeers | Fault::CutOneWay) => nodes.to_vec(),
        (Part::Node, _) => vec![nodes[0]],
    };
    let ended_us = cluster.recorder.now_us();
    progress(&format!("{:6.1} s  {fault:?} {concerned:?}: {evidence}", as_s(began_us)));
    cluster.recorder.fault(FaultRecord { fault, nodes: concerned, began_us, struck_us, ended_us, evidence });
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn as_s(us: u64) -> f64 {
    us as f64 / 1e6
}

async fn of_node(cluster: &TestCluster, due: &Due) -> anyhow::Result<String> {
    let node = &cluster.nodes[due.nodes[0]];
    let evidence = match due.fault {
        Fault::Kill => {
            let ended = node.kill()?;
            tokio::time::sleep(due.length).await;
            ended.to_string()
        }
        Fault::Drain => node.drain(SOON).await?.to_string(),
        fault => {
            let length = if fault == Fault::PauseLong {
                due.length.max(LONGER_THAN_A_LEASE)
            } else {
                Duration::from_millis(700)
            };
            let state = node.signal("STOP")?;
            tokio::time::sleep(length).await;
            node.signal("CONT")?;
            return Ok(format!("{state} for {length:.1?}"));
        }
    };
    node.start()?;
    let since = Instant::now();
    // Others may be in trouble at the same time, so it need not see all.
    while node.view().await.is_none() {
        ensure!(since.elapsed() < SOON, "{} is not ready after {SOON:?}", node.name);
        tokio::time::sleep(hopcache_testbed::node::LOOK_EVERY).await;
    }
    Ok(format!("{evidence}; ready again {:.1?} after its start", since.elapsed()))
}

async fn cut(cluster: &TestCluster, due: &Due) -> anyhow::Result<String> {
    let rules = cluster.rules.as_ref().context("a packet filter")?;
    let [a, b] = due.nodes.map(|node| cluster.nodes[node].party);
    let cuts = match due.fault {
        Fault::CutPeers => vec![rules.cut_peers(a, b)?, rules.cut_peers(b, a)?],
        Fault::CutOneWay => vec![rules.cut_peers(a, b)?],
        Fault::CutStore => vec![rules.cut_server(a, cluster.store_addr)?],
        _ => vec![rules.cut_server(a, cluster.origin.addr())?],
    };
    tokio::time::sleep(due.length).await;
    let mut dropped = Dropped::default();
    for cut in cuts {
        let more = cut.heal()?;
        dropped.packets += more.packets;
        dropped.datagrams += more.datagrams;
    }
    ensure!(dropped.packets > 0, "no packet met the cut");
    Ok(format!(
        "{} packets dropped, {} of them gossip's, in {:.1?}",
        dropped.packets, dropped.datagrams, due.length
    ))
}

async fn of_store(cluster: &TestCluster, fault: Fault, length: Duration) -> anyhow::Result<String> {
    match fault {
        Fault::StoreStall => {
            let state = cluster.store().stall()?;
            tokio::time::sleep(length).await;
            cluster.store().resume()?;
            Ok(format!("{state} for {length:.1?}"))
        }
        Fault::StoreKill => {
            let killed = cluster.store().kill()?;
            tokio::time::sleep(length).await;
            let again = cluster.store().start_empty()?;
            Ok(format!("{killed}; {again}"))
        }
        _ => {
            cluster.store().lag();
            tokio::time::sleep(length).await;
            let evidence = cluster.store().fail_over()?;
            cluster.store().start_replica()?;
            Ok(evidence)
        }
    }
}

async fn of_origin(cluster: &TestCluster, fault: Fault, length: Duration) -> anyhow::Result<String> {
    let before = cluster.origin.troubled();
    match fault {
        Fault::OriginCut => {
            // Cuts several times, so that a cut meets a run. Goes on longer if no run was under way.
            let until = Instant::now() + length;
            let is_met = || cluster.origin.troubled() > before;
            while Instant::now() < until || (!is_met() && Instant::now() < until + MET_WITHIN) {
                cluster.origin.cut();
                tokio::time::sleep(length / 8).await;
            }
        }
        fault => {
            cluster.origin.set_behavior(if fault == Fault::OriginStall {
                OriginMode::Stall
            } else {
                OriginMode::Fail
            });
            tokio::time::sleep(length).await;
            cluster.origin.set_behavior(OriginMode::Pass);
        }
    }
    let met = cluster.origin.troubled() - before;
    ensure!(met > 0, "no run met it");
    Ok(format!("met by {met} runs in {length:.1?}"))
}
