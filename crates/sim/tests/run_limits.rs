//! A client's own limit for a run (`maxExecutionTime`): its run ends there, and no other run does.

use crate::prelude::*;
use tokio::time::Instant;

const LIMIT_MS: u64 = 1_000;
const RUN_MS: u64 = 5_000;

/// As the front says it: a run and as much again, and a second.
fn limited(ask: Ask, limit_ms: u64) -> Ask {
    let deadline = sim_now() + Millis(2 * limit_ms + 1_000);
    Ask { run_ms_max: Some(Millis(limit_ms)), deadline, ..ask }
}

fn world(nodes: usize, seed: u64) -> World {
    let world = World::new(nodes, seed);
    world.origin.set_delay_ms(RUN_MS);
    world
}

/// G3: in Neo4j's words, so that no driver repeats what has used up its own time. Of a write nobody knows whether it was enough.
fn own_limit() -> FailureKind {
    FailureKind::Neo4j(Neo4jFailure::clients_time_is_over())
}

/// On every path: at the owner, behind a forward, `no-cache`, past the cache, a write.
#[tokio::test(start_paused = true)]
async fn a_run_ends_at_its_clients_limit() {
    let world = world(2, 81);
    let asks = |statement: &str| limited(world.ask(statement), LIMIT_MS);
    let no_cache = Freshness { no_cache: true, ..Freshness::default() };
    for (path, ask) in [
        ("a miss", asks(READ)),
        ("no-cache", Ask { freshness: no_cache, ..asks("MATCH (m) RETURN m") }),
        ("no-store", Ask { bypass: Some(RequestBypass::NoStore), ..asks("MATCH (k) RETURN k") }),
        ("a write", asks("CREATE (n) RETURN n")),
    ] {
        for node in 0..2 {
            let ask = limited(ask.clone(), LIMIT_MS);
            let (began, runs) = (Instant::now(), world.origin.runs());
            let outcome = world.send(node, &ask).await.unwrap();
            let expected = if path == "a write" { FailureKind::OriginTimedOut } else { own_limit() };
            assert_eq!(failure(&outcome), expected, "{path}");
            let took_ms = began.elapsed().as_millis();
            assert!((1_000..1_300).contains(&took_ms), "{path} at node {node}: {took_ms} ms");
            assert_eq!(
                world.origin.runs() - runs,
                1,
                "{path}: a key that one client gave up is not held back"
            );
        }
    }
}

/// I1: a thousand clients with one limit share one run. Clients with a longer limit, or none, share one more.
#[tokio::test(start_paused = true)]
async fn clients_with_other_limits_are_not_cut_short_and_share_the_next_run() {
    for (seed, nodes) in [(82, 1), (83, 3)] {
        let world = world(nodes, seed);
        let began = Instant::now();
        let hasty = limited(world.ask(READ), LIMIT_MS);
        let early: Vec<_> = (0..1_000).map(|client| world.send(client % nodes, &hasty)).collect();
        world.pass(10).await;
        let patient: Vec<_> = (0..1_000).map(|client| world.send(client % nodes, &world.ask(READ))).collect();
        for outcome in early {
            assert_eq!(failure(&outcome.await.unwrap()), own_limit());
        }
        for outcome in patient {
            let outcome = outcome.await.unwrap();
            assert!(is_answered(&outcome), "{:?} {:?}", outcome.answer, outcome.how);
        }
        assert_eq!(world.origin.runs(), 2, "one of those with the limit, one of those without");
        let took_ms = began.elapsed().as_millis();
        assert!(took_ms < u128::from(LIMIT_MS + RUN_MS + 500), "{took_ms} ms");
        assert!(is_answered(&world.send(0, &world.ask(READ)).await.unwrap()));
        assert_eq!(world.origin.runs(), 2, "stored");
    }
}

/// A client that joins a longer run waits for its own limit and the longest wait for a slot. The run goes on.
#[tokio::test(start_paused = true)]
async fn who_joins_a_longer_run_waits_by_its_own_limit() {
    for nodes in [1, 2] {
        let world = world(nodes, 84);
        let patient: Vec<_> = (0..nodes).map(|node| world.send(node, &world.ask(READ))).collect();
        world.pass(10).await;
        let began = Instant::now();
        let hasty = limited(world.ask(READ), LIMIT_MS);
        for outcome in (0..nodes).map(|node| world.send(node, &hasty)).collect::<Vec<_>>() {
            assert_eq!(failure(&outcome.await.unwrap()), own_limit());
        }
        assert!(began.elapsed().as_millis() <= 3_500, "{:?}", began.elapsed());
        for outcome in patient {
            assert!(is_answered(&outcome.await.unwrap()));
        }
        assert_eq!(world.origin.runs(), 1);
    }
}

/// A stale answer is refreshed for all clients, not under the limit of the client that began it. A run that one client
/// did not wait for is no outage of the origin, and stale answers do not say so.
#[tokio::test(start_paused = true)]
async fn a_refresh_has_no_clients_limit() {
    let world = world(1, 85);
    world.origin.set_delay_ms(100);
    assert!(is_answered(&world.send(0, &world.ask(READ)).await.unwrap()));
    world.origin.set_delay_ms(RUN_MS);
    world.pass(70_000).await;
    world.origin.set_version(2);
    let stale = world.send(0, &limited(world.ask(READ), LIMIT_MS)).await.unwrap();
    assert!(is_answered(&stale), "{:?}", stale.answer);
    world.pass(2 * RUN_MS).await;
    let outcome = world.send(0, &world.ask(READ)).await.unwrap();
    let Answer::Body(body) = &outcome.answer else { panic!("{:?}", outcome.answer) };
    assert!(String::from_utf8_lossy(body).contains("[[2"), "{body:?}");
}
