//! Labels that no node has both of: how far they keep a write to the one label from a read of the other.

use hopcache_core::bookmark::{Bookmark, ReadRange};
use hopcache_core::limits::{EXCLUSIONS_MAX, PAIRS_OF_READ_MAX};
use hopcache_core::write_position::{Accounted, LabelPair};

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
    let asked = table.exclusions_asked(DATABASE);
    table.exclude((READER, pair()), (asked, &range));
}

/// `MATCH (p:Post) SET p.name = …`, sent when all up to `since` was committed.
fn post(since: u64, id: u64) -> WriteEvent {
    let role = TouchedRole { labels: &["Post"], ..TouchedRole::default() };
    let touched = Touched::These(touched(NAME_KEY, &[role]));
    WriteEvent { name: NAME, written: mark(1, 0, id), since: TransactionId(since), touched }
}

/// The node knows all up to this one.
fn known(table: &mut WritePositionTable, epoch: u64, id: u64) {
    let of = Accounted { reached: TransactionId(id), foreign: TransactionId(0) };
    table.account(DATABASE, (WriteEpoch(epoch), of));
}

/// A node that knows all up to 60.
fn table() -> WritePositionTable {
    let mut table = WritePositionTable::default();
    take(&mut table, 40, &by_id(1));
    known(&mut table, 0, 60);
    table
}

/// No user was touched.
const NEVER_TOUCHED: u64 = 40;

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
    let asked = table.exclusions_asked(DATABASE);
    table.forget_exclusions();
    assert_eq!(needed(&table), 55);
    let range = ReadRange::new(Bookmark::NONE.with(Some(at(50))), at(52)).unwrap();
    table.exclude((READER, pair()), (asked, &range));
    assert_eq!(needed(&table), 55, "it was asked before rights changed");
}

/// The write that was asked for ahead: it has begun after the answer, and nobody has touched the other label before.
#[test]
fn the_first_write_after_the_answer_ends_nothing_from_before_it() {
    let mut table = table();
    excluded(&mut table, 50, 52);
    for id in [55, 56, 58] {
        table.take_event(&post(id - 1, id), NOW);
        assert_eq!(needed(&table), NEVER_TOUCHED);
    }
    // An earlier one, of which this node hears only now, may have touched a user.
    table.take_event(&post(44, 45), NOW);
    assert!(needed(&table) >= 45);
}

/// The watcher's report of a foreign transaction comes before its mark.
#[test]
fn a_foreign_transaction_that_is_only_reported_ends_it() {
    let mut table = table();
    excluded(&mut table, 50, 52);
    table.take_event(&post(56, 57), NOW);
    assert_eq!(needed(&table), NEVER_TOUCHED);
    let reported = Accounted { reached: TransactionId(57), foreign: TransactionId(55) };
    assert!(table.lacks(DATABASE, (WriteEpoch(0), reported)));
    assert!(table.account(DATABASE, (WriteEpoch(0), reported)), "results are judged anew");
    assert_eq!(needed(&table), 57);
    assert!(!table.lacks(DATABASE, (WriteEpoch(0), reported)));
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
    known(&mut table, 1, 62);
    assert_eq!(needed(&table), 62, "by another numbering");
    known(&mut table, 0, 62);
    assert_eq!(needed(&table), NEVER_TOUCHED);
}

