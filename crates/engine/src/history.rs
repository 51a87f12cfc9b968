//! What is remembered of keys and patterns beyond one copy's life: what their runs took, how often a key was asked
//! for, what was hinted about it. It decides nothing but the length of leases.
//!
//! DESIGN "Lease protocol": a lease lives three times the pattern's observed P99, within limits, and
//! is renewed while its holder works. So it costs a silent death little, and a slow run nothing.

use std::num::NonZeroUsize;

use hopcache_core::cypher::pattern::PatternId;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    HISTORY_KEYS_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, PATTERNS_COSTED_MAX,
};
use hopcache_core::refresh::{Cost, CostHistory};
use hopcache_core::time::Millis;
use lru::LruCache;

use crate::ask::{Hints, Query};
use crate::message::KeyPlan;

/// History by key and by pattern; the least recently used is forgotten first.
pub(crate) struct History {
    keys: LruCache<QueryKey, KeyHistory>,
    patterns: LruCache<PatternId, PatternHistory>,
}

/// What is remembered of one key.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeyHistory {
    cost: CostHistory,
    /// Requests per second, as last seen on a copy of it.
    rate_per_s: Option<f32>,
    degree: Option<u64>,
    volatility: Option<f32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PatternHistory {
    /// A peak that decays by 2 % with each run stays near the P99 of a steady distribution, and forgets an
    /// outlier after some hundred runs.
    tail_ms: u64,
    cost: CostHistory,
}

impl KeyHistory {
    /// What its runs here took.
    pub(crate) fn cost(&self) -> Option<Cost> {
        self.cost.cost()
    }

    /// Degree of the graph node asked about, as it was last hinted.
    pub(crate) fn degree(&self) -> Option<u64> {
        self.degree
    }

    /// σ as it was last hinted.
    pub(crate) fn volatility(&self) -> Option<f64> {
        self.volatility.map(f64::from)
    }
}

impl History {
    pub(crate) fn new() -> Self {
        let of = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self { keys: LruCache::new(of(HISTORY_KEYS_MAX)), patterns: LruCache::new(of(PATTERNS_COSTED_MAX)) }
    }

    /// Keys and patterns remembered.
    pub(crate) fn lens(&self) -> (usize, usize) {
        (self.keys.len(), self.patterns.len())
    }

    /// Takes note of a run, and of what was said beside its request.
    pub(crate) fn observe(&mut self, query: &Query, hints: Hints, took_ms: Millis) {
        let pattern = self.patterns.get_or_insert_mut(query.pattern, PatternHistory::default);
        pattern.tail_ms = (pattern.tail_ms - pattern.tail_ms / 50).max(took_ms.0);
        // A key's first runs are taken for runs like the pattern's.
        let cost = CostHistory::from_prior(&pattern.cost);
        pattern.cost.observe(took_ms);
        let key = self.keys.get_or_insert_mut(query.key, || KeyHistory { cost, ..KeyHistory::default() });
        key.cost.observe(took_ms);
        key.degree = hints.degree.or(key.degree);
        #[expect(clippy::cast_possible_truncation, reason = "a factor within limits")]
        let volatility = hints.volatility.map(|volatility| volatility as f32);
        key.volatility = volatility.or(key.volatility);
    }

    /// What is known of a key of which a copy is asked for so often.
    pub(crate) fn seen(&mut self, key: &QueryKey, rate_per_s: Option<f64>) -> KeyHistory {
        let known = self.keys.get_or_insert_mut(*key, KeyHistory::default);
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let rate_per_s = rate_per_s.map(|rate| rate as f32);
        known.rate_per_s = rate_per_s.or(known.rate_per_s);
        *known
    }

    /// Takes another node's word on a key, where there is none of this node's own.
    pub(crate) fn learn(&mut self, key: &QueryKey, plan: KeyPlan) {
        let known = self.keys.get_or_insert_mut(*key, KeyHistory::default);
        if known.cost.cost().is_none() {
            known.cost = CostHistory::of_cost(plan.cost);
        }
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let (rate_per_s, volatility) =
            (plan.rate_per_s.map(|rate| rate as f32), plan.volatility.map(|factor| factor as f32));
        known.rate_per_s = known.rate_per_s.or(rate_per_s);
        known.degree = known.degree.or(plan.degree);
        known.volatility = known.volatility.or(volatility);
    }

    /// What a run of a pattern takes on average.
    pub(crate) fn mean_ms(&self, pattern: PatternId) -> Option<f64> {
        Some(self.patterns.peek(&pattern)?.cost.cost()?.mean_ms)
    }

    /// Requests per second of a key, as last seen.
    pub(crate) fn rate_per_s(&self, key: &QueryKey) -> Option<f32> {
        self.keys.peek(key)?.rate_per_s
    }

    pub(crate) fn lease_ms(&mut self, query: &Query) -> Millis {
        let tail_ms = self.patterns.get(&query.pattern).map(|pattern| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            let estimate_ms = pattern.cost.cost().map_or(0, |cost| cost.tail_ms as u64);
            pattern.tail_ms.max(estimate_ms)
        });
        Millis(
            tail_ms
                .map_or(LEASE_MS_DEFAULT, |tail_ms| tail_ms.saturating_mul(3))
                .clamp(LEASE_MS_MIN, LEASE_MS_MAX),
        )
    }
}
