//! I4: how old what is served was when it was asked for, by when its run began; that the answer does not make
//! itself younger; that what is stale says so; `max-age`, `no-cache` and `max-stale` (RFC 9111, 5.2.1).
//!
//! The age is judged at the moment of the ask: whatever answers later was an answer of the time between.

use hopcache_core::limits::DEGRADED_TTL_MS;
use hopcache_core::time::Millis;
use hopcache_engine::outcome::{Class, Detail};

use super::{AskSeen, Check, Ground, RunSeen, Seen};
use crate::profile::{NET_DELAY_MS_MAX, TTL_MS};
use crate::record::{Fact, Served, Want, What};

pub(super) struct Ages;

/// Times are cut to whole milliseconds, a few times on their way.
const ROUNDING_MS: u64 = 3;

impl Check for Ages {
    fn name(&self) -> &'static str {
        "I4 age"
    }

    fn look(&mut self, seen: &Seen<'_>) -> Result<(), String> {
        for fact in seen.facts {
            let What::Answered { ask, served } = &fact.what else { continue };
            let Some(ask) = seen.ground.asks.get(ask) else { continue };
            let run = served.told.and_then(|told| seen.ground.runs.get(&told.run));
            if let Some(run) = run {
                judge(fact, seen.ground, ask, run, served)?;
            }
        }
        Ok(())
    }
}

fn judge(fact: &Fact, ground: &Ground, ask: &AskSeen, run: &RunSeen, served: &Served) -> Result<(), String> {
    let age = ask.at.since(run.began);
    let (soft, physical) = lives(run);
    // An entry may have been kept by the store for as much longer as its clock was set back (F24), and for as much
    // longer as its commit was on the way (the lease bounds that: after it the commit is refused). A shared
    // forward's answer may have been on the way already when this ask joined it.
    let on_its_way = if served.is_from_afar { NET_DELAY_MS_MAX + 2 } else { 0 };
    let slack = Millis(ground.set_back_since(run.began).0 + run.late.0 + on_its_way + ROUNDING_MS);
    let over = |most: Millis| age.0 > most.0 + slack.0;
    if over(physical) {
        return Err(format!("{} ms old when asked for, {} at the most: {fact}", age.0, physical.0));
    }
    // For how long an answer from afar was on its way its entry node cannot know (it may have been stopped
    // meanwhile); it refuses what would be too old at the worst, and passes on the owner's word on the age.
    let said = served.how.age_ms.filter(|_| !served.is_from_afar);
    if said.is_some_and(|said| said.0 + slack.0 < age.0) {
        return Err(format!("says {said:?}, and was {} ms old when asked for: {fact}", age.0));
    }
    let is_marked =
        served.how.detail == Some(Detail::Stale) || served.how.ttl_ms.is_some_and(|left| left <= 0);
    if over(soft) && served.how.class == Class::Hit && !is_marked && !served.is_from_afar {
        return Err(format!("stale ({} ms, fresh for {}) and not marked: {fact}", age.0, soft.0));
    }
    // A near copy has no grace: it ends with the soft life, whatever it says of itself.
    if over(soft) && served.is_near {
        return Err(format!("near, {} ms old, and its entry fresh for {}: {fact}", age.0, soft.0));
    }
    match ask.want {
        Want::Anew | Want::Bypass if run.began < ask.at => {
            Err(format!("no-cache was answered by a run from before: {fact}"))
        }
        Want::NoOlder(most) if over(most) => {
            Err(format!("max-age={} ms was answered with {} ms: {fact}", most.0, age.0))
        }
        Want::Fresh if over(soft) => Err(format!("max-stale=0 was answered with a stale value: {fact}")),
        _ => Ok(()),
    }
}

/// Soft and physical life: as stored, or the most that they can be. What was never offered to the store
/// lives briefly beyond its run, however long that took.
fn lives(run: &RunSeen) -> (Millis, Millis) {
    let longest = TTL_MS + TTL_MS / 10;
    let most = (Millis(longest), Millis((longest + longest / 2).max(DEGRADED_TTL_MS)));
    run.lives.unwrap_or(most)
}
