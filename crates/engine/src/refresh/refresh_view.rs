//! What is known of a key's next refresh, at its owner and for whoever asks there (`explain`). It decides nothing:
//! the rule is [`hopcache_core::refresh`]'s, and whoever serves a hit draws.

use hopcache_core::cypher::anchor::Anchor;
use hopcache_core::key::QueryKey;
use hopcache_core::refresh::{self, Cost, KeyFacts, Mode, Plan, Rule};
use hopcache_core::time::Millis;
use hopcache_packstream::{Reader, Token, Writer};

use crate::ask::{Hints, Query};
use crate::copy::Life;
use crate::degree::{Degree, degree};
use crate::engine::Engine;

/// What a node knows of a key's refresh.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Outlook {
    /// Degree that it learned for the key's anchor.
    pub degree: Option<u64>,
    /// Of its copy, if it has one.
    pub copy: Option<CopyOutlook>,
}

/// When a copy is refreshed, and by what that is decided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CopyOutlook {
    /// What is known of the key.
    pub facts: KeyFacts,
    /// Freshness left; zero for a stale copy.
    pub left_ms: Millis,
    /// The plan in force; [`Plan::default`] for a copy that is not refreshed early.
    pub plan: Plan,
}

/// How the next refresh of a key comes about.
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
    /// By a plan that is made with the copy; there is none yet.
    NoCopy,
}

/// What `explain` shows of refreshes.
#[derive(Debug, Clone, PartialEq)]
pub struct RefreshView {
    /// How β is chosen.
    pub mode: Mode,
    /// How the next one comes about.
    pub timing: Timing,
    /// The owner's copy, if it has one; the plan is the hinted one where a hint was given.
    pub copy: Option<CopyOutlook>,
    /// Degree of the graph node that the query starts from.
    pub degree: Degree,
    /// That node, where it is sure.
    pub anchor: Option<Anchor>,
    /// Chance that one hit now starts a refresh; nothing without a copy.
    pub probability: Option<f64>,
}

impl Engine {
    pub(crate) fn outlook_here(&self, key: &QueryKey) -> Outlook {
        let now = self.now();
        let degree = self.degrees.learned(key, now);
        let copy = self.own_copy(key).map(|copy| {
            let facts = self.facts_of(key, &copy, now);
            let left_ms = match copy.life(now) {
                Life::Fresh(left) => left,
                Life::Stale(_) | Life::Dead => Millis::ZERO,
            };
            let is_early = self.may_refresh_early(&copy);
            let plan = if is_early { self.policy.refresh.rule.plan(&facts) } else { Plan::default() };
            CopyOutlook { facts, left_ms, plan }
        });
        Outlook { degree, copy }
    }

    /// The owner's outlook in this query's light, with what its caller would hint.
    pub(crate) fn refresh_view(&self, query: &Query, hints: Hints, seen: Outlook) -> RefreshView {
        let degree = degree(hints.degree, seen.degree);
        let copy = seen.copy.map(|copy| hinted(copy, self.policy.refresh.rule, hints));
        let timing = self.timing(copy);
        RefreshView {
            mode: self.policy.refresh.rule.mode,
            timing,
            copy,
            degree,
            anchor: Anchor::of(query.normal.as_str(), &query.params),
            probability: copy.map(|copy| probability(&copy, timing)),
        }
    }

    fn timing(&self, copy: Option<CopyOutlook>) -> Timing {
        let refresh = &self.policy.refresh;
        match copy {
            _ if !refresh.is_early => Timing::Off,
            _ if self.policy.ttl_ms < refresh.ttl_ms_min => Timing::BelowMinTtl,
            Some(copy) if self.is_below_ttl_min(copy.facts.ttl_ms) => Timing::BelowMinTtl,
            Some(copy) if copy.plan == Plan::default() => Timing::NotStored,
            Some(copy) => Timing::Planned(copy.plan.timing),
            None => Timing::NoCopy,
        }
    }
}

/// Without hints the owner's plan stands.
fn hinted(copy: CopyOutlook, rule: Rule, hints: Hints) -> CopyOutlook {
    if hints.degree.is_none() && hints.volatility.is_none() {
        return copy;
    }
    let facts = KeyFacts {
        degree: hints.degree.or(copy.facts.degree),
        volatility: hints.volatility.unwrap_or(copy.facts.volatility),
        ..copy.facts
    };
    // No hint brings about an early refresh of a copy that has none.
    let plan = if copy.plan == Plan::default() { copy.plan } else { rule.plan(&facts) };
    CopyOutlook { facts, plan, ..copy }
}

/// Any hit on a stale copy has it refreshed.
fn probability(copy: &CopyOutlook, timing: Timing) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "spans are far below 2^53 ms")]
    let left_ms = copy.left_ms.0 as f64;
    match timing {
        _ if copy.left_ms == Millis::ZERO => 1.0,
        Timing::Off | Timing::BelowMinTtl | Timing::NotStored | Timing::NoCopy => 0.0,
        Timing::Planned(_) => copy.plan.probability(left_ms, 1),
    }
}

