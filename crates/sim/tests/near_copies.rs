//! Near copies of hot keys (DESIGN section 3, step 4) on a simulated cluster: which nodes get one, how long it lives,
//! which events end it, and how the owner learns of every hit.

use hopcache_core::limits::{NEAR_MS_MAX, NEAR_RATE_PER_S_MIN};
use hopcache_engine::message::{Question, encode_question};
use hopcache_queryapi::render::{Counters, Encoding, ResponseForm, Times};
use hopcache_sim::world::query_api_renderer::rendering_of;
use hopcache_sim::world::store::Mode;

use crate::prelude::*;

const TYPED: ResponseForm =
    ResponseForm { encoding: Encoding::Typed, counters: Counters::Omit, times: Times::Omit };

/// Between two requests of a hot key: 200 a second.
const BETWEEN_MS: u64 = 5;

/// Requests until a copy's rate is known: it is watched for a second at least.
const HISTORY_HITS: u32 = 210;

fn is_near(event: &Event) -> bool {
    matches!(event, Event::NearHit)
}

/// A cluster, and a key that node `owner` owns and has a copy of.
struct Scene {
    world: World,
    ask: Ask,
    owner: usize,
    /// Another node.
    entry: usize,
    /// A third.
    third: usize,
}

impl Scene {
    async fn new(seed: u64) -> Self {
        Self::with(seed, &default_policy()).await
    }

    /// Few requests make a key hot.
    async fn with_low_bar(seed: u64) -> Self {
        Self::with(seed, &Policy { near_rate_per_s_min: 1.0, ..default_policy() }).await
    }

    async fn with(seed: u64, policy: &Policy) -> Self {
        let world = World::with_policy(3, seed, policy);
        let ask = world.ask(READ);
        Self::of(world, ask).await
    }

    async fn of(world: World, ask: Ask) -> Self {
        let owner = world.owner_of(&ask);
        let scene = Self { world, ask, owner, entry: (owner + 1) % 3, third: (owner + 2) % 3 };
        scene.ask(owner).await;
        scene
    }

    /// As the node's front does: memory first, then the whole path.
    async fn ask(&self, node: usize) -> Outcome {
        self.ask_for(node, &self.ask).await
    }

    async fn ask_for(&self, node: usize, ask: &Ask) -> Outcome {
        let engine = &self.world.nodes[node].engine;
        front(engine, ask).await
    }

    /// Sends this many requests to a node, one after another.
    async fn ask_often(&self, node: usize, times: u32) {
        for _ in 0..times {
            let outcome = self.ask(node).await;
            assert_eq!(outcome.how.class, Class::Hit);
            self.world.pass(BETWEEN_MS).await;
        }
    }

    /// The entry node has a near copy when this returns.
    async fn warm_up(&self) {
        self.ask_often(self.entry, HISTORY_HITS).await;
        assert!(self.near_hits(self.entry) > 0, "the key is hot");
        let has_one = || self.world.nodes[self.entry].engine.path().hit(&self.ask).is_some();
        if !has_one() {
            self.ask(self.entry).await;
        }
        assert!(has_one());
    }

    fn near_hits(&self, node: usize) -> usize {
        self.world.nodes[node].events.count(is_near)
    }

    fn arrivals_at_owner(&self) -> u32 {
        let copy = self.world.nodes[self.owner].memory.get(&self.ask.query.key);
        copy.map_or(0, |copy| copy.heat().arrivals())
    }
}

/// DESIGN "Early refresh": a node reports every hit of its near copies to the owner, and every request that shared a
/// forward.
#[tokio::test(start_paused = true)]
async fn a_hot_key_is_answered_near_and_its_owner_hears_of_every_hit() {
    let scene = Scene::new(1).await;
    scene.ask_often(scene.owner, HISTORY_HITS).await;
    let forwards = scene.world.net.forwards();
    let mut asked = scene.arrivals_at_owner();
    for _ in 0..500 {
        for node in 0..3 {
            assert_eq!(scene.ask(node).await.how.class, Class::Hit);
            asked += 1;
        }
        scene.world.pass(BETWEEN_MS).await;
    }
    let near = scene.near_hits(scene.entry) + scene.near_hits(scene.third);
    let forwards = scene.world.net.forwards() - forwards;
    assert_eq!(scene.near_hits(scene.owner), 0, "the owner has the entry itself");
    assert!(near > 900, "{near} of 1,000");
    assert!(forwards < 20, "about one a second from each: {forwards}");
    assert_eq!(scene.world.origin.runs(), 1);

    // The next forward after the near copies' end reports the remaining hits.
    scene.world.pass(NEAR_MS_MAX).await;
    for node in [scene.entry, scene.third] {
        scene.ask(node).await;
        asked += 1;
    }
    assert_eq!(scene.arrivals_at_owner(), asked, "served and reported");
}

