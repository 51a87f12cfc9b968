//! Marks of written databases: how two merge, what they end, and what happens when ids go back.

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{WRITTEN_DATABASES_MAX, WRITTEN_TAGS_MAX};
use hopcache_core::tags::{Depends, TagId, Touched};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{
    Change, KnownDatabase, NameChange, WriteEpoch, WritePosition, WritePositionTable, WriteRecord,
};
use proptest::prelude::*;

/// When a node hears, where that does not matter.
pub(crate) const NOW: MonoTime = MonoTime(0);
pub(crate) const NAME: DatabaseTag = DatabaseTag(7);
const ALIAS: DatabaseTag = DatabaseTag(8);
pub(crate) const OTHER: DatabaseTag = DatabaseTag(9);

const ANY: Depends<'static> = Depends::OnAnything;

fn at(database: u8, id: u64) -> Position {
    Position { database: DatabaseUuid([database; 16]), id: TransactionId(id) }
}

pub(crate) fn mark(database: u8, epoch: u64, id: u64) -> WritePosition {
    WritePosition::at(WriteEpoch(epoch), at(database, id))
}

pub(crate) fn record(name: DatabaseTag, written: WritePosition) -> WriteRecord {
    WriteRecord::of_all(name, written)
}

/// The range of a run that carried `from`.
fn range(database: u8, from: u64, to: u64) -> ReadRange {
    ReadRange::new(Bookmark::NONE.with(Some(at(database, from))), at(database, to)).unwrap()
}

fn table(records: &[WriteRecord]) -> WritePositionTable {
    let mut table = WritePositionTable::default();
    records.iter().for_each(|record| {
        table.take(*record, NOW);
    });
    table
}

/// After a lost answer, as the engine does it.
fn doubt(table: &mut WritePositionTable, name: DatabaseTag) -> WritePosition {
    let written = table.in_doubt(name).unwrap();
    table.take(record(name, written), NOW);
    written
}

#[test]
fn a_mark_ends_what_carried_less() {
    let table = table(&[record(NAME, mark(1, 0, 50))]);
    for (from, is_ended) in [(0, true), (49, true), (50, false), (51, false)] {
        assert_eq!(table.ends(NAME, ANY, Some((&range(1, from, 60), NOW))), is_ended, "{from}");
    }
    let carried_nothing = ReadRange::new(Bookmark::NONE, at(1, 90)).unwrap();
    assert!(table.ends(NAME, ANY, Some((&carried_nothing, NOW))), "its end is no lower bound of what it saw");
    assert!(table.ends(NAME, ANY, None), "nothing is known of it");
    assert!(!table.ends(OTHER, ANY, Some((&range(2, 1, 1), NOW))), "another database");
    assert!(!WritePositionTable::default().ends(NAME, ANY, None));
}

/// Two names of one database: a write through one ends what was read through the other, also before this node has used that
/// name.
#[test]
fn an_alias_is_the_same_database() {
    let mut table = table(&[record(NAME, mark(1, 0, 50))]);
    assert!(table.ends(ALIAS, ANY, Some((&range(1, 49, 49), NOW))));
    assert_eq!(table.of(ALIAS), Some(mark(1, 0, 50)), "the only one that was written");
    table.learn(ALIAS, found(1));
    table.learn(OTHER, found(2));
    assert_eq!((table.of(ALIAS), table.of(OTHER)), (Some(mark(1, 0, 50)), None));
    assert_eq!(table.names_of(DatabaseUuid([1; 16])), [NAME, ALIAS]);
}

/// What a node's own Neo4j says about a name.
fn found(database: u8) -> KnownDatabase {
    KnownDatabase::by_answer(at(database, 30), MonoTime(7_000))
}

/// A server was replaced behind the same name.
#[test]
fn a_name_that_leads_elsewhere_ends_the_former_databases_entries() {
    let mut table = table(&[record(NAME, mark(1, 0, 50))]);
    let before = table.of(NAME);
    assert_eq!(table.learn(NAME, found(1)), NameChange::Name);
    assert_eq!(table.learn(ALIAS, found(1)), NameChange::Name);
    assert_eq!(table.learn(NAME, found(2)), NameChange::AnotherDatabase);
    assert!(table.ends(NAME, ANY, Some((&range(1, 90, 90), NOW))));
    assert!(!table.ends(NAME, ANY, Some((&range(2, 1, 1), NOW))));
    let still = table.still_needed(NAME, ANY, before).unwrap();
    assert!(still.is_seen_by(&range(2, 0, 1)), "no request waits for the former database's id");
    assert_eq!(table.known(ALIAS), None, "the whole server may be another one");
    // Only this node's Neo4j says where a name leads. A record of another database is kept, and waits for it.
    let other = record(NAME, mark(1, 0, 61));
    assert!(table.is_anothers(&other) && !table.is_anothers(&record(NAME, mark(2, 0, 61))));
    table.take(other, NOW);
    assert_eq!(table.of(NAME).unwrap().database(), DatabaseUuid([2; 16]));
    table.learn(NAME, found(1));
    assert_eq!(table.of(NAME), Some(mark(1, 0, 61)));
}

