//! A stored entry. Bytes that are not exactly what was sealed for this key are a miss (F39). Bytes that a holder of the
//! key sealed wrongly are refused, and their length fields are not trusted.

use bytes::Bytes;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::entry::{BadEntry, ChecksumKey, Entry, Head};
use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::lease::Token;
use hopcache_core::limits::{COMPRESS_BYTES_MIN, ENTRY_BODY_BYTES_MAX, ENTRY_LIFE_MS_MAX};
use hopcache_core::node::NodeName;
use hopcache_core::tags::Tags;
use hopcache_core::time::Millis;

use crate::draw::Draw;

const SECRET: ChecksumKey = ChecksumKey([7; 32]);
const KEY: QueryKey = QueryKey([3; 32]);
/// Offset of the checksum, and of the part after it: the layout that core's `entry.rs` documents.
const CHECKSUM: std::ops::Range<usize> = 94..110;

pub(crate) fn check(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    match draw.byte() % 3 {
        0 => check_any(draw.0),
        1 => check_sealed(draw.0),
        _ => check_bent(&mut draw),
    }
}

/// No one can make an entry without the key.
fn check_any(bytes: &[u8]) {
    let _ = Head::read(bytes);
    // Not the seeds' key: a seed is an entry.
    assert!(Entry::decode(&Bytes::copy_from_slice(bytes), &SECRET, &QueryKey([5; 32])).is_err());
}

/// As if a writer of ours had sealed these bytes: the fields, LZ4 and the lengths are read.
fn check_sealed(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    if bytes.len() >= CHECKSUM.end {
        let mut hasher = blake3::Hasher::new_keyed(&SECRET.0);
        hasher.update(&KEY.0).update(&bytes[..CHECKSUM.start]).update(&bytes[CHECKSUM.end..]);
        hasher.finalize_xof().fill(&mut bytes[CHECKSUM]);
    }
    let bytes = Bytes::from(bytes);
    match Entry::decode(&bytes, &SECRET, &KEY) {
        Ok(entry) => {
            assert!(entry.body.len() <= ENTRY_BODY_BYTES_MAX);
            assert!(entry.body.len() <= 255 * bytes.len(), "a bomb");
            let again = entry.encode(&SECRET, &KEY).expect("it is not too large");
            let again = Entry::decode(&again, &SECRET, &KEY).expect("a sealed entry opens");
            assert!(entry.soft <= entry.physical && entry.physical <= entry.total);
            assert!(entry.total.0 <= ENTRY_LIFE_MS_MAX, "it lives for ever");
            assert!(again == entry);
        }
        Err(error) => assert_ne!(error, BadEntry::Checksum, "the checksum was right"),
    }
}

/// A whole entry, then the same bent.
fn check_bent(draw: &mut Draw<'_>) {
    let body = match draw.byte() % 2 {
        0 => draw.short().to_vec(),
        _ => draw.short().iter().copied().cycle().take(COMPRESS_BYTES_MIN).collect(),
    };
    let mut lives = [0; 3].map(|_| draw.number() % ENTRY_LIFE_MS_MAX);
    lives.sort_unstable();
    let entry = Entry {
        soft: Millis(lives[0]),
        physical: Millis(lives[1]),
        total: Millis(lives[2]),
        cost: Millis(draw.number() % ENTRY_LIFE_MS_MAX),
        token: Token { counter: draw.number(), nonce: u128::from(draw.number()) },
        tags: Tags::of_database(DatabaseTag(draw.number())),
        stored_by: NodeName::new("node-b").expect("a name"),
        database: DatabaseUuid([7; 16]),
        range: None,
        body: body.into(),
    };
    let sealed = entry.encode(&SECRET, &KEY).expect("it is not too large");
    assert!(Entry::decode(&sealed, &SECRET, &KEY).expect("a sealed entry opens") == entry);
    assert!(Entry::decode(&sealed, &SECRET, &QueryKey([4; 32])).is_err(), "of another key");
    assert!(Entry::decode(&sealed, &ChecksumKey([8; 32]), &KEY).is_err(), "of another cluster");
    let bent = draw.bend(&sealed);
    if bent != sealed[..] {
        assert!(Entry::decode(&bent.into(), &SECRET, &KEY).is_err(), "changed");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let entry = |body: Vec<u8>| Entry {
        total: Millis(690_000),
        physical: Millis(90_000),
        soft: Millis(60_000),
        cost: Millis(120),
        token: Token { counter: 1_700_000_000_000_001, nonce: 5 },
        tags: Tags::of_database(DatabaseTag(0x0123_4567_89ab_cdef)),
        stored_by: NodeName::new("node-b").expect("a name"),
        database: DatabaseUuid([7; 16]),
        range: None,
        body: body.into(),
    };
    let mut seeds = Vec::new();
    for body in [b"rows".to_vec(), vec![b'x'; 4096], b"some rows, ".repeat(200)] {
        let sealed = entry(body).encode(&SECRET, &KEY).expect("it is not too large");
        // The same with a length field that no bytes back: a bomb.
        let mut bomb = sealed.to_vec();
        bomb[73..77].copy_from_slice(&(64_u32 << 20).to_be_bytes());
        for (mode, bytes) in [(0, sealed.to_vec()), (1, sealed.to_vec()), (1, bomb)] {
            seeds.push([vec![mode], bytes].concat());
        }
    }
    seeds.push([&[2, 0, 4][..], b"rows", &[9; 48], &[0, 0, 70, 1]].concat());
    seeds.push([&[2, 1, 4][..], b"rows", &[9; 48], &[1, 0, 60]].concat());
    seeds
}
