//! The stored form: bytes that are not exactly what we sealed for this key are refused (I10, I13, F39).

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, ReadRange, TransactionId};
use hopcache_core::entry::{BadEntry, ChecksumKey, Entry, Head, clock};
use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::lease::Token;
use hopcache_core::limits::{COMPRESS_BYTES_MIN, ENTRY_BODY_BYTES_MAX, ENTRY_LIFE_MS_MAX};
use hopcache_core::node::NodeName;
use hopcache_core::tags::Tags;
use hopcache_core::time::Millis;
use proptest::prelude::*;

const SECRET: ChecksumKey = ChecksumKey([7; 32]);
const KEY: QueryKey = QueryKey([3; 32]);

fn entry(body: impl Into<Bytes>) -> Entry {
    Entry {
        total: Millis(690_000),
        physical: Millis(90_000),
        soft: Millis(60_000),
        cost: Millis(120),
        token: Token { counter: 1_700_000_000_000_001, nonce: 0xfeed << 100 | 5 },
        tags: Tags::of_database(DatabaseTag(0x0123_4567_89ab_cdef)),
        stored_by: NodeName::new("node-b").unwrap(),
        database: DatabaseUuid([5; 16]),
        range: range(7, 9),
        body: body.into(),
    }
}

/// A read that carried the first transaction and ended at the second.
fn range(from: u64, to: u64) -> Option<ReadRange> {
    let at = |id| Position { database: DatabaseUuid([5; 16]), id: TransactionId(id) };
    ReadRange::new(Bookmark::NONE.with(Some(at(from))), at(to))
}

/// Text that LZ4 cannot shorten.
fn noise(len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut out);
    out
}

#[test]
fn every_flipped_bit_is_refused() {
    for body in [Bytes::from_static(b"rows"), vec![b'x'; COMPRESS_BYTES_MIN].into()] {
        let sealed = entry(body).encode(&SECRET, &KEY).unwrap();
        assert!(Entry::decode(&sealed, &SECRET, &KEY).is_ok());
        for bit in 0..sealed.len() * 8 {
            let mut bent = sealed.to_vec();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert!(Entry::decode(&bent.into(), &SECRET, &KEY).is_err(), "bit {bit} is not guarded");
        }
    }
}

#[test]
fn every_cut_and_every_addition_is_refused() {
    let sealed = entry("some rows").encode(&SECRET, &KEY).unwrap();
    for len in 0..sealed.len() {
        assert_eq!(Entry::decode(&sealed.slice(..len), &SECRET, &KEY), Err(BadEntry::Length), "{len}");
    }
    let mut longer = sealed.to_vec();
    longer.push(0);
    assert_eq!(Entry::decode(&longer.into(), &SECRET, &KEY), Err(BadEntry::Length));
}

#[test]
fn another_key_cluster_or_version_is_refused() {
    let sealed = entry("rows").encode(&SECRET, &KEY).unwrap();
    assert_eq!(Entry::decode(&sealed, &SECRET, &QueryKey([4; 32])), Err(BadEntry::Checksum));
    assert_eq!(Entry::decode(&sealed, &ChecksumKey([8; 32]), &KEY), Err(BadEntry::Checksum));
    let mut old = sealed.to_vec();
    old[2] = 0;
    assert_eq!(Head::read(&old), None);
    assert_eq!(Entry::decode(&old.into(), &SECRET, &KEY), Err(BadEntry::Format));
}

#[test]
fn a_body_is_compressed_only_when_it_pays() {
    let overhead = entry("").encode(&SECRET, &KEY).unwrap().len();
    let small = vec![b'x'; COMPRESS_BYTES_MIN - 1];
    assert_eq!(entry(small.clone()).encode(&SECRET, &KEY).unwrap().len(), overhead + small.len());
    let large = vec![b'x'; COMPRESS_BYTES_MIN];
    assert!(entry(large).encode(&SECRET, &KEY).unwrap().len() < overhead + COMPRESS_BYTES_MIN / 10);
    // Compression would save 5 %: less than a tenth, so it stays as it is.
    let mut stubborn = noise(20_000);
    stubborn.extend([0; 1_000]);
    assert_eq!(entry(stubborn.clone()).encode(&SECRET, &KEY).unwrap().len(), overhead + stubborn.len());
}

#[test]
fn an_uncompressed_body_is_not_copied() {
    let sealed = entry(noise(5_000)).encode(&SECRET, &KEY).unwrap();
    let read = Entry::decode(&sealed, &SECRET, &KEY).unwrap();
    let (all, body) = (sealed.as_ptr_range(), read.body.as_ptr_range());
    assert!(all.start <= body.start && body.end <= all.end);
}

