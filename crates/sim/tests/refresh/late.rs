//! Refreshes that come too late, and where this is reported: copies that expire unserved, results that are no values,
//! tries that do not count, and runs that outlast every request's longest wait.

use hopcache_core::limits::{LATE_MISS_MS_MAX, REFRESH_CUT_MS};
use hopcache_engine::event::{Cause, FaultWord};
use hopcache_engine::refresh_view::Timing;

use super::{READ, RUN_MS, TTL_MS, ask, at_rest, count, early, other, stale_world, version, with, words};
use crate::prelude::*;

fn lates(node: &NodeHandle) -> (usize, usize) {
    let count = |event| node.events.count(|each| *each == event);
    (count(Event::Late), count(Event::StaleServed))
}

/// The alert HopcacheNoStaleServed: with grace 0 by mistake, entries expire while hits flow, and no request gets a
/// stale one. Each such copy is late once. A seldom requested key is not.
#[tokio::test(start_paused = true)]
async fn without_grace_copies_are_late_and_none_is_served_stale() {
    let world = World::with_policy(1, 30, &Policy { grace: 0.0, ..default_policy() });
    let (node, read) = (&world.nodes[0], world.ask(READ));
    ask(&world, 0, &read).await;
    for window in 1..=10 {
        for _ in 0..6 {
            assert_eq!(ask(&world, 0, &read).await.how.class, Class::Hit);
            world.pass(TTL_MS / 6).await;
        }
        let asked: Vec<_> = (0..5)
            .map(|_| {
                world.send(0, &Ask { deadline: read.deadline + Millis(10 * TTL_MS * 60), ..read.clone() })
            })
            .collect();
        for each in asked {
            assert!(matches!(each.await.unwrap().how.class, Class::Miss { .. }));
        }
        assert_eq!(lates(node), (window, 0));
    }
    world.pass(TTL_MS + LATE_MISS_MS_MAX).await;
    ask(&world, 0, &read).await;
    assert_eq!(lates(node), (10, 0), "a seldom requested key is not late");
}

/// A client that accepts nothing stale causes a run that replaces the copy: late once, for any client. If another node
/// has stored a value in time, this node is not late.
#[tokio::test(start_paused = true)]
async fn a_copy_refused_by_max_stale_is_late_once() {
    let world = stale_world(31, &default_policy(), &[READ.to_owned()]).await;
    let mut strict = world.ask(READ);
    strict.freshness = Freshness { stale_max_ms: Some(Millis::ZERO), ..Freshness::default() };
    assert_eq!(version(&ask(&world, 0, &strict).await), 2);
    assert_eq!(lates(&world.nodes[0]), (1, 0));

    let world = World::with_policy(2, 32, &Policy { grace: 0.0, ..default_policy() });
    each_owns_all(&world);
    let read = world.ask(READ);
    for node in [0, 1] {
        ask(&world, node, &read).await;
    }
    world.pass(TTL_MS + 1_000).await;
    for node in [0, 1] {
        ask(&world, node, &read).await;
    }
    assert_eq!((lates(&world.nodes[0]), lates(&world.nodes[1])), ((1, 0), (0, 0)));
}

/// F24: the store's clock is set back, so the store takes the old entry for young. This is no refresh: it is not kept
/// and not completed. The copy keeps its age and its end (I4).
#[tokio::test(start_paused = true)]
async fn the_value_that_is_to_be_replaced_completes_nothing() {
    let world = stale_world(33, &default_policy(), &[READ.to_owned()]).await;
    world.store.jump(-3_600_000);
    let age_ms = ask(&world, 0, &world.ask(READ)).await.how.age_ms.unwrap();
    world.pass(2 * RUN_MS).await;
    let outcome = ask(&world, 0, &world.ask(READ)).await;
    assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
    assert!(outcome.how.age_ms.unwrap() > age_ms, "{outcome:?}");
    assert_eq!(
        (world.origin.runs(), words(&world.nodes[0])),
        (1, [1, 0, 1, 0, 0]),
        "no run, and none completed"
    );
    at_rest(&world);
}

