//! A node that starts takes what others know: results that were proved before are served past their TTL without a run, and nothing
//! that was written, taken away or restored while it was down.

use hopcache_core::bookmark::{DatabaseUuid, Position, TransactionId};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::WATCH_SILENT_MS_MIN;
use hopcache_core::node::NodeName;
use hopcache_core::tags::TagId;
use hopcache_core::write_position::{WriteEpoch, WriteEvent, WritePosition, WriteRecord};
use hopcache_engine::ports::OriginFault;
use hopcache_sim::world::write_statement::WRITE_ONE;

use super::NODES;
use super::proofs::{BOUND_MS, FIRST, LEFT, LONG_MS, RIGHT, WATCH_MS, policy, proved, warm_world_with};
use crate::prelude::*;

/// A write to the same key of nodes of another value.
const WRITE_TWO: &str = "MATCH (w:Right {id: 2}) SET w += {id: 2, name: 'two'}";

/// Redis keeps results for stale-if-error, as with the shipped settings.
fn kept() -> Policy {
    Policy { stale_if_error_ms: Millis(600_000), ..policy(WATCH_MS) }
}

/// Both reads were proved long ago, and Redis has them past their TTL.
async fn world_of_kept(seed: u64) -> (World, [Ask; 2]) {
    let (world, asks) = warm_world_with(seed, &kept(), |_| {}).await;
    world.pass(LONG_MS).await;
    for ask in &asks {
        assert_eq!(proved(&read(&world, 0, ask).await), Some(FIRST));
    }
    (world, asks)
}

/// The node ends, and the others see it.
fn stop(world: &World, node: usize) {
    world.nodes[node].process.set(Power::Off);
    let is_up = |node: &usize| world.nodes[*node].process.power() == Power::On;
    set_rings(world, &(0..NODES).filter(is_up).collect::<Vec<_>>());
}

fn set_rings(world: &World, ring: &[usize]) {
    let names: Vec<NodeName> = ring.iter().filter_map(|node| node_name(*node)).collect();
    ring.iter().for_each(|node| world.nodes[*node].routing.set(&names));
}

