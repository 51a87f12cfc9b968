//! The pace of keys: the cost of their runs, the rate of their requests and of their answers' changes, the hints about them,
//! and the time of their next early refresh.
//!
//! It decides the length of leases, the TTL of a new entry and the plan of a copy's refresh, and starts nothing.
//!
//! A lease lives three times the pattern's observed P99, within limits (DESIGN "Lease protocol"), and its holder renews
//! it while it works. So a holder that dies silently delays others little, and a slow run keeps its lease.

use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::bookmark::ReadRange;
use hopcache_core::change_rate::{ChangeHistory, Interval, TtlRule};
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

/// Knowledge of keys, and the rule that plans refreshes with it.
pub(crate) struct KeyPace {
    history: Mutex<History>,
    degrees: Degrees,
    policy: RefreshPolicy,
    ttl_ms: Millis,
    ttl_jitter: f64,
    /// How TTLs follow from the changes of answers; `None` if they are fixed.
    ttl_rule: Option<TtlRule>,
}

/// Plain data: what a run brought, to be compared with what the next one brings.
#[derive(Debug, Clone)]
pub(crate) struct LastAnswer {
    /// A digest of its records.
    pub(crate) digest: u64,
    /// When the read began.
    pub(crate) read_started: MonoTime,
    /// The transactions between which it was read.
    pub(crate) range: Option<Arc<ReadRange>>,
}