/// A request keeps the mark of its arrival. If ids are counted anew, that mark has no meaning any more.
#[test]
fn a_request_needs_the_mark_of_its_arrival() {
    let mut table = table(&[record(NAME, mark(1, 0, 50))]);
    let asked = table.of(NAME);
    table.take(record(NAME, mark(1, 0, 60)), NOW);
    assert_eq!(table.still_needed(NAME, ANY, asked), asked);
    assert_eq!(table.still_needed(NAME, ANY, None), None);
    table.take(record(NAME, mark(1, 1, 41)), NOW);
    assert_eq!(table.still_needed(NAME, ANY, asked), Some(mark(1, 1, 41)));
}

/// Ids of an earlier epoch may be later than the new mark.
#[test]
fn what_was_read_in_an_earlier_epoch_has_seen_no_mark() {
    let mut table = table(&[record(NAME, mark(1, 0, 104))]);
    let (heard, range) = (MonoTime(5_000), range(1, 102, 102));
    assert!(table.ends(NAME, ANY, Some((&range, NOW))) && !table.is_of_earlier_epoch(&range, MonoTime(0)));
    table.take(record(NAME, mark(1, 1, 72)), heard);
    assert!(!table.ends(NAME, ANY, Some((&range, heard))), "by its id alone");
    assert!(table.is_of_earlier_epoch(&range, MonoTime(4_999)) && !table.is_of_earlier_epoch(&range, heard));
    table.take(record(NAME, mark(1, 1, 73)), heard + Millis(1));
    assert!(!table.is_of_earlier_epoch(&range, heard), "the same epoch goes on");
    let settled = doubt_and_settle(&mut table, 90, heard + Millis(2));
    assert!(
        table.is_of_earlier_epoch(&range, MonoTime(4_999)),
        "{settled:?}: what was before a step back stays ended"
    );
}

/// The epoch that settles a write in doubt goes on with the same ids.
#[test]
fn what_was_read_in_doubt_is_of_no_earlier_epoch() {
    let mut table = table(&[record(NAME, mark(1, 0, 50))]);
    let heard = MonoTime(5_000);
    doubt_and_settle(&mut table, 53, heard);
    let is_earlier = |id| table.is_of_earlier_epoch(&range(1, id, id), MonoTime(4_000));
    assert!(!is_earlier(53) && is_earlier(54), "54 may be of now, or of before a restore");
    // This node has not heard of the doubt.
    let mut other = WritePositionTable::default();
    other.take(record(NAME, mark(1, 0, 50)), NOW);
    other.take(record(NAME, mark(1, 1, 53)), heard);
    assert!(!other.is_of_earlier_epoch(&range(1, 53, 53), NOW));
}

/// A restore beside a write in doubt: an id is earlier than those that were known before.
#[test]
fn a_doubt_hides_no_step_back() {
    let mut table = table(&[record(NAME, mark(1, 0, 104))]);
    let before = doubt(&mut table, NAME);
    let (settled, is_back) = table.after_asking(Some(before), at(1, 73));
    assert!(is_back, "what the store has is purged");
    table.take(record(NAME, settled), MonoTime(5_000));
    assert!(table.is_of_earlier_epoch(&range(1, 73, 73), MonoTime(4_000)));
}

/// A write in doubt, and what its node hears when it asks.
fn doubt_and_settle(table: &mut WritePositionTable, newest: u64, now: MonoTime) -> WritePosition {
    let before = doubt(table, NAME);
    let (settled, _) = table.after_asking(Some(before), at(1, newest));
    table.take(record(NAME, settled), now);
    settled
}

