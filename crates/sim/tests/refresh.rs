//! Refreshes on a simulated cluster: early and stale ones, workers and queue, retries, and what faults make of them
//! (DESIGN "Early refresh"; I1, I3, I9; F1, F2, F7, F25, F27). Time is virtual, so moments are exact.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]

use std::sync::Arc;

use hopcache_core::lease::Commit;
use hopcache_core::limits::{REFRESH_CUT_MS, REFRESH_DROPPED_MS, REFRESH_RETRY_MS};
use hopcache_core::refresh::{Mode, Rule};
use hopcache_core::time::Millis;
use hopcache_engine::ask::{Ask, Freshness, Hints};
use hopcache_engine::outcome::{Answer, Class, Detail, Event, Outcome, RefreshWord};
use hopcache_engine::ports::{Memory, Neo4jFailure, OriginFault, Scope};
use hopcache_engine::{Policy, RefreshPolicy};
use hopcache_sim::World;
use hopcache_sim::origin::Mood;
use hopcache_sim::store::Weather;
use hopcache_sim::switch::Power;
use hopcache_sim::world::{NodeHandle, default_policy, sim_now};

const READ: &str = "MATCH (n) RETURN n.version AS version";
/// How long a run takes in a world nobody has changed.
const RUN_MS: u64 = 100;
const TTL_MS: u64 = 60_000;

/// Early refresh on, as by default but for the mode: β = 2 exactly.
fn early() -> Policy {
    let rule = Rule { mode: Mode::Plain, beta: 2.0 };
    let refresh = RefreshPolicy { is_early: true, rule, ..default_policy().refresh };
    Policy { refresh, ..default_policy() }
}

fn with(change: impl FnOnce(&mut RefreshPolicy)) -> Policy {
    let mut policy = default_policy();
    change(&mut policy.refresh);
    policy
}

fn version(outcome: &Outcome) -> i64 {
    let Answer::Body(body) = &outcome.answer else { panic!("no answer: {:?}", outcome.answer) };
    let text = String::from_utf8_lossy(body).into_owned();
    text.split("[[")
        .nth(1)
        .and_then(|rest| rest.split(',').next())
        .and_then(|text| text.parse().ok())
        .unwrap()
}

async fn ask(world: &World, node: usize, ask: &Ask) -> Outcome {
    let deadline = sim_now() + Millis(60_000);
    world.send(node, &Ask { deadline, ..ask.clone() }).await.unwrap()
}

fn count(node: &NodeHandle, word: RefreshWord) -> usize {
    node.events.count(|event| *event == Event::Refresh(word))
}

/// Triggered, completed, failed, retried, dropped.
fn words(node: &NodeHandle) -> [usize; 5] {
    use RefreshWord::{Completed, Dropped, Failed, Retried, Triggered};
    [Triggered, Completed, Failed, Retried, Dropped].map(|word| count(node, word))
}

/// Nothing is under way, and what was triggered has ended as one or the other, once each.
fn at_rest(world: &World) {
    for node in &world.nodes {
        let [triggered, completed, failed, ..] = words(node);
        assert_eq!(triggered, completed + failed, "{:?}", words(node));
        let took = node.events.count(|event| matches!(event, Event::RefreshTook(_)));
        assert_eq!(took, completed + failed);
        let engine = &node.engine;
        assert_eq!(
            (engine.refreshes_under_way(), engine.refreshes_waiting(), engine.refreshes_asleep()),
            (0, 0, 0)
        );
        assert_eq!((engine.sizes().refreshes, engine.leases_held(), engine.sizes().tasks), (0, 0, 0));
    }
}

/// As many keys as are asked for.
fn other(number: usize) -> String {
    format!("MATCH (n:L{number}) RETURN n.version AS version")
}

/// A world of one node with these entries, stale now.
async fn stale_world(seed: u64, policy: &Policy, statements: &[String]) -> World {
    let world = World::with_policy(1, seed, policy);
    for statement in statements {
        ask(&world, 0, &world.ask(statement)).await;
    }
    world.pass(TTL_MS + 1_000).await;
    world.origin.set_version(2);
    world
}

