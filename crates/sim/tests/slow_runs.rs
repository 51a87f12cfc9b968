//! A run may take longer than its result lives: it answers all its waiters. Refusing a healthy origin's answer would
//! make the crowd run one after another, and the last requests would fail.

use crate::prelude::*;
use std::time::Duration;

use tokio::time::Instant;

const TTL_MS: u64 = 1_000;
const RUN_MS: u64 = 2_000;

/// A second of life by the operator's word, or by every client's hint.
fn short_lives() -> [(Policy, Hints); 2] {
    let by_policy = Policy { ttl_ms: Millis(TTL_MS), ..default_policy() };
    let by_hint = Hints { ttl_ms: Some(Millis(TTL_MS)), ..Hints::default() };
    [(by_policy, Hints::default()), (default_policy(), by_hint)]
}

/// Sends forty requests at once. Returns the number of runs, and the longest wait.
async fn forty(world: &World, ask: &Ask, node_of: impl Fn(usize) -> usize) -> (usize, Duration) {
    world.origin.set_delay_ms(RUN_MS);
    let (before, started) = (world.origin.runs(), Instant::now());
    let sent: Vec<_> = (0..40).map(|client| world.send(node_of(client), ask)).collect();
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        assert!(is_answered(&outcome), "{:?}: {:?}", outcome.how, outcome.answer);
    }
    (world.origin.runs() - before, started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_run_longer_than_its_results_life_answers_all_who_wait_for_it() {
    for (policy, hints) in short_lives() {
        let world = World::with_policy(1, 61, &policy);
        let ask = Ask { hints, ..world.ask(READ) };
        let (runs, waited) = forty(&world, &ask, |_| 0).await;
        assert_eq!(runs, 1);
        assert!(waited < Duration::from_millis(RUN_MS + 500), "{waited:?}");
    }
}

/// The requests go to a node that does not own the key, and to both nodes at once: then the forward may join the
/// owner's own flight.
#[tokio::test(start_paused = true)]
async fn so_it_does_behind_a_forward() {
    for (policy, hints) in short_lives() {
        let world = World::with_policy(2, 62, &policy);
        let ask = Ask { hints, ..world.ask(READ) };
        let other = 1 - world.owner_of(&ask);
        let (runs, waited) = forty(&world, &ask, |_| other).await;
        assert_eq!((runs, world.net.forwards()), (1, 1));
        assert!(waited < Duration::from_millis(RUN_MS + 500), "{waited:?}");
        world.pass(60_000).await;
        let ask = Ask { hints, ..world.ask("MATCH (m) RETURN m.version AS version") };
        let (runs, waited) = forty(&world, &ask, |client| client % 2).await;
        assert!(runs <= 2 && world.net.forwards() <= 4, "{runs} runs, {} forwards", world.net.forwards());
        assert!(waited < Duration::from_millis(2 * RUN_MS + 500), "{waited:?}");
    }
}

/// I4: a request that comes when the value could not be alive any more takes it from the next run.
#[tokio::test(start_paused = true)]
async fn who_comes_after_its_life_takes_the_next_runs() {
    let policy = Policy { ttl_ms: Millis(TTL_MS), ..default_policy() };
    for nodes in [1, 2] {
        let world = World::with_policy(nodes, 63, &policy);
        world.origin.set_delay_ms(5_000);
        let ask = world.ask(READ);
        let node = (world.owner_of(&ask) + 1) % nodes;
        let first = world.send(node, &ask);
        world.pass(3_000).await;
        let late: Vec<_> = (0..20).map(|_| world.send(node, &ask)).collect();
        let begun = Instant::now();
        world.pass(100).await;
        world.origin.set_version(2);
        assert!(is_answered(&first.await.unwrap()));
        for outcome in late {
            let outcome = outcome.await.unwrap();
            let Answer::Body(body) = &outcome.answer else { panic!("{:?}", outcome.how) };
            assert!(String::from_utf8_lossy(body).contains("[[2"), "of the first run: {body:?}");
        }
        assert_eq!(world.origin.runs(), 2);
        assert!(begun.elapsed() < Duration::from_millis(7_500), "{:?}", begun.elapsed());
    }
}

/// I4: a node is stopped, and a forward's answer lies unread for longer than TTL and grace. It answers the waiters from
/// before the stop, and no request from after it.
#[tokio::test(start_paused = true)]
async fn who_joins_a_forward_after_a_stop_does_not_get_what_is_old_by_then() {
    let world = World::new(2, 64);
    let ask = Ask { deadline: sim_now() + Millis(600_000), ..world.ask(READ) };
    let entry = 1 - world.owner_of(&ask);
    let early: Vec<_> = (0..2).map(|_| world.send(entry, &ask)).collect();
    world.pass(50).await;
    world.nodes[entry].process.set(Power::Paused);
    world.pass(100_000).await;
    world.origin.set_version(2);
    let late: Vec<_> = (0..10).map(|_| world.send(entry, &ask)).collect();
    world.pass(0).await;
    assert_eq!(world.net.forwards(), 1, "they joined the one that is unread");
    world.nodes[entry].process.set(Power::On);
    for outcome in early {
        assert!(is_answered(&outcome.await.unwrap()));
    }
    for outcome in late {
        let outcome = outcome.await.unwrap();
        let Answer::Body(body) = &outcome.answer else { panic!("{:?}", outcome.how) };
        assert!(String::from_utf8_lossy(body).contains("[[2"), "100 s old: {body:?}");
    }
}
