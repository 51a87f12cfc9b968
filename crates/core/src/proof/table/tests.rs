//! Tests of what reports prove.

use super::*;
use crate::bookmark::{Bookmark, Position};
use crate::key::ServerTag;
use crate::node::{Incarnation, NodeName};
use crate::proof::Accounts;
use crate::write_position::WritePosition;

const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);

fn report(polled: u64, settled: u64, foreign: u64) -> Report {
    Report {
        name: DatabaseTag(7),
        database: DATABASE,
        epoch: WriteEpoch(0),
        foreign: TransactionId(foreign),
        system: TransactionId(5),
        run: Some(ServerRun(1)),
        server: ServerTag(1),
        polled: PollNumber(polled),
        accounts: Accounts { settled: TransactionId(settled), ..Accounts::default() },
    }
}

fn standing(table: &ProofTable, from: u64) -> Standing {
    let at = |id| Position { database: DATABASE, id: TransactionId(id) };
    let range = ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(from)).unwrap();
    table.standing(&range, MonoTime(1_000))
}

/// A table that has looked at 100, 200, …: looks 1, 2, ….
fn table(reports: &[(u64, Report)]) -> ProofTable {
    let mut table = ProofTable::default();
    for (number, report) in reports {
        let began = MonoTime(number * 100);
        table.take(PollNumber(*number), (began, began), std::slice::from_ref(report));
    }
    table
}

#[test]
fn a_report_shows_the_time_of_a_look_before_its_question() {
    assert_eq!(standing(&ProofTable::default(), 50), Standing::UNKNOWN);
    assert_eq!(standing(&table(&[(1, report(0, 50, 0))]), 50), Standing::UNKNOWN, "before the first look");
    let proved = |as_of| Standing { is_proved: true, as_of: Some(MonoTime(as_of)) };
    let mut table = table(&[(1, report(0, 50, 0)), (2, report(1, 50, 0))]);
    assert_eq!(standing(&table, 50), proved(100));
    // The watcher was stopped: its report is of look 2, and comes with look 9.
    table.take(PollNumber(9), (MonoTime(900), MonoTime(900)), &[report(2, 50, 0)]);
    assert_eq!(standing(&table, 50), proved(200));
    table.take(PollNumber(10), (MonoTime(990), MonoTime(990)), &[report(9, 50, 0)]);
    assert_eq!(standing(&table, 50), proved(900));
}

#[test]
fn a_foreign_transaction_ends_proofs_and_not_what_they_have_shown() {
    let table = table(&[
        (1, report(0, 50, 0)),
        (2, report(1, 50, 0)),
        (3, report(2, 60, 55)),
        (4, report(3, 60, 55)),
    ]);
    assert_eq!(standing(&table, 54), Standing { is_proved: false, as_of: Some(MonoTime(100)) });
    assert_eq!(standing(&table, 55), Standing { is_proved: true, as_of: Some(MonoTime(300)) });
    assert_eq!(table.settled(DATABASE), Some((TransactionId(60), MonoTime(300))));
}

#[test]
fn what_a_node_has_settled_lasts_until_a_report_knows_of_another_foreign_id() {
    let settled = |epoch, foreign, settled| SettledIds {
        database: DATABASE,
        epoch: WriteEpoch(epoch),
        foreign: TransactionId(foreign),
        run: Some(ServerRun(1)),
        settled: TransactionId(settled),
    };
    let mut table = table(&[(1, report(0, 50, 40)), (2, report(1, 50, 40))]);
    let reached = |table: &ProofTable| table.reached(DATABASE).unwrap().1.0;
    for (of, why) in [(settled(1, 40, 52), "another numbering"), (settled(0, 39, 52), "another foreign id")] {
        table.hear_settled(&of);
        assert_eq!(reached(&table), 50, "{why}");
    }
    table.hear_settled(&settled(0, 40, 52));
    table.hear_settled(&settled(0, 40, 51));
    assert_eq!(reached(&table), 52);
    // A report that was on its way, and one that knows more.
    table.take(PollNumber(3), (MonoTime(300), MonoTime(300)), &[report(2, 51, 40)]);
    assert_eq!(reached(&table), 52);
    table.take(PollNumber(4), (MonoTime(400), MonoTime(400)), &[report(3, 60, 55)]);
    assert_eq!(reached(&table), 60);
    table.hear_settled(&settled(0, 55, 65));
    assert_eq!(table.settled(DATABASE), Some((TransactionId(60), MonoTime(300))), "it shows no time");
    let of_another_run = Report { run: Some(ServerRun(2)), ..report(4, 61, 61) };
    table.take(PollNumber(5), (MonoTime(500), MonoTime(500)), &[of_another_run]);
    assert_eq!(reached(&table), 61, "there may be no 65");
}

