//! Reads whose caching does not pay are run directly: by the node that was asked, once for each key at each node (I1 by node).

use hopcache_core::limits::{WORTH_HOLD_MS, WORTH_SEEN_MS};
use hopcache_core::pattern_worth::is_sampled;
use hopcache_engine::policy::PrefetchPolicy;
use hopcache_engine::prefetch::{CandidateKind, FormId, Launch, Order, PatternTag, Skip, SourceId};
use hopcache_packstream::Value;

use crate::prelude::*;

const BY_ID: &str = "MATCH (n:Item {id: $id}) RETURN n.version AS version";
const NODES: usize = 3;

fn by_id(world: &World, id: i64) -> Ask {
    world.ask_with(Value::Map(vec![("id".to_owned(), Value::Int(id))]), ("neo4j", BY_ID, "alice"))
}

/// An id from `from` on whose key does not always take the whole way.
fn unchosen(world: &World, from: i64) -> i64 {
    (from..).find(|id| !is_sampled(&by_id(world, *id).query.key)).unwrap()
}

/// A client's request, which its node counts.
async fn request(world: &World, node: usize, ask: &Ask) -> Outcome {
    let engine = &world.nodes[node].engine;
    engine.path().request(ask, sim_now()).await
}

/// `reads` reads at each of these nodes, one in 10 ms. Returns how many were hits, and how many were run directly.
async fn reads(world: &World, nodes: &[usize], reads: i64, id: impl Fn(i64, usize) -> i64) -> (usize, usize) {
    let (mut hits, mut direct) = (0, 0);
    for read in 0..reads {
        for node in nodes {
            let outcome = request(world, *node, &by_id(world, id(read, *node))).await;
            assert!(is_answered(&outcome), "{outcome:?}");
            hits += usize::from(is_hit(&outcome));
            direct += usize::from(is_direct(&outcome));
        }
        world.pass(10).await;
    }
    (hits, direct)
}

fn is_direct(outcome: &Outcome) -> bool {
    outcome.how.detail == Some(Detail::Direct)
}

fn forwards(world: &World, node: usize) -> usize {
    world.nodes[node].events.count(|event| matches!(event, Event::Forward(_)))
}

/// Three nodes that all run reads of this pattern directly.
async fn direct_world(seed: u64, policy: &Policy) -> World {
    let world = World::with_policy(NODES, seed, policy);
    world.origin.set_delay_ms(0);
    // Ids of its own for each read.
    reads(&world, &[0, 1, 2], 700, |read, node| read * 10 + node as i64).await;
    for node in &world.nodes {
        assert_eq!(node.engine.path().direct_patterns(), 1);
    }
    world
}

/// Keys never return · they begin to · they cease to.
#[tokio::test(start_paused = true)]
async fn a_pattern_goes_direct_returns_and_goes_again() {
    let world = World::with_policy(NODES, 951, &default_policy());
    // Caching pays from 14 % on.
    world.origin.set_delay_ms(1);
    let began = sim_now();
    let (hits, direct) = reads(&world, &[0], 350, |read, _| read).await;
    assert!(sim_now().since(began).0 < WORTH_HOLD_MS);
    assert_eq!((hits, direct), (0, 0), "too early to say");
    let (_, direct) = reads(&world, &[0], 300, |read, _| 10_000 + read).await;
    assert!(direct > 150, "{direct} of 300");
    committed(&world).await;
    // No hop, no lease, no store.
    let before = (forwards(&world, 0), world.store.commits().len(), world.origin.runs());
    let (hits, direct) = reads(&world, &[0], 500, |read, _| 20_000 + read).await;
    let whole = 500 - direct;
    assert!(hits == 0 && whole < 40, "{hits} hits, {whole} of 500 took the whole way");
    assert!(forwards(&world, 0) - before.0 <= whole);
    assert!(world.store.commits().len() - before.1 <= whole);
    assert_eq!(world.origin.runs() - before.2, 500, "each was run once");
    // Two hundred keys come back every few seconds.
    let began = sim_now();
    reads(&world, &[0], 700, |read, _| 30_000 + read % 200).await;
    assert!(sim_now().since(began).0 < 15_000);
    assert_eq!(world.nodes[0].engine.path().direct_patterns(), 0, "noticed");
    let (hits, direct) = reads(&world, &[0], 400, |read, _| 30_000 + read % 200).await;
    assert_eq!((hits, direct), (400, 0), "all are cached");
    world.pass(30_000).await;
    let (_, direct) = reads(&world, &[0], 600, |read, _| 40_000 + read).await;
    assert!(direct > 100, "{direct} of 600");
}

