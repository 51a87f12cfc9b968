//! One refresh from its place in the queue to its end: tries, the waits between them, and what becomes of the value.
//!
//! Every refresh that was triggered ends as completed or failed, however its task ends: [`Ticket`] says so when it
//! is dropped. A failed one leaves the stale copy where it is, but for one case: the server says that the statement
//! itself fails now, or is not for this principal any more. Then nobody is served the old value.

use std::sync::Arc;

use hopcache_core::key::QueryKey;
use hopcache_core::lease::Token;
use hopcache_core::limits;
use hopcache_core::time::{Millis, MonoTime};

use super::queue::{Counted, Place, is_heavy};
use crate::copy::{Life, MemoryCopy, SharedCopy};
use crate::engine::Engine;
use crate::flight::Leader;
use crate::holdings::Held;
use crate::lead::{Errand, Landing, StaleUse};
use crate::outcome::{Cause, Event, Kept, RefreshWord};
use crate::ports::{OriginError, OriginFault};
use crate::span::scaled;
use crate::win::Win;

/// The copy that is to be replaced, without its bytes: a refresh may wait for long.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replaced {
    token: Option<Token>,
    read_started: MonoTime,
    cost_ms: Millis,
}

impl Replaced {
    pub(super) fn of(copy: &MemoryCopy) -> Self {
        Self { token: copy.token, read_started: copy.read_started, cost_ms: copy.cost_ms }
    }

    /// Entries older than this are no newer than the copy. Let its run have begun at 0, taken c and been stored at
    /// c + d, d being the commit's way. The store counts an entry's life from its commit, so its word on the copy's
    /// age now is a − d, where ours is a. Whoever ran next had the lease after c + d, so the store takes what that
    /// run brought for younger than a − d − c at the latest. With a − c as the limit the next one always counts, and
    /// the copy's own entry does not as long as d < c. (Where it does all the same it is known by its token.)
    /// Two milliseconds are for what is cut off spans on their way.
    pub(super) fn age_max_ms(&self, now: MonoTime) -> Millis {
        now.since(self.read_started).saturating_sub(self.cost_ms.saturating_sub(Millis(2)))
    }

    fn is_older_than(&self, copy: &MemoryCopy) -> bool {
        copy.token != self.token && copy.read_started > self.read_started
    }
}

/// A refresh that was triggered.
pub(super) struct Ticket {
    engine: Arc<Engine>,
    /// Until it has ended.
    seat: Option<Leader<QueryKey, ()>>,
    errand: Errand,
    replaced: Replaced,
    began: MonoTime,
    /// One of those that began and have not ended.
    counted: Option<Counted>,
}

impl Ticket {
    pub(super) fn new(
        engine: &Arc<Engine>,
        seat: Leader<QueryKey, ()>,
        errand: Errand,
        replaced: Replaced,
    ) -> Self {
        let counted = engine.queue.begin();
        engine.note(Event::Refresh(RefreshWord::Triggered));
        let errand = Errand { cause: Cause::Refresh, stale_use: StaleUse::Ignore, ..errand };
        Self { began: engine.now(), engine: Arc::clone(engine), seat: Some(seat), errand, replaced, counted }
    }

    fn key(&self) -> &QueryKey {
        &self.errand.query.key
    }

    /// Whether no invalidation has come since it was triggered.
    fn is_attached(&self) -> bool {
        self.seat.as_ref().is_some_and(Leader::is_attached)
    }

    /// Whether its request takes room that requests to come may need while it sleeps.
    fn is_heavy(&self) -> bool {
        is_heavy(&self.errand.query)
    }

    fn note_end(&mut self, word: RefreshWord) {
        self.counted = None;
        self.engine.note(Event::Refresh(word));
        self.engine.note(Event::RefreshTook(self.engine.now().since(self.began)));
    }

    /// Keeps what came.
    fn complete(mut self, landing: &Landing) {
        let Some(seat) = self.seat.take() else { return };
        self.note_end(RefreshWord::Completed);
        self.engine.keep(&self.errand, landing);
        if !seat.is_attached() {
            self.engine.ports.memory.remove(self.key());
        }
        seat.land(());
    }
}

