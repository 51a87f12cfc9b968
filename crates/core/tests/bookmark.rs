//! Bookmarks: what Neo4j writes is understood and written again byte for byte; whatever else is not understood (I13).

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::limits::BOOKMARK_POSITIONS_MAX;
use proptest::prelude::*;

/// As Neo4j's documentation shows one.
const NEO4JS: &str = "FB:kcwQkdE5yQwjR6ql1ZmVgA7YIskBOZA=";

fn at(database: u8, id: u64) -> Position {
    Position { database: DatabaseUuid([database; 16]), id: TransactionId(id) }
}

fn of(positions: &[Position]) -> Bookmark {
    positions.iter().fold(Bookmark::NONE, |all, position| all.with(Some(*position)))
}

#[test]
fn neo4js_own_is_understood_and_written_again() {
    let read = Bookmark::parse(NEO4JS).unwrap();
    let [Position { database, id }] = read.positions() else { unreachable!("{read:?}") };
    assert_eq!((database.0[0], database.0[15], id.0), (0x91, 0x22, 313));
    assert_eq!(read.encode().as_deref(), Some(NEO4JS));
}

#[test]
fn what_is_not_understood_is_no_bookmark() {
    let several = of(&[at(1, 5), at(2, 6)]).encode().unwrap();
    let too_many: Vec<Position> = (0..8).map(|database| at(database, 1)).collect();
    assert_eq!(too_many.len(), BOOKMARK_POSITIONS_MAX, "one less than that may come from a client");
    let too_many = of(&too_many).encode().unwrap();
    let long = format!("FB:{}", "A".repeat(4_000));
    for text in [
        "",
        "FB:",
        "nonsense",
        "FB:nonsense",
        "FB:embedded:0",
        "FB:scripted",
        "neo4j:bookmark:v1:tx5",
        "fb:kJA=",
        // No position; an extension; an id below zero; a byte too many; no padding; a list around the pair.
        "FB:kJA=",
        "FB:kcwQkdE5yQwjR6ql1ZmVgA7YIskBOZEB",
        "FB:kcwQkdE5yQwjR6ql1ZmVgA7YIv+Q",
        "FB:kcwQkdE5yQwjR6ql1ZmVgA7YIskBOZAA",
        "FB:kcwQkdE5yQwjR6ql1ZmVgA7YIskBOZA",
        &several[1..],
        &too_many,
        &long,
    ] {
        assert_eq!(Bookmark::parse(text), None, "{text}");
        assert_eq!(Bookmark::parse_all(&[NEO4JS, text]), None, "{text}");
    }
    assert_eq!(Bookmark::parse_all::<&str>(&[]), Some(Bookmark::NONE));
    assert_eq!(Bookmark::NONE.encode(), None);
}

#[test]
fn the_later_of_two_in_one_database_counts() {
    let texts = [of(&[at(1, 5), at(2, 9)]), of(&[at(1, 7)]), of(&[at(1, 6), at(3, 1)])];
    let texts: Vec<String> = texts.iter().filter_map(Bookmark::encode).collect();
    assert_eq!(Bookmark::parse_all(&texts), Some(of(&[at(1, 7), at(2, 9), at(3, 1)])));
}

/// EXACT section 2: an entry answers a bookmark whose transaction its run carried, or a later one of the same database.
#[test]
fn what_a_run_carried_decides_what_it_covers() {
    let from = of(&[at(1, 7), at(2, 3)]);
    for (asked, is_covered) in [
        (of(&[]), true),
        (of(&[at(1, 7)]), true),
        (of(&[at(1, 6), at(2, 3)]), true),
        (of(&[at(1, 8)]), false),
        (of(&[at(3, 0)]), false),
        (of(&[at(1, 1), at(2, 4)]), false),
    ] {
        assert_eq!(from.covers(&asked), is_covered, "{asked:?}");
        assert_eq!(Bookmark::NONE.covers(&asked), asked.is_empty());
    }
}

#[test]
fn an_answers_bookmark_is_the_later_of_the_clients_and_the_entrys() {
    let range = ReadRange::new(of(&[at(1, 7)]), at(1, 9)).unwrap();
    assert_eq!(range.bookmark_for(&Bookmark::NONE), of(&[at(1, 9)]));
    assert_eq!(range.bookmark_for(&of(&[at(1, 6), at(2, 4)])), of(&[at(1, 9), at(2, 4)]));
    // Ids that went back: a restored database, of which nothing is known then.
    assert_eq!(ReadRange::new(of(&[at(1, 10)]), at(1, 9)), None);
}

fn any_position() -> impl Strategy<Value = Position> {
    (0_u8..6, prop_oneof![0_u64..9, Just(i64::MAX.unsigned_abs()), 0..=i64::MAX.unsigned_abs()])
        .prop_map(|(database, id)| at(database, id))
}

proptest! {
    #[test]
    fn what_is_written_is_read(positions in proptest::collection::vec(any_position(), 0..8)) {
        let bookmark = of(&positions);
        match bookmark.encode() {
            Some(text) => prop_assert_eq!(Bookmark::parse(&text), Some(bookmark.clone())),
            None => prop_assert!(bookmark.is_empty()),
        }
        let mut bytes = Vec::new();
        bookmark.write(&mut bytes);
        let mut rest = &bytes[..];
        prop_assert_eq!(Bookmark::read(&mut rest), Some(bookmark));
        prop_assert!(rest.is_empty());
    }

    /// A range keeps what it is told, in no more than the bytes that an entry has for it; any cut is none.
    #[test]
    fn a_range_is_read_as_it_was_written(
        from in proptest::collection::vec(any_position(), 0..8), to in any_position(), cut in 0_usize..200,
    ) {
        let Some(range) = ReadRange::new(of(&from), to) else { return Ok(()) };
        let mut bytes = Vec::new();
        range.write(&mut bytes);
        prop_assert!(bytes.len() <= ReadRange::BYTES_MAX);
        let mut rest = &bytes[..];
        prop_assert_eq!(ReadRange::read(&mut rest), Some(range));
        prop_assert!(rest.is_empty());
        prop_assert_eq!(ReadRange::read(&mut &bytes[..cut.min(bytes.len() - 1)]), None);
    }

    /// The order of bookmarks: what covers two covers both together, and what is added is covered.
    #[test]
    fn covering_is_an_order(
        one in proptest::collection::vec(any_position(), 0..6),
        other in proptest::collection::vec(any_position(), 0..6),
    ) {
        let (one, other) = (of(&one), of(&other));
        let mut both = one.clone();
        both.add_all(&other);
        prop_assert!(both.covers(&one) && both.covers(&other));
        prop_assert_eq!(one.covers(&other), one == both);
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in ".{0,80}") {
        let _ = (Bookmark::read(&mut &bytes[..]), ReadRange::read(&mut &bytes[..]));
        let _ = (Bookmark::parse(&text), Bookmark::parse(&format!("FB:{text}")));
    }
}
