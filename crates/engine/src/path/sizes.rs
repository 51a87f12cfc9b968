//! How much an engine holds, table by table: what promise I9 is checked by. It decides nothing.

use hopcache_core::key::QueryKey;

use crate::engine::Engine;
use crate::prefetch::LearningSizes;

/// Sizes of everything in an engine that grows with what is asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Flights that lead here.
    pub flights: usize,
    /// Flights that wait for another node.
    pub forwards: usize,
    /// Refreshes that wait, run or sleep.
    pub refreshes: usize,
    /// Questions to the server what a statement is, under way.
    pub questions: usize,
    /// Leases held.
    pub leases: usize,
    /// Tasks that belong to the engine.
    pub tasks: usize,
    /// Statements of which the server's word is remembered.
    pub words: usize,
    /// Patterns of which the cost is remembered.
    pub patterns: usize,
    /// Keys of which cost and rate are remembered.
    pub keys: usize,
    /// Keys remembered as too large.
    pub too_large: usize,
    /// Keys held back, or held back before.
    pub setbacks: usize,
    /// The same for prefetches alone.
    pub setbacks_ahead: usize,
    /// Degrees, anchors and questions about them.
    pub degrees: usize,
    /// Copies put aside for those who wait for a run.
    pub spares: usize,
    /// Prefetches under way.
    pub prefetches: usize,
    /// Launched entries that wait to be used.
    pub tickets: usize,
    /// Peers whose breaker is kept.
    pub breakers: usize,
    /// Rings that were in force before, and are asked yet.
    pub former_rings: usize,
    /// Copies in memory.
    pub copies: u64,
    /// What was seen and learned.
    pub learning: LearningSizes,
}

impl Engine {
    /// Whether a flight that leads here is under way for a key, and can be joined.
    #[must_use]
    pub fn has_flight(&self, key: &QueryKey) -> bool {
        self.flights.followers(key).is_some()
    }

    /// What it holds now.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let (keys, patterns) = self.history.lock().lens();
        Sizes {
            flights: self.flights.len(),
            forwards: self.forwards.len(),
            refreshes: self.refreshes.len(),
            questions: self.questions.len(),
            leases: self.holdings.len(),
            tasks: self.tasks.len(),
            words: self.words.len(),
            patterns,
            keys,
            too_large: self.too_large.lock().len(),
            setbacks: self.setbacks.len(),
            setbacks_ahead: self.setbacks.ahead_len(),
            degrees: self.degrees.len(),
            spares: self.spares.len(),
            prefetches: self.prefetch.flying(),
            tickets: self.prefetch.pending(),
            breakers: self.peer_breakers.len(),
            former_rings: self.handover.former_len(),
            copies: self.ports.memory.size().0,
            learning: self.learning_sizes(),
        }
    }
}
