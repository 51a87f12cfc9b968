//! Learning over simulated nodes (DESIGN "Prefetch"). A session at one node teaches a pattern; any other node predicts
//! it and prefetches for another session. Nothing crosses principals or databases. Only following queries are learned.

mod batches;
mod busy;
mod max_queries;
mod neighbours;
mod pages;

use hopcache_core::limits::{
    ANSWERED_MAX, OBSERVATIONS_EVERY_MS, OBSERVATIONS_MAX, OBSERVED_IN_ROUND_MAX, OBSERVED_OF_SESSION_MAX,
    OBSERVED_QUERY_BYTES_MAX, REFUSED_FORMS_MS, SESSIONS_WAITING_MAX,
};
use hopcache_engine::Engine;
use hopcache_engine::ask::SessionTag;
use hopcache_engine::event::{ObservationWord, PrefetchWord, ShareWord};
use hopcache_engine::policy::PrefetchPolicy;
use hopcache_engine::prefetch::{PatternView, Skip};
use hopcache_packstream::Value;
use hopcache_sim::world::udp::UdpWeather;

use crate::prelude::*;

const FIRST: &str = "MATCH (a) RETURN a";
const SECOND: &str = "MATCH (b) RETURN b";

fn policy() -> Policy {
    Policy { prefetch: PrefetchPolicy::DEFAULT, ..default_policy() }
}

fn learning_world(nodes: usize, seed: u64, policy: &Policy) -> World {
    let world = World::with_policy(nodes, seed, policy);
    for node in &world.nodes {
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.prefetch().tell_observations().await });
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.prefetch().count_transitions().await });
        let engine = Arc::clone(&node.engine);
        tokio::spawn(async move { engine.prefetch().share_transition_counts().await });
    }
    world
}

/// Asks as a client of node `node` does, and shows the answer to learning as `Front` does.
async fn ask(world: &World, node: usize, ask: &Ask) -> Outcome {
    ask_engine(&world.nodes[node].engine, ask.clone()).await
}

async fn ask_engine(engine: &Engine, ask: Ask) -> Outcome {
    let started = sim_now();
    let ask = Ask { deadline: started + Millis(60_000), ..ask };
    let outcome = front(engine, &ask).await;
    engine.prefetch().observe(&ask, &outcome, started);
    outcome
}

fn of_session(world: &World, session: u8, user: &str, (database, statement): (&str, &str)) -> Ask {
    Ask { session: Some(SessionTag([session; 16])), ..world.ask_in(database, statement, user) }
}

fn count(world: &World, such: impl Fn(&Event) -> bool) -> usize {
    world.nodes.iter().map(|node| node.events.count(&such)).sum()
}

fn observed(world: &World, word: ObservationWord) -> u32 {
    let mut sum = 0;
    for node in &world.nodes {
        node.events.each(|event| {
            if let Event::Observed(observed_word, count) = event
                && *observed_word == word
            {
                sum += count;
            }
        });
    }
    sum
}

/// Demand misses, so that each node's budget has a token (`learning/src/budget.rs`: four of them each).
async fn earn(world: &World) {
    for number in 0..80 {
        let statement = format!("MATCH (earned) RETURN {number} AS number");
        let asked = world.ask_in("neo4j", &statement, "carol");
        ask(world, number % world.nodes.len(), &asked).await;
    }
}

/// One session asks the first and then the second, through these nodes, with a person's pauses.
async fn walk(world: &World, session: u8, user: &str, nodes: [usize; 2]) -> [Outcome; 2] {
    let first = ask(world, nodes[0], &of_session(world, session, user, ("neo4j", FIRST))).await;
    world.pass(2_000).await;
    let second = ask(world, nodes[1], &of_session(world, session, user, ("neo4j", SECOND))).await;
    world.pass(2_000).await;
    [first, second]
}

async fn forget_everything(world: &World) {
    for node in &world.nodes {
        node.memory.forget_all();
    }
    world.store.lose_everything();
    world.pass(10).await;
}

