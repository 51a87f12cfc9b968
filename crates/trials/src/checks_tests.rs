//! Each check on a history that is sound, and on the same one doctored: what it is there for, it catches.

use super::*;
use crate::arena::history::Row;

const BOUNDS: Bounds =
    Bounds { ttl_us: 10_000_000, deadline_us: 4_000_000, run_us: 40_000, nodes: 3, slack_us: 500_000 };

fn run(number: u64, began_ms: u64) -> RunSeen {
    RunSeen {
        began_us: began_ms * 1_000,
        ended_us: Some(began_ms * 1_000 + 20_000),
        ending: Some(Ending::Answered),
        ..RunSeen::begin(number, 7, "ada", 1, false)
    }
}

fn asked(sent_ms: u64, run: u64, version: u64) -> Asked {
    Asked {
        node: 0,
        user: "ada".to_owned(),
        key: 7,
        is_write: false,
        sent_us: sent_ms * 1_000,
        ended_us: sent_ms * 1_000 + 30_000,
        status: 202,
        told: "node-1; hit; ttl=3; key=\"ab\", node-0; fwd=miss; detail=owner".to_owned(),
        age_s: None,
        row: Some(Row { who: "ada".to_owned(), key: 7, version, run }),
        error: String::new(),
        was_closed_idle: false,
    }
}

fn fault(fault: Fault, from_ms: u64, to_ms: u64) -> FaultSeen {
    let (began_us, ended_us) = (from_ms * 1_000, to_ms * 1_000);
    FaultSeen { fault, nodes: vec![1], began_us, struck_us: began_us, ended_us, evidence: String::new() }
}

fn purge(asked_ms: u64, version: u64) -> Purged {
    let (asked_us, ended_us) = (asked_ms * 1_000, asked_ms * 1_000 + 5_000);
    Purged { key: 7, user: "ada".to_owned(), version, asked_us, ended_us, is_whole: true }
}

/// Two windows of one key, an answer in each.
fn sound() -> Told {
    Told {
        asked: vec![asked(100, 0, 1), asked(12_100, 1, 1)],
        runs: vec![run(0, 90), run(1, 12_090)],
        ..Told::default()
    }
}

fn broken(told: &Told) -> Vec<&'static str> {
    let mut broken: Vec<_> =
        judge(told, BOUNDS).violations.iter().map(|violation| violation.promise).collect();
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
    let mut told = sound();
    told.runs.insert(1, run(9, 3_000));
    assert_eq!(broken(&told), ["I1"]);
    told.purges.push(purge(2_900, 1));
    assert_eq!(broken(&told), [""; 0]);
    told.purges.clear();
    told.faults.push(fault(Fault::Kill, 2_000, 2_500));
    // The window from 3 s on now ends inside the fault's aftermath, so the run at 12 s is not judged by it.
    assert_eq!(broken(&told), [""; 0]);
}

/// Of 10 s, jitter takes 1 s, and the way from the node to the origin the slack.
#[test]
fn i1_a_window_is_shorter_by_jitter_and_slack_and_not_by_more() {
    let mut told = sound();
    told.runs[1] = run(1, 90 + 8_501);
    assert_eq!(broken(&told), [""; 0]);
    told.runs[1] = run(1, 90 + 8_499);
    assert_eq!(broken(&told), ["I1"]);
}

#[test]
fn i1_a_run_for_another_principal_or_one_that_failed_is_no_second_run() {
    let mut told = sound();
    told.runs.push(RunSeen { user: "bob".to_owned(), ..run(8, 3_000) });
    told.runs.push(RunSeen { ending: Some(Ending::Failed), ..run(9, 3_100) });
    assert_eq!(broken(&told), [""; 0]);
}

#[test]
fn i2_more_runs_about_a_kill_than_it_explains_are_caught() {
    let mut told = Told {
        runs: vec![run(0, 1_900), run(1, 2_100)],
        faults: vec![fault(Fault::Kill, 2_000, 2_500)],
        ..Told::default()
    };
    assert_eq!(broken(&told), [""; 0]);
    told.runs.extend([run(2, 2_300), run(3, 2_600)]);
    assert_eq!(broken(&told), ["I2"]);
    // Three nodes without a store run for themselves.
    told.faults[0].fault = Fault::StoreKill;
    assert_eq!(broken(&told), [""; 0]);
}