/// Written behind what older nodes know: they stop reading before it.
pub(crate) fn write(seen: &Outlook, writer: &mut Writer) {
    let int = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    writer.int(seen.degree.map_or(-1, int));
    let Some(CopyOutlook { facts, left_ms, plan }) = seen.copy else { return };
    writer.int(int(facts.ttl_ms.0));
    writer.int(int(left_ms.0));
    for number in [
        facts.cost.mean_ms,
        facts.cost.tail_ms,
        facts.rate_per_s.unwrap_or(f64::NAN),
        facts.volatility,
        plan.scale_ms,
        plan.ahead_ms,
    ] {
        writer.float(number);
    }
    let place = TIMINGS.iter().position(|each| *each == plan.timing);
    writer.int(place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1));
}

/// The place of a word is its number: words are added at the end only.
const TIMINGS: [refresh::Timing; 5] = [
    refresh::Timing::Formula,
    refresh::Timing::Prior,
    refresh::Timing::Fitted,
    refresh::Timing::RefreshAhead,
    refresh::Timing::LateAccepted,
];

/// An older node wrote nothing, and a strange one may have written anything.
pub(crate) fn read(reader: &mut Reader<'_>) -> Outlook {
    let Ok(Token::Int(degree)) = reader.token() else { return Outlook::default() };
    let degree = u64::try_from(degree).ok();
    Outlook { degree, copy: read_copy(reader, degree) }
}

fn read_copy(reader: &mut Reader<'_>, degree: Option<u64>) -> Option<CopyOutlook> {
    let mut span = || match reader.token() {
        Ok(Token::Int(number)) => u64::try_from(number).ok().map(Millis),
        _ => None,
    };
    let (ttl_ms, left_ms) = (span()?, span()?);
    let mut number = || match reader.token() {
        Ok(Token::Float(number)) => Some(number),
        _ => None,
    };
    let cost = Cost { mean_ms: number()?, tail_ms: number()? };
    let rate_per_s = number()?;
    let volatility = number()?;
    let (scale_ms, ahead_ms) = (number()?, number()?);
    let Ok(Token::Int(place)) = reader.token() else { return None };
    let timing = *usize::try_from(place).ok().and_then(|place| TIMINGS.get(place))?;
    let plan = Plan { scale_ms, ahead_ms, timing };
    let rate_per_s = (!rate_per_s.is_nan()).then_some(rate_per_s);
    let facts = KeyFacts { ttl_ms, cost, rate_per_s, degree, volatility };
    Some(CopyOutlook { facts, left_ms, plan })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outlook() -> Outlook {
        let cost = Cost { mean_ms: 20.5, tail_ms: 80.0 };
        let facts =
            KeyFacts { ttl_ms: Millis(60_000), cost, rate_per_s: None, degree: Some(5), volatility: 1.5 };
        let plan = Plan { scale_ms: 30.0, ahead_ms: 7.5, timing: refresh::Timing::Fitted };
        Outlook { degree: Some(5), copy: Some(CopyOutlook { facts, left_ms: Millis(900), plan }) }
    }

    fn written(seen: &Outlook) -> Vec<u8> {
        let mut writer = Writer::new();
        write(seen, &mut writer);
        writer.into_bytes()
    }

    #[test]
    fn it_comes_back_as_it_went() {
        let mut rated = outlook();
        rated.copy.as_mut().unwrap().facts.rate_per_s = Some(12.25);
        for seen in [outlook(), rated, Outlook { copy: None, ..outlook() }, Outlook::default()] {
            assert_eq!(read(&mut Reader::new(&written(&seen))), seen);
        }
    }

    /// A rolling restart: older nodes write nothing. I13: any cut is read.
    #[test]
    fn less_than_all_is_read() {
        assert_eq!(read(&mut Reader::new(&[])), Outlook::default());
        let whole = written(&outlook());
        for len in 0..whole.len() {
            assert_eq!(read(&mut Reader::new(&whole[..len])).copy, None);
        }
    }

    #[test]
    fn a_hint_makes_another_plan_and_a_stale_copy_is_refreshed_by_any_hit() {
        let copy = outlook().copy.unwrap();
        let rule = Rule { mode: Mode::Plain, beta: 1.0 };
        assert_eq!(hinted(copy, rule, Hints::default()), copy);
        let hints = Hints { volatility: Some(3.0), degree: Some(9), ..Hints::default() };
        let by_hint = hinted(copy, rule, hints);
        assert_eq!((by_hint.facts.volatility, by_hint.facts.degree), (3.0, Some(9)));
        assert_eq!(by_hint.plan, rule.plan(&by_hint.facts));
        let stale = CopyOutlook { left_ms: Millis::ZERO, ..copy };
        assert_eq!(probability(&stale, Timing::Off), 1.0);
        assert_eq!(probability(&copy, Timing::Off), 0.0);
        assert_eq!(
            probability(&copy, Timing::Planned(refresh::Timing::Fitted)),
            copy.plan.probability(900.0, 1)
        );
    }
}
