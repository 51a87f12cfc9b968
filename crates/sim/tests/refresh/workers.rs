//! Workers, queue, retries, deadline, shutdown: that each keeps to its bound.

use hopcache_core::limits::{BODY_BYTES_UNRESERVED, REFRESH_CUT_MS, REFRESH_DROPPED_MS};

use super::{READ, RUN_MS, TTL_MS, ask, at_rest, balance, count, other, stale_world, version, with, words};
use crate::prelude::*;

/// I9: one worker, two places: of four stale keys one refreshes, two wait, the fourth is dropped and tries again.
#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_the_copy_tries_again() {
    let policy = with(|refresh| (refresh.workers, refresh.queue_max) = (1, 2));
    let statements: Vec<String> = (0..4).map(other).collect();
    let world = stale_world(5, &policy, &statements).await;
    for _ in 0..50 {
        for statement in &statements {
            assert_eq!(version(&ask(&world, 0, &world.ask(statement)).await), 1);
        }
    }
    let node = &world.nodes[0];
    assert_eq!(words(node), [3, 0, 0, 0, 1], "dropped once, not once for each hit");
    assert_eq!((node.engine.refresh().under_way(), node.engine.refresh().waiting()), (1, 2));
    world.pass(3 * RUN_MS + 50).await;
    assert_eq!(words(node), [3, 3, 0, 0, 1]);
    assert!(world.origin.under_way() == 0 && world.origin.runs() == 4 + 3);
    let began: Vec<_> = world.origin.runs_seen()[4..].iter().map(|run| run.statement.clone()).collect();
    assert_eq!(began, statements[..3], "in the order in which they came");
    world.pass(REFRESH_DROPPED_MS * 3 / 2).await;
    ask(&world, 0, &world.ask(&statements[3])).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(words(node), [4, 4, 0, 0, 1]);
    at_rest(&world);
}

/// I1: a hundred requests for a stale entry are answered at once, and one run refreshes it.
#[tokio::test(start_paused = true)]
async fn a_hundred_stale_hits_bring_about_one_run() {
    let world = stale_world(6, &default_policy(), &[READ.to_owned()]).await;
    let began = tokio::time::Instant::now();
    let sent: Vec<_> = (0..100).map(|_| world.send(0, &world.ask(READ))).collect();
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
    }
    assert_eq!(began.elapsed(), Millis(0).duration(), "nobody waited");
    world.pass(2 * RUN_MS).await;
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (2, [1, 1, 0, 0, 0]));
    assert_eq!(world.nodes[0].events.count(|event| *event == Event::Late), 1, "once for the copy");
    let took = world.nodes[0].events.count(|event| *event == Event::RefreshTook(Millis(RUN_MS)));
    assert_eq!(took, 1);
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    at_rest(&world);
}

/// F25: the origin is unreachable. Tries come at 0, then after 1, 2 and 4 s ± half, without any hit. The stale copy
/// stays. Between tries the key takes neither a worker nor a place in the queue.
#[tokio::test(start_paused = true)]
async fn a_failed_refresh_is_tried_again_with_back_off() {
    let policy = with(|refresh| (refresh.workers, refresh.queue_max) = (1, 0));
    let world = stale_world(7, &policy, &[READ.to_owned(), other(1)]).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    let triggered = sim_now();
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 1);
    world.pass(RUN_MS + 1).await;
    let node = &world.nodes[0];
    assert_eq!((words(node), node.engine.refresh().asleep()), ([1, 0, 0, 0, 0], 1));
    assert_eq!((node.engine.refresh().under_way(), node.engine.fetch().leases_held()), (0, 0));
    world.origin.set_behavior(OriginBehavior::Well);
    ask(&world, 0, &world.ask(&other(1))).await;
    world.pass(RUN_MS + 1).await;
    assert_eq!(count(node, RefreshWord::Completed), 1, "its worker was free for another key");
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    world.pass(12_000).await;
    assert_eq!(words(node), [2, 1, 1, 3, 0]);
    let seen = world.origin.runs_seen();
    let tries: Vec<_> = seen[2..].iter().filter(|run| run.statement == READ).map(|run| run.began).collect();
    assert_eq!((tries.len(), tries[0]), (4, triggered));
    for (retry, pair) in tries.windows(2).enumerate() {
        let pause_ms = pair[1].since(pair[0]).0 - RUN_MS;
        let usual_ms = REFRESH_RETRY_MS << retry;
        assert!((usual_ms / 2..=usual_ms * 3 / 2).contains(&pause_ms), "retry {retry} after {pause_ms} ms");
    }
    let outcome = ask(&world, 0, &world.ask(READ)).await;
    assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::StaleIfError)));
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(12_000).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2, "a later hit tried again");
    at_rest(&world);
}