/// A node that was stopped starts its second life, and learns what others know before it owns keys.
async fn start(world: &mut World, node: usize) {
    let is_up = |node: &usize| world.nodes[*node].process.power() == Power::On;
    let ring: Vec<NodeName> = (0..NODES).filter(is_up).filter_map(node_name).collect();
    let start = Start {
        life: Life { node, life: 1 },
        me: Holder { node: node_name(node).unwrap(), incarnation: Incarnation(101 + node as u64) },
        routing: SimRouting::new(&ring),
        apart: Millis::ZERO,
    };
    let handle = world.start(start, &kept());
    drop(follow(&handle));
    handle.engine.writes().informed().await;
    world.nodes[node] = handle;
    let is_up = |node: &usize| world.nodes[*node].process.power() == Power::On;
    set_rings(world, &(0..NODES).filter(is_up).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn what_was_proved_is_served_by_a_node_that_starts() {
    let (mut world, [left, right]) = world_of_kept(920).await;
    let runs = world.origin.runs();
    for ask in [&left, &right] {
        let owner = world.owner_of(ask);
        if world.nodes[owner].life.life == 0 {
            stop(&world, owner);
            world.pass(500).await;
            start(&mut world, owner).await;
        }
        assert_eq!(proved(&read(&world, owner, ask).await), Some(FIRST));
    }
    assert_eq!(world.origin.runs(), runs);
    // It goes on to be proved in this node's memory.
    world.pass(LONG_MS).await;
    for node in 0..NODES {
        assert_eq!(proved(&read(&world, node, &left).await), Some(FIRST));
    }
    assert_eq!(world.origin.runs(), runs);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_past_all_nodes_is_noticed_by_a_node_that_starts() {
    let (mut world, [left, _]) = world_of_kept(921).await;
    let owner = world.owner_of(&left);
    stop(&world, owner);
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    start(&mut world, owner).await;
    let outcome = read(&world, owner, &left).await;
    assert_eq!((version(&outcome), is_hit(&outcome)), (FIRST + 1, false));
}

#[tokio::test(start_paused = true)]
async fn what_was_read_before_a_change_of_rights_is_not_proved_at_a_node_that_starts() {
    let (mut world, [left, right]) = world_of_kept(922).await;
    let owner = world.owner_of(&left);
    stop(&world, owner);
    world.origin.change_rights();
    world.pass(BOUND_MS).await;
    let runs = world.origin.runs();
    start(&mut world, owner).await;
    assert!(!is_hit(&read(&world, owner, &left).await));
    // What is read under the rights of now outlives the next start of a node.
    world.pass(LONG_MS).await;
    assert_eq!(world.origin.runs(), runs + 1);
    stop(&world, owner);
    world.pass(BOUND_MS).await;
    let other = world.owner_of(&left);
    assert_eq!(proved(&read(&world, other, &left).await), Some(FIRST));
    assert!(!is_hit(&read(&world, world.owner_of(&right), &right).await), "of before the change");
}

#[tokio::test(start_paused = true)]
async fn what_was_written_through_others_ends_only_what_it_touches_at_a_node_that_starts() {
    let (mut world, [left, right]) = world_of_kept(923).await;
    // A later write takes no id for a name.
    for node in 0..NODES {
        for statement in [WRITE_LEFT, WRITE_ONE] {
            read(&world, node, &world.ask(statement)).await;
        }
    }
    // Two readers of values, of one owner.
    let owner = world.owner_of(&left);
    let [one, two] = [1, 2].map(|id| {
        let mut asks = (0..).map(|n| world.ask(&format!("MATCH (n{n} {{id: {id}}}) RETURN n{n} AS version")));
        asks.find(|ask| world.owner_of(ask) == owner).unwrap()
    });
    let before = i64::from(world.origin.version());
    for _ in 0..2 {
        world.pass(LONG_MS).await;
        for ask in [&left, &right, &one, &two] {
            read(&world, world.owner_of(ask), ask).await;
        }
    }
    let of = |outcome: &Outcome| (version(outcome), outcome.how.is_proved);
    stop(&world, owner);
    let writer = (owner + 1) % NODES;
    read(&world, writer, &world.ask(WRITE_ONE)).await;
    let now = i64::from(world.origin.version());
    world.pass(BOUND_MS).await;
    start(&mut world, owner).await;
    let runs = world.origin.runs();
    assert_eq!(of(&read(&world, owner, &two).await), (before, true), "of another value");
    assert_eq!(world.origin.runs(), runs);
    assert_eq!(version(&read(&world, owner, &one).await), now);
    // An own write by label ends the one, and keeps the other.
    read(&world, writer, &world.ask(WRITE_LEFT)).await;
    let now = i64::from(world.origin.version());
    assert_eq!(version(&read(&world, owner, &left).await), now);
    assert_eq!(of(&read(&world, world.owner_of(&right), &right).await), (FIRST, true));
}

/// Another cluster's writes, or thousands of this one's, cut the log. The mark of a key is then that of a later write, which says nothing of
/// the former one's nodes.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_does_not_take_a_cut_log_for_whole() {
    let (mut world, [left, _]) = world_of_kept(926).await;
    let (owner, writer) = (world.owner_of(&left), (world.owner_of(&left) + 1) % NODES);
    for statement in [WRITE_ONE, WRITE_TWO] {
        read(&world, writer, &world.ask(statement)).await;
    }
    let mut asks = (0..).map(|n| world.ask(&format!("MATCH (n{n} {{id: 1}}) RETURN n{n} AS version")));
    let one = asks.find(|ask| world.owner_of(ask) == owner).unwrap();
    for _ in 0..2 {
        world.pass(LONG_MS).await;
        read(&world, owner, &one).await;
    }
    stop(&world, owner);
    read(&world, writer, &world.ask(WRITE_ONE)).await;
    let now = i64::from(world.origin.version());
    cut_log(&world);
    read(&world, writer, &world.ask(WRITE_TWO)).await;
    world.pass(BOUND_MS).await;
    start(&mut world, owner).await;
    assert!(version(&read(&world, owner, &one).await) >= now, "of before the write");
}

/// Tells the store of so many writes to another database that its log drops all that was in it.
fn cut_log(world: &World) {
    let at = |id| Position { database: DatabaseUuid([0xD0; 16]), id: TransactionId(id) };
    let of = |id| WriteRecord {
        name: DatabaseTag(0xD0),
        written: WritePosition::at(WriteEpoch(0), at(id)),
        tag: Some(TagId(7)),
    };
    for _ in 0..40 {
        let events: Vec<_> = (1..4_000).map(|id| WriteEvent::from(of(id))).collect();
        world.store.tell_written(&[of(4_000)], &events);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_read_from_a_former_run_of_the_server_is_not_proved_at_a_node_that_starts() {
    for is_restored in [false, true] {
        let (mut world, [left, _]) = world_of_kept(924).await;
        let owner = world.owner_of(&left);
        stop(&world, owner);
        // Files are put back, and foreign writes bring the ids to where they were.
        world.origin.start_anew();
        if is_restored {
            world.origin.restore(FIRST - 2);
            world.origin.write_past();
            world.origin.write_past();
        }
        world.pass(BOUND_MS).await;
        start(&mut world, owner).await;
        assert_eq!(proved(&read(&world, owner, &left).await), None, "{is_restored}");
    }
}

/// The whole cluster stops and starts: nobody knows more than Redis. The first runs bring a watcher, which goes on from the last report.
#[tokio::test(start_paused = true)]
async fn what_was_proved_outlives_the_whole_cluster() {
    for is_written in [false, true] {
        let (mut world, [left, right]) = world_of_kept(925).await;
        (0..NODES).for_each(|node| stop(&world, node));
        world.pass(30_000).await;
        if is_written {
            world.origin.write_past();
        }
        for node in 0..NODES {
            start(&mut world, node).await;
        }
        // Some other read, which is run.
        for node in 0..NODES {
            read(&world, node, &world.ask(&format!("MATCH (n:Left) RETURN n.version, {node}"))).await;
        }
        world.pass(BOUND_MS).await;
        for ask in [&left, &right] {
            for node in 0..NODES {
                let outcome = read(&world, node, ask).await;
                if is_written {
                    assert_eq!(version(&outcome), FIRST + 1);
                } else {
                    assert_eq!(proved(&outcome), Some(FIRST));
                }
            }
        }
    }
}

/// From the first write to the first read, in milliseconds: before there is a report, and after it.
const PAUSES: [u64; 3] = [0, BOUND_MS / 2, 3 * BOUND_MS];

/// What a node's write may have taken ids for hides nothing that was written while nobody watched. The nodes that have just started know no
/// label that the database has: by the count, the write could have taken the ids of all three.
#[tokio::test(start_paused = true)]
async fn the_first_write_hides_nothing_that_was_written_past_while_all_nodes_were_down() {
    let writes = [(WriteFate::NoEffect, 1), (WriteFate::Well, 3)];
    for (fate, past, pause) in
        writes.into_iter().flat_map(|(fate, past)| PAUSES.map(|pause| (fate, past, pause)))
    {
        let (mut world, _) = world_of_kept(927).await;
        // The database knows the names of the write from now on.
        read(&world, 0, &world.ask(WRITE_ELSEWHERE)).await;
        world.pass(BOUND_MS).await;
        assert_eq!(proved(&read(&world, 0, &world.ask(RIGHT)).await), Some(FIRST));
        (0..NODES).for_each(|node| stop(&world, node));
        (0..past).for_each(|_| world.origin.write_past());
        let foreign = i64::from(world.origin.version());
        world.pass(30_000).await;
        for node in 0..NODES {
            start(&mut world, node).await;
        }
        world.origin.set_write_fate(fate);
        read(&world, 0, &world.ask(WRITE_ELSEWHERE)).await;
        world.pass(pause).await;
        for node in 0..NODES {
            let outcome = read(&world, node, &world.ask(RIGHT)).await;
            assert!(version(&outcome) >= foreign, "{fate:?} {past} {pause}: {outcome:?}");
        }
    }
}

/// The watcher goes on from its own account, which is as old as a stop: Neo4j was cut off, and an own write comes before the next look at it.
#[tokio::test(start_paused = true)]
async fn the_first_write_hides_nothing_that_was_written_past_while_neo4j_was_cut_off() {
    for is_written in [false, true] {
        let (world, _) = world_of_kept(931).await;
        read(&world, 0, &world.ask(WRITE_ELSEWHERE)).await;
        world.pass(BOUND_MS).await;
        assert_eq!(proved(&read(&world, 0, &world.ask(RIGHT)).await), Some(FIRST));
        let away = OriginBehavior::Fault(OriginFault::Unreachable("seeded".to_owned()));
        world.origin.set_behavior(away);
        if is_written {
            world.origin.write_past();
        }
        let foreign = i64::from(world.origin.version());
        world.pass(30_000).await;
        world.origin.set_behavior(OriginBehavior::Well);
        world.origin.set_write_fate(WriteFate::NoEffect);
        let written = read(&world, 0, &world.ask(WRITE_ELSEWHERE)).await;
        assert!(matches!(written.answer, Answer::Body(_)), "{written:?}");
        world.pass(3 * BOUND_MS).await;
        for node in 0..NODES {
            let outcome = read(&world, node, &world.ask(RIGHT)).await;
            if is_written {
                assert!(version(&outcome) >= foreign, "{outcome:?}");
            } else {
                assert_eq!(proved(&outcome), Some(FIRST));
            }
        }
    }
}

/// All nodes have started. One has read at Neo4j, and watches: nothing was written meanwhile. Another one, whose database it is to watch, gets a
/// write, and may not have seen a report of the first one yet. It does not begin anew.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_ends_no_proof_beside_one_that_watches() {
    let (reader, writer) = (1, 2);
    for pause in [0, WATCH_MS] {
        let (mut world, _) = world_of_kept(928).await;
        // The database knows the names of the write.
        read(&world, writer, &world.ask(WRITE_ELSEWHERE)).await;
        world.pass(BOUND_MS).await;
        (0..NODES).for_each(|node| stop(&world, node));
        world.pass(5_000).await;
        for node in 0..NODES {
            start(&mut world, node).await;
        }
        world.pass(WATCH_SILENT_MS_MIN + 1_000).await;
        read(&world, reader, &world.ask("MATCH (n:Left) RETURN n.version, 1")).await;
        world.pass(WATCH_MS + pause).await;
        read(&world, writer, &world.ask(WRITE_ELSEWHERE)).await;
        world.pass(3 * BOUND_MS).await;
        assert_eq!(proved(&read(&world, writer, &world.ask(RIGHT)).await), Some(FIRST), "{pause}");
    }
}

/// The log has a write of before a restore, and the restore. Who reads both at once has read nothing before: the restore ends nothing of after it.
#[tokio::test(start_paused = true)]
async fn what_was_read_after_a_restore_is_proved_at_a_node_that_starts() {
    let (mut world, [left, _]) = world_of_kept(929).await;
    let owner = world.owner_of(&left);
    read(&world, owner, &world.ask(WRITE_ELSEWHERE)).await;
    world.origin.restore(FIRST - 40);
    for _ in 0..3 {
        world.pass(LONG_MS).await;
        read(&world, owner, &world.ask(LEFT)).await;
    }
    world.pass(LONG_MS).await;
    stop(&world, owner);
    world.pass(BOUND_MS).await;
    start(&mut world, owner).await;
    assert_eq!(proved(&read(&world, owner, &world.ask(LEFT)).await), Some(FIRST - 40));
}

/// Redis keeps a result for its TTL and grace here, and a calm key is proved for longer. Its former owner gives it to the new one.
#[tokio::test(start_paused = true)]
async fn what_only_memory_has_moves_with_its_key() {
    let (world, [left, _]) = warm_world_with(930, &policy(WATCH_MS), |_| {}).await;
    let owner = world.owner_of(&left);
    assert_eq!(proved(&read(&world, owner, &left).await), Some(FIRST));
    world.pass(LONG_MS).await;
    let runs = world.origin.runs();
    set_rings(&world, &(0..NODES).filter(|node| *node != owner).collect::<Vec<_>>());
    let new = world.owner_of(&left);
    let given = read(&world, new, &left).await;
    assert_eq!((version(&given), is_hit(&given)), (FIRST, true), "{given:?}");
    world.pass(LONG_MS).await;
    assert_eq!(proved(&read(&world, new, &left).await), Some(FIRST));
    assert_eq!(world.origin.runs(), runs);
}

/// With each hand-over the longest life of a result counts from its last proof. Half of that life after its read it is not handed over any more.
#[tokio::test(start_paused = true)]
async fn what_has_lived_for_half_its_life_does_not_move() {
    let policy = policy(WATCH_MS);
    let half_ms = policy.proofs.unwrap().life_ms_max.0 / 2;
    let (world, [left, _]) = warm_world_with(932, &policy, |_| {}).await;
    let owner = world.owner_of(&left);
    assert_eq!(proved(&read(&world, owner, &left).await), Some(FIRST));
    world.pass(half_ms).await;
    let left = world.ask(LEFT);
    assert_eq!(proved(&read(&world, owner, &left).await), Some(FIRST));
    let runs = world.origin.runs();
    set_rings(&world, &(0..NODES).filter(|node| *node != owner).collect::<Vec<_>>());
    assert!(!is_hit(&read(&world, world.owner_of(&left), &left).await));
    assert_eq!(world.origin.runs(), runs + 1);
}

/// A node starts while Redis is away: it knows no write. A former owner gives it nothing that a write has ended.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_without_redis_is_given_nothing_that_a_write_has_ended() {
    let (mut world, [left, _]) = world_of_kept(933).await;
    let new = world.owner_of(&left);
    stop(&world, new);
    let former = world.owner_of(&left);
    assert_ne!(former, new);
    world.origin.write_past();
    world.pass(BOUND_MS).await;
    assert_eq!(version(&read(&world, former, &world.ask(LEFT)).await), FIRST + 1);
    let written = read(&world, former, &world.ask(WRITE_LEFT)).await;
    assert!(matches!(written.answer, Answer::Body(_)), "{written:?}");
    let now = i64::from(world.origin.version());
    world.store.set_down(true);
    start(&mut world, new).await;
    let outcome = read(&world, new, &world.ask(LEFT)).await;
    assert_eq!(version(&outcome), now, "{outcome:?}");
}

/// A client that wants no run gets what is proved past its TTL in Redis.
#[tokio::test(start_paused = true)]
async fn what_was_proved_is_served_without_a_run_to_who_wants_none() {
    let (mut world, [left, _]) = world_of_kept(934).await;
    let owner = world.owner_of(&left);
    stop(&world, owner);
    world.pass(500).await;
    start(&mut world, owner).await;
    let mut cached = world.ask(LEFT);
    cached.freshness.only_if_cached = true;
    assert_eq!(proved(&read(&world, owner, &cached).await), Some(FIRST));
}
