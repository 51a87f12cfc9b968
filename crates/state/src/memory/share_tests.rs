//! The copies that memory keeps when one principal sends ever new keys (F37), and the budget (I9).

use bytes::Bytes;
use hopcache_core::key::{DatabaseTag, KeyHasher, PrincipalScope};
use hopcache_core::limits::PRINCIPAL_OVERHEAD_BYTES;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::tags::Tags;
use hopcache_core::time::MonoTime;
use hopcache_engine::copy::{CopyTimes, ScopeTag};
use hopcache_engine::rendering::{RenderError, Renderer, RenderingId};
use hopcache_packstream::Value;

use super::*;

const LIFE: Millis = Millis(600_000);

/// Renderings as long as what is rendered.
struct Verbatim;

impl Renderer for Verbatim {
    fn knows(&self, _: RenderingId) -> bool {
        true
    }

    fn render(&self, _: RenderingId, result: &ResultSet, _: Option<&str>) -> Result<Vec<u8>, RenderError> {
        Ok([result.fields.concat().as_bytes(), &result.records[..]].concat())
    }

    fn with_bookmark(&self, _: RenderingId, rendered: Bytes, _: &str) -> Bytes {
        rendered
    }

    fn has_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> bool {
        true
    }

    fn with_columns(&self, _: RenderingId, _: &[u8], _: &[Box<str>]) -> Option<Bytes> {
        None
    }
}

fn principal(name: &str) -> PrincipalScope {
    PrincipalScope::of(&KeyHasher::new(b""), "basic", name, None)
}

/// A result that can be rendered, without rows.
fn copy_of_rows(who: &str, bytes: usize, rows: u64) -> SharedCopy {
    let (text, records) = if rows == 0 { (bytes, 0) } else { (4, bytes) };
    let result = ResultSet {
        fields: vec!["t".repeat(text)],
        records: vec![0x42; records].into(),
        rows,
        kind: Some(StatementKind::Read),
        summary: Value::Map(Vec::new()),
        bookmark: None,
        range: None,
        marked: None,
    };
    let times = CopyTimes {
        read_started: MonoTime(0),
        soft_ms: LIFE,
        physical_ms: LIFE,
        total_ms: LIFE,
        cost_ms: Millis(1),
    };
    SharedCopy::new(
        MemoryCopy::new(&result, times, None, Tags::of_database(DatabaseTag(1))).of_principal(principal(who)),
    )
}

fn copy_of(who: &str, bytes: usize) -> SharedCopy {
    copy_of_rows(who, bytes, 1)
}

fn key(who: u8, n: u64) -> QueryKey {
    let mut hash = *blake3::hash(&[&[who], &n.to_le_bytes()[..]].concat()).as_bytes();
    hash[31] = who;
    QueryKey(hash)
}

/// Acts like the engine: a look, and without a copy a new one.
fn ask(memory: &CopyMemory, who: u8, n: u64) -> bool {
    let key = key(who, n);
    let found = memory.get(&key).is_some();
    if !found {
        memory.put(key, copy_of(if who == 0 { "ann" } else { "eve" }, 1_000), LIFE);
    }
    found
}

/// F37: 1 MiB holds some five hundred copies. Ann has `hers`. For each of her requests Eve sends nine new keys, each
/// this many times. Returns how many of Ann's requests of twenty rounds hit.
fn hits_of_ann(memory: &CopyMemory, hers: u64, repeats: u64) -> (u64, u64) {
    for n in (0..hers).chain(0..hers) {
        ask(memory, 0, n);
    }
    let (mut hits, mut flood) = (0, 1_000_000);
    for _ in 0..20 {
        for n in 0..hers {
            hits += u64::from(ask(memory, 0, n));
            for _ in 0..9 {
                flood += 1;
                (0..repeats).for_each(|_| {
                    ask(memory, 1, flood);
                });
            }
        }
    }
    (hits, 20 * hers)
}

fn flooded(hers: u64, repeats: u64) {
    let memory = CopyMemory::new(1 << 20);
    let (hits, asked) = hits_of_ann(&memory, hers, repeats);
    assert!(hits * 100 >= asked * 95, "{hits} of {asked} of Ann's requests hit");
    let shares = memory.shares.lock();
    // The fault happened: Eve fills what Ann leaves, and more than her share is queued to give way.
    let (eve, ann) = (ScopeTag::of(principal("eve")), ScopeTag::of(principal("ann")));
    assert!(shares.bytes_of(eve) > (1 << 20) * 4 / 10, "{} bytes are Eve's", shares.bytes_of(eve));
    assert_eq!(shares.total_bytes(), memory.copies.weight(), "counted bytes are held bytes");
    assert_eq!(shares.total_bytes(), shares.bytes_of(eve) + shares.bytes_of(ann));
    let held = memory.copies.len();
    assert_eq!(shares.queued(), held, "queued copies are held copies");
}

