//! F55: a node was stopped, a purge could not tell it, and its first looks at the invalidation log fail when it goes
//! on. It serves nothing from before the pause until a look has succeeded, and it answers in time though none does.

use hopcache_core::limits::{
    DEGRADED_TTL_MS, PAUSE_POLL_MS_MAX, PAUSE_POLL_RETRY_MS, STORE_COMMAND_MS_DEFAULT,
};

use crate::prelude::*;

const STOPPED_MS: u64 = 3_500;

/// Why the looks after the pause fail.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// Silence until the deadline of the command, or a refused connection, at random.
    Cut,
    /// A refused connection.
    Down,
}

/// A cluster whose nodes read the log, and its read that is cached.
struct Scene {
    world: World,
    ask: Ask,
    owner: usize,
}

impl Scene {
    /// The copy has this age when the scene begins.
    async fn new(seed: u64, policy: &Policy, age_ms: u64) -> Self {
        let world = World::with_policy(2, seed, policy);
        world.nodes.iter().for_each(|node| drop(follow(node)));
        // A first look at the log forgets what is there already.
        world.pass(10).await;
        let ask = world.ask(READ);
        let owner = world.owner_of(&ask);
        assert_eq!(version(&world.send(owner, &ask).await.unwrap()), 1);
        world.pass(age_ms).await;
        Self { world, ask, owner }
    }

    /// A request that has so much time.
    fn ask_within(&self, left_ms: u64) -> Ask {
        Ask { deadline: sim_now() + Millis(left_ms), ..self.ask.clone() }
    }

    /// The owner is stopped; its key is purged if `is_purged`; its way to the store breaks; it goes on.
    async fn pause(&self, is_purged: bool, trouble: Trouble) {
        let Self { world, ask, owner } = self;
        world.nodes[*owner].process.set(Power::Paused);
        world.origin.set_version(2);
        if is_purged {
            // Or the purge would wait in the stopped node's socket, and be the first that it reads when it goes on.
            world.net.set_way_cut(1 - owner, *owner, true);
            let purger = &world.nodes[1 - owner].engine;
            let purged = purger.invalidate().purge(&Scope::Key(ask.query.key)).await;
            assert_eq!((purged.store, purged.unreached), (Ok(1), 1), "the stopped node could not be told");
            world.net.set_way_cut(1 - owner, *owner, false);
        }
        world.pass(STOPPED_MS).await;
        self.set_away(trouble, true);
        assert_eq!(world.nodes[*owner].engine.path().sizes().copies, 1, "it still has the copy");
        world.nodes[*owner].process.set(Power::On);
    }

    fn set_away(&self, trouble: Trouble, is_away: bool) {
        match trouble {
            Trouble::Cut => self.world.store.set_cut(self.owner, is_away),
            Trouble::Down => self.world.store.set_down(is_away),
        }
    }

    fn hit(&self) -> Option<i64> {
        version_in(&self.world.nodes[self.owner].engine.path().hit(&self.ask)?)
    }

    fn store_faults(&self) -> usize {
        self.world.nodes[self.owner].events.count(|event| *event == Event::StoreFault)
    }
}

/// A request each 10 ms, from before the first failed look until after the first that succeeds.
#[tokio::test(start_paused = true)]
async fn a_look_that_failed_is_no_look() {
    for (seed, trouble) in [(71, Trouble::Cut), (72, Trouble::Cut), (73, Trouble::Down)] {
        let scene = Scene::new(seed, &default_policy(), 1_000).await;
        let faults = scene.store_faults();
        scene.pause(true, trouble).await;
        let (mut hits, mut sent) = (Vec::new(), Vec::new());
        for _ in 0..30 {
            hits.extend(scene.hit());
            sent.push(scene.world.send(scene.owner, &scene.ask));
            scene.world.pass(10).await;
        }
        assert!(scene.store_faults() > faults, "{trouble:?}: no look failed");
        assert_eq!(hits, [0; 0], "{trouble:?}: hits while nobody has read of the purge");
        scene.set_away(trouble, false);
        // A look that began before may take its time; the next one begins after a pause.
        scene.world.pass(STORE_COMMAND_MS_DEFAULT + PAUSE_POLL_RETRY_MS + 200).await;
        for outcome in sent {
            assert_eq!(version(&outcome.await.unwrap()), 2, "{trouble:?}: the purged value");
        }
        assert_eq!(scene.hit(), Some(2), "{trouble:?}: hits again after the first look that succeeds");
        assert_eq!(scene.world.origin.runs(), 2, "{trouble:?}: one before the purge, one after");
    }
}

