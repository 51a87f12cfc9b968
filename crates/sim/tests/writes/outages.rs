//! Bookmarks of writes in an outage that begins later.

use super::NODES;
use super::proofs::{LEFT, LONG_MS, RIGHT, WATCH_MS, after, policy, settled_writers, warm_world_with};
use crate::prelude::*;

/// A driver sends the bookmark of its last write with all reads that follow. In an outage, what the write has left alone answers them, marked, long
/// after the last report; what it has touched does not. A bookmark that no node has accounted for is not answered.
#[tokio::test(start_paused = true)]
async fn what_a_write_left_alone_answers_its_bookmark_in_an_outage() {
    let policy = Policy { stale_if_error_ms: Millis(600_000), ..policy(WATCH_MS) };
    let (world, asks) = warm_world_with(490, &policy, |_| {}).await;
    let [_, before] = settled_writers(&world, &asks).await;
    world.send(0, &world.ask(WRITE_LEFT)).await.unwrap();
    let now = world.origin.version();
    let away = away();
    world.origin.set_behavior(OriginBehavior::Fault(away));
    world.origin.set_away(true);
    world.pass(LONG_MS).await;
    for node in 0..NODES {
        let [left, right] = [LEFT, RIGHT].map(|statement| after(&world.ask(statement), now));
        let answer = world.send(node, &right).await.unwrap();
        assert_eq!(answer.how.detail, Some(Detail::StaleIfError), "{answer:?}");
        assert_eq!(Some(version(&answer)), before);
        for refused in [left, after(&right, now + 1)] {
            let answer = world.send(node, &refused).await.unwrap();
            assert!(matches!(answer.answer, Answer::Failed(_)), "{answer:?}");
        }
    }
}