/// I1 by node: three thousand clients at three nodes ask for a new key at once. Each node runs it once. The next who asks takes the
/// whole way, and then everybody hits.
#[tokio::test(start_paused = true)]
async fn a_crowd_costs_one_run_at_each_node() {
    let world = direct_world(952, &default_policy()).await;
    world.origin.set_delay_ms(1);
    let ask = by_id(&world, unchosen(&world, 1_000_000));
    let before = world.origin.runs();
    let crowd: Vec<_> = (0..3_000)
        .map(|client| {
            let (engine, ask) = (Arc::clone(&world.nodes[client % NODES].engine), ask.clone());
            tokio::spawn(async move { engine.path().request(&ask, sim_now()).await })
        })
        .collect();
    let mut led = 0;
    for client in crowd {
        let outcome = client.await.unwrap();
        assert!(is_direct(&outcome) && is_answered(&outcome), "{:?}", outcome.how);
        led += usize::from(matches!(outcome.how.class, Class::Miss { role: Role::Led, .. }));
    }
    assert_eq!((world.origin.runs() - before, led), (NODES, NODES));
    assert!(!is_direct(&request(&world, 0, &ask).await), "a moment ago");
    assert_eq!(world.origin.runs() - before, NODES + 1);
    for node in 0..NODES {
        assert!(is_hit(&request(&world, node, &ask).await));
    }
    assert_eq!(world.origin.runs() - before, NODES + 1);
}

/// A key that somebody waits for takes the whole way: it joins the question that is under way.
#[tokio::test(start_paused = true)]
async fn a_key_under_way_is_joined() {
    let world = World::new(NODES, 953);
    world.origin.set_delay_ms(0);
    let id = (0..).find(|id| world.owner_of(&by_id(&world, *id)) == 1).unwrap();
    let ask = by_id(&world, id);
    reads(&world, &[0], 350, |read, _| 10_000 + read).await;
    world.origin.set_slow("Item", 10_000);
    let engine = Arc::clone(&world.nodes[0].engine);
    let first = tokio::spawn({
        let ask = ask.clone();
        async move { engine.path().request(&ask, sim_now()).await }
    });
    world.pass(200).await;
    world.origin.set_slow("nothing", 0);
    // The pattern becomes direct now.
    reads(&world, &[0], 150, |read, _| 20_000 + read).await;
    assert_eq!(world.nodes[0].engine.path().direct_patterns(), 1);
    let runs = world.origin.runs();
    let second = request(&world, 0, &ask).await;
    assert_eq!((is_direct(&second), world.origin.runs()), (false, runs));
    assert!(is_answered(&first.await.unwrap()) && is_answered(&second));
}

