//! I3, I4, I5, I7, I8, the deadline, and whether a request was answered: the answers that clients got, request by
//! request.

use hopcache_testbed::cluster::fault::Fault;
use hopcache_testbed::cluster::history::{FaultRecord, History, RequestRecord, RunRecord};

use super::judgement::{AFTER_US, Bounds, JITTER, Judgement, chain, name_of, near, scaled};

/// `entry.grace`.
const GRACE: f64 = 0.5;
/// I7 without the run.
const NEXT_VALUE_US: u64 = 500_000;

/// I3 as clients can see it.
pub(super) fn purged_before(
    request: &RequestRecord,
    history: &History,
    bounds: Bounds,
    judgement: &mut Judgement,
) {
    let Some(row) = &request.row else { return };
    let heard = history.purges.iter().rev().find(|purge| {
        purge.is_whole
            && purge.key == request.key
            && purge.user == request.user
            && purge.ended_us < request.sent_us
    });
    let Some(purge) = heard else { return };
    // A fault hides the purge until the entry's life ends at the latest; I4 checks the life.
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

fn life(bounds: Bounds) -> u64 {
    scaled(bounds.ttl_us, (1.0 + JITTER) * (1.0 + GRACE))
}

/// I4, from the run that the answer names.
pub(super) fn age(
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
    let shown_us = request.age_s.unwrap_or(0) * 1_000_000;
    if shown_us + 1_000_000 + bounds.slack_us + bounds.run_us < age_us && !stood && request.age_s.is_some() {
        judgement.broken(
            "I4",
            request.sent_us,
            format!("run {} was {age_us} µs old and its Age header was {shown_us}", run.number),
        );
    }
}

/// I5: the principal, the key, and the value that the run read.
pub(super) fn own_bytes(request: &RequestRecord, run: Option<&RunRecord>, judgement: &mut Judgement) {
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

/// I7: the answers of living nodes after a kill.
pub(super) fn kills(history: &History, bounds: Bounds, judgement: &mut Judgement) {
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

/// A request without the wanted answer, and whether a fault explains that:
/// - no answer: its own node was killed, has left, or is not back yet; or the request is a write on a kept connection
///   that was closed meanwhile, which its client may not repeat;
/// - an error: the origin did not answer, or answered an error, to the node that runs for this key. No other fault
///   causes one.
pub(super) fn answered(request: &RequestRecord, history: &History, judgement: &mut Judgement) {
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
pub(super) fn one_hop(request: &RequestRecord, judgement: &mut Judgement) {
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
pub(super) fn deadline(
    request: &RequestRecord,
    history: &History,
    bounds: Bounds,
    judgement: &mut Judgement,
) {
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