/// Not completed is failed: given up, ended by a shutdown, or lost in a panic (F4).
impl Drop for Ticket {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        self.note_end(RefreshWord::Failed);
        // Every hit would try again at once while the origin is down. After an invalidation what is in memory is
        // another copy, and none of this refresh's business.
        if seat.is_attached() {
            let (engine, key) = (&self.engine, self.key());
            let pause_ms = engine.jittered(limits::REFRESH_RETRY_MS);
            engine.put_off_refresh(key, pause_ms.max(engine.held_back(key).unwrap_or_default()));
        }
        seat.land(());
    }
}

/// How one try ended.
enum Tried {
    /// There is a newer value.
    Brought(Landing),
    /// There is none, and trying again by itself would not help.
    Over,
    /// There is none, and it may.
    Again,
    /// Nothing was tried: by the last runs of its key it is held back.
    HeldBack,
    /// The server would not give the old value any more.
    Gone,
}

impl Engine {
    /// Takes a refresh from its place to its end.
    pub(super) async fn refresh_through(
        self: Arc<Self>,
        ticket: Ticket,
        mut place: Place,
        mut lease: Option<(Token, Millis)>,
    ) {
        let (mut tries, mut waits) = (0, 0);
        loop {
            let Some(worker) = place.worker().await else { return };
            let tried = self.try_refresh(&ticket, lease.take(), tries > 0).await;
            if matches!(tried, Tried::Gone) {
                let key = *ticket.key();
                drop(ticket);
                self.forget_refused(&key);
                self.tell_refused(&key, true).await;
                // Only now: so no more refusals are told of at a time than there are workers.
                drop(worker);
                return;
            }
            drop(worker);
            match tried {
                Tried::Brought(landing) => return ticket.complete(&landing),
                Tried::Over | Tried::Gone => return,
                Tried::Again => tries += 1,
                // No try, so it costs none; but it does not wait for ever for runs of others either.
                Tried::HeldBack => waits += 1,
            }
            if tries.max(waits) > self.policy.refresh.retries_max {
                return;
            }
            let Some(next) = self.sleep_before_retry(&ticket, tries).await else { return };
            place = next;
        }
    }

    /// A place for the next try after so many, when its time has come; none where there will be none.
    async fn sleep_before_retry(&self, ticket: &Ticket, tries: u32) -> Option<Place> {
        let policy = &self.policy.refresh;
        if !ticket.is_attached() || ticket.is_heavy() {
            return None;
        }
        let asleep = self.queue.fall_asleep()?;
        let exponent = i32::try_from(tries.saturating_sub(1)).unwrap_or(i32::MAX);
        let backed_off = scaled(Millis(limits::REFRESH_RETRY_MS), policy.retry_factor.powi(exponent));
        let pause_ms = self.jittered(backed_off.0.min(limits::REFRESH_RETRY_MS_MAX));
        let pause_ms = pause_ms.max(self.held_back(ticket.key()).unwrap_or_default());
        self.put_off_refresh(ticket.key(), pause_ms);
        tokio::select! {
            biased;
            () = self.queue.ended() => return None,
            () = self.ports.clock.sleep(pause_ms) => {}
        }
        drop(asleep);
        self.queue.enter(&ticket.errand.query, self.now())
    }