/// Three flights wait for an origin that stands still, since two purges fenced the first two; all read when it goes on.
#[test]
fn i2_purges_explain_flights_that_an_origin_held_and_no_more() {
    let stall = fault(Fault::OriginStall, 2_000, 8_000);
    let mut told = Told {
        runs: vec![run(0, 1_900), run(1, 8_001), run(2, 8_002), run(3, 8_003)],
        faults: vec![stall],
        ..Told::default()
    };
    assert_eq!(broken(&told), ["I2"], "one lapse is explained, and not three");
    told.purges.extend([purge(3_000, 1), purge(5_000, 1)]);
    // One purge for the first run after it, one for the second, one lapse for the third.
    assert_eq!(broken(&told), [""; 0]);
    told.runs.push(run(4, 8_004));
    assert_eq!(broken(&told), ["I2"]);
    // A fault that holds no run fences none that way.
    told.runs.pop();
    told.faults[0].fault = Fault::CutPeers;
    assert_eq!(broken(&told), ["I2"]);
}

#[test]
fn i3_an_older_version_behind_a_whole_purge_is_caught() {
    let mut told = sound();
    told.purges.push(purge(50, 2));
    assert_eq!(broken(&told), ["I3"]);
    told.purges[0].is_whole = false;
    assert_eq!(broken(&told), [""; 0]);
    told.purges[0].is_whole = true;
    // A dead node hides no purge; one that is cut off does.
    told.faults.push(fault(Fault::Kill, 20, 12_500));
    assert_eq!(broken(&told), ["I3"]);
    told.faults[0].fault = Fault::CutPeers;
    assert_eq!(broken(&told), [""; 0]);
    assert_eq!(judge(&told, BOUNDS).late_hearings.get(&Fault::CutPeers), Some(&2));
}

#[test]
fn i4_an_old_answer_is_caught_unless_it_is_marked() {
    let mut told = sound();
    told.asked[1] = asked(20_000, 0, 1);
    assert_eq!(broken(&told), ["I4"]);
    told.asked[1].told = "node-0; hit; ttl=-9; detail=stale-if-error".to_owned();
    assert_eq!(broken(&told), [""; 0]);
}

#[test]
fn i4_an_age_that_says_too_little_is_caught() {
    let mut told = sound();
    told.asked[1] = Asked { age_s: Some(1), ..asked(9_000, 0, 1) };
    assert_eq!(broken(&told), ["I4"]);
    told.asked[1].age_s = Some(8);
    assert_eq!(broken(&told), [""; 0]);
}

#[test]
fn i5_another_principal_key_or_version_is_caught() {
    for spoil in [
        (|row| row.who = "bob".to_owned()) as fn(&mut Row),
        |row| row.key = 8,
        |row| row.version = 2,
        |row| row.run = 77,
    ] {
        let mut told = sound();
        told.asked[0].row.iter_mut().for_each(spoil);
        assert_eq!(broken(&told), ["I5"]);
    }
}

#[test]
fn i6_a_write_that_ran_twice_or_never_is_caught() {
    let write = |number| RunSeen { is_write: true, key: 1_000_001, ..run(number, 100) };
    let ask = Asked { is_write: true, key: 1_000_001, ..asked(90, 5, 1) };
    let mut told = Told { asked: vec![ask], runs: vec![write(5)], ..Told::default() };
    assert_eq!(broken(&told), [""; 0]);
    told.runs.push(write(6));
    assert_eq!(broken(&told), ["I6"]);
    told.runs.clear();
    assert_eq!(broken(&told), ["I6"]);
    // One that got no answer may have run or not.
    told.asked[0].status = 0;
    told.asked[0].was_closed_idle = true;
    assert_eq!(broken(&told), [""; 0]);
}

#[test]
fn i7_a_late_answer_behind_a_lone_kill_is_caught() {
    let mut told = sound();
    told.faults.push(fault(Fault::Kill, 100, 600));
    assert_eq!(broken(&told), [""; 0]);
    told.asked[0].ended_us = 1_400_000;
    assert_eq!(broken(&told), ["I7"]);
    // Of the killed node nothing is promised, and beside another fault neither.
    told.faults[0].nodes = vec![0];
    assert_eq!(broken(&told), [""; 0]);
    told.faults[0].nodes = vec![1];
    told.faults.push(fault(Fault::OriginStall, 0, 900));
    assert_eq!(broken(&told), [""; 0]);
}

#[test]
fn i8_a_second_hop_or_a_circle_is_caught() {
    for chain in ["node-0; hit, node-1; fwd=miss, node-2; fwd=miss", "node-0; hit, node-0; fwd=miss"] {
        let mut told = sound();
        told.asked[0].told = chain.to_owned();
        assert_eq!(broken(&told), ["I8"]);
    }
}

