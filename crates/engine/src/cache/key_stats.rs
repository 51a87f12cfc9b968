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
use hopcache_core::refresh::{Cost, CostHistory, Heat, KeyFacts, Plan, ShortCostHistory};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_cypher::forms::normal::NormalForm;
use lru::LruCache;
use parking_lot::Mutex;

use crate::cache::copy::MemoryCopy;
use crate::cache::degrees::Degrees;
use crate::cache::key_table::KeyTable;
use crate::model::ask::{CostKey, Hints, Query};
use crate::model::inspection::KeyPlan;
use crate::model::job::FetchJob;
use crate::model::policy::PolicyInForce;
use crate::model::span::scaled;

/// Knowledge of keys, and the rule that plans refreshes with it.
pub(crate) struct KeyStats {
    history: Mutex<History>,
    degrees: Degrees,
    policy: PolicyInForce,
}

/// Plain data: what a run brought, to be compared with what the next one brings.
#[derive(Debug, Clone)]
pub(crate) struct LastAnswer {
    /// The text that was run. Another spelling may bring the same rows in another order.
    pub(crate) text: NormalForm,
    /// A digest of its records.
    pub(crate) digest: u64,
    /// When the read began.
    pub(crate) read_started: MonoTime,
    /// The transactions between which it was read.
    pub(crate) range: Option<Arc<ReadRange>>,
}

impl KeyStats {
    pub(crate) fn new(policy: &PolicyInForce) -> Self {
        Self { history: Mutex::new(History::new()), degrees: Degrees::new(), policy: policy.clone() }
    }

    /// How TTLs follow from the changes of answers; `None` if they are fixed.
    fn ttl_rule(&self) -> Option<TtlRule> {
        let policy = self.policy.now();
        TtlRule::new(policy.stale_target, policy.ttl_ms)
    }

    /// The number of keys and patterns remembered.
    pub(crate) fn lens(&self) -> (usize, usize) {
        self.history.lock().lens()
    }

    /// Known degrees.
    pub(crate) fn degrees(&self) -> &Degrees {
        &self.degrees
    }

    /// Notes a run, and the hints of its request. `held` is the copy that its result replaces.
    pub(crate) fn observe_run(&self, job: &FetchJob, held: Option<&MemoryCopy>, took_ms: Millis) {
        self.history.lock().observe(&job.query, job.hints, (held, took_ms));
    }

    /// The cost of a key's runs after one that took this long, for its copy: most keys run once and have no history.
    pub(crate) fn first_cost(&self, query: &Query, took_ms: Millis) -> CostHistory {
        let mut cost = self.history.lock().prior(query);
        cost.observe(took_ms);
        cost
    }

    /// Whether TTLs follow from the changes of answers.
    pub(crate) fn learns_ttls(&self) -> bool {
        self.policy.now().stale_target > 0.0 && self.ttl_rule().is_some()
    }

    /// Notes what a run brought: has the answer changed since the last one? `is_ended` says whether a write that this node was
    /// told of has ended such an answer since. That change was no surprise, so it says nothing about a good TTL.
    pub(crate) fn observe_answer(
        &self,
        query: &Query,
        answer: LastAnswer,
        is_ended: impl FnOnce(&LastAnswer) -> bool,
    ) -> Option<Interval> {
        let rule = &self.ttl_rule()?;
        let before = self.history.lock().last_answer(&query.key);
        // Of two runs at a time the later one is kept, whichever ends first.
        if before.as_ref().is_some_and(|before| before.read_started >= answer.read_started) {
            return None;
        }
        let interval = before.filter(|before| before.text == answer.text && !is_ended(before));
        let interval = interval.map(|before| Interval {
            length_ms: answer.read_started.since(before.read_started),
            has_changed: before.digest != answer.digest,
        });
        self.history.lock().note_answer(query, answer, (rule, interval));
        interval
    }