/// F37: without shares a flood leaves next to nothing of a broad working set.
#[test]
fn a_flood_of_new_keys_takes_no_copy_of_others() {
    flooded(170, 1);
}

#[test]
fn a_flood_of_keys_asked_twice_takes_no_copy_of_others() {
    flooded(170, 2);
}

#[test]
fn one_principal_alone_may_use_all_of_it() {
    let memory = CopyMemory::new(1 << 20);
    (0..1_000).for_each(|n| {
        ask(&memory, 0, n);
    });
    let (_, bytes) = memory.size();
    assert!(bytes > (1 << 20) * 9 / 10 && bytes <= 1 << 20, "{bytes} bytes");
}

/// I9: after any puts, replacements, renderings and removals the counted bytes are the held bytes.
#[test]
fn shares_are_counted_to_the_last_byte() {
    let memory = CopyMemory::new(1 << 20);
    for n in 0..2_000 {
        let copy = copy_of(if n % 3 == 0 { "ann" } else { "eve" }, 500 + n % 700);
        let key = key(0, u64::try_from(n % 300).unwrap());
        memory.put(key, SharedCopy::clone(&copy), LIFE);
        memory.weigh_again(key, &copy, LIFE);
        if n % 7 == 0 {
            memory.remove(&key);
            memory.weigh_again(key, &copy, LIFE);
            assert!(memory.get(&key).is_none(), "a purged copy was put back");
        }
    }
    let held: u64 = memory.copies.iter().map(|(_, kept)| u64::from(kept.bytes)).sum();
    assert_eq!(memory.shares.lock().total_bytes(), held);
    memory.remove_where(&|_, _| true);
    assert_eq!((memory.shares.lock().total_bytes(), memory.size()), (0, (0, 0)));
}

/// I9: a copy that is refreshed again and again is queued once, and a refreshed copy is not the oldest.
#[test]
fn a_key_that_is_put_again_is_queued_once_and_last() {
    let memory = CopyMemory::new(1 << 20);
    for _ in 0..10_000 {
        (0..10).for_each(|n| memory.put(key(0, n), copy_of("ann", 100), LIFE));
    }
    assert_eq!(memory.shares.lock().queued(), 10);

    let mut shares = PrincipalShares::new(1_000);
    let (ann, eve) = (ScopeTag(1), ScopeTag(2));
    shares.add(ann, &key(0, 0), 100);
    let (first, _) = shares.add(eve, &key(1, 0), 300);
    let (serial, _) = shares.add(eve, &key(1, 1), 300);
    let gives_way = GivesWay { key: KeyHead::of(&key(1, 1)), serial };
    assert_eq!(shares.add(eve, &key(1, 0), 300).1, Some(gives_way), "its own older copy goes anyway");
    shares.remove(eve, first, 300);
    assert_eq!((shares.queued(), shares.bytes_of(eve)), (2, 600), "a copy that has to go is still counted");
}

/// I9: a principal whose few copies are refreshed for ever has an account of a few places, and its copies are weighed with it.
#[test]
fn an_account_stays_as_small_as_its_copies_are_few() {
    for (copies, principals) in [(1, 1_000), (2, 20), (3, 20), (10, 20), (100, 20)] {
        let mut shares = PrincipalShares::new(1 << 40);
        let add = |shares: &mut PrincipalShares, of: usize| {
            shares.add(ScopeTag(u32::try_from(of).unwrap()), &QueryKey([7; 32]), 1).0
        };
        let mut held: Vec<Vec<_>> =
            (0..principals).map(|of| (0..copies).map(|_| add(&mut shares, of)).collect()).collect();
        for round in 0..1_000 {
            for (of, held) in held.iter_mut().enumerate() {
                let gone = std::mem::replace(&mut held[round % copies], add(&mut shares, of));
                shares.remove(ScopeTag(u32::try_from(of).unwrap()), gone, 1);
            }
            let most = shares.places().into_iter().max().unwrap();
            assert!(most <= 4 * copies + 4, "{most} places for {copies} copies");
        }
        let (room, copies) = (shares.room_bytes(), shares.queued());
        let weighed = copies * size_of::<[u32; 3]>() + principals * PRINCIPAL_OVERHEAD_BYTES as usize;
        assert!(copies > principals || room <= weighed, "{room} bytes of accounts, {weighed} weighed");
    }
}

