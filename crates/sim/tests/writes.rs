//! Writes are seen: whoever has a write's answer gets nothing from before it from the cache, on any node in touch.

mod ahead;
mod anchors;
mod away;
mod captured;
mod doubted;
mod fallbacks;
mod full_tables;
mod hot_keys;
mod outages;
mod parts;
mod proofs;
mod refused;
mod rights;
mod shown;
mod started;
mod tags;
mod transaction_ids;
mod transactions;
mod watching;

use hopcache_engine::event::InvalidationWord;
use hopcache_sim::world::write_statement::{WRITE_BY_CALL, WRITE_BY_USE, WRITE_IN_PARTS};

use crate::prelude::*;

const NODES: usize = 3;
/// A telling takes a few milliseconds here.
const SOON_MS: u64 = 30;

fn proved() -> Policy {
    Policy { freshness_lease_ms: Some(Millis(FRESHNESS_LEASE_MS_DEFAULT)), ..default_policy() }
}

/// Nodes that follow the store, and an origin that tells transactions.
async fn world_of(nodes: usize, seed: u64, policy: &Policy) -> World {
    let world = World::with_policy(nodes, seed, policy);
    world.origin.tell_transactions(0);
    world.nodes.iter().for_each(|node| drop(follow(node)));
    world.pass(10).await;
    world
}

async fn world(seed: u64) -> World {
    world_of(NODES, seed, &proved()).await
}

/// A write through a node, and how long it took.
async fn write(world: &World, node: usize) -> (Outcome, Millis) {
    let began = sim_now();
    let outcome = world.send(node, &world.ask(WRITE)).await.unwrap();
    (outcome, sim_now().since(began))
}

/// Every node has the answer in memory, or near its owner.
async fn warm(world: &World, ask: &Ask) {
    for _ in 0..2 {
        for node in 0..world.nodes.len() {
            world.send(node, ask).await.unwrap();
        }
    }
}

fn ended_by_writes(world: &World, node: usize) -> usize {
    let is_own = |event: &Event| *event == Event::Invalidation(InvalidationWord::OwnWrite);
    world.nodes[node].events.count(is_own)
}

/// A write of this request's client, as a front begins it.
fn write_of(ask: &Ask, parts: Parts, touched: Touched) -> WriteOf {
    WriteOf {
        database: Arc::clone(&ask.query.database),
        identity: Arc::clone(&ask.query.identity),
        impersonated: None,
        timeout_ms: Millis(60_000),
        may_name_graph: false,
        parts,
        changes_rights: false,
        began: WriteBegan::Now,
        touched,
        tokens: None,
    }
}

/// One write, and then a read on each node: all see it. The second round are hits again.
#[tokio::test(start_paused = true)]
async fn a_write_is_seen_on_every_node() {
    let world = world(401).await;
    let asks: Vec<Ask> = (0..8).map(|n| world.ask(&format!("MATCH (n{n}) RETURN n{n}.version"))).collect();
    for ask in &asks {
        warm(&world, ask).await;
    }
    for round in 2..6 {
        let (outcome, took_ms) = write(&world, round % NODES).await;
        assert!(matches!(outcome.answer, Answer::Body(_)), "{outcome:?}");
        assert!(took_ms <= Millis(100 + SOON_MS), "{took_ms:?}");
        let runs = world.origin.runs();
        for node in 0..NODES {
            for ask in &asks {
                assert_eq!(version(&read(&world, node, ask).await), i64::try_from(round).unwrap());
            }
        }
        assert_eq!(world.origin.runs() - runs, asks.len(), "one run for each entry");
        for node in 0..NODES {
            for ask in &asks {
                assert!(is_hit(&read(&world, node, ask).await));
            }
        }
        assert_eq!(ended_by_writes(&world, round % NODES), (round - 2) / NODES + 1);
    }
}

/// Names of one database: a write through one ends what was read through the other.
#[tokio::test(start_paused = true)]
async fn a_write_through_an_alias_is_seen() {
    let world = world(402).await;
    let other_name = world.ask_in("alias", READ, "alice");
    warm(&world, &other_name).await;
    write(&world, 0).await;
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &other_name).await), 2);
    }
}

/// A statement that names its graph by itself may have written in any database, known here or not.
#[tokio::test(start_paused = true)]
async fn a_write_that_names_its_graph_ends_all_entries() {
    let world = world(408).await;
    let asks = ["neo4j", "other", "third"].map(|database| world.ask_in(database, READ, "alice"));
    for ask in &asks {
        // The node that writes has seen none of these databases.
        for node in 1..NODES {
            world.send(node, ask).await.unwrap();
        }
    }
    let runs = world.origin.runs();
    let outcome = world.send(0, &world.ask_in("system", WRITE_BY_USE, "alice")).await.unwrap();
    assert!(matches!(outcome.answer, Answer::Body(_)), "{outcome:?}");
    for node in 0..NODES {
        for ask in &asks {
            assert_eq!(version(&read(&world, node, ask).await), 2);
        }
    }
    assert_eq!(world.origin.runs() - runs, asks.len(), "one run for each entry");
}

