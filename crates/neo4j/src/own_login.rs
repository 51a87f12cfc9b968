//! This node's own login at the origin (`origin.auth = "service"`). A refusal is kept and logged once. This file decides
//! how soon the login may be tried again.
//!
//! The watch tries the login at the start, so that a node without requests also reports a wrong password. It tries again
//! for as long as the origin refuses, whether the watch or a run met the refusal first. The origin reports by itself
//! whether it can be reached. This file decides nothing about requests.

use std::convert::Infallible;
use std::time::Duration;

use hopcache_core::limits::{ORIGIN_WATCH_MS, ORIGIN_WATCH_REFUSED_MS};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{Neo4jFailure, Origin, OriginFault};
use parking_lot::Mutex;
use tokio::time::Instant;

const REFUSED: &str = "Neo4j refuses this node's log-on: check origin.user and origin.password_file";

/// The refusal of the login, from the first refused try to the next accepted one.
#[derive(Debug, Default)]
pub(super) struct Refusal {
    /// During a refusal: when the login may be tried again. After three wrong logins in a row Neo4j locks the user out for
    /// five seconds, for all clients.
    next_try: Mutex<Option<Instant>>,
}

impl Refusal {
    /// Whether the last try was refused.
    pub(super) fn stands(&self) -> bool {
        self.next_try.lock().is_some()
    }

    /// Whether enough time has passed since the last refused try.
    pub(super) fn may_try(&self) -> bool {
        self.next_try.lock().is_none_or(|next_try| Instant::now() >= next_try)
    }

    /// The origin refused the login. Only the first refusal is logged.
    pub(super) fn refused(&self, failure: &Neo4jFailure) {
        let next_try = Instant::now() + Duration::from_millis(ORIGIN_WATCH_REFUSED_MS);
        if self.next_try.lock().replace(next_try).is_none() {
            tracing::warn!(error = failure.code, "{REFUSED}");
        }
    }

    /// The origin accepted the login.
    pub(super) fn ended(&self) {
        if self.next_try.lock().take().is_some() {
            tracing::info!("Neo4j takes this node's log-on again");
        }
    }
}

/// The problem with the origin, and the action to take. `None` if there is none, or the origin is only late.
#[must_use]
pub fn problem(origin: &dyn Origin) -> Option<&'static str> {
    if origin.refuses_us() {
        Some(REFUSED)
    } else if !origin.is_away() {
        None
    } else {
        Some(
            "Neo4j cannot be reached, or does not answer in time: look at its log, and at the network. It is tried again by itself",
        )
    }
}

/// Tries the login until the origin answers once, and again for as long as the origin refuses this node. The caller owns
/// the task.
pub async fn watch(origin: &dyn Origin) -> Infallible {
    let mut is_answered = false;
    loop {
        if !is_answered || origin.refuses_us() {
            let answer = origin.reach().await.map_err(|error| error.kind);
            is_answered = matches!(answer, Ok(()) | Err(OriginFault::Unauthorized(_)));
        }
        let pause_ms = if origin.refuses_us() { ORIGIN_WATCH_REFUSED_MS } else { ORIGIN_WATCH_MS };
        tokio::time::sleep(Millis(pause_ms).duration()).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use hopcache_core::result::{ResultSet, StatementKind};
    use hopcache_engine::identity::Identity;
    use hopcache_engine::ports::{OriginError, OriginRun};

    use super::*;

    /// A server whose answer to the log-on a test sets.
    #[derive(Default)]
    struct Server {
        is_password_wrong: Mutex<bool>,
        tries: AtomicU32,
        refusal: Refusal,
    }

    impl Server {
        /// A try of the log-on, by a run or by the watch.
        fn log_on(&self) -> Result<(), OriginError> {
            self.tries.fetch_add(1, Ordering::Relaxed);
            if !*self.is_password_wrong.lock() {
                self.refusal.ended();
                return Ok(());
            }
            let code = "Neo.ClientError.Security.Unauthorized".to_owned();
            let failure = Neo4jFailure { code, message: String::new(), as_sent: Vec::new() };
            self.refusal.refused(&failure);
            Err(OriginFault::Unauthorized(failure).into())
        }
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
            self.log_on()
        }
        async fn reach(&self) -> Result<(), OriginError> {
            if self.refusal.may_try() { self.log_on() } else { Err(OriginFault::Overloaded.into()) }
        }
        fn in_flight(&self) -> usize {
            0
        }
        fn refuses_us(&self) -> bool {
            self.refusal.stands()
        }
    }

    async fn pass(span_ms: u64) {
        // tidy: time that passes, on a paused clock
        tokio::time::sleep(Duration::from_millis(span_ms)).await;
    }

    /// The password is changed long after the watch has got an acceptance.
    #[tokio::test(start_paused = true)]
    async fn a_refusal_after_the_start_is_shown_and_asked_about_until_it_ends() {
        let server = std::sync::Arc::new(Server::default());
        let watched = std::sync::Arc::clone(&server);
        tokio::spawn(async move { match watch(&*watched).await {} });
        pass(60_000).await;
        assert_eq!((server.tries.load(Ordering::Relaxed), problem(&*server)), (1, None), "asked once");
        *server.is_password_wrong.lock() = true;
        assert!(server.log_on().is_err(), "a run meets it");
        assert_eq!(problem(&*server), Some(REFUSED));
        let before = server.tries.load(Ordering::Relaxed);
        pass(ORIGIN_WATCH_REFUSED_MS - 1).await;
        assert_eq!(server.tries.load(Ordering::Relaxed), before, "not so soon");
        pass(8 * ORIGIN_WATCH_REFUSED_MS).await;
        let tries = server.tries.load(Ordering::Relaxed) - before;
        assert!((6..=8).contains(&tries), "{tries} tries in 40 s");
        assert_eq!(problem(&*server), Some(REFUSED));
        *server.is_password_wrong.lock() = false;
        pass(2 * ORIGIN_WATCH_REFUSED_MS).await;
        assert_eq!(problem(&*server), None, "found by itself");
    }
}
