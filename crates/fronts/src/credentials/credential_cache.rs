//! The results of credential checks: until when credentials are accepted, or that Neo4j refused them. This file does not
//! decide when Neo4j is asked. It keeps fingerprints and never credentials.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hopcache_core::limits::{
    CREDENTIALS_MAX, CREDENTIALS_RECHECK_MS, CREDENTIALS_REFUSED_MAX, CREDENTIALS_REFUSED_MS,
    CREDENTIALS_RETRY_AHEAD_MS, CREDENTIALS_RETRY_MS, CREDENTIALS_TTL_MS,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{OriginError, OriginFault};
use hopcache_neo4j::fault::must_change_password;
use lru::LruCache;

use super::credential_messages::{CredentialAnswer, Fingerprint};

/// Until when an identity is accepted. Cached requests of the identity share it. Every hit reads it; writes happen under
/// the lock of the cache.
#[derive(Debug, Default)]
pub struct Acceptance {
    /// When Neo4j's last acceptance ends.
    until: AtomicU64,
    /// Until when the identity may be served: later than `until` while Neo4j cannot be reached.
    serving: AtomicU64,
    /// Time from which a hit starts another check.
    due: AtomicU64,
    /// Whether Neo4j did not answer the last check.
    is_unanswered: AtomicBool,
    /// Users or rights have changed since Neo4j's last acceptance: it does not count any more, not even while Neo4j cannot be
    /// reached.
    is_void: AtomicBool,
}

impl Acceptance {
    /// Whether the identity may be served now without a check.
    #[must_use]
    pub fn holds(&self, now: MonoTime) -> bool {
        now.0 < self.serving.load(Ordering::Relaxed)
    }

    /// Whether another check is due.
    #[must_use]
    pub fn is_due(&self, now: MonoTime) -> bool {
        now.0 >= self.due.load(Ordering::Relaxed)
    }

    /// Whether Neo4j did not answer the last check.
    pub(super) fn is_in_grace(&self) -> bool {
        self.is_unanswered.load(Ordering::Relaxed)
    }

    /// Counts from before the check was sent, because Neo4j may have decided as early as that.
    fn accept(&self, asked_at: MonoTime) {
        let until = (asked_at + Millis(CREDENTIALS_TTL_MS)).0;
        self.until.store(until, Ordering::Relaxed);
        self.serving.store(until, Ordering::Relaxed);
        self.due.store((asked_at + Millis(CREDENTIALS_RECHECK_MS)).0, Ordering::Relaxed);
        self.is_unanswered.store(false, Ordering::Relaxed);
        self.is_void.store(false, Ordering::Relaxed);
    }

    /// The time of Neo4j's last acceptance.
    pub(super) fn accepted_at(&self) -> MonoTime {
        MonoTime(self.until.load(Ordering::Relaxed)) - Millis(CREDENTIALS_TTL_MS)
    }

    fn end(&self) {
        self.until.store(0, Ordering::Relaxed);
        self.serving.store(0, Ordering::Relaxed);
    }

    /// The next request needs another check.
    fn ask_again(&self) {
        self.serving.store(0, Ordering::Relaxed);
    }

    fn make_void(&self) {
        self.is_void.store(true, Ordering::Relaxed);
        self.end();
    }

    fn is_void(&self) -> bool {
        self.is_void.load(Ordering::Relaxed)
    }

    /// Neo4j has answered: the identity is served only until Neo4j's last acceptance ends.
    fn end_grace(&self) {
        self.serving.store(self.until.load(Ordering::Relaxed), Ordering::Relaxed);
        self.is_unanswered.store(false, Ordering::Relaxed);
    }

    /// Serves the identity for a while after Neo4j's last acceptance has ended. Returns whether any grace is left.
    fn serve_on(&self, now: MonoTime, grace_ms: Millis) -> bool {
        let until = MonoTime(self.until.load(Ordering::Relaxed));
        let left_ms = grace_ms.saturating_sub(now.since(until));
        let serving = until.max(now + left_ms.min(Millis(CREDENTIALS_RETRY_MS)));
        self.put_off(now);
        self.is_unanswered.store(true, Ordering::Relaxed);
        if left_ms > Millis::ZERO {
            self.serving.store(serving.0, Ordering::Relaxed);
        }
        left_ms > Millis::ZERO
    }

    /// A check was started, so no other is due for a while.
    fn put_off(&self, now: MonoTime) {
        let due = now + Millis(CREDENTIALS_RETRY_MS - CREDENTIALS_RETRY_AHEAD_MS);
        self.due.store(due.0, Ordering::Relaxed);
    }
}

/// Neo4j's refusal, and until when Neo4j is not asked again.
struct CredentialRefusal {
    until: MonoTime,
    /// When Neo4j refused these credentials. `None` if it did not look at them.
    decided_at: Option<MonoTime>,
    error: OriginError,
}

