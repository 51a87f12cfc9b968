//! The behaviour of every store, whatever its implementation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::life::StoreLife;
use hopcache_core::lease::{Commit, Grant, GrantKind, Token};
use hopcache_core::tags::{Tag, Tags};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{LeaseEnd, LogCursor, Scope, Store};
use hopcache_store::memory::MemoryStore;
use hopcache_store::redis::RedisStore;

use super::fixtures::{
    MOVIES, PEOPLE, StillClock, ask, entry, entry_of, holder, key, leased, noise, still_clock, until,
};
use super::server::RedisServer;

/// A store and a way to let its time pass.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) store: Arc<dyn Store>,
    /// The embedded store's clock; Redis' time passes by itself.
    pub(crate) clock: Option<Arc<StillClock>>,
}

impl Subject {
    /// Returns when `ms` have surely passed in the store.
    pub(crate) async fn pass(&self, ms: u64) {
        match &self.clock {
            Some(clock) => clock.advance(ms),
            // tidy: Redis has no other clock than the real one; the span itself is what is waited for
            None => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
    }

    async fn stored(&self, key: &QueryKey, soft_ms: u64, life_ms: u64) -> Token {
        let (token, _) = leased(self.store.get_or_lease(key, &ask(1, 5_000)).await.unwrap());
        let bytes = entry(key, soft_ms, "rows");
        assert_eq!(self.store.commit(key, token, bytes, Millis(life_ms)).await, Ok(Commit::Stored));
        token
    }
}

macro_rules! contract {
    ($($name:ident),* $(,)?) => {
        mod memory { $(#[tokio::test] async fn $name() {
            let clock = super::still_clock();
            let store = super::MemoryStore::new(clock.clone(), 64 << 20);
            super::$name(super::Subject { store: std::sync::Arc::new(store), clock: Some(clock) }).await;
        })* }
        mod redis { $(#[tokio::test] async fn $name() {
            let server = super::RedisServer::start(&[]);
            // A shared, busy machine may take longer than the production deadline.
            let store: super::RedisStore = super::patient(&server);
            super::$name(super::Subject { store: std::sync::Arc::new(store), clock: None }).await;
        })* }
    };
}

pub(crate) use contract;

pub(crate) fn patient(server: &RedisServer) -> RedisStore {
    let settings = hopcache_store::redis::RedisSettings {
        command_ms: Millis(5_000),
        body_ms: Millis(5_000),
        ..Default::default()
    };
    RedisStore::open(&server.uri(), settings).unwrap()
}

contract!(
    a_miss_is_leased_and_its_commit_is_the_value,
    one_lease_at_a_time_even_for_one_holder,
    a_hundred_askers_get_one_lease,
    only_the_current_token_commits,
    a_lapsed_lease_is_fenced_and_known_to_have_lapsed,
    a_stolen_lease_is_fenced,
    an_invalidation_fences_and_removes,
    a_database_is_invalidated_and_no_other,
    a_stale_value_comes_beside_the_lease,
    a_dead_entry_is_handed_out_beside_the_lease,
    lives_out_of_order_are_no_value,
    an_entry_past_its_total_life_is_gone,
    an_asker_bounds_the_age,
    leases_that_end_together_end_each_by_itself,
    many_leases_end_together,
    large_bodies_come_back_whole,
    what_is_no_entry_is_no_value,
    the_log_tells_what_was_invalidated,
    a_reader_that_is_too_far_behind_sees_a_gap,
);

async fn a_miss_is_leased_and_its_commit_is_the_value(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    store.ping().await.unwrap();
    let (token, kind) = leased(store.get_or_lease(&key, &ask(7, 5_000)).await.unwrap());
    assert_eq!((token.nonce, kind), (7, GrantKind::Free));
    let view = store.peek(&key).await.unwrap();
    let (who, seen, left) = view.lease.unwrap();
    assert_eq!((who, seen, view.entry), (holder("node-a"), token, None));
    assert!(left.0 > 3_000 && left.0 <= 5_000, "{left:?}");
    assert_eq!(store.renew(&key, token, Millis(50_000)).await, Ok(true));
    assert!(store.peek(&key).await.unwrap().lease.unwrap().2.0 > 40_000);
    let bytes = entry(&key, 60_000, "rows");
    // The read began 500 ms ago, so 500 ms less of the 120 s are left, and the age is on the store's clock (I4).
    assert_eq!(store.commit(&key, token, bytes.clone(), Millis(119_500)).await, Ok(Commit::Stored));
    let Ok(Grant::Value(found)) = store.get_or_lease(&key, &ask(8, 5_000)).await else { panic!("a value") };
    assert_eq!(found.bytes, bytes);
    assert!(found.left_ms.0 > 110_000 && found.left_ms.0 <= 119_500, "{:?}", found.left_ms);
    let view = store.peek(&key).await.unwrap();
    assert_eq!((view.entry.unwrap().bytes, view.lease), (bytes, None));
}

