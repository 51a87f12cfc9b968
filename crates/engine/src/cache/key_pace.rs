//! The pace of keys: what their runs cost, how often they are asked for, what was hinted about them, and when their next
//! early refresh is due.
//!
//! It decides the length of leases and the plan of a copy's refresh, and starts nothing.
//!
//! A lease lives three times the pattern's observed P99, within limits (DESIGN "Lease protocol"), and is renewed while
//! its holder works. So it costs a silent death little, and a slow run nothing.

use std::num::NonZeroUsize;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    HISTORY_KEYS_MAX, LEASE_MS_DEFAULT, LEASE_MS_MAX, LEASE_MS_MIN, PATTERNS_COSTED_MAX,
};
use hopcache_core::refresh::{Cost, CostHistory, Heat, KeyFacts, Plan};
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;
use parking_lot::Mutex;

use crate::cache::copy::MemoryCopy;
use crate::cache::degrees::Degrees;
use crate::model::ask::{CostKey, Hints, Query};
use crate::model::inspection::KeyPlan;
use crate::model::policy::{Policy, RefreshPolicy};
use crate::model::span::scaled;

/// What is known of keys, and the rule that plans refreshes by it.
pub(crate) struct KeyPace {
    history: Mutex<History>,
    degrees: Degrees,
    policy: RefreshPolicy,
    ttl_ms: Millis,
    ttl_jitter: f64,
}