impl KeyPace {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self {
            history: Mutex::new(History::new()),
            degrees: Degrees::new(),
            policy: policy.refresh,
            ttl_ms: policy.ttl_ms,
            ttl_jitter: policy.ttl_jitter,
            ttl_rule: TtlRule::new(policy.stale_target, policy.ttl_ms),
        }
    }

    /// The number of keys and patterns remembered.
    pub(crate) fn lens(&self) -> (usize, usize) {
        self.history.lock().lens()
    }

    /// Known degrees.
    pub(crate) fn degrees(&self) -> &Degrees {
        &self.degrees
    }

    /// Notes a run, and the hints of its request.
    pub(crate) fn observe_run(&self, query: &Query, hints: Hints, took_ms: Millis) {
        self.history.lock().observe(query, hints, took_ms);
    }

    /// Whether TTLs follow from the changes of answers.
    pub(crate) fn learns_ttls(&self) -> bool {
        self.ttl_rule.is_some()
    }

    /// Notes what a run brought: has the answer changed since the last one? `is_ended` says whether a write that this node was
    /// told of has ended such an answer since. That change was no surprise, so it says nothing about a good TTL.
    pub(crate) fn observe_answer(
        &self,
        query: &Query,
        answer: LastAnswer,
        is_ended: impl FnOnce(&LastAnswer) -> bool,
    ) -> Option<Interval> {
        let rule = self.ttl_rule.as_ref()?;
        let before = self.history.lock().last_answer(&query.key);
        let interval = before.filter(|before| before.read_started < answer.read_started && !is_ended(before));
        let interval = interval.map(|before| Interval {
            length_ms: answer.read_started.since(before.read_started),
            has_changed: before.digest != answer.digest,
        });
        self.history.lock().note_answer(query, answer, (rule, interval));
        interval
    }

    /// The TTL of a new entry for this query.
    pub(crate) fn ttl_ms(&self, query: &Query) -> Millis {
        match &self.ttl_rule {
            Some(rule) => self.history.lock().ttl_ms(query, rule),
            None => self.ttl_ms,
        }
    }

    /// The life of a lease for this query, without renewals.
    pub(crate) fn lease_ms(&self, query: &Query) -> Millis {
        self.run_ms_max(query).min(Millis(LEASE_MS_MAX))
    }

    /// A time that runs of a query's pattern hardly ever exceed: three times the longest of late.
    pub(crate) fn run_ms_max(&self, query: &Query) -> Millis {
        self.history.lock().run_ms_max(query)
    }

    /// The average time of a pattern's runs, for one principal in one database.
    pub(crate) fn mean_ms(&self, cost_key: &CostKey) -> Option<f64> {
        self.history.lock().mean_ms(cost_key)
    }

    /// The heat counter for a new copy of a key. It starts with the rate of the previous copy.
    pub(crate) fn heat_after(&self, held: Option<&MemoryCopy>, key: &QueryKey, now: MonoTime) -> Heat {
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let seen = held.and_then(|copy| copy.heat().rate_per_s(now)).map(|rate| rate as f32);
        Heat::new(now, seen.or_else(|| self.history.lock().rate_per_s(key)))
    }

    /// The facts of a key for its plan. Only here do they come together.
    pub(crate) fn facts_of(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> KeyFacts {
        let rate_per_s = copy.heat().rate_per_s(now);
        let known = self.history.lock().seen(key, rate_per_s);
        KeyFacts {
            ttl_ms: copy.ttl_ms(),
            // An entry that another node stored brings the cost of its run.
            cost: known.cost().unwrap_or_else(|| Cost::of_run(copy.cost_ms())),
            rate_per_s,
            degree: known.degree().or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility().unwrap_or(1.0),
        }
    }

    /// The facts for a new owner of the key.
    pub(crate) fn key_plan(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> KeyPlan {
        let known = self.history.lock().seen(key, copy.heat().rate_per_s(now));
        KeyPlan {
            cost: known.cost().unwrap_or_else(|| Cost::of_run(copy.cost_ms())),
            rate_per_s: copy.heat().rate_per_s(now),
            degree: known.degree().or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility(),
        }
    }

    /// Takes over another node's facts of a key, unless this node has its own.
    pub(crate) fn learn(&self, key: &QueryKey, plan: KeyPlan) {
        self.history.lock().learn(key, plan);
    }

    /// Whether a copy can be refreshed before it expires.
    pub(crate) fn may_refresh_early(&self, copy: &MemoryCopy) -> bool {
        self.policy.is_early
            // A copy that is not stored stays on this node, and so would its refresh.
            && copy.token().is_some()
            && !self.is_below_ttl_min(copy.ttl_ms())
    }

    /// Whether an entry lives too short for an early refresh. Its TTL is known only with its jitter. So an entry that a
    /// hint made shorter than `ttl_ms_min`, by less than the jitter, may count as long enough.
    pub(crate) fn is_below_ttl_min(&self, ttl_ms: Millis) -> bool {
        let ttl_ms_min = self.policy.ttl_ms_min;
        self.ttl_ms < ttl_ms_min || ttl_ms < scaled(ttl_ms_min, 1.0 - self.ttl_jitter)
    }

    /// The plan for a fresh copy's refresh; an empty one for a copy that is not refreshed early.
    pub(crate) fn plan_in_force(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> Plan {
        if !self.may_refresh_early(copy) {
            return Plan::default();
        }
        let left = copy.fresh_until().since(now);
        copy.pace().plan(left).unwrap_or_else(|| self.plan_anew(key, copy, (left, now)))
    }

    /// Makes the plan of a copy with `left` of its soft TTL, and keeps it on the copy.
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

/// History by key, and by pattern, principal and database. The least recently used is forgotten first.
struct History {
    keys: LruCache<QueryKey, KeyHistory>,
    patterns: LruCache<CostKey, PatternHistory>,
}

/// The history of one key.
#[derive(Debug, Clone, Default)]
struct KeyHistory {
    cost: CostHistory,
    changes: ChangeHistory,
    /// What its last run brought, where TTLs are learned.
    last_answer: Option<LastAnswer>,
    /// Requests per second, as last seen on a copy of the key.
    rate_per_s: Option<f32>,
    degree: Option<u64>,
    volatility: Option<f32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PatternHistory {
    /// A peak that decays by 2 % with each run. It stays near the P99 of a steady distribution and forgets an outlier
    /// after some hundred runs.
    tail_ms: u64,
    cost: CostHistory,
    changes: ChangeHistory,
}

impl KeyHistory {
    /// The cost of its runs here.
    fn cost(&self) -> Option<Cost> {
        self.cost.cost()
    }

    /// The last hinted degree of its anchor.
    fn degree(&self) -> Option<u64> {
        self.degree
    }

    /// The last hinted σ.
    fn volatility(&self) -> Option<f64> {
        self.volatility.map(f64::from)
    }
}

impl History {
    fn new() -> Self {
        let of = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self { keys: LruCache::new(of(HISTORY_KEYS_MAX)), patterns: LruCache::new(of(PATTERNS_COSTED_MAX)) }
    }

    /// The number of keys and patterns remembered.
    fn lens(&self) -> (usize, usize) {
        (self.keys.len(), self.patterns.len())
    }

    /// Notes a run, and the hints of its request.
    fn observe(&mut self, query: &Query, hints: Hints, took_ms: Millis) {
        let pattern = self.patterns.get_or_insert_mut(query.cost_key(), PatternHistory::default);
        pattern.tail_ms = (pattern.tail_ms - pattern.tail_ms / 50).max(took_ms.0);
        // The pattern's cost is the prior for a key's first runs.
        let cost = CostHistory::from_prior(&pattern.cost);
        pattern.cost.observe(took_ms);
        let key = self.keys.get_or_insert_mut(query.key, || KeyHistory { cost, ..KeyHistory::default() });
        key.cost.observe(took_ms);
        key.degree = hints.degree.or(key.degree);
        #[expect(clippy::cast_possible_truncation, reason = "a factor within limits")]
        let volatility = hints.volatility.map(|volatility| volatility as f32);
        key.volatility = volatility.or(key.volatility);
    }

    /// The history of a key whose copy has this request rate.
    fn seen(&mut self, key: &QueryKey, rate_per_s: Option<f64>) -> KeyHistory {
        let known = self.keys.get_or_insert_mut(*key, KeyHistory::default);
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        let rate_per_s = rate_per_s.map(|rate| rate as f32);
        known.rate_per_s = rate_per_s.or(known.rate_per_s);
        known.clone()
    }

    fn last_answer(&self, key: &QueryKey) -> Option<LastAnswer> {
        self.keys.peek(key)?.last_answer.clone()
    }

    /// Notes what a run brought, and the interval since the last one if it says something.
    fn note_answer(
        &mut self,
        query: &Query,
        answer: LastAnswer,
        (rule, interval): (&TtlRule, Option<Interval>),
    ) {
        let pattern = self.patterns.get_or_insert_mut(query.cost_key(), PatternHistory::default);
        let cost = CostHistory::from_prior(&pattern.cost);
        let key = self.keys.get_or_insert_mut(query.key, || KeyHistory { cost, ..KeyHistory::default() });
        if let Some(interval) = interval {
            rule.observe(&mut key.changes, &mut pattern.changes, interval);
        }
        key.last_answer = Some(answer);
    }

    fn ttl_ms(&self, query: &Query, rule: &TtlRule) -> Millis {
        let key = self.keys.peek(&query.key).map(|key| key.changes);
        let pattern = self.patterns.peek(&query.cost_key()).map(|pattern| pattern.changes);
        rule.ttl_ms(&key.unwrap_or_default(), &pattern.unwrap_or_default())
    }

    /// Takes over another node's facts of a key, unless this node has its own.
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

    /// The average time of a pattern's runs.
    fn mean_ms(&self, cost_key: &CostKey) -> Option<f64> {
        Some(self.patterns.peek(cost_key)?.cost.cost()?.mean_ms)
    }

    /// Requests per second of a key, as last seen.
    fn rate_per_s(&self, key: &QueryKey) -> Option<f32> {
        self.keys.peek(key)?.rate_per_s
    }

    /// A time that runs of a query's pattern hardly ever exceed: three times the longest of late.
    fn run_ms_max(&mut self, query: &Query) -> Millis {
        let tail_ms = self.patterns.get(&query.cost_key()).map(|pattern| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
            let estimate_ms = pattern.cost.cost().map_or(0, |cost| cost.tail_ms as u64);
            pattern.tail_ms.max(estimate_ms)
        });
        Millis(tail_ms.map_or(LEASE_MS_DEFAULT, |tail_ms| tail_ms.saturating_mul(3)).max(LEASE_MS_MIN))
    }
}
