//! I1, I2 and I6: runs that the origin saw, each against the one before it, the purges and the faults.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_testbed::cluster::history::{Ending, FaultRecord, History, PurgeRecord, RunRecord};

use super::judgement::{AFTER_US, Bounds, JITTER, Judgement, chain, name_of, near, scaled};

/// `DEGRADED_TTL_MS`: how long a node without the store keeps the result of its own run.
const DEGRADED_US: u64 = 2_000_000;
/// The last part of a life in which a prefetch may renew an entry (`PREFETCH_OVERLAP_LEFT_PERCENT`).
const RENEWED_AHEAD: f64 = 0.1;
/// I1 counts a run as judged if another run of its key within this time would have no excuse.
const SOON_US: u64 = 1_000_000;

/// I1 and I2. First the demanded runs alone: a prefetch without a seen answer excuses nothing between two of them. Then
/// all runs together: a run that a node starts of its own accord needs the lease and counts like any other.
pub(super) fn windows(history: &History, bounds: Bounds, judgement: &mut Judgement) {
    let demanded = windows_of(history, bounds, judgement.from_us, |run| run.is_demand);
    let all = windows_of(history, bounds, judgement.from_us, |_| true);
    let only_demanded = demanded.violations.into_iter().filter(|each| !all.violations.contains(each));
    judgement.violations.extend(only_demanded);
    judgement.violations.extend(all.violations);
    judgement.extra_runs = all.extra_runs;
    judgement.judged.extend(demanded.judged);
}

/// I1 and I2 of some of the runs: each run of a key against the one before it.
fn windows_of(
    history: &History,
    bounds: Bounds,
    from_us: u64,
    is_judged: impl Fn(&RunRecord) -> bool,
) -> Judgement {
    let mut judgement = Judgement { from_us, ..Judgement::default() };
    let mut last: BTreeMap<(&str, i64), &RunRecord> = BTreeMap::new();
    let mut extra: BTreeMap<(&str, i64, usize), u64> = BTreeMap::new();
    let mut behind_purges: BTreeMap<(&str, i64), Vec<u64>> = BTreeMap::new();
    let parts = parts(history);
    let answered = history.runs.iter().filter(|run| !run.is_write && run.ending == Some(Ending::Answered));
    let answered = answered.filter(|run| is_judged(run));
    for run in answered {
        if near(history, run.began_us, run.began_us + SOON_US).next().is_none() {
            judgement.counts("I1", run.began_us);
        }
        let Some(before) = last.insert((&run.user, run.key), run) else { continue };
        if run.began_us >= before.began_us + window_us(run, bounds) {
            continue;
        }
        if purged_between(history, before, run) {
            behind_purges.entry((&run.user, run.key)).or_default().push(run.began_us);
            continue;
        }
        // Of several, the one that explains most.
        let near = near(history, before.began_us, run.began_us)
            .filter(|(_, fault)| has_part(fault, &parts, [before.number, run.number]))
            .max_by_key(|(_, fault)| allowance(fault, bounds.nodes));
        match near {
            None => judgement.broken(
                "I1",
                run.began_us,
                format!(
                    "run {} of key {} for {}, {} µs after run {}",
                    run.number,
                    run.key,
                    run.user,
                    run.began_us - before.began_us,
                    before.number
                ),
            ),
            Some((place, fault)) => {
                *judgement.extra_runs.entry(fault.fault).or_default() += 1;
                *extra.entry((&run.user, run.key, place)).or_default() += 1;
            }
        }
    }
    for ((user, key, place), count) in extra {
        let fault = &history.faults[place];
        judgement.counts("I2", fault.began_us);
        // Faults that are close together share their consequences.
        let allowed: u64 = near(history, fault.began_us, fault.ended_us)
            .map(|(_, each)| allowance(each, bounds.nodes))
            .sum();
        let behind = behind_purges.get(&(user, key)).map_or(&[][..], Vec::as_slice);
        let allowed = allowed + fenced(history, (user, key), fault, behind);
        if count > allowed {
            judgement.broken(
                "I2",
                fault.began_us,
                format!(
                    "{count} extra runs of key {key} for {user} about {:?}, allowed {allowed}",
                    fault.fault
                ),
            );
        }
    }
    judgement
}

