//! A write that commits in parts: what is committed is told while it runs.

use hopcache_engine::Effects;
use hopcache_sim::world::write_statement::WRITE_IN_PARTS;

use super::{NODES, SOON_MS, warm, world, write_of};
use crate::prelude::*;

const OTHER: &str = "MATCH (x:Other) RETURN x.version AS version";
const BATCHES: u32 = 40;
const EVERY_MS: u64 = 250;
/// CASES G6: at least so often.
const TOLD_MS: u64 = 500;

/// Reads at every node while 40 batches are committed in 10 s: none is older than half a second, and most are hits.
#[tokio::test(start_paused = true)]
async fn what_a_long_statement_has_committed_is_seen_while_it_runs() {
    let world = world(470).await;
    let (ask, other) = (world.ask(READ), world.ask(OTHER));
    warm(&world, &ask).await;
    warm(&world, &other).await;
    world.origin.set_delay_ms(20);
    world.origin.set_write_fate(WriteFate::Batches(BATCHES, EVERY_MS));
    let forwards = world.net.forwards();
    let writer = world.send(0, &world.ask(WRITE_IN_PARTS));
    let (mut versions, mut hits, mut reads) = (Vec::new(), 0, 0);
    while !writer.is_finished() {
        versions.push(i64::from(world.origin.version()));
        // Each step takes 10 ms, and the reads of a step no time, or 20 ms.
        let then = versions.len().saturating_sub(usize::try_from((TOLD_MS + SOON_MS) / 10).unwrap());
        for node in 0..NODES {
            let outcome = read(&world, node, &ask).await;
            assert!(version(&outcome) >= versions[then], "{outcome:?} of {versions:?}");
            (hits, reads) = (hits + usize::from(is_hit(&outcome)), reads + 1);
        }
        assert!(is_hit(&read(&world, 1, &other).await), "it reads nothing that is written");
        world.pass(10).await;
    }
    assert!(matches!(writer.await.unwrap().answer, Answer::Body(_)));
    assert!(2 * hits > reads, "{hits} hits of {reads}");
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &ask).await), 1 + i64::from(BATCHES));
    }
    // Two tellings in a second, of 10 s, to two nodes; and the forwarded reads.
    let told = world.net.forwards() - forwards;
    assert!(told <= 2 * reads as u64, "{told} messages for {reads} reads");
}

async fn versions(world: &World, ask: &Ask) -> Vec<i64> {
    let mut versions = Vec::new();
    for node in 0..NODES {
        versions.push(version(&read(world, node, ask).await));
    }
    versions
}

/// Before a client gets a row that shows a batch, every node has heard of the batch. A row that shows nothing new costs nothing.
#[tokio::test(start_paused = true)]
async fn whoever_has_seen_a_row_gets_nothing_older() {
    let world = world(471).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    let touched = Effects::of(WRITE_IN_PARTS, &[0xA0]).touched();
    let write = world.nodes[0].engine.writes().begin(write_of(&ask, Parts::Batches, touched));
    assert!(write.has_parts());
    for batch in 2..5 {
        world.origin.write_past();
        write.shows_rows().await;
        assert_eq!(versions(&world, &ask).await, [batch; NODES]);
        let told = world.net.forwards();
        write.shows_rows().await;
        assert_eq!(world.net.forwards(), told, "it is told already");
    }
    write.changed_nothing();
}

/// A procedure that Neo4j says only reads ends nothing, however long it runs and whatever others write past the cluster.
#[tokio::test(start_paused = true)]
async fn a_long_procedure_that_reads_ends_nothing() {
    for (statement, is_write) in [("CALL own.report()", false), (WRITE_IN_PARTS, true)] {
        let world = world(472).await;
        let ask = world.ask(READ);
        warm(&world, &ask).await;
        let called = Parts::Called { statement: statement.into(), params: vec![0xA0].into() };
        let write = world.nodes[0].engine.writes().begin(write_of(&ask, called, Touched::Anything));
        for _ in 0..4 {
            world.origin.write_past();
            world.pass(TOLD_MS).await;
            let newest = i64::from(world.origin.version());
            let expected = if is_write { newest } else { 1 };
            assert_eq!(versions(&world, &ask).await, [expected; NODES], "{statement}");
        }
        write.changed_nothing();
    }
}

/// A procedure may commit by itself in an explicit transaction too. Its statement tells that, however it ends; what the transaction has
/// written is told by its COMMIT.
#[tokio::test(start_paused = true)]
async fn what_a_procedure_has_committed_is_told_though_its_transaction_is_rolled_back() {
    for (statement, expected) in [(WRITE_IN_PARTS, 2), ("CALL own.report()", 1)] {
        for is_refused in [false, true] {
            let world = world(474).await;
            let ask = world.ask(READ);
            warm(&world, &ask).await;
            let called = Parts::Called { statement: statement.into(), params: vec![0xA0].into() };
            let writes = world.nodes[0].engine.writes();
            let write = writes.begin(write_of(&ask, called, Touched::Anything)).within_a_transaction();
            world.origin.write_past();
            if is_refused {
                write.refused("Neo.ClientError.Statement.ArithmeticError").await;
            } else {
                write.committed(None).await;
            }
            assert_eq!(versions(&world, &ask).await, [expected; NODES], "{statement}, {is_refused}");
        }
    }
}

/// A statement that is one transaction tells nothing before its end, and one that has ended nothing more.
#[tokio::test(start_paused = true)]
async fn only_what_commits_in_parts_is_looked_at() {
    let world = world(473).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    let writes = world.nodes[0].engine.writes();
    let whole = writes.begin(write_of(&ask, Parts::None, Touched::Anything));
    writes.begin(write_of(&ask, Parts::Batches, Touched::Anything)).changed_nothing();
    assert!(!whole.has_parts());
    world.origin.write_past();
    whole.shows_rows().await;
    world.pass(3 * TOLD_MS).await;
    assert_eq!(versions(&world, &ask).await, [1; NODES]);
    whole.changed_nothing();
}