/// A hot key, asked for on each node in turn, 50 times a second: it is refreshed before it expires, by one run in a
/// window, and nobody meets it stale (I1; THEORY: P(late) = exp(−nβ·e^(−k/β)), n = 5, β = 2, k = 1: 0.002 a window).
#[tokio::test(start_paused = true)]
async fn a_hot_key_is_refreshed_once_and_early() {
    let world = World::with_policy(3, 1, &early());
    let read = world.ask(READ);
    for turn in 0..5 * 60 * 50 {
        let outcome = ask(&world, turn % 3, &read).await;
        assert_ne!(outcome.how.detail, Some(Detail::Stale));
        world.pass(20).await;
    }
    let began: Vec<_> = world.origin.runs_seen().iter().map(|run| run.began).collect();
    let owner = &world.nodes[world.owner_of(&read)];
    assert!((5..=6).contains(&began.len()), "one run in each of five windows: {began:?}");
    for pair in began.windows(2) {
        let window_ms = pair[1].since(pair[0]).0;
        assert!((TTL_MS - 4_000..TTL_MS).contains(&window_ms), "{window_ms} ms between two runs");
    }
    let [triggered, completed, ..] = words(owner);
    assert_eq!((triggered, completed), (began.len() - 1, began.len() - 1));
    assert_eq!(owner.events.count(|event| *event == Event::Late), 0);
    at_rest(&world);
}

/// The rings disagree (F9), so that three nodes have copies of one run and each draws for its own: who comes second
/// finds the first one's value (I1).
#[tokio::test(start_paused = true)]
async fn nodes_that_refresh_one_after_the_other_run_once() {
    let world = World::with_policy(3, 2, &early());
    for node in &world.nodes {
        node.routing.set(std::slice::from_ref(&node.engine.me().node));
    }
    let read = world.ask(READ);
    for _ in 0..5 * 60 * 20 {
        for node in 0..3 {
            ask(&world, node, &read).await;
        }
        world.pass(50).await;
    }
    let began: Vec<_> = world.origin.runs_seen().iter().map(|run| run.began).collect();
    for pair in began.windows(2) {
        assert!(pair[1].since(pair[0]).0 > TTL_MS - 5_000, "{began:?}");
    }
    let completed: usize = world.nodes.iter().map(|node| count(node, RefreshWord::Completed)).sum();
    assert!(
        completed >= 2 * (began.len() - 1),
        "others refreshed too, and found: {completed}, {} runs",
        began.len()
    );
    at_rest(&world);
}

/// A commit that was longer on its way than its run took: the store takes the entry for younger than its copy is,
/// and gives it for an answer. It is known by its token, and asked for again by the store's own word on its age.
#[tokio::test(start_paused = true)]
async fn an_entry_is_no_newer_than_its_own_copy() {
    let mut late = 0;
    for seed in 19..35 {
        let world = World::with_policy(1, seed, &early());
        let (node, read) = (&world.nodes[0], world.ask(READ));
        world.origin.set_delay_ms(5);
        world.store.set_weather(Weather { delay_ms_max: 40, ..Weather::default() });
        ask(&world, 0, &read).await;
        world.pass(1_000).await;
        assert_eq!(world.store.commits().len(), 1);
        world.store.set_weather(Weather::default());
        world.origin.set_version(2);
        world.pass(TTL_MS - 2_000).await;
        while version(&ask(&world, 0, &read).await) == 1 {
            world.pass(1).await;
        }
        assert_eq!((world.origin.runs(), words(node)), (2, [1, 1, 0, 0, 0]), "one refresh, which ran");
        late += node.events.count(|event| *event == Event::Late);
        at_rest(&world);
    }
    assert!(late < 4, "{late} of 16 were late");
}

/// A TTL below the least is refreshed when it is stale, and only then; so is an entry made brief by a hint.
#[tokio::test(start_paused = true)]
async fn below_the_least_ttl_nothing_is_refreshed_early() {
    for (policy_ttl, hint) in [(59_999, None), (60_000, Some(Millis(50_000)))] {
        let world = World::with_policy(1, 3, &Policy { ttl_ms: Millis(policy_ttl), ..early() });
        let read = Ask { hints: Hints { ttl_ms: hint, ..Hints::default() }, ..world.ask(READ) };
        ask(&world, 0, &read).await;
        let ttl_ms = hint.map_or(policy_ttl, |ttl| ttl.0);
        while world.origin.runs_seen()[0].began + Millis(ttl_ms - 20) > sim_now() {
            assert_eq!(ask(&world, 0, &read).await.how.class, Class::Hit);
            world.pass(10).await;
        }
        assert_eq!((world.origin.runs(), words(&world.nodes[0])[0]), (1, 0));
        world.pass(100).await;
        assert_eq!(ask(&world, 0, &read).await.how.detail, Some(Detail::Stale));
        world.pass(2 * RUN_MS).await;
        assert_eq!((world.origin.runs(), words(&world.nodes[0])), (2, [1, 1, 0, 0, 0]));
        assert_eq!(world.nodes[0].events.count(|event| *event == Event::Late), 1);
    }
}

