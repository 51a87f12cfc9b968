//! `prefetch.max_queries`: how many candidates one request launches.

use super::*;

/// Each follows the first query in every third session, so each is likelier than the threshold of an idle origin
/// (0.25).
const FOLLOWERS: [&str; 3] = ["MATCH (b) RETURN b", "MATCH (c) RETURN c", "MATCH (d) RETURN d"];

/// The launches of one request with three worthwhile candidates, under this bound.
async fn launched(max_queries: u32) -> usize {
    let mut policy = Policy { ttl_ms: Millis(3_600_000), ..policy() };
    policy.prefetch.queries_max = max_queries;
    let world = learning_world(1, 85, &policy);
    for session in 0..18 {
        ask(&world, 0, &of_session(&world, session, "alice", ("neo4j", FIRST))).await;
        world.pass(2_000).await;
        let next = FOLLOWERS[usize::from(session) % FOLLOWERS.len()];
        ask(&world, 0, &of_session(&world, session, "alice", ("neo4j", next))).await;
        world.pass(2_000).await;
    }
    earn(&world).await;
    world.pass(2_000).await;
    forget_everything(&world).await;
    let launches = || count(&world, |event| matches!(event, Event::Prefetch(PrefetchWord::Launched(_))));
    let (before, runs_before) = (launches(), world.origin.runs());
    ask(&world, 0, &of_session(&world, 99, "alice", ("neo4j", FIRST))).await;
    world.pass(5_000).await;
    let launched = launches() - before;
    assert_eq!(world.origin.runs(), runs_before + 1 + launched, "a launch is a run, the request is one more");
    launched
}

#[tokio::test(start_paused = true)]
async fn one_request_launches_as_many_candidates_as_the_operator_allows() {
    for (max_queries, expected) in [(0, 0), (1, 1), (2, 2), (3, 3), (8, 3)] {
        assert_eq!(launched(max_queries).await, expected, "prefetch.max_queries = {max_queries}");
    }
}
