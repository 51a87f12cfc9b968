//! Judges a history by the promises I1 to I8. It only reads; what a fault excuses, and for how long, is said
//! here in one place.
//!
//! | promise | a violation is |
//! |---|---|
//! | I1 | two answered runs of a key within one TTL (less jitter and slack), prefetches too; no purge between, no fault near |
//! | I2 | more extra runs of a key about its faults than their lapses, losses, cut-off nodes and fenced flights allow |
//! | I3 | a request sent after a whole purge is answered with an older version, and no fault hid the purge |
//! | I4 | an answer without a mark that was read longer ago than TTL and grace, or whose `Age` is below its age |
//! | I5 | an answer for another principal, another key, or that its run did not read |
//! | I6 | a write that ran twice, or that was answered and did not run once |
//! | I7 | behind a kill that no other fault is near, a living node that answers later than 0.5 s and a run, or not 202 |
//! | I8 | more than two nodes, or one node twice, in `Cache-Status` |
//! | deadline | a request that ended later than its node's patience, pauses apart |
//! | answered | a request without its rows that no fault explains: no answer but by a node that ends, no 202 but about an origin in trouble |
//!
//! What a fault excuses was not judged, and is not counted as that; nor is what came before the first fault, where
//! there is one.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_testbed::cluster::fault::Fault;
use hopcache_testbed::cluster::history::{
    Ending, FaultRecord, History, PurgeRecord, RequestRecord, RunRecord,
};

/// Times, in µs, that a history is judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) ttl_us: u64,
    /// Longest time that a node works on a request.
    pub(crate) deadline_us: u64,
    /// Longest run of the origin where nothing is wrong with it.
    pub(crate) run_us: u64,
    pub(crate) nodes: u64,
    /// What scheduling on a busy machine may add to anything.
    pub(crate) slack_us: u64,
}

/// For so long after its end a fault is still felt: breakers, `DEGRADED_TTL_MS`, a reconnect, a poll of the
/// invalidation log, and a pause under 2 s that nobody noticed (ARCHITECTURE, known limits).
const AFTER_US: u64 = 5_000_000;
/// `DEGRADED_TTL_MS`: how long a node without the store keeps what it ran for itself.
const DEGRADED_US: u64 = 2_000_000;
/// `entry.ttl_jitter` shortens or lengthens a life by so much.
const JITTER: f64 = 0.1;
/// The last part of a life in which a prefetch may renew an entry (`PREFETCH_OVERLAP_LEFT_PERCENT`).
const RENEWED_AHEAD: f64 = 0.1;
/// `entry.grace`.
const GRACE: f64 = 0.5;
/// I7 without the run.
const NEXT_VALUE_US: u64 = 500_000;

/// A run counts as judged by I1 where another of its key within so long would have had no excuse.
const SOON_US: u64 = 1_000_000;

/// One broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) promise: &'static str,
    pub(crate) at_us: u64,
    pub(crate) what: String,
}

/// All that is wrong, and what was counted on the way.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) violations: Vec<Violation>,
    /// Runs within another's TTL that a fault or purge explains: by that fault.
    pub(crate) extra_runs: BTreeMap<Fault, u64>,
    /// Answers older than a purge, hidden by a fault: by that fault.
    pub(crate) late_hearings: BTreeMap<Fault, u64>,
    /// Behind kills that I7 judges: the longest answer of each, µs.
    pub(crate) next_values_us: Vec<u64>,
    /// How many things each promise was judged by, that could have broken it.
    pub(crate) judged: BTreeMap<&'static str, u64>,
    /// When the first fault began: what is counted came later.
    from_us: u64,
}

/// All that is judged, in the order of the report.
pub(crate) const PROMISES: [&str; 10] =
    ["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8", "deadline", "answered"];

impl Judgement {
    fn broken(&mut self, promise: &'static str, at_us: u64, what: String) {
        self.violations.push(Violation { promise, at_us, what });
    }

    fn counts(&mut self, promise: &'static str, at_us: u64) {
        if at_us >= self.from_us {
            *self.judged.entry(promise).or_default() += 1;
        }
    }

