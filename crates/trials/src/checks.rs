//! Judges a history by the promises I1 to I8. It only reads; what a fault excuses, and for how long, is said
//! here in one place.
//!
//! | promise | a violation is |
//! |---|---|
//! | I1 | two answered runs of a key within one TTL (less jitter and slack), no purge between, no fault near |
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

use crate::arena::fault::Fault;
use crate::arena::history::{Asked, Ending, FaultSeen, Purged, RunSeen, Told};

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
pub(crate) fn judge(told: &Told, bounds: Bounds) -> Judgement {
    let from_us = told.faults.first().map_or(0, |fault| fault.began_us);
    let mut judgement = Judgement { from_us, ..Judgement::default() };
    let runs: BTreeMap<u64, &RunSeen> = told.runs.iter().map(|run| (run.number, run)).collect();
    windows(told, bounds, &mut judgement);
    writes(told, &mut judgement);
    kills(told, bounds, &mut judgement);
    for asked in &told.asked {
        answered(asked, told, &mut judgement);
        one_hop(asked, &mut judgement);
        deadline(asked, told, bounds, &mut judgement);
        if asked.is_write {
            continue;
        }
        if let Some(row) = &asked.row {
            let run = runs.get(&row.run).copied();
            own_bytes(asked, run, &mut judgement);
            if let Some(run) = run {
                age(asked, run, told, bounds, &mut judgement);
            }
        }
        purged_before(asked, told, bounds, &mut judgement);
    }
    judgement.violations.sort_by_key(|violation| violation.at_us);
    judgement
}

