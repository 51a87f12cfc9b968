//! Races of a prefetch with purges, with the end of its node, and with each other, as schedules.

use super::*;
use hopcache_core::limits::LEASE_MS_DEFAULT;

/// I3: the prefetch reads X · the purge takes the lease, detaches the flight and empties memory · the store refuses the
/// commit. No request waited, so the prefetch is wasted. A request that comes now runs for itself.
#[tokio::test(start_paused = true)]
async fn a_purge_during_the_run_wastes_it() {
    let scene = Scene::alone(61, 1).await;
    let ask = scene.read(1);
    scene.launch(0, order(&ask));
    scene.world.pass(RUN_MS / 2).await;
    scene.node(0).engine.invalidate().purge(&Scope::Key(ask.query.key)).await;
    scene.world.origin.set_version(2);
    let after = scene.world.send(0, &ask);
    scene.world.pass(1).await;
    assert_eq!(scene.balanced(0), [1, 0, 0, 0], "it runs on without waiters");
    assert_eq!(version(&after.await.unwrap()), 2, "a request after the purge does not join it");
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!(scene.balanced(0), [1, 0, 0, 1]);
    assert_eq!(version(&scene.ask(0, &ask).await), 2);
    committed(&scene.world).await;
    let stored = |(key, _, commit): &(_, _, Commit)| *key == ask.query.key && *commit == Commit::Stored;
    assert_eq!(scene.world.store.commits().iter().filter(|each| stored(each)).count(), 1);
}

/// The same with a follower: it asked before the purge and gets the value from before it. The prefetch is late, once.
#[tokio::test(start_paused = true)]
async fn a_purge_after_somebody_joined_leaves_it_late() {
    let scene = Scene::alone(62, 1).await;
    let ask = scene.read(1);
    scene.launch(0, order(&ask));
    scene.world.pass(RUN_MS / 2).await;
    let before = scene.world.send(0, &ask);
    scene.world.pass(1).await;
    scene.node(0).engine.invalidate().purge(&Scope::All).await;
    scene.world.origin.set_version(2);
    assert_eq!(version(&before.await.unwrap()), 1);
    scene.world.pass(2 * RUN_MS).await;
    assert_eq!((scene.balanced(0), scene.has_copy(0, &ask)), ([1, 0, 1, 0], false));
}

/// A purge between the order and the lease: a value read after the purge is valid.
#[tokio::test(start_paused = true)]
async fn a_purge_before_the_lease_detaches_the_flight_and_keeps_nothing() {
    let scene = Scene::alone(63, 1).await;
    scene.world.origin.set_word_delay_ms(RUN_MS);
    let ask = scene.world.ask("MATCH (m) RETURN m.version AS version");
    scene.launch(0, order(&ask));
    scene.world.pass(RUN_MS / 2).await;
    scene.node(0).engine.invalidate().purge(&Scope::All).await;
    scene.world.pass(3 * RUN_MS).await;
    assert_eq!((scene.balanced(0), scene.has_copy(0, &ask)), ([1, 0, 0, 1], false));
    assert_eq!(scene.ask(0, &ask).await.how.class, Class::Hit, "the store has it");
}

/// F12: a leaving node drops its flights, after giving back their leases. The new owner answers the followers of a
/// prefetch.
#[tokio::test(start_paused = true)]
async fn a_leaving_node_drops_its_prefetches() {
    let scene = Scene::new(2, 64);
    scene.earn(0, 1).await;
    let ask = scene.read_of(0);
    // Within the time after which a prefetch is given up.
    scene.world.origin.set_delay_ms(900);
    scene.launch(0, order(&ask));
    scene.world.pass(500).await;
    let joined = scene.world.send(0, &ask);
    scene.world.pass(10).await;
    for node in &scene.world.nodes {
        node.routing.set(&[node_name(1).unwrap()]);
        node.engine.invalidate().ring_changed();
    }
    scene.node(0).engine.path().hand_on_flights(Millis(1_000)).await;
    assert_eq!(version(&joined.await.unwrap()), 1);
    assert_eq!(
        (scene.node(0).engine.fetch().leases_held(), scene.node(0).engine.prefetch().under_way()),
        (0, 0)
    );
    assert_eq!(scene.balanced(0), [1, 0, 1, 0]);
}

/// F2: a node is stopped past its lease and goes on: its result is refused, and its ticket wasted.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_stopped_past_its_lease_wastes_it() {
    let scene = Scene::new(2, 65);
    scene.earn(0, 1).await;
    let ask = scene.read_of(0);
    scene.launch(0, order(&ask));
    scene.world.pass(RUN_MS / 2).await;
    scene.node(0).process.set(Power::Paused);
    scene.world.pass(40_000).await;
    scene.node(1).routing.set(&[node_name(1).unwrap()]);
    scene.world.origin.set_version(2);
    assert_eq!(version(&scene.ask(1, &ask).await), 2);
    scene.node(0).process.set(Power::On);
    scene.world.pass(1_000).await;
    assert_eq!((scene.balanced(0), scene.has_copy(0, &ask)), ([1, 0, 0, 1], false));
}

/// A hundred clients come while the prefetch runs: one run, one late launch.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_joins_is_one_late_launch() {
    let scene = Scene::alone(67, 1).await;
    let (ask, runs) = (scene.read(1), scene.world.origin.runs());
    scene.launch(0, order(&ask));
    scene.world.pass(RUN_MS / 2).await;
    let sent: Vec<_> = (0..100).map(|_| scene.world.send(0, &ask)).collect();
    for sent in sent {
        assert_eq!(version(&sent.await.unwrap()), 1);
    }
    assert_eq!((scene.balanced(0), scene.world.origin.runs()), ([1, 0, 1, 0], runs + 1));
}

/// I5, "no client ever sees an error caused by prefetch": the server does not classify a prefetch's statement, or takes
/// long for it. A client that waits for the same classification, for that key or for another key of the text, asks for
/// itself and sees nothing of it.
#[tokio::test(start_paused = true)]
async fn a_word_that_a_prefetch_did_not_get_is_shown_to_nobody() {
    let unreachable = away();
    for (seed, delay_ms, fault) in [(68, RUN_MS, unreachable), (69, 1_000_000, OriginFault::TimedOut)] {
        let scene = Scene::alone(seed, 1).await;
        scene.world.origin.set_word_ahead(delay_ms, fault);
        let asks = [1, 2, 3].map(|id| {
            let params = Value::Map(vec![("id".to_owned(), Value::Int(id))]);
            scene
                .world
                .ask_with(params, ("neo4j", "MATCH (m {id: $id}) RETURN m.version AS version", "alice"))
        });
        assert_eq!(scene.launch(0, order(&asks[0])), Launch::Launched);
        scene.world.pass(RUN_MS / 2).await;
        let (began, kinds) = (sim_now(), scene.world.origin.kinds());
        let sent: Vec<_> = asks.iter().map(|ask| scene.world.send(0, ask)).collect();
        for sent in sent {
            assert_eq!(version(&sent.await.unwrap()), 1);
        }
        // For a pattern that never ran, the longest usual time is a guess.
        let waited = sim_now().since(began);
        assert!(waited <= Millis(delay_ms.min(LEASE_MS_DEFAULT) + 3 * RUN_MS), "{waited:?}");
        assert_eq!(scene.world.origin.kinds(), kinds, "the first run says it");
        let faults = scene.node(0).events.count(|event| matches!(event, Event::OriginFault(_)));
        assert_eq!((faults, scene.skips(0, Skip::Unclassified)), (0, 1));
        assert_eq!(scene.balanced(0), [0; 4]);
    }
}
