//! The view of a key's next refresh, for `explain`. It decides nothing: [`hopcache_core::refresh`] has the rule, and
//! the node that serves a hit draws.

use hopcache_core::key::QueryKey;
use hopcache_core::refresh::{self, KeyFacts, Mode, Plan, Rule};
use hopcache_core::time::Millis;
use hopcache_cypher::anchor::Anchor;

use crate::cache::copy::{Life, MemoryCopy};
use crate::model::ask::{Hints, Query};
use crate::model::degree::Degree;
use crate::model::inspection::{CopyRefreshFacts, RefreshFacts};
use crate::refresh::Refresh;
use crate::refresh::degree::degree;

/// The trigger of a key's next refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Only once it is stale: early refresh is off.
    Off,
    /// Only once it is stale: entries, or this one, live too short for an early refresh.
    BelowMinTtl,
    /// Only once it is stale: the store has never taken the copy.
    NotStored,
    /// By the owner's plan for its copy.
    Planned(refresh::Timing),
    /// By a plan that will be made with the copy; there is no copy yet.
    NoCopy,
}

/// Plain data: what `explain` shows of refreshes.
#[derive(Debug, Clone, PartialEq)]
pub struct RefreshView {
    /// How β is chosen.
    pub mode: Mode,
    /// The trigger of the next one.
    pub timing: Timing,
    /// The owner's copy, if it has one. With a hint, its plan is the hinted one.
    pub copy: Option<CopyRefreshFacts>,
    /// Degree of the graph node that the query starts from.
    pub degree: Degree,
    /// That node, if the statement determines it.
    pub anchor: Option<Anchor>,
    /// Chance that one hit now starts a refresh; `None` without a copy.
    pub probability: Option<f64>,
}

impl Refresh {
    /// This node's facts for the refresh of a key, with its copy if it has one.
    pub(crate) fn facts_here(&self, key: &QueryKey, held: Option<&MemoryCopy>) -> RefreshFacts {
        let (now, key_stats) = (self.context.now(), self.cache.key_stats());
        let copy = held.map(|copy| {
            let facts = key_stats.facts_of(key, copy, now);
            let left_ms = match copy.life(now) {
                Life::Fresh(left) => left,
                Life::Stale(_) | Life::Dead => Millis::ZERO,
            };
            let is_early = key_stats.may_refresh_early(copy);
            let plan = if is_early { self.policy().rule.plan(&facts) } else { Plan::default() };
            CopyRefreshFacts { facts, left_ms, plan }
        });
        RefreshFacts { degree: key_stats.degrees().learned(key, now), copy }
    }

    /// The owner's facts, applied to this query and to its caller's hints.
    pub(crate) fn refresh_view(&self, query: &Query, hints: Hints, seen: RefreshFacts) -> RefreshView {
        let degree = degree(hints.degree, seen.degree);
        let copy = seen.copy.map(|copy| hinted(copy, self.policy().rule, hints));
        let timing = self.timing(copy);
        RefreshView {
            mode: self.policy().rule.mode,
            timing,
            copy,
            degree,
            anchor: Anchor::of(query.normal.as_str(), &query.params),
            probability: copy.map(|copy| probability(&copy, timing)),
        }
    }

    fn timing(&self, copy: Option<CopyRefreshFacts>) -> Timing {
        let (refresh, ttl_ms) = (self.policy(), self.policy.now().ttl_ms);
        match copy {
            _ if !refresh.is_early => Timing::Off,
            _ if ttl_ms < refresh.ttl_ms_min => Timing::BelowMinTtl,
            Some(copy) if self.cache.key_stats().is_below_ttl_min(copy.facts.ttl_ms) => Timing::BelowMinTtl,
            Some(copy) if copy.plan == Plan::default() => Timing::NotStored,
            Some(copy) => Timing::Planned(copy.plan.timing),
            None => Timing::NoCopy,
        }
    }
}

/// Without hints the owner's plan stands.
fn hinted(copy: CopyRefreshFacts, rule: Rule, hints: Hints) -> CopyRefreshFacts {
    if hints.degree.is_none() && hints.volatility.is_none() {
        return copy;
    }
    let facts = KeyFacts {
        degree: hints.degree.or(copy.facts.degree),
        volatility: hints.volatility.unwrap_or(copy.facts.volatility),
        ..copy.facts
    };
    // A hint cannot give an early refresh to a copy that has none.
    let plan = if copy.plan == Plan::default() { copy.plan } else { rule.plan(&facts) };
    CopyRefreshFacts { facts, plan, ..copy }
}

/// Every hit on a stale copy triggers a refresh.
fn probability(copy: &CopyRefreshFacts, timing: Timing) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
    let left_ms = copy.left_ms.0 as f64;
    match timing {
        _ if copy.left_ms == Millis::ZERO => 1.0,
        Timing::Off | Timing::BelowMinTtl | Timing::NotStored | Timing::NoCopy => 0.0,
        Timing::Planned(_) => copy.plan.probability(left_ms, 1),
    }
}

#[cfg(test)]
mod tests {
    use hopcache_core::refresh::Cost;

    use super::*;

    fn copy_facts() -> CopyRefreshFacts {
        let cost = Cost { mean_ms: 20.5, tail_ms: 80.0 };
        let facts =
            KeyFacts { ttl_ms: Millis(60_000), cost, rate_per_s: None, degree: Some(5), volatility: 1.5 };
        let plan = Plan { scale_ms: 30.0, ahead_ms: 7.5, timing: refresh::Timing::Fitted };
        CopyRefreshFacts { facts, left_ms: Millis(900), plan }
    }

    #[test]
    fn a_hint_makes_another_plan_and_a_stale_copy_is_refreshed_by_any_hit() {
        let copy = copy_facts();
        let rule = Rule { mode: Mode::Plain, beta: 1.0 };
        assert_eq!(hinted(copy, rule, Hints::default()), copy);
        let hints = Hints { volatility: Some(3.0), degree: Some(9), ..Hints::default() };
        let by_hint = hinted(copy, rule, hints);
        assert_eq!((by_hint.facts.volatility, by_hint.facts.degree), (3.0, Some(9)));
        assert_eq!(by_hint.plan, rule.plan(&by_hint.facts));
        let stale = CopyRefreshFacts { left_ms: Millis::ZERO, ..copy };
        assert_eq!(probability(&stale, Timing::Off), 1.0);
        assert_eq!(probability(&copy, Timing::Off), 0.0);
        assert_eq!(
            probability(&copy, Timing::Planned(refresh::Timing::Fitted)),
            copy.plan.probability(900.0, 1)
        );
    }
}
