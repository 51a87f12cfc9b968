//! How a refresh ends when a lease, a node, the store, the statement or the entry is lost meanwhile.

use hopcache_core::limits::INVALIDATION_LOG_LEN_MAX;
use hopcache_engine::copy::SharedCopy;

use super::{READ, RUN_MS, TTL_MS, ask, at_rest, count, other, stale_world, version, with, words};
use crate::prelude::*;

/// F2, I3: the lease is lost in mid-refresh. The result is fenced and not kept; another node's value stays.
#[tokio::test(start_paused = true)]
async fn a_refresh_that_lost_its_lease_keeps_nothing() {
    let world = stale_world(9, &default_policy(), &[READ.to_owned()]).await;
    world.origin.set_delay_ms(2_000);
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(500).await;
    assert_eq!(world.origin.under_way(), 1);
    world.store.lose_everything();
    world.pass(2_000).await;
    let outcomes: Vec<_> = world.store.commits().into_iter().map(|(.., commit)| commit).collect();
    assert_eq!(outcomes, [Commit::Stored, Commit::Fenced], "the fault occurred");
    assert_eq!(words(&world.nodes[0]), [1, 0, 1, 0, 0]);
    let outcome = ask(&world, 0, &world.ask(READ)).await;
    assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)), "nothing is lost");
    world.pass(REFRESH_RETRY_MS * 3 / 2).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2_100).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    at_rest(&world);
}

/// F1, I7: the node that refreshes is killed. The next owner serves the stale value and refreshes it.
#[tokio::test(start_paused = true)]
async fn a_node_killed_in_a_refresh_is_followed_by_another() {
    let world = World::new(3, 10);
    let read = world.ask(READ);
    let owner = world.owner_of(&read);
    ask(&world, owner, &read).await;
    world.pass(TTL_MS + 1_000).await;
    world.origin.set_version(2);
    world.origin.set_delay_ms(1_000);
    ask(&world, owner, &read).await;
    world.pass(500).await;
    assert_eq!(
        (world.origin.runs(), world.nodes[owner].engine.fetch().leases_held()),
        (2, 1),
        "in mid-refresh"
    );
    world.nodes[owner].process.set(Power::Off);
    let entry = (owner + 1) % 3;
    let outcome = ask(&world, entry, &read).await;
    assert_eq!(
        (version(&outcome), outcome.how.detail),
        (1, Some(Detail::Stale)),
        "no delay with a stale copy"
    );
    let began = sim_now();
    while version(&ask(&world, entry, &read).await) == 1 {
        world.pass(100).await;
        assert!(sim_now().since(began) < Millis(12_000), "the lease lapses, or is taken from the dead");
    }
    assert_eq!(world.origin.runs(), 3);
}

/// F7: without the store no node has a lease, so none refreshes. The stale copy is served.
#[tokio::test(start_paused = true)]
async fn without_the_store_nothing_is_refreshed() {
    let world = stale_world(11, &default_policy(), &[READ.to_owned()]).await;
    world.store.set_down(true);
    for _ in 0..100 {
        let outcome = ask(&world, 0, &world.ask(READ)).await;
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
        world.pass(100).await;
    }
    let [triggered, completed, failed, retried, _] = words(&world.nodes[0]);
    assert_eq!((world.origin.runs(), completed, retried), (1, 0, 0));
    assert!((6..=20).contains(&triggered) && failed >= triggered - 1, "each pause one try: {triggered}");
    world.store.set_down(false);
    world.pass(2 * REFRESH_RETRY_MS).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    at_rest(&world);
}

/// I3: a key that is purged while its refresh waits in the queue, or sleeps before its next try, is not run at all.
#[tokio::test(start_paused = true)]
async fn a_purge_ends_a_refresh_that_waits_or_sleeps() {
    let policy = with(|refresh| refresh.workers = 1);
    let world = stale_world(12, &policy, &[READ.to_owned(), other(1)]).await;
    let engine = Arc::clone(&world.nodes[0].engine);
    ask(&world, 0, &world.ask(READ)).await;
    let waits = world.ask(&other(1));
    ask(&world, 0, &waits).await;
    assert_eq!(engine.refresh().waiting(), 1);
    engine.invalidate().purge(&Scope::Key(waits.query.key)).await;
    world.pass(3 * RUN_MS).await;
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (3, [2, 1, 1, 0, 0]), "only the first ran");

    world.pass(TTL_MS).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(RUN_MS + 1).await;
    assert_eq!((world.origin.runs(), engine.refresh().asleep()), (4, 1));
    engine.invalidate().purge(&Scope::All).await;
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(20_000).await;
    assert_eq!(world.origin.runs(), 4, "the one that slept did not run");
    assert_eq!(world.nodes[0].engine.path().sizes().copies, 0);
    at_rest(&world);
}