/// Two nodes that start have both watched. The account that goes on is the one that began earlier, and it knows of no foreign id so late. What
/// goes by it counts all the same; what is proved goes by the later one.
#[test]
fn the_account_that_goes_on_counts_also_where_another_one_knew_of_a_later_foreign_id() {
    let (earlier, later) = (|polled, settled| report(polled, settled, 40), report(1, 45, 45));
    let mut table = table(&[(1, earlier(0, 40)), (2, later), (3, earlier(2, 50))]);
    assert_eq!(table.settled_since(&earlier(2, 50)), Some(TransactionId(50)));
    let (foreign, settled) = (TransactionId(40), TransactionId(52));
    let run = Some(ServerRun(1));
    table.hear_settled(&SettledIds { database: DATABASE, epoch: WriteEpoch(0), foreign, run, settled });
    assert_eq!(table.reached(DATABASE), Some((WriteEpoch(0), settled)));
    assert!(!standing(&table, 44).is_proved && standing(&table, 45).is_proved);
}

/// The schedule at [`ProofTable::settled_since`].
#[test]
fn nothing_is_settled_by_an_account_that_has_not_passed_the_latest_foreign_id() {
    let late = report(2, 44, 40);
    let mut table = table(&[(1, report(0, 44, 40)), (2, report(1, 44, 40)), (3, report(2, 45, 45))]);
    let (foreign, settled) = (TransactionId(45), TransactionId(46));
    let run = Some(ServerRun(1));
    table.hear_settled(&SettledIds { database: DATABASE, epoch: WriteEpoch(0), foreign, run, settled });
    assert_eq!(table.settled_since(&report(2, 45, 45)), Some(settled));
    table.take(PollNumber(4), (MonoTime(400), MonoTime(400)), std::slice::from_ref(&late));
    assert_eq!(table.settled_since(&late), None);
    // What was settled by the other account holds for this one as soon as it has passed 45.
    let next = report(4, 45, 40);
    table.take(PollNumber(5), (MonoTime(500), MonoTime(500)), std::slice::from_ref(&next));
    assert_eq!(table.settled_since(&next), Some(settled));
}

/// A count is this node's own knowledge: nothing is settled for all by it.
#[test]
fn what_this_node_has_come_to_by_counts_is_not_settled_for_all() {
    let last = report(1, 50, 40);
    let mut table = table(&[(1, report(0, 50, 40)), (2, last.clone())]);
    let by = Holder { node: NodeName::new("b").unwrap(), incarnation: Incarnation(1) };
    let written = WritePosition::at(WriteEpoch(0), Position { database: DATABASE, id: TransactionId(51) });
    table.hear(&by, &[CountedWrite { number: 1, written, after: TransactionId(50) }]);
    assert_eq!(table.reached(DATABASE), Some((WriteEpoch(0), TransactionId(51))));
    assert_eq!(table.settled_since(&last), Some(TransactionId(50)));
    let anothers = Report { name: DatabaseTag(8), foreign: TransactionId(45), ..last };
    assert_eq!(table.settled_since(&anothers), None, "by another name others are foreign");
}