    /// Promises that this history could not have shown broken.
    pub(crate) fn unjudged(&self) -> Vec<&'static str> {
        PROMISES.into_iter().filter(|promise| !self.judged.contains_key(promise)).collect()
    }
}

/// Judges all of it. Lists are in the order of their beginnings.
pub(crate) fn judge(history: &History, bounds: Bounds) -> Judgement {
    let from_us = history.faults.first().map_or(0, |fault| fault.began_us);
    let mut judgement = Judgement { from_us, ..Judgement::default() };
    let runs: BTreeMap<u64, &RunRecord> = history.runs.iter().map(|run| (run.number, run)).collect();
    windows(history, bounds, &mut judgement);
    writes(history, &mut judgement);
    kills(history, bounds, &mut judgement);
    for request in &history.requests {
        answered(request, history, &mut judgement);
        one_hop(request, &mut judgement);
        deadline(request, history, bounds, &mut judgement);
        if request.is_write {
            continue;
        }
        if let Some(row) = &request.row {
            let run = runs.get(&row.run).copied();
            own_bytes(request, run, &mut judgement);
            if let Some(run) = run {
                age(request, run, history, bounds, &mut judgement);
            }
        }
        purged_before(request, history, bounds, &mut judgement);
    }
    judgement.violations.sort_by_key(|violation| violation.at_us);
    judgement
}

/// I1 and I2. Demanded runs are judged by themselves: a prefetch whose answer nobody saw excuses nothing between two of them.
/// Then all runs are judged together: a run that a node makes of its own accord needs the lease and counts like any other.
fn windows(history: &History, bounds: Bounds, judgement: &mut Judgement) {
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
        // Faults that lie close together share what follows from both.
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

/// How long after the run before it a run breaks I1. A life counts from when its node begins to read (I4); the origin sees
/// the run only once a connection is there. A node renews an entry of its own accord in the last tenth of its life.
fn window_us(run: &RunRecord, bounds: Bounds) -> u64 {
    let life = if run.is_demand { 1.0 - JITTER } else { (1.0 - JITTER) * (1.0 - RENEWED_AHEAD) };
    scaled(bounds.ttl_us, life).saturating_sub(bounds.slack_us)
}

/// Who gave or passed on what each run brought, by the answers that clients saw.
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

/// A fault of nodes explains a second run where one of them had a part in either, or where nobody saw what one of the
/// two brought: its node may be the one that was killed. A fault of the store or the origin is everybody's.
fn has_part(fault: &FaultRecord, parts: &BTreeMap<u64, BTreeSet<String>>, runs: [u64; 2]) -> bool {
    fault.nodes.is_empty()
        || runs.iter().any(|run| {
            parts.get(run).is_none_or(|nodes| fault.nodes.iter().any(|node| nodes.contains(&name_of(*node))))
        })
}

fn name_of(node: usize) -> String {
    format!("node-{node}")
}

/// Runs beyond the one of a window: one lapse, one for the lost data, one for each `DEGRADED_TTL` of a node
/// that reaches no store. Its owner still collapses for all; a cut peer leases through the store.
fn allowance(fault: &FaultRecord, nodes: u64) -> u64 {
    let lasted_us = fault.ended_us - fault.began_us + AFTER_US;
    1 + u64::from(fault.fault.loses_store())
        + fault.fault.without_store(nodes) * (lasted_us / DEGRADED_US + 1)
}

/// Flights that a purge fenced while they waited for the origin, which holds runs: nobody who asks after the purge may
/// join them (I3), so there is one more for each purge, and once the origin answers each of them reads:
///   flight 1 has a lease and waits · purge · flight 2 has a lease and waits · the origin answers both.
/// `behind` are runs that the purges explain already, one purge each.
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
    // A purge that was under way when the run before began may have come behind that one's commit.
    history
        .purges
        .iter()
        .filter(same)
        .any(|purge| purge.asked_us <= run.began_us && purge.ended_us >= before.began_us)
}

/// Faults that can be felt in a span of time, with their places.
fn near(history: &History, from_us: u64, to_us: u64) -> impl Iterator<Item = (usize, &FaultRecord)> {
    let felt = move |fault: &FaultRecord| fault.began_us <= to_us && fault.ended_us + AFTER_US >= from_us;
    history.faults.iter().enumerate().filter(move |(_, fault)| felt(fault))
}