/// The same of a stale fallback: the origin is away as well, and the purged copy stands in for nothing. A request that has
/// less time than a look may take ends by its own deadline.
#[tokio::test(start_paused = true)]
async fn no_purged_copy_stands_in_for_an_origin_while_the_log_is_unread() {
    for (seed, trouble) in [(79, Trouble::Cut), (80, Trouble::Cut), (74, Trouble::Down)] {
        no_purged_copy_stands_in(seed, trouble).await;
    }
}

async fn no_purged_copy_stands_in(seed: u64, trouble: Trouble) {
    let policy = Policy { stale_if_error_ms: Millis(600_000), ..default_policy() };
    let scene = Scene::new(seed, &policy, 100_000).await;
    scene.pause(true, trouble).await;
    scene.world.origin.set_behavior(OriginBehavior::Fault(away()));
    for left_ms in [100, 5_000, 5_000] {
        let asked = sim_now();
        let outcome = scene.world.send(scene.owner, &scene.ask_within(left_ms)).await.unwrap();
        assert!(matches!(outcome.answer, Answer::Failed(_)), "a purged copy: {:?}", outcome.how);
        assert!(sim_now().since(asked) <= Millis(left_ms + 100), "{:?}", sim_now().since(asked));
        scene.world.pass(1_000).await;
    }
}

/// The store stays away: a request that has less time than a look may take ends by its own deadline.
#[tokio::test(start_paused = true)]
async fn a_request_keeps_its_deadline_while_the_log_is_unread() {
    for (seed, trouble) in [(79, Trouble::Cut), (80, Trouble::Cut), (81, Trouble::Down)] {
        let scene = Scene::new(seed, &default_policy(), 1_000).await;
        scene.pause(true, trouble).await;
        let asked = sim_now();
        let outcome = scene.world.send(scene.owner, &scene.ask_within(100)).await.unwrap();
        assert!(matches!(outcome.answer, Answer::Failed(_)), "{trouble:?}: {:?}", outcome.how);
        assert!(sim_now().since(asked) <= Millis(200), "{trouble:?}: {:?}", sim_now().since(asked));
    }
}

/// F7: the store stays away. Requests wait once in all, and go the way of a miss; there is one run in each degraded TTL,
/// and its result is served from memory.
#[tokio::test(start_paused = true)]
async fn without_a_store_a_node_that_was_stopped_answers_as_a_miss() {
    for (seed, trouble) in [(75, Trouble::Cut), (76, Trouble::Down)] {
        let scene = Scene::new(seed, &default_policy(), 1_000).await;
        scene.pause(false, trouble).await;
        let asked = sim_now();
        let first = scene.world.send(scene.owner, &scene.ask_within(60_000)).await.unwrap();
        assert_eq!(version_or_failure(&first), "2", "{trouble:?}");
        assert_eq!(first.how.detail, Some(Detail::Degraded));
        assert!(matches!(first.how.class, Class::Miss { kept: Kept::Skipped, .. }), "{:?}", first.how);
        assert!(sim_now().since(asked) >= Millis(PAUSE_POLL_MS_MAX), "{trouble:?}: it waited for a look");
        let (read, runs) = (sim_now(), scene.world.origin.runs());
        while sim_now().since(read) < Millis(DEGRADED_TTL_MS - 200) {
            let asked = sim_now();
            let hit = scene.world.send(scene.owner, &scene.ask_within(1_000)).await.unwrap();
            assert_eq!((hit.how.class, version(&hit)), (Class::Hit, 2), "{trouble:?}");
            assert_eq!(sim_now(), asked, "{trouble:?}: nobody waits for a look any more");
            scene.world.pass(50).await;
        }
        assert_eq!(scene.world.origin.runs(), runs, "{trouble:?}: one run in a degraded TTL");
    }
}

/// A store that is away costs a node that was not stopped no hit: it can be told of purges.
#[tokio::test(start_paused = true)]
async fn without_a_pause_failed_looks_cost_no_hit() {
    for (seed, trouble) in [(77, Trouble::Cut), (78, Trouble::Down)] {
        let scene = Scene::new(seed, &default_policy(), 1_000).await;
        scene.set_away(trouble, true);
        for _ in 0..500 {
            assert_eq!(scene.hit(), Some(1), "{trouble:?}");
            scene.world.pass(20).await;
        }
        assert!(scene.store_faults() > 10, "{trouble:?}: looks failed");
    }
}