/// DESIGN "Prefetch": a session teaches through A. The owner of another session predicts, and the prefetch serves a
/// client of C.
#[tokio::test(start_paused = true)]
async fn what_is_taught_at_one_node_is_warmed_at_all() {
    let world = learning_world(3, 72, &policy());
    earn(&world).await;
    for session in 0..3 {
        walk(&world, session, "alice", [0, 1]).await;
        forget_everything(&world).await;
    }
    assert!(count(&world, |event| matches!(event, Event::Shared(ShareWord::Merged, _))) > 0);
    let mut hits = 0;
    for session in 20..30 {
        let [_, second] = walk(&world, session, "alice", [2, 1]).await;
        hits += usize::from(is_hit(&second));
        forget_everything(&world).await;
    }
    assert!(hits >= 8, "{hits} of 10 sessions of any owner met what others had taught");
}

/// Must show 1 of issue 7: with `prefetch.gossip` off no node learns other nodes' patterns. Nothing else differs.
#[tokio::test(start_paused = true)]
async fn without_gossip_each_node_knows_what_it_was_taught_itself() {
    let mut silent = policy();
    silent.prefetch.is_gossiped = false;
    for (policy, merges) in [(silent, false), (policy(), true)] {
        let world = learning_world(3, 73, &policy);
        // One session, so that one node is taught.
        walk(&world, 1, "alice", [0, 1]).await;
        world.pass(3_000).await;
        let merged = count(&world, |event| matches!(event, Event::Shared(ShareWord::Merged, _)));
        assert_eq!(merged > 0, merges);
        let mut know = 0;
        for node in &world.nodes {
            know += usize::from(!patterns(&node.engine).await.is_empty());
        }
        assert_eq!(know, if merges { 3 } else { 1 }, "nodes that know of it");
    }
}

/// The patterns that a node knows successors of.
async fn patterns(engine: &Engine) -> Vec<PatternView> {
    let mut views = engine.prefetch().successors_sought("", 8).await;
    views.retain(|view| view.source.is_pattern());
    views
}

/// F14: a third of the pieces is lost on the way; pulls mend it.
#[tokio::test(start_paused = true)]
async fn lost_pieces_are_pulled() {
    let world = learning_world(3, 74, &policy());
    world.net.udp.set_weather(UdpWeather { lost: 1_000, ..UdpWeather::default() });
    walk(&world, 1, "alice", [0, 1]).await;
    world.pass(6_000).await;
    for node in &world.nodes {
        let view = patterns(&node.engine).await;
        let known = view.iter().flat_map(|pattern| &pattern.successors).filter(|each| each.form.is_some());
        assert!(known.count() >= 1, "{view:?}");
        assert!(view.iter().any(|pattern| pattern.text.is_some()), "{view:?}");
    }
}

/// Must show 1 of issue 7: a form that is too long for a piece of gossip can run at every node within two seconds, because nodes
/// pull it from a node that counted it. One random pull a second would take several seconds. Rows arrive in a piece, or just before
/// it in a page of a random node: by when in the round of pulls the session asks.
#[tokio::test(start_paused = true)]
async fn what_is_too_long_for_gossip_is_pulled_at_once() {
    for (seed, phase) in
        [0, 100, 250, 600].into_iter().flat_map(|phase| (80..90).map(move |seed| (seed, phase)))
    {
        let world = learning_world(5, seed, &policy());
        // Everybody has pulled once.
        world.pass(5_000 + phase).await;
        let long = format!("MATCH (b) WHERE b.name <> '{}' RETURN b", "x".repeat(1_500));
        ask(&world, 0, &of_session(&world, 1, "alice", ("neo4j", FIRST))).await;
        world.pass(1_000).await;
        ask(&world, 1, &of_session(&world, 1, "alice", ("neo4j", &long))).await;
        world.pass(2_000).await;
        for node in &world.nodes {
            let view = patterns(&node.engine).await;
            let known = view.iter().flat_map(|pattern| &pattern.successors);
            assert!(known.filter(|each| each.form.is_some()).count() >= 1, "{seed}, {phase}: {view:?}");
        }
    }
}

