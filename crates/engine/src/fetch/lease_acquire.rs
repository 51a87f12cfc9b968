//! Competing for the lease of a key: ends with a value, the right to run, or the news that another node runs.
//!
//! Between nodes the store decides. This module asks it, waits, and finds out whether a holder is still alive. It never
//! runs anything.

use hopcache_core::entry::Head;
use hopcache_core::lease::{Grant, GrantKind, LeaseAsk, StoredEntry, Token};
use hopcache_core::limits;
use hopcache_core::node::{Holder, Incarnation};
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::Purges;
use crate::cache::copy::{MemoryCopy, SharedCopy};
use crate::fetch::Fetch;
use crate::fetch::leases::HeldLease;
use crate::fetch::terms::{LeaseTerms, WithoutLease};
use crate::model::ask::Query;
use crate::model::event::{Cause, Event};
use crate::model::job::FetchJob;
use crate::model::ports::{PeerError, Scope, Store, StoreError};
use crate::model::trace::{Fact, LeaseWord, Step};
use crate::writes::Unfit;

/// Ages are cut to whole milliseconds by the store and by this node.
const ROUNDING_MS: Millis = Millis(2);

/// What the store takes for the age of this copy, at least.
fn least_age(copy: &MemoryCopy, now: MonoTime) -> Millis {
    copy.age_ms(now).saturating_sub(ROUNDING_MS)
}

/// How old a stored entry is by the store's clock.
fn age_of(stored: &StoredEntry) -> Millis {
    Head::read(&stored.bytes).map_or(Millis::ZERO, |head| Millis(head.clock(stored.left_ms).age_ms))
}

/// Whether a stored entry was past its soft life when the store answered: it is a value only if it is proved.
fn is_past_ttl(stored: &StoredEntry) -> bool {
    Head::read(&stored.bytes).is_some_and(|head| head.clock(stored.left_ms).fresh_left_ms <= 0)
}

/// How the competition for a key ended.
#[derive(Debug)]
pub(super) enum Acquisition {
    /// A fresh value.
    Value(SharedCopy),
    /// This node may run. A stale value may be served meanwhile.
    Lease { lease: HeldLease, stale: Option<SharedCopy> },
    /// Another holder runs, and a stale value may be served meanwhile.
    BusyStale(SharedCopy),
    /// Another holder runs, for longer than this fetch waits.
    Busy,
    /// The store is away, refuses (full, read-only, no right), or holds an entry that cannot be read.
    NoStore,
}

impl Acquisition {
    fn word(&self) -> LeaseWord {
        match self {
            Self::Value(_) => LeaseWord::Value,
            Self::Lease { .. } => LeaseWord::Granted,
            Self::BusyStale(_) | Self::Busy => LeaseWord::Busy,
            Self::NoStore => LeaseWord::NoStore,
        }
    }
}

/// Why a stored entry is no answer.
enum Unusable {
    /// It failed its checksum and is removed, so the next answer will be another one. The competition asks for that after
    /// a loser's wait. So a node that keeps storing corrupt entries delays others no more than a holder that never ends.
    Removed,
    /// It failed its checksum, could not be removed, and would be found again and again.
    Stays,
    /// It is past its soft life, and not proved. From now on such an entry is no value.
    Unproved,
    /// It was read before what the client has seen, before a write, or from another database. From now on only younger ones are asked
    /// for.
    Older,
}

/// One competition for one key.
struct Competition<'a> {
    job: &'a FetchJob,
    held: Option<&'a SharedCopy>,
    /// One nonce for the whole competition. If the grant of a lease is lost on the way (F21), the next answer says that
    /// the lease is held, and the nonce shows that this node holds it.
    ask: LeaseAsk,
    limit: AgeLimit,
    purges: Purges,
}

impl Competition<'_> {
    /// The question to the store at this moment.
    fn ask_at(&mut self, now: MonoTime) -> &LeaseAsk {
        self.ask.age_max_ms = self.limit.at(now);
        &self.ask
    }
}

