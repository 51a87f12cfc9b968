//! Competing for a key: a value, the right to run, or word of who has it.
//!
//! Between nodes the store decides; this module only asks it, waits, and finds out whether a holder
//! still lives. It never runs anything.

use hopcache_core::lease::{Grant, GrantKind, LeaseAsk, StoredEntry, Token};
use hopcache_core::limits;
use hopcache_core::node::{Holder, Incarnation};
use hopcache_core::time::{Millis, MonoTime};

use crate::ask::Query;
use crate::copy::SharedCopy;
use crate::engine::Engine;
use crate::lead::Errand;
use crate::outcome::{Cause, Event};
use crate::ports::{PeerError, Scope, StoreError};
use crate::span::scaled;
use crate::spares::Purges;

/// How the competition for a key ended.
pub(crate) enum Win {
    /// There is a fresh value.
    Value(SharedCopy),
    /// We may run. A stale value may be served meanwhile.
    Lease { token: Token, lease_ms: Millis, stale: Option<SharedCopy> },
    /// Somebody else runs, and a stale value may be served meanwhile.
    BusyStale(SharedCopy),
    /// Somebody else ran for longer than we wait.
    GaveUp,
    /// The store is out of reach: run without a lease, store nothing.
    NoStore,
}

/// What became of a stored entry that failed its checksum.
enum Corrupt {
    /// It is gone: the next answer will be another. It is asked for after a loser's wait, so whoever keeps
    /// storing such entries keeps nobody busier, and no longer, than a holder that never ends.
    Removed,
    /// It could not be removed, and would be found again and again.
    Stays,
}

impl Engine {
    /// Competes for the key until there is a value, a lease, or no store. A loser waits with
    /// exponential back-off and jitter and then competes again: a wait that ends never turns into a
    /// run without a lease.
    pub(crate) async fn win(&self, errand: &Errand) -> Win {
        #[cfg(hopcache_seeded)]
        if crate::seeded::refreshes_unlocked(errand) {
            return Win::NoStore;
        }
        let key = &errand.query.key;
        let lease_ms = self.lease_ms(&errand.query);
        let give_up_at = self.gives_up_at(errand);
        let mut wait_ms = limits::LEASE_POLL_MS_FIRST;
        let mut dead = None;
        let mut probe_after = MonoTime::default();
        let (mut silences, purges) = (0, self.spares.purges());
        // One nonce for the whole competition: a lease whose grant was lost on the way (F21) is known
        // for our own by it, when the next answer says that it is busy.
        let ask = self.lease_ask(errand, lease_ms);
        loop {
            let asked = self.now();
            let grant = match dead.take() {
                None => self.ports.store.get_or_lease(key, &ask).await,
                Some(token) => self.ports.store.steal(key, token, &ask).await,
            };
            self.saw_store(&grant);
            if grant.is_ok() {
                // Silences in a row count. Who waits for seconds for somebody's lease would otherwise meet enough
                // of them one by one, and run beside the holder (I2).
                silences = 0;
            }
            match grant {
                // Slow is not gone: a burst that starves the machine must not turn into runs without a
                // lease. A store that stays silent is.
                Err(StoreError::TimedOut) if silences < limits::STORE_SILENCES_MAX => silences += 1,
                Err(_) => return Win::NoStore,
                Ok(Grant::Value(stored)) => match self.read_stored(errand, &stored, asked).await {
                    Ok(copy) => return Win::Value(copy),
                    Err(Corrupt::Removed) => {}
                    Err(Corrupt::Stays) => return Win::NoStore,
                },
                Ok(Grant::Busy { token, stale, .. }) if token.nonce == ask.nonce => {
                    let stale = self.stale_copy(errand, stale, asked, purges);
                    return self.won(errand, lease_ms, (GrantKind::Free, token), stale);
                }
                Ok(Grant::Lease { token, kind, stale }) => {
                    let stale = self.stale_copy(errand, stale, asked, purges);
                    return self.won(errand, lease_ms, (kind, token), stale);
                }
                Ok(Grant::Busy { holder, token, stale, .. }) => {
                    self.note(Event::LeaseBusy);
                    if let Some(copy) = self.stale_copy(errand, stale, asked, purges) {
                        return Win::BusyStale(copy);
                    }
                    if self.now() >= probe_after {
                        if self.is_dead(&holder).await {
                            dead = Some(token);
                            continue;
                        }
                        probe_after = self.now() + Millis(limits::HOLDER_PROBE_PAUSE_MS);
                    }
                }
            }
            #[cfg(hopcache_seeded)]
            if crate::seeded::gives_up_waiting(wait_ms) {
                return Win::NoStore;
            }
            if self.now() >= give_up_at {
                return Win::GaveUp;
            }
            self.ports.clock.sleep(self.jittered(wait_ms)).await;
            wait_ms = (wait_ms * 2).min(limits::LEASE_POLL_MS_MAX);
        }
    }

