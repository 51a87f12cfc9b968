//! What refines the marks of tags: which reads an anchored write ends, what bounds it, and what a node does that may have missed a write.

mod bookkeeping;
mod bounds;
mod exclusions;
mod history;
mod model;
mod small_world;

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::{
    ClassId, Depends, Key, NeedClasses, NeedRole, NeedsShape, NodeConstraint, Refiner, ShapeNeed, TagId,
    Touched, TouchedRole, TouchedTags, Viewer,
};
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::{
    Change, WriteEpoch, WriteEvent, WritePosition, WritePositionTable, WriteRecord,
};

const NOW: MonoTime = MonoTime(1_000_000);
const NAME: DatabaseTag = DatabaseTag(7);

fn mark(database: u8, epoch: u64, id: u64) -> WritePosition {
    let position = Position { database: DatabaseUuid([database; 16]), id: TransactionId(id) };
    WritePosition::at(WriteEpoch(epoch), position)
}

const ID: Key<&str> = Key::Property("id");
const NAME_KEY: TagId = TagId(20);
const TYPE: TagId = TagId(30);

fn tagged(tag: TagId, id: u64) -> WriteRecord {
    WriteRecord { name: NAME, written: mark(1, 0, id), tag: Some(tag) }
}

/// A write that touched a tag of nodes so.
fn touched(tag: TagId, roles: &[TouchedRole<'_>]) -> TouchedTags {
    let mut refiner = Refiner::default();
    refiner.fact(tag, roles);
    refiner.finish([])
}

/// `MATCH (n {id: …}) SET n.name = …`.
fn by_id(class: u64) -> TouchedTags {
    let keys: &[(Key<&str>, &[ClassId])] = &[(ID, &[ClassId(class)])];
    touched(NAME_KEY, &[TouchedRole { keys, ..TouchedRole::default() }])
}

fn event(name: DatabaseTag, written: WritePosition, touched: &TouchedTags) -> WriteEvent {
    // Nothing was committed while it was under way.
    let since = written.position().map_or(0, |position| position.id.0.saturating_sub(1));
    WriteEvent { name, written, since: TransactionId(since), touched: Touched::These(touched.clone()) }
}

fn take(table: &mut WritePositionTable, id: u64, touched: &TouchedTags) -> Change {
    table.take_event(&event(NAME, mark(1, 0, id), touched), NOW)
}

/// The id up to which a read of `.name` has to have seen, of nodes with one of these values of a key.
fn needed_by(table: &WritePositionTable, key: Key<&str>, classes: &[u64]) -> u64 {
    needed(table, NAME_KEY, &[(NodeConstraint::new([key], []), false)], &[classes])
}

fn needed(
    table: &WritePositionTable,
    tag: TagId,
    nodes: &[(NodeConstraint, bool)],
    classes: &[&[u64]],
) -> u64 {
    let role = |(place, (_, is_ref)): (usize, &(NodeConstraint, bool))| NeedRole {
        constraint: u16::try_from(place).ok(),
        is_ref: *is_ref,
    };
    let need = ShapeNeed { tags: [tag].into(), roles: nodes.iter().enumerate().map(role).collect() };
    let constraints = nodes.iter().map(|(constraint, _)| constraint.clone()).collect();
    let shape = NeedsShape::new(constraints, &[need], [tag]);
    let classes = NeedClasses::new(classes.iter().map(|of_key| of_key.iter().copied().map(ClassId)));
    let needed = table.needed_by(NAME, Depends::OnNeeds(&shape, &classes, Viewer::default())).unwrap();
    assert!(table.needed(NAME, Some(&[tag])).unwrap().is_at_or_after(&needed), "tags alone end more");
    needed.position().unwrap().id.0
}

#[test]
fn an_anchored_write_ends_who_finds_by_the_same_value() {
    let mut table = WritePositionTable::default();
    assert_eq!(take(&mut table, 50, &by_id(42)), Change::Later);
    assert_eq!(needed_by(&table, ID, &[42]), 50);
    assert_eq!(needed_by(&table, ID, &[7, 42]), 50, "one of a list");
    assert_eq!(needed_by(&table, ID, &[7]), 0);
    assert_eq!(needed_by(&table, ID, &[]), 50, "a value without a class");
    assert_eq!(needed_by(&table, Key::Property("uid"), &[7]), 50, "another key separates nothing");
    assert_eq!(needed(&table, NAME_KEY, &[], &[]), 50, "a need without roles");
    assert_eq!(table.needed(NAME, Some(&[NAME_KEY])), Some(mark(1, 0, 50)), "a read by its tags");
    assert_eq!(table.needed(NAME, None), Some(mark(1, 0, 50)));
    assert_eq!(take(&mut table, 50, &by_id(42)), Change::Known);
    assert_eq!(take(&mut table, 49, &by_id(7)), Change::Later, "an earlier one is no known one");
    assert_eq!((needed_by(&table, ID, &[7]), needed_by(&table, ID, &[42])), (49, 50));
    assert_eq!(table.records(), [WriteRecord::of_all(NAME, mark(1, 0, 0)), tagged(NAME_KEY, 50)]);
}

/// A relationship is needed by both ends: a write that differs at one of them does not concern the read.
#[test]
fn one_role_separates() {
    let mut table = WritePositionTable::default();
    let keys: &[(Key<&str>, &[ClassId])] = &[(ID, &[ClassId(42)])];
    let (known, unknown) = (TouchedRole { keys, ..TouchedRole::default() }, TouchedRole::default());
    take(&mut table, 50, &touched(TYPE, &[unknown, known]));
    let by_id = || NodeConstraint::new([ID], []);
    let needed = |classes: &[&[u64]]| needed(&table, TYPE, &[(by_id(), false), (by_id(), false)], classes);
    assert_eq!(needed(&[&[7], &[42]]), 50);
    assert_eq!(needed(&[&[42], &[7]]), 0);
    // Of a role that the write does not tell nothing is known.
    take(&mut table, 51, &touched(TYPE, &[known]));
    let needed =
        |classes: &[&[u64]]| self::needed(&table, TYPE, &[(by_id(), false), (by_id(), false)], classes);
    assert_eq!(needed(&[&[42], &[7]]), 51);
    // Each write is separated at another end. One end is asked for all writes: there one of them is not separated.
    assert_eq!(needed(&[&[7], &[7]]), 50, "more than necessary");
}

/// `CREATE (:A {id: 42})`: a node that is found otherwise is not the new one, nor is one of another label, or with a property that the
/// new one lacks. Its element id may be any.
#[test]
fn a_new_node_is_known_as_a_whole() {
    let mut table = WritePositionTable::default();
    let keys: &[(Key<&str>, &[ClassId])] = &[(ID, &[ClassId(42)])];
    let role = TouchedRole {
        keys,
        all_but: Some(&["seen"]),
        labels: &["A"],
        labels_are_exact: true,
        is_fresh: true,
    };
    take(&mut table, 50, &touched(NAME_KEY, &[role]));
    let of = |key, label: Option<&'static str>, is_ref| {
        needed(&table, NAME_KEY, &[(NodeConstraint::new([key], label), is_ref)], &[&[7]])
    };
    assert_eq!((of(ID, None, false), of(Key::Property("uid"), None, false)), (0, 0));
    assert_eq!((of(Key::Property("seen"), None, false), of(Key::ElementId, None, false)), (50, 50));
    assert_eq!(
        (of(Key::Property("seen"), Some("B"), false), of(Key::Property("seen"), Some("A"), false)),
        (0, 50)
    );
    assert_eq!(of(Key::Property("seen"), None, true), 0);
}

