//! The size of every table of an engine, to check promise I9. It decides nothing.

use hopcache_core::key::QueryKey;
use hopcache_core::limits::CROWDS_SHOWN_MAX;

use crate::fetch::CrowdUnderWay;
use crate::path::Path;
use crate::prefetch::LearningSizes;

/// Plain data: sizes of everything in an engine that grows with its requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Flights that lead here.
    pub flights: usize,
    /// Flights that wait for another node.
    pub forwards: usize,
    /// Refreshes that wait, run or sleep.
    pub refreshes: usize,
    /// Questions under way to the server about what a statement is.
    pub questions: usize,
    /// Leases held.
    pub leases: usize,
    /// Results whose commits wait or are under way.
    pub commits_queued: usize,
    /// Tasks that belong to the engine.
    pub tasks: usize,
    /// Statements with a remembered answer of the server.
    pub words: usize,
    /// Patterns with a remembered cost.
    pub patterns: usize,
    /// Keys with remembered cost and rate.
    pub keys: usize,
    /// Keys remembered as too large.
    pub too_large: usize,
    /// Keys with remembered failures.
    pub failed_keys: usize,
    /// Keys with remembered failures of prefetches.
    pub failed_prefetches: usize,
    /// Degrees, anchors and questions about them.
    pub degrees: usize,
    /// Copies put aside for the waiters of a run.
    pub fallbacks: usize,
    /// Prefetches under way.
    pub prefetches: usize,
    /// Launched prefetches whose copies wait to be used.
    pub tickets: usize,
    /// Peers with a breaker.
    pub breakers: usize,
    /// Earlier rings whose owners are still asked.
    pub former_rings: usize,
    /// Copies in memory.
    pub copies: u64,
    /// Observations and learned models.
    pub learning: LearningSizes,
}

impl Path {
    /// For the simulator: whether a request for `key` would join a flight of this node.
    #[must_use]
    pub fn has_flight(&self, key: &QueryKey) -> bool {
        self.fetch.flights().followers(key).is_some()
    }

    /// Flights under way here, forwards and refreshes included.
    #[must_use]
    pub fn flights_under_way(&self) -> usize {
        self.fetch.flights().len() + self.forwards.len() + self.refresh.seats()
    }

    /// Requests that wait for another's run, or for another's question to the owner, by key.
    #[must_use]
    pub fn crowds_under_way(&self) -> Vec<CrowdUnderWay> {
        let forwards = self.forwards.crowded(CROWDS_SHOWN_MAX).into_iter();
        let forwards = forwards.map(|((key, ..), followers)| CrowdUnderWay { key, followers });
        self.fetch.crowds_under_way().into_iter().chain(forwards).take(CROWDS_SHOWN_MAX).collect()
    }

    /// What this node holds now.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let (keys, patterns) = self.cache.key_stats().lens();
        let (failed_keys, failed_prefetches) = self.fetch.backoff_lens();
        Sizes {
            flights: self.fetch.flights().len(),
            forwards: self.forwards.len(),
            refreshes: self.refresh.seats(),
            questions: self.fetch.classifier().questions_len(),
            leases: self.fetch.leases_held(),
            commits_queued: self.fetch.commits_queued(),
            tasks: self.context.tasks().len(),
            words: self.fetch.classifier().words_len(),
            patterns,
            keys,
            too_large: self.cache.uncacheable().len(),
            failed_keys,
            failed_prefetches,
            degrees: self.cache.key_stats().degrees().len(),
            fallbacks: self.cache.fallbacks_len(),
            prefetches: self.prefetch.under_way(),
            tickets: self.prefetch.pending(),
            breakers: self.peers.breakers_len(),
            former_rings: self.invalidate.former_rings(),
            copies: self.cache.copies(),
            learning: self.prefetch.learning_sizes(),
        }
    }
}
