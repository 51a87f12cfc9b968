//! One seed: its world, its schedule, the checkers after every step; first safety, then liveness.
//!
//! The schedule goes on for a number of steps, each an act (ask, write, break, mend) and some time. Then everything
//! heals, and what is asked must be answered; then nothing is asked, and nothing may be left. The seed decides all of
//! it. The acts themselves are `cluster.rs`'.

use hopcache_core::time::Millis;
use hopcache_engine::outcome::Detail;
use parking_lot::Mutex;

use crate::check::{Checks, Ground, NodeSeen, Seen, Violation};
use crate::cluster::Cluster;
use crate::profile::{Kind, Profile};
use crate::record::{Fact, What};
use crate::subject::DATABASES;
use crate::world::sim_now;

/// What a run of one seed came to.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Faults that occurred, by kind.
    pub faults: Vec<(&'static str, u64)>,
    /// The promise that did not hold, if one did not.
    pub violation: Option<Violation>,
    /// What happened; kept for a seed with a violation, or when asked for.
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

/// Longest pause of the liveness phase between two looks of the checkers.
const LOOK_MS: u64 = 250;

/// Runs one seed on the calling thread.
#[must_use]
pub fn simulate(seed: u64, keep: Keep) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else {
        let what = "no runtime".to_owned();
        let violation = Some(Violation { check: "simulator", what });
        return Report {
            seed,
            hash: 0,
            steps: 0,
            answers: 0,
            near: 0,
            runs: 0,
            faults: Vec::new(),
            violation,
            trace: Vec::new(),
        };
    };
    runtime.block_on(async {
        let mut simulation = Simulation::new(seed);
        let violation = simulation.run().await.err();
        simulation.report(seed, violation, keep)
    })
}

struct Simulation {
    cluster: Cluster,
    checks: Checks,
    ground: Ground,
    looked_at: usize,
    steps: u64,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    answers: u64,
    near: u64,
    runs: u64,
    faults: std::collections::BTreeMap<&'static str, u64>,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let cluster = Cluster::new(seed);
        let ground = Ground {
            policy: cluster.profile.policy.clone(),
            is_faultless: cluster.profile.is_quiet(),
            asks: Default::default(),
            runs: Default::default(),
            subjects: Default::default(),
            databases: DATABASES.iter().map(|name| cluster.database(name)).collect(),
            jumps: Vec::new(),
            jumps_ahead: Vec::new(),
        };
        Self { cluster, checks: Checks::default(), ground, looked_at: 0, steps: 0, tally: Mutex::default() }
    }

    async fn run(&mut self) -> Result<(), Violation> {
        for _ in 0..self.cluster.profile.steps {
            self.act().await;
            let pause_ms = self.cluster.pause_ms();
            self.pass(pause_ms).await?;
        }
        self.cluster.heal();
        self.pass_looking(18_000).await?;
        for _ in 0..2 {
            self.cluster.ask_everything();
            self.pass_looking(1_500).await?;
        }
        self.cluster.end_asking();
        // Longer than any patience, lease and back-off.
        self.pass_looking(32_000).await?;
        self.cluster.world.record.note(What::Quiet);
        self.look(true)
    }

    async fn act(&mut self) {
        let cluster = &mut self.cluster;
        if cluster.dice.chance(650) {
            return cluster.ask_some();
        }
        let acts = Profile::acts(&cluster.profile);
        let act = acts[cluster.dice.index(acts.len())];
        cluster.act(act);
    }

    async fn pass(&mut self, span_ms: u64) -> Result<(), Violation> {
        tokio::time::sleep(Millis(span_ms).duration()).await;
        self.look(false)
    }

    async fn pass_looking(&mut self, span_ms: u64) -> Result<(), Violation> {
        for _ in 0..span_ms / LOOK_MS {
            self.pass(LOOK_MS).await?;
        }
        Ok(())
    }

    fn look(&mut self, is_quiet: bool) -> Result<(), Violation> {
        let record = &self.cluster.world.record;
        let facts = record.since(self.looked_at);
        self.looked_at += facts.len();
        self.steps += 1;
        self.ground.learn(&facts);
        self.tally.lock().count(&facts);
        let keys: Vec<_> = self.ground.subjects.keys().copied().collect();
        let nodes: Vec<NodeSeen> = self
            .cluster
            .world
            .nodes
            .iter()
            .map(|node| NodeSeen {
                life: node.life,
                power: node.switch.power(),
                sizes: node.engine.sizes(),
                ring: node.routing.names(),
                flights: keys
                    .iter()
                    .copied()
                    .filter(|key| record.key_of(*key).is_some_and(|key| node.engine.has_flight(&key)))
                    .collect(),
            })
            .collect();
        let seen = Seen { facts: &facts, nodes: &nodes, now: sim_now(), ground: &self.ground, is_quiet };
        self.checks.look(&seen)
    }

    fn report(self, seed: u64, violation: Option<Violation>, keep: Keep) -> Report {
        let record = &self.cluster.world.record;
        let tally = self.tally.into_inner();
        let trace = if violation.is_some() || keep == Keep::Trace { record.lines() } else { Vec::new() };
        Report {
            seed,
            hash: record.hash(),
            steps: self.steps,
            answers: tally.answers,
            near: tally.near,
            runs: tally.runs,
            faults: tally.faults.into_iter().collect(),
            violation,
            trace,
        }
    }
}

