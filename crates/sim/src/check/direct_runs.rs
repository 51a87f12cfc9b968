//! What I1 allows to reads whose caching does not pay: a run without a lease, if the pattern is cheap and hardly ever hits at this
//! node, and if the node has not run the key so a moment ago. Nothing more: a second run of the key at the node needs a lease.
//!
//! It knows the pattern's reads and runs from the record only, and its bounds are a little wider than the engine's.

use std::collections::{BTreeMap, VecDeque};

use hopcache_core::limits::{WORTH_HOLD_MS, WORTH_READS_MIN, WORTH_RUNS_MIN, WORTH_SEEN_MS};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::Policy;
use hopcache_engine::outcome::Class;

use crate::check::record::{Fact, KeyId, Life, What};
use crate::world::subject::Subject;

/// Runs and answers of a pattern that are remembered.
const REMEMBERED: usize = 256;
/// From this time on a run is costly.
const CHEAP_MS: u64 = 2;
/// Nor may runs take this long in the mean. The engine's mean weighs the last ones more.
const MEAN_MS_MAX: u64 = 20;
/// Where this part of the answers are hits, caching pays however cheap runs are.
const HITS_PERCENT_MAX: usize = 75;

/// A statement in a database.
type Pattern = (usize, usize);

#[derive(Default)]
pub(super) struct DirectRuns {
    /// The node and the pattern of each ask that has no answer.
    asked: BTreeMap<u32, (usize, Pattern)>,
    patterns: BTreeMap<(usize, Pattern), Reads>,
    /// The pattern of each run under way, and since when.
    runs: BTreeMap<u32, (usize, Pattern, MonoTime)>,
    /// When each life last ran a key directly.
    last: BTreeMap<(Life, KeyId), MonoTime>,
}

#[derive(Default)]
struct Reads {
    first: Option<MonoTime>,
    reads: u32,
    hits: VecDeque<bool>,
    run_ms: VecDeque<u64>,
}

impl DirectRuns {
    pub(super) fn learn(&mut self, fact: &Fact) {
        match &fact.what {
            What::Asked { ask, node, subject, .. } => {
                let at = (*node, pattern_of(*subject));
                self.asked.insert(*ask, at);
                let reads = self.patterns.entry(at).or_default();
                reads.first.get_or_insert(fact.at);
                reads.reads += 1;
            }
            What::Left { ask } => {
                self.asked.remove(ask);
            }
            What::Answered { ask, served } => {
                if let Some(at) = self.asked.remove(ask) {
                    let is_hit = served.how.class == Class::Hit;
                    remember(&mut self.patterns.entry(at).or_default().hits, is_hit);
                }
            }
            What::RunBegan { run, by, subject: Some(subject), .. } => {
                self.runs.insert(*run, (by.node, pattern_of(*subject), fact.at));
            }
            What::RunEnded { run, .. } => {
                if let Some((node, pattern, began)) = self.runs.remove(run) {
                    let reads = self.patterns.entry((node, pattern)).or_default();
                    remember(&mut reads.run_ms, fact.at.since(began).0);
                }
            }
            _ => {}
        }
    }

    /// Whether this run needs no lease. Then it is the key's last direct run at this node.
    pub(super) fn permits(
        &mut self,
        policy: &Policy,
        (by, key, subject): (Life, KeyId, usize),
        now: MonoTime,
    ) -> bool {
        let is_on = policy.only_if_it_pays && policy.ttl_ms > Millis::ZERO;
        let was_lately = self.last.get(&(by, key)).is_some_and(|at| now.since(*at).0 < WORTH_SEEN_MS);
        let pays_not = self
            .patterns
            .get(&(by.node, pattern_of(subject)))
            .is_some_and(|reads| reads.are_enough(now) && reads.are_cheap() && !reads.do_hit());
        let is_allowed = is_on && !was_lately && pays_not;
        if is_allowed {
            self.last.insert((by, key), now);
        }
        is_allowed
    }
}

impl Reads {
    fn are_enough(&self, now: MonoTime) -> bool {
        let is_old = self.first.is_some_and(|first| now.since(first).0 >= WORTH_HOLD_MS);
        is_old && f64::from(self.reads) >= WORTH_READS_MIN && self.run_ms.len() >= WORTH_RUNS_MIN as usize
    }

