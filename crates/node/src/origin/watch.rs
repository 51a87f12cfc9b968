//! Whether the origin is there, for operators: asked at the start and, while it is away, again and again,
//! so that a node without misses says so too and takes it back by itself. Decides nothing about requests.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};

use hopcache_core::limits::{ORIGIN_WATCH_MS, ORIGIN_WATCH_REFUSED_MS};
use hopcache_core::time::Millis;
use hopcache_engine::ports::{Origin, OriginError, OriginFault};

/// What is known of the origin.
#[derive(Debug)]
pub struct OriginHealth {
    /// Whether it answered the last time it was asked, by a request or by the watch.
    pub is_reachable: AtomicBool,
    /// Whether it refused this node's own credentials, the last time that the watch asked.
    is_login_refused: AtomicBool,
}

impl Default for OriginHealth {
    fn default() -> Self {
        Self { is_reachable: AtomicBool::new(true), is_login_refused: AtomicBool::new(false) }
    }
}

impl OriginHealth {
    /// What is wrong, and what to do; nothing when it is well.
    #[must_use]
    pub fn trouble(&self) -> Option<&'static str> {
        if self.is_login_refused.load(Ordering::Relaxed) {
            Some("Neo4j refuses this node's log-on: check origin.user and origin.password_file")
        } else if !self.is_reachable.load(Ordering::Relaxed) {
            Some("Neo4j cannot be reached, or does not answer in time; it is tried again by itself")
        } else {
            None
        }
    }

    /// Watches; the caller owns the task. Each trouble is told once when it begins, and its end once.
    pub async fn watch(&self, origin: &dyn Origin) -> Infallible {
        let mut told = None;
        let mut is_first = true;
        loop {
            if is_first || self.trouble().is_some() {
                let answer = origin.reach().await;
                self.saw(&answer);
                let trouble = self.trouble();
                match (trouble, &answer) {
                    (Some(advice), Err(error)) if told != trouble => {
                        tracing::warn!(error = said(&error.kind), "{advice}");
                    }
                    (None, _) if told.is_some() => tracing::info!("Neo4j answers again"),
                    _ => {}
                }
                told = trouble;
                is_first = false;
            }
            // A wrong password tried more often would have Neo4j lock the user out, for everybody.
            let is_refused = self.is_login_refused.load(Ordering::Relaxed);
            let pause_ms = if is_refused { ORIGIN_WATCH_REFUSED_MS } else { ORIGIN_WATCH_MS };
            tokio::time::sleep(Millis(pause_ms).duration()).await;
        }
    }

    fn saw(&self, answer: &Result<(), OriginError>) {
        let fault = answer.as_ref().err().map(|error| &error.kind);
        self.is_login_refused.store(matches!(fault, Some(OriginFault::Unauthorized(_))), Ordering::Relaxed);
        // Too busy to be asked is not away.
        let is_away = matches!(fault, Some(OriginFault::Unreachable(_) | OriginFault::TimedOut));
        self.is_reachable.store(!is_away, Ordering::Relaxed);
    }
}

/// The fault without anything of a statement: nobody's statement was run.
fn said(fault: &OriginFault) -> &str {
    match fault {
        OriginFault::Unreachable(reason) => reason,
        OriginFault::Unauthorized(failure) => &failure.code,
        _ => "no answer in time",
    }
}