async fn one_lease_at_a_time_even_for_one_holder(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    let (token, _) = leased(store.get_or_lease(&key, &ask(7, 5_000)).await.unwrap());
    let again = store.get_or_lease(&key, &ask(8, 5_000)).await.unwrap();
    let Grant::Busy { holder: who, token: current, stale, .. } = again else { panic!("busy") };
    assert_eq!((who, current, stale), (holder("node-a"), token, None));
    assert_eq!(store.release(&key, Token { nonce: 8, ..token }).await, Ok(false), "another's release");
    assert_eq!(store.release(&key, token).await, Ok(true));
    assert_eq!(store.release(&key, token).await, Ok(false));
    let (next, kind) = leased(store.get_or_lease(&key, &ask(9, 5_000)).await.unwrap());
    assert_eq!(kind, GrantKind::Free);
    assert_eq!(store.release(&key, token).await, Ok(false), "a late release of the one before (F2)");
    assert_eq!(store.renew(&key, next, Millis(5_000)).await, Ok(true));
}

async fn a_hundred_askers_get_one_lease(subject: Subject) {
    let mut tasks = tokio::task::JoinSet::new();
    for nonce in 0..100 {
        let store = Arc::clone(&subject.store);
        tasks.spawn(async move { store.get_or_lease(&key(1), &ask(nonce, 5_000)).await.unwrap() });
    }
    let grants = tasks.join_all().await;
    let leases = grants.iter().filter(|grant| matches!(grant, Grant::Lease { .. })).count();
    let busy = grants.iter().filter(|grant| matches!(grant, Grant::Busy { .. })).count();
    assert_eq!((leases, busy), (1, 99), "I1");
}

async fn only_the_current_token_commits(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    let bytes = entry(&key, 60_000, "rows");
    let none = Token { counter: 1, nonce: 1 };
    assert_eq!(store.commit(&key, none, bytes.clone(), Millis(9_000)).await, Ok(Commit::Fenced), "no lease");
    let (token, _) = leased(store.get_or_lease(&key, &ask(7, 5_000)).await.unwrap());
    // The seeded bug `>=`: a higher counter, and an equal one with another nonce, are refused (I3, F16).
    let wrong = [
        Token { nonce: 8, ..token },
        Token { counter: token.counter + 1, ..token },
        Token { counter: token.counter.saturating_sub(1), nonce: 9 },
    ];
    for wrong in wrong {
        assert_eq!(store.commit(&key, wrong, bytes.clone(), Millis(9_000)).await, Ok(Commit::Fenced));
        assert_eq!(store.renew(&key, wrong, Millis(9_000)).await, Ok(false));
    }
    assert_eq!(store.peek(&key).await.unwrap().entry, None);
    assert_eq!(store.commit(&key, token, bytes.clone(), Millis(9_000)).await, Ok(Commit::Stored));
    assert_eq!(store.commit(&key, token, bytes, Millis(9_000)).await, Ok(Commit::Fenced), "twice");
}

async fn a_lapsed_lease_is_fenced_and_known_to_have_lapsed(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    let (late, _) = leased(store.get_or_lease(&key, &ask(7, 40)).await.unwrap());
    subject.pass(60).await;
    let bytes = entry(&key, 60_000, "old");
    assert_eq!(store.peek(&key).await.unwrap().lease, None);
    assert_eq!(store.renew(&key, late, Millis(9_000)).await, Ok(false), "a lapsed lease is not revived");
    assert_eq!(store.commit(&key, late, bytes.clone(), Millis(9_000)).await, Ok(Commit::Fenced));
    let (next, kind) = leased(store.get_or_lease(&key, &ask(8, 5_000)).await.unwrap());
    assert_eq!(kind, GrantKind::Expired);
    assert!(next.counter > late.counter);
    assert_eq!(store.commit(&key, late, bytes, Millis(9_000)).await, Ok(Commit::Fenced), "F2");
    assert_eq!(store.release(&key, late).await, Ok(false));
    let new = entry(&key, 60_000, "new");
    assert_eq!(store.commit(&key, next, new.clone(), Millis(9_000)).await, Ok(Commit::Stored));
    assert_eq!(store.peek(&key).await.unwrap().entry.unwrap().bytes, new);
}

