//! Judges a history by the promises I1 to I8. It only reads. This text says which faults excuse a violation, and for
//! how long.
//!
//! | promise | a violation is |
//! |---|---|
//! | I1 | two answered runs of a key within one TTL (less jitter and slack), prefetches too, without a purge between or a fault near |
//! | I2 | more extra runs of a key near its faults than their lapses, losses, cut-off nodes and fenced flights allow |
//! | I3 | a request sent after a whole purge is answered with an older version, and no fault hid the purge |
//! | I4 | an answer without a mark whose value was read longer ago than TTL and grace, or whose `Age` is below its age |
//! | I5 | an answer for another principal or another key, or with a value that its run did not read |
//! | I6 | a write that ran twice, or that was answered and did not run once |
//! | I7 | after a kill without other faults near, a living node answers later than 0.5 s and a run, or not 202 |
//! | I8 | more than two nodes, or one node twice, in `Cache-Status` |
//! | deadline | a request that ended later than its node's longest wait, not counting pauses |
//! | answered | a request without its rows that no fault explains: no answer except by a node that ends, no 202 except near origin trouble |
//!
//! The counts leave out requests and runs that a fault excuses, and all from before the first fault.

mod judgement;
mod requests;
mod runs;

use std::collections::BTreeMap;

use hopcache_testbed::cluster::history::{History, RunRecord};

pub(crate) use judgement::{Bounds, Judgement, PROMISES, Violation};

/// Judges all of it. Lists are in the order of their beginnings.
pub(crate) fn judge(history: &History, bounds: Bounds) -> Judgement {
    let from_us = history.faults.first().map_or(0, |fault| fault.began_us);
    let mut judgement = Judgement { from_us, ..Judgement::default() };
    let by_number: BTreeMap<u64, &RunRecord> = history.runs.iter().map(|run| (run.number, run)).collect();
    runs::windows(history, bounds, &mut judgement);
    runs::writes(history, &mut judgement);
    requests::kills(history, bounds, &mut judgement);
    for request in &history.requests {
        requests::answered(request, history, &mut judgement);
        requests::one_hop(request, &mut judgement);
        requests::deadline(request, history, bounds, &mut judgement);
        if request.is_write {
            continue;
        }
        if let Some(row) = &request.row {
            let run = by_number.get(&row.run).copied();
            requests::own_bytes(request, run, &mut judgement);
            if let Some(run) = run {
                requests::age(request, run, history, bounds, &mut judgement);
            }
        }
        requests::purged_before(request, history, bounds, &mut judgement);
    }
    judgement.violations.sort_by_key(|violation| violation.at_us);
    judgement
}

#[cfg(test)]
mod tests;
