//! Whether a client is who it says: by Neo4j's word, believed for 30 seconds.
//!
//! Checked before any hit is served (promise I5). What is remembered is a keyed digest of the
//! credentials, never the credentials.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::{
    COMPETE_ROUNDS_MAX, CREDENTIALS_MAX, CREDENTIALS_REFUSED_MS, CREDENTIALS_RETRY_MS,
    CREDENTIALS_RETRY_WAIT_MS, CREDENTIALS_TTL_MS, FOLLOWERS_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::flight::{FlightBounds, FlightTable, Seat, Wait};
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{Origin, OriginError, OriginFault};
use lru::LruCache;
use parking_lot::Mutex;

/// Until when an identity is believed. Shared by everything that remembers requests of it.
#[derive(Debug, Default)]
pub struct Belief {
    /// End of what Neo4j's last yes is good for.
    until: AtomicU64,
    /// End of what may be served: later than `until` while Neo4j cannot be asked.
    serving: AtomicU64,
    refused: Mutex<Option<Refused>>,
}

/// Neo4j's no, and until when it is not asked again.
#[derive(Debug, Clone)]
struct Refused {
    until: MonoTime,
    error: OriginError,
}

impl Belief {
    /// Whether the identity may be served now without asking Neo4j.
    #[must_use]
    pub fn holds(&self, now: MonoTime) -> bool {
        now.0 < self.serving.load(Ordering::Relaxed)
    }

    fn accept(&self, now: MonoTime) {
        let until = (now + Millis(CREDENTIALS_TTL_MS)).0;
        self.until.store(until, Ordering::Relaxed);
        self.serving.store(until, Ordering::Relaxed);
    }

    fn refuse(&self, now: MonoTime, error: OriginError) {
        self.forget();
        *self.refused.lock() = Some(Refused { until: now + Millis(CREDENTIALS_REFUSED_MS), error });
    }

    fn forget(&self) {
        self.until.store(0, Ordering::Relaxed);
        self.serving.store(0, Ordering::Relaxed);
    }

    fn refusal(&self, now: MonoTime) -> Option<OriginError> {
        self.refused
            .lock()
            .as_ref()
            .filter(|refused| now < refused.until)
            .map(|refused| refused.error.clone())
    }

    /// Time since Neo4j's last yes ran out; `None` if it never gave one.
    fn overdue_ms(&self, now: MonoTime) -> Option<Millis> {
        let until = self.until.load(Ordering::Relaxed);
        (until > 0).then(|| now.since(MonoTime(until)))
    }

    /// Whether the last question found nobody to answer it.
    fn is_in_grace(&self) -> bool {
        self.serving.load(Ordering::Relaxed) > self.until.load(Ordering::Relaxed)
    }
}

type Check = Result<(), OriginError>;

/// Identities that Neo4j has accepted, the least recently used forgotten first.
pub struct Credentials {
    beliefs: Mutex<LruCache<[u8; 32], Arc<Belief>>>,
    /// Questions to Neo4j under way: one for each identity, however many ask.
    checks: Arc<FlightTable<[u8; 32], Check>>,
    /// How long an identity that was accepted before is served while Neo4j cannot be asked.
    unreachable_grace_ms: Millis,
}

impl Credentials {
    /// Nothing believed yet.
    #[must_use]
    pub fn new(unreachable_grace_ms: Millis) -> Self {
        let capacity = NonZeroUsize::new(CREDENTIALS_MAX).unwrap_or(NonZeroUsize::MIN);
        let bounds = FlightBounds { flights_max: CREDENTIALS_MAX, followers_max: FOLLOWERS_MAX };
        Self {
            beliefs: Mutex::new(LruCache::new(capacity)),
            checks: FlightTable::new(bounds),
            unreachable_grace_ms,
        }
    }

    /// The belief of an identity, whether it holds or not.
    pub fn belief(&self, identity: &Identity) -> Arc<Belief> {
        let mut beliefs = self.beliefs.lock();
        Arc::clone(beliefs.get_or_insert(identity.fingerprint, Arc::default))
    }

