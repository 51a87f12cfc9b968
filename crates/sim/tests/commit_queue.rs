//! A result is answered before its commit: what readers see meanwhile, what is committed first all the same, and how the queue
//! ends.

use hopcache_core::limits::{COMMIT_LOAD_WAIT_MS, HANDOVER_MS, LEASE_MS_DEFAULT};
use hopcache_engine::message::{Question, encode_question};

use crate::prelude::*;

const RUN_MS: u64 = 100;

fn stored(world: &World) -> usize {
    world.store.commits().iter().filter(|(_, _, commit)| *commit == Commit::Stored).count()
}

fn noted(world: &World, node: usize, kept: Kept) -> usize {
    world.nodes[node].events.count(|event| *event == Event::Commit(kept))
}

fn kept(outcome: &Outcome) -> Option<Kept> {
    match outcome.how.class {
        Class::Miss { kept, .. } => Some(kept),
        _ => None,
    }
}

fn reads(world: &World, count: usize) -> Vec<Ask> {
    (0..count).map(|n| world.ask(&format!("MATCH (n{n}) RETURN n{n}.version AS version"))).collect()
}

fn queued(world: &World, node: usize) -> usize {
    world.nodes[node].engine.fetch().commits_queued()
}

/// At a low rate a commit waits for a poll of the store, 250 ms at most. The lease is held until then.
#[tokio::test(start_paused = true)]
async fn the_answer_comes_before_the_commit() {
    let world = World::new(1, 1_001);
    let ask = world.ask(READ);
    assert_eq!(kept(&read(&world, 0, &ask).await), Some(Kept::Stored));
    assert_eq!((stored(&world), world.store.leases(), queued(&world, 0)), (0, 1, 1));
    assert_eq!(read(&world, 0, &ask).await.how.class, Class::Hit);
    assert_eq!(noted(&world, 0, Kept::Stored), 0, "it is counted when the store has it");
    world.pass(COMMIT_WAIT_MS_MAX - 10).await;
    assert_eq!(stored(&world), 0);
    world.pass(11).await;
    assert_eq!((stored(&world), world.store.leases(), queued(&world, 0)), (1, 0, 0));
    assert_eq!((noted(&world, 0, Kept::Stored), world.origin.runs()), (1, 1));
}

/// The node's next poll of the store takes the commits with it.
#[tokio::test(start_paused = true)]
async fn a_poll_of_the_store_takes_the_commits_with_it() {
    let world = World::new(1, 1_002);
    follow(&world.nodes[0]);
    world.pass(INVALIDATION_POLL_MS - RUN_MS - 20).await;
    read(&world, 0, &world.ask(READ)).await;
    assert_eq!(stored(&world), 0);
    world.pass(30).await;
    assert_eq!(stored(&world), 1);
}

/// Under load commits wait for a few milliseconds, and are sent together.
#[tokio::test(start_paused = true)]
async fn under_load_commits_wait_for_a_moment() {
    let world = World::new(1, 1_003);
    let sent: Vec<_> = reads(&world, 20).iter().map(|ask| world.send(0, ask)).collect();
    for outcome in sent {
        assert_eq!(kept(&outcome.await.unwrap()), Some(Kept::Stored));
    }
    assert_eq!((stored(&world), queued(&world, 0)), (0, 20));
    world.pass(COMMIT_LOAD_WAIT_MS + 1).await;
    assert_eq!((stored(&world), queued(&world, 0)), (20, 0));
}

/// Memory may evict a copy whose commit waits. Readers find it in the queue, and ask neither the store nor Neo4j.
#[tokio::test(start_paused = true)]
async fn an_evicted_copy_is_found_in_the_queue() {
    let world = World::new(2, 1_004);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    read(&world, owner, &ask).await;
    world.nodes[owner].memory.forget_all();
    world.origin.set_version(2);
    for node in [owner, 1 - owner] {
        let outcome = read(&world, node, &ask).await;
        assert_eq!((version(&outcome), outcome.how.class), (1, Class::Hit));
    }
    assert_eq!((world.store.grants(), stored(&world), queued(&world, owner)), (1, 0, 1), "nobody was asked");
    committed(&world).await;
    assert_eq!(stored(&world), 1);
    assert_eq!(read(&world, owner, &ask).await.how.class, Class::Hit, "the store has it");
}