/// The earliest second run that keeps I1, counted from the run before. A life counts from the time when its node begins
/// to read (I4); the origin sees the run only after a connection is there. A node refreshes an entry of its own accord
/// in the last tenth of its life.
fn window_us(run: &RunRecord, bounds: Bounds) -> u64 {
    let life = if run.is_demand { 1.0 - JITTER } else { (1.0 - JITTER) * (1.0 - RENEWED_AHEAD) };
    scaled(bounds.ttl_us, life).saturating_sub(bounds.slack_us)
}

/// The nodes that gave or passed on each run's result, by the answers that clients saw.
fn parts(history: &History) -> BTreeMap<u64, BTreeSet<String>> {
    let mut parts: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for request in &history.requests {
        if let Some(row) = &request.row {
            let nodes = parts.entry(row.run).or_default();
            nodes.insert(name_of(request.node));
            nodes.extend(chain(request).into_iter().map(str::to_owned));
        }
    }
    parts
}

/// A fault of a node explains a second run if the node had a part in either run, or if nobody saw the result of one of
/// them: its node may be the one that was killed. A fault of the store or the origin affects every node.
fn has_part(fault: &FaultRecord, parts: &BTreeMap<u64, BTreeSet<String>>, runs: [u64; 2]) -> bool {
    fault.nodes.is_empty()
        || runs.iter().any(|run| {
            parts.get(run).is_none_or(|nodes| fault.nodes.iter().any(|node| nodes.contains(&name_of(*node))))
        })
}

/// Runs beyond the one of a window: one lapse, one for the lost data, and one per `DEGRADED_TTL` for each node without
/// the store. A node without peers uses leases in the store. The owner of a node without the store still collapses for
/// all.
fn allowance(fault: &FaultRecord, nodes: u64) -> u64 {
    let lasted_us = fault.ended_us - fault.began_us + AFTER_US;
    1 + u64::from(fault.fault.loses_store())
        + fault.fault.without_store(nodes) * (lasted_us / DEGRADED_US + 1)
}

/// Flights that a purge fenced while they waited for an origin that holds runs. Requests after the purge may not join
/// such a flight (I3), so each purge adds one flight. Once the origin answers, each flight reads: flight 1 has a lease
/// and waits · purge · flight 2 has a lease and waits · the origin answers both. `behind` are runs that the purges
/// explain already, one purge each.
fn fenced(history: &History, (user, key): (&str, i64), about: &FaultRecord, behind: &[u64]) -> u64 {
    let is_held = |at_us: u64| {
        near(history, about.began_us, about.ended_us).any(|(_, fault)| {
            fault.fault.holds_runs() && (fault.began_us..=fault.ended_us + AFTER_US).contains(&at_us)
        })
    };
    let purges = history.purges.iter().filter(|purge| purge.key == key && purge.user == user);
    let count = purges.filter(|purge| is_held(purge.asked_us)).count();
    let spent = behind.iter().filter(|at_us| is_held(**at_us)).count();
    u64::try_from(count.saturating_sub(spent)).unwrap_or(0)
}

fn purged_between(history: &History, before: &RunRecord, run: &RunRecord) -> bool {
    let same = |purge: &&PurgeRecord| purge.key == run.key && purge.user == run.user;
    // A purge may have been under way when the earlier run began, and may have come after that run's commit.
    history
        .purges
        .iter()
        .filter(same)
        .any(|purge| purge.asked_us <= run.began_us && purge.ended_us >= before.began_us)
}

/// I6.
pub(super) fn writes(history: &History, judgement: &mut Judgement) {
    let mut runs: BTreeMap<i64, u64> = BTreeMap::new();
    for run in history.runs.iter().filter(|run| run.is_write) {
        *runs.entry(run.key).or_default() += 1;
    }
    for (key, count) in runs.iter().filter(|(_, count)| **count > 1) {
        judgement.broken("I6", 0, format!("write {key} ran {count} times"));
    }
    for request in history.requests.iter().filter(|request| request.is_write) {
        judgement.counts("I6", request.sent_us);
        if request.status == 202 && runs.get(&request.key) != Some(&1) {
            judgement.broken(
                "I6",
                request.sent_us,
                format!("write {} was answered and ran {:?} times", request.key, runs.get(&request.key)),
            );
        }
    }
}
