//! How many transaction ids a run consumes: never more than `WriteEffects` says.
//!
//! Other tests write to the same server, and their ids count here as well. A run that consumed too many counts only if
//! it does so on each of [`TRIES`] equal graphs.

use hopcache_cypher::tags::{TagId, Token, WriteEffects};

use super::neo4j::Graph;
use super::random::Random;
use super::writes::{in_transactions, random_write};

const TRIES: usize = 100;

/// Equal for all runs with this graph, so that the server plans it once.
const GRAPHS: usize = 4;

/// Ids that were consumed while a statement ran, whether it failed or not.
fn consumed(graph: &mut Graph, write: &str) -> u64 {
    graph.plan(write);
    let before = graph.last_id();
    // A refusal consumes ids as well if it comes late.
    drop(graph.write(write));
    graph.last_id() - before
}

/// Everything that the generators name.
const ALL_TOKENS: &str =
    "CREATE (:LA:LB:LC:LD {g: $g, uid: 1, x: 1, y: 1, z: 1, w: 1})-[:TR {x: 1}]->()-[:TS]->()-[:TT]->()";

#[test]
fn no_write_consumes_more_ids_than_its_effects_say() {
    let writes = (super::number("HOPCACHE_TEST_TAG_PAIRS", 0) / 50).max(50);
    let first_seed = super::number("HOPCACHE_TEST_TAG_SEED", 1);
    let mut graph = Graph::connect();
    graph.write(ALL_TOKENS).unwrap();
    let known = WriteEffects::of(ALL_TOKENS, graph.params());
    let known = known.tokens().unwrap();
    let (mut bounded, mut unknown, mut at_most) = (0, 0, 0);
    for at in 0..writes {
        let mut random = Random::new((first_seed + at) as u64);
        let write = if random.chance(5) { in_transactions(&mut random) } else { random_write(&mut random) };
        let effects = WriteEffects::of(&write, graph.params());
        if let Some(tokens) = effects.tokens() {
            assert!(tokens.iter().all(|token| known.contains(token)), "{write}");
        }
        let Some(max) = effects.transactions_max() else {
            unknown += 1;
            continue;
        };
        let run = |_| {
            graph.make(&mut Random::new((at % GRAPHS) as u64));
            consumed(&mut graph, &write)
        };
        let least = (0..TRIES).map(run).find(|consumed| *consumed <= u64::from(max));
        assert!(least.is_some(), "more than {max}: {write}");
        bounded += 1;
        at_most += usize::from(least == Some(u64::from(max)));
    }
    graph.wipe();
    eprintln!("{bounded} writes with a bound, {at_most} of them consumed that many; {unknown} without one");
    // Otherwise the bound, or the generator, is worth nothing.
    assert!(unknown * 5 < writes && at_most * 3 > bounded);
}

/// `#` is new in each run. Each of these writes consumes one id for itself, and one for each token.
const NEW_TOKENS: [&str; 13] = [
    "CREATE (:LA {g: $g, x: 1})",
    "CREATE (:LA:L# {g: $g, k#: 1})-[:T# {m#: 2}]->(:N#)",
    "MATCH (n {g: $g, uid: 1}) SET n.k# = 1",
    "MATCH (n {g: $g, uid: 1}) SET n:L#:M#",
    "MATCH (n {g: $g, uid: 1}) SET n.k# = 1, n.m# = 2",
    "MATCH (n {g: $g, uid: 1}) SET n += {k#: 1}",
    "MATCH (n {g: $g, uid: 1}) SET n = {g: $g, uid: 1, k#: 1}",
    "MATCH (n {g: $g, uid: 1}) CREATE (n)-[:T#]->(n)",
    "MERGE (n:L# {g: $g, k#: 1}) ON CREATE SET n.m# = 1",
    "MATCH (n {g: $g, uid: 1}) MERGE (n)-[r:T# {k#: 1}]->(:LA {g: $g})",
    "FOREACH (i IN [1] | CREATE (:L# {g: $g, k#: i}))",
    "MATCH (n {g: $g, uid: 1}) CALL (n) { SET n.k# = 1 }",
    "CREATE (:$('L#') {g: $g})",
];

/// These consume no more than that. They create several keys at once, fail, change nothing, or only remove.
const NEW_TOKENS_AT_MOST: [&str; 9] = [
    "MATCH (n {g: $g, uid: 1}) SET n += {k#: 1, m#: 2}",
    "CREATE (n:L# {g: $g, k#: 1}) WITH n RETURN 1 / 0",
    "CREATE (n:L# {g: $g, k#: 1}) DELETE n",
    "MATCH (n {g: $g, uid: 99}) SET n.k# = 1, n:L#",
    "MATCH (n {g: $g, uid: 1}) REMOVE n.k#, n:L#",
    "MATCH (n {g: $g, uid: 1}) SET n.k# = null",
    "MERGE (n {g: $g, uid: 1}) ON CREATE SET n.k# = 1",
    "MATCH (n:L# {k#: 1})-[:T#]->() RETURN n.m#",
    "MATCH (n {g: $g, uid: 1}) SET n.uid = n.uid",
];

#[test]
fn each_new_token_consumes_one_id_at_most() {
    let mut graph = Graph::connect();
    let own = graph.own().to_owned();
    graph.write(ALL_TOKENS).unwrap();
    let known = [Token::Label("LA"), Token::Key("g"), Token::Key("uid"), Token::Key("x")].map(TagId::from);
    let all = NEW_TOKENS.iter().map(|write| (write, true));
    let all = all.chain(NEW_TOKENS_AT_MOST.iter().map(|write| (write, false)));
    for (number, (write, is_exact)) in all.enumerate() {
        // The ids that the run consumed, and their maximum.
        let run = |at| {
            let text = write.replace('#', &format!("_{own}_{number}_{at}"));
            let effects = WriteEffects::of(&text, graph.params());
            let new = effects.tokens().unwrap().iter().filter(|token| !known.contains(token)).count() as u64;
            graph.wipe();
            graph.write("CREATE (:LA {g: $g, uid: 1})").unwrap();
            (consumed(&mut graph, &text), u64::from(effects.transactions_max().unwrap()) + new)
        };
        let quiet: Vec<_> = (0..TRIES).map(run).filter(|(consumed, max)| consumed <= max).take(3).collect();
        assert_eq!(quiet.len(), 3, "more than its maximum: {write}");
        assert!(!is_exact || quiet.iter().all(|(consumed, max)| consumed == max), "{write}: {quiet:?}");
    }
    graph.wipe();
}
