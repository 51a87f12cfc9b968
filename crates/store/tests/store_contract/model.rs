//! Random operations on the reference slot, the embedded store and Redis: the three must agree.
//!
//! Nothing waits: entries are made stale by the life they are given, not by time. Counters differ between stores
//! (each has its own clock), so tokens are named by the step that got them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::lease::slot::Slot;
use hopcache_core::lease::{Commit, Grant, LeaseAsk, SlotView, Token};
use hopcache_core::tags::{Tag, Tags};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{Scope, Store};
use hopcache_store::memory::MemoryStore;
use hopcache_store::redis::{RedisSettings, RedisStore};
use proptest::prelude::*;

use super::fixtures::{MOVIES, PEOPLE, ask, entry_of, still_clock};
use super::server::RedisServer;

const LONG: u64 = 1_000_000;

#[derive(Debug, Clone)]
enum Step {
    Ask { slot: u64, people: bool, age_max: Option<u64> },
    Steal { slot: u64, token: Named, age_max: Option<u64> },
    Commit { slot: u64, token: Named, people: bool, life_ms: u64 },
    Renew { slot: u64, token: Named },
    Release { slot: u64, token: Named },
    InvalidateKey { slot: u64 },
    InvalidatePeople,
    Peek { slot: u64 },
}

/// The token of the n-th last lease, or a token that is almost that one.
#[derive(Debug, Clone, Copy)]
struct Named {
    back: usize,
    bent: Bent,
}

#[derive(Debug, Clone, Copy)]
enum Bent {
    Not,
    Nonce,
    Higher,
}

fn named() -> impl Strategy<Value = Named> {
    let bent = prop_oneof![6 => Just(Bent::Not), 1 => Just(Bent::Nonce), 1 => Just(Bent::Higher)];
    (0_usize..3, bent).prop_map(|(back, bent)| Named { back, bent })
}

/// Entries are 10 s old when they come, or stale, or dead.
fn life() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(2 * LONG - 10_000), 2 => Just(LONG - 10_000), 1 => Just(0)]
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 0_u64..2;
    let age = prop_oneof![3 => Just(None), 1 => Just(Some(5_000)), 1 => Just(Some(600_000))];
    prop_oneof![
        4 => (slot.clone(), any::<bool>(), age.clone()).prop_map(|(slot, people, age_max)| Step::Ask { slot, people, age_max }),
        2 => (slot.clone(), named(), age).prop_map(|(slot, token, age_max)| Step::Steal { slot, token, age_max }),
        4 => (slot.clone(), named(), any::<bool>(), life())
            .prop_map(|(slot, token, people, life_ms)| Step::Commit { slot, token, people, life_ms }),
        1 => (slot.clone(), named()).prop_map(|(slot, token)| Step::Renew { slot, token }),
        2 => (slot.clone(), named()).prop_map(|(slot, token)| Step::Release { slot, token }),
        1 => slot.clone().prop_map(|slot| Step::InvalidateKey { slot }),
        1 => Just(Step::InvalidatePeople),
        2 => slot.prop_map(|slot| Step::Peek { slot }),
    ]
}

/// One run's view of one store: the token of each step, and the answers.
struct Run {
    case: u64,
    tokens: Vec<Token>,
}

impl Run {
    fn key(&self, slot: u64) -> QueryKey {
        super::fixtures::key(self.case * 10 + slot)
    }

    fn token(&self, named: Named) -> Token {
        let at = self.tokens.len().checked_sub(named.back + 1);
        let token = at.map_or(Token { counter: 5, nonce: 5 }, |at| self.tokens[at]);
        match named.bent {
            Bent::Not => token,
            Bent::Nonce => Token { nonce: token.nonce + 1_000, ..token },
            Bent::Higher => Token { counter: token.counter + 1, ..token },
        }
    }

    fn ask(number: usize, people: bool, age_max: Option<u64>) -> LeaseAsk {
        let database = if people { PEOPLE } else { MOVIES };
        LeaseAsk {
            tags: Tags::of_database(database),
            age_max_ms: age_max.map(Millis),
            // Half of the nodes can prove up to some age.
            proved_max_ms: Millis(if number.is_multiple_of(2) { 0 } else { 40 * number as u64 }),
            ..ask(number as u128, LONG)
        }
    }

    fn text_of(&mut self, grant: &Grant) -> String {
        let stale_of = |stale: &Option<_>| stale.is_some();
        match grant {
            Grant::Value(found) => format!("value of {} bytes", found.bytes.len()),
            Grant::Lease { token, kind, stale } => {
                self.tokens.push(*token);
                format!("lease {} {kind:?} stale {}", token.nonce, stale_of(stale))
            }
            Grant::Busy { holder, token, stale, .. } => {
                format!("busy {holder} {} stale {}", token.nonce, stale_of(stale))
            }
        }
    }

