//! The board of marks that a store keeps, and its log of writes.

use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{EVENT_LOG_PIECES_MAX, WRITTEN_DATABASES_MAX, WRITTEN_RECORDS_MAX};
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::{EventCursor, WriteBoard, WriteEvent, WriteRecord};

use super::written::{NAME, NOW, OTHER, mark, record, tagged};

#[test]
fn the_board_names_those_who_listen() {
    let (one, other) = (NodeName::new("one").unwrap(), NodeName::new("other").unwrap());
    let now = |ms| MonoTime(1_000_000) + Millis(ms);
    let mut board = WriteBoard::default();
    assert_eq!(board.hear(now(0), (&one, Millis(500)), None).records, []);
    assert_eq!(board.hear(now(300), (&other, Millis(500)), None).records, []);
    let told = board.tell(now(400), (&[record(NAME, mark(1, 0, 50))], &[]));
    assert_eq!(told, (vec![(one.clone(), Millis(100)), (other.clone(), Millis(400))], Vec::new()));
    assert_eq!(board.tell(now(600), (&[record(NAME, mark(1, 0, 49))], &[])).0, [(other, Millis(200))]);
    assert_eq!(board.hear(now(900), (&one, Millis(500)), None).records, [record(NAME, mark(1, 0, 50))]);
    board.tell(now(900), (&[record(NAME, mark(2, 0, 3))], &[]));
    let kept = board.hear(now(900), (&one, Millis(500)), None).records;
    assert_eq!(kept, [record(NAME, mark(1, 0, 50)), record(NAME, mark(2, 0, 3))], "two databases");
}

/// Who has read nothing reads all pieces, and hears up to where writes may lack among them.
#[test]
fn the_log_is_whole_above_its_floor() {
    let me = NodeName::new("me").unwrap();
    let mut board = WriteBoard::default();
    board.tell(NOW, (&[record(NAME, mark(1, 0, 9))], &[]));
    board.begin_life(5);
    let hear = |board: &mut WriteBoard, since| {
        let poll = board.hear(NOW, (&me, Millis(500)), since);
        (poll.events.map(|events| events.len()), poll.floor, poll.cursor)
    };
    let (events, floor, start) = hear(&mut board, None);
    assert_eq!(
        (events, floor),
        (Some(0), vec![record(NAME, mark(1, 0, 9))]),
        "no event is there of that mark"
    );
    let most = EVENT_LOG_PIECES_MAX as u64;
    for id in 10..10 + most {
        let record = tagged(3, mark(1, 0, id));
        board.tell(NOW, (&[record], &[WriteEvent::from(record)]));
    }
    let (events, floor, end) = hear(&mut board, Some(start));
    assert_eq!((events, floor), (Some(EVENT_LOG_PIECES_MAX), Vec::new()), "all since then");
    let late = tagged(3, mark(1, 0, 8_000));
    board.tell(NOW, (&[late], &[WriteEvent::from(late)]));
    assert_eq!(hear(&mut board, Some(end)).0, Some(1));
    let (events, floor, _) = hear(&mut board, None);
    assert_eq!((events, floor), (Some(EVENT_LOG_PIECES_MAX), vec![record(NAME, mark(1, 0, 10))]));
    for place in [start, EventCursor { log: 4, next: 1 }] {
        let (events, floor, _) = hear(&mut board, Some(place));
        assert_eq!((events, floor), (None, Vec::new()), "{place:?}");
    }
}

/// A write by the former count of the ids is told so, or its mark would end nothing.
#[test]
fn the_board_tells_where_ids_are_counted_anew() {
    let mut board = WriteBoard::default();
    let mut anew = |records: &[WriteRecord]| board.tell(MonoTime(1), (records, &[])).1;
    assert_eq!(anew(&[record(NAME, mark(1, 0, 50))]), []);
    assert_eq!(anew(&[record(NAME, mark(1, 1, 41)), tagged(3, mark(1, 1, 44))]), []);
    assert_eq!(anew(&[tagged(4, mark(1, 0, 51))]), [record(NAME, mark(1, 1, 44))]);
    assert_eq!(anew(&[tagged(4, mark(1, 1, 45))]), []);
}

#[test]
fn the_board_keeps_marks_of_tags_within_its_bound() {
    let now = MonoTime(1_000_000);
    let mut board = WriteBoard::default();
    board
        .tell(now, (&[tagged(1, mark(1, 0, 50)), tagged(2, mark(1, 0, 60)), tagged(1, mark(1, 0, 49))], &[]));
    assert_eq!(board.records(), [tagged(1, mark(1, 0, 50)), tagged(2, mark(1, 0, 60))]);
    board.tell(now, (&[record(NAME, mark(1, 0, 55))], &[]));
    assert_eq!(board.records(), [record(NAME, mark(1, 0, 55)), tagged(2, mark(1, 0, 60))]);
    board.tell(now, (&[tagged(1, mark(1, 0, 55))], &[]));
    assert_eq!(board.records().len(), 2, "it is told as everything already");
    let many: Vec<_> = (3..WRITTEN_RECORDS_MAX as u64 + 1).map(|tag| tagged(tag, mark(1, 0, 70))).collect();
    board.tell(now, (&many, &[]));
    assert_eq!(board.records().len(), WRITTEN_RECORDS_MAX);
    board.tell(now, (&[WriteRecord { name: OTHER, ..tagged(9, mark(2, 0, 5)) }], &[]));
    let last = WriteRecord { name: OTHER, ..tagged(9, mark(2, 0, 5)) };
    assert_eq!(board.records(), [record(NAME, mark(1, 0, 70)), last], "all of one name become one");
}

/// The board is full, and a mark of everything comes that is earlier than those of the tags: none of them is lost.
#[test]
fn a_full_board_keeps_the_later_marks() {
    let now = MonoTime(1_000_000);
    let mut board = WriteBoard::default();
    let many: Vec<_> = (0..WRITTEN_RECORDS_MAX as u64).map(|tag| tagged(tag, mark(1, 0, 70))).collect();
    board.tell(now, (&many, &[]));
    board.tell(now, (&[record(NAME, mark(1, 0, 60))], &[]));
    assert_eq!(board.records(), [record(NAME, mark(1, 0, 70))], "the mark of 70 must not go back");
}

/// A record for which there is no room costs the others nothing.
#[test]
fn a_name_without_a_place_makes_the_board_forget_no_tags() {
    let now = MonoTime(1_000_000);
    let mut board = WriteBoard::default();
    let names = 0..WRITTEN_DATABASES_MAX as u64;
    let mut told: Vec<_> = names.map(|name| record(DatabaseTag(name), mark(1, 0, 5))).collect();
    let tags = 0..(WRITTEN_RECORDS_MAX - WRITTEN_DATABASES_MAX) as u64;
    told.extend(tags.map(|tag| tagged(tag, mark(1, 0, 70))));
    board.tell(now, (&told, &[]));
    let before = board.records();
    assert_eq!(before.len(), WRITTEN_RECORDS_MAX);
    board.tell(now, (&[record(DatabaseTag(u64::MAX), mark(1, 0, 90))], &[]));
    assert_eq!(board.records(), before);
}
