//! Random schedules on a simulated cluster, and the checks that hold in all of them.
//!
//! A seed decides everything: how many nodes, who asks what when, what breaks and heals. The same seed
//! gives the same trace. What is checked of every answer is computed from what the origin saw and when,
//! not from what the engine says of itself.

use std::sync::Arc;

use hopcache_core::key::PrincipalScope;
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::Policy;
use hopcache_engine::ask::Ask;
use hopcache_engine::outcome::{Answer, Outcome};
use hopcache_engine::ports::{OriginFault, Scope};
use parking_lot::Mutex;

use crate::origin::Mood;
use crate::switch::Power;
use crate::world::{World, default_policy, sim_now};

/// What a run of one seed came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What happened, in order.
    pub trace: Vec<String>,
    /// Answers that were checked.
    pub answers: usize,
    /// Runs at the origin.
    pub runs: usize,
    /// What broke.
    pub faults: usize,
}

/// A promise that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which, and how.
    pub what: String,
    /// What had happened.
    pub trace: Vec<String>,
}

const TTL_MS: u64 = 2_000;
const GRACE: f64 = 0.5;
const JITTER: f64 = 0.1;
const STEPS: usize = 150;
const STATEMENTS: [&str; 3] = ["MATCH (a) RETURN a", "MATCH (b) RETURN b", "MATCH (c) RETURN c"];
const USERS: [&str; 2] = ["alice", "bob"];

struct Explorer {
    world: World,
    dice: u64,
    faulty: bool,
    trace: Vec<String>,
    /// When each version began to hold, oldest first.
    versions: Vec<MonoTime>,
    answers: Arc<Mutex<Vec<Answered>>>,
    purges: Vec<(MonoTime, MonoTime)>,
    faults: Vec<MonoTime>,
}

struct Answered {
    statement: &'static str,
    scope: PrincipalScope,
    asked: MonoTime,
    outcome: Outcome,
}

/// Runs one seed on the calling thread.
///
/// # Errors
/// The first promise that did not hold, with the trace up to the end.
pub fn explore(seed: u64) -> Result<Report, Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let Ok(runtime) = runtime else {
        return Err(Violation { what: "no runtime".to_owned(), trace: Vec::new() });
    };
    runtime.block_on(async {
        let mut explorer = Explorer::new(seed);
        explorer.run().await;
        explorer.check()
    })
}

fn policy() -> Policy {
    Policy { ttl_ms: Millis(TTL_MS), grace: GRACE, ttl_jitter: JITTER, ..default_policy() }
}

impl Explorer {
    fn new(seed: u64) -> Self {
        let nodes = 2 + usize::from(seed % 3 == 1) + usize::from(seed % 5 == 2);
        let world = World::with_policy(nodes, seed, &policy());
        for node in &world.nodes {
            let engine = Arc::clone(&node.engine);
            tokio::spawn(async move { engine.follow_invalidations().await });
        }
        Self {
            versions: vec![MonoTime(0), sim_now()],
            world,
            dice: seed,
            faulty: !seed.is_multiple_of(4),
            trace: Vec::new(),
            answers: Arc::default(),
            purges: Vec::new(),
            faults: Vec::new(),
        }
    }

    async fn run(&mut self) {
        for _ in 0..STEPS {
            self.step().await;
            let pause_ms = 1 + self.roll(120);
            self.world.pass(pause_ms).await;
        }
        self.heal();
        // Longer than any deadline, lease or stopped process's wait.
        self.world.pass(70_000).await;
        for node in 0..self.world.nodes.len() {
            self.ask(node);
        }
        self.world.pass(1_000).await;
    }

    async fn step(&mut self) {
        let node = self.index(self.world.nodes.len());
        match self.roll(if self.faulty { 100 } else { 80 }) {
            0..=69 => self.ask(node),
            70..=75 => self.write(),
            76..=79 => self.set_delay(),
            80..=83 => self.power(node, Power::Paused),
            84..=88 => self.resume(),
            89 => self.power(node, Power::Off),
            90..=91 => self.store(true),
            92..=94 => self.store(false),
            95 => self.lose_store(),
            96 => self.mood(),
            97 => self.cut(node),
            _ => self.purge(node).await,
        }
    }

    fn ask(&mut self, node: usize) {
        let statement = STATEMENTS[self.index(STATEMENTS.len())];
        let user = USERS[self.index(USERS.len())];
        let ask: Ask = self.world.ask_as(statement, user);
        let (engine, answers) = (Arc::clone(&self.world.nodes[node].engine), Arc::clone(&self.answers));
        let scope = ask.query.identity.scope;
        self.note(&format!("node {node} is asked {statement} by {user}"));
        tokio::spawn(async move {
            let asked = sim_now();
            let outcome = engine.answer(&ask).await;
            answers.lock().push(Answered { statement, scope, asked, outcome });
        });
    }

    fn write(&mut self) {
        let version = i64::try_from(self.versions.len()).unwrap_or(i64::MAX);
        self.versions.push(sim_now());
        self.world.origin.set_version(version);
        self.note(&format!("the data is now version {version}"));
    }

    fn set_delay(&mut self) {
        let delay_ms = 1 + self.roll(400);
        self.world.origin.set_delay_ms(delay_ms);
        self.note(&format!("runs take {delay_ms} ms"));
    }

    fn power(&mut self, node: usize, power: Power) {
        let running = self.world.nodes.iter().filter(|node| node.switch.power() == Power::On).count();
        if running > 1 && self.world.nodes[node].switch.power() == Power::On {
            self.world.nodes[node].switch.set(power);
            self.fault(&format!("node {node} is {power:?}"));
        }
    }