/// What replaces an entry of the store is stored before its answer: a run of `no-cache`, of a `max-age`, and after a bookmark.
#[tokio::test(start_paused = true)]
async fn what_replaces_an_entry_is_stored_before_its_answer() {
    let world = World::new(1, 1_005);
    world.origin.tell_transactions(0);
    read(&world, 0, &world.ask(READ)).await;
    committed(&world).await;
    world.pass(5_000).await;
    let plain = Freshness::default();
    let asks = [
        Ask { freshness: Freshness { no_cache: true, ..plain }, ..world.ask(READ) },
        Ask { freshness: Freshness { age_max_ms: Some(Millis(0)), ..plain }, ..world.ask(READ) },
        Ask { bookmarks: bookmark(11), ..world.ask(READ) },
    ];
    for (place, ask) in asks.iter().enumerate() {
        world.pass(1_000).await;
        world.origin.set_version(9 + i64::try_from(place).unwrap());
        assert_eq!(kept(&read(&world, 0, ask).await), Some(Kept::Stored), "{place}");
        assert_eq!((stored(&world), queued(&world, 0)), (place + 2, 0), "{place}");
    }
}

/// The schedule at the head of `fetch::commit_queue`, with a refresh: the store has X · a refresh reads Y, and a client gets it ·
/// the owner is killed · nobody sees X again.
#[tokio::test(start_paused = true)]
async fn a_refresh_that_is_answered_outlives_its_node() {
    let world = World::new(2, 1_006);
    let owner = world.owner_of(&world.ask(READ));
    read(&world, owner, &world.ask(READ)).await;
    committed(&world).await;
    world.pass(61_000).await;
    world.origin.set_version(2);
    assert_eq!(read(&world, owner, &world.ask(READ)).await.how.detail, Some(Detail::Stale));
    // Until the refresh has landed.
    while version(&read(&world, owner, &world.ask(READ)).await) == 1 {
        world.pass(1).await;
    }
    assert_eq!((stored(&world), queued(&world, owner)), (2, 0));
    world.nodes[owner].process.set(Power::Off);
    world.origin.set_version(3);
    let outcome = read(&world, 1 - owner, &world.ask(READ)).await;
    assert_eq!((version(&outcome), outcome.how.class), (2, Class::Hit));
}

/// A run after a write has ended the entry of the store.
#[tokio::test(start_paused = true)]
async fn a_run_after_a_write_is_stored_before_its_answer() {
    let policy = Policy { freshness_lease_ms: Some(Millis(FRESHNESS_LEASE_MS_DEFAULT)), ..default_policy() };
    let world = World::with_policy(1, 1_007, &policy);
    world.origin.tell_transactions(0);
    follow(&world.nodes[0]);
    world.pass(10).await;
    read(&world, 0, &world.ask(READ)).await;
    committed(&world).await;
    assert!(is_answered(&read(&world, 0, &world.ask(WRITE)).await));
    assert_eq!(version(&read(&world, 0, &world.ask(READ)).await), 2);
    assert_eq!((stored(&world), queued(&world, 0)), (2, 0));
}

/// A request that wants a newer value than the queued one waits for that one's commit, and replaces it.
#[tokio::test(start_paused = true)]
async fn a_newer_value_comes_after_the_queued_one() {
    let world = World::new(1, 1_008);
    let ask = world.ask(READ);
    read(&world, 0, &ask).await;
    world.origin.set_version(2);
    let anew = Ask { freshness: Freshness { no_cache: true, ..Freshness::default() }, ..ask.clone() };
    let outcome = read(&world, 0, &anew).await;
    assert_eq!((version(&outcome), kept(&outcome)), (2, Some(Kept::Stored)), "under a lease of its own");
    assert_eq!((stored(&world), world.store.grants()), (2, 2));
    assert_eq!(version(&read(&world, 0, &ask).await), 2);
}

/// I2: a killed node loses what its queue holds. The next owner takes the lease of the dead one, and runs once.
#[tokio::test(start_paused = true)]
async fn a_killed_node_costs_one_more_run_of_what_it_had_queued() {
    let world = World::new(3, 1_009);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    read(&world, owner, &ask).await;
    assert_eq!(queued(&world, owner), 1, "the fault happens before the commit");
    world.nodes[owner].process.set(Power::Off);
    let began = sim_now();
    let others: Vec<usize> = (0..3).filter(|node| *node != owner).collect();
    let sent: Vec<_> = others.iter().map(|node| world.send(*node, &ask)).collect();
    for outcome in sent {
        assert_eq!(version(&outcome.await.unwrap()), 1);
    }
    assert!(sim_now().since(began) <= Millis(500 + 2 * RUN_MS), "I7: {:?}", sim_now().since(began));
    assert_eq!(world.origin.runs(), 2);
    world.pass(LEASE_MS_DEFAULT).await;
    for node in others {
        assert_eq!(read(&world, node, &ask).await.how.class, Class::Hit);
    }
    assert_eq!(world.origin.runs(), 2, "one more, and not one for each node");
}