    /// The longest TTL of an entry.
    pub(crate) fn ttl_ms_max(&self) -> Millis {
        self.ttl_rule().as_ref().map_or_else(|| self.policy.now().ttl_ms, TtlRule::ttl_ms_max)
    }

    /// The TTL of a new entry for this query.
    pub(crate) fn ttl_ms(&self, query: &Query) -> Millis {
        match &self.ttl_rule() {
            Some(rule) => self.history.lock().ttl_ms(query, rule),
            None => self.policy.now().ttl_ms,
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
        let known = self.history.lock().seen(key, copy, rate_per_s);
        KeyFacts {
            ttl_ms: copy.ttl_ms(),
            // An entry that another node stored brings the cost of its run.
            cost: known.cost.unwrap_or_else(|| Cost::of_run(copy.cost_ms())),
            rate_per_s,
            degree: known.degree.or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility.unwrap_or(1.0),
        }
    }

    /// The facts for a new owner of the key.
    pub(crate) fn key_plan(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> KeyPlan {
        let known = self.history.lock().seen(key, copy, copy.heat().rate_per_s(now));
        KeyPlan {
            cost: known.cost.unwrap_or_else(|| Cost::of_run(copy.cost_ms())),
            rate_per_s: copy.heat().rate_per_s(now),
            degree: known.degree.or_else(|| self.degrees.learned(key, now)),
            volatility: known.volatility,
        }
    }

    /// Takes over another node's facts of a key, unless this node has its own.
    pub(crate) fn learn(&self, key: &QueryKey, plan: KeyPlan) {
        self.history.lock().learn(key, plan);
    }

    /// Whether a copy can be refreshed before it expires.
    pub(crate) fn may_refresh_early(&self, copy: &MemoryCopy) -> bool {
        self.policy.now().refresh.is_early
            // A copy that is not stored stays on this node, and so would its refresh.
            && copy.token().is_some()
            && !self.is_below_ttl_min(copy.ttl_ms())
    }

    /// Whether an entry lives too short for an early refresh. Its TTL is known only with its jitter. So an entry that a
    /// hint made shorter than `ttl_ms_min`, by less than the jitter, may count as long enough.
    pub(crate) fn is_below_ttl_min(&self, ttl_ms: Millis) -> bool {
        let policy = self.policy.now();
        let ttl_ms_min = policy.refresh.ttl_ms_min;
        policy.ttl_ms < ttl_ms_min || ttl_ms < scaled(ttl_ms_min, 1.0 - policy.ttl_jitter)
    }

    /// The plan for a fresh copy's refresh; an empty one for a copy that is not refreshed early.
    pub(crate) fn plan_in_force(&self, key: &QueryKey, copy: &MemoryCopy, now: MonoTime) -> Plan {
        if !self.may_refresh_early(copy) {
            return Plan::default();
        }
        let left = copy.fresh_until().since(now);
        copy.schedule().plan(left).unwrap_or_else(|| self.plan_anew(key, copy, (left, now)))
    }

    /// Makes the plan of a copy with `left` of its soft TTL, and keeps it on the copy.
    pub(crate) fn plan_anew(
        &self,
        key: &QueryKey,
        copy: &MemoryCopy,
        (left, now): (Millis, MonoTime),
    ) -> Plan {
        let plan = self.policy.now().refresh.rule.plan(&self.facts_of(key, copy, now));
        copy.schedule().keep(&plan, left, copy.ttl_ms());
        plan
    }
}

/// History by key, and by pattern, principal and database. The least recently used is forgotten first.
struct History {
    keys: KeyTable<KeyHistory>,
    patterns: LruCache<CostKey, PatternHistory>,
}

/// The history of one key, in few bytes: a node has tens of thousands.
#[derive(Debug, Default)]
struct KeyHistory {
    cost: ShortCostHistory,
    rate: ShortRate,
    /// What most keys do not have.
    more: Option<Box<MoreHistory>>,
}

const _: () = assert!(size_of::<KeyHistory>() == 24 && size_of::<MoreHistory>() <= 80);

/// Requests per second, as last seen on a copy of the key: the first three bytes of an `f32`, good for five digits. NaN if they
/// are not known.
#[derive(Debug, Clone, Copy)]
struct ShortRate([u8; 3]);

/// Hints about a key, and its answers.
#[derive(Debug, Default)]
struct MoreHistory {
    /// The last hinted σ.
    volatility: Option<f64>,
    /// The last hinted degree of its anchor.
    degree: Option<u64>,
    /// How its answers change, where TTLs are learned.
    changes: ChangeHistory,
    /// What its last run brought.
    last: Option<LastAnswer>,
}

/// Plain data: what is known of a key, but for its answers.
struct KnownKey {
    cost: Option<Cost>,
    degree: Option<u64>,
    volatility: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PatternHistory {
    /// A peak that decays by 2 % with each run. It stays near the P99 of a steady distribution and forgets an outlier
    /// after some hundred runs.
    tail_ms: u64,
    cost: CostHistory,
    changes: ChangeHistory,
}

impl ShortRate {
    fn of(rate_per_s: Option<f32>) -> Self {
        let [a, b, c, _] = rate_per_s.unwrap_or(f32::NAN).to_be_bytes();
        Self([a, b, c])
    }

    fn per_s(self) -> Option<f32> {
        let Self([a, b, c]) = self;
        Some(f32::from_be_bytes([a, b, c, 0])).filter(|rate| !rate.is_nan())
    }
}

impl Default for ShortRate {
    fn default() -> Self {
        Self::of(None)
    }
}

impl KeyHistory {
    fn of_cost(cost: ShortCostHistory) -> Self {
        Self { cost, ..Self::default() }
    }

    /// Begins with this cost, if that of no run is known.
    fn begin(&mut self, cost: impl FnOnce() -> CostHistory) {
        if self.cost().is_none() {
            self.cost = cost().into();
        }
    }

    /// The cost of its runs here.
    fn cost(&self) -> Option<Cost> {
        CostHistory::from(self.cost).cost()
    }

    fn degree(&self) -> Option<u64> {
        self.more.as_ref()?.degree
    }

    fn volatility(&self) -> Option<f64> {
        self.more.as_ref()?.volatility
    }

    /// Keeps the hints that there are.
    fn note_hints(&mut self, degree: Option<u64>, volatility: Option<f64>) {
        if degree.is_some() || volatility.is_some() {
            let more = self.more.get_or_insert_default();
            (more.degree, more.volatility) = (degree.or(more.degree), volatility.or(more.volatility));
        }
    }
}

impl History {
    fn new() -> Self {
        let of = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self { keys: KeyTable::new(HISTORY_KEYS_MAX), patterns: LruCache::new(of(PATTERNS_COSTED_MAX)) }
    }

    /// The number of keys and patterns remembered.
    fn lens(&self) -> (usize, usize) {
        (self.keys.len(), self.patterns.len())
    }

    /// What is known of the cost of a key's next run, if it has not run.
    fn prior(&self, query: &Query) -> CostHistory {
        let pattern = self.patterns.peek(&query.cost_key());
        pattern.map_or_else(CostHistory::default, |pattern| CostHistory::from_prior(&pattern.cost))
    }

    /// Notes a run, and the hints of its request. A key without hints gets a history when it runs again while its copy is here, or
    /// when that is hit and planned for; until then its copy has the cost.
    fn observe(&mut self, query: &Query, hints: Hints, (held, took_ms): (Option<&MemoryCopy>, Millis)) {
        let pattern = self.patterns.get_or_insert_mut(query.cost_key(), PatternHistory::default);
        pattern.tail_ms = (pattern.tail_ms - pattern.tail_ms / 50).max(took_ms.0);
        // The pattern's cost is the prior for a key's first runs.
        let prior = CostHistory::from_prior(&pattern.cost);
        pattern.cost.observe(took_ms);
        let is_hinted = hints.degree.is_some() || hints.volatility.is_some();
        if held.is_none() && !is_hinted && self.keys.peek(&query.key).is_none() {
            return;
        }
        let key = self.keys.get_or_insert(&query.key, KeyHistory::default);
        key.begin(|| held.map_or(prior, |held| cost_before(held, prior)));
        let mut cost = CostHistory::from(key.cost);
        cost.observe(took_ms);
        key.cost = cost.into();
        key.note_hints(hints.degree, hints.volatility);
    }

    /// What is known of a key whose copy has this request rate.
    fn seen(&mut self, key: &QueryKey, copy: &MemoryCopy, rate_per_s: Option<f64>) -> KnownKey {
        let known = self.keys.get_or_insert(key, KeyHistory::default);
        known.begin(|| cost_before(copy, CostHistory::default()));
        if let Some(rate_per_s) = rate_per_s {
            known.rate = short_rate(Some(rate_per_s));
        }
        KnownKey { cost: known.cost(), degree: known.degree(), volatility: known.volatility() }
    }

    fn last_answer(&self, key: &QueryKey) -> Option<LastAnswer> {
        self.keys.peek(key)?.more.as_ref()?.last.clone()
    }

    /// Notes what a run brought, and the interval since the last one if it says something.
    fn note_answer(
        &mut self,
        query: &Query,
        answer: LastAnswer,
        (rule, interval): (&TtlRule, Option<Interval>),
    ) {
        let pattern = self.patterns.get_or_insert_mut(query.cost_key(), PatternHistory::default);
        let cost = CostHistory::from_prior(&pattern.cost).into();
        let key = self.keys.get_or_insert(&query.key, || KeyHistory::of_cost(cost));
        let more = key.more.get_or_insert_default();
        if let Some(interval) = interval {
            rule.observe(&mut more.changes, &mut pattern.changes, interval);
        }
        more.last = Some(answer);
    }

    fn ttl_ms(&self, query: &Query, rule: &TtlRule) -> Millis {
        let key = self.keys.peek(&query.key).and_then(|key| key.more.as_ref()).map(|more| more.changes);
        let pattern = self.patterns.peek(&query.cost_key()).map(|pattern| pattern.changes);
        rule.ttl_ms(&key.unwrap_or_default(), &pattern.unwrap_or_default())
    }

    /// Takes over another node's facts of a key, unless this node has its own.
    fn learn(&mut self, key: &QueryKey, plan: KeyPlan) {
        let own = self.keys.get_or_insert(key, KeyHistory::default);
        if own.cost().is_none() {
            own.cost = CostHistory::of_cost(plan.cost).into();
        }
        if own.rate.per_s().is_none() {
            own.rate = short_rate(plan.rate_per_s);
        }
        own.note_hints(
            plan.degree.filter(|_| own.degree().is_none()),
            plan.volatility.filter(|_| own.volatility().is_none()),
        );
    }

    /// The average time of a pattern's runs.
    fn mean_ms(&self, cost_key: &CostKey) -> Option<f64> {
        Some(self.patterns.peek(cost_key)?.cost.cost()?.mean_ms)
    }

    /// Requests per second of a key, as last seen.
    fn rate_per_s(&self, key: &QueryKey) -> Option<f32> {
        self.keys.peek(key)?.rate.per_s()
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

/// The cost of a key's runs up to the one that brought this copy, for a key without history. A copy from the store knows only how
/// long its own run took; `prior` is what is known of the pattern.
fn cost_before(copy: &MemoryCopy, prior: CostHistory) -> CostHistory {
    copy.schedule().first_cost().unwrap_or_else(|| {
        let mut cost = prior;
        cost.observe(copy.cost_ms());
        cost
    })
}

fn short_rate(rate_per_s: Option<f64>) -> ShortRate {
    #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
    let rate_per_s = rate_per_s.map(|rate| rate as f32);
    ShortRate::of(rate_per_s)
}

#[cfg(test)]
mod tests;