    async fn take(&mut self, store: &dyn Store, number: usize, step: &Step) -> String {
        match *step {
            Step::Ask { slot, people, age_max } => {
                let ask = Self::ask(number, people, age_max);
                let grant = store.get_or_lease(&self.key(slot), &ask).await.unwrap();
                self.text_of(&grant)
            }
            Step::Steal { slot, token, age_max } => {
                let (ask, dead) = (Self::ask(number, false, age_max), self.token(token));
                let grant = store.steal(&self.key(slot), dead, &ask).await.unwrap();
                self.text_of(&grant)
            }
            Step::Commit { slot, token, people, life_ms } => {
                let (key, database) = (self.key(slot), if people { PEOPLE } else { MOVIES });
                let bytes = entry_of(database, &key, LONG, vec![7; number]);
                format!("{:?}", store.commit(&key, self.token(token), bytes, Millis(life_ms)).await)
            }
            Step::Renew { slot, token } => {
                format!("{:?}", store.renew(&self.key(slot), self.token(token), Millis(LONG)).await)
            }
            Step::Release { slot, token } => {
                format!("{:?}", store.release(&self.key(slot), self.token(token)).await)
            }
            Step::InvalidateKey { slot } => {
                format!("{:?}", store.invalidate(&Scope::Key(self.key(slot))).await)
            }
            Step::InvalidatePeople => {
                // Keys of other cases may be there too, so the count has no meaning.
                format!("{:?}", store.invalidate(&Scope::Tag(Tag::Database(PEOPLE))).await.map(drop))
            }
            Step::Peek { slot } => {
                let view: SlotView = store.peek(&self.key(slot)).await.unwrap();
                let lease = view.lease.map(|(holder, token, _)| (holder.to_string(), token.nonce));
                format!("{:?} {lease:?}", view.entry.map(|entry| entry.bytes.len()))
            }
        }
    }
}

/// The reference itself: the slots alone, without a store's bookkeeping.
fn reference(case: u64, steps: &[Step]) -> Vec<String> {
    let (mut run, mut slots) = (Run { case, tokens: Vec::new() }, BTreeMap::<QueryKey, Slot>::new());
    let now = MonoTime(1_000_000);
    let mut take = |number: usize, step: &Step| {
        let slot = match step {
            Step::InvalidatePeople => {
                for slot in slots.values_mut() {
                    slot.invalidate(now, Some(Tag::Database(PEOPLE)));
                }
                return "Ok(())".to_owned();
            }
            Step::Ask { slot, .. }
            | Step::Steal { slot, .. }
            | Step::Commit { slot, .. }
            | Step::Renew { slot, .. }
            | Step::Release { slot, .. }
            | Step::InvalidateKey { slot }
            | Step::Peek { slot } => slot,
        };
        let key = run.key(*slot);
        let held = slots.entry(key).or_default();
        match *step {
            Step::Ask { people, age_max, .. } => {
                let grant = held.get_or_lease(now, &Run::ask(number, people, age_max));
                run.text_of(&grant)
            }
            Step::Steal { token, age_max, .. } => {
                let grant = held.steal(now, run.token(token), &Run::ask(number, false, age_max));
                run.text_of(&grant)
            }
            Step::Commit { token, people, life_ms, .. } => {
                let database = if people { PEOPLE } else { MOVIES };
                let bytes = entry_of(database, &key, LONG, vec![7; number]);
                let outcome: Commit = held.commit(now, run.token(token), bytes, Millis(life_ms));
                format!("Ok({outcome:?})")
            }
            Step::Renew { token, .. } => format!("Ok({:?})", held.renew(now, run.token(token), Millis(LONG))),
            Step::Release { token, .. } => format!("Ok({:?})", held.release(now, run.token(token))),
            Step::InvalidateKey { .. } => format!("Ok({})", u64::from(held.invalidate(now, None))),
            Step::Peek { .. } => {
                let view = held.view(now);
                let lease = view.lease.map(|(holder, token, _)| (holder.to_string(), token.nonce));
                format!("{:?} {lease:?}", view.entry.map(|entry| entry.bytes.len()))
            }
            Step::InvalidatePeople => String::new(),
        }
    };
    steps.iter().enumerate().map(|(number, step)| take(number, step)).collect()
}

async fn answers(store: &dyn Store, case: u64, steps: &[Step]) -> Vec<String> {
    let mut run = Run { case, tokens: Vec::new() };
    let mut trace = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        trace.push(run.take(store, number, step).await);
    }
    trace
}

#[test]
fn both_stores_do_what_the_reference_does() {
    let server = RedisServer::start(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let settings = RedisSettings { command_ms: Millis(5_000), ..RedisSettings::default() };
    let redis = RedisStore::open(&server.uri(), settings).unwrap();
    let memory = MemoryStore::new(still_clock(), 64 << 20);
    let cases = AtomicU64::new(0);
    let config = ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(steps in proptest::collection::vec(step(), 1..50))| {
        let case = cases.fetch_add(1, Ordering::Relaxed);
        let due = reference(case, &steps);
        let (embedded, real) = runtime.block_on(async {
            (answers(&memory, case, &steps).await, answers(&redis, case, &steps).await)
        });
        prop_assert_eq!(&due, &embedded, "embedded store");
        prop_assert_eq!(&due, &real, "Redis");
    });
    println!("{} sequences agreed", cases.load(Ordering::Relaxed));
}