/// Requests that shared a forward are reported too.
#[tokio::test(start_paused = true)]
async fn who_shares_a_forward_is_counted_by_the_owner() {
    let scene = Scene::with_low_bar(2).await;
    scene.warm_up().await;
    scene.world.pass(NEAR_MS_MAX).await;
    scene.ask(scene.entry).await;
    scene.world.pass(NEAR_MS_MAX).await;
    let before = scene.arrivals_at_owner();
    let together: Vec<_> = (0..50).map(|_| scene.world.send(scene.entry, &scene.ask)).collect();
    for outcome in together {
        assert_eq!(outcome.await.unwrap().how.class, Class::Hit);
    }
    assert_eq!(scene.arrivals_at_owner(), before + 1, "one forward");
    scene.world.pass(NEAR_MS_MAX).await;
    scene.ask(scene.entry).await;
    assert_eq!(scene.arrivals_at_owner(), before + 1 + 49 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_hot_has_no_near_copies() {
    let scene = Scene::new(3).await;
    scene.world.pass(5_000).await;
    for _ in 0..50 {
        scene.ask(scene.entry).await;
        scene.world.pass(100).await;
    }
    assert_eq!(scene.near_hits(scene.entry), 0, "10 a second, hot is {NEAR_RATE_PER_S_MIN}");
    let off = Policy { near_rate_per_s_min: f64::INFINITY, ..default_policy() };
    let scene = Scene::with(3, &off).await;
    scene.ask_often(scene.entry, 100).await;
    assert_eq!(scene.near_hits(scene.entry), 0);
}

/// I4: the near copy starts with the owner's age and continues it. After [`NEAR_MS_MAX`] the node asks the owner again.
#[tokio::test(start_paused = true)]
async fn a_near_copy_tells_its_age_and_ends_soon() {
    let scene = Scene::new(4).await;
    scene.warm_up().await;
    let ages = |outcome: &Outcome| (outcome.how.age_ms.unwrap().0, outcome.how.ttl_ms.unwrap());
    let (age, left) = ages(&scene.ask(scene.entry).await);
    let (owners_age, owners_left) = ages(&scene.ask(scene.owner).await);
    assert!(age >= owners_age && age <= owners_age + 2, "{age}, the owner says {owners_age}");
    assert!(left <= owners_left && left + 2 >= owners_left, "{left}, the owner says {owners_left}");
    scene.world.pass(100).await;
    let (later, less) = ages(&scene.world.nodes[scene.entry].engine.path().hit(&scene.ask).unwrap());
    assert_eq!((later, less), (age + 100, left - 100));
    scene.world.pass(NEAR_MS_MAX).await;
    assert!(scene.world.nodes[scene.entry].engine.path().hit(&scene.ask).is_none());
}

/// I4: a process that was stopped with the answer on its way does not prolong it.
#[tokio::test(start_paused = true)]
async fn a_stopped_process_does_not_prolong_a_near_copy() {
    let scene = Scene::with_low_bar(5).await;
    scene.warm_up().await;
    scene.world.pass(NEAR_MS_MAX).await;
    let forwards = scene.world.net.forwards();
    let asked = scene.world.send(scene.entry, &scene.ask);
    // The forward has been sent, and the owner answers within 2 ms.
    scene.world.pass(1).await;
    assert_eq!(scene.world.net.forwards(), forwards + 1);
    scene.world.nodes[scene.entry].process.set(Power::Paused);
    scene.world.pass(700).await;
    scene.world.nodes[scene.entry].process.set(Power::On);
    asked.await.unwrap();
    assert!(scene.world.nodes[scene.entry].engine.path().hit(&scene.ask).is_some(), "300 ms are left");
    scene.world.pass(301).await;
    assert!(
        scene.world.nodes[scene.entry].engine.path().hit(&scene.ask).is_none(),
        "a second from when it was sent"
    );
}

/// 3,000 − 760 ms; the rate is known to a few percent, so the window to a few milliseconds.
const WINDOW_FROM_MS: u64 = 2_280;

/// A near copy never outlives its entry, and ends before the entry's early refresh is decided. From then on the owner
/// sees every hit.
#[tokio::test(start_paused = true)]
async fn near_copies_end_before_the_refresh_is_decided() {
    let mut policy = Policy { ttl_ms: Millis(3_000), ..default_policy() };
    policy.refresh.is_early = true;
    policy.refresh.ttl_ms_min = Millis(1_000);
    policy.refresh.rule.mode = hopcache_core::refresh::Mode::Plain;
    let world = World::with_policy(3, 6, &policy);
    // Runs of 100 ms, 200 requests a second: the owner's plan decides in the last 100·ln(200 · 0.1 / 0.01) = 760 ms.
    world.origin.set_delay_ms(100);
    let ask = world.ask(READ);
    let scene = Scene::of(world, ask).await;
    let (mut latest_near, mut in_window, mut latest, mut is_refreshed) = (0, 0, 0, false);
    for _ in 0..600 {
        let before = scene.near_hits(scene.entry);
        let outcome = scene.ask(scene.entry).await;
        let age = outcome.how.age_ms.unwrap().0;
        is_refreshed = age < latest;
        if is_refreshed || age >= 3_000 {
            break;
        }
        latest = age;
        if scene.near_hits(scene.entry) > before {
            latest_near = latest_near.max(age);
        } else if age >= WINDOW_FROM_MS {
            in_window += 1;
        }
        scene.world.pass(BETWEEN_MS).await;
    }
    assert!(latest_near > 1_000, "the key was hot: {latest_near} ms");
    assert!(
        latest_near <= WINDOW_FROM_MS,
        "near until {latest_near} ms, and the refresh is decided from then on"
    );
    assert!(in_window > 40, "{in_window} hits came to the owner while it decided");
    assert!(is_refreshed, "by one of them, before the end");
}

/// While clients ask all the time, a node that the purge has reached may get the old value from one that it has not.
/// For any purging node, any owner and any order of messages, no node answers with the old value when the purge is
/// done.
#[tokio::test(start_paused = true)]
async fn no_near_copy_slips_through_a_purge() {
    for seed in 0..60 {
        let world = World::new(3, 100 + seed);
        let ask = world.ask(&format!("MATCH (n:L{seed}) RETURN n.version AS version"));
        let scene = Scene::of(world, ask).await;
        scene.ask_often(scene.entry, 30).await;
        scene.ask_often(scene.third, 30).await;
        scene.world.origin.set_version(2);
        scene.world.net.set_weather(NetWeather { delay_ms_max: 8, ..NetWeather::default() });
        let scope = if seed % 2 == 0 { Scope::All } else { Scope::Key(scene.ask.query.key) };
        let engine = Arc::clone(&scene.world.nodes[seed as usize / 2 % 3].engine);
        let mut purge = Box::pin(engine.invalidate().purge(&scope));
        let purged = loop {
            for node in 0..3 {
                drop(scene.world.send(node, &scene.ask));
            }
            tokio::select! {
                biased;
                purged = &mut purge => break purged,
                () = scene.world.pass(1) => {}
            }
        };
        assert_eq!(purged.unreached, 0);
        for node in 0..3 {
            let outcome = scene.ask(node).await;
            assert_eq!(
                version_in(&outcome),
                Some(2),
                "seed {seed}, node {node}, the owner is {}",
                scene.owner
            );
        }
    }
}

/// The purge cannot reach a node. Its near copy ends by itself, or earlier if the node can read the store's log.
#[tokio::test(start_paused = true)]
async fn a_node_cut_off_hears_of_the_purge_by_the_log() {
    let scene = Scene::new(10).await;
    scene.warm_up().await;
    let entry = scene.world.nodes[scene.entry].clone();
    let follower = Arc::clone(&entry.engine);
    let follows = tokio::spawn(async move { follower.path().follow_invalidations().await });
    scene.world.pass(BETWEEN_MS).await;
    scene.ask(scene.entry).await;
    scene.world.net.set_cut(&entry.engine.me().node, true);
    let purged =
        scene.world.nodes[scene.owner].engine.invalidate().purge(&Scope::Key(scene.ask.query.key)).await;
    assert_eq!(purged.unreached, 1, "it is cut off");
    scene.world.pass(INVALIDATION_POLL_MS + 10).await;
    assert!(entry.memory.get(&scene.ask.query.key).is_none(), "by the log");
    follows.abort();

    // Cut from the store as well.
    let scene = Scene::new(10).await;
    scene.warm_up().await;
    let entry = &scene.world.nodes[scene.entry];
    scene.world.net.set_cut(&entry.engine.me().node, true);
    scene.world.store.set_cut(scene.entry, true);
    let purged =
        scene.world.nodes[scene.owner].engine.invalidate().purge(&Scope::Key(scene.ask.query.key)).await;
    assert_eq!(purged.unreached, 1);
    scene.world.pass(NEAR_MS_MAX).await;
    assert!(entry.engine.path().hit(&scene.ask).is_none(), "by its own end");
}

/// The owner answers, a purge reaches the asker, the answer arrives: it is not kept.
#[tokio::test(start_paused = true)]
async fn an_answer_from_before_a_purge_is_not_kept() {
    for is_purged in [false, true] {
        let scene = Scene::with_low_bar(11).await;
        scene.warm_up().await;
        scene.world.pass(NEAR_MS_MAX).await;
        let entry = &scene.world.nodes[scene.entry];
        let asked = scene.world.send(scene.entry, &scene.ask);
        scene.world.pass(1).await;
        assert_eq!(entry.engine.path().sizes().forwards, 1, "it is under way");
        if is_purged {
            entry.engine.path().serve_peer(&encode_question(&Question::Purge(Scope::All))).await.unwrap();
        }
        let outcome = asked.await.unwrap();
        assert_eq!(
            outcome.how.class,
            Class::Hit,
            "a request from before the purge gets the value from before"
        );
        assert_eq!(entry.engine.path().hit(&scene.ask).is_none(), is_purged, "and no other request does");
    }
}

/// I8, I4: a node answers a forwarded request from its own copy or by a run, never from a near copy. Otherwise the
/// lives of near copies would add up along a chain.
#[tokio::test(start_paused = true)]
async fn a_near_copy_answers_no_forwarded_request() {
    let scene = Scene::new(12).await;
    scene.warm_up().await;
    let entry = &scene.world.nodes[scene.entry];
    // The third node takes the entry node for the owner.
    scene.world.nodes[scene.third].routing.set(std::slice::from_ref(&entry.engine.me().node));
    let near = scene.near_hits(scene.entry);
    let grants = scene.world.store.grants();
    let outcome = scene.ask(scene.third).await;
    assert_eq!(version_in(&outcome), Some(1));
    assert_eq!(outcome.answered_by.as_ref().map(|by| &by.node), Some(&entry.engine.me().node));
    assert_eq!(scene.near_hits(scene.entry), near);
    assert_eq!(scene.world.store.grants(), grants, "the store had the value");
    let copy = entry.memory.get(&scene.ask.query.key).unwrap();
    assert!(copy.token().is_some(), "and the entry node has it now");
    assert!(
        scene.world.nodes[scene.third].engine.path().hit(&scene.ask).is_none(),
        "and no near copy came of it"
    );
}

/// A near copy does not replace the owner's copy where this node stands in for the owner.
#[tokio::test(start_paused = true)]
async fn a_near_copy_is_not_taken_for_the_owners() {
    let scene = Scene::new(13).await;
    scene.warm_up().await;
    scene.world.store.set_mode(Mode::Down);
    scene.world.nodes[scene.owner].process.set(Power::Off);
    scene.world.nodes[scene.third].process.set(Power::Off);
    let runs = scene.world.origin.runs();
    let near = scene.near_hits(scene.entry);
    // The ring still has the owner: this request goes there in vain, and this node answers it then.
    let outcome = scene.world.send(scene.entry, &scene.ask).await.unwrap();
    assert!(matches!(outcome.how.class, Class::Miss { .. }));
    assert_eq!(scene.world.origin.runs(), runs + 1, "a run, as if there were no near copy");
    assert_eq!(scene.near_hits(scene.entry), near);
}

/// Purges go to a node by the keys that it owns and asks for. So a change of the ring drops all near copies.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_ring_drops_near_copies() {
    let scene = Scene::new(14).await;
    scene.warm_up().await;
    let entry = &scene.world.nodes[scene.entry];
    assert_eq!(entry.engine.invalidate().ring_changed().dropped, 1);
    assert!(entry.engine.path().hit(&scene.ask).is_none());
    // For a node that becomes the owner, too, a near copy has no owner.
    scene.warm_up().await;
    let near = scene.near_hits(scene.entry);
    entry.routing.set(std::slice::from_ref(&entry.engine.me().node));
    assert!(entry.engine.path().hit(&scene.ask).is_none());
    assert_eq!(scene.near_hits(scene.entry), near);
}

/// A near copy is one rendering: another one is the owner's to make.
#[tokio::test(start_paused = true)]
async fn another_rendering_and_other_freshness_are_forwarded() {
    let scene = Scene::new(15).await;
    scene.warm_up().await;
    let engine = &scene.world.nodes[scene.entry].engine;
    let typed = Ask { rendering: rendering_of(TYPED), ..scene.ask.clone() };
    assert!(engine.path().hit(&typed).is_none());
    let outcome = scene.ask_for(scene.entry, &typed).await;
    assert!(matches!(&outcome.answer, Answer::Body(body) if body.windows(5).any(|part| part == b"$type")));
    for (no_cache, only_if_cached, age_max_ms) in
        [(true, false, None), (false, true, None), (false, false, Some(Millis(60_000)))]
    {
        let mut ask = scene.ask.clone();
        ask.freshness.no_cache = no_cache;
        ask.freshness.only_if_cached = only_if_cached;
        ask.freshness.age_max_ms = age_max_ms;
        assert!(engine.path().hit(&ask).is_none(), "{:?}", ask.freshness);
    }
}

/// A result that the store never took lives briefly at its owner and nowhere else.
#[tokio::test(start_paused = true)]
async fn what_is_not_stored_has_no_near_copies() {
    let scene = Scene::new(16).await;
    let (world, owner) = (&scene.world, scene.owner);
    committed(world).await;
    world.nodes[owner].memory.forget_all();
    world.store.lose_everything();
    world.store.set_mode(Mode::Down);
    let outcome = scene.ask(owner).await;
    assert_eq!(outcome.how.class, Class::Miss { kept: Kept::Skipped, role: Role::Led });
    let forwards = world.net.forwards();
    for _ in 0..100 {
        assert_eq!(scene.ask(scene.entry).await.how.detail, Some(Detail::Degraded));
        world.pass(BETWEEN_MS).await;
    }
    assert_eq!(world.net.forwards(), forwards + 100, "all of them went to the owner");
}

/// A forward that fails takes no hits with it.
#[tokio::test(start_paused = true)]
async fn hits_that_could_not_be_told_are_told_later() {
    let scene = Scene::new(17).await;
    scene.ask_often(scene.owner, HISTORY_HITS).await;
    let mut asked = scene.arrivals_at_owner();
    for _ in 0..100 {
        scene.ask(scene.entry).await;
        asked += 1;
        scene.world.pass(BETWEEN_MS).await;
    }
    scene.world.pass(NEAR_MS_MAX).await;
    let arrived = scene.arrivals_at_owner();
    assert!(arrived < asked, "some are untold yet");
    let (owner, entry) = (&scene.world.nodes[scene.owner], &scene.world.nodes[scene.entry]);
    let names: Vec<_> = scene.world.nodes.iter().map(|node| node.engine.me().node.clone()).collect();
    scene.world.nodes[scene.third].process.set(Power::Off);
    scene.world.net.set_cut(&owner.engine.me().node, true);
    let short = Ask { deadline: hopcache_sim::world::clock::sim_now() + Millis(100), ..scene.ask.clone() };
    let cut_off = scene.world.send(scene.entry, &short).await.unwrap();
    assert!(matches!(cut_off.answer, Answer::Failed(_)), "the owner did not answer in time");
    scene.world.pass(2_000).await;
    assert_eq!(scene.arrivals_at_owner(), arrived, "it heard nothing");
    scene.world.net.set_cut(&owner.engine.me().node, false);
    entry.routing.set(&names);
    let outcome = scene.ask(scene.entry).await;
    assert_eq!(outcome.answered_by.as_ref().map(|by| &by.node), Some(&owner.engine.me().node));
    assert_eq!(scene.arrivals_at_owner(), asked + 1);
}