/// With one timeout for both, which is the default, a refresh that times out counts as a failure of its key, as any run does.
#[tokio::test(start_paused = true)]
async fn a_refresh_with_the_whole_time_of_a_run_counts_as_a_failure() {
    for (timeout_ms, is_held_back) in [(30_000, true), (20_000, false)] {
        let policy = with(|refresh| (refresh.timeout_ms, refresh.retries_max) = (Millis(timeout_ms), 0));
        let world = stale_world(34, &Policy { grace: 10.0, ..policy }, &[READ.to_owned()]).await;
        world.origin.set_delay_ms(100_000);
        world
            .store
            .set_weather(hopcache_sim::world::store::Weather { delay_ms_max: 40, ..Default::default() });
        ask(&world, 0, &world.ask(READ)).await;
        // Less than the shortest pause after it.
        world.pass(timeout_ms + 100).await;
        assert_eq!(words(&world.nodes[0]), [1, 0, 1, 0, 0]);
        let mut anew = world.ask(READ);
        anew.freshness = Freshness { no_cache: true, ..Freshness::default() };
        world.origin.set_delay_ms(RUN_MS);
        ask(&world, 0, &anew).await;
        let held_back = world.nodes[0].events.count(|event| *event == Event::HeldBack);
        assert_eq!(held_back == 1, is_held_back, "{timeout_ms}");
    }
}

/// An origin that does not keep to its deadline: the run is dropped at the cut, and counted as the one that timed out.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_cut_is_counted() {
    let policy = with(|refresh| (refresh.timeout_ms, refresh.retries_max) = (Millis(2_000), 0));
    let world = stale_world(35, &policy, &[READ.to_owned()]).await;
    world.origin.set_behavior(OriginBehavior::Deaf);
    world.origin.set_delay_ms(20_000);
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2_000 + REFRESH_CUT_MS + 1).await;
    let node = &world.nodes[0];
    assert_eq!(
        (world.origin.runs(), world.origin.under_way(), words(node)),
        (2, 0, [1, 0, 1, 0, 0]),
        "it was cut"
    );
    let runs = node.events.count(|event| matches!(event, Event::OriginRun { cause: Cause::Refresh, .. }));
    let faults = node.events.count(|event| *event == Event::OriginFault(FaultWord::TimedOut));
    assert_eq!((runs, faults), (1, 1));
    assert_eq!(ask(&world, 0, &world.ask(READ)).await.how.detail, Some(Detail::StaleIfError));
    at_rest(&world);
}

/// The server's classification of an unknown text uses a part of the refresh's time. The run gets the rest; if nothing
/// is left, no run begins.
#[tokio::test(start_paused = true)]
async fn a_slow_word_leaves_a_run_less_time() {
    for (word_ms, run_ms) in [(1_500, Some(500)), (2_100, None)] {
        let policy = with(|refresh| (refresh.timeout_ms, refresh.retries_max) = (Millis(2_000), 0));
        let world = World::with_policy(2, 39, &policy);
        each_owns_all(&world);
        ask(&world, 0, &world.ask(READ)).await;
        world.pass(TTL_MS + 1_000).await;
        world.origin.set_word_delay_ms(word_ms);
        world.origin.set_delay_ms(20_000);
        let outcome = ask(&world, 1, &world.ask(READ)).await;
        assert_eq!(outcome.how.detail, Some(Detail::Stale), "met in the store");
        world.pass(2_000 + REFRESH_CUT_MS + 1).await;
        let node = &world.nodes[1];
        assert_eq!((world.origin.kinds(), words(node)), (2, [1, 0, 1, 0, 0]));
        let took = |run_ms| {
            node.events
                .count(|event| *event == Event::OriginRun { cause: Cause::Refresh, took_ms: Millis(run_ms) })
        };
        assert_eq!(world.origin.runs(), 1 + usize::from(run_ms.is_some()));
        assert_eq!(run_ms.map_or(1, took), 1);
        assert_eq!(node.events.count(|event| *event == Event::OriginFault(FaultWord::TimedOut)), 1);
        at_rest(&world);
    }
}

