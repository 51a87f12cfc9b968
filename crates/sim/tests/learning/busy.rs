//! Learning beside load, and what is left out of it: the bounds of rounds, and that nothing is left out for good.

use super::*;
use hopcache_core::limits::{
    CONSIDER_EVERY_MS_BUSY, CONSIDERED_IN_ROUND_MAX, NEAR_MS_MAX, OBSERVED_FULL_ROUNDS,
};

/// Asks in a task of its own, as a client of the node does.
fn ask_beside(world: &World, node: usize, asked: Ask) {
    let engine = Arc::clone(&world.nodes[node].engine);
    tokio::spawn(async move { ask_engine(&engine, asked).await });
}

pub(super) fn with_number(world: &World, (statement, number): (&str, i64), session: [u8; 16]) -> Ask {
    let params = Value::Map(vec![("id".to_owned(), Value::Int(number))]);
    Ask { session: Some(SessionTag(session)), ..world.ask_with(params, ("neo4j", statement, "alice")) }
}

/// The version that nothing was taught of.
const NEW_VERSION: i64 = 6_000;

/// The query that asks for the version which the one before it has returned.
fn of_version(world: &World, version: i64) -> Ask {
    with_number(world, ("MATCH (v:V {id: $id}) RETURN v", version), [9; 16])
}

/// A session reads the version and then asks for it, six times, with other versions. Each of both has its node, and the pause after
/// it in milliseconds. Returns the read; nothing is in any memory then, and the origin has [`NEW_VERSION`].
async fn teach_by_version(world: &World, [first, then]: [(usize, u64); 2]) -> Ask {
    let read = of_session(world, 9, "alice", ("neo4j", "MATCH (n) RETURN n.version AS version"));
    for version in 5_000..5_006 {
        world.origin.set_version(version);
        forget_everything(world).await;
        ask(world, first.0, &read).await;
        world.pass(first.1).await;
        ask(world, then.0, &of_version(world, version)).await;
        world.pass(then.1).await;
    }
    world.origin.set_version(NEW_VERSION);
    forget_everything(world).await;
    read
}

/// Sessions of a site, each of which clicks from query to query.
struct Load {
    clicks: u64,
}

impl Load {
    const STATEMENTS: [&str; 6] = [
        "MATCH (a:A {id: $id}) RETURN a",
        "MATCH (b:B {id: $id}) RETURN b",
        "MATCH (c:C {id: $id}) RETURN c",
        "MATCH (d:D {id: $id})--(e) RETURN e",
        "MATCH (f:F {id: $id})--(g) RETURN g",
        "MATCH (h:H {id: $id})--(i) RETURN i",
    ];

    /// 100 clicks a second at each node, for so long.
    async fn go_on(&mut self, world: &World, ms: u64) {
        for _ in 0..ms / 10 {
            for node in 0..world.nodes.len() {
                let number = self.clicks.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                // 300 sessions, so each clicks once a second; 3,000 ids.
                let session = (self.clicks % 300).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
                let session = std::array::from_fn(|byte| session[byte % 8]);
                let statement = Self::STATEMENTS[usize::try_from(number >> 61).unwrap() % 6];
                let id = i64::try_from((number >> 20) % 3_000).unwrap() + 100;
                ask_beside(world, node, with_number(world, (statement, id), session));
                self.clicks += 1;
            }
            world.pass(10).await;
        }
    }
}

/// Must show 1 of issue 7, in a busy world: what one session teaches, every node predicts within two seconds, although
/// 300 clicks a second teach other things.
#[tokio::test(start_paused = true)]
async fn a_lesson_is_everywhere_within_two_seconds_of_a_busy_world() {
    let world = learning_world(3, 94, &policy());
    let mut load = Load { clicks: 0 };
    load.go_on(&world, 5_000).await;
    for lesson in 0..3 {
        let label = format!("Lesson{lesson}");
        let [first, next] =
            [format!("MATCH (n:{label}) RETURN n"), format!("MATCH (n:{label})--(m) RETURN m")];
        let session = 200 + lesson;
        ask_beside(&world, 0, of_session(&world, session, "alice", ("neo4j", &first)));
        load.go_on(&world, 1_000).await;
        ask_beside(&world, 1, of_session(&world, session, "alice", ("neo4j", &next)));
        load.go_on(&world, 2_000).await;
        for node in 0..3 {
            let views = world.nodes[node].engine.prefetch().successors_sought(&label, 8).await;
            let mut forms =
                views.iter().filter(|view| view.source.is_pattern()).flat_map(|view| &view.successors);
            assert!(forms.any(|each| each.form.is_some()), "lesson {lesson} at node {node}: {views:?}");
        }
    }
    assert!(observed(&world, ObservationWord::Learned) > 1_500, "it was busy");
}

