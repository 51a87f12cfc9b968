//! F25, F28: Neo4j hangs, and its connection is cut in mid-stream.

use std::time::Duration;

use crate::containers::redis;
use crate::containers::world::{Plan, World, query, run};
use crate::support::bolt_proxy::Trouble;
use crate::support::{say, until};

/// F25: stale answers within limits and marked; other requests refused in time; recovery when the origin is back.
#[test]
fn while_neo4j_is_paused_stale_answers_are_marked() {
    run(async {
        let entry = "ttl = \"1s\"\ngrace = 0.5\nstale_if_error = \"10m\"";
        let world = World::alone("neo4j-paused", Plan { entry, origin: "timeout = \"1s\"" }).await;
        let request = query("RETURN 'kept' AS what");
        for node in &world.nodes {
            // Each has seen the credentials accepted, and believes them as long.
            assert_eq!(node.ask(&request).await.value(), "kept");
        }
        world.neo4j.pause().await;
        let (mut marked, mut slowest, mut seen) = (0, Duration::ZERO, 0);
        until("every node serves it stale and says so", Duration::from_secs(20), async || {
            let reply = world.nodes[seen % 3].ask(&request).await;
            seen += 1;
            assert_eq!(reply.value(), "kept", "{reply}");
            slowest = slowest.max(reply.took);
            marked += u32::from(reply.header("cache-status").contains("stale-if-error"));
            marked >= 9
        })
        .await;
        assert!(world.neo4j.is_paused().await, "the fault lasted");
        let refused = world.nodes[0].ask(&query("RETURN 'nobody has it' AS what")).await;
        // Repeating helps where Neo4j cannot be reached, and not what has just run for all of `origin.timeout`.
        let may_repeat = refused.header("retry-after").parse::<u32>().is_ok();
        assert!(matches!((refused.status, may_repeat), (503, true) | (504, false)), "{refused}");
        world.neo4j.unpause().await;
        until("Neo4j is found again", Duration::from_secs(20), async || {
            let reply = world.nodes[1].ask(&request).await;
            reply.status == 202 && !reply.header("cache-status").contains("stale-if-error")
        })
        .await;
        say(&format!(
            "F25, containers: Neo4j paused: {seen} answers, {marked} marked stale-if-error, slowest {} ms; a cold key: {} after {} ms",
            slowest.as_millis(),
            refused.status,
            refused.took.as_millis()
        ));
    });
}

/// F28: a stream that ends in the middle is an error, and nothing of it is stored.
#[test]
fn a_stream_cut_in_the_middle_stores_nothing() {
    run(async {
        let world = World::start("stream-cut").await;
        let statement = "UNWIND range(1, 20000) AS n RETURN n, 'cut in the middle' AS what";
        let request = query(statement);
        // Every run is cut, since followers compete once more. A whole answer has over 400,000 bytes.
        world.proxy.trouble(statement, Trouble::CutAfter(100_000), usize::MAX);
        let mut answers = Vec::new();
        for node in &world.nodes {
            let reply = node.ask(&request).await;
            assert_eq!(reply.status, 503, "{reply}");
            answers.push(reply.took.as_millis());
        }
        let cut = world.proxy.runs(statement);
        assert!(cut >= 1, "no run was cut");
        let key = world.nodes[0].explain(statement).await["query_key"].as_str().expect("a key").to_owned();
        let left = redis::keys(world.redis_addr(), &format!("hopcache:*{key}*")).await;
        assert!(left.is_empty(), "{left:?}");
        world.proxy.heal();
        world.wait_for_origin("RETURN 'healed' AS what").await;
        until("the key is run again", Duration::from_secs(10), async || {
            world.nodes[0].ask(&request).await.status == 202
        })
        .await;
        world.committed().await;
        assert_eq!(redis::keys(world.redis_addr(), &format!("hopcache:*{key}*:e")).await.len(), 1, "{key}");
        let again = world.nodes[1].ask(&request).await;
        assert_eq!(again.json()["data"]["values"].as_array().map(Vec::len), Some(20_000));
        say(&format!(
            "F28, containers: {cut} streams cut after 100,000 bytes, answers after {answers:?} ms, 0 stored"
        ));
    });
}
