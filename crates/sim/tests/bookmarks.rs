//! Bookmarks: a client that has seen a transaction never gets an answer from before it, and its requests are hits all the
//! same.

use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position, TransactionId};

use crate::prelude::*;
use std::collections::BTreeSet;

const NODES: usize = 3;

/// A world whose origin tells transactions.
fn world(seed: u64) -> World {
    telling(World::new(NODES, seed))
}

fn telling(world: World) -> World {
    world.origin.tell_transactions(0);
    world
}

/// The same request of a client that has seen this.
fn after(ask: &Ask, bookmarks: Bookmark) -> Ask {
    Ask { bookmarks, ..ask.clone() }
}

/// The bookmark in the body.
fn returned(outcome: &Outcome) -> Bookmark {
    let Answer::Body(body) = &outcome.answer else { unreachable!("{outcome:?}") };
    let body = String::from_utf8_lossy(body);
    let (_, list) = body.rsplit_once("\"bookmarks\":[").unwrap();
    let texts: Vec<&str> =
        list.trim_end_matches("]}").split(',').map(|text| text.trim_matches('"')).collect();
    Bookmark::parse_all(&texts).unwrap()
}

fn is_stored(outcome: &Outcome) -> bool {
    matches!(outcome.how.class, Class::Miss { kept: Kept::Stored, .. })
}

/// An entry of before the client's bookmark is read anew with it, and stored for all.
#[tokio::test(start_paused = true)]
async fn an_entry_of_before_a_bookmark_is_read_anew_and_stored() {
    let world = world(81);
    let plain = world.ask(READ);
    assert!(is_stored(&world.send(0, &plain).await.unwrap()));
    world.origin.set_version(5);
    let seen = after(&plain, bookmark(5));
    for node in 0..NODES {
        let old = world.send(node, &plain).await.unwrap();
        assert!(is_hit(&old) && version(&old) == 1, "nobody has asked for more: {old:?}");
        assert_eq!(returned(&old), bookmark(1));
    }
    let new = world.send(1, &seen).await.unwrap();
    assert!(is_stored(&new) && version(&new) == 5);
    assert_eq!(world.origin.runs_seen()[1].carried, bookmark(5));
    for node in 0..NODES {
        for ask in [&seen, &plain, &after(&plain, bookmark(3))] {
            let hit = world.send(node, ask).await.unwrap();
            assert!(is_hit(&hit) && version(&hit) == 5);
            assert_eq!(returned(&hit), bookmark(5));
        }
    }
    assert_eq!(world.origin.runs(), 2);
}

/// The owner has forgotten its copy: an entry in the store of before the bookmark is no answer either, and a younger one is.
#[tokio::test(start_paused = true)]
async fn a_stored_entry_of_before_a_bookmark_is_no_answer() {
    let world = telling(World::new(1, 82));
    let plain = world.ask(READ);
    world.send(0, &plain).await.unwrap();
    world.origin.set_version(2);
    for (ask, expected) in [(&plain, 1), (&after(&plain, bookmark(2)), 2), (&after(&plain, bookmark(2)), 2)] {
        committed(&world).await;
        world.nodes[0].memory.forget_all();
        world.pass(20).await;
        assert_eq!(version(&world.send(0, ask).await.unwrap()), expected);
    }
    assert_eq!(world.origin.runs(), 2, "the store had what the last one asked for");
}

/// A session that only reads, with chained bookmarks, at one node after the other: from the second round on all are hits.
#[tokio::test(start_paused = true)]
async fn a_session_that_only_reads_keeps_hitting() {
    let world = world(83);
    let asks: Vec<Ask> = (0..12).map(|n| world.ask(&format!("MATCH (n{n}) RETURN n{n}.version"))).collect();
    let mut seen = Bookmark::NONE;
    for round in 0..4 {
        for (place, ask) in asks.iter().enumerate() {
            let outcome = world.send((place + round) % NODES, &after(ask, seen.clone())).await.unwrap();
            assert_eq!(is_hit(&outcome), round > 0, "round {round}, {place}: {outcome:?}");
            seen = returned(&outcome);
        }
    }
    assert_eq!((world.origin.runs(), seen), (asks.len(), bookmark(1)));
}