    /// Stopped nodes go on, and everybody sees everybody that runs again, as probes would bring about.
    fn resume(&mut self) {
        self.fault("stopped nodes go on; views are whole");
        for node in &self.world.nodes {
            if node.switch.power() == Power::Paused {
                node.switch.set(Power::On);
            }
        }
        self.whole_views();
    }

    fn whole_views(&self) {
        let alive: Vec<NodeName> = self
            .world
            .nodes
            .iter()
            .filter(|node| node.switch.power() != Power::Off)
            .map(|node| node.engine.me().node.clone())
            .collect();
        for node in &self.world.nodes {
            self.world.net.set_cut(&node.engine.me().node, false);
            node.routing.set(&alive);
            node.engine.forget_foreign();
        }
    }

    fn store(&mut self, is_down: bool) {
        self.world.store.set_down(is_down);
        self.fault(if is_down { "the store is down" } else { "the store is up" });
    }

    fn lose_store(&mut self) {
        self.world.store.lose_everything();
        self.fault("the store has lost everything");
    }

    fn mood(&mut self) {
        let moods = [
            Mood::Well,
            Mood::Fault(OriginFault::Unreachable("seeded".to_owned())),
            Mood::Fault(OriginFault::TimedOut),
            Mood::Well,
        ];
        let mood = moods[self.index(moods.len())].clone();
        self.fault(&format!("runs end {mood:?}"));
        self.world.origin.set_mood(mood);
    }

    fn cut(&mut self, node: usize) {
        let name = self.world.nodes[node].engine.me().node.clone();
        self.world.net.set_cut(&name, true);
        for other in self.world.nodes.iter().filter(|other| other.engine.me().node != name) {
            let left: Vec<_> =
                other.engine.view().members().iter().filter(|each| **each != name).cloned().collect();
            other.routing.set(&left);
        }
        self.fault(&format!("node {node} is cut off from its peers"));
    }

    async fn purge(&mut self, node: usize) {
        if self.world.nodes[node].switch.power() != Power::On {
            return;
        }
        let began = sim_now();
        let purged = self.world.nodes[node].engine.purge(&Scope::All).await;
        self.note(&format!("node {node} purged: {purged:?}"));
        if purged.store.is_ok() && purged.unreached == 0 {
            self.purges.push((began, sim_now()));
        }
    }

    fn heal(&mut self) {
        self.world.origin.set_mood(Mood::Well);
        self.world.origin.set_delay_ms(20);
        self.store(false);
        self.resume();
    }

    fn fault(&mut self, what: &str) {
        self.faults.push(sim_now());
        self.note(what);
    }

    fn note(&mut self, what: &str) {
        self.trace.push(format!("{:>9} µs  {what}", sim_now().0 - 3_600_000_000));
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.roll(len as u64)).unwrap_or(0)
    }

    /// SplitMix64, as the nodes' dice.
    fn roll(&mut self, below: u64) -> u64 {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % below.max(1)
    }

    fn check(self) -> Result<Report, Violation> {
        let answers = std::mem::take(&mut *self.answers.lock());
        let found =
            answers.iter().find_map(|answered| self.check_answer(answered)).or_else(|| self.check_runs());
        let mut trace = self.trace;
        trace.extend(
            answers.iter().map(|answered| format!("{:?} {:?}", answered.asked, answered.outcome.how)),
        );
        match found {
            Some(what) => Err(Violation { what, trace }),
            None => Ok(Report {
                trace,
                answers: answers.len(),
                runs: self.world.origin.runs(),
                faults: self.faults.len(),
            }),
        }
    }

    /// I4, I5 and the purge's promise, of one answer.
    fn check_answer(&self, answered: &Answered) -> Option<String> {
        let Answer::Body(body) = &answered.outcome.answer else { return None };
        let text = String::from_utf8_lossy(body);
        let expected = format!(",{},\"{}\"]]", answered.scope.0[0], answered.statement);
        if !text.contains(&expected) {
            return Some(format!("I5: asked {expected}, got {text}"));
        }
        let version = text.split("[[").nth(1)?.split(',').next()?.parse::<usize>().ok()?;
        let superseded = self.versions.get(version + 1)?;
        let late_ms = answered.asked.since(*superseded).0;
        if late_ms > oldest_ms() {
            return Some(format!(
                "I4: version {version} was served {late_ms} ms after it was superseded: {text}"
            ));
        }
        let purge = self.purges.iter().find(|(began, ended)| {
            let heard = *ended + Millis(700);
            let quiet = !self
                .faults
                .iter()
                .any(|fault| *fault >= *began - Millis(30_000) && *fault <= answered.asked);
            superseded <= began && answered.asked > heard && quiet
        });
        purge.map(|purge| format!("purge: version {version} was served after the purge at {purge:?}: {text}"))
    }

    /// I1: without faults, runs for one key are a freshness window apart.
    fn check_runs(&self) -> Option<String> {
        if self.faulty {
            return None;
        }
        let runs = self.world.origin.runs_seen();
        for (place, run) in runs.iter().enumerate() {
            let same = |other: &&crate::origin::RunSeen| {
                other.statement == run.statement && other.scope == run.scope
            };
            if let Some(next) = runs[place + 1..].iter().find(same) {
                let apart_ms = next.began.since(run.began).0;
                if apart_ms < shortest_window_ms() {
                    return Some(format!("I1: two runs {apart_ms} ms apart: {run:?} {next:?}"));
                }
            }
        }
        None
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "seconds"
)]
fn oldest_ms() -> u64 {
    (TTL_MS as f64 * (1.0 + JITTER) * (1.0 + GRACE)) as u64 + 1
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "seconds"
)]
fn shortest_window_ms() -> u64 {
    (TTL_MS as f64 * (1.0 - JITTER)) as u64 - 1
}
