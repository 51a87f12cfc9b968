//! Only what was written ends anything: what Neo4j refuses, and what cannot write, ends nothing but reads of labels, types and keys.

use super::{NODES, warm, world, write_of};
use crate::prelude::*;

const KEYS: &str = "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey";
const ARITHMETIC: &str = "Neo.ClientError.Statement.ArithmeticError";
/// Of a text that is no Cypher, and of `date('xx')` while it runs.
const SYNTAX: &str = "Neo.ClientError.Statement.SyntaxError";
const SEARCH: &str = "CALL db.index.fulltext.queryNodes('names', 'Ada') YIELD node RETURN node";

/// Entries of two users and two databases, in memory on every node.
async fn warm_entries(world: &World) -> Vec<Ask> {
    let places = [("neo4j", "alice"), ("neo4j", "bob"), ("other", "alice")];
    let statements = [READ, KEYS, SEARCH];
    let asks = places.map(|(database, user)| statements.map(|text| world.ask_in(database, text, user)));
    let asks = asks.concat();
    for ask in &asks {
        warm(world, ask).await;
    }
    asks
}

/// A statement of bob, which Neo4j refuses with this code.
async fn refuse(world: &World, (database, statement): (&str, &str), code: &str) {
    let failure = said(code);
    world.origin.set_behavior(OriginBehavior::Fault(OriginFault::Failed(failure)));
    let outcome = world.send(0, &world.ask_in(database, statement, "bob")).await.unwrap();
    assert!(matches!(outcome.answer, Answer::Failed(_)), "{statement}: {outcome:?}");
    world.origin.set_behavior(OriginBehavior::Well);
}

/// CASES G5: a read ends nothing, whatever it names and however it ends, and neither does what Neo4j never began.
#[tokio::test(start_paused = true)]
async fn what_has_written_nothing_ends_nothing() {
    let world = world(460).await;
    let asks = warm_entries(&world).await;
    let unknown = "Neo.ClientError.Procedure.ProcedureNotFound";
    for ((database, statement), code) in [
        (("neo4j", "USE neo4j RETURN 1/0"), ARITHMETIC),
        (("neo4j", r"RETURN 1/0 AS \u0041"), ARITHMETIC),
        (("system", "SHOW USERS YIELD user RETURN 1/0"), ARITHMETIC),
        (("system", "CALL nope()"), unknown),
        (("neo4j", "CALL nope()"), unknown),
        (("neo4j", "USE neo4j CALL nope('profile')"), unknown),
        (("neo4j", "CALL own.report() YIELD v RETURN 1/0"), ARITHMETIC),
        (("neo4j", "USE neo4j CREATE (n:New)"), "Neo.ClientError.Statement.AccessMode"),
        (("system", "CREATE USER eve SET PASSWORD 'x'"), "Neo.ClientError.Security.Unauthorized"),
    ] {
        refuse(&world, (database, statement), code).await;
        for node in 0..NODES {
            for ask in &asks {
                let outcome = read(&world, node, ask).await;
                assert!(is_hit(&outcome), "{statement} at node {node} ends {}", ask.query.statement);
            }
        }
    }
}

/// Every read on every node, after a write that was rolled back: those of keys are run again, the others are hits.
async fn assert_only_keys_ended(world: &World, asks: &[Ask], database: &str) {
    let newest = i64::from(world.origin.version());
    for ask in asks {
        let is_ended = *ask.query.statement == *KEYS && *ask.query.database == *database;
        for node in 0..NODES {
            let outcome = read(world, node, ask).await;
            let (expected, text) = (if is_ended { newest } else { 1 }, &ask.query.statement);
            assert_eq!(version(&outcome), expected, "{text} at node {node}: {outcome:?}");
        }
    }
}

/// CASES G8: a write that is rolled back may have made a key, and nothing else of it stays.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_rolled_back_ends_reads_of_keys_alone() {
    let world = world(461).await;
    // The nodes know that `other` is another name of the database; it is one at this origin.
    let asks: Vec<Ask> = [READ, KEYS, SEARCH].map(|text| world.ask(text)).into();
    for ask in &asks {
        warm(&world, ask).await;
    }
    for code in [ARITHMETIC, SYNTAX] {
        world.origin.set_write_fate(WriteFate::LeavesLabel(code));
        let outcome = world.send(0, &world.ask(WRITE)).await.unwrap();
        assert!(matches!(outcome.answer, Answer::Failed(_)), "{outcome:?}");
        assert_only_keys_ended(&world, &asks, "neo4j").await;
    }
}

/// The same for a transaction that its client rolls back, or leaves. One that is committed tells by its write.
#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_rolled_back_ends_reads_of_keys_alone() {
    let world = world(462).await;
    let asks: Vec<Ask> = [READ, KEYS, SEARCH].map(|text| world.ask(text)).into();
    for ask in &asks {
        warm(&world, ask).await;
    }
    let writes = world.nodes[0].engine.writes();
    let begun = || writes.may_make_tokens(write_of(&asks[0], Parts::None, Touched::Anything)).unwrap();
    begun().committed();
    world.pass(100).await;
    for ask in &asks {
        assert!(is_hit(&read(&world, 1, ask).await), "nothing was told");
    }
    world.origin.write_past();
    begun().rolled_back().await;
    assert_only_keys_ended(&world, &asks, "neo4j").await;
    world.origin.write_past();
    drop(begun());
    world.pass(100).await;
    assert_only_keys_ended(&world, &asks, "neo4j").await;
    let makes_none =
        WriteOf { tokens: Some(Arc::from([])), ..write_of(&asks[0], Parts::None, Touched::Anything) };
    assert!(writes.may_make_tokens(makes_none).is_none());
}

/// CASES G8: an answer that warns of an unknown key ends when the key may be there, on every node, from Redis too. The same read
/// without a warning stays.
#[tokio::test(start_paused = true)]
async fn a_warning_of_an_unknown_key_ends_when_a_key_may_be_new() {
    const WARNED: &str = "MATCH (n:Other) RETURN n.version AS version, n.Unknown AS unknown";
    const KNOWN: &str = "MATCH (n:Other) RETURN n.version AS version, n.known AS known";
    for is_rolled_back in [true, false] {
        let world = world(463).await;
        let (warned, known) = (world.ask(WARNED), world.ask(KNOWN));
        for ask in [&warned, &known] {
            warm(&world, ask).await;
            assert!(is_hit(&read(&world, 0, ask).await));
        }
        world.origin.set_write_fate(if is_rolled_back {
            WriteFate::LeavesLabel(ARITHMETIC)
        } else {
            WriteFate::Well
        });
        world.send(0, &world.ask(WRITE)).await.unwrap();
        // Redis has what the owner's memory has lost.
        committed(&world).await;
        world.nodes[world.owner_of(&warned)].memory.forget_all();
        for node in 0..NODES {
            assert_eq!(version(&read(&world, node, &warned).await), 2, "at node {node}");
            assert_eq!(version(&read(&world, node, &known).await), 1, "at node {node}");
        }
    }
}
