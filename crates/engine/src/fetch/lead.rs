//! What a leader does: win the right to run, run, commit, and tell everyone.
//!
//! A leader is a detached task. It belongs to the engine's task tracker, not to the request that
//! happened to start it. It decides nothing about who leads on other nodes: the store's lease does.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_queryapi::render::Form;

use crate::ask::{Ask, Freshness, Hints, Query};
use crate::copy::{Life, MemoryCopy, SharedCopy};
use crate::engine::Engine;
use crate::flight::Leader;
use crate::handover::Brought;
use crate::holdings::Held;
use crate::outcome::{Cause, Detail, Event, Kept, Reason};
use crate::ports::{OriginError, OriginFault};
use crate::prefetch::Ticket;
use crate::win::Win;

/// What a flight tells its leader and its followers alike.
#[derive(Debug)]
pub(crate) struct Landed {
    /// Fingerprint of the credentials that it ran with.
    pub(crate) whose: [u8; 32],
    pub(crate) landing: Landing,
}

/// How a flight ends.
#[derive(Debug)]
pub(crate) enum Landing {
    /// The store had a fresh value.
    Found(SharedCopy),
    /// The store had a stale value; a refresh goes on.
    Stale(SharedCopy),
    /// The origin ran.
    Ran {
        /// Its result.
        copy: SharedCopy,
        /// The answer with this run's bookmark, in the leader's form.
        live: Option<(Form, Bytes)>,
        /// What became of it.
        kept: Kept,
        /// Why it was not kept as usual.
        detail: Option<Detail>,
    },
    /// Nobody vouches that this is a read: each request has to go its own way.
    NotARead(Reason),
    /// The run failed. The error is the statement's own where [`OriginFault::Failed`].
    Failed(OriginError),
    /// Nothing was run: the key's last runs brought no answer, and it is left alone for so long.
    HeldBack {
        /// What is left of the pause.
        left_ms: Millis,
    },
}

/// What a leader needs to know of the request that started it.
#[derive(Debug, Clone)]
pub(crate) struct Errand {
    pub(crate) query: Arc<Query>,
    pub(crate) form: Form,
    pub(crate) hints: Hints,
    pub(crate) traceparent: Option<String>,
    pub(crate) cause: Cause,
    /// Entries older than this do not count; zero for `no-cache`.
    pub(crate) age_max_ms: Option<Millis>,
    /// Whether a stale value in the store is an answer.
    pub(crate) stale_use: StaleUse,
    /// By when a refresh has ended; a request's own deadline bounds its wait, and not the run.
    pub(crate) until: Option<MonoTime>,
    /// Of a prefetch, once its run begins: what it brings has it too.
    pub(crate) ticket: Option<Arc<Ticket>>,
}

impl Errand {
    pub(crate) fn of(ask: &Ask, cause: Cause) -> Self {
        Self {
            query: Arc::clone(&ask.query),
            form: ask.form,
            hints: ask.hints,
            traceparent: ask.traceparent.clone(),
            cause,
            age_max_ms: ask.freshness.age_max_ms,
            stale_use: match ask.freshness {
                Freshness { no_cache: true, .. } => StaleUse::Ignore,
                Freshness { stale_max_ms, .. } => StaleUse::Serve { past_max_ms: stale_max_ms },
            },
            until: None,
            ticket: None,
        }
    }
}

/// Whether a stale value in the store ends the competition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StaleUse {
    /// Somebody waits: serve it, if it is past its soft TTL by no more than this.
    Serve {
        /// The request's `max-stale`.
        past_max_ms: Option<Millis>,
    },
    /// It is what is being refreshed, or what the request does not want.
    Ignore,
}

impl Errand {
    /// Whether a copy that is past its soft TTL and within grace is an answer.
    pub(crate) fn takes_stale(&self, copy: &MemoryCopy, now: MonoTime) -> bool {
        let (StaleUse::Serve { past_max_ms }, Life::Stale(past)) = (self.stale_use, copy.life(now)) else {
            return false;
        };
        past_max_ms.is_none_or(|most| past <= most)
            && self.age_max_ms.is_none_or(|most| copy.age_ms(now) <= most)
    }
}

/// What a flight came to.
struct Flown<'a> {
    landing: Landing,
    /// What a stale value is to be refreshed with.
    refresh: Option<(SharedCopy, (Held<'a>, Millis))>,
    /// Whether the store said who may run.
    is_leased: bool,
}

impl From<Landing> for Flown<'_> {
    fn from(landing: Landing) -> Self {
        Self { landing, refresh: None, is_leased: true }
    }
}