/// A write that changes nothing, and one that was refused before it did anything, end nothing.
#[tokio::test(start_paused = true)]
async fn a_write_without_updates_ends_nothing() {
    let world = world(403).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    world.origin.set_write_fate(WriteFate::Nothing);
    write(&world, 0).await;
    let failure = said("Neo.ClientError.Statement.ParameterMissing");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(failure)));
    write(&world, 0).await;
    // Who has no rights, not even to ask for the newest transaction, ends nothing by any statement.
    let forbidden = said("Neo.ClientError.Security.Forbidden");
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(forbidden)));
    for statement in [WRITE_BY_CALL, WRITE_IN_PARTS] {
        world.send(0, &world.ask(statement)).await.unwrap();
    }
    world.origin.set_behavior(OriginBehavior::Well);
    for node in 0..NODES {
        assert!(is_hit(&read(&world, node, &ask).await));
    }
    assert_eq!((world.origin.runs(), ended_by_writes(&world, 0)), (1, 0));
}

/// What is called commits by itself: the summary of its statement need not count that, and a failure does not undo it.
#[tokio::test(start_paused = true)]
async fn what_a_statement_calls_is_seen_whatever_its_end_says() {
    for (statement, fate) in [
        (WRITE_BY_CALL, WriteFate::Uncounted),
        (WRITE_IN_PARTS, WriteFate::RefusedInPart("Neo.ClientError.Security.Forbidden")),
        // Of a later batch, whose `date('xx')` fails.
        (WRITE_IN_PARTS, WriteFate::RefusedInPart("Neo.ClientError.Statement.SyntaxError")),
    ] {
        let world = world(409).await;
        let ask = world.ask(READ);
        warm(&world, &ask).await;
        world.origin.set_write_fate(fate);
        world.send(0, &world.ask(statement)).await.unwrap();
        for node in 0..NODES {
            assert_eq!(version(&read(&world, node, &ask).await), 2, "{statement}");
        }
    }
}

/// With triggers a write touches more than its text says.
#[tokio::test(start_paused = true)]
async fn where_triggers_write_too_a_write_ends_everything() {
    const OTHER: &str = "MATCH (x:Other) RETURN x.version AS version";
    for has_triggers in [false, true] {
        let world = world_of(NODES, 410, &Policy { has_triggers, ..proved() }).await;
        let ask = world.ask(OTHER);
        warm(&world, &ask).await;
        world.send(0, &world.ask(WRITE_ELSEWHERE)).await.unwrap();
        for node in 0..NODES {
            assert_eq!(
                is_hit(&read(&world, node, &ask).await),
                !has_triggers || node > 0,
                "{has_triggers} {node}"
            );
        }
    }
}

/// A flight that began before the write is no answer to those who come after it, at its owner or behind a forward. So with the
/// first write of all: nobody knew of the database's marks when the flight began.
#[tokio::test(start_paused = true)]
async fn a_flight_of_before_a_write_is_no_answer_after_it() {
    for writes_before in [0, 1] {
        let world = world(404).await;
        for _ in 0..writes_before {
            write(&world, 0).await;
        }
        let ask = world.ask(READ);
        world.origin.set_slow(READ, 1_000);
        let early: Vec<_> = (0..NODES).map(|node| world.send(node, &ask)).collect();
        world.pass(150).await;
        let (_, took_ms) = write(&world, 1).await;
        assert!(took_ms <= Millis(100 + SOON_MS));
        let late: Vec<_> = (0..NODES).map(|node| world.send(node, &ask)).collect();
        for outcome in early {
            assert_eq!(version(&outcome.await.unwrap()), 1 + writes_before);
        }
        for outcome in late {
            assert_eq!(version(&outcome.await.unwrap()), 2 + writes_before);
        }
        assert_eq!(world.origin.runs(), 2);
    }
}

/// The answer of a write was lost: what it may have written is seen by whoever comes after the failure.
#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_seen() {
    for (seed, fate) in [(410, WriteFate::LostAfter), (411, WriteFate::Panics)] {
        let world = world(seed).await;
        let ask = world.ask(READ);
        warm(&world, &ask).await;
        world.origin.set_write_fate(fate);
        let (outcome, _) = write(&world, 0).await;
        assert!(matches!(outcome.answer, Answer::Failed(_)));
        if fate == WriteFate::Panics {
            // Nobody could say before its end that the task would panic.
            world.pass(SOON_MS).await;
        }
        for node in 0..NODES {
            assert_eq!(version(&read(&world, node, &ask).await), 2);
        }
    }
}

