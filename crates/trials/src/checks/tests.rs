//! Each check on a sound history, where it finds nothing, and on the same history with one violation, which it finds.

use hopcache_testbed::cluster::fault::Fault;
use hopcache_testbed::cluster::history::{Ending, FaultRecord, PurgeRecord, RequestRecord};

use super::*;
use hopcache_testbed::cluster::history::Row;

const BOUNDS: Bounds =
    Bounds { ttl_us: 10_000_000, deadline_us: 4_000_000, run_us: 40_000, nodes: 3, slack_us: 500_000 };

fn run(number: u64, began_ms: u64) -> RunRecord {
    RunRecord {
        began_us: began_ms * 1_000,
        ended_us: Some(began_ms * 1_000 + 20_000),
        ending: Some(Ending::Answered),
        ..RunRecord::begin(number, 7, "ada", 1, false)
    }
}

fn request(sent_ms: u64, run: u64, version: u64) -> RequestRecord {
    RequestRecord {
        node: 0,
        user: "ada".to_owned(),
        key: 7,
        is_write: false,
        sent_us: sent_ms * 1_000,
        ended_us: sent_ms * 1_000 + 30_000,
        status: 202,
        cache_status: "node-1; hit; ttl=3; key=\"ab\", node-0; fwd=miss; detail=owner".to_owned(),
        age_s: None,
        row: Some(Row { who: "ada".to_owned(), key: 7, version, run }),
        error: String::new(),
        was_closed_idle: false,
    }
}

fn fault(fault: Fault, from_ms: u64, to_ms: u64) -> FaultRecord {
    let (began_us, ended_us) = (from_ms * 1_000, to_ms * 1_000);
    FaultRecord { fault, nodes: vec![1], began_us, struck_us: began_us, ended_us, evidence: String::new() }
}

fn purge(asked_ms: u64, version: u64) -> PurgeRecord {
    let (asked_us, ended_us) = (asked_ms * 1_000, asked_ms * 1_000 + 5_000);
    PurgeRecord { key: 7, user: "ada".to_owned(), version, asked_us, ended_us, is_whole: true }
}

/// Two windows of one key, an answer in each.
fn sound() -> History {
    History {
        requests: vec![request(100, 0, 1), request(12_100, 1, 1)],
        runs: vec![run(0, 90), run(1, 12_090)],
        ..History::default()
    }
}

fn broken(history: &History) -> Vec<&'static str> {
    let mut broken: Vec<_> =
        judge(history, BOUNDS).violations.iter().map(|violation| violation.promise).collect();
    broken.dedup();
    broken
}

#[test]
fn a_sound_history_breaks_nothing_and_is_judged() {
    let judgement = judge(&sound(), BOUNDS);
    assert_eq!(judgement.violations, []);
    for promise in ["I1", "I4", "I5", "I8", "deadline", "answered"] {
        assert_eq!(judgement.judged.get(promise), Some(&2), "{promise}");
    }
}

#[test]
fn i1_a_second_run_in_a_window_is_caught_and_a_purge_or_fault_explains_it() {
    let mut history = sound();
    history.runs.insert(1, run(9, 3_000));
    assert_eq!(broken(&history), ["I1"]);
    history.purges.push(purge(2_900, 1));
    assert_eq!(broken(&history), [""; 0]);
    history.purges.clear();
    history.faults.push(fault(Fault::Kill, 2_000, 2_500));
    // The window from 3 s on now ends inside the fault's aftermath, so the run at 12 s is not judged by it.
    assert_eq!(broken(&history), [""; 0]);
}

/// Of 10 s, jitter takes 1 s, and the way from the node to the origin the slack.
#[test]
fn i1_a_window_is_shorter_by_jitter_and_slack_and_not_by_more() {
    let mut history = sound();
    history.runs[1] = run(1, 90 + 8_501);
    assert_eq!(broken(&history), [""; 0]);
    history.runs[1] = run(1, 90 + 8_499);
    assert_eq!(broken(&history), ["I1"]);
}