/// A try that finds its key held back runs nothing: it does not count as a retry, and costs none.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_key_that_is_held_back_is_no_try() {
    let policy = with(|refresh| (refresh.workers, refresh.retries_max) = (1, 1));
    let world = stale_world(36, &Policy { grace: 10.0, ..policy }, &[READ.to_owned(), other(1)]).await;
    world.origin.set_delay_ms(10_000);
    ask(&world, 0, &world.ask(READ)).await;
    ask(&world, 0, &world.ask(&other(1))).await;
    world.pass(1).await;
    let engine = &world.nodes[0].engine;
    assert_eq!((engine.refresh().under_way(), engine.refresh().waiting()), (1, 1));
    // While it waits in line, a request's own runs of its key bring nothing.
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Cut("seeded".to_owned())));
    let mut anew = world.ask(&other(1));
    anew.freshness = Freshness { no_cache: true, ..Freshness::default() };
    world.origin.set_delay_ms(10);
    for _ in 0..49 {
        ask(&world, 0, &anew).await;
        world.pass(190).await;
    }
    world.pass(700).await;
    let runs = world.origin.runs();
    assert_eq!(
        (engine.refresh().asleep(), count(&world.nodes[0], RefreshWord::Retried)),
        (1, 0),
        "held back"
    );
    super::balance(&world.nodes[0]);
    // Its first try is a transient failure, its one retry brings the value.
    while world.origin.runs() == runs {
        world.pass(10).await;
    }
    world.pass(50).await;
    assert_eq!(count(&world.nodes[0], RefreshWord::Retried), 0, "a first try is no retry");
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(60_000).await;
    assert_eq!(words(&world.nodes[0]), [2, 2, 0, 1, 0]);
    at_rest(&world);
}

/// `explain` shows the engine's decision: no plan and no probability for a key that is not refreshed early.
#[tokio::test(start_paused = true)]
async fn explain_shows_no_plan_where_there_is_none() {
    let short = Some(Millis(50_000));
    for (ttl_ms, hint, expected) in [
        (TTL_MS, None, None),
        (TTL_MS - 1, None, Some(Timing::BelowMinTtl)),
        (TTL_MS, short, Some(Timing::BelowMinTtl)),
    ] {
        let world = World::with_policy(1, 37, &Policy { ttl_ms: Millis(ttl_ms), ..early() });
        let read = Ask { hints: Hints { ttl_ms: hint, ..Hints::default() }, ..world.ask(READ) };
        ask(&world, 0, &read).await;
        // Just before its end, where any plan gives a good chance.
        world.pass(hint.map_or(ttl_ms, |ttl| ttl.0) - RUN_MS - 1).await;
        for hints in
            [Hints::default(), Hints { volatility: Some(9.0), degree: Some(100), ..Hints::default() }]
        {
            let view = world.nodes[0].engine.path().explain(&read.query, hints).await.refresh;
            match expected {
                Some(timing) => assert_eq!((view.timing, view.probability), (timing, Some(0.0)), "{hints:?}"),
                None => {
                    assert!(
                        matches!(view.timing, Timing::Planned(_)) && view.probability > Some(0.9),
                        "{view:?}"
                    );
                }
            }
        }
    }

    // A copy that the store never took.
    let policy = early();
    let world = World::with_policy(
        1,
        38,
        &Policy {
            ttl_ms: Millis(1_500),
            refresh: hopcache_engine::RefreshPolicy { ttl_ms_min: Millis(1_000), ..policy.refresh },
            ..policy
        },
    );
    world.store.set_down(true);
    let read = world.ask(READ);
    ask(&world, 0, &read).await;
    let view = world.nodes[0].engine.path().explain(&read.query, Hints::default()).await.refresh;
    assert_eq!((view.timing, view.probability), (Timing::NotStored, Some(0.0)));
}