impl KeyPace {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            history: Mutex::new(History::new()),
            degrees: Degrees::new(),
            policy: policy.refresh,
            ttl_ms: policy.ttl_ms,
            ttl_jitter: policy.ttl_jitter,
        }
    }

    /// Keys and patterns remembered.
    pub(crate) fn lens(&self) -> (usize, usize) {
        self.history.lock().lens()
    }

    /// What is known of degrees.
    pub(crate) fn degrees(&self) -> &Degrees {
        &self.degrees
    }

    /// Takes note of a run, and of what was hinted beside its request.
    pub(crate) fn observe_run(&self, query: &Query, hints: Hints, took_ms: Millis) {
        self.history.lock().observe(query, hints, took_ms);
    }

    /// How long a lease for this query lives, unless renewed.
    pub(crate) fn lease_ms(&self, query: &Query) -> Millis {
        self.run_ms_max(query).min(Millis(LEASE_MS_MAX))
    }

    /// What runs of a query's pattern hardly ever take: three times the longest of late.
    pub(crate) fn run_ms_max(&self, query: &Query) -> Millis {
        self.history.lock().run_ms_max(query)
    }

    /// What a run of a pattern takes on average, for one principal in one database.
    pub(crate) fn mean_ms(&self, cost_key: &CostKey) -> Option<f64> {
        self.history.lock().mean_ms(cost_key)
    }

    /// The counter for a new copy of a key. It begins with the rate that the copy before had.
    pub(crate) fn heat_after(&self, held: Option<&MemoryCopy>, key: &QueryKey, now: MonoTime) -> Heat {
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let seen = held.and_then(|copy| copy.heat().rate_per_s(now)).map(|rate| rate as f32);
        Heat::new(now, seen.or_else(|| self.history.lock().rate_per_s(key)))
    }

    /// What is known of a key when its plan is made: the one place where that comes together.
    pub(crate) fn facts_of(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> KeyFacts {
        let rate_per_s = copy.heat().rate_per_s(now);
        let known = self.history.lock().seen(key, rate_per_s);
        KeyFacts {
            ttl_ms: copy.ttl_ms(),
            // An entry that another node stored brings what its run took.
            cost: known.cost().unwrap_or_else(|| Cost::of_run(copy.cost_ms())),
            rate_per_s,
            degree: known.degree().or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility().unwrap_or(1.0),
        }
    }

    /// What a new owner of the key is told.
    pub(crate) fn key_plan(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> KeyPlan {
        let known = self.history.lock().seen(key, copy.heat().rate_per_s(now));
        KeyPlan {
            cost: known.cost().unwrap_or_else(|| Cost::of_run(copy.cost_ms())),
            rate_per_s: copy.heat().rate_per_s(now),
            degree: known.degree().or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility(),
        }
    }

    /// Takes another node's word on a key, where this node knows nothing itself.
    pub(crate) fn learn(&self, key: &QueryKey, plan: KeyPlan) {
        self.history.lock().learn(key, plan);
    }

    /// Whether a copy is ever refreshed before it expires.
    pub(crate) fn may_refresh_early(&self, copy: &MemoryCopy) -> bool {
        self.policy.is_early
            // Not stored, so no other node may learn of what a refresh brings.
            && copy.token().is_some()
            && !self.is_below_ttl_min(copy.ttl_ms())
    }

    /// Whether an entry lives too short for an early refresh. Its TTL is known with its jitter only: one that a
    /// caller's hint made shorter than `ttl_ms_min`, but by less than the jitter, may count as long enough.
    pub(crate) fn is_below_ttl_min(&self, ttl_ms: Millis) -> bool {
        let ttl_ms_min = self.policy.ttl_ms_min;
        self.ttl_ms < ttl_ms_min || ttl_ms < scaled(ttl_ms_min, 1.0 - self.ttl_jitter)
    }

    /// The plan that a fresh copy's refresh goes by; none at all for one that is not refreshed early.
    pub(crate) fn plan_in_force(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> Plan {
        if !self.may_refresh_early(copy) {
            return Plan::default();
        }
        let left = copy.fresh_until().since(now);
        copy.pace().plan(left).unwrap_or_else(|| self.plan_anew(key, copy, (left, now)))
    }

    /// Makes the plan of a copy of which so much is left, and keeps it on the copy.
    pub(crate) fn plan_anew(
        &self,
        key: &QueryKey,
        copy: &MemoryCopy,
        (left, now): (Millis, MonoTime),
    ) -> Plan {
        let plan = self.policy.rule.plan(&self.facts_of(key, copy, now));
        copy.pace().keep(&plan, left, copy.ttl_ms());
        plan
    }
}

/// History by key, and by pattern, principal and database; the least recently used is forgotten first.
struct History {
    keys: LruCache<QueryKey, KeyHistory>,
    patterns: LruCache<CostKey, PatternHistory>,
}

/// What is remembered of one key.
#[derive(Debug, Clone, Copy, Default)]
struct KeyHistory {
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
    fn cost(&self) -> Option<Cost> {
        self.cost.cost()
    }

    /// Degree of the graph node asked about, as it was last hinted.
    fn degree(&self) -> Option<u64> {
        self.degree
    }

    /// σ as it was last hinted.
    fn volatility(&self) -> Option<f64> {
        self.volatility.map(f64::from)
    }
}

impl History {
    fn new() -> Self {
        let of = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self { keys: LruCache::new(of(HISTORY_KEYS_MAX)), patterns: LruCache::new(of(PATTERNS_COSTED_MAX)) }
    }

    /// Keys and patterns remembered.
    fn lens(&self) -> (usize, usize) {
        (self.keys.len(), self.patterns.len())
    }

    /// Takes note of a run, and of what was said beside its request.
    fn observe(&mut self, query: &Query, hints: Hints, took_ms: Millis) {
        let pattern = self.patterns.get_or_insert_mut(query.cost_key(), PatternHistory::default);
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
    fn seen(&mut self, key: &QueryKey, rate_per_s: Option<f64>) -> KeyHistory {
        let known = self.keys.get_or_insert_mut(*key, KeyHistory::default);
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let rate_per_s = rate_per_s.map(|rate| rate as f32);
        known.rate_per_s = rate_per_s.or(known.rate_per_s);
        *known
    }

    /// Takes another node's word on a key, where there is none of this node's own.
    fn learn(&mut self, key: &QueryKey, plan: KeyPlan) {
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
    fn mean_ms(&self, cost_key: &CostKey) -> Option<f64> {
        Some(self.patterns.peek(cost_key)?.cost.cost()?.mean_ms)
    }

    /// Requests per second of a key, as last seen.
    fn rate_per_s(&self, key: &QueryKey) -> Option<f32> {
        self.keys.peek(key)?.rate_per_s
    }

    /// What runs of a query's pattern hardly ever take: three times the longest of late.
    fn run_ms_max(&mut self, query: &Query) -> Millis {
        let tail_ms = self.patterns.get(&query.cost_key()).map(|pattern| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            let estimate_ms = pattern.cost.cost().map_or(0, |cost| cost.tail_ms as u64);
            pattern.tail_ms.max(estimate_ms)
        });
        Millis(tail_ms.map_or(LEASE_MS_DEFAULT, |tail_ms| tail_ms.saturating_mul(3)).max(LEASE_MS_MIN))
    }
}