impl Profile {
    /// Acts that a world of these kinds has beside asking; each as likely as it is often in the list.
    fn acts(&self) -> Vec<Act> {
        let mut acts = vec![Act::Write, Act::Write, Act::Delay];
        for kind in &self.kinds {
            acts.extend_from_slice(match kind {
                Kind::Purges => &[Act::Purge, Act::Purge],
                Kind::Clients => &[Act::Leave, Act::Leave, Act::Leave],
                Kind::NetWeather => &[Act::NetWeather],
                Kind::NetCuts => &[Act::CutWay, Act::CutNode, Act::HealWays, Act::HealWays],
                Kind::StoreWeather => &[Act::StoreWeather],
                Kind::StoreOut => &[Act::StoreMode, Act::StoreLink],
                Kind::StoreLosses => &[Act::StoreLost, Act::StoreFallBack],
                Kind::StoreJumps => &[Act::StoreJump],
                Kind::Origin => &[Act::Origin],
                Kind::Processes => &[Act::Pause, Act::Resume, Act::Kill, Act::Restart, Act::Restart],
                Kind::Memories => &[Act::ForgetMemory],
            });
        }
        acts
    }
}

/// What a step may do beside asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Write,
    Delay,
    Purge,
    Leave,
    NetWeather,
    CutWay,
    CutNode,
    HealWays,
    StoreWeather,
    StoreMode,
    StoreLink,
    StoreLost,
    StoreFallBack,
    StoreJump,
    Origin,
    Pause,
    Resume,
    Kill,
    Restart,
    ForgetMemory,
}

impl Tally {
    fn count(&mut self, facts: &[Fact]) {
        for fact in facts {
            let word = match &fact.what {
                What::Answered { served, .. } => {
                    self.answers += 1;
                    self.near += u64::from(served.is_near);
                    if served.how.detail != Some(Detail::StaleIfError) {
                        continue;
                    }
                    "stale-if-error served"
                }
                What::RunBegan { .. } => {
                    self.runs += 1;
                    continue;
                }
                What::Left { .. } => "client left",
                What::StoreSaid { silent: true, .. } => "store command unanswered",
                What::StoreSaid { .. } => "store command refused",
                What::StoreLost { .. } => "store lost everything",
                What::StoreFellBack { .. } => "store fell back",
                What::StoreJumped { .. } => "store clock jumped",
                What::StoreIs { mode: "up" } | What::StoreLink { is_cut: false, .. } => continue,
                What::StoreIs { .. } => "store out",
                What::StoreLink { .. } => "node cut from store",
                What::RunEnded { end, .. } if *end != crate::record::RunEnd::Whole => "run failed",
                What::Power { power: "paused", .. } => "node paused",
                What::Power { power: "killed", .. } => "node killed",
                What::Power { power: "restarted", .. } => "node restarted",
                What::Link { is_cut: true, .. } => "way cut",
                What::PurgeBegan { .. } => "purge",
                What::MemoryForgotten { .. } => "memory forgotten",
                _ => continue,
            };
            *self.faults.entry(word).or_default() += 1;
        }
    }
}
