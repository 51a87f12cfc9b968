//! A leaving node hands on its flights, refreshes and plans (F12).

use super::*;

/// F12: the leaving node drops a flight that does not end, after giving back its lease. The new owner answers every
/// follower: this node's own client and another node's.
#[tokio::test(start_paused = true)]
async fn flights_are_handed_on_and_answered() {
    let scene = Scene::new(11).await;
    scene.join();
    scene.node(scene.former).memory.forget_all();
    scene.world.store.lose_everything();
    scene.world.origin.set_delay_ms(5_000);
    let leaving = scene.new;
    let asked = [leaving, leaving, scene.third].map(|node| scene.world.send(node, &scene.ask));
    scene.world.pass(1_000).await;
    assert_eq!((scene.world.store.leases(), scene.world.origin.under_way()), (1, 1));
    scene.ring_without(Some(leaving));
    assert_eq!(scene.node(leaving).engine.path().hand_on_flights(Millis(1_000)).await, 1);
    assert_eq!(scene.node(leaving).engine.fetch().leases_held(), 0);
    let begun = tokio::time::Instant::now();
    for outcome in asked {
        assert!(matches!(outcome.await.unwrap().answer, Answer::Body(_)));
    }
    assert!(begun.elapsed() < Millis(5_500).duration(), "the new owner led at once: {:?}", begun.elapsed());
    assert_eq!(scene.world.origin.runs(), 3, "the first copy's, the dropped one and the new owner's");
    assert_eq!(scene.handed_over(leaving, HandoverWord::HandedOn), 3);
    // No flight leads there any more.
    let late = scene.world.ask("MATCH (n) RETURN n.version AS late");
    assert!(matches!(scene.world.send(leaving, &late).await.unwrap().answer, Answer::Body(_)));
    assert_eq!(scene.node(leaving).engine.fetch().leases_held(), 0);
    scene.lease_is_gone().await;
}

/// F12, I2: the node drops a running refresh with the flights, after giving back its lease. The new owner refreshes at
/// once.
#[tokio::test(start_paused = true)]
async fn refreshes_are_given_up_with_the_flights() {
    let mut scene = Scene::new(14).await;
    let leaving = scene.former;
    scene.world.origin.set_delay_ms(5_000);
    scene.world.pass(60_000).await;
    scene.ask = scene.world.ask(READ);
    assert_eq!(scene.answered(leaving).await.how.detail, Some(Detail::Stale));
    scene.world.pass(1_000).await;
    let engine = &scene.node(leaving).engine;
    assert_eq!((engine.refresh().under_way(), scene.world.origin.under_way()), (1, 1));
    assert_eq!(scene.world.store.leases(), 1);
    scene.ring_without(Some(leaving));
    assert_eq!(engine.path().hand_on_flights(Millis(1_000)).await, 0, "no request waits for it");
    scene.lease_is_gone().await;
    assert_eq!((engine.refresh().begun(), scene.world.origin.under_way()), (0, 0));
    assert_eq!(scene.answered(scene.new).await.how.detail, Some(Detail::Stale));
    scene.world.pass(6_000).await;
    assert_eq!(scene.world.origin.runs(), 3, "the first copy's, the dropped one and the new owner's");
    assert_eq!(scene.answered(scene.new).await.how.class, Class::Hit);
}

/// F12: a refresh that waits for another node's lease gives up, and does not take the lease when it becomes free.
#[tokio::test(start_paused = true)]
async fn refreshes_that_wait_for_a_lease_do_not_take_it_later() {
    let mut scene = Scene::new(15).await;
    let leaving = scene.former;
    scene.world.origin.set_delay_ms(5_000);
    scene.world.pass(60_000).await;
    scene.ask = scene.world.ask(READ);
    // Only the new node knows yet that it is in the ring.
    let all: Vec<NodeName> = (0..3).filter_map(node_name).collect();
    scene.node(scene.new).routing.set(&all);
    scene.node(scene.new).engine.invalidate().ring_changed();
    assert_eq!(scene.answered(scene.new).await.how.detail, Some(Detail::Stale));
    scene.world.pass(1_000).await;
    assert_eq!(scene.answered(leaving).await.how.detail, Some(Detail::Stale));
    scene.world.pass(1_000).await;
    let engine = &scene.node(leaving).engine;
    assert_eq!(
        (engine.refresh().under_way(), engine.fetch().leases_held()),
        (1, 0),
        "the new owner's run goes on"
    );
    scene.ring_without(Some(leaving));
    engine.path().hand_on_flights(Millis(1_000)).await;
    scene.node(scene.new).engine.fetch().give_back_leases().await;
    scene.world.pass(1_000).await;
    assert_eq!((engine.refresh().begun(), engine.fetch().leases_held()), (0, 0));
    assert_eq!((scene.world.store.leases(), scene.world.origin.runs()), (0, 2), "nobody leads again");
}

/// The last node has no other node to send followers to, so its flights go on.
#[tokio::test(start_paused = true)]
async fn the_last_node_keeps_its_flights() {
    let world = World::new(1, 12);
    let ask = world.ask(READ);
    world.origin.set_delay_ms(2_000);
    let asked = world.send(0, &ask);
    world.pass(100).await;
    world.nodes[0].routing.set(&[]);
    world.nodes[0].engine.invalidate().ring_changed();
    assert_eq!(world.nodes[0].engine.path().hand_on_flights(Millis(1_000)).await, 0);
    assert!(matches!(asked.await.unwrap().answer, Answer::Body(_)));
    assert_eq!(world.origin.runs(), 1);
}

/// F12: from its first hit on, the new owner has the leaving node's plan of a hot key.
#[tokio::test(start_paused = true)]
async fn the_refresh_plan_of_a_hot_key_moves_with_it() {
    let scene = Scene::new(13).await;
    for _ in 0..200 {
        scene.answered(scene.former).await;
        scene.world.pass(10).await;
    }
    scene.join();
    let view = scene.node(scene.new).engine.view();
    assert_eq!(scene.node(scene.former).engine.path().tell_plans(&view).await, 1);
    assert_eq!(scene.handed_over(scene.former, HandoverWord::Notified(1)), 1);
    assert_eq!(scene.handed_over(scene.new, HandoverWord::Learned(1)), 1);
    scene.answered(scene.new).await;
    let seen = scene.node(scene.new).engine.path().explain(&scene.ask.query, Hints::default()).await;
    let facts = seen.refresh.copy.expect("a copy at the new owner").facts;
    let rate = facts.rate_per_s.expect("its rate is known");
    assert!((50.0..200.0).contains(&rate), "{rate} a second, of 100");
    assert!(facts.cost.mean_ms > 1.0 && facts.cost.tail_ms > facts.cost.mean_ms, "{:?}", facts.cost);
}