/// I9: the budget knows of accounts. Each principal's only copy is weighed with one, also when it is put again or weighed again.
#[test]
fn a_principals_only_copy_is_weighed_with_its_account() {
    let memory = CopyMemory::new(1 << 30);
    let copies: Vec<_> = (0..50_u8).map(|n| (key(n, 0), copy_of(&format!("user {n}"), 100))).collect();
    let bare: u64 = copies.iter().map(|(_, copy)| u64::try_from(copy.weight_bytes()).unwrap()).sum();
    for _ in 0..3 {
        copies.iter().for_each(|(key, copy)| memory.put(*key, SharedCopy::clone(copy), LIFE));
        assert_eq!(memory.size(), (50, bare + 50 * u64::from(PRINCIPAL_OVERHEAD_BYTES)));
        copies.iter().for_each(|(key, copy)| memory.weigh_again(*key, copy, LIFE));
        assert_eq!(memory.size(), (50, bare + 50 * u64::from(PRINCIPAL_OVERHEAD_BYTES)));
    }
    // A principal has one account, however many copies it has.
    let memory = CopyMemory::new(1 << 30);
    (0..50).for_each(|n| memory.put(key(0, n), copy_of("ann", 100), LIFE));
    let weighed = u64::try_from(copy_of("ann", 100).weight_bytes()).unwrap() * 50;
    assert_eq!(memory.size(), (50, weighed + 2 * u64::from(PRINCIPAL_OVERHEAD_BYTES)));
}

/// I9: copies that leave from the middle of a queue leave no more places behind than there are copies.
#[test]
fn a_queue_has_few_gaps() {
    let (mut shares, ann) = (PrincipalShares::new(1 << 30), ScopeTag(1));
    let (first, _) = shares.add(ann, &key(0, 0), 1);
    let mut held = Vec::new();
    for n in 1..100_000 {
        held.push(shares.add(ann, &key(0, n), 1).0);
        if held.len() > 100 {
            shares.remove(ann, held.swap_remove(usize::try_from(n % 100).unwrap()), 1);
        }
        assert_eq!(shares.queued(), 1 + held.len());
        let places: usize = shares.places().into_iter().sum();
        assert!(places <= 4 * shares.queued() + 64, "{places} places");
    }
    shares.remove(ann, first, 1);
    held.into_iter().for_each(|serial| shares.remove(ann, serial, 1));
    assert_eq!((shares.places(), shares.total_bytes()), (Vec::new(), 0));
}

/// I9: a principal over its share gives way also when its copies become heavier by a rendering. Every copy that stays
/// may give way later.
#[test]
fn a_copy_that_becomes_heavier_takes_the_place_of_an_older_one() {
    let memory = CopyMemory::new(1 << 20);
    (0..10).for_each(|n| memory.put(key(0, n), copy_of("ann", 1_000), LIFE));
    let eves: Vec<_> = (0..300).map(|n| (key(1, n), copy_of_rows("eve", 1_500, 0))).collect();
    for (key, copy) in &eves {
        memory.put(*key, SharedCopy::clone(copy), LIFE);
    }
    let before = memory.copies.len();
    for (key, copy) in eves.iter().rev() {
        copy.rendering(RenderingId(0), &Verbatim).unwrap();
        memory.weigh_again(*key, copy, LIFE);
        let shares = memory.shares.lock();
        assert_eq!(shares.queued(), memory.copies.len());
    }
    assert!(memory.copies.len() < before, "the fault happened: not all fit any more");
    (0..10).for_each(|n| assert!(memory.get(&key(0, n)).is_some(), "a copy of Ann's gave way for Eve's"));
}

/// A copy whose life is over is not served, and a sweep gives its room back. Renderings that nobody asks for again go with a
/// sweep, and the copy is counted without them.
#[test]
fn a_sweep_removes_what_is_over_and_drops_what_nobody_asks_for() {
    let memory = CopyMemory::new(1 << 20);
    memory.put(key(0, 0), copy_of("ann", 1_000), Millis::ZERO);
    assert!(memory.get(&key(0, 0)).is_none(), "it has ended");
    let kept = copy_of_rows("ann", 1_500, 0);
    memory.put(key(0, 1), SharedCopy::clone(&kept), LIFE);
    // It is weighed with Ann's account as well.
    let bare = u64::try_from(kept.weight_bytes()).unwrap() + u64::from(PRINCIPAL_OVERHEAD_BYTES);
    kept.rendering(RenderingId(0), &Verbatim).unwrap();
    memory.weigh_again(key(0, 1), &kept, LIFE);
    assert!(memory.size().1 > bare);
    kept.rendering(RenderingId(0), &Verbatim).unwrap();
    assert_eq!(memory.sweep(), Swept { ended: 1, cooled: 0 }, "it was asked for again");
    assert_eq!(memory.sweep(), Swept { ended: 0, cooled: 1 });
    assert_eq!((memory.size(), memory.shares.lock().total_bytes()), ((1, bare), bare));
}