/// I3 as clients can see it.
fn purged_before(request: &RequestRecord, history: &History, bounds: Bounds, judgement: &mut Judgement) {
    let Some(row) = &request.row else { return };
    let heard = history.purges.iter().rev().find(|purge| {
        purge.is_whole
            && purge.key == request.key
            && purge.user == request.user
            && purge.ended_us < request.sent_us
    });
    let Some(purge) = heard else { return };
    // What is hidden ends with the entry's life at the latest, which is I4's.
    let life_us = life(bounds);
    let hides = |fault: &FaultRecord| {
        fault.fault.hides_purges()
            && is_about(fault, request)
            && request.sent_us <= fault.ended_us + AFTER_US + life_us
    };
    let hidden = near(history, purge.asked_us, request.ended_us).find(|(_, fault)| hides(fault));
    if hidden.is_none() {
        judgement.counts("I3", request.sent_us);
    }
    match hidden {
        _ if row.version >= purge.version => {}
        Some((_, fault)) => *judgement.late_hearings.entry(fault.fault).or_default() += 1,
        None => judgement.broken(
            "I3",
            request.sent_us,
            format!(
                "node {} answered version {} of key {} for {}; version {} was purged for {} µs before",
                request.node,
                row.version,
                request.key,
                request.user,
                purge.version,
                request.sent_us - purge.ended_us
            ),
        ),
    }
}

/// A fault of nodes is felt in answers that one of them gave or passed on; one of the store, in all.
fn is_about(fault: &FaultRecord, request: &RequestRecord) -> bool {
    let has_part = |node: &usize| *node == request.node || chain(request).contains(&name_of(*node).as_str());
    fault.nodes.is_empty() || fault.nodes.iter().any(has_part)
}

/// Nodes that `Cache-Status` names: its members' first words.
fn chain(request: &RequestRecord) -> Vec<&str> {
    let members = request.cache_status.split(", ").filter(|member| !member.is_empty());
    members.map(|member| member.split(';').next().unwrap_or_default().trim()).collect()
}

fn life(bounds: Bounds) -> u64 {
    scaled(bounds.ttl_us, (1.0 + JITTER) * (1.0 + GRACE))
}

/// I4, from the run that the answer names.
fn age(
    request: &RequestRecord,
    run: &RunRecord,
    history: &History,
    bounds: Bounds,
    judgement: &mut Judgement,
) {
    judgement.counts("I4", request.sent_us);
    let age_us = request.sent_us.saturating_sub(run.began_us);
    let is_marked = request.cache_status.contains("stale-if-error") || request.cache_status.contains("ttl=-");
    if age_us > life(bounds) + bounds.slack_us && !is_marked {
        judgement.broken(
            "I4",
            request.sent_us,
            format!("run {} was {age_us} µs old, unmarked: {}", run.number, request.cache_status),
        );
    }
    // A commit that was on its way while its node stood still makes its entry seem younger (known limits).
    let stood = near(history, run.began_us, request.ended_us).any(|(_, fault)| fault.fault.stops_node());
    let said_us = request.age_s.unwrap_or(0) * 1_000_000;
    if said_us + 1_000_000 + bounds.slack_us + bounds.run_us < age_us && !stood && request.age_s.is_some() {
        judgement.broken(
            "I4",
            request.sent_us,
            format!("run {} was {age_us} µs old and Age said {said_us}", run.number),
        );
    }
}

/// I5: who, which key, and what that run read.
fn own_bytes(request: &RequestRecord, run: Option<&RunRecord>, judgement: &mut Judgement) {
    judgement.counts("I5", request.sent_us);
    let Some(row) = &request.row else { return };
    let is_own = row.who == request.user && row.key == request.key;
    let is_read =
        run.is_some_and(|run| run.user == row.who && run.key == row.key && run.version == row.version);
    if !is_own || !is_read {
        judgement.broken(
            "I5",
            request.sent_us,
            format!("{} asked for key {} and got {row:?}", request.user, request.key),
        );
    }
}

