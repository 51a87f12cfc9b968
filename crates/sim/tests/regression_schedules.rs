//! Schedules that the simulator found, written out by hand, so that their defects stay fixed for any draws of the
//! seeds. `regression_seeds.rs` has the seeds.

use hopcache_core::limits::DEGRADED_TTL_MS;

use crate::prelude::*;

/// I4, F2: a process is stopped between the store's read of an entry and its own use of it. It takes the entry for as
/// old as it is.
#[tokio::test(start_paused = true)]
async fn a_stored_entrys_age_goes_on_while_its_reader_is_stopped() {
    let world = World::new(1, 41);
    world.send(0, &world.ask(READ)).await.unwrap();
    committed(&world).await;
    world.nodes[0].memory.forget_all();
    world.origin.set_version(2);
    world.pass(50_000).await;
    world.store.set_weather(Weather { delay_ms_max: 40, ..Weather::default() });
    let mut ask = world.ask(READ);
    ask.deadline = sim_now() + Millis(600_000);
    let reads = world.send(0, &ask);
    world.pass(1).await;
    world.nodes[0].process.set(Power::Paused);
    world.pass(100_000).await;
    assert!(!reads.is_finished(), "it was stopped in mid-command");
    world.nodes[0].process.set(Power::On);
    assert_eq!(version_or_failure(&reads.await.unwrap()), "2", "150 s old, dead after 90");
}

/// F8: a request that shares no forward ends by its deadline, however many nodes are silent.
#[tokio::test(start_paused = true)]
async fn a_request_with_max_age_keeps_its_deadline_behind_a_cut() {
    let world = World::new(3, 43);
    let mut ask = world.ask(READ);
    let entry = (world.owner_of(&ask) + 1) % 3;
    for other in (0..3).filter(|other| *other != entry) {
        world.net.set_way_cut(entry, other, true);
    }
    ask.freshness = Freshness { age_max_ms: Some(Millis(1_000)), ..Freshness::default() };
    let asked = sim_now();
    ask.deadline = asked + Millis(200);
    let outcome = world.send(entry, &ask).await.unwrap();
    let Answer::Failed(failure) = &outcome.answer else { unreachable!("the way is cut: {outcome:?}") };
    assert_eq!(failure.kind, FailureKind::DeadlinePassed);
    assert!(sim_now().since(asked) <= Millis(250), "{:?}", sim_now().since(asked));
}

/// I2: a waiter meets single silences, with answers in between. It goes on waiting for the holder.
#[tokio::test(start_paused = true)]
async fn scattered_silences_are_no_lost_store() {
    let world = World::new(2, 44);
    each_owns_all(&world);
    world.origin.set_delay_ms(20_000);
    let leads = world.send(0, &world.ask(READ));
    world.pass(100).await;
    // One command in eight is lost: never four in a row here, many more than four in all.
    world.store.set_weather(Weather { lost_asks: 125, ..Weather::default() });
    let waits = world.send(1, &world.ask(READ));
    world.pass(15_000).await;
    world.store.set_weather(Weather::default());
    assert_eq!(version_or_failure(&waits.await.unwrap()), "1");
    assert_eq!(version_or_failure(&leads.await.unwrap()), "1");
    let silent =
        |event: &hopcache_engine::event::Event| matches!(event, hopcache_engine::event::Event::StoreFault);
    assert!(world.nodes[1].events.count(silent) > 4, "the fault occurred");
    assert_eq!(world.origin.runs(), 1, "no node ran beside the holder");
}

/// I4, F2: a request without a TTL limit does not get a value that lay in a stopped node's socket for longer than any
/// answer may be old.
#[tokio::test(start_paused = true)]
async fn a_wish_for_no_ttl_takes_no_answer_that_is_too_old() {
    let world = World::new(2, 45);
    let mut ask = world.ask(READ);
    ask.deadline = sim_now() + Millis(600_000);
    let asker = 1 - world.owner_of(&ask);
    let first = world.send(asker, &ask);
    world.pass(5).await;
    world.nodes[asker].process.set(Power::Paused);
    world.origin.set_version(2);
    world.pass(200_000).await;
    assert!(!first.is_finished(), "it was stopped with the answer unread");
    ask.hints.ttl_ms = Some(Millis::ZERO);
    let second = world.send(asker, &ask);
    world.pass(1).await;
    world.nodes[asker].process.set(Power::On);
    assert_eq!(version_or_failure(&second.await.unwrap()), "2", "the other is 200 s old, dead after 90");
    assert_eq!(
        version_or_failure(&first.await.unwrap()),
        "1",
        "a request that waited all the time may have it"
    );
}

/// F2: a holder is stopped past its lease and wakes without its store. Its result answers its own waiters and no other
/// request: another node has led meanwhile, and read a newer value.
#[tokio::test(start_paused = true)]
async fn a_result_past_its_lease_is_not_kept_without_the_store() {
    let world = World::new(2, 46);
    each_owns_all(&world);
    let mut ask = world.ask(READ);
    ask.deadline = sim_now() + Millis(600_000);
    let waits = world.send(0, &ask);
    world.pass(5).await;
    world.nodes[0].process.set(Power::Paused);
    world.origin.set_version(2);
    assert_eq!(
        version_or_failure(&world.send(1, &ask).await.unwrap()),
        "2",
        "its lease has lapsed, and the other led"
    );
    assert!(!waits.is_finished(), "it was stopped in mid-run");
    world.store.set_cut(0, true);
    world.nodes[0].process.set(Power::On);
    let late = waits.await.unwrap();
    assert_eq!(version_or_failure(&late), "1", "read before the change");
    assert_eq!(late.how.class, Class::Miss { kept: Kept::Fenced, role: Role::Led }, "by its own clock");
    assert_eq!(late.how.detail, Some(Detail::Degraded));
    assert_eq!(version_or_failure(&world.send(0, &ask).await.unwrap()), "2", "the old one was kept");
    world.store.set_cut(0, false);
    let other = world.send(1, &ask).await.unwrap();
    assert_eq!((version_or_failure(&other).as_str(), other.how.class), ("2", Class::Hit));
}

/// F7: the store fails in mid-run. A result within its own lease is kept for the degraded TTL: one run in that time,
/// not one for each request.
#[tokio::test(start_paused = true)]
async fn a_result_within_its_lease_is_kept_briefly_without_the_store() {
    let world = World::new(1, 47);
    let ask = world.ask(READ);
    let waits = world.send(0, &ask);
    world.pass(5).await;
    world.store.set_cut(0, true);
    let first = waits.await.unwrap();
    assert_eq!(first.how.class, Class::Miss { kept: Kept::Stored, role: Role::Led }, "its commit waits");
    committed(&world).await;
    let began = sim_now();
    while sim_now().since(began) < Millis(DEGRADED_TTL_MS - COMMIT_WAIT_MS_MAX - 300) {
        world.pass(100).await;
        let hit = world.send(0, &ask).await.unwrap();
        assert_eq!((hit.how.class, hit.how.detail), (Class::Hit, Some(Detail::Degraded)));
    }
    assert_eq!(world.origin.runs(), 1);
    world.pass(COMMIT_WAIT_MS_MAX + 300).await;
    world.send(0, &ask).await.unwrap();
    assert_eq!(world.origin.runs(), 2, "kept for longer than the degraded TTL");
}