/// A node that begins hears of an epoch that is not its first. It has read nothing yet, and what the store has is of that epoch.
#[test]
fn the_first_epoch_that_a_node_hears_of_ends_nothing() {
    let mut table = WritePositionTable::default();
    table.take(record(NAME, mark(1, 3, 50)), MonoTime(5_000));
    assert!(!table.is_of_earlier_epoch(&range(1, 51, 51), MonoTime(0)));
}

#[test]
fn ids_that_go_back_begin_an_epoch() {
    let mut table = table(&[record(NAME, mark(1, 0, 90))]);
    let before = table.of(NAME);
    assert_eq!(table.after_asking(before, at(1, 90)), (mark(1, 0, 90), false));
    assert_eq!(table.after_asking(before, at(1, 95)), (mark(1, 0, 95), false));
    let (written, is_back) = table.after_asking(before, at(1, 41));
    assert_eq!((written, is_back), (mark(1, 1, 41), true));
    assert_eq!(table.after_own_write(before, at(1, 41)), (mark(1, 1, 41), true));
    assert_eq!(table.take(record(NAME, written), NOW), Change::Later);
    assert!(!table.ends(NAME, ANY, Some((&range(1, 41, 41), NOW))));
    // The old numbering is over, whoever still tells it.
    assert_eq!(table.take(record(NAME, mark(1, 0, 99)), NOW), Change::Known);
    assert_eq!(table.of(NAME), Some(mark(1, 1, 41)));
}

/// Two writes at once may report one and the same later id: that is no going back.
#[test]
fn a_later_write_that_is_told_first_is_no_going_back() {
    let mut table = table(&[record(NAME, mark(1, 0, 50))]);
    let before = table.of(NAME);
    table.take(record(NAME, mark(1, 0, 53)), NOW);
    assert_eq!(table.after_own_write(before, at(1, 52)), (mark(1, 0, 52), false));
    assert_eq!(table.take(record(NAME, mark(1, 0, 52)), NOW), Change::Known);
    assert_eq!(table.of(NAME), Some(mark(1, 0, 53)));
}

#[test]
fn a_lost_write_ends_everything_until_somebody_asks() {
    let mut table = table(&[record(NAME, mark(1, 0, 50))]);
    let lost = doubt(&mut table, NAME);
    assert!(lost.is_unsettled() && lost.position().is_none());
    assert!(table.ends(NAME, ANY, Some((&range(1, u64::MAX - 1, u64::MAX - 1), NOW))));
    let (settled, is_back) = table.after_asking(Some(lost), at(1, 51));
    assert_eq!((settled, is_back), (mark(1, 1, 51), false));
    table.take(record(NAME, settled), NOW);
    assert!(
        table.ends(NAME, ANY, Some((&range(1, 50, 51), NOW)))
            && !table.ends(NAME, ANY, Some((&range(1, 51, 51), NOW)))
    );
}

/// The schedule in the module's documentation.
#[test]
fn settling_undoes_no_other_write() {
    let mut a = table(&[record(NAME, mark(1, 0, 49))]);
    let lost = doubt(&mut a, NAME);
    let mut b = a.clone();
    let (heard_by_a, _) = a.after_asking(Some(lost), at(1, 50));
    let (own_of_b, _) = b.after_own_write(Some(lost), at(1, 51));
    b.take(record(NAME, own_of_b), NOW);
    for table in [&mut a, &mut b] {
        table.take(record(NAME, own_of_b), NOW);
        table.take(record(NAME, heard_by_a), NOW);
        assert!(table.of(NAME).unwrap().is_unsettled(), "50 is before the write");
        let (settled, _) = table.after_asking(table.of(NAME), at(1, 51));
        assert_eq!(settled, mark(1, 2, 51));
    }
}

#[test]
fn a_full_table_says_so() {
    let mut table = WritePositionTable::default();
    for number in 0..WRITTEN_DATABASES_MAX {
        let mut uuid = [0; 16];
        uuid[..8].copy_from_slice(&number.to_be_bytes());
        let position = Position { database: DatabaseUuid(uuid), id: TransactionId(1) };
        let written = WritePosition::at(WriteEpoch(0), position);
        assert_eq!(table.take(record(DatabaseTag(number as u64), written), NOW), Change::Later);
    }
    assert_eq!(
        table.take(record(DatabaseTag(u64::MAX), mark(255, 0, 1)), NOW),
        Change::Full { ends_others: false }
    );
    assert_eq!(table.records().len(), WRITTEN_DATABASES_MAX);
    // Of a database that has a place the mark is kept, by whatever name it comes: its entries by other names are ended.
    let database = DatabaseUuid([0; 16]);
    let later = WritePosition::at(WriteEpoch(0), Position { database, id: TransactionId(9) });
    assert_eq!(table.take(record(DatabaseTag(u64::MAX), later), NOW), Change::Full { ends_others: true });
    assert_eq!(table.of(DatabaseTag(0)), Some(later));
}

