//! Writes and the ids of transactions: a server that tells none, ids that go back, and bookmarks of clients.

use super::{NODES, proved, warm, world, write};
use crate::prelude::*;

/// A server that tells no transactions: the entries themselves are purged.
#[tokio::test(start_paused = true)]
async fn without_transactions_a_write_purges_its_database() {
    let world = World::with_policy(NODES, 428, &proved());
    world.nodes.iter().for_each(|node| drop(follow(node)));
    world.pass(10).await;
    let (ask, other) = (world.ask(READ), world.ask_in("movies", READ, "alice"));
    for ask in [&ask, &other] {
        warm(&world, ask).await;
    }
    world.origin.set_version(2);
    // Such an origin runs it as any statement, and its summary shows an update.
    world.origin.set_behavior(OriginBehavior::Update);
    write(&world, 0).await;
    world.origin.set_behavior(OriginBehavior::Well);
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &ask).await), 2);
        assert!(is_hit(&read(&world, node, &other).await));
    }
}

/// Neo4j is restored: ids go back. The first run notices, the database's entries are purged, and no request hangs.
#[tokio::test(start_paused = true)]
async fn ids_that_go_back_are_noticed_and_forgotten() {
    let world = world(429).await;
    world.origin.set_version(90);
    let ask = world.ask(READ);
    write(&world, 0).await;
    warm(&world, &ask).await;
    assert_eq!(version(&read(&world, 1, &ask).await), 91);
    world.origin.restore(40);
    // Entries of before are served until a run, or a write, asks Neo4j.
    let other = world.ask("MATCH (other) RETURN other.version");
    let outcome = read(&world, 2, &other).await;
    assert_eq!(version(&outcome), 40, "{outcome:?}");
    world.pass(100).await;
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &ask).await), 40);
        assert!(is_hit(&read(&world, node, &ask).await));
    }
    write(&world, 1).await;
    for node in 0..NODES {
        assert_eq!(version(&read(&world, node, &ask).await), 41);
    }
}

/// A client's bookmarks and writes of others: the answer has both behind it, and its own bookmark is honest.
#[tokio::test(start_paused = true)]
async fn bookmarks_and_writes_together() {
    let world = world(430).await;
    let ask = world.ask(READ);
    warm(&world, &ask).await;
    write(&world, 0).await;
    let seen = Ask { bookmarks: bookmark(1), ..ask.clone() };
    let outcome = read(&world, 1, &seen).await;
    assert_eq!(version(&outcome), 2);
    assert_eq!(outcome.range.unwrap().to().id.0, 2);
}