/// A write is committed after its connection broke: it is asked about again.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_committed_later_is_found() {
    let world = world(412).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    world.origin.set_write_fate(WriteFate::CommittedLater(2_500));
    write(&world, 0).await;
    world.pass(500).await;
    assert_eq!(version(&read(&world, 1, &ask).await), 1);
    world.pass(3_500).await;
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &ask).await), 2);
    }
}

/// Neo4j is away after a write whose answer was lost: nothing is served as if it were fresh, but marked answers are.
#[tokio::test(start_paused = true)]
async fn while_nobody_can_be_asked_only_marked_answers_are_given() {
    let policy = Policy { stale_if_error_ms: Millis(600_000), ..proved() };
    let world = world_of(NODES, 413, &policy).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    world.origin.set_write_fate(WriteFate::LostAfter);
    let writer = world.send(0, &world.ask(WRITE));
    world.pass(50).await;
    let away = OriginBehavior::Fault(away());
    world.origin.set_behavior(away);
    world.origin.set_away(true);
    assert!(matches!(writer.await.unwrap().answer, Answer::Failed(_)));
    for node in 0..NODES {
        let outcome = read(&world, node, &ask).await;
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::StaleIfError)), "{outcome:?}");
        assert!(outcome.how.ttl_ms.unwrap() < 0);
    }
    world.origin.set_behavior(OriginBehavior::Well);
    world.origin.set_away(false);
    world.origin.set_write_fate(WriteFate::Well);
    world.pass(15_000).await;
    for node in 0..NODES {
        let outcome = read(&world, node, &ask).await;
        assert!(version(&outcome) == i64::from(world.origin.version()), "{outcome:?}");
        assert!(is_hit(&read(&world, node, &ask).await), "the mark is settled");
    }
}

/// A client that leaves while its write is being told: it is told all the same.
#[tokio::test(start_paused = true)]
async fn a_writer_that_leaves_is_told_all_the_same() {
    let world = world(414).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    for after_ms in [50, 100, 101] {
        let before = i64::from(world.origin.version());
        let writer = world.send(0, &world.ask(WRITE));
        world.pass(after_ms).await;
        writer.abort();
        world.pass(100 + SOON_MS).await;
        for node in 0..NODES {
            assert_eq!(version(&read(&world, node, &ask).await), before + 1);
        }
    }
}

/// A stopped node delays a write by its lease, once. When it goes on, it looks before it serves.
#[tokio::test(start_paused = true)]
async fn a_stopped_node_delays_a_write_by_its_lease_at_most() {
    let world = world(420).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    let writer = (owner + 1) % NODES;
    warm(&world, &ask).await;
    world.nodes[owner].process.set(Power::Paused);
    // Or the telling would wait in the stopped node's socket, and be the first that it reads.
    world.net.set_way_cut(writer, owner, true);
    let (_, first_ms) = write(&world, writer).await;
    let lease_ms = FRESHNESS_LEASE_MS_DEFAULT;
    assert!(first_ms >= Millis(200) && first_ms <= Millis(100 + lease_ms + SOON_MS), "{first_ms:?}");
    let (_, second_ms) = write(&world, writer).await;
    assert!(second_ms <= Millis(100 + SOON_MS), "its lease has run out: {second_ms:?}");
    world.nodes[owner].process.set(Power::On);
    assert!(world.nodes[owner].engine.path().hit(&ask).is_none(), "nobody has looked yet");
    assert_eq!(version(&read(&world, owner, &ask).await), 3);
}

/// A node that is cut from its peers, and not from the store: a write waits for its lease, or until it has heard.
#[tokio::test(start_paused = true)]
async fn a_node_that_only_the_store_reaches_hears_there() {
    let world = world(421).await;
    let ask = world.ask(READ);
    let owner = world.owner_of(&ask);
    warm(&world, &ask).await;
    for other in (0..NODES).filter(|node| *node != owner) {
        world.net.set_way_cut(other, owner, true);
        world.net.set_way_cut(owner, other, true);
    }
    // The others have taken it off their rings: nobody would tell it.
    let names: Vec<_> = (0..NODES).map(|node| world.nodes[node].engine.me().node.clone()).collect();
    let rest: Vec<_> = (0..NODES).filter(|node| *node != owner).map(|node| names[node].clone()).collect();
    for node in (0..NODES).filter(|node| *node != owner) {
        world.nodes[node].routing.set(&rest);
    }
    for round in 2..6 {
        let writer = (owner + 1 + round % 2) % NODES;
        let (_, took_ms) = write(&world, writer).await;
        assert!(took_ms <= Millis(100 + FRESHNESS_LEASE_MS_DEFAULT + SOON_MS), "{took_ms:?}");
        assert_eq!(version(&read(&world, owner, &ask).await), i64::try_from(round).unwrap());
        world.pass(u64::try_from(round * 37).unwrap()).await;
    }
}