#[test]
fn other_texts_are_no_records() {
    let text = record(NAME, mark(1, 2, 50)).to_text();
    assert_eq!(WriteRecord::from_text(&text), Some(record(NAME, mark(1, 2, 50))));
    for other in ["", "x", &text[1..], &text[..text.len() - 1], &format!("{text} "), &text.replace('0', "g")]
    {
        assert_eq!(WriteRecord::from_text(other), None, "{other}");
    }
}

pub(crate) fn tagged(tag: u64, written: WritePosition) -> WriteRecord {
    WriteRecord { tag: Some(TagId(tag)), ..record(NAME, written) }
}

#[test]
fn a_write_ends_only_what_depends_on_what_it_touched() {
    let table = table(&[record(NAME, mark(1, 0, 40)), tagged(1, mark(1, 0, 50)), tagged(2, mark(1, 0, 45))]);
    let ends = |reads: &[u64], from| {
        let reads: Vec<TagId> = reads.iter().copied().map(TagId).collect();
        table.ends(NAME, Depends::OnTags(&reads), Some((&range(1, from, 60), NOW)))
    };
    assert!(ends(&[1], 49) && !ends(&[1], 50));
    assert!(ends(&[2], 44) && !ends(&[2], 45));
    assert!(ends(&[3, 2, 1], 49) && !ends(&[3, 2, 1], 50));
    assert!(!ends(&[3], 40) && ends(&[3], 39), "an earlier write has touched anything");
    assert!(table.ends(NAME, ANY, Some((&range(1, 49, 60), NOW))), "what it depends on is not known");
    assert_eq!(table.of(NAME), Some(mark(1, 0, 50)));
    assert_eq!(table.needed(NAME, Some(&[TagId(2)])), Some(mark(1, 0, 45)));
}

/// A restored database: the marks of tags are of ids that are counted no more.
#[test]
fn an_epoch_ends_the_marks_of_tags() {
    let mut table = table(&[tagged(1, mark(1, 0, 90))]);
    table.take(record(NAME, mark(1, 1, 41)), NOW);
    assert_eq!(table.needed(NAME, Some(&[TagId(1)])), Some(mark(1, 1, 41)));
    assert_eq!(table.take(tagged(1, mark(1, 0, 95)), NOW), Change::Known, "it is told too late");
    // A tag of an epoch that this node has not heard of: anything may have been written in it.
    table.take(tagged(2, mark(1, 2, 30)), NOW);
    assert!(table.ends(NAME, Depends::OnTags(&[TagId(3)]), Some((&range(1, 29, 60), NOW))));
}

#[test]
fn too_many_tags_are_anything() {
    let mut table = WritePositionTable::default();
    for tag in 0..=WRITTEN_TAGS_MAX as u64 {
        table.take(tagged(tag, mark(1, 0, 100 + tag)), NOW);
    }
    let newest = mark(1, 0, 100 + WRITTEN_TAGS_MAX as u64);
    assert_eq!(table.records(), [record(NAME, newest)]);
}

#[test]
fn a_write_marks_what_it_has_touched_where_its_ids_are_known() {
    let table = table(&[record(NAME, mark(1, 3, 40))]);
    let touched = Touched::tags([TagId(1), TagId(2)]);
    let of =
        |written: WritePosition, touched: &Touched| table.event_of(NAME, (None, written), touched).records();
    let now = mark(1, 3, 50);
    assert_eq!(of(now, &touched), [tagged(1, now), tagged(2, now)]);
    assert_eq!(of(now, &Touched::Anything), [record(NAME, now)]);
    assert_eq!(of(now, &Touched::nothing()), []);
    assert_eq!(of(mark(1, 4, 50), &touched), [record(NAME, mark(1, 4, 50))], "another epoch begins with it");
    assert_eq!(of(mark(1, 3, u64::MAX), &touched).len(), 1, "its id is not known");
}

