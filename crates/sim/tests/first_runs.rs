//! The first run of a text is the question whether it reads: what becomes of it where the answer is no plain yes.

use hopcache_core::key::KeyHasher;
use hopcache_core::name_glob::NameGlob;
use hopcache_cypher::verdict::Allowed;
use hopcache_engine::ask::{Query, QueryParts};
use hopcache_engine::event::{Cause, FaultWord};
use hopcache_engine::ports::AccessMode;
use hopcache_engine::rendering::RenderingId;

use crate::prelude::*;

/// A world of one node that has asked Neo4j about a text: from then on runs are the question.
async fn asked(seed: u64) -> World {
    let world = World::new(1, seed);
    world.send(0, &world.ask(READ)).await.unwrap();
    assert_eq!((world.origin.kinds(), world.origin.runs()), (1, 1));
    world
}

/// Kinds that were asked for, and runs, since those of [`asked`].
fn since(world: &World) -> (u64, usize) {
    (world.origin.kinds() - 1, world.origin.runs() - 1)
}

async fn ten(world: &World, statement: &str) -> Vec<Class> {
    let ask = world.ask(statement);
    let sent: Vec<_> = (0..10).map(|_| world.send(0, &ask)).collect();
    let mut classes = Vec::new();
    for outcome in sent {
        classes.push(outcome.await.unwrap().how.class);
    }
    classes
}

/// READ mode has refused the text, and `EXPLAIN` fails: the mode of its client runs it, or tells what is wrong with it. The refused run
/// is no run and no error of Neo4j.
#[tokio::test(start_paused = true)]
async fn a_refused_first_run_is_a_write_whatever_explain_says() {
    let world = asked(71).await;
    let statement = "MATCH (n:SLY:ODD) RETURN n";
    assert_eq!(ten(&world, statement).await, vec![Class::Bypass(Reason::Write); 10]);
    assert_eq!(since(&world).1, 10, "each client's own run");
    let seen = world.origin.runs_seen();
    assert!(seen.iter().filter(|run| run.statement == statement).all(|run| run.mode == AccessMode::Write));
    let events = &world.nodes[0].events;
    let runs = |of| events.count(|event| matches!(event, Event::OriginRun { cause, .. } if *cause == of));
    assert_eq!((runs(Cause::Miss), runs(Cause::Write)), (1, 10));
    assert_eq!(events.count(|event| matches!(event, Event::OriginFault(FaultWord::Failed))), 0);
}

/// I6: a summary that names no kind confirms no read, so nobody shares its run.
#[tokio::test(start_paused = true)]
async fn a_run_of_no_kind_is_shared_with_nobody() {
    let world = asked(72).await;
    assert_eq!(ten(&world, "MATCH (n:ODD) RETURN n").await, vec![Class::Bypass(Reason::Unknown); 10]);
    assert_eq!(since(&world), (0, 11));
    assert_eq!(ten(&world, "MATCH (n:ODD) RETURN n").await, vec![Class::Bypass(Reason::Write); 10]);
    assert_eq!(since(&world), (0, 21));
}

/// The answer to `EXPLAIN` tells how far its database is, and only that.
#[tokio::test(start_paused = true)]
async fn the_first_text_of_each_database_is_asked_about() {
    let world = asked(73).await;
    for (database, statement, expected) in [
        ("neo4j", "MATCH (a) RETURN a", (0, 1)),
        ("movies", "MATCH (a) RETURN a", (1, 2)),
        ("movies", "MATCH (b) RETURN b", (1, 3)),
    ] {
        world.send(0, &world.ask_in(database, statement, "ann")).await.unwrap();
        assert_eq!(since(&world), expected, "{database} {statement}");
    }
}

/// A result that no entry can hold has no summary. READ mode has not refused its statement, so each client's own run is one in READ mode.
#[tokio::test(start_paused = true)]
async fn a_first_run_that_is_too_large_says_that_it_reads() {
    let world = asked(74).await;
    let statement = "MATCH (n:HUGE) RETURN n";
    let ask = Ask { rendering: RenderingId::BARE_FIRST, ..world.ask(statement) };
    for _ in 0..2 {
        let outcome = world.send(0, &ask).await.unwrap();
        assert_eq!(outcome.how.class, Class::Bypass(Reason::TooLarge));
    }
    assert_eq!(since(&world), (0, 3));
    let modes: Vec<_> = world.origin.runs_seen().into_iter().skip(1).map(|run| run.mode).collect();
    assert_eq!(modes, [AccessMode::Read; 3]);
}

/// I6: READ mode does not refuse a procedure of mode DBMS. One that only the operator vouches for is asked about before it runs, each by
/// itself; one of the lists is not.
#[tokio::test(start_paused = true)]
async fn a_procedure_that_only_the_operator_vouches_for_is_asked_about_first() {
    let world = asked(75).await;
    let allowed = Allowed::new(&[], &["custom.*".parse::<NameGlob>().unwrap()]);
    let ask_for = |statement: &str| {
        let ask = world.ask(statement);
        let Query { database, params, impersonated, identity, .. } = &*ask.query;
        let parts = QueryParts {
            database: Arc::clone(database),
            statement: statement.into(),
            params: params.clone(),
            impersonated: impersonated.clone(),
            identity: Arc::clone(identity),
        };
        let query = Arc::new(Query::read(parts, &KeyHasher::new(b"simulated"), &allowed));
        Ask { query, ..ask }
    };
    for (statement, expected) in [
        ("CALL db.labels() YIELD label RETURN label", (0, 1)),
        ("CALL custom.report() YIELD a RETURN a", (1, 2)),
        ("CALL custom.count() YIELD a RETURN a", (2, 3)),
    ] {
        world.send(0, &ask_for(statement)).await.unwrap();
        assert_eq!(since(&world), expected, "{statement}");
    }
}