/// `only-if-cached` counts as a hit and asks the origin for nothing.
#[tokio::test(start_paused = true)]
async fn only_if_cached_refreshes_nothing() {
    let world = World::with_policy(1, 4, &early());
    let mut read = world.ask(READ);
    ask(&world, 0, &read).await;
    read.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    for _ in 0..TTL_MS / 10 - 20 {
        ask(&world, 0, &read).await;
        world.pass(10).await;
    }
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (1, [0; 5]));
}

/// A new copy's counting begins with the rate of the one before, also where memory forgot that one.
#[tokio::test(start_paused = true)]
async fn a_new_copy_knows_the_rate_of_the_one_before() {
    let world = World::with_policy(1, 18, &early());
    let read = world.ask(READ);
    let rate = || world.nodes[0].memory.get(&read.query.key).unwrap().heat.rate_per_s(sim_now());
    ask(&world, 0, &read).await;
    assert_eq!(rate(), None, "one run is no history");
    while world.origin.runs() == 1 {
        ask(&world, 0, &read).await;
        world.pass(20).await;
    }
    world.pass(2 * RUN_MS).await;
    assert_eq!(world.nodes[0].memory.get(&read.query.key).unwrap().heat.arrivals(), 0, "a new copy");
    assert!((25.0..75.0).contains(&rate().unwrap()), "{:?}, 50 a second before", rate());
    world.nodes[0].memory.forget_all();
    ask(&world, 0, &read).await;
    assert!((25.0..75.0).contains(&rate().unwrap()), "{:?}, from the store, 50 a second before", rate());
}

/// I9: one worker, two places: of four stale keys one refreshes, two wait, the fourth is dropped and tries again.
#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_the_copy_tries_again() {
    let policy = with(|refresh| (refresh.workers, refresh.queue_max) = (1, 2));
    let statements: Vec<String> = (0..4).map(other).collect();
    let world = stale_world(5, &policy, &statements).await;
    for _ in 0..50 {
        for statement in &statements {
            assert_eq!(version(&ask(&world, 0, &world.ask(statement)).await), 1);
        }
    }
    let node = &world.nodes[0];
    assert_eq!(words(node), [3, 0, 0, 0, 1], "dropped once, not once for each hit");
    assert_eq!((node.engine.refreshes_under_way(), node.engine.refreshes_waiting()), (1, 2));
    world.pass(3 * RUN_MS + 50).await;
    assert_eq!(words(node), [3, 3, 0, 0, 1]);
    assert!(world.origin.under_way() == 0 && world.origin.runs() == 4 + 3);
    let began: Vec<_> = world.origin.runs_seen()[4..].iter().map(|run| run.statement.clone()).collect();
    assert_eq!(began, statements[..3], "in the order in which they came");
    world.pass(REFRESH_DROPPED_MS * 3 / 2).await;
    ask(&world, 0, &world.ask(&statements[3])).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(words(node), [4, 4, 0, 0, 1]);
    at_rest(&world);
}

/// I1: a hundred requests for a stale entry are answered at once, and one run refreshes it.
#[tokio::test(start_paused = true)]
async fn a_hundred_stale_hits_bring_about_one_run() {
    let world = stale_world(6, &default_policy(), &[READ.to_owned()]).await;
    let began = tokio::time::Instant::now();
    let sent: Vec<_> = (0..100).map(|_| world.send(0, &world.ask(READ))).collect();
    for outcome in sent {
        let outcome = outcome.await.unwrap();
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
    }
    assert_eq!(began.elapsed(), Millis(0).duration(), "nobody waited");
    world.pass(2 * RUN_MS).await;
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (2, [1, 1, 0, 0, 0]));
    assert_eq!(world.nodes[0].events.count(|event| *event == Event::Late), 1, "once for the copy");
    let took = world.nodes[0].events.count(|event| *event == Event::RefreshTook(Millis(RUN_MS)));
    assert_eq!(took, 1);
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    at_rest(&world);
}