/// I5: nothing that one principal teaches, or teaches in one database, is known of another.
#[tokio::test(start_paused = true)]
async fn nothing_crosses_principals_or_databases() {
    let world = learning_world(3, 75, &policy());
    earn(&world).await;
    for session in 0..6 {
        walk(&world, session, "alice", [0, 1]).await;
        forget_everything(&world).await;
    }
    let runs_of = |world: &World, user: &str| {
        let scope = world.ask_as(SECOND, user).query.identity.scope;
        world.origin.runs_seen().iter().filter(|run| run.scope == scope).count()
    };
    // The same session's name, from another principal and into another database.
    for (session, user, database) in [(1, "bob", "neo4j"), (2, "alice", "movies"), (50, "bob", "movies")] {
        let before = runs_of(&world, user);
        let launched = count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
        let first = ask(&world, 2, &of_session(&world, session, user, (database, FIRST))).await;
        world.pass(3_000).await;
        let after = count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
        assert_eq!((launched, before + 1), (after, runs_of(&world, user)), "{user} {database}");
        assert!(!is_hit(&first));
    }
}

/// Issue 7: nodes drop a template that ends in an error of Neo4j. Each owner of keys finds this out by its own run. A
/// node that orders the template again gets this answer, and stops ordering it until a schema may have changed.
#[tokio::test(start_paused = true)]
async fn a_refused_form_is_ordered_no_more_by_who_heard_of_it() {
    let world = learning_world(3, 83, &policy());
    let broken = "MATCH (b:BROKEN {id: $id}) RETURN b";
    let of = |statement: &str, id: i64| {
        let params = Value::Map(vec![("id".to_owned(), Value::Int(id))]);
        let ask = world.ask_with(params, ("neo4j", statement, "alice"));
        Ask { session: Some(SessionTag([7; 16])), ..ask }
    };
    // As if Neo4j had taken the statement when a client asked it: it refuses it by now.
    let step = async |id: i64| {
        let outcome = ask(&world, 0, &of("MATCH (a {id: $id}) RETURN a", id)).await;
        world.pass(1_000).await;
        world.nodes[1].engine.prefetch().observe(&of(broken, id), &outcome, sim_now());
        world.pass(1_000).await;
    };
    let skipped = |skip| {
        let is_it =
            |event: &Event| matches!(event, Event::Prefetch(PrefetchWord::Skipped(why)) if *why == skip);
        count(&world, is_it)
    };
    // No node has earned a launch yet.
    for id in 0..4 {
        step(id).await;
    }
    assert_eq!(skipped(Skip::Refused), 0);
    earn(&world).await;
    for id in 10..30 {
        step(id).await;
    }
    let owners: std::collections::BTreeSet<usize> =
        (10..30).map(|id| world.owner_of(&of(broken, id))).collect();
    assert_eq!(owners.len(), 3, "each node owns keys of it");
    // Every node considers for its own keys. At worst each node's run is refused, and each node is told so once.
    let refused = skipped(Skip::Refused);
    assert!((1..=6).contains(&refused), "{refused} orders were refused");
    // A node passes on only its own counts, so the lesson ends here.
    world.pass(REFUSED_FORMS_MS).await;
    for id in 30..40 {
        step(id).await;
    }
    assert!((refused + 1..=refused + 6).contains(&skipped(Skip::Refused)), "it is tried again");
}

/// A session's concurrent requests teach nothing of each other (issue 7, "Sessions").
#[tokio::test(start_paused = true)]
async fn concurrent_requests_make_no_steps() {
    let world = learning_world(3, 76, &policy());
    let asks: Vec<Ask> = [FIRST, SECOND, "MATCH (c) RETURN c"]
        .iter()
        .map(|statement| of_session(&world, 4, "alice", ("neo4j", statement)))
        .collect();
    let (first, second, third) =
        tokio::join!(ask(&world, 0, &asks[0]), ask(&world, 1, &asks[1]), ask(&world, 2, &asks[2]));
    assert!([first, second, third].iter().all(|outcome| !is_hit(outcome)));
    world.pass(2_000).await;
    assert_eq!(
        (observed(&world, ObservationWord::Taken), observed(&world, ObservationWord::Learned)),
        (3, 0)
    );
}

