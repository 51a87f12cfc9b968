//! Tests of what is told, and in which order.

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::TagId;
use hopcache_core::write_position::{WriteEpoch, WritePosition};

use super::*;

fn record(name: u64, tag: Option<u64>, id: u64) -> WriteRecord {
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&name.to_be_bytes());
    let position = Position { database: DatabaseUuid(uuid), id: TransactionId(id) };
    let written = WritePosition::at(WriteEpoch(0), position);
    WriteRecord { name: DatabaseTag(name), written, tag: tag.map(TagId) }
}

/// Full of the records of these names: (1, 100), (2, 101), (1, 102) and so on.
fn full_of(names: u64) -> State {
    let mut state = State::default();
    for at in 0..WRITTEN_RECORDS_MAX as u64 {
        state.enlist(record(1 + at % names, Some(at), 100 + at).into());
    }
    assert_eq!(state.records.len(), WRITTEN_RECORDS_MAX);
    state
}

#[test]
fn a_telling_is_no_longer_than_what_a_node_reads() {
    let mut state = full_of(2);
    let last = 99 + WRITTEN_RECORDS_MAX as u64;
    state.enlist(record(3, Some(7), 5).into());
    let news = state.records_after(0);
    assert!(news.len() <= WRITTEN_RECORDS_MAX, "{}", news.len());
    let events: Vec<_> = news.iter().copied().map(WriteEvent::from).collect();
    assert_eq!(state.after(0).events, events, "the writes themselves are not kept any more");
    assert_eq!(news, [record(1, None, last - 1), record(2, None, last), record(3, None, 5)]);
}

/// The one record of a name is told again: a later write that counts as told by it has a tag that nobody was told of.
#[test]
fn what_counts_for_everything_is_told_as_such() {
    let mut state = full_of(2);
    let told = state.after(0).number;
    state.enlist(record(3, Some(7), 5).into());
    let number = state.enlist(record(1, Some(u64::MAX), 90).into());
    assert!(number > told, "{number}: everyone has been told up to {told}");
    assert_eq!(state.records_after(told).len(), 3);
}

#[test]
fn a_name_makes_room_with_its_own_tags_first() {
    let mut state = full_of(2);
    state.enlist(record(1, Some(u64::MAX), 90).into());
    let news = state.records_after(0);
    assert_eq!(news.len(), WRITTEN_RECORDS_MAX / 2 + 1);
    assert_eq!(news[0], record(1, None, 98 + WRITTEN_RECORDS_MAX as u64));
}

/// A name that leads to another database: the marks of the former one are told as well.
#[test]
fn two_databases_by_one_name_stand_side_by_side() {
    let mut state = full_of(1);
    let moved = WriteRecord { name: DatabaseTag(1), ..record(9, Some(0), 3) };
    state.enlist(moved.into());
    state.enlist(record(3, None, 5).into());
    let news = state.records_after(0);
    let former = record(1, None, 99 + WRITTEN_RECORDS_MAX as u64);
    assert_eq!(news, [former, WriteRecord { tag: None, ..moved }, record(3, None, 5)]);
}

/// A count has a later number than its write's marks, so nobody hears of it before them. What has been told is not told again.
#[test]
fn a_count_is_told_after_its_marks() {
    let count = |number| {
        let WriteRecord { written, .. } = record(1, Some(7), 100);
        CountedWrite { number, written, after: TransactionId(99) }
    };
    let mut state = State::default();
    let marked = state.enlist(record(1, Some(7), 100).into());
    let counted = state.enlist_count(count(1));
    assert!(counted > marked);
    assert_eq!(state.after(0).counts, [count(1)]);
    assert_eq!(state.after(marked), News { number: counted, events: Vec::new(), counts: vec![count(1)] });
    let earlier = state.enlist(record(1, Some(7), 99).into());
    assert!(earlier > counted, "an earlier write of the same tag is no known one: it may have other values");
    let again = state.enlist_count(count(2));
    assert_eq!(state.after(earlier), News { number: again, events: Vec::new(), counts: vec![count(2)] });
    for number in 3..2 * COUNTED_TOLD_MAX as u64 {
        state.enlist_count(count(number));
    }
    assert_eq!(state.after(0).counts.len(), COUNTED_TOLD_MAX);
}

/// Each write is told by itself, also where a later one of the same tag was told. Whoever lacks one that is not kept any more is told the
/// marks of all that it may lack.
#[test]
fn writes_are_told_one_by_one_as_long_as_they_are_kept() {
    let event = |tag, id| WriteEvent::from(record(1, Some(tag), id));
    let mut state = State::default();
    let first = state.enlist(event(7, 51));
    let second = state.enlist(event(7, 50));
    assert_eq!(state.after(0).events, [event(7, 51), event(7, 50)]);
    assert_eq!(state.after(first), News { number: second, events: vec![event(7, 50)], counts: Vec::new() });
    for at in 0..EVENTS_KEPT_MAX as u64 {
        state.enlist(event(8, 100 + at));
    }
    let last = 99 + EVENTS_KEPT_MAX as u64;
    let marks = [event(7, 51), event(8, last)];
    assert_eq!(
        state.after(first).events,
        marks,
        "the write of 50 is not kept: the mark of its tag is told again"
    );
    assert_eq!(state.after(second).events.len(), EVENTS_KEPT_MAX);
}