/// F25: an origin that is away: tries at 0, then after 1, 2 and 4 s ± half, without any hit; the stale copy stays.
/// In between neither a worker nor a place in the queue is taken.
#[tokio::test(start_paused = true)]
async fn a_failed_refresh_is_tried_again_with_back_off() {
    let policy = with(|refresh| (refresh.workers, refresh.queue_max) = (1, 0));
    let world = stale_world(7, &policy, &[READ.to_owned(), other(1)]).await;
    world.origin.set_mood(Mood::Fault(OriginFault::Unreachable("down".to_owned())));
    let triggered = sim_now();
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 1);
    world.pass(RUN_MS + 1).await;
    let node = &world.nodes[0];
    assert_eq!((words(node), node.engine.refreshes_asleep()), ([1, 0, 0, 1, 0], 1));
    assert_eq!((node.engine.refreshes_under_way(), node.engine.leases_held()), (0, 0));
    world.origin.set_mood(Mood::Well);
    ask(&world, 0, &world.ask(&other(1))).await;
    world.pass(RUN_MS + 1).await;
    assert_eq!(count(node, RefreshWord::Completed), 1, "its worker was free for another key");
    world.origin.set_mood(Mood::Fault(OriginFault::Unreachable("down".to_owned())));
    world.pass(12_000).await;
    assert_eq!(words(node), [2, 1, 1, 3, 0]);
    let seen = world.origin.runs_seen();
    let tries: Vec<_> = seen[2..].iter().filter(|run| run.statement == READ).map(|run| run.began).collect();
    assert_eq!((tries.len(), tries[0]), (4, triggered));
    for (retry, pair) in tries.windows(2).enumerate() {
        let pause_ms = pair[1].since(pair[0]).0 - RUN_MS;
        let usual_ms = REFRESH_RETRY_MS << retry;
        assert!((usual_ms / 2..=usual_ms * 3 / 2).contains(&pause_ms), "retry {retry} after {pause_ms} ms");
    }
    let outcome = ask(&world, 0, &world.ask(READ)).await;
    assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
    world.origin.set_mood(Mood::Well);
    world.pass(12_000).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2, "a later hit tried again");
    at_rest(&world);
}

/// An origin that hangs has a worker for no longer than the deadline, lease given back; the next one gets it.
#[tokio::test(start_paused = true)]
async fn a_hanging_origin_frees_the_worker_at_the_deadline() {
    let policy = with(|refresh| {
        (refresh.workers, refresh.timeout_ms, refresh.retries_max) = (1, Millis(2_000), 0);
    });
    let world = stale_world(8, &policy, &[READ.to_owned(), other(1)]).await;
    world.origin.set_delay_ms(25_000);
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(1).await;
    world.origin.set_delay_ms(RUN_MS);
    ask(&world, 0, &world.ask(&other(1))).await;
    let engine = Arc::clone(&world.nodes[0].engine);
    world.pass(1_900).await;
    assert_eq!((engine.refreshes_under_way(), engine.refreshes_waiting(), engine.leases_held()), (1, 1, 1));
    world.pass(REFRESH_CUT_MS + RUN_MS + 200).await;
    assert_eq!(words(&world.nodes[0]), [2, 1, 1, 0, 0], "the first was given up, the second ran");
    assert_eq!(version(&ask(&world, 0, &world.ask(&other(1))).await), 2);
    // A request's run has more time than that: what was too long for a refresh holds no key back.
    engine.purge(&Scope::All).await;
    world.origin.set_delay_ms(5_000);
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    at_rest(&world);
}

/// F2, I3: the lease is lost in mid-refresh. What comes is fenced and not kept; another node's value stays.
#[tokio::test(start_paused = true)]
async fn a_refresh_that_lost_its_lease_keeps_nothing() {
    let world = stale_world(9, &default_policy(), &[READ.to_owned()]).await;
    world.origin.set_delay_ms(2_000);
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(500).await;
    assert_eq!(world.origin.under_way(), 1);
    world.store.lose_everything();
    world.pass(2_000).await;
    let outcomes: Vec<_> = world.store.commits().into_iter().map(|(.., commit)| commit).collect();
    assert_eq!(outcomes, [Commit::Stored, Commit::Fenced], "the fault occurred");
    assert_eq!(words(&world.nodes[0]), [1, 0, 1, 0, 0]);
    let outcome = ask(&world, 0, &world.ask(READ)).await;
    assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)), "nothing is lost");
    world.pass(REFRESH_RETRY_MS * 3 / 2).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2_100).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    at_rest(&world);
}