/// Observing does not stop for good: after a time without room at the origin, or with busy cores, the one session that is left is
/// observed again, whatever its number is.
#[tokio::test(start_paused = true)]
async fn the_last_session_is_observed_again() {
    for (is_idle, has_busy_cores) in [(false, false), (true, false), (false, true)] {
        let world = learning_world(1, 95, &policy());
        let fill = |is_full: bool| match has_busy_cores {
            true => world.nodes[0].cores.set_busy(is_full),
            false => world.origin.set_spare(!is_full),
        };
        let outcome = ask(&world, 0, &of_session(&world, 0, "alice", ("neo4j", FIRST))).await;
        // The greatest number: the first that is left out.
        let asked = of_session(&world, u8::MAX, "alice", ("neo4j", SECOND));
        let click = async || {
            world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
            world.pass(OBSERVATIONS_EVERY_MS + 20).await;
        };
        fill(true);
        for _ in 0..2 * OBSERVED_FULL_ROUNDS {
            click().await;
        }
        let sent = || observed(&world, ObservationWord::Sent);
        let before = sent();
        click().await;
        assert_eq!(sent(), before, "one of 16 sessions is observed");
        fill(false);
        if is_idle {
            world.pass(10_000).await;
        }
        for _ in 0..10 {
            click().await;
        }
        assert!(sent() > before, "idle: {is_idle}, cores: {has_busy_cores}");
    }
}

/// F40: a busy node considers some of what comes, all the time, and everything again once few come.
#[tokio::test(start_paused = true)]
async fn a_busy_node_considers_samples_until_it_is_quiet() {
    let world = learning_world(1, 95, &policy());
    let outcome = ask(&world, 0, &world.ask_as(FIRST, "carol")).await;
    world.pass(1_000).await;
    let left_out = || u64::from(observed(&world, ObservationWord::Unconsidered));
    let observe = |number: u64| {
        let asked = world.ask_as(&format!("MATCH (a) RETURN a, {number} AS n"), "alice");
        world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
    };
    let before = left_out();
    for number in 0..4_000 {
        observe(number);
        if number % 2 == 0 {
            world.pass(1).await;
        }
    }
    world.pass(CONSIDER_EVERY_MS_BUSY).await;
    let considered = 4_000 - (left_out() - before);
    let most = (2_000 / CONSIDER_EVERY_MS_BUSY + 2) * CONSIDERED_IN_ROUND_MAX as u64;
    assert!((most / 2..=most).contains(&considered), "{considered} of 4,000, at most {most}");
    world.pass(2 * CONSIDER_EVERY_MS_BUSY).await;
    let before = left_out();
    for number in 4_000..4_010 {
        observe(number);
        world.pass(100).await;
    }
    assert_eq!(left_out(), before, "a quiet node considers all");
}

/// A hit of a near copy makes no hop. Its node considers what follows, also where that needs a field of the answer: it
/// asks the owner of the key.
#[tokio::test(start_paused = true)]
async fn a_near_hit_is_followed_by_templates_that_need_fields() {
    let policy = Policy { near_rate_per_s_min: 1.0, ..policy() };
    let world = learning_world(3, 97, &policy);
    earn(&world).await;
    let first = teach_by_version(&world, [(0, 1_500), (1, 1_500)]).await;
    let owner = world.owner_of(&first);
    let entry = (owner + 1) % 3;
    // Nothing is launched while the key becomes hot at its owner.
    world.origin.set_spare(false);
    for _ in 0..300 {
        ask(&world, owner, &Ask { session: None, ..first.clone() }).await;
        world.pass(5).await;
    }
    ask(&world, entry, &first).await;
    world.pass(NEAR_MS_MAX / 4).await;
    world.origin.set_spare(true);
    let near = || world.nodes[entry].events.count(|event| matches!(event, Event::NearHit));
    let (near_before, runs) = (near(), world.origin.runs());
    ask(&world, entry, &first).await;
    assert_eq!(near(), near_before + 1);
    world.pass(500).await;
    assert_eq!(world.origin.runs(), runs + 1, "what follows was run");
    let followed = of_version(&world, NEW_VERSION);
    let path = world.nodes[entry].engine.path();
    let explained = path.explain(&followed.query, Hints::default()).await;
    let prefetched = explained.owner.unwrap().prefetched.expect("a prefetch");
    assert_eq!(Some(prefetched.by), node_name(entry), "the node of the near copy has ordered it");
}

/// After a write a result has other fields. What follows is learned from the fields of the answer that the client got,
/// not from those before the write.
#[tokio::test(start_paused = true)]
async fn lessons_are_of_the_fields_after_a_write() {
    for nodes in [1, 3] {
        let world = learning_world(nodes, 98, &policy());
        earn(&world).await;
        let read = teach_by_version(&world, [(0, 500), (0, 2_000)]).await;
        ask(&world, 0, &read).await;
        world.pass(1_000).await;
        let key = of_version(&world, NEW_VERSION).query.key;
        assert!(world.nodes.iter().any(|node| node.memory.get(&key).is_some()), "{nodes} nodes");
    }
}

