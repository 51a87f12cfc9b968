//! Whether a client is who it says: by Neo4j's word, believed for 30 seconds.
//!
//! Checked before any hit is served (promise I5). What is remembered is a keyed digest of the
//! credentials, never the credentials.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hopcache_core::limits::{CREDENTIALS_MAX, CREDENTIALS_TTL_MS};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{Origin, OriginError, OriginFault};
use lru::LruCache;
use parking_lot::Mutex;

/// Until when an identity is believed. Shared by everything that remembers requests of it.
#[derive(Debug)]
pub struct Belief {
    until: AtomicU64,
    checking: tokio::sync::Mutex<()>,
}

impl Belief {
    /// Whether the identity may be served now without asking Neo4j.
    #[must_use]
    pub fn holds(&self, now: MonoTime) -> bool {
        now.0 < self.until.load(Ordering::Relaxed)
    }

    fn was_ever_accepted(&self) -> bool {
        self.until.load(Ordering::Relaxed) > 0
    }
}

/// Identities that Neo4j has accepted, the least recently used forgotten first.
pub struct Credentials {
    beliefs: Mutex<LruCache<[u8; 32], Arc<Belief>>>,
    /// How long an identity that was accepted before is served while Neo4j cannot be asked.
    unreachable_grace_ms: Millis,
}

impl Credentials {
    /// Nothing believed yet.
    #[must_use]
    pub fn new(unreachable_grace_ms: Millis) -> Self {
        let capacity = NonZeroUsize::new(CREDENTIALS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { beliefs: Mutex::new(LruCache::new(capacity)), unreachable_grace_ms }
    }

    /// The belief of an identity, whether it holds or not.
    pub fn belief(&self, identity: &Identity) -> Arc<Belief> {
        let mut beliefs = self.beliefs.lock();
        Arc::clone(beliefs.get_or_insert(identity.fingerprint, || {
            Arc::new(Belief { until: AtomicU64::new(0), checking: tokio::sync::Mutex::new(()) })
        }))
    }

    /// Makes sure of an identity, asking Neo4j at most once at a time for each.
    ///
    /// While Neo4j cannot be reached, an identity that it accepted within the stale-if-error time is
    /// served on: a cache that is to survive a failing Neo4j has no one else to ask, and nobody can be
    /// revoked in a database that is down. One that was never accepted is not served.
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
        if belief.holds(now()) {
            return Ok(belief);
        }
        let turn = belief.checking.lock().await;
        if belief.holds(now()) {
            drop(turn);
            return Ok(belief);
        }
        let verified = origin.verify(identity).await;
        let asked_at = now();
        match verified {
            Ok(()) => {
                belief.until.store((asked_at + Millis(CREDENTIALS_TTL_MS)).0, Ordering::Relaxed);
            }
            Err(error) => {
                let since_expiry =
                    Millis(asked_at.0.saturating_sub(belief.until.load(Ordering::Relaxed)) / 1_000);
                let is_out_of_reach =
                    !matches!(error.kind, OriginFault::Unauthorized(_) | OriginFault::Failed(_));
                let may_go_on = belief.was_ever_accepted() && since_expiry < self.unreachable_grace_ms;
                if !(is_out_of_reach && may_go_on) {
                    if !is_out_of_reach {
                        belief.until.store(0, Ordering::Relaxed);
                    }
                    return Err(error);
                }
            }
        }
        drop(turn);
        Ok(belief)
    }

    /// Neo4j refused these credentials in a run: they are checked again before the next request.
    pub fn distrust(&self, identity: &Identity) {
        if let Some(belief) = self.beliefs.lock().get(&identity.fingerprint) {
            belief.until.store(0, Ordering::Relaxed);
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
        assert_eq!(bench.server.asked(), 3, "a refusal is not remembered as an acceptance");
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
        assert!(bench.accepts(&known, CREDENTIALS_TTL_MS + GRACE_MS.0 - 1).await);
        assert!(!bench.accepts(&known, CREDENTIALS_TTL_MS + GRACE_MS.0).await);
        bench.server.answers(refused());
        assert!(!bench.accepts(&known, CREDENTIALS_TTL_MS + 1).await, "back, and it says no");
        bench.server.answers(Some(OriginFault::Unreachable("refused".to_owned())));
        assert!(!bench.accepts(&known, CREDENTIALS_TTL_MS + 2).await, "refused once is a stranger");
    }

    #[tokio::test]
    async fn a_crowd_asks_once() {
        let (bench, ann) = (Bench::new(), identity(1));
        let crowd = futures_util::future::join_all((0..100).map(|_| bench.accepts(&ann, 0)));
        assert!(crowd.await.into_iter().all(|accepted| accepted));
        assert_eq!(bench.server.asked(), 1);
    }
}
