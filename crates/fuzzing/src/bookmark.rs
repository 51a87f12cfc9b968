//! Bookmarks: of a client's request, as Neo4j writes them, and of an entry or a message between nodes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::limits::BOOKMARK_POSITIONS_MAX;

use crate::draw::Draw;

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    match draw.byte() % 4 {
        0 => check_texts(&String::from_utf8_lossy(draw.0)),
        // The PackStream below the base64, which changed letters seldom reach.
        1 => check_texts(&format!("FB:{}", STANDARD.encode(draw.0))),
        2 => check_bookmark(draw.0),
        _ => check_range(draw.0),
    }
}

/// The bookmarks of one request, one on each line. What is understood is bounded, and is the same when Hopcache
/// writes it.
fn check_texts(text: &str) {
    let texts: Vec<&str> = text.lines().collect();
    let read: Vec<Option<Bookmark>> = texts.iter().map(|text| Bookmark::parse(text)).collect();
    for each in read.iter().flatten() {
        assert!((1..BOOKMARK_POSITIONS_MAX).contains(&each.positions().len()), "{each:?}");
        check_order(each);
        let again = each.encode().expect("it names a transaction");
        assert_eq!(Bookmark::parse(&again).as_ref(), Some(each), "{again}");
    }
    let Some(all) = Bookmark::parse_all(&texts) else { return };
    assert!(all.positions().len() < BOOKMARK_POSITIONS_MAX);
    for each in read {
        let each = each.expect("all of them are understood only if each one is");
        assert!(all.covers(&each), "{all:?} misses a part of {each:?}");
    }
}

fn check_bookmark(bytes: &[u8]) {
    let mut rest = bytes;
    let Some(read) = Bookmark::read(&mut rest) else { return };
    assert!(read.positions().len() <= BOOKMARK_POSITIONS_MAX);
    check_order(&read);
    let mut again = Vec::new();
    read.write(&mut again);
    // Two positions in one database become one.
    assert!(again.len() + rest.len() <= bytes.len());
    assert_eq!(Bookmark::read(&mut &again[..]), Some(read));
}

fn check_range(bytes: &[u8]) {
    let Some(read) = ReadRange::read(&mut &bytes[..]) else { return };
    let own = read.from().in_database(read.to().database);
    assert!(own.is_none_or(|own| own.id <= read.to().id), "a run that went back: {read:?}");
    assert!(read.bookmark_for(read.from()).covers(read.from()), "an answer that goes back: {read:?}");
    let mut again = Vec::new();
    read.write(&mut again);
    assert!(again.len() <= ReadRange::BYTES_MAX);
    assert_eq!(ReadRange::read(&mut &again[..]), Some(read));
}

/// The order by database finds each position, and names each database once.
fn check_order(bookmark: &Bookmark) {
    assert!(bookmark.positions().is_sorted_by(|a, b| a.database < b.database), "{bookmark:?}");
    assert!(bookmark.covers(bookmark));
}

fn of_databases(count: u8) -> Bookmark {
    let position = |number| Position {
        database: DatabaseUuid([number; 16]),
        id: TransactionId(1_000 * u64::from(number)),
    };
    (0..count).map(position).fold(Bookmark::NONE, |all, each| all.with(Some(each)))
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let text = |count| of_databases(count).encode().expect("it is not empty");
    let below = |text: &str| STANDARD.decode(&text["FB:".len()..]).expect("base64");
    let mut stored = Vec::new();
    of_databases(3).write(&mut stored);
    let to = Position { database: DatabaseUuid([2; 16]), id: TransactionId(5_000) };
    let mut range = Vec::new();
    ReadRange::new(of_databases(3), to).expect("a range").write(&mut range);
    vec![
        [b"\0", text(1).as_bytes()].concat(),
        [b"\0", text(2).as_bytes(), b"\n", text(7).as_bytes()].concat(),
        [b"\0", text(8).as_bytes(), b"\nneo4j:bookmark:v1:tx7"].concat(),
        [&[1][..], &below(&text(1))].concat(),
        [&[1][..], &below(&text(3))].concat(),
        [&[2][..], &stored].concat(),
        [&[3][..], &range].concat(),
    ]
}