/// I1 and I2: runs of one key, each against the one before it.
fn windows(told: &Told, bounds: Bounds, judgement: &mut Judgement) {
    // A life counts from when its node begins to read (I4); the origin sees the run only once a connection is there.
    let window_us = scaled(bounds.ttl_us, 1.0 - JITTER).saturating_sub(bounds.slack_us);
    let mut last: BTreeMap<(&str, i64), &RunSeen> = BTreeMap::new();
    let mut extra: BTreeMap<(&str, i64, usize), u64> = BTreeMap::new();
    let mut behind_purges: BTreeMap<(&str, i64), Vec<u64>> = BTreeMap::new();
    let parts = parts(told);
    let answered = told.runs.iter().filter(|run| !run.is_write && run.ending == Some(Ending::Answered));
    for run in answered {
        if near(told, run.began_us, run.began_us + SOON_US).next().is_none() {
            judgement.counts("I1", run.began_us);
        }
        let Some(before) = last.insert((&run.user, run.key), run) else { continue };
        if run.began_us >= before.began_us + window_us {
            continue;
        }
        if purged_between(told, before, run) {
            behind_purges.entry((&run.user, run.key)).or_default().push(run.began_us);
            continue;
        }
        // Of several, the one that explains most.
        let near = near(told, before.began_us, run.began_us)
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
        let fault = &told.faults[place];
        judgement.counts("I2", fault.began_us);
        // Faults that lie close together share what follows from both.
        let allowed: u64 =
            near(told, fault.began_us, fault.ended_us).map(|(_, each)| allowance(each, bounds.nodes)).sum();
        let behind = behind_purges.get(&(user, key)).map_or(&[][..], Vec::as_slice);
        let allowed = allowed + fenced(told, (user, key), fault, behind);
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
}

/// Who gave or passed on what each run brought, by the answers that clients saw.
fn parts(told: &Told) -> BTreeMap<u64, BTreeSet<String>> {
    let mut parts: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for asked in &told.asked {
        if let Some(row) = &asked.row {
            let nodes = parts.entry(row.run).or_default();
            nodes.insert(name_of(asked.node));
            nodes.extend(chain(asked).into_iter().map(str::to_owned));
        }
    }
    parts
}

/// A fault of nodes explains a second run where one of them had a part in either, or where nobody saw what one of the
/// two brought: its node may be the one that was killed. A fault of the store or the origin is everybody's.
fn has_part(fault: &FaultSeen, parts: &BTreeMap<u64, BTreeSet<String>>, runs: [u64; 2]) -> bool {
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
fn allowance(fault: &FaultSeen, nodes: u64) -> u64 {
    let lasted_us = fault.ended_us - fault.began_us + AFTER_US;
    1 + u64::from(fault.fault.loses_store())
        + fault.fault.without_store(nodes) * (lasted_us / DEGRADED_US + 1)
}

/// Flights that a purge fenced while they waited for the origin, which holds runs: nobody who asks after the purge may
/// join them (I3), so there is one more for each purge, and once the origin answers each of them reads:
///   flight 1 has a lease and waits · purge · flight 2 has a lease and waits · the origin answers both.
/// `behind` are runs that the purges explain already, one purge each.
fn fenced(told: &Told, (user, key): (&str, i64), about: &FaultSeen, behind: &[u64]) -> u64 {
    let is_held = |at_us: u64| {
        near(told, about.began_us, about.ended_us).any(|(_, fault)| {
            fault.fault.holds_runs() && (fault.began_us..=fault.ended_us + AFTER_US).contains(&at_us)
        })
    };
    let purges = told.purges.iter().filter(|purge| purge.key == key && purge.user == user);
    let count = purges.filter(|purge| is_held(purge.asked_us)).count();
    let spent = behind.iter().filter(|at_us| is_held(**at_us)).count();
    u64::try_from(count.saturating_sub(spent)).unwrap_or(0)
}

fn purged_between(told: &Told, before: &RunSeen, run: &RunSeen) -> bool {
    let same = |purge: &&Purged| purge.key == run.key && purge.user == run.user;
    // A purge that was under way when the run before began may have come behind that one's commit.
    told.purges
        .iter()
        .filter(same)
        .any(|purge| purge.asked_us <= run.began_us && purge.ended_us >= before.began_us)
}

/// Faults that can be felt in a span of time, with their places.
fn near(told: &Told, from_us: u64, to_us: u64) -> impl Iterator<Item = (usize, &FaultSeen)> {
    let felt = move |fault: &FaultSeen| fault.began_us <= to_us && fault.ended_us + AFTER_US >= from_us;
    told.faults.iter().enumerate().filter(move |(_, fault)| felt(fault))
}

/// I3 as clients can see it.
fn purged_before(asked: &Asked, told: &Told, bounds: Bounds, judgement: &mut Judgement) {
    let Some(row) = &asked.row else { return };
    let heard = told.purges.iter().rev().find(|purge| {
        purge.is_whole && purge.key == asked.key && purge.user == asked.user && purge.ended_us < asked.sent_us
    });
    let Some(purge) = heard else { return };
    // What is hidden ends with the entry's life at the latest, which is I4's.
    let life_us = life(bounds);
    let hides = |fault: &FaultSeen| {
        fault.fault.hides_purges()
            && is_about(fault, asked)
            && asked.sent_us <= fault.ended_us + AFTER_US + life_us
    };
    let hidden = near(told, purge.asked_us, asked.ended_us).find(|(_, fault)| hides(fault));
    if hidden.is_none() {
        judgement.counts("I3", asked.sent_us);
    }
    match hidden {
        _ if row.version >= purge.version => {}
        Some((_, fault)) => *judgement.late_hearings.entry(fault.fault).or_default() += 1,
        None => judgement.broken(
            "I3",
            asked.sent_us,
            format!(
                "node {} answered version {} of key {} for {}; version {} was purged for {} µs before",
                asked.node,
                row.version,
                asked.key,
                asked.user,
                purge.version,
                asked.sent_us - purge.ended_us
            ),
        ),
    }
}

/// A fault of nodes is felt in answers that one of them gave or passed on; one of the store, in all.
fn is_about(fault: &FaultSeen, asked: &Asked) -> bool {
    let has_part = |node: &usize| *node == asked.node || chain(asked).contains(&name_of(*node).as_str());
    fault.nodes.is_empty() || fault.nodes.iter().any(has_part)
}

/// Nodes that `Cache-Status` names: its members' first words.
fn chain(asked: &Asked) -> Vec<&str> {
    let members = asked.told.split(", ").filter(|member| !member.is_empty());
    members.map(|member| member.split(';').next().unwrap_or_default().trim()).collect()
}

fn life(bounds: Bounds) -> u64 {
    scaled(bounds.ttl_us, (1.0 + JITTER) * (1.0 + GRACE))
}

/// I4, from the run that the answer names.
fn age(asked: &Asked, run: &RunSeen, told: &Told, bounds: Bounds, judgement: &mut Judgement) {
    judgement.counts("I4", asked.sent_us);
    let age_us = asked.sent_us.saturating_sub(run.began_us);
    let is_marked = asked.told.contains("stale-if-error") || asked.told.contains("ttl=-");
    if age_us > life(bounds) + bounds.slack_us && !is_marked {
        judgement.broken(
            "I4",
            asked.sent_us,
            format!("run {} was {age_us} µs old, unmarked: {}", run.number, asked.told),
        );
    }
    // A commit that was on its way while its node stood still makes its entry seem younger (known limits).
    let stood = near(told, run.began_us, asked.ended_us).any(|(_, fault)| fault.fault.stops_node());
    let said_us = asked.age_s.unwrap_or(0) * 1_000_000;
    if said_us + 1_000_000 + bounds.slack_us + bounds.run_us < age_us && !stood && asked.age_s.is_some() {
        judgement.broken(
            "I4",
            asked.sent_us,
            format!("run {} was {age_us} µs old and Age said {said_us}", run.number),
        );
    }
}

/// I5: who, which key, and what that run read.
fn own_bytes(asked: &Asked, run: Option<&RunSeen>, judgement: &mut Judgement) {
    judgement.counts("I5", asked.sent_us);
    let Some(row) = &asked.row else { return };
    let is_own = row.who == asked.user && row.key == asked.key;
    let is_read =
        run.is_some_and(|run| run.user == row.who && run.key == row.key && run.version == row.version);
    if !is_own || !is_read {
        judgement.broken(
            "I5",
            asked.sent_us,
            format!("{} asked for key {} and got {row:?}", asked.user, asked.key),
        );
    }
}

/// I6.
fn writes(told: &Told, judgement: &mut Judgement) {
    let mut runs: BTreeMap<i64, u64> = BTreeMap::new();
    for run in told.runs.iter().filter(|run| run.is_write) {
        *runs.entry(run.key).or_default() += 1;
    }
    for (key, count) in runs.iter().filter(|(_, count)| **count > 1) {
        judgement.broken("I6", 0, format!("write {key} ran {count} times"));
    }
    for asked in told.asked.iter().filter(|asked| asked.is_write) {
        judgement.counts("I6", asked.sent_us);
        if asked.status == 202 && runs.get(&asked.key) != Some(&1) {
            judgement.broken(
                "I6",
                asked.sent_us,
                format!("write {} was answered and ran {:?} times", asked.key, runs.get(&asked.key)),
            );
        }
    }
}

/// I7: what living nodes answer about a kill.
fn kills(told: &Told, bounds: Bounds, judgement: &mut Judgement) {
    for (place, kill) in told.faults.iter().enumerate().filter(|(_, fault)| fault.fault == Fault::Kill) {
        let within_us = 2 * NEXT_VALUE_US + bounds.run_us;
        if near(told, kill.began_us, kill.struck_us + within_us).any(|(other, _)| other != place) {
            continue;
        }
        let about = told.asked.iter().filter(|asked| {
            !kill.nodes.contains(&asked.node)
                && asked.ended_us >= kill.struck_us
                && asked.sent_us <= kill.struck_us + NEXT_VALUE_US
        });
        let mut longest_us = 0;
        for asked in about {
            judgement.counts("I7", kill.began_us);
            // A write on a connection that was closed meanwhile is not repeated by its client.
            if asked.status != 202 && !(asked.is_write && asked.was_closed_idle) {
                judgement.broken(
                    "I7",
                    asked.sent_us,
                    format!("node {} told {} behind a kill of {:?}", asked.node, asked.status, kill.nodes),
                );
            }
            let took_us = asked.ended_us - asked.sent_us.max(kill.struck_us);
            longest_us = longest_us.max(took_us);
            if took_us > NEXT_VALUE_US + bounds.run_us + bounds.slack_us {
                judgement.broken(
                    "I7",
                    asked.sent_us,
                    format!("node {} took {took_us} µs behind a kill of {:?}", asked.node, kill.nodes),
                );
            }
        }
        judgement.next_values_us.push(longest_us);
    }
}

/// A request that did not get what it asked for, and whether a fault explains that:
/// - no answer: its own node was killed or has left, or is not back yet; or it is a write on a connection that had been
///   kept and was closed meanwhile, which its client may not repeat;
/// - an error: the origin did not answer or said one, to whichever node runs for this key. No other fault shows.
fn answered(asked: &Asked, told: &Told, judgement: &mut Judgement) {
    judgement.counts("answered", asked.sent_us);
    if asked.status == 202 && (asked.row.is_some() || asked.is_write) {
        return;
    }
    let is_gone = |fault: &FaultSeen| {
        matches!(fault.fault, Fault::Kill | Fault::Drain) && fault.nodes.contains(&asked.node)
    };
    let is_explained = match asked.status {
        0 => {
            asked.is_write && asked.was_closed_idle
                || near(told, asked.sent_us, asked.ended_us).any(|(_, fault)| is_gone(fault))
        }
        202 => false,
        _ => near(told, asked.sent_us, asked.ended_us).any(|(_, fault)| fault.fault.holds_runs()),
    };
    if !is_explained {
        judgement.broken(
            "answered",
            asked.sent_us,
            format!("node {} told {} {} without a reason", asked.node, asked.status, asked.error),
        );
    }
}

/// I8.
fn one_hop(asked: &Asked, judgement: &mut Judgement) {
    if asked.told.is_empty() {
        return;
    }
    judgement.counts("I8", asked.sent_us);
    let nodes = chain(asked);
    let is_repeated = nodes.len() == 2 && nodes[0] == nodes[1];
    if nodes.len() > 2 || is_repeated {
        judgement.broken("I8", asked.sent_us, format!("a chain of {nodes:?}"));
    }
}

/// Every request ends, and in time.
fn deadline(asked: &Asked, told: &Told, bounds: Bounds, judgement: &mut Judgement) {
    judgement.counts("deadline", asked.sent_us);
    let stood_us: u64 = near(told, asked.sent_us, asked.ended_us)
        .filter(|(_, fault)| fault.fault.stops_node())
        .map(|(_, fault)| {
            fault.ended_us.min(asked.ended_us).saturating_sub(fault.began_us.max(asked.sent_us))
        })
        .sum();
    let took_us = asked.ended_us.saturating_sub(asked.sent_us).saturating_sub(stood_us);
    if took_us > bounds.deadline_us + bounds.slack_us {
        judgement.broken(
            "deadline",
            asked.sent_us,
            format!(
                "node {} took {took_us} µs, pauses apart; status {} {}",
                asked.node, asked.status, asked.error
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