/// F1, I7: the node that refreshes is killed. The next owner serves the stale value and refreshes it.
#[tokio::test(start_paused = true)]
async fn a_node_killed_in_a_refresh_is_followed_by_another() {
    let world = World::new(3, 10);
    let read = world.ask(READ);
    let owner = world.owner_of(&read);
    ask(&world, owner, &read).await;
    world.pass(TTL_MS + 1_000).await;
    world.origin.set_version(2);
    world.origin.set_delay_ms(1_000);
    ask(&world, owner, &read).await;
    world.pass(500).await;
    assert_eq!((world.origin.runs(), world.nodes[owner].engine.leases_held()), (2, 1), "in mid-refresh");
    world.nodes[owner].switch.set(Power::Off);
    let entry = (owner + 1) % 3;
    let outcome = ask(&world, entry, &read).await;
    assert_eq!(
        (version(&outcome), outcome.how.detail),
        (1, Some(Detail::Stale)),
        "no delay with a stale copy"
    );
    let began = sim_now();
    while version(&ask(&world, entry, &read).await) == 1 {
        world.pass(100).await;
        assert!(sim_now().since(began) < Millis(12_000), "the lease lapses, or is taken from the dead");
    }
    assert_eq!(world.origin.runs(), 3);
}

/// F7: without the store nobody has a lease, so nobody refreshes; the stale copy is served.
#[tokio::test(start_paused = true)]
async fn without_the_store_nothing_is_refreshed() {
    let world = stale_world(11, &default_policy(), &[READ.to_owned()]).await;
    world.store.set_down(true);
    for _ in 0..100 {
        let outcome = ask(&world, 0, &world.ask(READ)).await;
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
        world.pass(100).await;
    }
    let [triggered, completed, failed, retried, _] = words(&world.nodes[0]);
    assert_eq!((world.origin.runs(), completed, retried), (1, 0, 0));
    assert!((6..=20).contains(&triggered) && failed >= triggered - 1, "each pause one try: {triggered}");
    world.store.set_down(false);
    world.pass(2 * REFRESH_RETRY_MS).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
    at_rest(&world);
}

/// I3: what was purged while it waited in the queue, or slept before its next try, is not run at all.
#[tokio::test(start_paused = true)]
async fn a_purge_ends_a_refresh_that_waits_or_sleeps() {
    let policy = with(|refresh| refresh.workers = 1);
    let world = stale_world(12, &policy, &[READ.to_owned(), other(1)]).await;
    let engine = Arc::clone(&world.nodes[0].engine);
    ask(&world, 0, &world.ask(READ)).await;
    let waits = world.ask(&other(1));
    ask(&world, 0, &waits).await;
    assert_eq!(engine.refreshes_waiting(), 1);
    engine.purge(&Scope::Key(waits.query.key)).await;
    world.pass(3 * RUN_MS).await;
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (3, [2, 1, 1, 0, 0]), "only the first ran");

    world.pass(TTL_MS).await;
    world.origin.set_mood(Mood::Fault(OriginFault::Unreachable("down".to_owned())));
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(RUN_MS + 1).await;
    assert_eq!((world.origin.runs(), engine.refreshes_asleep()), (4, 1));
    engine.purge(&Scope::All).await;
    world.origin.set_mood(Mood::Well);
    world.pass(20_000).await;
    assert_eq!(world.origin.runs(), 4, "the one that slept did not run");
    assert_eq!(world.nodes[0].engine.sizes().copies, 0);
    at_rest(&world);
}