async fn a_stolen_lease_is_fenced(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    let (dead, _) = leased(store.get_or_lease(&key, &ask(7, 5_000)).await.unwrap());
    let guess = Token { nonce: 99, ..dead };
    assert!(matches!(store.steal(&key, guess, &ask(8, 5_000)).await, Ok(Grant::Busy { .. })));
    let (thief, kind) = leased(store.steal(&key, dead, &ask(8, 5_000)).await.unwrap());
    assert_eq!(kind, GrantKind::Stolen);
    assert!(thief.counter > dead.counter);
    let again = store.steal(&key, dead, &ask(9, 5_000)).await.unwrap();
    assert!(matches!(again, Grant::Busy { token, .. } if token == thief), "the second thief is too late");
    let bytes = entry(&key, 60_000, "rows");
    assert_eq!(store.commit(&key, dead, bytes.clone(), Millis(119_000)).await, Ok(Commit::Fenced));
    assert_eq!(store.commit(&key, thief, bytes, Millis(119_000)).await, Ok(Commit::Stored));
    assert!(matches!(store.steal(&key, thief, &ask(10, 5_000)).await, Ok(Grant::Value(_))), "a value wins");
}

fn lease_end(key: &QueryKey, token: Token, entry: Option<(Bytes, Millis)>) -> LeaseEnd {
    LeaseEnd { key: *key, token, entry }
}

/// Commits and releases in one call: each is compared with its own lease, and a refused one harms no other (I3). A second call
/// with the same ends is refused altogether.
async fn leases_that_end_together_end_each_by_itself(subject: Subject) {
    let store = &subject.store;
    let life_ms = Millis(119_000);
    let mut tokens = Vec::new();
    for number in 0..5 {
        tokens.push(leased(store.get_or_lease(&key(number), &ask(7, 5_000)).await.unwrap()).0);
    }
    store.invalidate(&Scope::Key(key(2))).await.unwrap();
    let large = noise(100_000, 1);
    let entries = [
        Some((entry(&key(0), 60_000, "first"), life_ms)),
        None,
        Some((entry(&key(2), 60_000, "purged"), life_ms)),
        Some((entry(&key(3), 60_000, large), life_ms)),
        Some((entry(&key(4), 60_000, "of another token"), life_ms)),
    ];
    let mut ends: Vec<LeaseEnd> = (0..)
        .zip(&tokens)
        .zip(&entries)
        .map(|((number, token), entry)| lease_end(&key(number), *token, entry.clone()))
        .collect();
    ends[4].token.nonce ^= 1;
    let expected = [Ok(true), Ok(true), Ok(false), Ok(true), Ok(false)];
    assert_eq!(store.end_leases(&ends).await, expected);
    for (number, entry) in (0..).zip(&entries) {
        let view = store.peek(&key(number)).await.unwrap();
        let is_stored = expected[usize::try_from(number).unwrap()] == Ok(true);
        let stored = entry.as_ref().filter(|_| is_stored).map(|(entry, _)| entry.clone());
        assert_eq!(view.entry.map(|stored| stored.bytes), stored, "{number}");
        assert_eq!(view.lease.is_some(), number == 4, "{number}");
    }
    assert_eq!(store.end_leases(&ends).await, [const { Ok(false) }; 5], "twice");
    assert_eq!(store.end_leases(&[]).await, []);
}

async fn many_leases_end_together(subject: Subject) {
    let store = &subject.store;
    let mut ends = Vec::new();
    for number in 0..300 {
        let (token, _) = leased(store.get_or_lease(&key(number), &ask(7, 30_000)).await.unwrap());
        let stored =
            (number % 3 > 0).then(|| (entry(&key(number), 60_000, number.to_string()), Millis(119_000)));
        ends.push(lease_end(&key(number), token, stored));
    }
    assert_eq!(store.end_leases(&ends).await, vec![Ok(true); ends.len()]);
    for end in &ends {
        let view = store.peek(&end.key).await.unwrap();
        let stored = end.entry.as_ref().map(|(entry, _)| entry.clone());
        assert_eq!((view.entry.map(|entry| entry.bytes), view.lease), (stored, None));
    }
}