/// What a node forwards counts for the one request.
#[test]
fn a_request_needs_what_the_sender_or_this_node_has_heard() {
    let table = table(&[tagged(1, mark(1, 0, 50))]);
    let needed = |told| table.needed_beside(NAME, Depends::OnTags(&[TagId(1)]), told);
    assert_eq!((needed(None), needed(Some(mark(1, 0, 40)))), (Some(mark(1, 0, 50)), Some(mark(1, 0, 50))));
    assert_eq!(needed(Some(mark(1, 0, 60))), Some(mark(1, 0, 60)));
    assert_eq!(needed(Some(mark(2, 0, 60))), Some(mark(1, 0, 50)), "the sender took it for another database");
    assert_eq!(
        WritePositionTable::default().needed_beside(NAME, ANY, Some(mark(1, 0, 9))),
        Some(mark(1, 0, 9))
    );
}

fn any_tagged_record() -> impl Strategy<Value = WriteRecord> {
    (0..4_u64, 0..20_u64, prop::option::of(0..4_u64))
        .prop_map(|(epoch, id, tag)| WriteRecord { tag: tag.map(TagId), ..record(NAME, mark(1, epoch, id)) })
}

fn any_record() -> impl Strategy<Value = WriteRecord> {
    // One name for each database, so that the order of tellings does not decide what a name means.
    let id = prop_oneof![0..6_u64, Just(u64::MAX)];
    (0..3_u8, 0..4_u64, id)
        .prop_map(|(database, epoch, id)| record(DatabaseTag(u64::from(database)), mark(database, epoch, id)))
}

proptest! {
    /// Loss aside, nodes that heard the same records in any order, and any number of times, know the same.
    #[test]
    fn order_and_repetition_change_nothing(
        records in proptest::collection::vec(any_record(), 0..20),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let straight = table(&records);
        let mut other = WritePositionTable::default();
        if !records.is_empty() {
            order.iter().for_each(|place| { other.take(*place.get(&records), NOW); });
        }
        records.iter().rev().for_each(|record| { other.take(*record, NOW); });
        prop_assert_eq!(straight.records(), other.records());
    }

    /// Whatever the order, a table ends all that a record of its epoch ends.
    #[test]
    fn no_order_forgets_a_record(
        records in proptest::collection::vec(any_tagged_record(), 1..20), tag in 0..4_u64, from in 0..20_u64,
    ) {
        let table = table(&records);
        let newest = records.iter().map(|record| record.written.epoch()).max();
        let reads = [TagId(tag)];
        let of_read = |record: &&WriteRecord| {
            Some(record.written.epoch()) == newest && record.tag.is_none_or(|own| own == TagId(tag))
        };
        let is_ended = records.iter().filter(of_read).any(|each| !each.written.is_seen_by(&range(1, from, 20)));
        prop_assert!(!is_ended || table.ends(NAME, Depends::OnTags(&reads), Some((&range(1, from, 20), NOW))));
    }

    /// Within an epoch order and repetition change nothing for tags either.
    #[test]
    fn tags_of_one_epoch_merge(
        records in proptest::collection::vec(any_tagged_record(), 0..20),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 40),
    ) {
        let of_one: Vec<_> = records.iter().map(|each| WriteRecord {
            written: mark(1, 0, each.written.position().map_or(0, |at| at.id.0)), ..*each
        }).collect();
        let straight = table(&of_one);
        let mut other = WritePositionTable::default();
        if !of_one.is_empty() {
            order.iter().for_each(|place| { other.take(*place.get(&of_one), NOW); });
        }
        of_one.iter().rev().for_each(|record| { other.take(*record, NOW); });
        prop_assert_eq!(straight.records(), other.records());
    }

    /// A mark only ever ends more, within an epoch.
    #[test]
    fn a_later_mark_ends_more(id in 0..100_u64, more in 0..100_u64, from in 0..200_u64) {
        let (early, late) = (mark(1, 0, id), mark(1, 0, id + more));
        prop_assert!(late.is_at_or_after(&early));
        prop_assert!(!late.is_seen_by(&range(1, from, from)) || early.is_seen_by(&range(1, from, from)));
    }

    #[test]
    fn records_survive_their_text(
        name: u64, uuid: [u8; 16], epoch: u64, id: u64, tag: Option<u64>,
    ) {
        let position = Position { database: DatabaseUuid(uuid), id: TransactionId(id) };
        let written = WritePosition::at(WriteEpoch(epoch), position);
        let record = WriteRecord { name: DatabaseTag(name), written, tag: tag.map(TagId) };
        prop_assert_eq!(WriteRecord::from_text(&record.to_text()), Some(record));
    }
}
