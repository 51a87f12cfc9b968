//! Refreshes before the end of the soft TTL: when, how often, and by which node.

use super::{READ, RUN_MS, TTL_MS, ask, at_rest, count, early, version, words};
use crate::prelude::*;

/// Requests for a hot key go to each node in turn, 50 times a second. One run in a window refreshes the key before it
/// expires, and no request gets it stale (I1; THEORY: P(late) = exp(−nβ·e^(−k/β)), n = 5, β = 2, k = 1: 0.002 a
/// window).
#[tokio::test(start_paused = true)]
async fn a_hot_key_is_refreshed_once_and_early() {
    let world = World::with_policy(3, 1, &early());
    let read = world.ask(READ);
    for turn in 0..5 * 60 * 50 {
        let outcome = ask(&world, turn % 3, &read).await;
        assert_ne!(outcome.how.detail, Some(Detail::Stale));
        world.pass(20).await;
    }
    let began: Vec<_> = world.origin.runs_seen().iter().map(|run| run.began).collect();
    let owner = &world.nodes[world.owner_of(&read)];
    assert!((5..=6).contains(&began.len()), "one run in each of five windows: {began:?}");
    for pair in began.windows(2) {
        let window_ms = pair[1].since(pair[0]).0;
        assert!((TTL_MS - 4_000..TTL_MS).contains(&window_ms), "{window_ms} ms between two runs");
    }
    let [triggered, completed, ..] = words(owner);
    assert_eq!((triggered, completed), (began.len() - 1, began.len() - 1));
    assert_eq!(owner.events.count(|event| *event == Event::Late), 0);
    at_rest(&world);
}

/// The rings disagree (F9), so three nodes have copies of one run and each draws for its own. The second node to
/// refresh finds the first one's value (I1).
#[tokio::test(start_paused = true)]
async fn nodes_that_refresh_one_after_the_other_run_once() {
    let world = World::with_policy(3, 2, &early());
    each_owns_all(&world);
    let read = world.ask(READ);
    for _ in 0..5 * 60 * 20 {
        for node in 0..3 {
            ask(&world, node, &read).await;
        }
        world.pass(50).await;
    }
    let began: Vec<_> = world.origin.runs_seen().iter().map(|run| run.began).collect();
    for pair in began.windows(2) {
        assert!(pair[1].since(pair[0]).0 > TTL_MS - 5_000, "{began:?}");
    }
    let completed: usize = world.nodes.iter().map(|node| count(node, RefreshWord::Completed)).sum();
    assert!(
        completed >= 2 * (began.len() - 1),
        "others refreshed too, and found: {completed}, {} runs",
        began.len()
    );
    at_rest(&world);
}

/// A commit takes longer than its run, so the store takes the entry for younger than its copy and offers it as a newer
/// value. The node recognises the entry by its token, and asks again with the store's own age.
#[tokio::test(start_paused = true)]
async fn an_entry_is_no_newer_than_its_own_copy() {
    let mut late = 0;
    for seed in 19..35 {
        let world = World::with_policy(1, seed, &early());
        let (node, read) = (&world.nodes[0], world.ask(READ));
        world.origin.set_delay_ms(5);
        world.store.set_weather(Weather { delay_ms_max: 40, ..Weather::default() });
        ask(&world, 0, &read).await;
        world.pass(1_000).await;
        assert_eq!(world.store.commits().len(), 1);
        world.store.set_weather(Weather::default());
        world.origin.set_version(2);
        world.pass(TTL_MS - 2_000).await;
        while version(&ask(&world, 0, &read).await) == 1 {
            world.pass(1).await;
        }
        assert_eq!((world.origin.runs(), words(node)), (2, [1, 1, 0, 0, 0]), "one refresh, which ran");
        late += node.events.count(|event| *event == Event::Late);
        at_rest(&world);
    }
    assert!(late < 4, "{late} of 16 were late");
}

/// A TTL below the least is refreshed only when it is stale. The same holds for an entry that a hint made brief.
#[tokio::test(start_paused = true)]
async fn below_the_least_ttl_nothing_is_refreshed_early() {
    for (policy_ttl, hint) in [(59_999, None), (60_000, Some(Millis(50_000)))] {
        let world = World::with_policy(1, 3, &Policy { ttl_ms: Millis(policy_ttl), ..early() });
        let read = Ask { hints: Hints { ttl_ms: hint, ..Hints::default() }, ..world.ask(READ) };
        ask(&world, 0, &read).await;
        let ttl_ms = hint.map_or(policy_ttl, |ttl| ttl.0);
        while world.origin.runs_seen()[0].began + Millis(ttl_ms - 20) > sim_now() {
            assert_eq!(ask(&world, 0, &read).await.how.class, Class::Hit);
            world.pass(10).await;
        }
        assert_eq!((world.origin.runs(), words(&world.nodes[0])[0]), (1, 0));
        world.pass(100).await;
        assert_eq!(ask(&world, 0, &read).await.how.detail, Some(Detail::Stale));
        world.pass(2 * RUN_MS).await;
        assert_eq!((world.origin.runs(), words(&world.nodes[0])), (2, [1, 1, 0, 0, 0]));
        assert_eq!(world.nodes[0].events.count(|event| *event == Event::Late), 1);
    }
}

/// `only-if-cached` counts as a hit and asks the origin for nothing.
#[tokio::test(start_paused = true)]
async fn only_if_cached_refreshes_nothing() {
    let world = World::with_policy(1, 4, &early());
    let mut read = world.ask(READ);
    ask(&world, 0, &read).await;
    read.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    for _ in 0..TTL_MS / 10 - 20 {
        ask(&world, 0, &read).await;
        world.pass(10).await;
    }
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (1, [0; 5]));
}

/// A new copy's counting begins with the rate of the one before, also where memory forgot that one.
#[tokio::test(start_paused = true)]
async fn a_new_copy_knows_the_rate_of_the_one_before() {
    let world = World::with_policy(1, 18, &early());
    let read = world.ask(READ);
    let rate = || world.nodes[0].memory.get(&read.query.key).unwrap().heat().rate_per_s(sim_now());
    ask(&world, 0, &read).await;
    assert_eq!(rate(), None, "one run is no history");
    while world.origin.runs() == 1 {
        ask(&world, 0, &read).await;
        world.pass(20).await;
    }
    world.pass(2 * RUN_MS).await;
    assert_eq!(world.nodes[0].memory.get(&read.query.key).unwrap().heat().arrivals(), 0, "a new copy");
    assert!((25.0..75.0).contains(&rate().unwrap()), "{:?}, 50 a second before", rate());
    world.nodes[0].memory.forget_all();
    ask(&world, 0, &read).await;
    assert!((25.0..75.0).contains(&rate().unwrap()), "{:?}, from the store, 50 a second before", rate());
}