/// THEORY: each request is observed once, wherever its key and its session are owned. A prefetch is not observed, so it
/// causes no other prefetch.
#[tokio::test(start_paused = true)]
async fn a_request_is_observed_once_and_a_prefetch_never() {
    let world = learning_world(3, 77, &policy());
    earn(&world).await;
    let third = "MATCH (c) RETURN c";
    for session in 0..4 {
        walk(&world, session, "alice", [0, 1]).await;
        ask(&world, 2, &of_session(&world, session, "alice", ("neo4j", third))).await;
        world.pass(1_000).await;
        forget_everything(&world).await;
    }
    // Those that earn launches have no session: nothing follows from them.
    let asked = 4 * 3;
    assert_eq!(observed(&world, ObservationWord::Sent), asked, "sent");
    assert_eq!(observed(&world, ObservationWord::Taken), asked, "taken");
    let launched = || count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
    let before = launched();
    ask(&world, 0, &of_session(&world, 60, "alice", ("neo4j", FIRST))).await;
    world.pass(20_000).await;
    let second_key = world.ask(SECOND).query.key;
    let third_key = world.ask(third).query.key;
    let has = |key| world.nodes.iter().any(|node| node.memory.get(key).is_some());
    assert!(has(&second_key) && has(&third_key), "the first says what follows, and what follows that");
    assert_eq!(launched() - before, 2, "and no prefetch says anything");
    assert_eq!(observed(&world, ObservationWord::Taken), asked + 1);
}

/// F40: the queue is bounded. An observation for a full queue is dropped and counted, and the client does not wait.
#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts() {
    // Nothing drains the queue: the tasks are not started.
    let world = World::with_policy(1, 78, &policy());
    let asked = of_session(&world, 1, "alice", ("neo4j", FIRST));
    let outcome = ask(&world, 0, &asked).await;
    for _ in 0..OBSERVATIONS_MAX + 10 {
        world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
    }
    assert_eq!(observed(&world, ObservationWord::Dropped), 11);
    assert_eq!(world.nodes[0].engine.prefetch().learning_sizes().waiting, OBSERVATIONS_MAX);
}

/// F40: the observations at the owner of sessions are bounded too. One without room is refused and counted.
#[tokio::test(start_paused = true)]
async fn an_owner_that_does_not_keep_up_refuses_and_counts() {
    // The node sends observations, and nothing learns from them.
    let world = World::with_policy(1, 81, &policy());
    let engine = Arc::clone(&world.nodes[0].engine);
    tokio::spawn(async move { engine.prefetch().tell_observations().await });
    let asks: Vec<Ask> = (0..OBSERVED_OF_SESSION_MAX)
        .map(|number| {
            of_session(&world, 1, "alice", ("neo4j", &format!("MATCH (a) RETURN a, {number} AS n")))
        })
        .collect();
    let outcome = ask(&world, 0, &of_session(&world, 1, "alice", ("neo4j", FIRST))).await;
    world.pass(1_000).await;
    // Few enough in each round for all to be sent, and enough rounds to fill the room.
    for number in 0..SESSIONS_WAITING_MAX + 10 {
        let (session, asked) = (number / asks.len(), &asks[number % asks.len()]);
        let tag = SessionTag(std::array::from_fn(|byte| session.to_le_bytes()[(byte + 4) % 8]));
        let asked = Ask { session: Some(tag), ..asked.clone() };
        world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
        if (number + 1) % OBSERVED_IN_ROUND_MAX == 0 {
            world.pass(2 * OBSERVATIONS_EVERY_MS).await;
        }
    }
    world.pass(1_000).await;
    assert_eq!(observed(&world, ObservationWord::Crowded), 0, "all of them were sent");
    assert_eq!(observed(&world, ObservationWord::Taken) as usize, SESSIONS_WAITING_MAX);
    assert_eq!(observed(&world, ObservationWord::Refused), 11);
    let waiting = world.nodes[0].engine.prefetch().learning_sizes().waiting;
    assert_eq!(waiting, SESSIONS_WAITING_MAX, "no more wait than may");
}