/// A gap: nothing is forgotten of what it hides, and later writes stay apart.
#[test]
fn what_may_lack_is_loose() {
    let mut table = WritePositionTable::default();
    take(&mut table, 50, &by_id(42));
    take(&mut table, 60, &by_id(43));
    assert_eq!(table.take_beside(tagged(NAME_KEY, 55), NOW), Change::Known, "write 55 may be among them");
    assert!(table.unrefine(mark(1, 0, 55)) && !table.unrefine(mark(1, 0, 55)));
    let of = |table: &WritePositionTable| [7, 42, 43].map(|class| needed_by(table, ID, &[class]));
    assert_eq!(of(&table), [55, 55, 60]);
    take(&mut table, 54, &by_id(7));
    assert_eq!(of(&table), [55, 55, 60], "it ends nothing more");
    assert_eq!(table.take_beside(tagged(NAME_KEY, 61), NOW), Change::Later, "a write that has not come");
    assert_eq!(of(&table), [61; 3]);
    take(&mut table, 70, &by_id(42));
    assert!(!table.unrefine(mark(2, 0, 99)) && table.unrefine(mark(1, 1, 1)), "an epoch that is not known");
    assert_eq!(of(&table), [70; 3]);
}

#[test]
fn a_write_without_refinement_is_loose() {
    let mut table = WritePositionTable::default();
    take(&mut table, 50, &by_id(42));
    assert_eq!(take(&mut table, 51, &TouchedTags::new([NAME_KEY], None)), Change::Later);
    assert_eq!(needed_by(&table, ID, &[7]), 51);
    assert_eq!(take(&mut table, 52, &TouchedTags::default()), Change::Known, "it has touched nothing");
    assert_eq!(table.take(tagged(NAME_KEY, 53), NOW), Change::Later);
    assert_eq!(needed_by(&table, ID, &[7]), 53);
}