/// F27: the server refuses the statement now, for all or for this principal: no client gets the old value. A refusal of
/// credentials says nothing about the value.
#[tokio::test(start_paused = true)]
async fn a_statement_error_ends_the_old_value_everywhere() {
    let failure =
        |code: &str| Neo4jFailure { code: code.to_owned(), message: "no".to_owned(), as_sent: Vec::new() };
    let forbidden = failure("Neo.ClientError.Security.Forbidden");
    let world = stale_world(13, &default_policy(), &[READ.to_owned()]).await;
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(forbidden.clone())));
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 1);
    world.pass(2 * RUN_MS).await;
    assert_eq!(words(&world.nodes[0]), [1, 0, 1, 0, 0], "not tried again");
    let mut cached = world.ask(READ);
    cached.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    assert!(
        matches!(ask(&world, 0, &cached).await.answer, Answer::Failed(_)),
        "neither memory nor store has it"
    );
    assert!(matches!(ask(&world, 0, &world.ask(READ)).await.answer, Answer::Failed(_)));
    at_rest(&world);

    for fault in [
        OriginFault::Unauthorized(failure("Neo.ClientError.Security.Unauthorized")),
        OriginFault::Failed(failure("Neo.DatabaseError.General.UnknownError")),
        // The statement cannot be classified: the database is being made anew, or cannot begin a transaction.
        OriginFault::Failed(failure("Neo.ClientError.Database.DatabaseNotFound")),
        OriginFault::Failed(failure("Neo.ClientError.Transaction.TransactionStartFailed")),
        OriginFault::Failed(failure("Neo.ClientError.Cluster.NotALeader")),
        OriginFault::Failed(failure("Neo.ClientError.General.ForbiddenOnReadOnlyDatabase")),
    ] {
        let world = stale_world(14, &default_policy(), &[READ.to_owned()]).await;
        world.origin.set_behavior(OriginBehavior::Fault(fault));
        ask(&world, 0, &world.ask(READ)).await;
        world.pass(2 * RUN_MS).await;
        assert_eq!(words(&world.nodes[0]), [1, 0, 1, 0, 0]);
        assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 1, "the stale value stays");
    }
}

/// I9: a role is revoked, and between two reads of the invalidation log more of its stale keys are refused than the log
/// holds ([`INVALIDATION_LOG_LEN_MAX`]). All nodes forget them, and the log gets none of them.
#[tokio::test(start_paused = true)]
async fn a_revoked_role_does_not_overflow_the_log() {
    let policy = with(|refresh| refresh.queue_max = 2_000);
    let world = World::with_policy(3, 33, &policy);
    world.nodes.iter().for_each(|node| drop(follow(node)));
    world.origin.set_delay_ms(1);
    let asks: Vec<_> = (0..1_500).map(|number| world.ask(&other(number))).collect();
    for each in &asks {
        ask(&world, world.owner_of(each), each).await;
    }
    world.pass(TTL_MS + 1_000).await;
    let others: Vec<_> = (0..10).map(|number| world.ask_as(&other(number), "ann")).collect();
    for each in &others {
        ask(&world, world.owner_of(each), each).await;
    }
    let forbidden = said("Neo.ClientError.Security.Forbidden");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(forbidden)));
    for each in &asks {
        assert!(matches!(
            world.nodes[world.owner_of(each)].engine.path().answer(each).await.answer,
            Answer::Body(_)
        ));
    }
    world.pass(5_000).await;
    let failed: usize = world.nodes.iter().map(|node| count(node, RefreshWord::Failed)).sum();
    assert_eq!(failed, 1_500, "each was refused, by its owner");
    let copies: u64 = world.nodes.iter().map(|node| node.engine.path().sizes().copies).sum();
    assert_eq!(copies, 10, "the refused ones are gone, and the others are not");
    assert!(asks.len() > INVALIDATION_LOG_LEN_MAX);
    assert_eq!(world.store.logged(), 0);
    let runs = world.origin.runs();
    for each in &asks[..10] {
        let mut cached = each.clone();
        cached.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
        assert!(matches!(ask(&world, 0, &cached).await.answer, Answer::Failed(_)), "nor in the store");
    }
    for each in &others {
        assert_eq!(ask(&world, world.owner_of(each), each).await.how.class, Class::Hit);
    }
    assert_eq!(world.origin.runs(), runs);
    at_rest(&world);
}

/// F2: a node that no message reaches reads of a refusal in the log.
#[tokio::test(start_paused = true)]
async fn a_refusal_reaches_a_node_that_was_not_told() {
    let world = World::with_policy(2, 34, &default_policy());
    world.nodes.iter().for_each(|node| drop(follow(node)));
    let stale = world.ask(READ);
    let (owner, other) = (world.owner_of(&stale), 1 - world.owner_of(&stale));
    ask(&world, owner, &stale).await;
    let copy = world.nodes[owner].memory.get(&stale.query.key).unwrap();
    world.nodes[other].memory.put(stale.query.key, SharedCopy::clone(&copy), Millis(90_000));
    world.nodes[other].memory.put(world.ask("RETURN 1").query.key, copy, Millis(90_000));
    world.pass(TTL_MS + 1_000).await;
    let refused = said("Neo.ClientError.Schema.IndexNotFound");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(refused)));
    world.nodes[other].process.set(Power::Paused);
    ask(&world, owner, &stale).await;
    world.pass(5_000).await;
    assert_eq!(world.nodes[owner].engine.path().sizes().copies, 0);
    assert_eq!(world.store.logged(), 1);
    assert_eq!(world.nodes[other].engine.path().sizes().copies, 2, "the refusal did not reach it");
    world.nodes[other].process.set(Power::On);
    world.pass(1_000).await;
    assert!(world.nodes[other].memory.get(&stale.query.key).is_none());
    assert_eq!(world.nodes[other].engine.path().sizes().copies, 1, "it read of this one and forgot no other");
}

/// F4: a refresh that panics has failed as any other, and frees its worker.
#[tokio::test(start_paused = true)]
async fn a_refresh_that_panics_has_failed() {
    let policy = with(|refresh| refresh.workers = 1);
    let world = stale_world(17, &policy, &[READ.to_owned()]).await;
    world.origin.set_behavior(OriginBehavior::Panic(1));
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (2, [1, 0, 1, 0, 0]), "the panic occurred");
    at_rest(&world);
    world.pass(REFRESH_RETRY_MS * 3 / 2).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
}