    /// Makes sure of an identity, asking Neo4j at most once at a time for each.
    ///
    /// While Neo4j cannot be reached, an identity that it accepted within the stale-if-error time is
    /// served on: a cache that is to survive a failing Neo4j has no one else to ask, and nobody can be
    /// revoked in a database that is down. One that was never accepted is not served. A refusal is
    /// remembered briefly: Neo4j locks a user out after three wrong passwords in five seconds, and one
    /// client with an old password must not do that to the others.
    ///
    /// # Errors
    /// Neo4j's own word, or that it cannot be asked.
    pub async fn check(
        &self,
        identity: &Identity,
        origin: &dyn Origin,
        now: impl Fn() -> MonoTime,
    ) -> Result<Arc<Belief>, OriginError> {
        let belief = self.belief(identity);
        for _ in 0..COMPETE_ROUNDS_MAX {
            if belief.holds(now()) {
                return Ok(belief);
            }
            if let Some(error) = belief.refusal(now()) {
                return Err(error);
            }
            match self.checks.join(&identity.fingerprint) {
                Seat::Full => break,
                Seat::Lead(leader) => {
                    let ended = self.ask(identity, origin, &belief, &now).await;
                    leader.land(ended.clone());
                    return ended.map(|()| belief);
                }
                Seat::Follow(follower) => {
                    if let Wait::Landed(ended) = follower.wait().await {
                        return ended.map(|()| belief);
                    }
                }
            }
        }
        Err(OriginFault::Overloaded.into())
    }