/// Where its id says nothing, an anchored write is one of everything, as each other.
#[test]
fn a_write_of_another_count_has_touched_anything() {
    let mut table = WritePositionTable::default();
    take(&mut table, 90, &by_id(42));
    table.take_event(&event(NAME, mark(1, 1, 41), &by_id(42)), NOW);
    assert_eq!((table.of(NAME), needed_by(&table, ID, &[7])), (Some(mark(1, 1, 41)), 41));
    table.take_event(&event(NAME, mark(1, 1, 42), &by_id(7)), NOW);
    assert_eq!(
        (needed_by(&table, ID, &[7]), needed_by(&table, ID, &[42])),
        (42, 41),
        "anchors of before are gone"
    );
    assert_eq!(table.take_event(&event(NAME, mark(1, 0, 95), &by_id(1)), NOW), Change::Known);
    table.take_event(&event(NAME, mark(1, 1, u64::MAX), &by_id(7)), NOW);
    assert!(table.of(NAME).unwrap().is_unsettled());
}

/// a finds `(j {status: 'new'})` and waits for the lock of j · b sets the status to 'running', and is 51 · a sets `j.owner`, and is 52.
#[test]
fn a_value_may_change_while_a_write_is_under_way() {
    const STATUS: Key<&str> = Key::Property("status");
    const GAINED: TagId = TagId(40);
    const ANY_GAINED: TagId = TagId(41);
    let by_status = |class: u64| {
        let keys: &[(Key<&str>, &[ClassId])] = &[(STATUS, &[ClassId(class)])];
        touched(NAME_KEY, &[TouchedRole { keys, ..TouchedRole::default() }])
    };
    let gained = |class: u64| {
        let keys: &[(Key<&str>, &[ClassId])] = &[(STATUS, &[ClassId(class)])];
        touched(GAINED, &[TouchedRole { keys, ..TouchedRole::default() }])
    };
    let needed = |table: &WritePositionTable, class: u64| {
        let found = NodeConstraint::found_by([(STATUS, Some([GAINED, ANY_GAINED]))], []);
        needed(table, NAME_KEY, &[(found, false)], &[&[class]])
    };
    let (new, running, other) = (1, 2, 3);
    let written = |table: &mut WritePositionTable, since: u64| {
        let event = event(NAME, mark(1, 0, 52), &by_status(new));
        table.take_event(&WriteEvent { since: TransactionId(since), ..event }, NOW);
    };
    let mut table = WritePositionTable::default();
    written(&mut table, 49);
    assert_eq!((needed(&table, new), needed(&table, running)), (52, 0), "nobody has changed the value");
    take(&mut table, 51, &gained(running));
    assert_eq!(
        (needed(&table, running), needed(&table, other)),
        (52, 0),
        "the node may have this value by now"
    );
    let mut table = WritePositionTable::default();
    take(&mut table, 51, &gained(running));
    written(&mut table, 51);
    assert_eq!(needed(&table, running), 0, "it has found what was there after the change");
    // Of a write that did not go through this cluster nobody knows which value it has changed.
    let mut table = WritePositionTable::default();
    written(&mut table, 49);
    table.take(tagged(TagId::FOREIGN, 50), NOW);
    assert_eq!((needed(&table, running), needed_by(&table, ID, &[7])), (52, 52), "`id` is another key");
    let mut table = WritePositionTable::default();
    take(&mut table, 52, &by_id(42));
    table.take(tagged(TagId::FOREIGN, 50), NOW);
    assert_eq!(needed_by(&table, ID, &[7]), 0, "of a key that never changes");
}