async fn an_invalidation_fences_and_removes(subject: Subject) {
    for scope in [Scope::Key(key(1)), Scope::Tag(Tag::Database(MOVIES)), Scope::All] {
        let (store, key) = (&subject.store, key(1));
        subject.stored(&key, 60_000, 120_000).await;
        let fresh = hopcache_core::lease::LeaseAsk { age_max_ms: Some(Millis(0)), ..ask(2, 5_000) };
        subject.pass(2).await;
        let (running, _) = leased(store.get_or_lease(&key, &fresh).await.unwrap());
        assert_eq!(store.invalidate(&scope).await, Ok(1), "{scope:?}");
        let bytes = entry(&key, 60_000, "read before");
        let late = store.commit(&key, running, bytes, Millis(9_000)).await;
        assert_eq!(late, Ok(Commit::Fenced), "a result read before {scope:?} landed after it (I3)");
        assert_eq!(store.peek(&key).await, Ok(hopcache_core::lease::SlotView::default()));
        assert_eq!(store.invalidate(&scope).await, Ok(0));
    }
}

async fn a_database_is_invalidated_and_no_other(subject: Subject) {
    let store = &subject.store;
    for index in 0..300 {
        let database = if index % 3 == 0 { PEOPLE } else { MOVIES };
        let ask = hopcache_core::lease::LeaseAsk { tags: Tags::of_database(database), ..ask(1, 50_000) };
        let (token, _) = leased(store.get_or_lease(&key(index), &ask).await.unwrap());
        if index % 2 == 0 {
            let bytes = entry_of(database, &key(index), 60_000, "rows");
            store.commit(&key(index), token, bytes, Millis(90_000)).await.unwrap();
        }
    }
    assert_eq!(store.invalidate(&Scope::Tag(Tag::Database(PEOPLE))).await, Ok(50));
    for index in 0..300 {
        let view = store.peek(&key(index)).await.unwrap();
        let (kept, entry) = (index % 3 != 0, index % 2 == 0);
        assert_eq!((view.entry.is_some(), view.lease.is_some()), (kept && entry, kept && !entry), "{index}");
    }
    assert_eq!(store.invalidate(&Scope::All).await, Ok(100));
}

async fn a_stale_value_comes_beside_the_lease(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    subject.stored(&key, 30, 60_000).await;
    // The header says 60 ms in all. By the store's clock (60 s left) no time has passed.
    assert!(matches!(store.get_or_lease(&key, &ask(2, 5_000)).await, Ok(Grant::Value(_))));
    store.invalidate(&Scope::Key(key)).await.unwrap();
    let (token, _) = leased(store.get_or_lease(&key, &ask(1, 5_000)).await.unwrap());
    let bytes = entry(&key, 30_000, "rows");
    store.commit(&key, token, bytes.clone(), Millis(25_000)).await.unwrap();
    let Ok(Grant::Lease { kind, stale, token }) = store.get_or_lease(&key, &ask(2, 5_000)).await else {
        panic!("stale: age 35 s of 30 s")
    };
    assert_eq!((kind, stale.unwrap().bytes), (GrantKind::Free, bytes.clone()));
    let Ok(Grant::Busy { stale, .. }) = store.get_or_lease(&key, &ask(3, 5_000)).await else {
        panic!("busy")
    };
    assert_eq!(stale.unwrap().bytes, bytes, "who waits has the stale copy");
    let new = entry(&key, 30_000, "new rows");
    store.commit(&key, token, new.clone(), Millis(60_000)).await.unwrap();
    assert_eq!(store.peek(&key).await.unwrap().entry.unwrap().bytes, new);
}

/// Past grace a value does not count as a value. It comes with the lease, or with the answer that another node has
/// the lease, until the end of stale-if-error. The engine decides its use.
async fn a_dead_entry_is_handed_out_beside_the_lease(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    let (token, _) = leased(store.get_or_lease(&key, &ask(1, 5_000)).await.unwrap());
    // 60 s in all, dead after 45 s, and 50 s old.
    let bytes = entry(&key, 30_000, "rows");
    store.commit(&key, token, bytes.clone(), Millis(10_000)).await.unwrap();
    let left_of = |stored: hopcache_core::lease::StoredEntry| {
        assert_eq!(stored.bytes, bytes);
        let head = hopcache_core::entry::Head::read(&stored.bytes).unwrap();
        assert_eq!(head.clock(stored.left_ms).physical_left_ms, 0, "dead");
        stored.left_ms
    };
    let Ok(Grant::Lease { stale: Some(dead), .. }) = store.get_or_lease(&key, &ask(2, 5_000)).await else {
        panic!("a lease, and the dead value")
    };
    assert!((1..=10_000).contains(&left_of(dead).0));
    let Ok(Grant::Busy { stale: Some(dead), .. }) = store.get_or_lease(&key, &ask(3, 5_000)).await else {
        panic!("busy, and the dead value")
    };
    left_of(dead);
    left_of(store.peek(&key).await.unwrap().entry.unwrap());
}

