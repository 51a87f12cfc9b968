//! Whether the origin takes this node's own log-on, for operators. The origin is asked at the start, so that
//! a node that nobody asks for anything says at once what is wrong, and again while it refuses. Whether it
//! can be reached at all is the origin's own word. Decides nothing about requests.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_core::limits::{ORIGIN_WATCH_MS, ORIGIN_WATCH_REFUSED_MS};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{Origin, OriginError, OriginFault};

/// What is known of this node's log-on at the origin.
#[derive(Debug, Default)]
pub struct OwnLogin {
    /// Whether it was refused the last time that the watch asked.
    is_refused: AtomicBool,
}

impl OwnLogin {
    /// What is wrong with the origin, and what to do; nothing when it is well.
    #[must_use]
    pub fn trouble(&self, origin: &dyn Origin) -> Option<&'static str> {
        if self.is_refused.load(Ordering::Relaxed) {
            Some("Neo4j refuses this node's log-on: check origin.user and origin.password_file")
        } else if origin.is_reachable() {
            None
        } else {
            Some("Neo4j cannot be reached, or does not answer in time; it is tried again by itself")
        }
    }

    /// Asks until it was answered once, and again while it is refused; the caller owns the task.
    pub async fn watch(&self, origin: &dyn Origin) -> Infallible {
        let mut is_answered = false;
        loop {
            let was_refused = self.is_refused.load(Ordering::Relaxed);
            if !is_answered || was_refused {
                is_answered = self.note(was_refused, &origin.reach().await);
            }
            // A wrong password tried more often would have Neo4j lock the user out, for everybody.
            let is_refused = self.is_refused.load(Ordering::Relaxed);
            let pause_ms = if is_refused { ORIGIN_WATCH_REFUSED_MS } else { ORIGIN_WATCH_MS };
            tokio::time::sleep(Millis(pause_ms).duration()).await;
        }
    }

    /// Whether it was an answer. A refusal is told when it begins, and its end when it ends.
    fn note(&self, was_refused: bool, answer: &Result<(), OriginError>) -> bool {
        match answer.as_ref().map_err(|error| &error.kind) {
            Ok(()) => {
                if was_refused {
                    tracing::info!("Neo4j takes this node's log-on again");
                }
                self.is_refused.store(false, Ordering::Relaxed);
                true
            }
            Err(OriginFault::Unauthorized(failure)) => {
                if !was_refused {
                    tracing::warn!(
                        error = failure.code,
                        "Neo4j refuses this node's log-on: check origin.user and origin.password_file"
                    );
                }
                self.is_refused.store(true, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }
}