    async fn try_refresh(&self, ticket: &Ticket, lease: Option<(Token, Millis)>, is_retry: bool) -> Tried {
        let key = ticket.key();
        // Given back where it is not used.
        let lease = lease.map(|(token, lease_ms)| (Held::new(self, *key, token), lease_ms));
        if !ticket.is_attached() || self.queue.is_ended() {
            return Tried::Over;
        }
        if lease.is_none() {
            if let Some(copy) = self.newer_in_memory(ticket) {
                return Tried::Brought(Landing::Found(copy));
            }
            if self.held_back(key).is_some() {
                return Tried::HeldBack;
            }
        }
        if is_retry {
            self.note(Event::Refresh(RefreshWord::Retried));
            #[cfg(hopcache_seeded)]
            crate::seeded::counts_retry(|| self.note(Event::Refresh(RefreshWord::Triggered)));
        }
        let timeout_ms = self.policy.refresh.timeout_ms;
        let errand = Errand {
            age_max_ms: Some(ticket.replaced.age_max_ms(self.now())),
            until: Some(self.now() + timeout_ms),
            ..ticket.errand.clone()
        };
        let lease = lease.map(|(held, lease_ms)| (held.handed_on(), lease_ms));
        tokio::select! {
            biased;
            tried = self.try_until(errand, &ticket.replaced, lease) => tried,
            // Dropped, it gives its lease back.
            () = self.flights_handed_on() => Tried::Over,
            // The competition and the run have that deadline themselves: this is for an origin that does not keep to
            // its own. The run is dropped, which counts it as timed out, and its lease given back.
            () = self.ports.clock.sleep(Millis(timeout_ms.0.saturating_add(limits::REFRESH_CUT_MS))) => Tried::Again,
        }
    }

    fn newer_in_memory(&self, ticket: &Ticket) -> Option<SharedCopy> {
        let copy = self.own_copy(ticket.key())?;
        let is_fresh = matches!(copy.life(self.now()), Life::Fresh(_));
        (is_fresh && copy.token.is_some() && ticket.replaced.is_older_than(&copy)).then_some(copy)
    }

    async fn try_until(
        &self,
        mut errand: Errand,
        replaced: &Replaced,
        lease: Option<(Token, Millis)>,
    ) -> Tried {
        if let Some((token, lease_ms)) = lease {
            return tried(self.run_leased(&errand, token, lease_ms).await);
        }
        let mut is_second = false;
        loop {
            let asked = self.now();
            match self.win(&errand).await {
                #[cfg(hopcache_seeded)]
                Win::NoStore if crate::seeded::refreshes_unlocked(&errand) => {
                    return tried(self.run(&errand, None).await);
                }
                // Taken for young by a store whose clock was set back (F24): it is what was to be replaced.
                Win::Value(copy) if copy.token == replaced.token && is_second => return Tried::Over,
                Win::Value(copy) if copy.token == replaced.token => {
                    // What is to be replaced took longer to be stored than to be read: by the store's own word it
                    // is at least this old.
                    let now = self.now();
                    let least = copy.age_ms(now).saturating_sub(now.since(asked));
                    errand.age_max_ms = Some(least.saturating_sub(Millis(2)));
                    is_second = true;
                }
                Win::Value(copy) | Win::BusyStale(copy) => return Tried::Brought(Landing::Found(copy)),
                Win::Lease { token, lease_ms, .. } => {
                    return tried(self.run_leased(&errand, token, lease_ms).await);
                }
                Win::GaveUp => return Tried::Again,
                // Without a lease nobody refreshes: every node would.
                Win::NoStore => return Tried::Over,
            }
        }
    }
}

fn tried(landing: Landing) -> Tried {
    match landing {
        Landing::Found(_) | Landing::Ran { kept: Kept::Stored, .. } => Tried::Brought(landing),
        Landing::Failed(OriginError { kind, .. }) => match kind {
            kind if kind.refuses_statement() => Tried::Gone,
            OriginFault::Failed(_) | OriginFault::Unauthorized(_) | OriginFault::TooLarge { .. } => {
                Tried::Over
            }
            OriginFault::Transient(_)
            | OriginFault::Unreachable(_)
            | OriginFault::Cut(_)
            | OriginFault::TimedOut
            | OriginFault::Overloaded
            | OriginFault::TooManyRuns => Tried::Again,
        },
        // Somebody newer leads, or it cannot be kept.
        Landing::Ran { .. } | Landing::Stale(_) | Landing::NotARead(_) | Landing::HeldBack { .. } => {
            Tried::Over
        }
    }
}
