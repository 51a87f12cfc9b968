//! I4: the age of served values, from the begin of their run to the request. An answer does not show a lower age than
//! it has. A stale answer says that it is stale. `max-age`, `no-cache` and `max-stale` hold (RFC 9111, 5.2.1). A client
//! with a bookmark gets no value from before it.
//!
//! After grace, nodes serve only answers marked `stale-if-error`, and only until the end of that time. The origin must
//! have had a failure since the copy was read:
//!
//! - a run of the same subject failed, or the origin did not classify the statement; or
//! - a request waited for a run for at least the shortest lease, or for its whole time; or
//! - a node's process was stopped, and its flights with it; or
//! - nodes knew that the origin could not be reached.
//!
//! The age is judged at the time of the request: any later answer was an answer of the time between.

use std::collections::BTreeMap;

use hopcache_core::admission::Room;
use hopcache_core::limits::{DEGRADED_TTL_MS, LEASE_MS_MIN};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::Policy;
use hopcache_engine::outcome::{Class, Detail};

use super::{AskView, Check, Ground, RunView, StepView};
use crate::check::record::{Fact, RunEnd, ServedAnswer, Want, What};
use crate::drive::profile::{NET_DELAY_MS_MAX, TTL_MS};
use crate::world::subject::Subject;

#[derive(Default)]
pub(super) struct Ages {
    /// When a run of a subject last failed.
    failed: BTreeMap<usize, MonoTime>,
    /// When a statement's kind was last unknown in a database.
    wordless: BTreeMap<(usize, usize), MonoTime>,
    /// Requests under way, and requests whose client left, because the flight that such a request began goes on.
    open: BTreeMap<u32, AskView>,
    left: Vec<u32>,
    /// Runs that are under way.
    running: BTreeMap<u32, Running>,
    /// When an ask or a run of a subject had last been under way for long.
    slow: BTreeMap<usize, MonoTime>,
    /// When a stopped process last went on: its flights stood still with it, and are late.
    resumed: Option<MonoTime>,
}

struct Running {
    subject: usize,
    /// The earliest time at which the flight of this request can have begun: when the request came that leads to it.
    /// The flight gets a lease and a slot at the origin before its run begins. An impatient client may have left by
    /// then.
    since: MonoTime,
    /// For a request that shares no flight.
    is_alone: bool,
}

/// Times are cut to whole milliseconds, a few times on their way.
const ROUNDING_MS: u64 = 3;

/// The shortest time that a request waits when it has a stale fallback.
const WAIT_MIN: Millis = Millis(LEASE_MS_MIN);

impl Check for Ages {
    fn name(&self) -> &'static str {
        "I4 age"
    }

    fn look(&mut self, seen: &StepView<'_>) -> Result<(), String> {
        for fact in seen.facts {
            self.learn(fact, seen.ground);
            let What::Answered { ask: number, served } = &fact.what else { continue };
            let Some(ask) = seen.ground.asks.get(number) else { continue };
            let run = served.report.and_then(|report| seen.ground.runs.get(&report.run));
            if let Some(run) = run {
                judge(fact, seen.ground, ask, run, served)?;
                self.is_outage((fact, seen.ground), ask, run, served)?;
            }
            // The time of a request is over, and its flight goes on: others may join it.
            if fact.at.since(ask.at) >= ask.wait_max {
                self.left.push(*number);
            } else {
                self.open.remove(number);
            }
        }
        Ok(())
    }
}

impl Ages {
    fn learn(&mut self, fact: &Fact, ground: &Ground) {
        for ask in self.open.values().filter(|ask| fact.at.since(ask.at) >= WAIT_MIN) {
            self.slow.insert(ask.subject, fact.at);
        }
        for run in self.running.values() {
            if fact.at.since(run.since) >= WAIT_MIN {
                self.slow.insert(run.subject, fact.at);
            }
        }
        match &fact.what {
            What::RunBegan { run, subject: Some(subject), ask, .. } => {
                let asked = ask.and_then(|ask| ground.asks.get(&ask));
                let is_alone = asked.is_some_and(|ask| ask.want.is_alone());
                let since = asked.filter(|_| !is_alone).map_or(fact.at, |ask| ask.at);
                self.running.insert(*run, Running { subject: *subject, since, is_alone });
            }
            What::RunEnded { run, end: RunEnd::Whole | RunEnd::Updates } => {
                // A run for one request alone ends no flight. So requests that joined the flight of a client that left
                // still wait.
                let ended = self.running.remove(run);
                let subject = ended.filter(|run| !run.is_alone).map(|run| run.subject);
                let Self { open, left, .. } = self;
                open.retain(|ask, seen| Some(seen.subject) != subject || !left.contains(ask));
                left.retain(|ask| open.contains_key(ask));
            }
            What::RunEnded { run, .. } => {
                self.running.remove(run);
                if let Some(subject) = ground.runs.get(run).and_then(|run| run.subject) {
                    self.failed.insert(subject, fact.at);
                }
            }
            What::Wordless { subject: Some(place) } => {
                self.wordless.insert(text_of(*place), fact.at);
            }
            What::Asked { ask, .. } => {
                if let Some(seen) = ground.asks.get(ask) {
                    self.open.insert(*ask, *seen);
                }
            }
            What::Power { power: "on", .. } => self.resumed = Some(fact.at),
            What::Left { ask } => self.left.push(*ask),
            _ => {}
        }
    }