/// I6.
fn writes(history: &History, judgement: &mut Judgement) {
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

/// I7: what living nodes answer about a kill.
fn kills(history: &History, bounds: Bounds, judgement: &mut Judgement) {
    for (place, kill) in history.faults.iter().enumerate().filter(|(_, fault)| fault.fault == Fault::Kill) {
        let within_us = 2 * NEXT_VALUE_US + bounds.run_us;
        if near(history, kill.began_us, kill.struck_us + within_us).any(|(other, _)| other != place) {
            continue;
        }
        let about = history.requests.iter().filter(|request| {
            !kill.nodes.contains(&request.node)
                && request.ended_us >= kill.struck_us
                && request.sent_us <= kill.struck_us + NEXT_VALUE_US
        });
        let mut longest_us = 0;
        for request in about {
            judgement.counts("I7", kill.began_us);
            // A write on a connection that was closed meanwhile is not repeated by its client.
            if request.status != 202 && !(request.is_write && request.was_closed_idle) {
                judgement.broken(
                    "I7",
                    request.sent_us,
                    format!(
                        "node {} answered {} behind a kill of {:?}",
                        request.node, request.status, kill.nodes
                    ),
                );
            }
            let took_us = request.ended_us - request.sent_us.max(kill.struck_us);
            longest_us = longest_us.max(took_us);
            if took_us > NEXT_VALUE_US + bounds.run_us + bounds.slack_us {
                judgement.broken(
                    "I7",
                    request.sent_us,
                    format!("node {} took {took_us} µs behind a kill of {:?}", request.node, kill.nodes),
                );
            }
        }
        judgement.next_values_us.push(longest_us);
    }
}

/// A request that did not get what it request for, and whether a fault explains that:
/// - no answer: its own node was killed or has left, or is not back yet; or it is a write on a connection that had been
///   kept and was closed meanwhile, which its client may not repeat;
/// - an error: the origin did not answer or said one, to whichever node runs for this key. No other fault shows.
fn answered(request: &RequestRecord, history: &History, judgement: &mut Judgement) {
    judgement.counts("answered", request.sent_us);
    if request.status == 202 && (request.row.is_some() || request.is_write) {
        return;
    }
    let is_gone = |fault: &FaultRecord| {
        matches!(fault.fault, Fault::Kill | Fault::Drain) && fault.nodes.contains(&request.node)
    };
    let is_explained = match request.status {
        0 => {
            request.is_write && request.was_closed_idle
                || near(history, request.sent_us, request.ended_us).any(|(_, fault)| is_gone(fault))
        }
        202 => false,
        _ => near(history, request.sent_us, request.ended_us).any(|(_, fault)| fault.fault.holds_runs()),
    };
    if !is_explained {
        judgement.broken(
            "answered",
            request.sent_us,
            format!("node {} answered {} {} without a reason", request.node, request.status, request.error),
        );
    }
}

/// I8.
fn one_hop(request: &RequestRecord, judgement: &mut Judgement) {
    if request.cache_status.is_empty() {
        return;
    }
    judgement.counts("I8", request.sent_us);
    let nodes = chain(request);
    let is_repeated = nodes.len() == 2 && nodes[0] == nodes[1];
    if nodes.len() > 2 || is_repeated {
        judgement.broken("I8", request.sent_us, format!("a chain of {nodes:?}"));
    }
}

/// Every request ends, and in time.
fn deadline(request: &RequestRecord, history: &History, bounds: Bounds, judgement: &mut Judgement) {
    judgement.counts("deadline", request.sent_us);
    let stood_us: u64 = near(history, request.sent_us, request.ended_us)
        .filter(|(_, fault)| fault.fault.stops_node())
        .map(|(_, fault)| {
            fault.ended_us.min(request.ended_us).saturating_sub(fault.began_us.max(request.sent_us))
        })
        .sum();
    let took_us = request.ended_us.saturating_sub(request.sent_us).saturating_sub(stood_us);
    if took_us > bounds.deadline_us + bounds.slack_us {
        judgement.broken(
            "deadline",
            request.sent_us,
            format!(
                "node {} took {took_us} µs, pauses apart; status {} {}",
                request.node, request.status, request.error
            ),
        );
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times far below 2^53 µs"
)]
fn scaled(us: u64, by: f64) -> u64 {
    (us as f64 * by) as u64
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
