//! With `entry.stale_target`, an entry's TTL follows from how often its answer has changed without a write that told of it (I4:
//! the operator decides how old an answer may be, here by the share of answers that may be out of date).

use crate::prelude::*;

const TTL_MS: u64 = 60_000;

fn learned() -> Policy {
    Policy { stale_target: 0.05, ..default_policy() }
}

/// A statement whose answer says no more than the version of the graph.
fn plain(world: &World) -> Ask {
    world.ask("MATCH (n) RETURN n.version AS version, 'PLAIN' AS kind")
}

/// Reads again as soon as the entry has expired, `rounds` times; `before` is done before each. Returns each TTL.
async fn read_again(world: &World, rounds: usize, before: impl AsyncFn(&World)) -> Vec<u64> {
    let mut lives = Vec::new();
    for _ in 0..rounds {
        before(world).await;
        let outcome = world.send(0, &plain(world)).await.unwrap();
        assert!(matches!(outcome.how.class, Class::Miss { .. }), "{outcome:?}");
        assert_eq!(version(&outcome), i64::from(world.origin.version()), "a miss brings the newest value");
        let ttl_ms = u64::try_from(outcome.how.ttl_ms.unwrap()).unwrap();
        lives.push(ttl_ms);
        world.pass(ttl_ms + TTL_MS * 20 + 1_000).await;
    }
    lives
}

fn read_anew(world: &World, has_changed: bool) -> usize {
    let is_of = |event: &Event| *event == Event::ReadAnew { has_changed };
    world.nodes[0].events.count(is_of)
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_never_changes_lives_longer() {
    let world = World::with_policy(1, 910, &learned());
    let lives = read_again(&world, 12, async |_| {}).await;
    assert!(lives[0].abs_diff(TTL_MS) < 1_000, "nothing is known of it: {lives:?}");
    assert!(lives.is_sorted(), "{lives:?}");
    assert!((TTL_MS * 2..=TTL_MS * 20).contains(lives.last().unwrap()), "{lives:?}");
    assert_eq!((read_anew(&world, false), read_anew(&world, true)), (11, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_changes_without_a_word_lives_shorter() {
    let world = World::with_policy(1, 911, &learned());
    let mut ttl_ms = TTL_MS;
    for _ in 0..40 {
        let outcome = world.send(0, &plain(&world)).await.unwrap();
        assert!(matches!(outcome.how.class, Class::Miss { .. }), "{outcome:?}");
        ttl_ms = u64::try_from(outcome.how.ttl_ms.unwrap()).unwrap();
        world.origin.write_past();
        // After grace, so that this request and no refresh reads.
        world.pass(ttl_ms + ttl_ms / 2 + 100).await;
    }
    assert!((TTL_MS / 10 - 200..TTL_MS / 4).contains(&ttl_ms), "{ttl_ms} ms");
    assert_eq!(read_anew(&world, true), 39);
}

/// A write through Hopcache ends the entry: nobody is served the old value, so its TTL need not be shorter.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_told_says_nothing_about_the_ttl() {
    let policy = Policy { freshness_lease_ms: Some(Millis(10_000)), ..learned() };
    let world = World::with_policy(1, 912, &policy);
    world.origin.tell_transactions(0);
    let write = async |world: &World| {
        world.send(0, &world.ask(WRITE)).await.unwrap();
    };
    let lives = read_again(&world, 6, write).await;
    assert!(lives.iter().all(|ttl_ms| ttl_ms.abs_diff(TTL_MS) < 1_000), "{lives:?}");
    assert_eq!((read_anew(&world, false), read_anew(&world, true)), (0, 0));
}

/// A long life holds behind a hop as well: the entry node does not take the owner's answer for too old.
#[tokio::test(start_paused = true)]
async fn a_long_life_holds_for_forwarded_requests() {
    let world = World::with_policy(3, 914, &learned());
    let owner = world.owner_of(&plain(&world));
    let mut ttl_ms = 0;
    while ttl_ms < 4 * TTL_MS {
        let outcome = world.send(owner, &plain(&world)).await.unwrap();
        assert!(matches!(outcome.how.class, Class::Miss { .. }), "{outcome:?}");
        ttl_ms = u64::try_from(outcome.how.ttl_ms.unwrap()).unwrap();
        if ttl_ms < 4 * TTL_MS {
            world.pass(TTL_MS * 20).await;
        }
    }
    // Past the operator's TTL and grace.
    world.pass(3 * TTL_MS).await;
    let runs = world.origin.runs();
    let entry = (owner + 1) % 3;
    let asked: Vec<_> = (0..20).map(|_| world.send(entry, &plain(&world))).collect();
    for answer in asked {
        let outcome = answer.await.unwrap();
        assert!(
            outcome.how.class == Class::Hit && outcome.how.age_ms >= Some(Millis(3 * TTL_MS)),
            "{outcome:?}"
        );
    }
    assert_eq!(world.origin.runs(), runs);
}

/// The default: every entry has the operator's TTL.
#[tokio::test(start_paused = true)]
async fn without_a_target_ttls_are_fixed() {
    let world = World::with_policy(1, 913, &default_policy());
    let lives = read_again(&world, 4, async |_| {}).await;
    assert!(lives.iter().all(|ttl_ms| ttl_ms.abs_diff(TTL_MS) < 1_000), "{lives:?}");
    assert_eq!((read_anew(&world, false), read_anew(&world, true)), (0, 0));
}