/// The store is away: nodes tell each other, and no write waits for it. When it is back, it is told.
#[tokio::test(start_paused = true)]
async fn without_a_store_nodes_tell_each_other() {
    let world = world(422).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    world.store.set_down(true);
    world.pass(2_000).await;
    let (_, took_ms) = write(&world, 0).await;
    assert!(took_ms <= Millis(100 + SOON_MS), "{took_ms:?}");
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &ask).await), 2);
    }
    // The store comes back without what it had. A node that joins hears of the write from it.
    world.store.lose_everything();
    world.store.set_down(false);
    world.pass(1_000).await;
    let heard = world.nodes[1].engine.writes().known();
    assert!(heard.iter().any(|record| record.tag.is_some()), "{heard:?}");
    assert_eq!(heard, world.nodes[0].engine.writes().known());
    assert_eq!(world.store.written(), heard);
}

/// A telling brings what ended during the one before it. Messages are slow, so that a second write ends while the first one's telling
/// is on its way back:
///   the owner hears of the first write and reads · the second write ends · the first telling is answered.
#[tokio::test(start_paused = true)]
async fn the_next_telling_brings_what_ended_during_the_last_one() {
    for seed in 0..20 {
        let world = world_of(2, seed, &proved()).await;
        world.origin.set_delay_ms(20);
        let (ask, write) = (world.ask(READ), world.ask(WRITE));
        let owner = world.owner_of(&ask);
        read(&world, owner, &ask).await;
        world.net.set_weather(NetWeather { delay_ms_max: 100, ..NetWeather::default() });
        let first = world.send(1 - owner, &write);
        while world.nodes[owner].engine.writes().known().is_empty() {
            world.pass(1).await;
        }
        let reading = world.send(owner, &ask);
        let second = world.send(1 - owner, &write);
        for ended in [reading, first, second] {
            assert!(is_answered(&ended.await.unwrap()));
        }
        assert_eq!(version(&read(&world, owner, &ask).await), 3, "seed {seed}");
    }
}

/// Many writes at once share tellings: two messages to each node for a hundred writes that end together.
#[tokio::test(start_paused = true)]
async fn writes_that_end_together_share_tellings() {
    let world = world(424).await;
    write(&world, 0).await;
    let forwards = world.net.forwards();
    let writers: Vec<_> = (0..100).map(|_| world.send(0, &world.ask(WRITE))).collect();
    for writer in writers {
        assert!(matches!(writer.await.unwrap().answer, Answer::Body(_)));
    }
    let told = world.net.forwards() - forwards;
    assert!(told <= 2 * (NODES as u64 - 1) * 2, "{told} messages");
    assert_eq!(world.origin.version(), 102);
}

/// `max-stale` allows an entry that a write has ended, and its answer says that it is stale.
#[tokio::test(start_paused = true)]
async fn a_request_may_accept_what_a_write_has_ended() {
    let world = world(425).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    world.pass(3_000).await;
    write(&world, 0).await;
    let owner = world.owner_of(&ask);
    let accepting = |ms| {
        let freshness = Freshness { stale_max_ms: Some(Millis(ms)), ..Freshness::default() };
        Ask { freshness, ..ask.clone() }
    };
    let stale = read(&world, owner, &accepting(60_000)).await;
    assert_eq!((version(&stale), stale.how.detail), (1, Some(Detail::Stale)));
    assert!(stale.how.ttl_ms.unwrap() < 0);
    world.pass(300).await;
    let anew = read(&world, owner, &ask).await;
    assert!(is_hit(&anew) && version(&anew) == 2, "it was refreshed meanwhile: {anew:?}");
    write(&world, 0).await;
    let strict = read(&world, owner, &accepting(100)).await;
    assert_eq!(version(&strict), 3, "the copy is older than that: {strict:?}");
}

/// `freshness.mode = "ttl"`: as before.
#[tokio::test(start_paused = true)]
async fn with_ttl_a_write_ends_nothing() {
    let world = world_of(NODES, 427, &default_policy()).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    write(&world, 0).await;
    for node in 0..NODES {
        let outcome = read(&world, node, &ask).await;
        assert!(is_hit(&outcome) && version(&outcome) == 1);
    }
}
