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