    fn is_outage(
        &self,
        (fact, ground): (&Fact, &Ground),
        ask: &AskView,
        run: &RunView,
        served: &ServedAnswer,
    ) -> Result<(), String> {
        if served.how.detail != Some(Detail::StaleIfError) || served.how.class != Class::Hit {
            return Ok(());
        }
        // A copy that seems older than it is, since the store's clock jumped, is taken for one that was read before
        // trouble that in truth came before it.
        let began = run.began - ground.set_ahead_since(run.began);
        let since =
            |times: &BTreeMap<usize, MonoTime>| times.get(&ask.subject).is_some_and(|at| *at >= began);
        let waited = fact.at.since(ask.at);
        let was_stopped = self.resumed.is_some_and(|at| at >= began);
        let is_out = was_stopped
            || since(&self.failed)
            || self.wordless.get(&text_of(ask.subject)).is_some_and(|at| *at >= began)
            || since(&self.slow)
            || ground.was_away_since(ask.at)
            || waited >= WAIT_MIN
            || waited >= ask.wait_max;
        if is_out { Ok(()) } else { Err(format!("stale-if-error, and the origin was well: {fact}")) }
    }
}

/// The subject of the origin's answer about a statement's kind: a statement in a database, for any principal.
pub(super) fn text_of(place: usize) -> (usize, usize) {
    let subject = Subject::at(place);
    (subject.statement, subject.database)
}

/// Whether no version up to this one has touched what was answered: then it is the value of this version too. Nodes know that with proofs.
fn is_untouched(ground: &Ground, run: &RunView, served: &ServedAnswer, version: u32) -> bool {
    let Some(report) = served.report.filter(|_| ground.policy.proofs.is_some()) else { return false };
    let mut touching = ground.history.touching_after(report.subject, (run.epoch, report.version));
    touching.all(|seen| seen.version > version)
}

fn judge(
    fact: &Fact,
    ground: &Ground,
    ask: &AskView,
    run: &RunView,
    served: &ServedAnswer,
) -> Result<(), String> {
    let real = ask.at.since(run.began);
    // A value that was proved is as good as one that is read then. How long ago it was proved is not known here. But then it
    // was the database's: so an answer's age is no less than the time for which its value has not been that.
    let age = match (ground.policy.proofs, served.report) {
        (Some(_), Some(report)) => real.min(ground.history.outdated_for(run, &report, ask.at)),
        _ => real,
    };
    let (soft, physical, total) = lives(run, &ground.policy);
    let longest = if served.how.detail == Some(Detail::StaleIfError) { total } else { physical };
    // The store may have kept an entry longer, by the time that its clock was set back (F24), and by the time that the
    // commit was on its way (the lease bounds this: later commits are refused). The answer of a shared forward may have
    // been on its way already when this request joined it.
    let on_its_way = if served.is_from_afar { NET_DELAY_MS_MAX + 2 } else { 0 };
    let slack = Millis(ground.set_back_since(run.began).0 + run.late.0 + on_its_way + ROUNDING_MS);
    let over = |most: Millis| age.0 > most.0 + slack.0;
    if served.how.is_proved && !matches!(ask.want, Want::Anew | Want::Bypass) {
        return Ok(());
    }
    if over(longest) {
        return Err(format!("{} ms old when asked for, {} at most: {fact}", age.0, longest.0));
    }
    // The entry node cannot know how long an answer of another node was on its way, because it may have been stopped
    // meanwhile. It refuses an answer that would be too old at the worst, and passes on the owner's age.
    let shown = served.how.age_ms.filter(|_| !served.is_from_afar);
    if shown.is_some_and(|shown| shown.0 + slack.0 < age.0) {
        return Err(format!("says {shown:?}, and was {} ms old when asked for: {fact}", age.0));
    }
    let is_marked = matches!(served.how.detail, Some(Detail::Stale | Detail::StaleIfError))
        || served.how.ttl_ms.is_some_and(|left| left <= 0);
    if over(soft) && served.how.class == Class::Hit && !is_marked && !served.is_from_afar {
        return Err(format!("stale ({} ms, fresh for {}) and not marked: {fact}", age.0, soft.0));
    }
    // A near copy has no grace: it ends with the soft life.
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
        Want::After(version)
            if served.report.is_some_and(|report| report.version < version)
                && !is_untouched(ground, run, served, version) =>
        {
            Err(format!("a bookmark of version {version} was answered with an older one: {fact}"))
        }
        Want::Fresh if over(soft) => Err(format!("max-stale=0 was answered with a stale value: {fact}")),
        _ => Ok(()),
    }
}

/// Soft, physical and total life as stored, or the largest possible ones. A result that was never offered to the store
/// lives briefly after its run, however long the run took, unless there was no room in the store for it.
fn lives(run: &RunView, policy: &Policy) -> (Millis, Millis, Millis) {
    let longest = TTL_MS + TTL_MS / 10;
    let physical = Millis((longest + longest / 2).max(DEGRADED_TTL_MS));
    // For want of a lease a result is never kept beyond grace.
    let beyond_ms = if policy.store_room == Room::UNBOUNDED { 0 } else { policy.stale_if_error_ms.0 };
    run.lives.unwrap_or((Millis(longest), physical, Millis(physical.0 + beyond_ms)))
}
