//! Prefetches at the owner of their key, on a simulated cluster (DESIGN "Prefetch"; F40; I1, I3, I5, I6, I9): why an
//! order is skipped, and how a launch ends. Each race of `prefetch/tickets.rs` and `prefetch/launch.rs` has a schedule;
//! seeds check the identity of launches (`check/prefetch.rs`). Time is virtual, so moments are exact.

mod races;
mod resolutions;
mod skips;

use hopcache_engine::event::{Cause, PrefetchWord};
use hopcache_engine::policy::PrefetchPolicy;
use hopcache_engine::prefetch::{
    CandidateKind, FormId, Launch, Learner, Order, PatternTag, QueryTag, Resolution, ResolvedLaunch, Skip,
    SourceId,
};
use hopcache_packstream::Value;

use crate::prelude::*;
use parking_lot::Mutex;

/// The time of a run in a world without changes.
const RUN_MS: u64 = 100;
const TTL_MS: u64 = 60_000;
/// The mark of the tests' successors.
const SOURCE: SourceId = SourceId::Pattern(PatternTag(0xabc));
const FORM: FormId = FormId(7);

fn policy() -> Policy {
    Policy { prefetch: PrefetchPolicy::DEFAULT, ..default_policy() }
}

/// The events that a learner gets.
#[derive(Default)]
struct Notes {
    launched: Mutex<Vec<(SourceId, FormId)>>,
    resolved: Mutex<Vec<ResolvedLaunch>>,
    refused: Mutex<Vec<(SourceId, FormId)>>,
}

impl Learner for Notes {
    fn launched(&self, source: SourceId, form: FormId) {
        self.launched.lock().push((source, form));
    }

    fn resolved(&self, resolved: &ResolvedLaunch) {
        self.resolved.lock().push(*resolved);
    }

    fn refused(&self, source: SourceId, form: FormId) {
        self.refused.lock().push((source, form));
    }

    fn text_of(&self, source: SourceId) -> Option<String> {
        (source == SOURCE).then(|| "MATCH (p:Person {id: $id}) RETURN p".to_owned())
    }
}

/// A cluster whose nodes may launch.
struct Scene {
    world: World,
    notes: Vec<Arc<Notes>>,
}

impl Scene {
    fn new(nodes: usize, seed: u64) -> Self {
        Self::with(nodes, seed, &policy())
    }

    fn with(nodes: usize, seed: u64, policy: &Policy) -> Self {
        let world = World::with_policy(nodes, seed, policy);
        let notes: Vec<Arc<Notes>> = (0..nodes).map(|_| Arc::default()).collect();
        for (node, notes) in world.nodes.iter().zip(&notes) {
            assert!(node.engine.prefetch().teach_by(Arc::clone(notes) as Arc<dyn Learner>));
        }
        Self { world, notes }
    }

    /// One node that has earned this many launches.
    async fn alone(seed: u64, tokens: u64) -> Self {
        let scene = Self::new(1, seed);
        scene.earn(0, tokens).await;
        scene
    }

    /// Demand misses of keys of a node, four for each launch.
    async fn earn(&self, node: usize, tokens: u64) {
        let mut sent = Vec::new();
        for number in 1_000_000.. {
            let ask = self.read(number);
            if sent.len() as u64 == 4 * tokens {
                break;
            }
            if self.world.owner_of(&ask) == node {
                sent.push(self.world.send(node, &ask));
            }
        }
        for sent in sent {
            assert!(matches!(sent.await.unwrap().how.class, Class::Miss { .. }));
        }
    }

    /// One of many reads of the usual user.
    fn read(&self, number: i64) -> Ask {
        self.read_as(number, "alice")
    }

    fn read_as(&self, number: i64, user: &str) -> Ask {
        let params = Value::Map(vec![("id".to_owned(), Value::Int(number))]);
        self.world.ask_with(params, ("neo4j", READ, user))
    }

    /// A read of a key of this node.
    fn read_of(&self, node: usize) -> Ask {
        (1..).map(|number| self.read(number)).find(|ask| self.world.owner_of(ask) == node).unwrap()
    }

    fn node(&self, node: usize) -> &NodeHandle {
        &self.world.nodes[node]
    }

    fn launch(&self, node: usize, order: Order) -> Launch {
        self.node(node).engine.prefetch().launch(order)
    }

    /// Launches at this node and waits until it has ended; its copy is in memory then.
    async fn prefetched(&self, node: usize, ask: &Ask) {
        assert_eq!(self.launch(node, order(ask)), Launch::Launched);
        self.world.pass(2 * RUN_MS).await;
        assert_eq!(self.node(node).engine.prefetch().under_way(), 0);
        assert!(self.has_copy(node, ask));
    }

    fn has_copy(&self, node: usize, ask: &Ask) -> bool {
        use hopcache_engine::memory::Memory as _;
        self.node(node).memory.get(&ask.query.key).is_some()
    }

    /// As the node's front does: memory first, then the whole path.
    async fn ask(&self, node: usize, ask: &Ask) -> Outcome {
        let ask = &Ask { deadline: sim_now() + Millis(60_000), ..ask.clone() };
        let engine = &self.node(node).engine;
        front(engine, ask).await
    }

    /// Launched, used, late, wasted.
    fn words(&self, node: usize) -> [usize; 4] {
        use PrefetchWord::{Late, Launched, Used, Wasted};
        let place = |event: &Event| match event {
            Event::Prefetch(Launched(_)) => Some(0),
            Event::Prefetch(Used(_)) => Some(1),
            Event::Prefetch(Late(_)) => Some(2),
            Event::Prefetch(Wasted(_)) => Some(3),
            _ => None,
        };
        std::array::from_fn(|word| self.node(node).events.count(|event| place(event) == Some(word)))
    }

    fn skips(&self, node: usize, skip: Skip) -> usize {
        let event = Event::Prefetch(PrefetchWord::Skipped(skip));
        self.node(node).events.count(|each| *each == event)
    }

    fn runs_for(&self, node: usize, cause: Cause) -> usize {
        let is_one = |event: &Event| matches!(event, Event::OriginRun { cause: of, .. } if *of == cause);
        self.node(node).events.count(is_one)
    }

    /// launched = used + late + wasted + pending, and the learner got the same events.
    fn balance(&self, node: usize) {
        let [launched, used, late, wasted] = self.words(node);
        let pending = self.node(node).engine.prefetch().pending();
        assert_eq!(launched, used + late + wasted + pending, "{:?}, {pending} pending", self.words(node));
        let notes = &self.notes[node];
        assert_eq!(notes.launched.lock().len(), launched);
        let count =
            |resolution| notes.resolved.lock().iter().filter(|each| each.resolution == resolution).count();
        let resolved = [Resolution::Used, Resolution::Late, Resolution::Wasted].map(count);
        assert_eq!(resolved, [used, late, wasted]);
    }

    /// The words, after a look at the identity.
    fn balanced(&self, node: usize) -> [usize; 4] {
        self.balance(node);
        self.words(node)
    }
}

fn order(ask: &Ask) -> Order {
    order_of(ask, CandidateKind::Template)
}

fn order_of(ask: &Ask, kind: CandidateKind) -> Order {
    Order {
        query: Arc::clone(&ask.query),
        rendering: ask.rendering,
        source: SOURCE,
        form: FORM,
        kind,
        p: 0.6,
        steps_left: 0,
        by: node_name(0).unwrap(),
    }
}