/// Up to which age a stored entry is a value.
#[derive(Debug, Clone, Copy, Default)]
struct AgeLimit {
    /// A client's `max-age`: the same at each question.
    of_client: Option<Millis>,
    /// Only entries that are younger than a known one count. The limit as it was at that time: it grows as the known entry
    /// ages. Schedule of a limit that does not grow:
    ///   a refresh finds an entry of 381 ms, which a write has ended, and asks for a younger one · another run has the
    ///   lease, and brings a value after 350 ms · at the next question that value is 407 ms old, and is run once more.
    younger: Option<(Millis, MonoTime)>,
}

impl AgeLimit {
    /// Of a job that asks at `now`. Nobody but a client has a limit of its own: other runs replace an entry, by a younger one.
    fn of(job: &FetchJob, now: MonoTime) -> Self {
        match (job.cause, job.bounds.age_max_ms) {
            (Cause::Refresh | Cause::Prefetch, Some(most)) => Self::default().younger_than(most, now),
            (_, of_client) => Self { of_client, younger: None },
        }
    }

    /// Also for entries younger than one of this age.
    fn younger_than(self, age_ms: Millis, now: MonoTime) -> Self {
        let age_ms = self.younger_at(now).map_or(age_ms, |before| before.min(age_ms));
        Self { younger: Some((age_ms, now)), ..self }
    }

    fn younger_at(&self, now: MonoTime) -> Option<Millis> {
        self.younger.map(|(age_ms, at)| Millis(age_ms.0.saturating_add(now.since(at).0)))
    }

    fn at(&self, now: MonoTime) -> Option<Millis> {
        [self.of_client, self.younger_at(now)].into_iter().flatten().min()
    }
}

impl Fetch {
    /// Takes the lease that the fetch holds already, or competes for it as the terms say.
    pub(super) async fn acquire(
        &self,
        job: &FetchJob,
        (lease, without_lease): (LeaseTerms, WithoutLease),
        held: Option<&SharedCopy>,
    ) -> Acquisition {
        let give_up_at = match lease {
            LeaseTerms::Held(lease) => return Acquisition::Lease { lease, stale: None },
            LeaseTerms::Once => None,
            LeaseTerms::WaitUntil(give_up_at) => Some(give_up_at),
        };
        let began = self.context.now();
        let mut span = self.context.begin(job.traceparent.as_deref(), Step::Lease);
        let acquired = match give_up_at {
            None => self.acquire_at_once(job, without_lease, held).await,
            Some(give_up_at) => self.acquire_until(job, held, give_up_at).await,
        };
        job.times.leased(self.context.now().since(began));
        if let Some(span) = &mut span {
            span.note(Fact::Leased(acquired.word()));
        }
        acquired
    }

    /// One question to the store, and a second one if its answer was lost: a lease that was granted unheard would keep everybody waiting until
    /// it lapsed (F21).
    async fn ask_twice(
        &self,
        competition: &mut Competition<'_>,
        asked: MonoTime,
    ) -> Result<Grant, StoreError> {
        let key = &competition.job.query.key;
        match self.store.get_or_lease(key, competition.ask_at(asked)).await {
            Err(StoreError::TimedOut) => self.store.get_or_lease(key, &competition.ask).await,
            grant => grant,
        }
    }

