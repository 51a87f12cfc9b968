//! Degrees of the graph nodes that queries start from (issue 5). A degree comes from a hint, or is learned in the
//! background, or is unknown. Learning is bounded, delays no request, and runs no query of a client.

use hopcache_core::limits::{
    DEGREE_HITS_MIN, DEGREE_MAX, DEGREE_QUEUE_MAX, DEGREE_SLOW_MS, DEGREE_TIMEOUT_MS, DEGREE_TTL_MS,
    DEGREE_UNKNOWN_TTL_MS,
};
use hopcache_core::refresh::{KeyFacts, Mode, Timing};
use hopcache_engine::degree::{Degree, DegreeSource};
use hopcache_sim::world::origin::DegreeBehavior;

use crate::prelude::*;

const READ: &str = "MATCH (p:Person {id: 7})-[:KNOWS]-(f) RETURN f";

/// In the mode where a degree always counts.
fn early() -> Policy {
    let mut policy = default_policy();
    policy.refresh.is_early = true;
    policy.refresh.rule.mode = Mode::TopologySensitive;
    policy
}

/// In the default mode, where it counts for keys without history.
fn adaptive() -> Policy {
    let mut policy = early();
    policy.refresh.rule.mode = Mode::Adaptive;
    policy
}

fn world(seed: u64) -> World {
    World::with_policy(1, seed, &early())
}

async fn ask(world: &World, ask: &Ask) {
    let outcome = world.send(0, ask).await.unwrap();
    assert!(matches!(outcome.answer, Answer::Body(_)), "{:?}", outcome.how);
}

/// Asks this often; every answer is a hit on a fresh copy.
async fn hits(world: &World, request: &Ask, hits: u32) {
    let request = Ask { deadline: sim_now() + Millis(60_000), ..request.clone() };
    // Missed, or stale and refreshed.
    ask(world, &request).await;
    world.pass(200).await;
    for _ in 1..hits {
        ask(world, &request).await;
    }
    world.pass(REPLAN_MS).await;
    ask(world, &request).await;
}

/// A hit checks whether the degree is known when it makes the copy's plan anew, which is every 32nd of its TTL.
const REPLAN_MS: u64 = 2_000;

fn degree(world: &World, ask: &Ask) -> Degree {
    world.nodes[0].engine.refresh().degree_of(&ask.query, ask.hints.degree)
}

fn learned(value: u64) -> Degree {
    Degree { value: Some(value), source: DegreeSource::Learned }
}

const UNKNOWN: Degree = Degree { value: None, source: DegreeSource::Unknown };

fn asked(world: &World) -> usize {
    world.origin.degrees_asked().len()
}

fn noted(world: &World, known: bool) -> usize {
    world.nodes[0]
        .events
        .count(|event| matches!(event, Event::DegreeAsked { is_known } if *is_known == known))
}

#[tokio::test(start_paused = true)]
async fn a_degree_is_learned_after_enough_hits_as_the_principal_that_asked() {
    let world = world(1);
    world.origin.set_degree(DegreeBehavior::Says(154, 5));
    let request = world.ask(READ);
    hits(&world, &request, DEGREE_HITS_MIN - 1).await;
    world.pass(100).await;
    assert_eq!((asked(&world), degree(&world, &request)), (0, UNKNOWN), "too few hits");
    world.pass(REPLAN_MS).await;
    ask(&world, &request).await;
    world.pass(100).await;
    assert_eq!(degree(&world, &request), learned(154));
    let questions = world.origin.degrees_asked();
    assert_eq!(
        questions[0].statement,
        "MATCH (n:Person {id: $value}) WITH n LIMIT 1 RETURN size([(n)--() | 1]) AS degree"
    );
    assert_eq!(questions[0].scope, request.query.identity.scope);
    assert_eq!((noted(&world, true), noted(&world, false)), (1, 0));
    // It is no run of a client's query.
    let runs = world.nodes[0].events.count(|event| matches!(event, Event::OriginRun { .. }));
    assert_eq!((runs, world.origin.runs()), (1, 1));
    // Another query from the same graph node knows it without a question; another principal's does not (I5).
    let sibling = world.ask("MATCH (q:Person) WHERE q.id = 7 RETURN q.name");
    hits(&world, &sibling, 40).await;
    assert_eq!(degree(&world, &sibling), learned(154));
    assert_eq!((asked(&world), degree(&world, &world.ask_as(READ, "bob"))), (1, UNKNOWN));
    // After its time the node asks for the degree again.
    world.pass(DEGREE_TTL_MS).await;
    assert_eq!(degree(&world, &request), UNKNOWN);
    world.origin.set_degree(DegreeBehavior::Says(i64::MAX, 5));
    hits(&world, &request, 40).await;
    world.pass(100).await;
    assert_eq!((asked(&world), degree(&world, &request)), (2, learned(DEGREE_MAX)));
}