/// An origin that hangs has a worker for no longer than the deadline, lease given back; the next one gets it.
#[tokio::test(start_paused = true)]
async fn a_hanging_origin_frees_the_worker_at_the_deadline() {
    let policy = with(|refresh| {
        (refresh.workers, refresh.timeout_ms, refresh.retries_max) = (1, Millis(2_000), 0);
    });
    let world = stale_world(8, &policy, &[READ.to_owned(), other(1)]).await;
    world.origin.set_delay_ms(25_000);
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(1).await;
    world.origin.set_delay_ms(RUN_MS);
    ask(&world, 0, &world.ask(&other(1))).await;
    let engine = Arc::clone(&world.nodes[0].engine);
    world.pass(1_900).await;
    assert_eq!(
        (engine.refresh().under_way(), engine.refresh().waiting(), engine.fetch().leases_held()),
        (1, 1, 1)
    );
    world.pass(REFRESH_CUT_MS + RUN_MS + 200).await;
    assert_eq!(words(&world.nodes[0]), [2, 1, 1, 0, 0], "the first was given up, the second ran");
    assert_eq!(version(&ask(&world, 0, &world.ask(&other(1))).await), 2);
    // A request's run has more time than a refresh. So a refresh that timed out does not hold the key back.
    engine.invalidate().purge(&Scope::All).await;
    world.origin.set_delay_ms(5_000);
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    committed(&world).await;
    at_rest(&world);
}

/// A flight finds a stale value while all workers are busy. It gives its lease back and waits in line: no more runs
/// than workers, for any number of stale keys in the store.
#[tokio::test(start_paused = true)]
async fn flights_that_find_stale_values_are_bounded_by_the_workers() {
    let policy = with(|refresh| (refresh.workers, refresh.queue_max) = (2, 100));
    let statements: Vec<String> = (0..20).map(other).collect();
    let world = stale_world(15, &policy, &statements).await;
    world.nodes[0].memory.forget_all();
    for statement in &statements {
        let outcome = ask(&world, 0, &world.ask(statement)).await;
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
        assert!(world.origin.under_way() <= 2);
    }
    let engine = &world.nodes[0].engine;
    assert_eq!((engine.refresh().under_way(), engine.refresh().waiting()), (2, 18));
    assert!(world.store.leases() <= 2, "waiting refreshes hold no lease");
    for _ in 0..12 {
        world.pass(RUN_MS).await;
        assert!(world.origin.under_way() <= 2);
    }
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (40, [20, 20, 0, 0, 0]));
    at_rest(&world);
}