    /// Asks the store once, and again for a lease if it has an entry that is past its TTL and not proved here.
    async fn acquire_at_once(
        &self,
        job: &FetchJob,
        without_lease: WithoutLease,
        held: Option<&SharedCopy>,
    ) -> Acquisition {
        let mut asked = self.context.now();
        let mut competition = self.competition(job, held, asked);
        let mut grant = self.ask_twice(&mut competition, asked).await;
        if let Ok(Grant::Value(stored)) = &grant
            && is_past_ttl(stored)
        {
            let held = held.map(|copy| &**copy);
            let taken = self.writes.take_unasked(&job.query, stored, asked, held).await.ok();
            // A request that wants a read of its own takes none (F24, below).
            if without_lease != WithoutLease::Run
                && let Some(copy) = taken.filter(|copy| self.cache.is_proved_answer(copy, &job.bounds))
            {
                return Acquisition::Value(copy);
            }
            competition.ask.proved_max_ms = Millis::ZERO;
            asked = self.context.now();
            grant = self.ask_twice(&mut competition, asked).await;
        }
        match grant {
            Err(_) => Acquisition::NoStore,
            // An entry also has age zero when the store's clock was set back (F24). A request that wants a read of its
            // own takes none.
            Ok(Grant::Value(_)) if without_lease == WithoutLease::Run => Acquisition::Busy,
            // A corrupt entry is left to a waiting request, which removes it.
            Ok(Grant::Value(stored)) => {
                let held = held.map(|copy| &**copy);
                let taken = match job.cause {
                    Cause::Prefetch => self.writes.take_unasked(&job.query, &stored, asked, held).await,
                    _ => self.writes.take_stored(&job.query, &stored, asked, held).await,
                };
                match taken {
                    Ok(copy) => Acquisition::Value(copy),
                    Err(Unfit::Corrupt) => Acquisition::NoStore,
                    Err(Unfit::OfAnother) => Acquisition::Busy,
                }
            }
            Ok(Grant::Busy { token, stale, .. }) if token.nonce == competition.ask.nonce => {
                self.won(&competition, (GrantKind::Free, token, asked), (stale.is_some(), None))
            }
            Ok(Grant::Busy { .. }) => Acquisition::Busy,
            Ok(Grant::Lease { token, kind, stale }) => {
                self.won(&competition, (kind, token, asked), (stale.is_some(), None))
            }
        }
    }

    /// Competes until there is a value, a lease, or no store. A loser waits with exponential back-off and jitter and
    /// then competes again: the end of a wait is never a reason to run without a lease.
    async fn acquire_until(
        &self,
        job: &FetchJob,
        held: Option<&SharedCopy>,
        give_up_at: MonoTime,
    ) -> Acquisition {
        let mut competition = self.competition(job, held, self.context.now());
        let key = &job.query.key;
        let mut wait_ms = limits::LEASE_POLL_MS_FIRST;
        let mut dead = None;
        let mut probe_after = MonoTime::default();
        let mut silences = 0;
        // The first question in a row of silences. Its grant may be one that was lost.
        let mut lost = None;
        loop {
            let asked = self.context.now();
            let grant = match dead.take() {
                None => self.store.get_or_lease(key, competition.ask_at(asked)).await,
                Some(token) => self.store.steal(key, token, competition.ask_at(asked)).await,
            };
            let first_asked = lost.unwrap_or(asked);
            if grant.is_ok() {
                lost = None;
                // Only consecutive silences count. A node that waits for seconds for another's lease would otherwise
                // collect enough single ones, and run beside the holder (I2).
                silences = 0;
            }
            match grant {
                // A slow store is not gone: a burst that starves the machine must not cause runs without a lease. A
                // store that stays silent is gone.
                Err(StoreError::TimedOut) if silences < limits::STORE_SILENCES_MAX => {
                    (silences, lost) = (silences + 1, Some(first_asked));
                }
                Err(_) => return Acquisition::NoStore,
                Ok(Grant::Value(stored)) => match self.read_stored(&mut competition, &stored, asked).await {
                    Ok(copy) => return Acquisition::Value(copy),
                    Err(Unusable::Removed | Unusable::Older) => {}
                    Err(Unusable::Stays) => return Acquisition::NoStore,
                    // At once: nobody else is at work, as far as this node knows.
                    Err(Unusable::Unproved) => continue,
                },
                Ok(Grant::Busy { token, stale, .. }) if token.nonce == competition.ask.nonce => {
                    let (has_entry, stale) =
                        (stale.is_some(), self.stale_copy(&competition, stale, asked).await);
                    let granted = (GrantKind::Free, token, first_asked);
                    return self.won(&competition, granted, (has_entry, stale));
                }
                Ok(Grant::Lease { token, kind, stale }) => {
                    let (has_entry, stale) =
                        (stale.is_some(), self.stale_copy(&competition, stale, asked).await);
                    return self.won(&competition, (kind, token, asked), (has_entry, stale));
                }
                Ok(Grant::Busy { holder, token, stale, .. }) => {
                    self.context.note(Event::LeaseBusy);
                    if let Some(copy) = self.stale_copy(&competition, stale, asked).await {
                        return Acquisition::BusyStale(copy);
                    }
                    if self.context.now() >= probe_after {
                        if self.is_dead(&holder).await {
                            dead = Some(token);
                            continue;
                        }
                        probe_after = self.context.now() + Millis(limits::HOLDER_PROBE_PAUSE_MS);
                    }
                }
            }
            if self.context.now() >= give_up_at {
                return Acquisition::Busy;
            }
            self.context.sleep(self.context.jittered(wait_ms)).await;
            wait_ms = (wait_ms * 2).min(limits::LEASE_POLL_MS_MAX);
        }
    }