    async fn ask(
        &self,
        identity: &Identity,
        origin: &dyn Origin,
        belief: &Belief,
        now: &impl Fn() -> MonoTime,
    ) -> Check {
        let verified = if belief.is_in_grace() {
            // Nobody answered the last time: hits must not wait long to learn that again.
            let brief = Millis(CREDENTIALS_RETRY_WAIT_MS).duration();
            let silence = || Err(OriginFault::TimedOut.into());
            tokio::time::timeout(brief, origin.verify(identity)).await.unwrap_or_else(|_| silence())
        } else {
            origin.verify(identity).await
        };
        let asked_at = now();
        let Err(error) = verified else {
            belief.accept(asked_at);
            return Ok(());
        };
        if matches!(error.kind, OriginFault::Unauthorized(_) | OriginFault::Failed(_)) {
            belief.refuse(asked_at, error.clone());
            return Err(error);
        }
        let is_away =
            matches!(error.kind, OriginFault::Unreachable(_) | OriginFault::Cut(_) | OriginFault::TimedOut);
        if !is_away {
            // Our own want of room says nothing of Neo4j, and must not prolong a revoked user.
            return Err(error);
        }
        let overdue_ms = belief.overdue_ms(asked_at);
        match overdue_ms.map(|overdue_ms| self.unreachable_grace_ms.saturating_sub(overdue_ms)) {
            None | Some(Millis::ZERO) => Err(error),
            Some(left_ms) => {
                let serving = asked_at + left_ms.min(Millis(CREDENTIALS_RETRY_MS));
                belief.serving.store(serving.0, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Neo4j refused these credentials in a run: they are checked again before the next request.
    pub fn distrust(&self, identity: &Identity) {
        if let Some(belief) = self.beliefs.lock().get(&identity.fingerprint) {
            belief.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use async_trait::async_trait;
    use hopcache_core::key::{KeyHasher, PrincipalScope};
    use hopcache_core::result::{ResultSet, StatementKind};
    use hopcache_engine::identity::Credentials as Login;
    use hopcache_engine::ports::{Neo4jFailure, OriginRun};

    use super::*;

    /// A Neo4j that answers as it is told, and counts how often it is asked.
    #[derive(Default)]
    struct Server {
        answer: Mutex<Option<OriginFault>>,
        asked: AtomicUsize,
    }

    #[async_trait]
    impl Origin for Server {
        async fn run(&self, _: &OriginRun) -> Result<ResultSet, OriginError> {
            Err(OriginFault::Overloaded.into())
        }

        async fn kind(&self, _: &OriginRun) -> Result<StatementKind, OriginError> {
            Err(OriginFault::Overloaded.into())
        }

        async fn verify(&self, _: &Identity) -> Result<(), OriginError> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            // Others ask meanwhile.
            tokio::task::yield_now().await;
            self.answer.lock().clone().map_or(Ok(()), |fault| Err(fault.into()))
        }

        fn in_flight(&self) -> usize {
            0
        }
    }

    impl Server {
        fn answers(&self, fault: Option<OriginFault>) {
            *self.answer.lock() = fault;
        }

        fn asked(&self) -> usize {
            self.asked.load(Ordering::Relaxed)
        }
    }

    fn identity(at: u8) -> Identity {
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", "ann", None);
        Identity { scope, fingerprint: [at; 32], credentials: Login::None }
    }

    fn refused() -> Option<OriginFault> {
        let code = "Neo.ClientError.Security.Unauthorized".to_owned();
        Some(OriginFault::Unauthorized(Neo4jFailure { code, message: String::new() }))
    }

    /// An hour of clock, so that nothing depends on its start.
    const START: MonoTime = MonoTime(3_600_000_000);
    const GRACE_MS: Millis = Millis(600_000);

    struct Bench {
        server: Server,
        credentials: Credentials,
    }

    impl Bench {
        fn new() -> Self {
            Self { server: Server::default(), credentials: Credentials::new(GRACE_MS) }
        }

        async fn accepts(&self, who: &Identity, after_ms: u64) -> bool {
            let now = START + Millis(after_ms);
            self.credentials.check(who, &self.server, || now).await.is_ok()
        }
    }

    /// FAULTS, threats: revoked credentials are refused within 30 s.
    #[tokio::test]
    async fn a_belief_ends_after_30_seconds_and_a_refusal_ends_it_at_once() {
        let (bench, ann) = (Bench::new(), identity(1));
        assert!(bench.accepts(&ann, 0).await);
        bench.server.answers(refused());
        assert!(bench.accepts(&ann, CREDENTIALS_TTL_MS - 1).await, "believed without asking");
        assert_eq!(bench.server.asked(), 1);
        assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS).await, "asked again, and refused");
        assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS + 1).await);
        assert_eq!(bench.server.asked(), 2, "a no is remembered, or one client would lock its user out");
        assert!(!bench.accepts(&ann, CREDENTIALS_TTL_MS + CREDENTIALS_REFUSED_MS).await);
        assert_eq!(bench.server.asked(), 3, "but not for long");
    }

    #[tokio::test]
    async fn other_credentials_are_no_ones_belief_and_a_failed_run_ends_one() {
        let (bench, right, wrong) = (Bench::new(), identity(1), identity(2));
        assert!(bench.accepts(&right, 0).await);
        bench.server.answers(refused());
        assert!(!bench.accepts(&wrong, 1).await, "the same user with another password");
        assert!(bench.accepts(&right, 2).await);
        bench.credentials.distrust(&right);
        assert!(!bench.accepts(&right, 3).await);
    }

    /// F25: what is kept is served while Neo4j is away, to those whom it accepted not long ago.
    #[tokio::test]
    async fn while_neo4j_is_away_only_the_known_are_served_and_not_for_ever() {
        let (bench, known, stranger) = (Bench::new(), identity(1), identity(2));
        assert!(bench.accepts(&known, 0).await);
        bench.server.answers(Some(OriginFault::Unreachable("refused".to_owned())));
        assert!(!bench.accepts(&stranger, 1).await);
        let over = CREDENTIALS_TTL_MS;
        assert!(bench.accepts(&known, over).await);
        let asked = bench.server.asked();
        assert!(bench.accepts(&known, over + CREDENTIALS_RETRY_MS - 1).await);
        assert_eq!(bench.server.asked(), asked, "hits do not wait for a server that is away");
        assert!(bench.accepts(&known, over + GRACE_MS.0 - 1).await);
        assert!(!bench.accepts(&known, over + GRACE_MS.0).await);
    }

    #[tokio::test]
    async fn a_no_after_neo4j_is_back_ends_the_grace() {
        let (bench, known) = (Bench::new(), identity(1));
        assert!(bench.accepts(&known, 0).await);
        bench.server.answers(Some(OriginFault::Unreachable("refused".to_owned())));
        assert!(bench.accepts(&known, CREDENTIALS_TTL_MS).await);
        bench.server.answers(refused());
        let back = CREDENTIALS_TTL_MS + CREDENTIALS_RETRY_MS;
        assert!(!bench.accepts(&known, back).await, "back, and it says no");
        bench.server.answers(Some(OriginFault::Unreachable("refused".to_owned())));
        assert!(!bench.accepts(&known, back + CREDENTIALS_REFUSED_MS).await, "refused once is a stranger");
    }

    #[tokio::test]
    async fn a_crowd_asks_once() {
        let (bench, ann) = (Bench::new(), identity(1));
        let crowd = futures_util::future::join_all((0..100).map(|_| bench.accepts(&ann, 0)));
        assert!(crowd.await.into_iter().all(|accepted| accepted));
        assert_eq!(bench.server.asked(), 1);
    }
}