    fn are_cheap(&self) -> bool {
        let cheap = self.run_ms.iter().filter(|ms| **ms < CHEAP_MS).count();
        let sum: u64 = self.run_ms.iter().sum();
        20 * cheap >= self.run_ms.len() && sum < MEAN_MS_MAX * self.run_ms.len() as u64
    }

    fn do_hit(&self) -> bool {
        let hits = self.hits.iter().filter(|is_hit| **is_hit).count();
        100 * hits >= HITS_PERCENT_MAX * self.hits.len()
    }
}

fn pattern_of(subject: usize) -> Pattern {
    let Subject { statement, database, .. } = Subject::at(subject);
    (statement, database)
}

fn remember<T>(all: &mut VecDeque<T>, one: T) {
    if all.len() == REMEMBERED {
        all.pop_front();
    }
    all.push_back(one);
}

#[cfg(test)]
mod tests {
    use hopcache_engine::outcome::{How, Kept, Role};

    use super::*;
    use crate::check::record::{RunEnd, ServedAnswer, Want};
    use crate::world::policy::default_policy;

    const BY: Life = Life { node: 1, life: 0 };

    /// A node that was asked `reads` times, one in ten milliseconds.
    struct Scene {
        direct: DirectRuns,
        now: MonoTime,
    }

    impl Scene {
        fn of(reads: u32, (run_ms, hits_percent): (u64, u32)) -> Self {
            let mut scene = Self { direct: DirectRuns::default(), now: MonoTime(3_600_000_000) };
            for ask in 0..reads {
                let is_hit = ask % 100 < hits_percent;
                let key = KeyId(0);
                scene.note(What::Asked {
                    ask,
                    node: BY.node,
                    subject: 0,
                    key,
                    want: Want::Plain,
                    wait_max: Millis(1),
                });
                if !is_hit {
                    let (subject, asked) = (Some(0), Some(ask));
                    let by = BY;
                    scene.note(What::RunBegan { run: ask, by, subject, ask: asked, is_ahead: false });
                    scene.now = scene.now + Millis(run_ms);
                    scene.note(What::RunEnded { run: ask, end: RunEnd::Whole });
                }
                let mut how = How::miss(Kept::Stored, Role::Led, None);
                if is_hit {
                    how.class = Class::Hit;
                }
                let (report, failure) = (None, None);
                let served =
                    ServedAnswer { report, is_body: true, is_from_afar: false, is_near: false, failure, how };
                scene.note(What::Answered { ask, served });
                scene.now = scene.now + Millis(10);
            }
            scene
        }

        fn note(&mut self, what: What) {
            self.direct.learn(&Fact { at: self.now, what });
        }

        fn permits(&mut self, by: Life, key: u16) -> bool {
            self.direct.permits(&default_policy(), (by, KeyId(key), 0), self.now)
        }
    }

    #[test]
    fn a_cheap_pattern_that_hardly_hits_may_run_each_key_once_at_each_node() {
        let mut scene = Scene::of(600, (0, 5));
        assert!(scene.permits(BY, 1));
        assert!(!scene.permits(BY, 1), "a moment ago");
        assert!(scene.permits(BY, 2), "another key");
        assert!(!scene.permits(Life { node: 0, ..BY }, 1), "nobody has asked that node");
        scene.now = scene.now + Millis(WORTH_SEEN_MS);
        assert!(scene.permits(BY, 1));
    }

    #[test]
    fn nothing_else_runs_without_a_lease() {
        assert!(!Scene::of(600, (2, 0)).permits(BY, 1), "costly");
        assert!(!Scene::of(600, (0, 90)).permits(BY, 1), "it hits");
        assert!(!Scene::of(60, (0, 0)).permits(BY, 1), "few reads");
        assert!(!Scene::of(400, (0, 0)).permits(BY, 1), "for four seconds only");
        let mut scene = Scene::of(600, (0, 0));
        for (only_if_it_pays, ttl_ms) in [(false, 60_000), (true, 0)] {
            let policy = Policy { only_if_it_pays, ttl_ms: Millis(ttl_ms), ..default_policy() };
            assert!(!scene.direct.permits(&policy, (BY, KeyId(1), 0), scene.now), "it is off");
        }
    }
}