#[test]
fn i1_a_run_for_another_principal_or_one_that_failed_is_no_second_run() {
    let mut history = sound();
    history.runs.push(RunRecord { user: "bob".to_owned(), ..run(8, 3_000) });
    history.runs.push(RunRecord { ending: Some(Ending::Failed), ..run(9, 3_100) });
    assert_eq!(broken(&history), [""; 0]);
}

/// With prefetch on, a run that nobody demanded needs the lease too.
#[test]
fn i1_a_prefetch_within_a_window_is_caught_and_so_is_a_demanded_run_behind_one() {
    for place in [0, 1] {
        let mut history = sound();
        history.runs.insert(1, run(9, 3_000));
        history.runs[place].is_demand = false;
        assert_eq!(broken(&history), ["I1"], "{place}");
    }
}

#[test]
fn i1_a_prefetch_may_renew_an_entry_in_the_last_tenth_of_its_life_and_no_sooner() {
    // A life of 9 s by jitter, the last tenth of it, and the slack.
    let renewed = |after_ms: u64, is_demand| {
        let mut history = sound();
        history.runs[1] = RunRecord { is_demand, ..run(1, 90 + after_ms) };
        broken(&history)
    };
    assert_eq!(renewed(7_601, false), [""; 0]);
    assert_eq!(renewed(7_599, false), ["I1"]);
    assert_eq!(renewed(7_601, true), ["I1"], "a demanded run has the whole window");
}

#[test]
fn i1_a_prefetch_that_nobody_saw_excuses_no_demanded_run() {
    let mut history = sound();
    history.runs.insert(1, run(9, 3_000));
    history.requests.insert(1, request(3_000, 9, 1));
    history.runs.insert(1, RunRecord { is_demand: false, ..run(8, 2_000) });
    // Node 2 had no part in the demanded runs, so the prefetch may have been its own.
    history.faults.push(FaultRecord { nodes: vec![2], ..fault(Fault::CutStore, 2_000, 2_500) });
    assert_eq!(broken(&history), ["I1"]);
    history.runs.remove(2);
    history.requests.remove(1);
    assert_eq!(broken(&history), [""; 0], "without the demanded run the fault may explain the prefetch");
}

#[test]
fn only_demanded_runs_show_that_i1_was_judged() {
    let mut history = sound();
    history.runs.iter_mut().for_each(|run| run.is_demand = false);
    let judgement = judge(&history, BOUNDS);
    assert_eq!((judgement.judged.get("I1"), judgement.violations.len()), (None, 0));
}

#[test]
fn i2_more_runs_about_a_kill_than_it_explains_are_caught() {
    let mut history = History {
        runs: vec![run(0, 1_900), run(1, 2_100)],
        faults: vec![fault(Fault::Kill, 2_000, 2_500)],
        ..History::default()
    };
    assert_eq!(broken(&history), [""; 0]);
    history.runs.extend([run(2, 2_300), run(3, 2_600)]);
    assert_eq!(broken(&history), ["I2"]);
    // Three nodes without a store run for themselves.
    history.faults[0].fault = Fault::StoreKill;
    assert_eq!(broken(&history), [""; 0]);
}

/// Three flights wait for an origin that stalls, because two purges fenced the first two. All read when the origin goes
/// on.
#[test]
fn i2_purges_explain_flights_that_an_origin_held_and_no_more() {
    let stall = fault(Fault::OriginStall, 2_000, 8_000);
    let mut history = History {
        runs: vec![run(0, 1_900), run(1, 8_001), run(2, 8_002), run(3, 8_003)],
        faults: vec![stall],
        ..History::default()
    };
    assert_eq!(broken(&history), ["I2"], "one lapse is explained, and not three");
    history.purges.extend([purge(3_000, 1), purge(5_000, 1)]);
    // One purge for the first run after it, one for the second, one lapse for the third.
    assert_eq!(broken(&history), [""; 0]);
    history.runs.push(run(4, 8_004));
    assert_eq!(broken(&history), ["I2"]);
    // A fault that holds no run fences no flight in this way.
    history.runs.pop();
    history.faults[0].fault = Fault::CutPeers;
    assert_eq!(broken(&history), ["I2"]);
}