/// EXACT section 1: a run without a bookmark may miss what its node has seen. A run of the cache carries that.
#[tokio::test(start_paused = true)]
async fn a_run_carries_what_its_node_has_seen() {
    let world = world(84);
    world.origin.tell_transactions(3);
    world.origin.set_version(9);
    // The word on the statement tells it.
    let outcome = world.send(0, &world.ask(READ)).await.unwrap();
    assert_eq!((version(&outcome), returned(&outcome)), (9, bookmark(9)));
}

/// A flight that began before a write is no answer to those who have its bookmark, at its owner or behind a forward. They
/// share the next one.
#[tokio::test(start_paused = true)]
async fn a_flight_of_before_a_bookmark_is_no_answer() {
    let world = world(85);
    world.origin.set_delay_ms(1_000);
    let plain = world.ask(READ);
    let early: Vec<_> = (0..NODES).map(|node| world.send(node, &plain)).collect();
    world.pass(100).await;
    let mut late = Vec::new();
    for write in 2..=9 {
        world.origin.set_version(i64::try_from(write).unwrap());
        for node in 0..NODES {
            late.push((write, world.send(node, &after(&plain, bookmark(write)))));
        }
        world.pass(10).await;
    }
    for outcome in early {
        assert_eq!(version(&outcome.await.unwrap()), 1);
    }
    let mut versions = BTreeSet::new();
    for (write, outcome) in late {
        let outcome = outcome.await.unwrap();
        assert!(version(&outcome) >= i64::try_from(write).unwrap(), "{write}: {outcome:?}");
        versions.insert(version(&outcome));
    }
    assert_eq!(versions, BTreeSet::from([9]));
    assert_eq!(world.origin.runs(), 2, "the second one carried what the first had seen at its end");
}

/// Neither a stale answer nor a fallback of before the bookmark is given, though others get it.
#[tokio::test(start_paused = true)]
async fn stale_answers_keep_to_bookmarks() {
    let world = world(86);
    let first = world.send(0, &world.ask(READ)).await.unwrap();
    world.origin.set_version(2);
    world.pass(u64::try_from(first.how.ttl_ms.unwrap()).unwrap() + 50).await;
    world.origin.set_behavior(OriginBehavior::Fault(away()));
    let plain = world.ask(READ);
    for node in 0..NODES {
        let stale = world.send(node, &plain).await.unwrap();
        assert!(is_hit(&stale) && version(&stale) == 1, "{stale:?}");
        assert!(matches!(stale.how.detail, Some(Detail::Stale | Detail::StaleIfError)));
        let refused = world.send(node, &after(&plain, bookmark(2))).await.unwrap();
        assert!(matches!(refused.answer, Answer::Failed(_)), "{refused:?}");
        let covered = world.send(node, &after(&plain, bookmark(1))).await.unwrap();
        assert_eq!(version(&covered), 1);
    }
    world.origin.set_behavior(OriginBehavior::Well);
    world.pass(20_000).await;
    assert_eq!(version(&world.send(0, &after(&world.ask(READ), bookmark(2))).await.unwrap()), 2);
}