/// A key without history: its entry was read by another node, has `left_ms` of its minute left, and is hit once here.
async fn found(world: &World, request: &Ask, left_ms: u64) {
    each_owns_all(world);
    world.send(1, request).await.unwrap();
    world.pass(60_000 - left_ms).await;
    for _ in 0..2 {
        let outcome = world.send(0, request).await.unwrap();
        assert_eq!(outcome.how.class, Class::Hit);
    }
    world.pass(100).await;
}

async fn facts(world: &World, request: &Ask) -> (KeyFacts, Timing) {
    let explained =
        world.nodes[0].engine.path().explain(&request.query, Hints::default()).await.refresh.copy.unwrap();
    (explained.facts, explained.plan.timing)
}

/// `adaptive`: a degree is the prior of a key without history. So the node asks for it with the key's first plan and
/// has it before the entry expires. Other keys of the same anchor then have the degree without a question.
#[tokio::test(start_paused = true)]
async fn by_default_it_is_asked_for_where_there_is_no_history() {
    let world = World::with_policy(2, 10, &adaptive());
    world.origin.set_degree(DegreeBehavior::Says(154, 5));
    let request = world.ask(READ);
    found(&world, &request, 20_000).await;
    assert_eq!((asked(&world), degree(&world, &request)), (1, learned(154)));
    let (seen, timing) = facts(&world, &request).await;
    assert_eq!((seen.rate_per_s, seen.degree, timing), (None, Some(154), Timing::Prior));
    // 1 + ln 154 is 6.04 times as early as without.
    let unknown = KeyFacts { degree: None, ..seen };
    let rule = world.nodes[0].engine.policy().refresh.rule;
    let times = rule.plan(&seen).scale_ms / rule.plan(&unknown).scale_ms;
    assert!((6.0..6.1).contains(&times), "{times}");
    let sibling = world.ask("MATCH (q:Person) WHERE q.id = 7 RETURN q.name");
    found(&world, &sibling, 20_000).await;
    assert_eq!((asked(&world), facts(&world, &sibling).await.0.degree), (1, Some(154)));
}

/// `adaptive`: a degree decides nothing for a key with a history, or with one before the first decision.
#[tokio::test(start_paused = true)]
async fn by_default_nobody_is_asked_for_what_has_a_history_in_time() {
    let world = World::with_policy(2, 11, &adaptive());
    world.origin.set_degree(DegreeBehavior::Says(154, 5));
    let fresh = world.ask(READ);
    found(&world, &fresh, 60_000).await;
    for _ in 0..20 {
        world.pass(1_000).await;
        world.send(0, &fresh).await.unwrap();
    }
    assert!(facts(&world, &fresh).await.0.rate_per_s.is_some());
    for _ in 0..18 {
        world.pass(1_000).await;
        world.send(0, &fresh).await.unwrap();
    }
    assert_eq!(asked(&world), 0, "it lived long enough to be known");
}