#[test]
fn i3_an_older_version_behind_a_whole_purge_is_caught() {
    let mut history = sound();
    history.purges.push(purge(50, 2));
    assert_eq!(broken(&history), ["I3"]);
    history.purges[0].is_whole = false;
    assert_eq!(broken(&history), [""; 0]);
    history.purges[0].is_whole = true;
    // A dead node hides no purge; one that is cut off does.
    history.faults.push(fault(Fault::Kill, 20, 12_500));
    assert_eq!(broken(&history), ["I3"]);
    history.faults[0].fault = Fault::CutPeers;
    assert_eq!(broken(&history), [""; 0]);
    assert_eq!(judge(&history, BOUNDS).late_hearings.get(&Fault::CutPeers), Some(&2));
}

#[test]
fn i4_an_old_answer_is_caught_unless_it_is_marked() {
    let mut history = sound();
    history.requests[1] = request(20_000, 0, 1);
    assert_eq!(broken(&history), ["I4"]);
    history.requests[1].cache_status = "node-0; hit; ttl=-9; detail=stale-if-error".to_owned();
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn i4_an_age_that_says_too_little_is_caught() {
    let mut history = sound();
    history.requests[1] = RequestRecord { age_s: Some(1), ..request(9_000, 0, 1) };
    assert_eq!(broken(&history), ["I4"]);
    history.requests[1].age_s = Some(8);
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn i5_another_principal_key_or_version_is_caught() {
    for spoil in [
        (|row| row.who = "bob".to_owned()) as fn(&mut Row),
        |row| row.key = 8,
        |row| row.version = 2,
        |row| row.run = 77,
    ] {
        let mut history = sound();
        history.requests[0].row.iter_mut().for_each(spoil);
        assert_eq!(broken(&history), ["I5"]);
    }
}

#[test]
fn i6_a_write_that_ran_twice_or_never_is_caught() {
    let write = |number| RunRecord { is_write: true, key: 1_000_001, ..run(number, 100) };
    let ask = RequestRecord { is_write: true, key: 1_000_001, ..request(90, 5, 1) };
    let mut history = History { requests: vec![ask], runs: vec![write(5)], ..History::default() };
    assert_eq!(broken(&history), [""; 0]);
    history.runs.push(write(6));
    assert_eq!(broken(&history), ["I6"]);
    history.runs.clear();
    assert_eq!(broken(&history), ["I6"]);
    // One that got no answer may have run or not.
    history.requests[0].status = 0;
    history.requests[0].was_closed_idle = true;
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn i7_a_late_answer_behind_a_lone_kill_is_caught() {
    let mut history = sound();
    history.faults.push(fault(Fault::Kill, 100, 600));
    assert_eq!(broken(&history), [""; 0]);
    history.requests[0].ended_us = 1_400_000;
    assert_eq!(broken(&history), ["I7"]);
    // Nothing is promised about the killed node, or near another fault.
    history.faults[0].nodes = vec![0];
    assert_eq!(broken(&history), [""; 0]);
    history.faults[0].nodes = vec![1];
    history.faults.push(fault(Fault::OriginStall, 0, 900));
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn i8_a_second_hop_or_a_circle_is_caught() {
    for chain in ["node-0; hit, node-1; fwd=miss, node-2; fwd=miss", "node-0; hit, node-0; fwd=miss"] {
        let mut history = sound();
        history.requests[0].cache_status = chain.to_owned();
        assert_eq!(broken(&history), ["I8"]);
    }
}

#[test]
fn a_request_over_its_deadline_is_caught_and_a_pause_is_not_its_fault() {
    let mut history = sound();
    history.requests[1].ended_us = history.requests[1].sent_us + 6_000_000;
    assert_eq!(broken(&history), ["deadline"]);
    history.faults.push(fault(Fault::PauseLong, 12_200, 15_000));
    assert_eq!(broken(&history), [""; 0]);
}

/// A cluster that answers nobody, or answers without rows, is as broken as one with wrong answers.
#[test]
fn an_error_that_no_fault_explains_is_caught() {
    for (status, explained_by) in [(503, Fault::OriginStall), (0, Fault::Kill)] {
        let mut history = sound();
        history.requests[1] =
            RequestRecord { status, row: None, cache_status: String::new(), ..request(12_100, 1, 1) };
        assert_eq!(broken(&history), ["answered"]);
        history.faults.push(FaultRecord { nodes: vec![0], ..fault(explained_by, 11_000, 11_500) });
        assert_eq!(broken(&history), [""; 0], "{status}");
        history.faults[0].fault = Fault::CutPeers;
        assert_eq!(broken(&history), ["answered"], "peers that are cut show no client an error");
        history.faults[0] = fault(explained_by, 1_000, 7_000);
        assert_eq!(broken(&history), ["answered"], "long over");
    }
    let mut history = sound();
    history.requests[0].row = None;
    assert_eq!(broken(&history), ["answered"], "202 without a row");
}

#[test]
fn no_answer_of_another_node_than_the_killed_one_is_caught() {
    let mut history = sound();
    history.requests[1] = RequestRecord { status: 0, row: None, ..request(12_100, 1, 1) };
    // Long enough before that I7 does not ask.
    history.faults.push(fault(Fault::Kill, 10_000, 12_000));
    assert_eq!(broken(&history), ["answered"]);
    // A request that its client may not repeat proves nothing.
    (history.requests[1].is_write, history.requests[1].was_closed_idle) = (true, true);
    assert_eq!(broken(&history), [""; 0]);
}

#[test]
fn i7_an_error_of_a_living_node_behind_a_lone_kill_is_caught() {
    let mut history = sound();
    history.faults.push(fault(Fault::Kill, 50, 600));
    history.requests[0] = RequestRecord { status: 503, row: None, ..request(100, 0, 1) };
    assert_eq!(broken(&history), ["I7", "answered"]);
}

#[test]
fn i3_a_fault_of_nodes_excuses_their_own_answers_only() {
    let mut history = sound();
    history.purges.push(purge(50, 2));
    history.faults.push(FaultRecord { nodes: vec![2], ..fault(Fault::CutPeers, 20, 12_500) });
    assert_eq!(broken(&history), ["I3"], "node 2 has no part in these answers");
    history.faults[0].nodes = vec![0, 2];
    assert_eq!(broken(&history), [""; 0]);
    assert_eq!(judge(&history, BOUNDS).judged.get("I3"), None, "an excused request is not judged");
    // A purge after the fault reaches all nodes.
    history.faults[0].ended_us = 50_000;
    history.purges[0] = PurgeRecord { version: 2, ..purge(6_000, 2) };
    assert_eq!(broken(&history), ["I3"]);
}

#[test]
fn what_a_fault_excuses_is_not_counted_as_judged() {
    let mut history = sound();
    history.faults.push(fault(Fault::StoreKill, 0, 12_500));
    let judgement = judge(&history, BOUNDS);
    assert_eq!(judgement.judged.get("I1"), None);
    assert!(judgement.unjudged().contains(&"I1"));
    // Behind the fault and its aftermath all is judged again, and before the first fault nothing is counted.
    history.runs.push(run(5, 18_000));
    assert_eq!(judge(&history, BOUNDS).judged.get("I1"), Some(&1));
    history.faults[0] = fault(Fault::StoreKill, 19_500, 20_000);
    assert_eq!(judge(&history, BOUNDS).judged.get("I1"), None);
}

#[test]
fn i1_a_fault_of_nodes_excuses_runs_that_they_had_a_part_in() {
    let mut history = sound();
    history.runs.insert(1, run(9, 3_000));
    history.requests.insert(1, request(3_000, 9, 1));
    history.faults.push(FaultRecord { nodes: vec![2], ..fault(Fault::Kill, 2_000, 2_500) });
    assert_eq!(broken(&history), ["I1"], "nodes 0 and 1 ran and answered");
    history.faults[0].nodes = vec![1];
    assert_eq!(broken(&history), [""; 0]);
    // A run without a seen answer may have been the dead node's.
    history.faults[0].nodes = vec![2];
    history.requests.remove(0);
    assert_eq!(broken(&history), [""; 0]);
}