/// A near copy answers those whom its run covers; for others the owner is asked.
#[tokio::test(start_paused = true)]
async fn near_copies_keep_to_bookmarks() {
    let policy = Policy { near_rate_per_s_min: 1.0, ..default_policy() };
    let world = telling(World::with_policy(NODES, 87, &policy));
    let plain = world.ask(READ);
    let entry = (world.owner_of(&plain) + 1) % NODES;
    let path = world.nodes[entry].engine.path();
    for _ in 0..300 {
        world.send(entry, &after(&plain, bookmark(1))).await.unwrap();
        world.pass(5).await;
    }
    let hit = path.hit(&after(&plain, bookmark(1))).unwrap();
    assert_eq!((version(&hit), returned(&hit)), (1, bookmark(1)));
    world.origin.set_version(2);
    assert!(path.hit(&plain).is_some());
    assert!(path.hit(&after(&plain, bookmark(2))).is_none(), "its run did not carry that");
    let anew = world.send(entry, &after(&plain, bookmark(2))).await.unwrap();
    assert_eq!((version(&anew), returned(&anew)), (2, bookmark(2)));
}

/// A bookmark that the database does not reach fails its own client. Those who joined its flight run for themselves, and the
/// key is not held back.
#[tokio::test(start_paused = true)]
async fn a_bookmark_that_is_not_reached_fails_its_own_client_only() {
    let world = world(88);
    world.origin.set_delay_ms(500);
    let plain = world.ask(READ);
    let bad = world.send(0, &after(&plain, bookmark(99)));
    world.pass(50).await;
    let others: Vec<_> = (0..NODES).map(|node| world.send(node, &plain)).collect();
    let failed = bad.await.unwrap();
    assert!(format!("{:?}", failed.answer).contains("BookmarkTimeout"), "{failed:?}");
    for outcome in others {
        assert_eq!(version(&outcome.await.unwrap()), 1);
    }
    assert_eq!(world.origin.runs(), 2);
}

/// A session that has read another database brings two positions. A run carries both, and so the entry answers both.
#[tokio::test(start_paused = true)]
async fn bookmarks_of_other_databases_are_carried_and_given_back() {
    let world = world(89);
    let other = Position { database: DatabaseUuid([7; 16]), id: TransactionId(40) };
    let both = bookmark(1).with(Some(other));
    let plain = world.ask(READ);
    world.send(0, &plain).await.unwrap();
    for (node, ask) in [(0, &both), (1, &both), (2, &both)] {
        let outcome = world.send(node, &after(&plain, ask.clone())).await.unwrap();
        assert_eq!(is_hit(&outcome), node > 0, "{outcome:?}");
        assert_eq!(returned(&outcome), both);
        // What one client has read elsewhere is nobody else's.
        assert_eq!(returned(&world.send(node, &plain).await.unwrap()), bookmark(1));
    }
    assert_eq!(world.origin.runs(), 2);
}

/// What is not understood goes to the origin as it is; `no-store` takes the understood ones along.
#[tokio::test(start_paused = true)]
async fn what_is_not_understood_passes_the_cache_by() {
    let world = world(90);
    let plain = world.ask(READ);
    world.send(0, &plain).await.unwrap();
    let odd = RequestBypass::Bookmarks(vec!["odd".to_owned()]);
    let outcome = world.send(0, &Ask { bypass: Some(odd), ..plain.clone() }).await.unwrap();
    assert_eq!(outcome.how.class, Class::Bypass(Reason::Bookmarks));
    let kept_out = Ask { bypass: Some(RequestBypass::NoStore), ..after(&plain, bookmark(1)) };
    assert_eq!(world.send(0, &kept_out).await.unwrap().how.class, Class::Bypass(Reason::NoStore));
    assert_eq!(world.origin.runs_seen()[2].carried, bookmark(1));
}

/// What is of before transactions were told answers no bookmark.
#[tokio::test(start_paused = true)]
async fn an_entry_without_a_range_answers_no_bookmark() {
    let world = World::new(NODES, 91);
    let plain = world.ask(READ);
    world.send(0, &plain).await.unwrap();
    world.origin.tell_transactions(0);
    assert!(is_hit(&world.send(1, &plain).await.unwrap()));
    assert!(is_stored(&world.send(1, &after(&plain, bookmark(1))).await.unwrap()));
    assert!(is_hit(&world.send(2, &after(&plain, bookmark(1))).await.unwrap()));
}