    /// A refresh has a deadline; a flight waits for as long as another's run and the lapse of its lease take.
    fn gives_up_at(&self, errand: &Errand) -> MonoTime {
        let longest = self.now() + self.policy.run_timeout_ms + Millis(limits::LEASE_MS_MAX);
        errand.until.unwrap_or(longest)
    }

    /// `lease_ms` is what the store was asked for, not what would be asked for now: renewals are paced by
    /// it, and a lease of the pattern's newer, longer tail would be renewed after ours had lapsed.
    fn won(
        &self,
        errand: &Errand,
        lease_ms: Millis,
        (kind, token): (GrantKind, Token),
        stale: Option<SharedCopy>,
    ) -> Win {
        self.note(Event::LeaseGrant(kind));
        self.holdings.add(errand.query.key, token);
        Win::Lease { token, lease_ms, stale }
    }

    /// A copy of a stored entry. One that does not pass its checksum is removed, so that the next
    /// round finds none (I10, F39).
    async fn read_stored(
        &self,
        errand: &Errand,
        stored: &StoredEntry,
        asked: MonoTime,
    ) -> Result<SharedCopy, Corrupt> {
        let key = &errand.query.key;
        if let Some(copy) = self.decode_stored(&errand.query, stored, asked) {
            return Ok(copy);
        }
        tracing::warn!(key = ?key, "a stored entry failed its checksum; removed");
        let removed = self.ports.store.invalidate(&Scope::Key(*key)).await;
        self.saw_store(&removed);
        Err(if removed.is_ok() { Corrupt::Removed } else { Corrupt::Stays })
    }

    /// A stale value that may be served meanwhile. One past grace may not: it is put aside for those who wait,
    /// should the run fail or take too long. A corrupt one is only left alone: removing it would
    /// take the lease with it, ours or the holder's, and the next commit replaces it anyway.
    fn stale_copy(
        &self,
        errand: &Errand,
        stored: Option<StoredEntry>,
        asked: MonoTime,
        purges: Purges,
    ) -> Option<SharedCopy> {
        if errand.cause == Cause::Refresh {
            return None;
        }
        let copy = self.decode_stored(&errand.query, &stored?, asked)?;
        if errand.takes_stale(&copy, self.now()) {
            return Some(copy);
        }
        self.offer_spare(&errand.query, &copy, purges);
        None
    }

    /// Whether the holder of a lease is known to be dead: an earlier life of this node, or a peer whose
    /// port refuses or answers as somebody else. A silent one may only be slow: its lease decides; unless its connections
    /// broke. A process that dies breaks them, and one whose machine or container goes with it is silent from then on:
    ///   the owner is killed · its connections break · its address vanishes · a probe meets silence.
    async fn is_dead(&self, holder: &Holder) -> bool {
        if holder.node == self.me.node {
            return self.is_own_past(holder.incarnation);
        }
        match self.ports.peers.probe(&holder.node, Millis(limits::HOLDER_PROBE_TIMEOUT_MS)).await {
            Ok(incarnation) => incarnation != holder.incarnation,
            Err(PeerError::Gone(_)) => true,
            Err(PeerError::TimedOut) => {
                let is_gone = self.ports.routing.is_gone(holder);
                #[cfg(hopcache_seeded)]
                let is_gone = crate::seeded::silence_says(is_gone);
                is_gone
            }
            Err(PeerError::Refused(_)) => false,
        }
    }

    /// Whether a life of this name was an earlier one of this node, and not another node that has its name by mistake and
    /// would have its leases taken from it while it runs. What an earlier life held has lapsed when this one is as old as a
    /// lease can be: whoever holds one later lives, or did a moment ago.
    fn is_own_past(&self, life: Incarnation) -> bool {
        life != self.me.incarnation
            && self.now().since(self.began) < Millis(limits::LEASE_MS_MAX)
            && !self.ports.routing.has_met_namesake(life)
    }

    pub(crate) fn lease_ask(&self, errand: &Errand, lease_ms: Millis) -> LeaseAsk {
        LeaseAsk {
            nonce: self.nonce(),
            holder: self.me.clone(),
            database: errand.query.database_tag,
            lease_ms,
            age_max_ms: errand.age_max_ms,
        }
    }

    pub(crate) fn lease_ms(&self, query: &Query) -> Millis {
        self.history.lock().lease_ms(query)
    }

    pub(crate) fn jittered(&self, wait_ms: u64) -> Millis {
        scaled(Millis(wait_ms), 0.5 + self.unit())
    }
}