/// The schedule at [`Proofs::standing`].
#[test]
fn an_entry_of_an_id_that_is_not_there_any_more_is_not_proved() {
    // Entries are read at 1,000 here: looks 1 and 2 come before that, looks 11 and 12 after it.
    let table = |settled| {
        table(&[
            (1, report(0, 50, 0)),
            (2, report(1, 50, 0)),
            (11, report(2, 50, 0)),
            (12, report(11, settled, settled)),
        ])
    };
    assert!(standing(&table(70), 70).is_proved);
    assert_eq!(standing(&table(52), 70), Standing::UNKNOWN);
    assert!(standing(&table(52), 52).is_proved);
}

/// The schedule at [`Proofs::standing`]: what another node has read before this one began.
#[test]
fn an_entry_from_before_the_first_report_is_proved_if_it_was_read_under_what_is_reported() {
    let now = report(1, 50, 40);
    let anew = table(&[(1, report(0, 50, 40)), (2, now.clone())]);
    let at = |id| Position { database: DATABASE, id: TransactionId(id) };
    let stands = |table: &ProofTable, from, under| {
        let range = ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(from)).unwrap();
        table.standing(&range.begun_under(under), MonoTime(50)).is_proved
    };
    let state = now.server_state().unwrap();
    assert!(!stands(&anew, 45, None), "nobody knows the rights of then");
    assert!(stands(&anew, 45, Some(state)));
    assert!(!stands(&anew, 39, Some(state)), "of before a foreign transaction");
    for other in [
        ServerState { epoch: WriteEpoch(1), ..state },
        ServerState { system: TransactionId(4), ..state },
        ServerState { run: ServerRun(2), ..state },
    ] {
        assert!(!stands(&anew, 45, Some(other)), "{other:?}");
    }
    // By another name of the database there is a report of other rights. Nobody knows which is the later one.
    let mut twofold = anew.clone();
    let by_alias = Report { name: DatabaseTag(8), system: TransactionId(4), ..now.clone() };
    twofold.take(PollNumber(3), (MonoTime(300), MonoTime(300)), &[now.clone(), by_alias]);
    assert!(!stands(&twofold, 45, Some(state)));
    // A report of before this node's first look is of a name that nobody uses any more.
    let mut alone = anew.clone();
    let stale = Report { name: DatabaseTag(8), system: TransactionId(4), ..report(0, 45, 40) };
    alone.take(PollNumber(3), (MonoTime(300), MonoTime(300)), &[stale, now.clone()]);
    assert!(stands(&alone, 45, Some(state)));
    // A server that does not tell its run may be another one with the same ids.
    let untold = Report { run: None, ..now };
    assert_eq!(untold.server_state(), None);
    assert!(!stands(&table(&[(1, report(0, 50, 40)), (2, untold)]), 45, Some(state)));
}

/// A node that has not heard of a change of rights, or of another run, reads after this one has. What it reads is of what it knew.
#[test]
fn what_was_read_under_something_else_is_not_proved_whenever_it_was_read() {
    let now = report(1, 50, 40);
    let table = table(&[(1, report(0, 50, 40)), (2, now.clone())]);
    let state = now.server_state().unwrap();
    let stands = |under| {
        let at = Position { database: DATABASE, id: TransactionId(45) };
        let range = ReadRange::new(Bookmark::NONE.with(Some(at)), at).unwrap().begun_under(under);
        table.standing(&range, MonoTime(1_000)).is_proved
    };
    assert!(stands(None) && stands(Some(state)));
    for other in [
        ServerState { epoch: WriteEpoch(1), ..state },
        ServerState { system: TransactionId(4), ..state },
        ServerState { run: ServerRun(2), ..state },
    ] {
        assert!(!stands(Some(other)), "{other:?}");
    }
}