/// What the cache knows about one identity.
pub(super) enum IdentityState {
    /// Accepted: requests are served.
    Accepted(Arc<Acceptance>),
    /// Refused recently: requests are refused without a check.
    Refused(OriginError),
    /// Accepted once, and a check has to succeed before the next request.
    Overdue(Arc<Acceptance>),
    /// The cache knows nothing about it.
    Unknown,
}

/// Identities that Neo4j has accepted, and identities that it has refused. These are two tables, so that wrong passwords
/// evict other refused identities and never accepted ones. Each table evicts the least recently used identity.
pub(crate) struct CredentialCache {
    accepted: LruCache<Fingerprint, Arc<Acceptance>>,
    refused: LruCache<Fingerprint, CredentialRefusal>,
    grace_ms: Millis,
    /// No acceptance from before this time counts: users or rights have changed.
    void_before: MonoTime,
}

impl CredentialCache {
    pub(crate) fn new(grace_ms: Millis) -> Self {
        let places = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self {
            accepted: LruCache::new(places(CREDENTIALS_MAX)),
            refused: LruCache::new(places(CREDENTIALS_REFUSED_MAX)),
            grace_ms,
            void_before: MonoTime::default(),
        }
    }

    /// From now on an identity that was accepted before is served for so long while Neo4j cannot be reached.
    pub(super) fn set_grace(&mut self, grace_ms: Millis) {
        self.grace_ms = grace_ms;
    }

    /// Users or rights have changed: nobody is accepted before Neo4j has been asked again. The identities stay known as
    /// accepted once, so that guesses at their passwords do not delay them. What was wrong may be right by now.
    pub(super) fn make_void(&mut self, now: MonoTime) {
        self.void_before = now;
        self.refused.clear();
        self.accepted.iter().for_each(|(_, acceptance)| acceptance.make_void());
    }

    /// Neo4j is asked again before the next request of each identity. While it cannot be asked, its last acceptance counts.
    pub(super) fn ask_again_about_all(&self) {
        self.accepted.iter().for_each(|(_, acceptance)| acceptance.ask_again());
    }

    pub(super) fn known(&mut self, whose: &Fingerprint, now: MonoTime) -> IdentityState {
        let acceptance = self.accepted.get(whose).map(Arc::clone);
        match (acceptance, self.refused.get(whose)) {
            (Some(acceptance), _) if acceptance.holds(now) => IdentityState::Accepted(acceptance),
            (_, Some(refused)) if now < refused.until => IdentityState::Refused(refused.error.clone()),
            (Some(acceptance), _) => IdentityState::Overdue(acceptance),
            (None, _) => IdentityState::Unknown,
        }
    }

    /// Neo4j's last refusal, if it is still cached, also when Neo4j may be asked again.
    pub(super) fn last_refusal(&self, whose: &Fingerprint) -> Option<OriginError> {
        self.refused.peek(whose).map(|refused| refused.error.clone())
    }

    /// Neo4j accepted the credentials in a check that began at `asked_at`.
    pub(crate) fn accept(&mut self, whose: &Fingerprint, asked_at: MonoTime) -> Arc<Acceptance> {
        self.refused.pop(whose);
        let acceptance = self.accepted.get(whose).map_or_else(Arc::default, Arc::clone);
        acceptance.accept(asked_at);
        if let Some((evicted, forgotten)) = self.accepted.push(*whose, Arc::clone(&acceptance))
            && evicted != *whose
        {
            // Cached requests still hold it, and nothing else could end it afterwards.
            forgotten.end();
        }
        acceptance
    }

    /// Neo4j refused the credentials.
    pub(super) fn refuse(&mut self, whose: &Fingerprint, now: MonoTime, error: OriginError) {
        self.forget(whose);
        let until = now + Millis(CREDENTIALS_REFUSED_MS);
        let decided_at = matches!(error.kind, OriginFault::Unauthorized(_)).then_some(now);
        self.refused.put(*whose, CredentialRefusal { until, decided_at, error });
    }

    /// This node's cached result, as an answer to another node.
    pub(super) fn peer_answer(&self, whose: &Fingerprint, now: MonoTime) -> CredentialAnswer {
        if let Some(acceptance) = self.accepted.peek(whose).filter(|acceptance| !acceptance.is_void()) {
            return CredentialAnswer::Accepted(now.since(acceptance.accepted_at()));
        }
        // That a password has to be changed does not make it wrong.
        let is_wrong = |refused: &&CredentialRefusal| match &refused.error.kind {
            OriginFault::Unauthorized(error) => !must_change_password(error),
            _ => false,
        };
        let refused = self.refused.peek(whose).filter(is_wrong).and_then(|refused| refused.decided_at);
        refused
            .map_or(CredentialAnswer::Unknown, |decided_at| CredentialAnswer::Refused(now.since(decided_at)))
    }