/// Never for costly runs, however seldom they hit: one run for all nodes.
#[tokio::test(start_paused = true)]
async fn costly_runs_are_never_direct() {
    let world = World::new(NODES, 954);
    world.origin.set_delay_ms(3);
    let (hits, direct) = reads(&world, &[0, 1, 2], 700, |read, _| read).await;
    assert_eq!((hits, direct, world.origin.runs()), (2 * 700, 0, 700), "the first node's");
    let (hits, direct) = reads(&world, &[0], 700, |read, _| 10_000 + read).await;
    assert_eq!((hits, direct), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_setting_switches_it_off() {
    let world = direct_world(955, &default_policy()).await;
    let off = Policy { only_if_it_pays: false, ..default_policy() };
    world.nodes[0].engine.set_policy(off);
    assert_eq!(world.nodes[0].engine.path().direct_patterns(), 0);
    let (_, direct) = reads(&world, &[0], 100, |read, _| 500_000 + read).await;
    assert_eq!(direct, 0);
}

/// A direct run that fails is no answer yet: the whole way has back-off, older answers and one more try.
#[tokio::test(start_paused = true)]
async fn a_direct_run_that_fails_takes_the_whole_way() {
    let world = direct_world(956, &default_policy()).await;
    let ask = by_id(&world, unchosen(&world, 1_000_000));
    let transient = OriginFault::Transient(said("Neo.TransientError.General.DatabaseUnavailable"));
    world.origin.set_delay_ms(50);
    world.origin.set_behavior(OriginBehavior::Fault(transient));
    let runs = world.origin.runs();
    let engine = Arc::clone(&world.nodes[0].engine);
    let asked = tokio::spawn({
        let ask = ask.clone();
        async move { engine.path().request(&ask, sim_now()).await }
    });
    world.pass(20).await;
    world.origin.set_behavior(OriginBehavior::Well);
    let outcome = asked.await.unwrap();
    assert!(is_answered(&outcome) && !is_direct(&outcome), "{:?}", outcome.how);
    assert_eq!(world.origin.runs() - runs, 2);
}

/// An answer of a direct run is of now, and nobody gets it later: the data changes, and the next reader sees that.
#[tokio::test(start_paused = true)]
async fn a_direct_answer_is_of_now_and_not_kept() {
    let world = direct_world(957, &default_policy()).await;
    let ask = by_id(&world, unchosen(&world, 1_000_000));
    let first = request(&world, 0, &ask).await;
    assert!(is_direct(&first) && first.how.ttl_ms.is_none(), "{:?}", first.how);
    assert_eq!(first.how.class, Class::Miss { kept: Kept::Skipped, role: Role::Led });
    world.origin.set_version(7);
    assert_eq!(version(&request(&world, 1, &ask).await), 7);
    assert_eq!(version(&request(&world, 0, &ask).await), 7, "the whole way");
    world.pass(2 * WORTH_SEEN_MS).await;
    assert!(
        is_hit(&request(&world, world.owner_of(&ask), &ask).await),
        "from the second read on it is cached"
    );
}

/// What `explain` says of it.
#[tokio::test(start_paused = true)]
async fn explain_knows_what_the_caching_is_worth() {
    let world = direct_world(958, &default_policy()).await;
    let ask = by_id(&world, 1);
    let engine = &world.nodes[0].engine;
    let worth = engine.path().explain(&ask.query, Hints::default()).await.worth.unwrap();
    assert!(worth.is_direct && worth.reads > 60.0 && worth.hits < 3.0, "{worth:?}");
    assert!(worth.run_us.is_some_and(|us| us < 100.0), "{worth:?}");
    let other = world.ask("MATCH (m) RETURN m.name");
    assert_eq!(engine.path().explain(&other.query, Hints::default()).await.worth, None);
}

/// Nobody would find it, except for the keys that show what caching would bring: to those prefetch belongs.
#[tokio::test(start_paused = true)]
async fn nothing_is_prefetched_that_would_be_run_directly() {
    let policy = Policy { prefetch: PrefetchPolicy::DEFAULT, ..default_policy() };
    let world = direct_world(959, &policy).await;
    let launched = |is_chosen: bool| {
        let is_it = |ask: &Ask| world.owner_of(ask) == 0 && is_sampled(&ask.query.key) == is_chosen;
        let ask = (1_000_000..).map(|id| by_id(&world, id)).find(is_it).unwrap();
        world.nodes[0].engine.prefetch().launch(Order {
            query: Arc::clone(&ask.query),
            rendering: ask.rendering,
            source: SourceId::Pattern(PatternTag(0xabc)),
            form: FormId(7),
            kind: CandidateKind::Template,
            p: 0.6,
            steps_left: 0,
            by: node_name(0).unwrap(),
        })
    };
    assert_eq!([launched(false), launched(true)], [Launch::Skipped(Skip::Direct), Launch::Launched]);
}
