//! Where the configured seeds are: addresses as they stand, names by asking the resolver again and again.
//!
//! Decides when a name is asked for and what an answer means. A name that does not resolve, or to nothing, keeps
//! what it resolved to before and is asked again soon: the resolver may be starting as well. Of each name one question
//! is under way, however long it takes: a system's look-up cannot be called off, it keeps a thread. Probes nobody.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hopcache_core::limits::{PROBE_TARGETS_MAX, SEED_RESOLVE_MS, SEED_RESOLVE_TIMEOUT_MS, SEED_RETRY_MS};
use tokio::time::Instant;

/// What a resolver said of a name.
pub(super) type Resolved = Result<BTreeSet<SocketAddr>, String>;
/// Asks a resolver for `host:port`.
pub(super) type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, Resolved> + Send + Sync>;

/// One seed.
pub(super) struct Seed {
    /// `host:port` as configured.
    text: String,
    /// What it resolved to the last time it did.
    addrs: BTreeSet<SocketAddr>,
    /// When it is asked for next; none while it is, and for an address.
    resolve_at: Option<Instant>,
    /// When a question that is under way is late; none once that was said.
    late_at: Option<Instant>,
    /// Whether there was an answer, whatever it was, or one is late.
    tried: bool,
    /// What was last logged about it, so that a lasting trouble is one line.
    last_error: String,
}

/// All of them.
pub(super) struct Seeds {
    all: Vec<Seed>,
    resolver: Resolver,
}

impl Seeds {
    pub(super) fn new(texts: &[String], resolver: Resolver) -> Self {
        let now = Instant::now();
        let all = texts.iter().map(|text| {
            let addr = text.parse::<SocketAddr>().ok();
            Seed {
                text: text.clone(),
                addrs: addr.into_iter().collect(),
                resolve_at: addr.is_none().then_some(now),
                late_at: None,
                tried: addr.is_some(),
                last_error: String::new(),
            }
        });
        Self { all: all.collect(), resolver }
    }

    /// Questions that are due, each with the place of its seed.
    pub(super) fn start_due(&mut self) -> Vec<(usize, BoxFuture<'static, Resolved>)> {
        let now = Instant::now();
        for seed in self.all.iter_mut().filter(|seed| seed.late_at.is_some_and(|at| at <= now)) {
            (seed.late_at, seed.tried) = (None, true);
            seed.say(format!("no answer in {SEED_RESOLVE_TIMEOUT_MS} ms"));
        }
        let due =
            self.all.iter_mut().enumerate().filter(|(_, seed)| seed.resolve_at.is_some_and(|at| at <= now));
        due.map(|(place, seed)| {
            seed.resolve_at = None;
            seed.late_at = Some(now + Duration::from_millis(SEED_RESOLVE_TIMEOUT_MS));
            (place, (self.resolver)(seed.text.clone()))
        })
        .collect()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.all.iter().flat_map(|seed| [seed.resolve_at, seed.late_at]).flatten().min()
    }

    /// Every question that was under way is lost: all are asked again.
    pub(super) fn start_over(&mut self) {
        let now = Instant::now();
        for seed in self.all.iter_mut().filter(|seed| seed.text.parse::<SocketAddr>().is_err()) {
            seed.resolve_at = Some(now);
        }
    }

    /// Whether every seed is an address, or was asked for once.
    pub(super) fn are_tried(&self) -> bool {
        self.all.iter().all(|seed| seed.tried)
    }

    /// Whether it is known of every seed where it is.
    pub(super) fn are_found(&self) -> bool {
        self.all.iter().all(|seed| !seed.addrs.is_empty())
    }

    pub(super) fn addrs(&self) -> BTreeSet<SocketAddr> {
        self.all.iter().flat_map(|seed| seed.addrs.iter().copied()).collect()
    }

    pub(super) fn resolved(&mut self, place: usize, answer: Resolved) {
        let Some(seed) = self.all.get_mut(place) else { return };
        (seed.tried, seed.late_at) = (true, None);
        let (pause_ms, trouble) = match answer {
            Ok(addrs) if !addrs.is_empty() => {
                seed.addrs = addrs;
                (SEED_RESOLVE_MS, String::new())
            }
            Ok(_) => (SEED_RETRY_MS, "its name resolves to nothing".to_owned()),
            Err(error) => (SEED_RETRY_MS, error),
        };
        seed.resolve_at = Some(Instant::now() + Duration::from_millis(pause_ms));
        seed.say(trouble);
    }
}

impl Seed {
    fn say(&mut self, trouble: String) {
        if trouble != self.last_error {
            match trouble.as_str() {
                "" => tracing::info!(seed = self.text, "seed can be resolved"),
                error => tracing::warn!(seed = self.text, error, "seed cannot be resolved; trying again"),
            }
            self.last_error = trouble;
        }
    }
}

/// The system's resolver.
pub(super) fn system() -> Resolver {
    Arc::new(|name| Box::pin(async move { resolve(&name).await }))
}

async fn resolve(name: &str) -> Resolved {
    match tokio::net::lookup_host(name).await {
        Ok(addrs) => Ok(addrs.take(PROBE_TARGETS_MAX).collect()),
        Err(error) => Err(error.to_string()),
    }
}