/// F41: impossible lifetimes make no entry, in Lua as in Rust.
async fn lives_out_of_order_are_no_value(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    let longest = hopcache_core::limits::ENTRY_LIFE_MS_MAX;
    for (at, life) in [(12, 45_001), (12, u64::MAX), (20, 60_001), (4, 0), (4, longest + 1), (4, u64::MAX)] {
        let (token, _) = leased(store.get_or_lease(&key, &ask(1, 5_000)).await.unwrap());
        let mut bytes = entry(&key, 30_000, "rows").to_vec();
        bytes[at..at + 8].copy_from_slice(&u64::to_be_bytes(life));
        store.commit(&key, token, bytes.into(), Millis(50_000)).await.unwrap();
        assert_eq!(store.peek(&key).await.unwrap().entry, None, "{at}: {life}");
    }
    assert!(matches!(store.get_or_lease(&key, &ask(1, 5_000)).await, Ok(Grant::Lease { stale: None, .. })));
}

async fn an_entry_past_its_total_life_is_gone(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    subject.stored(&key, 60_000, 30).await;
    subject.pass(50).await;
    assert_eq!(store.peek(&key).await.unwrap().entry, None);
    let grant = store.get_or_lease(&key, &ask(2, 5_000)).await.unwrap();
    let Grant::Lease { token, stale: None, kind: GrantKind::Free } = grant else { panic!("{grant:?}") };
    let bytes = entry(&key, 60_000, "rows");
    assert_eq!(store.commit(&key, token, bytes, Millis(0)).await, Ok(Commit::Stored), "dead before it came");
    assert_eq!(store.peek(&key).await, Ok(hopcache_core::lease::SlotView::default()));
}

async fn an_asker_bounds_the_age(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    // 120 s in all, 100 s left: 20 s old.
    subject.stored(&key, 60_000, 100_000).await;
    let older = hopcache_core::lease::LeaseAsk { age_max_ms: Some(Millis(25_000)), ..ask(2, 5_000) };
    assert!(matches!(store.get_or_lease(&key, &older).await, Ok(Grant::Value(_))));
    let younger = hopcache_core::lease::LeaseAsk { age_max_ms: Some(Millis(19_000)), ..ask(3, 5_000) };
    let Ok(Grant::Lease { stale: Some(_), .. }) = store.get_or_lease(&key, &younger).await else {
        panic!("too old")
    };
    assert!(
        matches!(store.get_or_lease(&key, &ask(4, 5_000)).await, Ok(Grant::Value(_))),
        "fresh for others"
    );
}

async fn large_bodies_come_back_whole(subject: Subject) {
    for (index, len) in [60_000_usize, 65_536, 200_000, 4 << 20].into_iter().enumerate() {
        let (store, key) = (&subject.store, key(index as u64));
        let (token, _) = leased(store.get_or_lease(&key, &ask(1, 5_000)).await.unwrap());
        let bytes = entry(&key, 30_000, noise(len, 1));
        assert_eq!(store.commit(&key, token, bytes.clone(), Millis(60_000)).await, Ok(Commit::Stored));
        let Ok(Grant::Value(found)) = store.get_or_lease(&key, &ask(2, 5_000)).await else { panic!("{len}") };
        assert!(found.bytes == bytes, "{len} bytes");
        assert!(store.peek(&key).await.unwrap().entry.unwrap().bytes == bytes);
    }
}

async fn what_is_no_entry_is_no_value(subject: Subject) {
    let (store, key) = (&subject.store, key(1));
    for foreign in [
        &b"x"[..],
        b"HC\x01 another version, long enough to hold a whole header of seventy-seven bytes, and more",
    ] {
        let (token, _) = leased(store.get_or_lease(&key, &ask(1, 5_000)).await.unwrap());
        store.commit(&key, token, foreign.to_vec().into(), Millis(9_000)).await.unwrap();
        assert_eq!(store.peek(&key).await.unwrap().entry, None, "F39");
    }
    assert!(matches!(store.get_or_lease(&key, &ask(1, 5_000)).await, Ok(Grant::Lease { stale: None, .. })));
}