/// A purge reaches the owner, whatever has become of it at the store: what waits there is not stored.
#[tokio::test(start_paused = true)]
async fn a_purge_takes_results_out_of_the_queue() {
    let world = World::new(2, 1_010);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    read(&world, owner, &ask).await;
    world.origin.set_version(2);
    let message = encode_question(&Question::Purge(Scope::Key(ask.query.key)));
    assert!(world.nodes[owner].engine.path().serve_peer(&message).await.is_ok());
    assert_eq!(queued(&world, owner), 1, "its lease is still to be given back");
    committed(&world).await;
    assert_eq!((stored(&world), world.store.leases(), noted(&world, owner, Kept::Fenced)), (0, 0, 1));
    assert_eq!(version(&read(&world, owner, &ask).await), 2);
}

/// I3: a purge that does not reach the node has replaced its lease. The commit is refused, and memory forgets the copy.
#[tokio::test(start_paused = true)]
async fn a_purge_that_does_not_arrive_fences_the_commit() {
    let world = World::new(2, 1_011);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    read(&world, owner, &ask).await;
    world.net.set_way_cut(1 - owner, owner, true);
    world.origin.set_version(2);
    let purged = world.nodes[1 - owner].engine.invalidate().purge(&Scope::Key(ask.query.key)).await;
    assert_eq!(purged.unreached, 1);
    committed(&world).await;
    assert_eq!((stored(&world), noted(&world, owner, Kept::Fenced)), (0, 1));
    assert_eq!(version(&read(&world, owner, &ask).await), 2, "it was kept in memory");
}

/// F2: a node is stopped with a commit in its queue, past the lease. Another node reads a newer value. The first one goes on,
/// and does not serve the older one, although the store has not refused its commit yet.
#[tokio::test(start_paused = true)]
async fn a_copy_whose_lease_has_lapsed_is_not_served() {
    let world = World::new(2, 1_012);
    each_owns_all(&world);
    for node in &world.nodes {
        node.engine.invalidate().ring_changed();
    }
    // No key moves any more, and the rings still disagree.
    world.pass(HANDOVER_MS + 1).await;
    let ask = Ask { deadline: sim_now() + Millis(600_000), ..world.ask(READ) };
    read(&world, 0, &ask).await;
    assert_eq!(queued(&world, 0), 1, "the fault happens before the commit");
    world.nodes[0].process.set(Power::Paused);
    world.origin.set_version(2);
    assert_eq!(version(&read(&world, 1, &ask).await), 2);
    committed_at(&world, 1).await;
    world.store.set_weather(Weather { delay_ms_max: 40, ..Weather::default() });
    world.nodes[0].process.set(Power::On);
    assert_eq!(version(&read(&world, 0, &ask).await), 2);
    committed(&world).await;
    assert_eq!(noted(&world, 0, Kept::Fenced), 1);
}

async fn committed_at(world: &World, node: usize) {
    for _ in 0..COMMIT_WAIT_MS_MAX + 10 {
        if queued(world, node) == 0 {
            return;
        }
        world.pass(1).await;
    }
    panic!("a commit waits for longer than any may");
}

/// F12: a leaving node stores what it has answered, whether its work ends in order or its flights are handed on.
#[tokio::test(start_paused = true)]
async fn a_leaving_node_empties_its_queue() {
    for hands_on in [false, true] {
        let world = World::new(2, 1_014);
        let ask = world.ask(READ);
        let owner = world.owner_of(&ask);
        read(&world, owner, &ask).await;
        let engine = &world.nodes[owner].engine;
        assert_eq!(engine.fetch().leases_held(), 1);
        let began = sim_now();
        if hands_on {
            engine.path().hand_on_flights(Millis(1_000)).await;
        } else {
            engine.path().finish().await;
        }
        assert_eq!((stored(&world), world.store.leases(), engine.fetch().leases_held()), (1, 0, 0));
        assert!(sim_now().since(began) < Millis(COMMIT_WAIT_MS_MAX), "it was sent at once");
        // From now on nothing waits.
        if !hands_on {
            let others = reads(&world, 20);
            let other = others.iter().find(|ask| world.owner_of(ask) == owner).unwrap();
            assert_eq!(kept(&read(&world, owner, other).await), Some(Kept::Stored));
            assert_eq!((stored(&world), queued(&world, owner)), (2, 0));
        }
    }
}

/// While keys move, a former owner may have an older copy: everything is stored before its answer.
#[tokio::test(start_paused = true)]
async fn while_keys_move_nothing_waits() {
    let world = World::new(2, 1_015);
    let names: Vec<_> = world.nodes.iter().map(|node| node.engine.me().node.clone()).collect();
    for node in &world.nodes {
        node.routing.set(&names[..1]);
        node.engine.invalidate().ring_changed();
    }
    assert_eq!(kept(&read(&world, 0, &world.ask(READ)).await), Some(Kept::Stored));
    assert_eq!((stored(&world), queued(&world, 0)), (1, 0));
}