/// F27: the server says that the statement fails now, or is not for this principal any more: nobody is served the
/// old value. A no to the credentials says nothing of the value.
#[tokio::test(start_paused = true)]
async fn a_statement_error_ends_the_old_value_everywhere() {
    let said = |code: &str| Neo4jFailure { code: code.to_owned(), message: "no".to_owned() };
    let forbidden = said("Neo.ClientError.Security.Forbidden");
    let world = stale_world(13, &default_policy(), &[READ.to_owned()]).await;
    world.origin.set_mood(Mood::Fault(OriginFault::Failed(forbidden.clone())));
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 1);
    world.pass(2 * RUN_MS).await;
    assert_eq!(words(&world.nodes[0]), [1, 0, 1, 0, 0], "not tried again");
    let mut cached = world.ask(READ);
    cached.freshness = Freshness { only_if_cached: true, ..Freshness::default() };
    assert!(
        matches!(ask(&world, 0, &cached).await.answer, Answer::Failed(_)),
        "neither memory nor store has it"
    );
    assert!(matches!(ask(&world, 0, &world.ask(READ)).await.answer, Answer::Failed(_)));
    at_rest(&world);

    for fault in [
        OriginFault::Unauthorized(said("Neo.ClientError.Security.Unauthorized")),
        OriginFault::Failed(said("Neo.DatabaseError.General.UnknownError")),
    ] {
        let world = stale_world(14, &default_policy(), &[READ.to_owned()]).await;
        world.origin.set_mood(Mood::Fault(fault));
        ask(&world, 0, &world.ask(READ)).await;
        world.pass(2 * RUN_MS).await;
        assert_eq!(words(&world.nodes[0]), [1, 0, 1, 0, 0]);
        assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 1, "the stale value stays");
    }
}

/// A flight that finds a stale value while all workers are busy gives its lease back and waits in line: no more runs
/// than workers, however many keys are met stale in the store.
#[tokio::test(start_paused = true)]
async fn flights_that_find_stale_values_are_bounded_by_the_workers() {
    let policy = with(|refresh| (refresh.workers, refresh.queue_max) = (2, 100));
    let statements: Vec<String> = (0..20).map(other).collect();
    let world = stale_world(15, &policy, &statements).await;
    world.nodes[0].memory.forget_all();
    for statement in &statements {
        let outcome = ask(&world, 0, &world.ask(statement)).await;
        assert_eq!((version(&outcome), outcome.how.detail), (1, Some(Detail::Stale)));
        assert!(world.origin.under_way() <= 2);
    }
    let engine = &world.nodes[0].engine;
    assert_eq!((engine.refreshes_under_way(), engine.refreshes_waiting()), (2, 18));
    assert!(world.store.leases() <= 2, "those who wait hold no lease");
    for _ in 0..12 {
        world.pass(RUN_MS).await;
        assert!(world.origin.under_way() <= 2);
    }
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (40, [20, 20, 0, 0, 0]));
    at_rest(&world);
}

/// At the end no refresh begins; those that wait or sleep are over at once, and their leases are back.
#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_no_refresh_that_does_not_run() {
    let policy = with(|refresh| (refresh.workers, refresh.retry_factor) = (1, 50.0));
    let world = stale_world(16, &policy, &[READ.to_owned(), other(1), other(2)]).await;
    world.origin.set_mood(Mood::Fault(OriginFault::Unreachable("down".to_owned())));
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(RUN_MS + 1).await;
    world.origin.set_mood(Mood::Well);
    ask(&world, 0, &world.ask(&other(1))).await;
    ask(&world, 0, &world.ask(&other(2))).await;
    let engine = Arc::clone(&world.nodes[0].engine);
    let held = (engine.refreshes_asleep(), engine.refreshes_under_way(), engine.refreshes_waiting());
    assert_eq!(held, (1, 1, 1));
    let began = tokio::time::Instant::now();
    engine.finish().await;
    assert!(began.elapsed() <= Millis(RUN_MS + 10).duration(), "{:?}", began.elapsed());
    assert_eq!((world.origin.runs(), world.store.leases()), (5, 0), "only what ran ended its run");
    ask(&world, 0, &world.ask(READ)).await;
    assert_eq!(words(&world.nodes[0]), [3, 1, 2, 1, 0]);
    at_rest(&world);
}

/// F4: a refresh that panics has failed as any other, and frees its worker.
#[tokio::test(start_paused = true)]
async fn a_refresh_that_panics_has_failed() {
    let policy = with(|refresh| refresh.workers = 1);
    let world = stale_world(17, &policy, &[READ.to_owned()]).await;
    world.origin.set_mood(Mood::Panic(1));
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!((world.origin.runs(), words(&world.nodes[0])), (2, [1, 0, 1, 0, 0]), "the panic occurred");
    at_rest(&world);
    world.pass(REFRESH_RETRY_MS * 3 / 2).await;
    ask(&world, 0, &world.ask(READ)).await;
    world.pass(2 * RUN_MS).await;
    assert_eq!(version(&ask(&world, 0, &world.ask(READ)).await), 2);
}
