//! The addresses of the configured seeds. A configured address stays as it is; a name is resolved again and again.
//!
//! This file decides when a name is resolved and what an answer means. A name that does not resolve keeps its last
//! addresses and is resolved again soon, because the resolver may still be starting. There is one question under way for
//! each name, however long it takes: a look-up of the system cannot be cancelled and keeps a thread. This file sends no
//! probes.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hopcache_core::limits::{PROBE_TARGETS_MAX, SEED_RESOLVE_MS, SEED_RESOLVE_TIMEOUT_MS, SEED_RETRY_MS};
use tokio::time::Instant;

/// The answer of a resolver for a name.
pub(super) type ResolvedName = Result<BTreeSet<SocketAddr>, String>;
/// Asks a resolver for `host:port`.
pub(super) type Resolver = Arc<dyn Fn(String) -> BoxFuture<'static, ResolvedName> + Send + Sync>;

/// One seed.
pub(super) struct Seed {
    /// `host:port` as configured.
    text: String,
    /// The addresses of its last successful look-up.
    addrs: BTreeSet<SocketAddr>,
    /// When it is resolved next. `None` during a look-up, and for an address.
    resolve_at: Option<Instant>,
    /// When a look-up that is under way counts as late. `None` once that was logged.
    late_at: Option<Instant>,
    /// Whether a look-up has ended with any answer, or is late.
    tried: bool,
    /// The last logged error, so that a lasting error is logged once.
    last_error: String,
}

/// All seeds.
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

    /// The look-ups that are due, each with the index of its seed.
    pub(super) fn start_due(&mut self) -> Vec<(usize, BoxFuture<'static, ResolvedName>)> {
        let now = Instant::now();
        for seed in self.all.iter_mut().filter(|seed| seed.late_at.is_some_and(|at| at <= now)) {
            (seed.late_at, seed.tried) = (None, true);
            seed.log_once(format!("no answer in {SEED_RESOLVE_TIMEOUT_MS} ms"));
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

    /// All look-ups under way are lost and start again.
    pub(super) fn start_over(&mut self) {
        let now = Instant::now();
        for seed in self.all.iter_mut().filter(|seed| seed.text.parse::<SocketAddr>().is_err()) {
            seed.resolve_at = Some(now);
        }
    }

    /// Whether every seed is an address or was looked up once.
    pub(super) fn are_tried(&self) -> bool {
        self.all.iter().all(|seed| seed.tried)
    }

    /// Whether the address of every seed is known.
    pub(super) fn are_found(&self) -> bool {
        self.all.iter().all(|seed| !seed.addrs.is_empty())
    }

    pub(super) fn addrs(&self) -> BTreeSet<SocketAddr> {
        self.all.iter().flat_map(|seed| seed.addrs.iter().copied()).collect()
    }

    pub(super) fn resolved(&mut self, place: usize, answer: ResolvedName) {
        let Some(seed) = self.all.get_mut(place) else { return };
        (seed.tried, seed.late_at) = (true, None);
        let (pause_ms, error) = match answer {
            Ok(addrs) if !addrs.is_empty() => {
                seed.addrs = addrs;
                (SEED_RESOLVE_MS, String::new())
            }
            Ok(_) => (SEED_RETRY_MS, "its name resolves to nothing".to_owned()),
            Err(error) => (SEED_RETRY_MS, error),
        };
        seed.resolve_at = Some(Instant::now() + Duration::from_millis(pause_ms));
        seed.log_once(error);
    }
}

impl Seed {
    fn log_once(&mut self, error: String) {
        if error != self.last_error {
            match error.as_str() {
                "" => tracing::info!(seed = self.text, "seed can be resolved"),
                error => tracing::warn!(seed = self.text, error, "seed cannot be resolved; trying again"),
            }
            self.last_error = error;
        }
    }
}

/// The system's resolver.
pub(super) fn system() -> Resolver {
    Arc::new(|name| Box::pin(async move { resolve(&name).await }))
}

async fn resolve(name: &str) -> ResolvedName {
    match tokio::net::lookup_host(name).await {
        Ok(addrs) => Ok(addrs.take(PROBE_TARGETS_MAX).collect()),
        Err(error) => Err(error.to_string()),
    }
}
