//! Random schedules: orders, requests, purges, evictions, flushes, faults, changes of the ring, time. After each step,
//! the identity of launches (issue 7) and the budget hold on each node. At the end no work is left under way.

use hopcache_core::limits::PREFETCH_TOKENS_MAX;
use hopcache_engine::memory::Memory as _;
use hopcache_engine::ports::{Dice as _, Neo4jFailure, OriginFault, Scope};
use hopcache_sim::world::dice::SimDice;
use hopcache_sim::world::origin::OriginBehavior;
use hopcache_sim::world::store::Mode;

use super::*;

const KEYS: u64 = 12;
const USERS: [&str; 2] = ["alice", "bob"];
const STEPS: u32 = 300;

struct Schedule {
    scene: Scene,
    dice: SimDice,
}

impl Schedule {
    fn an_ask(&self) -> Ask {
        let number = i64::try_from(self.dice.below(KEYS)).unwrap();
        self.scene.read_as(number, USERS[self.dice.index(USERS.len())])
    }

    fn a_node(&self) -> usize {
        self.dice.index(self.scene.world.nodes.len())
    }

    async fn step(&self) {
        let (scene, node, ask) = (&self.scene, self.a_node(), self.an_ask());
        let world = &scene.world;
        match self.dice.below(100) {
            0..40 => {
                let order = order_of(&ask, CandidateKind::ALL[self.dice.index(3)]);
                let engine = Arc::clone(&scene.node(node).engine);
                tokio::spawn(async move { engine.prefetch().order(order).await });
            }
            40..70 => {
                let sent = world.send(node, &ask);
                if self.dice.chance(100) {
                    world.pass(self.dice.below(50)).await;
                    sent.abort();
                }
            }
            70..74 => {
                scene.ask(node, &scene.read(i64::try_from(self.dice.u64() >> 2).unwrap())).await;
            }
            74..78 => {
                let scope = if self.dice.chance(300) { Scope::All } else { Scope::Key(ask.query.key) };
                scene.node(node).engine.invalidate().purge(&scope).await;
            }
            78..81 => scene.node(node).memory.forget_all(),
            81..83 => {
                scene.node(node).memory.remove(&ask.query.key);
            }
            83 => {
                scene.node(node).engine.prefetch().flush_waste().await;
            }
            84..88 => world.origin.set_behavior(self.a_behavior()),
            88..90 => world.store.set_mode(if self.dice.chance(300) { Mode::Down } else { Mode::Up }),
            90..93 => self.change_ring(),
            93..98 => world.pass(self.dice.between(200, 20_000)).await,
            98 => scene.node(node).engine.prefetch().sweep(),
            _ => world.store.lose_everything(),
        }
        world.pass(self.dice.below(40)).await;
    }

    fn a_behavior(&self) -> OriginBehavior {
        let code = "Neo.ClientError.Statement.TypeError".to_owned();
        let failure = Neo4jFailure { code, message: "seeded".to_owned() };
        match self.dice.below(8) {
            0 => OriginBehavior::Fault(OriginFault::Failed(failure)),
            1 => OriginBehavior::Fault(OriginFault::Overloaded),
            2 => OriginBehavior::Fault(OriginFault::Cut("seeded".to_owned())),
            3 => OriginBehavior::Panic(1),
            _ => OriginBehavior::Well,
        }
    }

    /// Each node that gets a ring gets one with itself in it; the rings may disagree.
    fn change_ring(&self) {
        let out = self.a_node();
        for (place, node) in self.scene.world.nodes.iter().enumerate() {
            let stays = |each: &usize| *each == place || *each != out || self.dice.chance(500);
            let names: Vec<_> = (0..3).filter(stays).filter_map(node_name).collect();
            node.routing.set(&names);
            node.engine.invalidate().ring_changed();
            node.engine.invalidate().forget_left();
        }
    }

    fn look(&self) {
        for node in 0..3 {
            let scene = &self.scene;
            let [launched, used, late, _] = scene.balanced(node);
            let misses = scene.runs_for(node, Cause::Miss) + used + late;
            let extra = launched - used - late;
            let cap = usize::try_from(PREFETCH_TOKENS_MAX).unwrap();
            assert!(4 * extra <= misses + 4 * cap, "{extra} extra launches, {misses} misses");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_identity_of_launches_holds_in_every_schedule() {
    let mut seen = [0; 4];
    for seed in 0..90 {
        let schedule = Schedule { scene: Scene::new(3, seed), dice: SimDice::new(seed ^ 0x5eed) };
        for _ in 0..STEPS {
            schedule.step().await;
            schedule.look();
        }
        let world = &schedule.scene.world;
        world.origin.set_behavior(OriginBehavior::Well);
        world.store.set_mode(Mode::Up);
        world.pass(200_000).await;
        for node in 0..3 {
            let engine = &schedule.scene.node(node).engine;
            engine.prefetch().sweep();
            assert_eq!((engine.prefetch().under_way(), engine.prefetch().pending()), (0, 0), "seed {seed}");
            let words = schedule.scene.balanced(node);
            seen = std::array::from_fn(|place| seen[place] + words[place]);
        }
    }
    assert!(seen.iter().all(|count| *count > 50), "every end occurred: {seen:?}");
}