#[test]
fn a_body_over_the_limit_is_not_sealed() {
    let huge = entry(vec![0; ENTRY_BODY_BYTES_MAX + 1]);
    assert_eq!(huge.encode(&SECRET, &KEY).unwrap_err().body_bytes, ENTRY_BODY_BYTES_MAX + 1);
    let largest = entry(vec![0; ENTRY_BODY_BYTES_MAX]);
    let sealed = largest.encode(&SECRET, &KEY).unwrap();
    assert!(Entry::decode(&sealed, &SECRET, &KEY).unwrap() == largest);
}

/// I4: the age counts from the start of the origin read, on the store's clock alone.
#[test]
fn times_follow_from_what_is_left_in_the_store() {
    let entry = entry("rows");
    // Read for 2 s, so the store was given 688 s; 10 s later it has 678 s left.
    let now = clock(&entry, Millis(678_000));
    assert_eq!((now.age_ms, now.fresh_left_ms, now.physical_left_ms), (12_000, 48_000, 78_000));
    assert_eq!(now.total_left_ms, 678_000);
    let stale = clock(&entry, Millis(629_000));
    assert_eq!((stale.age_ms, stale.fresh_left_ms, stale.physical_left_ms), (61_000, -1_000, 29_000));
    let dead = clock(&entry, Millis(590_000));
    assert_eq!((dead.age_ms, dead.fresh_left_ms, dead.physical_left_ms), (100_000, -40_000, 0));
    assert_eq!(dead.total_left_ms, 590_000);
    let jumped = clock(&entry, Millis(u64::MAX));
    assert_eq!((jumped.age_ms, jumped.fresh_left_ms, jumped.physical_left_ms), (0, 60_000, 90_000));
    assert_eq!(jumped.total_left_ms, 690_000);
}

/// Sealed as by another writer with our secret.
fn sealed_anew(mut bytes: Vec<u8>) -> Bytes {
    let mut hasher = blake3::Hasher::new_keyed(&SECRET.0);
    hasher.update(&KEY.0).update(&bytes[..94]).update(&bytes[110..]);
    hasher.finalize_xof().fill(&mut bytes[94..110]);
    bytes.into()
}

/// F39, F41, I13: numbers that no writer of ours would store are a miss, or are cut; nothing lives for ever.
#[test]
fn lives_and_costs_made_elsewhere_are_refused_or_cut() {
    let sealed = entry("rows").encode(&SECRET, &KEY).unwrap();
    assert_eq!(sealed_anew(sealed.to_vec()), sealed, "the same seal");
    let with = |fields: &[(usize, u64)]| {
        let mut bytes = sealed.to_vec();
        for (at, value) in fields {
            bytes[*at..at + 8].copy_from_slice(&value.to_be_bytes());
        }
        sealed_anew(bytes)
    };
    let (total, soft, physical, cost) = (4, 12, 20, 28);
    let none = [
        with(&[(soft, 90_001)]),
        with(&[(physical, 690_001)]),
        with(&[(soft, u64::MAX)]),
        with(&[(total, u64::MAX)]),
        with(&[(total, ENTRY_LIFE_MS_MAX + 1)]),
        with(&[(total, 0)]),
        with(&[(soft, u64::MAX), (physical, u64::MAX), (total, u64::MAX)]),
        // Values that another writer may mean as negative or not-a-number.
        with(&[(soft, (-1_i64).cast_unsigned())]),
        with(&[(total, f64::NAN.to_bits()), (soft, f64::NAN.to_bits()), (physical, f64::NAN.to_bits())]),
    ];
    for bytes in none {
        assert_eq!(Head::read(&bytes), None);
        assert_eq!(Entry::decode(&bytes, &SECRET, &KEY), Err(BadEntry::Format));
    }
    let read = |bytes: &Bytes| Entry::decode(bytes, &SECRET, &KEY).unwrap();
    assert_eq!(read(&with(&[(cost, 0)])).cost, Millis(0));
    assert_eq!(read(&with(&[(cost, u64::MAX)])).cost, Millis(ENTRY_LIFE_MS_MAX));
    let longest = read(&with(&[(total, ENTRY_LIFE_MS_MAX)]));
    assert_eq!(clock(&longest, Millis(u64::MAX)).total_left_ms, ENTRY_LIFE_MS_MAX);
}