#[test]
fn the_age_of_a_report_is_known_from_the_first_look_on() {
    let of = |polled, settled| Report { name: DatabaseTag(8), ..report(polled, settled, 0) };
    let mut table = ProofTable::default();
    let mut look = |number: u64, reports: &[Report]| {
        let at = MonoTime(number * 100);
        table.take(PollNumber(number), (at, at), reports);
        [7, 8].map(|name| table.report_as_of(DatabaseTag(name), DATABASE).map(|at| at.0))
    };
    assert_eq!(look(9, &[report(8, 50, 0)]), [None, None], "it may be of any time");
    assert_eq!(look(10, &[report(9, 50, 0), of(8, 40)]), [Some(900), None]);
    // Another numbering: a report that is not replaced keeps its age.
    assert_eq!(look(1, &[]), [Some(900), None]);
    assert_eq!(look(10, &[of(1, 40)]), [Some(900), Some(100)]);
}

#[test]
fn a_node_that_starts_waits_for_a_report_that_somebody_renews() {
    let look = |table: &mut ProofTable, number: u64, reports: &[Report]| {
        table.take(PollNumber(number), (MonoTime(number), MonoTime(number)), reports);
    };
    let mut table = ProofTable::default();
    assert!(table.awaits_report(10), "it has not looked");
    look(&mut table, 100, &[report(95, 50, 0)]);
    assert!(table.awaits_report(10) && !table.awaits_report(4), "or is that report an old one?");
    look(&mut table, 101, &[report(99, 50, 0)]);
    assert!(table.awaits_report(10));
    look(&mut table, 102, &[report(100, 50, 0)]);
    assert!(!table.awaits_report(10));
}

/// The schedule in `proof`: entries are read at 1,000 at id 50, and another run has 50 as well.
#[test]
fn an_entry_of_a_former_run_of_the_server_is_not_proved() {
    let of_run = |run, polled, foreign| Report { run, ..report(polled, 50, foreign) };
    let former = |polled| of_run(Some(ServerRun(1)), polled, 0);
    let well = [(9, former(8)), (10, former(9)), (11, former(10)), (12, former(11))];
    for run in [Some(ServerRun(2)), None] {
        let mut table = table(&well);
        assert_eq!(standing(&table, 50), Standing { is_proved: true, as_of: Some(MonoTime(1_100)) });
        for (poll, foreign) in [(13, 50), (14, 50), (15, 60)] {
            let at = MonoTime(poll * 100);
            table.take(PollNumber(poll), (at, at), &[of_run(run, poll - 1, foreign)]);
            let expected = Standing { is_proved: false, as_of: Some(MonoTime(1_100)) };
            assert_eq!(standing(&table, 50), expected, "it was the database's until then");
        }
        let at = |id| Position { database: DATABASE, id: TransactionId(id) };
        let anew = ReadRange::new(Bookmark::NONE.with(Some(at(60))), at(60)).unwrap();
        assert!(table.standing(&anew, MonoTime(1_500)).is_proved, "it was read in the run of now");
        assert!(!table.standing(&anew, MonoTime(1_200)).is_proved);
    }
}

#[test]
fn a_store_that_lost_its_content_numbers_anew() {
    let mut table = table(&[(7, report(0, 50, 0)), (8, report(7, 50, 0))]);
    table.take(PollNumber(1), (MonoTime(900), MonoTime(900)), &[report(7, 70, 0)]);
    assert_eq!(table.settled(DATABASE), Some((TransactionId(50), MonoTime(700))), "no look is that old");
}

#[test]
fn a_change_of_rights_ends_what_was_read_before() {
    let mut table = table(&[(1, report(0, 50, 0)), (2, report(1, 50, 0))]);
    let changed = Report { system: TransactionId(6), ..report(2, 50, 0) };
    table.take(PollNumber(3), (MonoTime(2_000), MonoTime(2_000)), &[changed]);
    assert_eq!(standing(&table, 50), Standing::UNKNOWN);
}