    /// When Neo4j refused these credentials, as far as this node has it cached.
    pub(super) fn refused_at(&self, whose: &Fingerprint) -> Option<MonoTime> {
        self.refused.peek(whose).and_then(|refused| refused.decided_at)
    }

    /// Whether an identity would still be served if Neo4j could not be reached now.
    pub(super) fn may_serve_on(&self, whose: &Fingerprint, now: MonoTime) -> bool {
        let until = |acceptance: &Arc<Acceptance>| {
            acceptance.accepted_at() + Millis(CREDENTIALS_TTL_MS) + self.grace_ms
        };
        self.accepted.peek(whose).is_some_and(|acceptance| !acceptance.is_void() && now < until(acceptance))
    }

    /// Another node got Neo4j's acceptance at `decided_at`, and Neo4j cannot be asked now. The identity is served as
    /// at that node: for the rest of the 30 s and of the grace, if any is left.
    pub(super) fn accept_from_peer(
        &mut self,
        whose: &Fingerprint,
        decided_at: MonoTime,
        now: MonoTime,
    ) -> Option<Arc<Acceptance>> {
        let is_over = now >= decided_at + Millis(CREDENTIALS_TTL_MS) + self.grace_ms;
        // The refusal may have come while the other nodes were asked.
        if is_over
            || decided_at <= self.void_before
            || self.refused_at(whose).is_some_and(|refused_at| refused_at >= decided_at)
        {
            return None;
        }
        let own = self.accepted.peek(whose).map(|acceptance| acceptance.accepted_at());
        let acceptance = match own {
            Some(own) if own >= decided_at => self.accepted.get(whose).map(Arc::clone)?,
            _ => self.accept(whose, decided_at),
        };
        acceptance.serve_on(now, self.grace_ms);
        acceptance.holds(now).then_some(acceptance)
    }

    /// Another node got Neo4j's refusal at `decided_at`. An earlier acceptance ends.
    pub(super) fn refuse_from_peer(&mut self, whose: &Fingerprint, decided_at: MonoTime, error: OriginError) {
        if self.accepted.peek(whose).is_some_and(|acceptance| acceptance.accepted_at() > decided_at) {
            return;
        }
        self.forget(whose);
        if self.refused_at(whose).is_none_or(|own| own < decided_at) {
            let until = decided_at + Millis(CREDENTIALS_REFUSED_MS);
            self.refused.put(*whose, CredentialRefusal { until, decided_at: Some(decided_at), error });
        }
    }

    /// Neo4j answers, but not about these credentials, for example with a lock-out. An acceptance within its 30 s
    /// goes on. An older one does not count any more, because a revoked user could cause such answers. Neo4j is
    /// reachable again, so the grace ends. If Neo4j goes away again, the grace counts from its last acceptance as
    /// before.
    pub(super) fn put_off(&mut self, whose: &Fingerprint, now: MonoTime, error: OriginError) {
        if let Some(acceptance) = self.accepted.get(whose) {
            acceptance.end_grace();
        }
        let (until, decided_at) = (now + Millis(CREDENTIALS_REFUSED_MS), self.refused_at(whose));
        self.refused.put(*whose, CredentialRefusal { until, decided_at, error });
    }

    /// Ends an acceptance: the identity is unknown from now on.
    pub(super) fn forget(&mut self, whose: &Fingerprint) {
        if let Some(acceptance) = self.accepted.pop(whose) {
            acceptance.end();
        }
    }

    /// Neo4j cannot be reached: an identity that it accepted recently is still served.
    pub(super) fn serve_on(&mut self, whose: &Fingerprint, now: MonoTime) -> Option<Arc<Acceptance>> {
        let acceptance = self.accepted.get(whose).filter(|acceptance| !acceptance.is_void())?;
        acceptance.serve_on(now, self.grace_ms).then(|| Arc::clone(acceptance))
    }

    /// Whether the caller has to start another check of an identity that is served meanwhile. Of all hits only the
    /// first one after the due time gets `true`. If Neo4j did not answer the last check, the identity is served until
    /// this check has its answer, as in `Checker::wait_for`.
    pub(super) fn take_recheck(&mut self, whose: &Fingerprint, now: MonoTime) -> bool {
        let Some(acceptance) = self.accepted.get(whose) else { return false };
        if !acceptance.holds(now) || !acceptance.is_due(now) {
            return false;
        }
        acceptance.put_off(now);
        if acceptance.is_in_grace() {
            acceptance.serve_on(now, self.grace_ms);
        }
        true
    }

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.accepted.len(), self.refused.len())
    }
}
