//! Joins and leaves under very bad gossip, and rings that disagree (F6, F8, F9, F11, F13). The seeds have all of this
//! at random. Here each fault has its own schedule, and the test asserts that the fault occurred.

use hopcache_sim::drive::churn::{Churn, churn};
use hopcache_sim::world::udp::UdpWeather;

use crate::prelude::*;

fn agreed(storm: &Churn) -> u64 {
    assert!(storm.agreed_after.is_some(), "no agreement: {storm:?}");
    storm.agreed_after.unwrap_or_default().0
}

/// F11: 50 joins and leaves in 10 s move at most a quarter more keys than necessary. No node's table holds more members
/// than ever lived.
#[tokio::test(start_paused = true)]
async fn fifty_joins_and_leaves_move_what_is_due() {
    let seen = churn(1, (50, Millis(10_000)), UdpWeather::default()).await;
    let Churn { joined, left, rings, moved, due, members_max, datagrams, .. } = &seen;
    println!(
        "{joined} joined, {left} left in 10 s: {rings} rings, {moved:.2} of all keys moved, {due:.2} due, \
         {members_max} members at the most, {datagrams} datagrams, agreed after {} ms",
        agreed(&seen)
    );
    assert!(*joined == 25 && *left >= 20, "they joined and left");
    assert!(*rings >= 20, "and rings changed");
    assert!(moved <= &(1.25 * due), "{moved:.3} moved, {due:.3} due");
    assert!(*members_max <= 4 + 25);
}

/// F13: 30 % of gossip is lost, half of it is repeated, all of it is out of order. Rings agree, and repeated news
/// change nothing.
#[tokio::test(start_paused = true)]
async fn bad_gossip_converges_and_repeats_nothing() {
    for seed in 0..5 {
        let weather = UdpWeather { delay_ms_max: 200, lost: 300, doubled: 500 };
        let seen = churn(seed, (10, Millis(5_000)), weather).await;
        let of = |word| seen.coverage.of(word);
        println!(
            "seed {seed}: {} datagrams, {} lost, {} twice, {} overtaken: agreed {} ms after the last of {} changes",
            seen.datagrams,
            of("datagram lost"),
            of("datagram twice"),
            of("datagram overtaken"),
            agreed(&seen),
            seen.joined + seen.left
        );
        assert!(of("datagram lost") > seen.datagrams / 5 && of("datagram twice") > seen.datagrams / 5);
        assert!(of("datagram overtaken") > 100);
        assert_eq!(seen.changes_after, 0, "news that come again change no ring");
    }
}

/// F9: for 30 s, each of three nodes takes another one for the owner. The lease keeps a window to one run, and no
/// circle of waits arises: every request is answered.
#[tokio::test(start_paused = true)]
async fn rings_that_disagree_for_half_a_minute_cost_no_run() {
    let policy = Policy { ttl_ms: Millis(2_000), grace: 0.0, ..default_policy() };
    let world = World::with_policy(3, 51, &policy);
    let names: Vec<_> = world.nodes.iter().map(|node| node.engine.me().node.clone()).collect();
    for (node, handle) in world.nodes.iter().enumerate() {
        // Each ring leaves out its own node, so each node takes the next one for the owner.
        let others: Vec<_> =
            (0..3).filter(|other| *other != node).map(|other| names[other].clone()).collect();
        handle.routing.set(&others);
    }
    let owners: std::collections::BTreeSet<_> = world
        .nodes
        .iter()
        .map(|node| node.engine.view().owner(&world.ask(READ).query.key).cloned())
        .collect();
    assert!(owners.len() > 1, "the rings disagree: {owners:?}");
    let mut asked = Vec::new();
    for turn in 0..300 {
        asked.push(world.send(turn % 3, &world.ask(READ)));
        world.pass(100).await;
    }
    for outcome in asked {
        assert!(is_answered(&outcome.await.unwrap()));
    }
    println!(
        "30 s of disagreement: {} runs in 15 windows, {} forwards",
        world.origin.runs(),
        world.net.forwards()
    );
    assert!(world.net.forwards() > 100, "they forwarded");
    assert!(world.origin.runs() <= 16, "{} runs in 15 windows", world.origin.runs());
}

/// F6: the owner is cut off from its peers, but not from the store. The peers run under leases, one run in all, and the
/// owner finds their value in the store.
#[tokio::test(start_paused = true)]
async fn an_owner_cut_from_its_peers_costs_no_second_run() {
    let world = World::new(3, 52);
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    for other in (0..3).filter(|other| *other != owner) {
        world.net.set_way_cut(owner, other, true);
        world.net.set_way_cut(other, owner, true);
    }
    let all: Vec<_> = (0..3).map(|node| world.send(node, &ask)).collect();
    world.pass(1_100).await;
    // By now two probes of each node are without an answer.
    let names: Vec<_> = world.nodes.iter().map(|node| node.engine.me().node.clone()).collect();
    for (node, handle) in world.nodes.iter().enumerate() {
        let side = names.iter().enumerate().filter(|(each, _)| (*each == owner) == (node == owner));
        handle.routing.set(&side.map(|(_, name)| name.clone()).collect::<Vec<_>>());
    }
    for outcome in all {
        assert!(is_answered(&outcome.await.unwrap()));
    }
    assert!(world.net.forwards() >= 2, "the others tried the owner");
    assert_eq!(world.origin.runs(), 1);
}

/// F8: only the way back from the owner is cut: it receives, and its answers are lost. Deadlines hold, and the value
/// comes through the store.
#[tokio::test(start_paused = true)]
async fn an_owner_that_is_not_heard_keeps_nobody() {
    let world = World::new(2, 53);
    let mut ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let asker = 1 - owner;
    world.net.set_way_cut(owner, asker, true);
    let began = hopcache_sim::world::clock::sim_now();
    ask.deadline = began + Millis(1_000);
    let late = world.send(asker, &ask).await.unwrap();
    let waited = hopcache_sim::world::clock::sim_now().since(began);
    assert!(waited <= Millis(1_600), "{waited:?}, its deadline was 1 s: {late:?}");
    assert_eq!(world.origin.runs(), 1, "the owner heard it and ran");
    let mut again = world.ask(READ);
    again.deadline = hopcache_sim::world::clock::sim_now() + Millis(10_000);
    assert!(
        is_answered(&world.send(asker, &again).await.unwrap()),
        "the owner is out of routing, the store has it"
    );
    assert_eq!(world.origin.runs(), 1);
}
