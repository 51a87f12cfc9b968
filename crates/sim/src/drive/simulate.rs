//! One seed: its world, its schedule, the checkers after every step; first safety, then liveness.
//!
//! The schedule has a number of steps; each is an act (ask, write, break, mend) and a pause. Then in some worlds a
//! majority heals, and then everything heals. Now rings have to agree, and nodes have to answer every request. Then the
//! clients stop, and nothing may be left. Worlds with joins and leaves get even requests before the faults and after
//! them, to compare hit ratios (I12). The seed decides all of this; `cluster.rs` carries out the acts.

use std::collections::BTreeSet;

use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};

use crate::check::coverage::Coverage;
use crate::check::record::What;
use crate::check::seed_counters::SeedCounters;
use crate::check::{Checks, Ground, History, NodeView, StepView, Violation};
use crate::drive::cluster::Cluster;
use crate::drive::profile::{TTL_MS, WAIT_MS_MAX};
use crate::world::clock::sim_now;
use crate::world::process::Power;
use crate::world::subject::DATABASES;

/// The result of one seed's run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Which.
    pub seed: u64,
    /// Hash over everything that happened.
    pub hash: u64,
    /// Steps after which the checkers looked.
    pub steps: u64,
    /// Asks that were answered, with a body or a failure.
    pub answers: u64,
    /// Those of them that were near copies.
    pub near: u64,
    /// Runs at the origin.
    pub runs: u64,
    /// Whether nodes came and went.
    pub is_living: bool,
    /// Faults that occurred, by kind.
    pub faults: Vec<(&'static str, u64)>,
    /// Every word of faults and outcomes that occurred.
    pub coverage: Coverage,
    /// Where everything is kept that is learned: how long after everything had healed, and the last lesson, nodes last
    /// knew different things.
    pub alike_after: Option<Millis>,
    /// Acts that the schedule has; a plan may leave some out.
    pub acts: usize,
    /// The promise that did not hold, if one did not.
    pub violation: Option<Violation>,
    /// The facts, kept for a seed with a violation or on request.
    pub trace: Vec<String>,
}

/// Whether the trace is kept of a seed without a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Always.
    Trace,
    /// Only of a violation.
    Failures,
}

/// The parts of a seed's schedule that a plan leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Without {
    /// Acts, by their place.
    pub acts: BTreeSet<usize>,
    /// The weather of network, store, origin and gossip.
    pub weather: bool,
}

/// Longest pause of the liveness phase between two looks of the checkers.
const LOOK_MS: u64 = 250;

/// Nodes that start together know each other by then.
const SETTLE_MS: u64 = 4_000;

/// Time from a heal until rings agree and every request is answered: the longest lease (10 s), a run, and the time that
/// gossip needs to find and confirm members that were dead.
const CONVERGE_MS: u64 = 18_000;

/// Between two of those that ask evenly.
const EVEN_MS: u64 = 25;

/// Runs one seed on the calling thread.
#[must_use]
pub fn simulate(seed: u64, keep: Keep) -> Report {
    simulate_without(seed, keep, &Without::default())
}

/// Runs one seed without a part of its schedule.
#[must_use]
pub fn simulate_without(seed: u64, keep: Keep, without: &Without) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else {
        let violation = Some(Violation { check: "simulator", what: "no runtime".to_owned() });
        return Report { seed, violation, ..Report::default() };
    };
    runtime.block_on(async {
        let mut simulation = Simulation::new(seed);
        let violation = simulation.run(without).await.err();
        simulation.report(seed, violation, keep)
    })
}