    fn competition<'a>(
        &self,
        job: &'a FetchJob,
        held: Option<&'a SharedCopy>,
        now: MonoTime,
    ) -> Competition<'a> {
        // This node's memory may hold an entry that is too old for this request. Then the first question asks for younger entries only.
        let older = held.filter(|held| !self.cache.is_late_enough(held, &job.bounds));
        let limit = AgeLimit::of(job, now);
        let limit = older.map_or(limit, |older| limit.younger_than(least_age(older, now), now));
        let ask = LeaseAsk {
            nonce: self.context.nonce(),
            holder: self.context.me().clone(),
            tags: job.query.tags.clone(),
            lease_ms: self.cache.key_stats().lease_ms(&job.query),
            age_max_ms: limit.at(now),
            proved_max_ms: self.cache.proved_max_ms(&job.query),
        };
        Competition { job, held, ask, limit, purges: self.cache.purges() }
    }

    fn won(
        &self,
        competition: &Competition<'_>,
        (kind, token, asked): (GrantKind, Token, MonoTime),
        (has_entry, stale): (bool, Option<SharedCopy>),
    ) -> Acquisition {
        debug_assert_eq!(token.nonce, competition.ask.nonce, "I3: a lease with another's token");
        self.context.note(Event::LeaseGrant(kind));
        let key = competition.job.query.key;
        let lease = self.leases.granted((key, token), (competition.ask.lease_ms, asked), has_entry);
        Acquisition::Lease { lease, stale }
    }

    /// A copy of a stored entry that is an answer. An entry that fails its checksum is removed, so that the next round
    /// does not find it (I10, F39). An entry that the client's bookmarks, a write or its database exclude stays: the next round asks the store for
    /// younger ones only.
    async fn read_stored(
        &self,
        competition: &mut Competition<'_>,
        stored: &StoredEntry,
        asked: MonoTime,
    ) -> Result<SharedCopy, Unusable> {
        let (query, held) = (&competition.job.query, competition.held.map(|copy| &**copy));
        let (bounds, is_past_ttl) = (&competition.job.bounds, is_past_ttl(stored));
        let older = match self.writes.take_stored(query, stored, asked, held).await {
            Ok(copy) if self.cache.is_proved_answer(&copy, bounds) => return Ok(copy),
            Ok(_) if is_past_ttl => None,
            Ok(copy) if self.cache.is_late_enough(&copy, bounds) => return Ok(copy),
            Ok(copy) => Some(least_age(&copy, asked)),
            Err(Unfit::OfAnother) if !is_past_ttl => Some(age_of(stored).saturating_sub(ROUNDING_MS)),
            Err(Unfit::OfAnother) => None,
            Err(Unfit::Corrupt) => return self.remove_corrupt(query).await,
        };
        if let Some(age_ms) = older {
            competition.limit = competition.limit.younger_than(age_ms, asked);
            return Err(Unusable::Older);
        }
        competition.ask.proved_max_ms = Millis::ZERO;
        Err(Unusable::Unproved)
    }

    async fn remove_corrupt(&self, query: &Query) -> Result<SharedCopy, Unusable> {
        tracing::warn!(key = ?query.key, "a stored entry failed its checksum; removed");
        let removed = self.store.invalidate(&Scope::Key(query.key)).await;
        Err(if removed.is_ok() { Unusable::Removed } else { Unusable::Stays })
    }

    /// A stale value that may be served meanwhile. A value past grace may not be: it is put aside for the waiters, in
    /// case the run fails or takes too long. A corrupt entry is left alone: removing it would remove the lease with it,
    /// ours or the holder's, and the next commit replaces it anyway.
    async fn stale_copy(
        &self,
        competition: &Competition<'_>,
        stored: Option<StoredEntry>,
        asked: MonoTime,
    ) -> Option<SharedCopy> {
        let job = competition.job;
        if job.cause == Cause::Refresh {
            return None;
        }
        let held = competition.held.map(|copy| &**copy);
        let copy = self.writes.take_stored(&job.query, &stored?, asked, held).await.ok()?;
        if self.cache.is_stale_answer(&copy, &job.bounds, self.context.now()) {
            return Some(copy);
        }
        self.cache.offer_fallback(&job.query, &copy, competition.purges);
        None
    }

    /// Whether the holder of a lease is known to be dead: it is an earlier life of this node, or a peer whose port
    /// refuses or answers as another node. A silent peer may only be slow, so its lease decides, unless its connections
    /// broke. A process that dies breaks them. If its machine or container goes too, it is silent afterwards:
    ///   the owner is killed · its connections break · its address vanishes · a probe meets silence.
    async fn is_dead(&self, holder: &Holder) -> bool {
        if holder.node == *self.context.node() {
            return self.is_own_past(holder.incarnation);
        }
        match self.peers.probe(&holder.node, Millis(limits::HOLDER_PROBE_TIMEOUT_MS)).await {
            Ok(incarnation) => incarnation != holder.incarnation,
            Err(PeerError::Gone(_)) => true,
            Err(PeerError::TimedOut) => self.routing.is_gone(holder),
            Err(PeerError::Refused(_)) => false,
        }
    }

    /// Whether a life of this name was an earlier one of this node. The alternative is another node that has the same
    /// name by mistake; its leases must not be taken while it runs. Leases of an earlier life have lapsed once this
    /// life is as old as a lease can be. So a later holder is a node that lives, or did a moment ago.
    fn is_own_past(&self, life: Incarnation) -> bool {
        life != self.context.me().incarnation
            && self.context.age_ms() < Millis(limits::LEASE_MS_MAX)
            && !self.routing.has_met_namesake(life)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    /// Seed 12512, the schedule at [`AgeLimit::younger`].
    #[test]
    fn what_is_younger_stays_younger() {
        let limit = AgeLimit::default().younger_than(Millis(379), at(1_000));
        assert_eq!(limit.at(at(1_000)), Some(Millis(379)));
        // The value of a run that began 50 ms after the known entry's.
        let age = Millis(407);
        assert!(limit.at(at(1_355)).is_some_and(|most| age <= most));
        let limit = limit.younger_than(Millis(400), at(1_355));
        assert_eq!(limit.at(at(1_355)), Some(Millis(400)), "the younger of two known entries");
        let limit = limit.younger_than(Millis(500), at(1_355));
        assert_eq!(limit.at(at(1_365)), Some(Millis(410)));
    }

    /// I4: a client's `max-age` is the age at each question.
    #[test]
    fn a_clients_limit_does_not_grow() {
        let limit = AgeLimit { of_client: Some(Millis(300)), younger: None };
        assert_eq!(limit.at(at(9_000)), Some(Millis(300)));
        assert_eq!(limit.younger_than(Millis(100), at(9_000)).at(at(9_050)), Some(Millis(150)));
        assert_eq!(AgeLimit::default().at(at(0)), None);
    }
}