/// At the end no refresh begins. Waiting and sleeping refreshes end at once, and give back their leases.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_refresh_that_does_not_run() {
    let policy = with(|refresh| (refresh.workers, refresh.retry_factor) = (1, 50.0));
    let world = stale_world(16, &policy, &[READ.to_owned(), other(1), other(2), other(3)]).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(RUN_MS + 1).await;
    world.origin.set_behavior(OriginBehavior::Well);
    ask(&world, 0, &world.ask(&other(1))).await;
    ask(&world, 0, &world.ask(&other(2))).await;
    let engine = Arc::clone(&world.nodes[0].engine);
    let held = (engine.refresh().asleep(), engine.refresh().under_way(), engine.refresh().waiting());
    assert_eq!(held, (1, 1, 1));
    balance(&world.nodes[0]);
    let began = tokio::time::Instant::now();
    engine.path().finish().await;
    assert!(began.elapsed() <= Millis(RUN_MS + 10).duration(), "{:?}", began.elapsed());
    assert_eq!((world.origin.runs(), world.store.leases()), (6, 0), "only what ran ended its run");
    for statement in [READ.to_owned(), other(3)] {
        assert_eq!(version(&ask(&world, 0, &world.ask(&statement)).await), 1);
    }
    assert_eq!(words(&world.nodes[0]), [3, 1, 2, 0, 0], "turned away, which is no full queue");
    at_rest(&world);
}

/// F37: Eve has more stale keys than there are workers and places, and each run takes the longest time of a try. Ann's
/// few quick keys are refreshed beside them at once. Without Ann, no other principal has less than Eve.
#[tokio::test(start_paused = true)]
async fn one_principal_leaves_workers_and_places_to_others() {
    let policy =
        with(|refresh| (refresh.workers, refresh.queue_max, refresh.timeout_ms) = (4, 100, Millis(30_000)));
    for is_ann_there in [true, false] {
        let world = World::with_policy(1, 31, &policy);
        let eves: Vec<_> =
            (0..110).map(|number| world.ask_as(&format!("{} // slow", other(number)), "eve")).collect();
        let anns: Vec<_> = (0..20).map(|number| world.ask_as(&other(number), "ann")).collect();
        let anns = if is_ann_there { anns } else { Vec::new() };
        for each in eves.iter().chain(&anns) {
            ask(&world, 0, each).await;
        }
        world.pass(TTL_MS + 1_000).await;
        world.origin.set_version(2);
        world.origin.set_slow("slow", 25_000);
        for each in &eves {
            ask(&world, 0, each).await;
        }
        let engine = &world.nodes[0].engine;
        let of_eve = if is_ann_there { 2 } else { 4 };
        assert_eq!(
            (engine.refresh().under_way(), engine.refresh().waiting()),
            (of_eve, 100),
            "the flood is queued"
        );
        for _ in 0..24 {
            for each in &anns {
                ask(&world, 0, each).await;
            }
            world.pass(1_000).await;
        }
        for each in &anns {
            assert_eq!(version(&ask(&world, 0, each).await), 2);
        }
        assert_eq!(count(&world.nodes[0], RefreshWord::Completed), anns.len(), "none of Eve's has ended yet");
        world.pass(2_000).await;
        assert_eq!(count(&world.nodes[0], RefreshWord::Completed), anns.len() + of_eve);
    }
}

/// I9: a request whose body takes room that others need does not wait in line with it.
#[tokio::test(start_paused = true)]
async fn a_heavy_request_has_no_place_in_line() {
    let policy = with(|refresh| refresh.workers = 1);
    let heavy = format!("{} // {}", other(1), "x".repeat(BODY_BYTES_UNRESERVED));
    let world = stale_world(32, &policy, &[READ.to_owned(), heavy.clone()]).await;
    ask(&world, 0, &world.ask(READ)).await;
    ask(&world, 0, &world.ask(&heavy)).await;
    assert_eq!((words(&world.nodes[0]), world.nodes[0].engine.refresh().waiting()), ([1, 0, 0, 0, 1], 0));
    world.pass(RUN_MS + REFRESH_DROPPED_MS * 3 / 2).await;
    ask(&world, 0, &world.ask(&heavy)).await;
    assert_eq!(world.nodes[0].engine.refresh().under_way(), 1, "at once");
    world.pass(2 * RUN_MS).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(&heavy)).await), 2);
    at_rest(&world);
}