#[test]
fn whatever_may_give_a_node_both_ends_it() {
    let changed = |tag| touched(tag, &[TouchedRole::default()]);
    for tag in [POST, USER, TagId(103), TagId(104), TagId(105), TagId::FOREIGN] {
        let mut table = table();
        excluded(&mut table, 50, 52);
        table.take_event(&post(54, 55), NOW);
        assert_eq!(needed(&table), NEVER_TOUCHED);
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
    assert_eq!(needed(&table), NEVER_TOUCHED);
    take(&mut table, 57, &made(&["Post", "User"]));
    assert_eq!(needed(&table), 55);
}

#[test]
fn it_is_of_one_numbering() {
    let mut table = table();
    excluded(&mut table, 50, 52);
    let late = ReadRange::new(Bookmark::NONE.with(Some(at(53))), at(53)).unwrap();
    let asked = table.exclusions_asked(DATABASE);
    table.take(WriteRecord::of_all(NAME, mark(1, 1, 30)), NOW);
    table.exclude((READER, pair()), (asked, &late));
    known(&mut table, 1, 60);
    let event = WriteEvent { written: mark(1, 1, 55), ..post(54, 55) };
    table.take_event(&event, NOW);
    assert_eq!(needed(&table), 55);
}

/// A node that has heard of all transactions up to a mark judges by itself.
#[test]
fn a_mark_is_accounted_for_in_its_numbering() {
    let table = table();
    let of = [mark(1, 0, 60), mark(1, 0, 61), mark(1, 1, 55), mark(2, 0, 40)];
    assert_eq!(of.map(|told| table.accounts_for(told)), [true, false, false, false]);
}

/// I9: what was asked before writes that Neo4j may refuse takes no place from what has kept results.
#[test]
fn pairs_that_were_asked_ahead_take_half_of_the_places() {
    let mut table = table();
    let mut exclude = |number: usize, is_ahead: bool| {
        let id = 50 + u64::try_from(number).unwrap();
        let range = ReadRange::new(Bookmark::NONE.with(Some(at(id))), at(id)).unwrap();
        let asked = table.exclusions_asked(DATABASE);
        let asked = if is_ahead { asked.ahead() } else { asked };
        table.exclude((viewer(number), pair()), (asked, &range));
    };
    (0..EXCLUSIONS_MAX / 2).for_each(|number| exclude(number, false));
    (EXCLUSIONS_MAX / 2..3 * EXCLUSIONS_MAX).for_each(|number| exclude(number, true));
    // A result that has ended asks for a pair that was asked ahead before: questions ahead no longer take its place.
    let kept = 3 * EXCLUSIONS_MAX - 1;
    exclude(kept, false);
    (3 * EXCLUSIONS_MAX..6 * EXCLUSIONS_MAX).for_each(|number| exclude(number, true));
    let is_known = |number: &usize| table.are_apart((DATABASE, viewer(*number)), &pair().labels);
    assert!((1..EXCLUSIONS_MAX / 2).chain([kept]).all(|number| is_known(&number)));
    assert_eq!((0..6 * EXCLUSIONS_MAX).filter(is_known).count(), EXCLUSIONS_MAX);
}

fn viewer(number: usize) -> Viewer {
    let mut viewer = [2; 16];
    viewer[..8].copy_from_slice(&number.to_le_bytes());
    Viewer(viewer)
}

/// The labels that a need of these roles lacks from a touch of these, whatever the values are.
fn pairs_beside(need: &[(&[&str], bool)], touch: &[TouchedRole<'_>]) -> Vec<[String; 2]> {
    let constraints = need.iter().map(|(labels, _)| NodeConstraint::new([], labels.iter().copied()));
    let role = |(place, (_, is_ref)): (usize, &(&[&str], bool))| NeedRole {
        constraint: u16::try_from(place).ok(),
        is_ref: *is_ref,
    };
    let roles = need.iter().enumerate().map(role).collect();
    let shape_need = ShapeNeed { tags: [TYPE].into(), roles };
    let shape = NeedsShape::new(constraints.collect(), &[shape_need], [TYPE]);
    let pairs = shape.pairs_beside(&touched(TYPE, touch));
    pairs.into_iter().map(|pair| pair.map(String::from)).collect()
}

/// Before a write: which pairs of labels would keep a read, where nothing else does.
#[test]
fn pairs_are_wanted_where_nothing_else_separates() {
    let of = |labels| TouchedRole { labels, ..TouchedRole::default() };
    let user: &[(&[&str], bool)] = &[(&["User"], false)];
    assert_eq!(pairs_beside(user, &[of(&["Post"])]), [["Post", "User"]]);
    assert!(pairs_beside(user, &[of(&["User"])]).is_empty(), "it may be the same node");
    assert!(pairs_beside(user, &[of(&["Post", "User"])]).is_empty());
    assert!(pairs_beside(user, &[of(&[])]).is_empty());
    let exact = TouchedRole { labels_are_exact: true, ..of(&["Post"]) };
    assert!(pairs_beside(user, &[exact]).is_empty(), "it has no other label");
    let fresh = TouchedRole { is_fresh: true, ..of(&["Post"]) };
    assert!(pairs_beside(&[(&["User"], true)], &[fresh]).is_empty(), "another need finds the node");
    // Start and end of a relationship: either is enough.
    let ends: &[(&[&str], bool)] = &[(&["User"], false), (&["Post"], false)];
    assert_eq!(pairs_beside(ends, &[of(&["Tag"]), of(&["Post"])]), [["Tag", "User"]]);
    assert!(pairs_beside(ends, &[exact, of(&["Tag"])]).is_empty(), "the start is another node");
}

#[test]
fn one_read_wants_few_pairs() {
    let labels: Vec<String> = (0..2 * PAIRS_OF_READ_MAX).map(|label| format!("L{label}")).collect();
    let need = |place: usize| ShapeNeed {
        tags: [POST].into(),
        roles: [NeedRole { constraint: u16::try_from(place).ok(), is_ref: false }].into_iter().collect(),
    };
    let needs: Vec<ShapeNeed> = (0..labels.len()).map(need).collect();
    let constraints = labels.iter().map(|label| NodeConstraint::new([], [label.as_str()])).collect();
    let shape = NeedsShape::new(constraints, &needs, [POST]);
    let touched = touched(POST, &[TouchedRole { labels: &["Post"], ..TouchedRole::default() }]);
    assert_eq!(shape.pairs_beside(&touched).len(), PAIRS_OF_READ_MAX);
}