async fn the_log_tells_what_was_invalidated(subject: Subject) {
    let store = &subject.store;
    let start = store.invalidations_since(LogCursor::default()).await.unwrap();
    assert!(start.gap && start.scopes.is_empty(), "a reader without a position must drop its copies");
    let quiet = store.invalidations_since(start.next).await.unwrap();
    assert_eq!((quiet.gap, quiet.scopes.len(), quiet.next), (false, 0, start.next));
    let scopes = [Scope::Key(key(5)), Scope::Tag(Tag::Database(PEOPLE)), Scope::All];
    for scope in &scopes {
        store.invalidate(scope).await.unwrap();
    }
    let page = store.invalidations_since(start.next).await.unwrap();
    assert_eq!((page.gap, page.scopes.as_slice()), (false, &scopes[..]));
    assert!(page.next.sequence > start.next.sequence);
    assert!(store.invalidations_since(page.next).await.unwrap().scopes.is_empty());
    let others = [
        (
            "a place that this log has not reached: it lost some (F16)",
            LogCursor { sequence: page.next.sequence + 1, ..page.next },
        ),
        ("another record of the same number (F44)", LogCursor { tag: page.next.tag ^ 1, ..page.next }),
        (
            "a place of another life of the store (F43)",
            LogCursor { life: StoreLife(!page.next.life.0), ..page.next },
        ),
    ];
    for (what, other) in others {
        let page_of_log = store.invalidations_since(other).await.unwrap();
        assert_eq!(
            (page_of_log.gap, page_of_log.scopes.len(), page_of_log.next),
            (true, 0, page.next),
            "{what}"
        );
    }
}

async fn a_reader_that_is_too_far_behind_sees_a_gap(subject: Subject) {
    let store = &subject.store;
    let start = store.invalidations_since(LogCursor::default()).await.unwrap().next;
    for index in 0..hopcache_core::limits::INVALIDATION_LOG_LEN_MAX as u64 {
        store.invalidate(&Scope::Key(key(index))).await.unwrap();
    }
    let first = store.invalidations_since(start).await.unwrap();
    assert!(!first.gap, "exactly as much as the log keeps");
    assert_eq!(first.scopes.first(), Some(&Scope::Key(key(0))));
    let mut cursor = first.next;
    let mut read = first.scopes.len();
    while let Some(page) =
        Some(store.invalidations_since(cursor).await.unwrap()).filter(|page| !page.scopes.is_empty())
    {
        assert!(!page.gap);
        read += page.scopes.len();
        cursor = page.next;
    }
    assert_eq!(read, hopcache_core::limits::INVALIDATION_LOG_LEN_MAX);
    store.invalidate(&Scope::All).await.unwrap();
    assert!(store.invalidations_since(start).await.unwrap().gap);
    assert!(!store.invalidations_since(cursor).await.unwrap().gap);
}

/// I9: the embedded store stays within its bytes, and never evicts a live lease to do so (F19).
#[tokio::test]
async fn memory_evicts_entries_and_no_leases() {
    let clock = still_clock();
    let store = MemoryStore::new(clock.clone(), 1 << 20);
    let mut leases = Vec::new();
    for index in 0..2_000 {
        leases.push(leased(store.get_or_lease(&key(10_000 + index), &ask(1, 9_000)).await.unwrap()).0);
        let (token, _) = leased(store.get_or_lease(&key(index), &ask(1, 9_000)).await.unwrap());
        let bytes = entry(&key(index), 60_000 + index, noise(1_000, index));
        store.commit(&key(index), token, bytes, Millis(100_000 + index)).await.unwrap();
        assert!(store.weight_bytes() <= 1 << 20);
    }
    assert_eq!(store.peek(&key(0)).await.unwrap().entry, None, "it would have died first");
    assert!(store.peek(&key(1_999)).await.unwrap().entry.is_some());
    for (index, token) in leases.iter().enumerate() {
        assert_eq!(store.renew(&key(10_000 + index as u64), *token, Millis(9_000)).await, Ok(true));
    }
    clock.advance(300_000);
    until(Duration::from_secs(10), "the dead are dropped as operations pass by", || async {
        store.get_or_lease(&key(1), &ask(1, 1)).await.unwrap();
        (store.weight_bytes() == 0).then_some(())
    })
    .await;
}