struct Simulation {
    cluster: Cluster,
    checks: Checks,
    ground: Ground,
    looked_at: usize,
    steps: u64,
    counters: SeedCounters,
    /// When nodes last knew different things.
    differed_at: MonoTime,
    alike_after: Option<Millis>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let cluster = Cluster::new(seed);
        let ground = Ground {
            policy: cluster.profile.policy.clone(),
            is_faultless: cluster.profile.is_quiet(),
            is_store_well: cluster.profile.is_store_well(),
            asks: Default::default(),
            runs: Default::default(),
            subjects: Default::default(),
            databases: DATABASES.iter().map(|name| cluster.database(name)).collect(),
            jumps: Vec::new(),
            jumps_ahead: Vec::new(),
            history: History::default(),
            away: Vec::new(),
        };
        Self {
            cluster,
            checks: Checks::default(),
            ground,
            looked_at: 0,
            steps: 0,
            counters: SeedCounters::default(),
            differed_at: MonoTime::default(),
            alike_after: None,
        }
    }

    async fn run(&mut self, without: &Without) -> Result<(), Violation> {
        let is_living = self.cluster.profile.is_living;
        if is_living {
            self.begin(without).await?;
        } else if without.weather {
            self.cluster.heal_services();
        }
        for step in 0..self.cluster.profile.steps {
            self.cluster.begin_step(step, 0);
            if !without.acts.contains(&step) {
                self.act();
            }
            self.cluster.begin_step(step, 1);
            let pause_ms = self.cluster.pause_ms();
            self.pass(pause_ms).await?;
        }
        self.cluster.begin_step(self.cluster.profile.steps, 0);
        if is_living && self.cluster.dice.chance(400) {
            self.majority().await?;
        }
        self.cluster.heal();
        let healed = sim_now();
        // Where nearly all are hits, the few that wait with a forward count: its answer was lost just before the heal (seed 3939).
        let still_waiting = if self.cluster.profile.proves() { WAIT_MS_MAX + 1_000 - CONVERGE_MS } else { 0 };
        self.pass_looking(CONVERGE_MS + still_waiting).await?;
        let keeps_all = self.cluster.profile.learns() && self.cluster.profile.keeps_all();
        self.alike_after = keeps_all.then(|| self.differed_at.since(self.taught_at().max(healed)));
        let all = self.cluster.staying();
        if is_living {
            self.agree(&all)?;
            self.evenly(true, &all).await?;
        }
        for _ in 0..2 {
            self.cluster.ask_everything(&all);
            self.pass_looking(1_500).await?;
        }
        self.cluster.end_asking();
        // Longer than any wait, lease and back-off.
        self.pass_looking(32_000).await?;
        self.cluster.world.record.note(What::Quiet);
        self.look(true, Some(Cluster::names(&all)))
    }

    /// When a node last learned something.
    fn taught_at(&self) -> MonoTime {
        let nodes = self.cluster.world.nodes.iter();
        nodes.map(|node| node.events.noted().taught_at).max().unwrap_or_default()
    }

    /// The nodes find each other, and it is asked evenly, before anything breaks.
    async fn begin(&mut self, without: &Without) -> Result<(), Violation> {
        self.cluster.world.origin.set_delay_ms(20);
        self.pass_looking(SETTLE_MS).await?;
        let all = self.cluster.staying();
        self.agree(&all)?;
        self.evenly(false, &all).await?;
        self.cluster.begin_step(self.cluster.profile.steps, 1);
        if !without.weather {
            self.cluster.begin_faults();
        }
        Ok(())
    }

    /// A majority that is whole converges without the others.
    async fn majority(&mut self) -> Result<(), Violation> {
        let Some(majority) = self.cluster.heal_majority() else { return Ok(()) };
        self.pass_looking(CONVERGE_MS).await?;
        self.agree(&majority)?;
        self.cluster.ask_everything(&majority);
        self.pass_looking(1_500).await
    }

    /// Two TTL of asking, as evenly as can be.
    async fn evenly(&mut self, is_after: bool, nodes: &[usize]) -> Result<(), Violation> {
        let note = |cluster: &Cluster, is_on| cluster.world.record.note(What::Even { is_after, is_on });
        note(&self.cluster, true);
        for turn in 0..usize::try_from(2 * TTL_MS / EVEN_MS).unwrap_or(0) {
            if !self.cluster.ask_evenly(turn, nodes) {
                break;
            }
            self.pass(EVEN_MS).await?;
        }
        // The last requests are answered.
        self.pass_looking(LOOK_MS).await?;
        note(&self.cluster, false);
        Ok(())
    }

    fn act(&mut self) {
        let cluster = &mut self.cluster;
        if cluster.dice.chance(650) {
            return cluster.ask_some();
        }
        let acts = cluster.profile.acts();
        let act = acts[cluster.dice.index(acts.len())];
        cluster.act(act);
    }

    async fn pass(&mut self, span_ms: u64) -> Result<(), Violation> {
        tokio::time::sleep(Millis(span_ms).duration()).await;
        self.cluster.see_off();
        if self.cluster.profile.is_living {
            self.cluster.name_seeds();
        }
        self.look(false, None)
    }

    async fn pass_looking(&mut self, span_ms: u64) -> Result<(), Violation> {
        for _ in 0..span_ms / LOOK_MS {
            self.pass(LOOK_MS).await?;
        }
        Ok(())
    }

    /// I12: these nodes have had enough time, so they route exactly to each other.
    fn agree(&mut self, nodes: &[usize]) -> Result<(), Violation> {
        self.look(false, Some(Cluster::names(nodes)))
    }

    fn look(&mut self, is_quiet: bool, members: Option<Vec<NodeName>>) -> Result<(), Violation> {
        let record = &self.cluster.world.record;
        let facts = record.since(self.looked_at);
        self.looked_at += facts.len();
        self.steps += 1;
        self.ground.learn(&facts);
        self.counters.count(&facts, record, &self.ground);
        let keys: Vec<_> = self.ground.subjects.keys().copied().collect();
        let nodes: Vec<NodeView> = self
            .cluster
            .world
            .nodes
            .iter()
            .map(|node| NodeView {
                life: node.life,
                power: node.process.power(),
                sizes: node.engine.path().sizes(),
                ring: node.routing.names(),
                members: node.routing.members(),
                refreshes: node.refreshes(),
                noted: node.events.noted(),
                pending: node.engine.prefetch().pending() as u64,
                learned: node.engine.prefetch().learned(),
                line: node.line.as_ref().map(|line| line.running_and_waiting()).unwrap_or_default(),
                flights: keys
                    .iter()
                    .copied()
                    .filter(|key| record.key_of(*key).is_some_and(|key| node.engine.path().has_flight(&key)))
                    .collect(),
            })
            .collect();
        let differ = |one: &NodeView| one.power != Power::Off && one.ring != nodes[0].ring;
        if nodes.first().is_some_and(|first| first.power != Power::Off) && nodes.iter().any(differ) {
            record.cover("rings disagreed");
        }
        let mut learned = nodes.iter().filter(|node| node.power == Power::On).map(|node| node.learned.print);
        if learned.next().is_some_and(|first| learned.any(|other| other != first)) {
            self.differed_at = sim_now();
        }
        let seen = StepView {
            facts: &facts,
            nodes: &nodes,
            now: sim_now(),
            ground: &self.ground,
            is_quiet,
            members,
        };
        self.checks.look(&seen)
    }

    fn report(self, seed: u64, violation: Option<Violation>, keep: Keep) -> Report {
        let record = &self.cluster.world.record;
        let trace = if violation.is_some() || keep == Keep::Trace { record.lines() } else { Vec::new() };
        Report {
            seed,
            hash: record.hash(),
            steps: self.steps,
            answers: self.counters.answers,
            near: self.counters.near,
            runs: self.counters.runs,
            is_living: self.cluster.profile.is_living,
            faults: self.counters.faults.into_iter().collect(),
            coverage: record.coverage(),
            alike_after: self.alike_after,
            acts: self.cluster.profile.steps,
            violation,
            trace,
        }
    }
}