#[test]
fn a_request_over_its_deadline_is_caught_and_a_pause_is_not_its_fault() {
    let mut told = sound();
    told.asked[1].ended_us = told.asked[1].sent_us + 6_000_000;
    assert_eq!(broken(&told), ["deadline"]);
    told.faults.push(fault(Fault::PauseLong, 12_200, 15_000));
    assert_eq!(broken(&told), [""; 0]);
}

/// A cluster that answers nobody, or without rows, is as broken as one that answers wrongly.
#[test]
fn an_error_that_no_fault_explains_is_caught() {
    for (status, explained_by) in [(503, Fault::OriginStall), (0, Fault::Kill)] {
        let mut told = sound();
        told.asked[1] = Asked { status, row: None, told: String::new(), ..asked(12_100, 1, 1) };
        assert_eq!(broken(&told), ["answered"]);
        told.faults.push(FaultSeen { nodes: vec![0], ..fault(explained_by, 11_000, 11_500) });
        assert_eq!(broken(&told), [""; 0], "{status}");
        told.faults[0].fault = Fault::CutPeers;
        assert_eq!(broken(&told), ["answered"], "peers that are cut show no client an error");
        told.faults[0] = fault(explained_by, 1_000, 7_000);
        assert_eq!(broken(&told), ["answered"], "long over");
    }
    let mut told = sound();
    told.asked[0].row = None;
    assert_eq!(broken(&told), ["answered"], "202 without a row");
}

#[test]
fn no_answer_of_another_node_than_the_killed_one_is_caught() {
    let mut told = sound();
    told.asked[1] = Asked { status: 0, row: None, ..asked(12_100, 1, 1) };
    // Long enough before that I7 does not ask.
    told.faults.push(fault(Fault::Kill, 10_000, 12_000));
    assert_eq!(broken(&told), ["answered"]);
    // What its client may not repeat proves nothing.
    (told.asked[1].is_write, told.asked[1].was_closed_idle) = (true, true);
    assert_eq!(broken(&told), [""; 0]);
}

#[test]
fn i7_an_error_of_a_living_node_behind_a_lone_kill_is_caught() {
    let mut told = sound();
    told.faults.push(fault(Fault::Kill, 50, 600));
    told.asked[0] = Asked { status: 503, row: None, ..asked(100, 0, 1) };
    assert_eq!(broken(&told), ["I7", "answered"]);
}

#[test]
fn i3_a_fault_of_nodes_excuses_their_own_answers_only() {
    let mut told = sound();
    told.purges.push(purge(50, 2));
    told.faults.push(FaultSeen { nodes: vec![2], ..fault(Fault::CutPeers, 20, 12_500) });
    assert_eq!(broken(&told), ["I3"], "node 2 has no part in these answers");
    told.faults[0].nodes = vec![0, 2];
    assert_eq!(broken(&told), [""; 0]);
    assert_eq!(judge(&told, BOUNDS).judged.get("I3"), None, "what is excused is not judged");
    // A purge that came once the fault was over is heard by all.
    told.faults[0].ended_us = 50_000;
    told.purges[0] = Purged { version: 2, ..purge(6_000, 2) };
    assert_eq!(broken(&told), ["I3"]);
}

#[test]
fn what_a_fault_excuses_is_not_counted_as_judged() {
    let mut told = sound();
    told.faults.push(fault(Fault::StoreKill, 0, 12_500));
    let judgement = judge(&told, BOUNDS);
    assert_eq!(judgement.judged.get("I1"), None);
    assert!(judgement.unjudged().contains(&"I1"));
    // Behind the fault and its aftermath all is judged again, and before the first fault nothing is counted.
    told.runs.push(run(5, 18_000));
    assert_eq!(judge(&told, BOUNDS).judged.get("I1"), Some(&1));
    told.faults[0] = fault(Fault::StoreKill, 19_500, 20_000);
    assert_eq!(judge(&told, BOUNDS).judged.get("I1"), None);
}

#[test]
fn i1_a_fault_of_nodes_excuses_runs_that_they_had_a_part_in() {
    let mut told = sound();
    told.runs.insert(1, run(9, 3_000));
    told.asked.insert(1, asked(3_000, 9, 1));
    told.faults.push(FaultSeen { nodes: vec![2], ..fault(Fault::Kill, 2_000, 2_500) });
    assert_eq!(broken(&told), ["I1"], "nodes 0 and 1 ran and answered");
    told.faults[0].nodes = vec![1];
    assert_eq!(broken(&told), [""; 0]);
    // What nobody saw may have been the dead one's.
    told.faults[0].nodes = vec![2];
    told.asked.remove(0);
    assert_eq!(broken(&told), [""; 0]);
}
