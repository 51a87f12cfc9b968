//! Labels that no node has both of: how far they keep a write to the one label from a read of the other.

use hopcache_core::bookmark::{Bookmark, ReadRange};
use hopcache_core::write_position::LabelPair;

use super::*;

const POST: TagId = TagId(101);
const USER: TagId = TagId(102);
const DATABASE: DatabaseUuid = DatabaseUuid([1; 16]);
const READER: Viewer = Viewer([1; 16]);

fn pair() -> LabelPair {
    LabelPair {
        labels: ["Post".into(), "User".into()],
        changed: [POST, USER],
        any_changed: TagId(103),
        made: TagId(104),
        any_made: TagId(105),
    }
}

fn at(id: u64) -> Position {
    Position { database: DATABASE, id: TransactionId(id) }
}

/// No node had both in a state that had seen `from`, and nothing after `to`.
fn excluded(table: &mut WritePositionTable, from: u64, to: u64) {
    let range = ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(to)).unwrap();
    table.exclude((READER, pair()), (WriteEpoch(0), &range));
}

/// `MATCH (p:Post) SET p.name = …`, sent when all up to `since` was committed.
fn post(since: u64, id: u64) -> WriteEvent {
    let role = TouchedRole { labels: &["Post"], ..TouchedRole::default() };
    let touched = Touched::These(touched(NAME_KEY, &[role]));
    WriteEvent { name: NAME, written: mark(1, 0, id), since: TransactionId(since), touched }
}

/// A node that knows all up to 60.
fn table() -> WritePositionTable {
    let mut table = WritePositionTable::default();
    take(&mut table, 40, &by_id(1));
    table.account(DATABASE, (WriteEpoch(0), TransactionId(60)));
    table
}

/// What a read of `.name` of users has to have seen.
fn needed_as(table: &WritePositionTable, viewer: Viewer) -> u64 {
    let need = NeedRole { constraint: Some(0), is_ref: false };
    let need = ShapeNeed { tags: [NAME_KEY].into(), roles: [need].into_iter().collect() };
    let shape = NeedsShape::new(vec![NodeConstraint::new([], ["User"])], &[need], [NAME_KEY]);
    let depends = Depends::OnNeeds(&shape, &NeedClasses::default(), viewer);
    table.needed_by(NAME, depends).unwrap().position().unwrap().id.0
}

fn needed(table: &WritePositionTable) -> u64 {
    needed_as(table, READER)
}

#[test]
fn a_write_to_the_other_label_ends_nothing() {
    let mut table = table();
    table.take_event(&post(49, 50), NOW);
    assert_eq!(needed(&table), 50, "a node may have both");
    excluded(&mut table, 50, 52);
    assert_eq!(needed(&table), 50, "of what was touched before nobody knows");
    table.take_event(&post(54, 55), NOW);
    assert_eq!(needed(&table), 52);
    assert_eq!(needed_as(&table, Viewer([2; 16])), 55, "somebody else may see more nodes");
    table.forget_exclusions();
    assert_eq!(needed(&table), 55);
}

/// A post is found · before the answer, another write has made it a user · the answer: no node has both · the first write changes it.
#[test]
fn a_write_that_was_sent_before_the_answer_may_have_found_what_the_node_was() {
    let mut table = table();
    excluded(&mut table, 50, 52);
    table.take_event(&post(48, 55), NOW);
    assert_eq!(needed(&table), 55);
    table.take_event(&post(55, 57), NOW);
    assert_eq!(needed(&table), 55, "and the later one has not");
}

#[test]
fn it_counts_only_as_far_as_all_transactions_are_known() {
    let mut table = table();
    excluded(&mut table, 50, 52);
    table.take_event(&post(60, 62), NOW);
    assert_eq!(needed(&table), 62, "61 may have given a node both labels");
    table.account(DATABASE, (WriteEpoch(1), TransactionId(62)));
    assert_eq!(needed(&table), 62, "by another numbering");
    table.account(DATABASE, (WriteEpoch(0), TransactionId(62)));
    assert_eq!(needed(&table), 53, "as late as a write of two transactions may have begun before the answer");
}

#[test]
fn whatever_may_give_a_node_both_ends_it() {
    let changed = |tag| touched(tag, &[TouchedRole::default()]);
    for tag in [POST, USER, TagId(103), TagId(104), TagId(105), TagId::FOREIGN] {
        let mut table = table();
        excluded(&mut table, 50, 52);
        table.take_event(&post(54, 55), NOW);
        assert_eq!(needed(&table), 52);
        take(&mut table, 56, &changed(tag));
        assert_eq!(needed(&table), 55, "{tag:?}");
        // Asked again.
        excluded(&mut table, 56, 56);
        assert_eq!(needed(&table), 55, "the touch was before the answer");
        table.take_event(&post(57, 58), NOW);
        assert_eq!(needed(&table), 56);
    }
    // New nodes of one of the two labels are no nodes of both.
    let made = |labels: &[&str]| {
        let role = TouchedRole { labels, labels_are_exact: true, is_fresh: true, ..TouchedRole::default() };
        touched(TagId(104), &[role])
    };
    let mut table = table();
    excluded(&mut table, 50, 52);
    table.take_event(&post(54, 55), NOW);
    take(&mut table, 56, &made(&["Post"]));
    assert_eq!(needed(&table), 52);
    take(&mut table, 57, &made(&["Post", "User"]));
    assert_eq!(needed(&table), 55);
}

#[test]
fn it_is_of_one_numbering() {
    let mut table = table();
    excluded(&mut table, 50, 52);
    let late = ReadRange::new(Bookmark::NONE.with(Some(at(53))), at(53)).unwrap();
    table.take(WriteRecord::of_all(NAME, mark(1, 1, 30)), NOW);
    table.exclude((READER, pair()), (WriteEpoch(0), &late));
    table.account(DATABASE, (WriteEpoch(1), TransactionId(60)));
    let event = WriteEvent { written: mark(1, 1, 55), ..post(54, 55) };
    table.take_event(&event, NOW);
    assert_eq!(needed(&table), 55);
}