/// The other mode: the key's first plan has the degree that another key's question brought.
#[tokio::test(start_paused = true)]
async fn a_degree_known_by_another_key_counts_from_the_first_hit() {
    let world = world(12);
    world.origin.set_degree(DegreeBehavior::Says(154, 5));
    world.nodes[0].engine.refresh().learn_degree(&world.ask(READ).query);
    world.pass(100).await;
    let sibling = world.ask("MATCH (q:Person) WHERE q.id = 7 RETURN q.name");
    ask(&world, &sibling).await;
    assert_eq!(degree(&world, &sibling), UNKNOWN, "nobody looked yet");
    ask(&world, &sibling).await;
    assert_eq!((asked(&world), facts(&world, &sibling).await.0.degree), (1, Some(154)));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_where_a_degree_decides_nothing() {
    let mut plain = early();
    plain.refresh.rule.mode = Mode::Plain;
    let short = Policy { ttl_ms: Millis(30_000), ..early() };
    for (seed, policy) in [(1, plain), (2, short), (3, default_policy())] {
        let world = World::with_policy(1, seed, &policy);
        hits(&world, &world.ask(READ), 70).await;
        world.pass(100).await;
        assert_eq!(asked(&world), 0, "policy {seed}");
    }
    let world = world(4);
    let mut hinted = world.ask(READ);
    hinted.hints = Hints { degree: Some(500), ..Hints::default() };
    hits(&world, &hinted, 70).await;
    hits(&world, &world.ask("MATCH (p {id: 7}) RETURN p"), 70).await;
    world.pass(100).await;
    assert_eq!(asked(&world), 0, "hinted, or without a label");
    assert_eq!(degree(&world, &hinted), Degree { value: Some(500), source: DegreeSource::Hint });
}

/// Without an index the server walks through the label: once, for at most the question's time.
#[tokio::test(start_paused = true)]
async fn a_slow_label_is_asked_about_once_and_left_alone() {
    let world = world(5);
    world.origin.set_degree(DegreeBehavior::Says(3, DEGREE_TIMEOUT_MS + 1));
    for id in 0..5 {
        hits(&world, &world.ask(&format!("MATCH (p:Person {{id: {id}}}) RETURN p")), 40).await;
        world.pass(DEGREE_TIMEOUT_MS + 100).await;
    }
    assert_eq!((asked(&world), noted(&world, false)), (1, 1));
    world.origin.set_degree(DegreeBehavior::Says(3, 5));
    let city = world.ask("MATCH (c:City {id: 1}) RETURN c");
    hits(&world, &city, 40).await;
    world.pass(100).await;
    assert_eq!(degree(&world, &city), learned(3), "another label");
    world.pass(DEGREE_SLOW_MS).await;
    let person = world.ask("MATCH (p:Person {id: 0}) RETURN p");
    hits(&world, &person, 40).await;
    world.pass(100).await;
    assert_eq!(degree(&world, &person), learned(3), "after its time");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_not_there_is_asked_for_seldom() {
    let world = world(6);
    let request = world.ask(READ);
    hits(&world, &request, 300).await;
    world.pass(100).await;
    assert_eq!((asked(&world), noted(&world, false), degree(&world, &request)), (1, 1, UNKNOWN));
    world.origin.set_degree(DegreeBehavior::Says(9, 5));
    world.pass(DEGREE_UNKNOWN_TTL_MS).await;
    hits(&world, &request, 40).await;
    world.pass(100).await;
    assert_eq!((asked(&world), degree(&world, &request)), (2, learned(9)));
}

/// I9: one question at a time, few that wait, and none while half of the origin's slots are taken.
#[tokio::test(start_paused = true)]
async fn questions_are_bounded_and_give_way_to_clients() {
    let world = world(7);
    world.origin.set_degree(DegreeBehavior::Says(1, 900));
    let requests: Vec<Ask> =
        (0..100).map(|id| world.ask(&format!("MATCH (p:Person {{id: {id}}}) RETURN p"))).collect();
    for request in &requests {
        world.nodes[0].engine.refresh().learn_degree(&request.query);
    }
    assert!(world.nodes[0].engine.path().sizes().degrees <= 100 + DEGREE_QUEUE_MAX);
    world.pass(10).await;
    for turn in 1..=5 {
        world.pass(450).await;
        assert_eq!(world.origin.under_way(), 1, "one at a time");
        world.pass(450).await;
        assert_eq!(noted(&world, true), turn);
    }
    world.pass(60_000).await;
    assert_eq!(asked(&world), DEGREE_QUEUE_MAX, "the others were forgotten");
    assert_eq!(world.nodes[0].engine.path().sizes().tasks, 0);
    // Two of four slots are taken by clients.
    world.origin.set_slots(4);
    world.origin.set_delay_ms(5_000);
    let clients: Vec<_> =
        ["MATCH (a) RETURN a", "MATCH (b) RETURN b"].map(|text| world.send(0, &world.ask(text))).into();
    world.pass(1_000).await;
    assert_eq!(world.origin.under_way(), 2);
    world.nodes[0].engine.refresh().learn_degree(&requests[50].query);
    world.pass(1_000).await;
    assert_eq!(asked(&world), DEGREE_QUEUE_MAX, "the origin has better to do");
    for client in clients {
        client.await.unwrap();
    }
    world.nodes[0].engine.refresh().learn_degree(&requests[50].query);
    world.pass(1_000).await;
    assert_eq!((asked(&world), degree(&world, &requests[50])), (DEGREE_QUEUE_MAX + 1, learned(1)));
}

/// A task that panics leaves nothing behind that would keep the next one from asking.
#[tokio::test(start_paused = true)]
async fn a_panic_while_asking_is_not_the_end_of_asking() {
    let world = world(8);
    world.origin.set_degree(DegreeBehavior::Panic);
    let request = world.ask(READ);
    hits(&world, &request, 16).await;
    world.pass(100).await;
    assert_eq!((asked(&world), noted(&world, false), degree(&world, &request)), (1, 0, UNKNOWN));
    assert_eq!(world.nodes[0].engine.path().sizes().tasks, 0);
    world.origin.set_degree(DegreeBehavior::Says(12, 5));
    hits(&world, &request, 40).await;
    world.pass(100).await;
    assert_eq!((asked(&world), degree(&world, &request)), (2, learned(12)));
}

/// The owner knows the degree. Any asked node shows it, with plan and probability.
#[tokio::test(start_paused = true)]
async fn explain_shows_what_the_owner_knows() {
    let world = World::with_policy(2, 9, &early());
    world.origin.set_degree(DegreeBehavior::Says(154, 5));
    let request = world.ask(READ);
    let owner = world.owner_of(&request);
    for node in 0..2 {
        let explained =
            world.nodes[node].engine.path().explain(&request.query, Hints::default()).await.refresh;
        assert_eq!((explained.copy, explained.probability, explained.degree), (None, None, UNKNOWN));
        assert_eq!(explained.anchor.as_ref().map(|anchor| anchor.key.as_str()), Some("id"));
    }
    for _ in 0..40 {
        world.send(owner, &request).await.unwrap();
    }
    world.pass(REPLAN_MS).await;
    world.send(owner, &request).await.unwrap();
    world.pass(20_000).await;
    let here = world.nodes[owner].engine.path().explain(&request.query, Hints::default()).await.refresh;
    world.pass(0).await;
    let there = world.nodes[1 - owner].engine.path().explain(&request.query, Hints::default()).await.refresh;
    assert_eq!((here.degree, there.degree), (learned(154), learned(154)));
    let (here_copy, there_copy) = (here.copy.unwrap(), there.copy.unwrap());
    assert_eq!(here_copy.plan.timing, there_copy.plan.timing);
    let apart = here_copy.plan.scale_ms / there_copy.plan.scale_ms;
    assert!((0.99..1.01).contains(&apart), "a few milliseconds later: {apart}");
    assert_eq!(there_copy.facts.cost.mean_ms, 100.0, "as long as the run took");
    assert!(there_copy.facts.rate_per_s.is_some_and(|rate| rate > 1.0), "{there_copy:?}");
    assert!(there.probability.is_some_and(|chance| (0.0..1.0).contains(&chance)), "{there:?}");
    let hints = Hints { degree: Some(500), ..Hints::default() };
    let hinted = world.nodes[1 - owner].engine.path().explain(&request.query, hints).await.refresh;
    assert_eq!(hinted.degree, Degree { value: Some(500), source: DegreeSource::Hint });
    assert_eq!(hinted.copy.unwrap().facts.degree, Some(500));
    // The copy is stale: the next request starts its refresh.
    world.pass(50_000).await;
    let stale = world.nodes[1 - owner].engine.path().explain(&request.query, Hints::default()).await.refresh;
    assert_eq!(stale.probability, Some(1.0));
}