/// Requests without a session are not observed, and nothing is learned from them. What others have taught is launched
/// after them all the same.
#[tokio::test(start_paused = true)]
async fn without_a_session_nothing_is_observed_and_what_follows_is_launched() {
    let world = learning_world(3, 99, &policy());
    earn(&world).await;
    for session in 0..3 {
        walk(&world, session, "alice", [0, 1]).await;
        forget_everything(&world).await;
    }
    let launched = || count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
    let words = [ObservationWord::Sent, ObservationWord::Taken, ObservationWord::Crowded];
    let counts = || words.map(|word| observed(&world, word));
    let before = (launched(), counts());
    let unnamed = Ask { session: None, ..of_session(&world, 0, "alice", ("neo4j", FIRST)) };
    let outcome = ask(&world, 2, &unnamed).await;
    assert!(!is_hit(&outcome));
    world.pass(2_000).await;
    assert_eq!((launched(), counts()), (before.0 + 1, before.1));
    let second = Ask { session: None, ..of_session(&world, 0, "alice", ("neo4j", SECOND)) };
    assert!(is_hit(&ask(&world, 0, &second).await));
}

/// Issue 18, point 3: with nothing left over at the origin nothing is considered, and after seconds of that only one
/// session in 16 is observed, until there is room.
#[tokio::test(start_paused = true)]
async fn a_full_origin_costs_nothing_but_a_few_observations() {
    let world = learning_world(1, 86, &policy());
    earn(&world).await;
    for session in 0..3 {
        walk(&world, session, "alice", [0, 0]).await;
        forget_everything(&world).await;
    }
    let launched = || count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
    let (before, unconsidered) = (launched(), observed(&world, ObservationWord::Unconsidered));
    world.origin.set_spare(false);
    let outcome = ask(&world, 0, &of_session(&world, 9, "alice", ("neo4j", FIRST))).await;
    world.pass(1_000).await;
    assert_eq!((launched(), observed(&world, ObservationWord::Unconsidered)), (before, unconsidered + 1));
    // One round of 56 sessions, whose numbers are spread evenly.
    let round = async || {
        let sent = observed(&world, ObservationWord::Sent);
        for session in 0..56_u8 {
            let number = u64::from(session).wrapping_mul(u64::MAX / 56);
            let tag = SessionTag(std::array::from_fn(|byte| number.to_le_bytes()[byte % 8]));
            let asked = of_session(&world, 0, "alice", ("neo4j", SECOND));
            let asked = Ask { session: Some(tag), ..asked };
            world.nodes[0].engine.prefetch().observe(&asked, &outcome, sim_now());
        }
        world.pass(OBSERVATIONS_EVERY_MS + 50).await;
        observed(&world, ObservationWord::Sent) - sent
    };
    assert_eq!(round().await, 56, "a short burst changes nothing");
    for _ in 0..10 {
        round().await;
    }
    let thin = round().await;
    assert!((3..=4).contains(&thin), "{thin} of 56");
    world.origin.set_spare(true);
    for _ in 0..8 {
        round().await;
    }
    assert_eq!(round().await, 56);
    ask(&world, 0, &of_session(&world, 10, "alice", ("neo4j", FIRST))).await;
    world.pass(1_000).await;
    assert_eq!(launched(), before + 1, "and what follows is launched again");
}

/// A text that nothing follows is considered in samples. Once something follows it, each answer is.
#[tokio::test(start_paused = true)]
async fn a_text_that_nothing_follows_is_sampled_until_something_does() {
    const TEXT: &str = "MATCH (n:Item) WHERE n.rank > $id RETURN n";
    let world = learning_world(2, 100, &policy());
    earn(&world).await;
    // Forwarded, so that their owner reads the text for all of them.
    let mut new =
        (0..).map(|id| with_number(&world, (TEXT, id), [7; 16])).filter(|ask| world.owner_of(ask) == 1);
    let mut considered_of_100 = async || {
        let remembered = || world.nodes[1].engine.prefetch().learning_sizes().remembered;
        let before = remembered();
        for next in new.by_ref().take(100) {
            ask(&world, 0, &Ask { session: None, ..next }).await;
            world.pass(5).await;
        }
        remembered() - before
    };
    let considered = considered_of_100().await;
    assert!(considered > 60, "{considered}");
    let considered = considered_of_100().await;
    assert!((1..40).contains(&considered), "{considered}");
    for session in 1..4 {
        let next = with_number(&world, (TEXT, -i64::from(session)), [session; 16]);
        ask(&world, 0, &next).await;
        world.pass(2_000).await;
        ask(&world, 0, &of_session(&world, session, "alice", ("neo4j", FIRST))).await;
        world.pass(2_000).await;
    }
    considered_of_100().await;
    let considered = considered_of_100().await;
    assert!(considered > 90, "{considered}");
}