/// A TTL of 10 years and more is cut when it is written, in order.
#[test]
fn lives_beyond_the_longest_are_cut_in_order() {
    let all = |ms| Entry { total: Millis(ms), physical: Millis(ms), soft: Millis(ms), ..entry("rows") };
    for ms in [ENTRY_LIFE_MS_MAX, ENTRY_LIFE_MS_MAX + 1, u64::MAX] {
        let read = Entry::decode(&all(ms).encode(&SECRET, &KEY).unwrap(), &SECRET, &KEY).unwrap();
        assert_eq!(read, all(ENTRY_LIFE_MS_MAX));
    }
    let upside_down = Entry { total: Millis(10), physical: Millis(20), soft: Millis(30), ..entry("rows") };
    let read = Entry::decode(&upside_down.encode(&SECRET, &KEY).unwrap(), &SECRET, &KEY).unwrap();
    assert_eq!((read.soft, read.physical, read.total), (Millis(10), Millis(10), Millis(10)));
}

/// An entry of version 1 is a miss, since it has no end of stale-if-error. So is an entry of version 2, since it has no
/// range, one of version 3, since nobody knows its database, and one of version 4, since its range has another form.
#[test]
fn an_entry_of_an_older_version_is_a_miss() {
    for version in [1, 2, 3, 4] {
        let mut old = entry("rows").encode(&SECRET, &KEY).unwrap().to_vec();
        old[2] = version;
        assert_eq!(Head::read(&old), None);
        assert_eq!(Entry::decode(&sealed_anew(old), &SECRET, &KEY), Err(BadEntry::Format));
    }
}

/// I13: a range that is none is refused, whatever its length claims.
#[test]
fn a_range_that_is_none_is_refused() {
    let sealed = entry("rows and more").encode(&SECRET, &KEY).unwrap();
    let (len_at, name_len) = (77, "node-b".len());
    assert_eq!(usize::from(sealed[len_at]), 1 + 2 * 24 + 1);
    let mut gone_back = sealed.to_vec();
    // The last byte of the range's end: before what its run carried.
    gone_back[110 + name_len + 48] = 6;
    assert_eq!(Entry::decode(&sealed_anew(gone_back), &SECRET, &KEY), Err(BadEntry::Fields));
    for len in 0..=u8::MAX {
        let mut bent = sealed.to_vec();
        bent[len_at] = len;
        let read = Entry::decode(&sealed_anew(bent), &SECRET, &KEY);
        assert_eq!(read.is_ok(), usize::from(len) == 50, "{len}: {read:?}");
    }
}

proptest! {
    #[test]
    fn what_was_sealed_is_read(
        body in proptest::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..6_000),
        soft in 0_u64..1 << 38, grace in 0_u64..1 << 35, beyond in 0_u64..1 << 33, cost in 0..ENTRY_LIFE_MS_MAX,
        counter in any::<u64>(), nonce in any::<u128>(), database in any::<u64>(), key in any::<[u8; 32]>(),
        of in any::<[u8; 16]>(), stored_by in "[A-Za-z0-9._:-]{1,64}", from in 0_u64..9, to in 0_u64..9,
    ) {
        let entry = Entry {
            total: Millis(soft + grace + beyond), physical: Millis(soft + grace), soft: Millis(soft), cost: Millis(cost),
            token: Token { counter, nonce }, tags: Tags::of_database(DatabaseTag(database)),
            stored_by: NodeName::new(&stored_by).unwrap(), database: DatabaseUuid(of), range: range(from, to),
            body: body.into(),
        };
        prop_assume!(entry.total.0 <= ENTRY_LIFE_MS_MAX);
        let sealed = entry.encode(&SECRET, &QueryKey(key)).unwrap();
        let head = Head::read(&sealed).unwrap();
        prop_assert_eq!((head.total, head.physical, head.soft, head.token, head.tags, head.database),
            (entry.total, entry.physical, entry.soft, entry.token, entry.tags.clone(), entry.database));
        prop_assert_eq!(Entry::decode(&sealed, &SECRET, &QueryKey(key)).unwrap(), entry);
    }

    /// I13: no bytes from outside cause a panic, with or without a right beginning.
    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), ours in any::<bool>()) {
        let mut bytes = bytes;
        if ours {
            bytes.splice(0..bytes.len().min(3), *b"HC\x03");
        }
        let _ = Head::read(&bytes);
        prop_assert!(Entry::decode(&bytes.into(), &SECRET, &KEY).is_err());
    }
}