pub(crate) type KeyLeader = Leader<QueryKey, Arc<Landed>>;

impl Engine {
    /// Starts the leader's task.
    pub(crate) fn launch(self: &Arc<Self>, leader: KeyLeader, errand: Errand) {
        let engine = Arc::clone(self);
        self.tasks.spawn(async move {
            let leaving = Arc::clone(&engine);
            tokio::select! {
                biased;
                () = engine.lead(leader, errand) => {}
                // Dropped, it gives its lease back and tells its followers that it was lost.
                () = leaving.flights_handed_on() => {}
            }
        });
    }

    /// Competes, asks a former owner, runs: in this order, and no further than it takes.
    async fn fly(&self, errand: &Errand) -> Flown<'_> {
        if let Some(left_ms) = self.held_back(&errand.query.key) {
            return self.land_held_back(errand, left_ms).await.into();
        }
        if let Some(landing) = self.shed_early(errand).await {
            return landing.into();
        }
        let (token, lease_ms, stale) = match self.win(errand).await {
            Win::Value(copy) => return Landing::Found(copy).into(),
            Win::BusyStale(copy) => return Landing::Stale(copy).into(),
            Win::GaveUp => return Landing::Failed(OriginFault::Overloaded.into()).into(),
            Win::NoStore => {
                let landing = match self.brought(errand).await {
                    Some(Brought::Fresh(copy)) => Landing::Found(copy),
                    Some(Brought::Stale(copy)) => Landing::Stale(copy),
                    None => self.run(errand, None).await,
                };
                return Flown { is_leased: false, ..landing.into() };
            }
            Win::Lease { token, lease_ms, stale } => (token, lease_ms, stale),
        };
        let held = Held::new(self, errand.query.key, token);
        let brought = match stale {
            Some(copy) => Some(Brought::Stale(copy)),
            None => self.brought(errand).await,
        };
        match brought {
            #[cfg(hopcache_seeded)]
            Some(Brought::Fresh(copy)) if self.seeded_commit(errand, &copy, token).await => {
                Landing::Found(copy).into()
            }
            // The lease is given back: what was brought is not committed (`handover.rs`).
            Some(Brought::Fresh(copy)) => Landing::Found(copy).into(),
            Some(Brought::Stale(copy)) => {
                let refresh = Some((Arc::clone(&copy), (held, lease_ms)));
                Flown { refresh, ..Landing::Stale(copy).into() }
            }
            None => self.run_leased(errand, held.handed_on(), lease_ms).await.into(),
        }
    }

    pub(crate) async fn lead(self: Arc<Self>, leader: KeyLeader, errand: Errand) {
        self.queue.saw(&errand.query, self.now());
        let spare = self.spare_of_memory(&errand.query);
        let expired = self.expired_copy(&errand.query.key);
        let Flown { landing, refresh, is_leased } = self.fly(&errand).await;
        if let Some(copy) = expired {
            self.note_late_miss(&copy, &landing);
        }
        self.keep(&errand, &landing);
        // The server would not give the old value any more: no later outage may bring it back (I11). The store has it
        // no more (`land_without`). Whoever hears of the refusal from this node gets nothing older from it any more;
        // the other nodes are told when those who wait have their answer.
        let key = errand.query.key;
        let has_old = spare.is_taken() || self.own_copy(&key).is_some();
        let refused = if has_old && landing.is_refusal() {
            let telling = self.refusals.acquire().await;
            self.forget_refused(&key);
            Some(telling)
        } else {
            None
        };
        // Only now: a quick refresh would otherwise keep the new value before we keep the stale one.
        if let Some((copy, lease)) = refresh {
            self.refresh_leased(errand.clone(), &copy, lease);
        }
        if !leader.is_attached() {
            // An invalidation came between our read and our keeping it:
            //   we read X · purge detaches this flight · purge empties memory · we keep X.
            self.ports.memory.remove(&errand.query.key);
        }
        drop(spare);
        let whose = errand.query.identity.fingerprint;
        let followers = leader.land(Arc::new(Landed { whose, landing }));
        self.note(Event::Landed { followers });
        if let Some(_telling) = refused {
            self.tell_refused(&key, is_leased).await;
        }
    }
}

impl Landing {
    /// Whether the server would not give an older value any more.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Self::Failed(error) if error.kind.refuses_statement())
    }
}