/// F40: the queue of answered queries is bounded. One without room is not considered, and counted.
#[tokio::test(start_paused = true)]
async fn what_is_not_considered_is_counted() {
    // Nothing drains the queue: the tasks are not started.
    let world = World::with_policy(1, 84, &policy());
    let outcome = ask(&world, 0, &world.ask_as(FIRST, "carol")).await;
    for number in 0..ANSWERED_MAX + 9 {
        let asked = world.ask_as(&format!("MATCH (a) RETURN a, {number} AS n"), "alice");
        world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
        world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
    }
    // The first one waits twice: since its run began, and since it was answered.
    assert_eq!(observed(&world, ObservationWord::Unconsidered), 9 + 2, "each key once");
}

/// I9: a query that is too long to learn is not observed, and counted.
#[tokio::test(start_paused = true)]
async fn a_long_query_is_not_observed() {
    let world = learning_world(1, 82, &policy());
    let statement = format!("RETURN '{}' AS long", "x".repeat(OBSERVED_QUERY_BYTES_MAX));
    let asked = of_session(&world, 1, "alice", ("neo4j", &statement));
    ask(&world, 0, &asked).await;
    world.pass(1_000).await;
    assert_eq!((observed(&world, ObservationWord::TooLong), observed(&world, ObservationWord::Sent)), (1, 0));
}

/// A client that asks faster than it can read answers teaches nothing, and costs only a few observations.
#[tokio::test(start_paused = true)]
async fn a_crowded_session_is_thinned_out() {
    let world = learning_world(1, 79, &policy());
    let asked: Vec<Ask> = (0..100)
        .map(|number| {
            of_session(&world, 1, "alice", ("neo4j", &format!("MATCH (a) RETURN a, {number} AS n")))
        })
        .collect();
    let outcome = ask(&world, 0, &asked[0]).await;
    world.pass(1_000).await;
    for asked in &asked {
        world.nodes[0].engine.prefetch().observe(asked, &outcome, sim_now());
    }
    world.pass(1_000).await;
    assert_eq!(observed(&world, ObservationWord::Crowded) as usize, 100 - OBSERVED_OF_SESSION_MAX);
    // The same query over and over is observed once in a round.
    for _ in 0..50 {
        world.nodes[0].engine.prefetch().observe(&asked[0], &outcome, sim_now());
    }
    world.pass(1_000).await;
    assert_eq!(observed(&world, ObservationWord::Crowded) as usize, 149 - OBSERVED_OF_SESSION_MAX);
}

/// Must show 9 of issue 7: of more sessions than a node can learn from beside its hits some are, the same ones each
/// time, and each as a whole.
#[tokio::test(start_paused = true)]
async fn of_many_sessions_some_are_learned_from_wholly() {
    let world = learning_world(1, 81, &policy());
    let outcome = ask(&world, 0, &world.ask_as(FIRST, "carol")).await;
    world.pass(1_000).await;
    let round = async || {
        let before = observed(&world, ObservationWord::Taken);
        for text in [FIRST, SECOND, "MATCH (c) RETURN c", "MATCH (d) RETURN d"] {
            for session in 0..=u8::MAX {
                // Tags are digests, spread over all values.
                let asked = of_session(&world, session, "alice", ("neo4j", text));
                world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
            }
        }
        world.pass(1_000).await;
        (observed(&world, ObservationWord::Taken) - before) as usize
    };
    assert_eq!(round().await, 4 * 256, "the first burst has room");
    let (second, third) = (round().await, round().await);
    assert_eq!(second, third, "the same sessions");
    assert!(second % 4 == 0, "whole sessions");
    assert!((OBSERVED_IN_ROUND_MAX / 2..=OBSERVED_IN_ROUND_MAX + 4).contains(&second), "{second} of 1,024");
    assert_eq!(observed(&world, ObservationWord::Crowded) as usize, 2 * (4 * 256 - second));
}

/// `prefetch.enabled = false` turns off observing too.
#[tokio::test(start_paused = true)]
async fn turned_off_nothing_is_observed() {
    let mut off = policy();
    off.prefetch.is_on = false;
    let world = learning_world(2, 80, &off);
    walk(&world, 1, "alice", [0, 1]).await;
    assert_eq!(count(&world, |event| matches!(event, Event::Observed(..) | Event::Shared(..))), 0);
    assert_eq!(world.nodes[0].engine.prefetch().learning_sizes().patterns, 0);
}
