//! F6, F7: an owner that is cut off from one side only.

use std::time::{Duration, Instant};

use crate::containers::redis;
use crate::containers::world::{World, query, run};
use crate::support::{http, say, until};

const SECOND: Duration = Duration::from_secs(1);
/// How long a node keeps the result of a run without a lease (docs/decisions.md, "Commit").
const DEGRADED_TTL: Duration = Duration::from_secs(2);

/// F6: the owner and its peers do not reach each other. Both sides ask for the key, and the lease in the store lets
/// only one run it.
#[test]
fn an_owner_cut_from_its_peers_leases_like_them() {
    run(async {
        let world = World::start("cut-peers").await;
        let statement = "RETURN 'cut from peers' AS what";
        world.proxy.delay_runs(statement, SECOND);
        let (owner, others) = world.owner(statement).await;
        world.cut(owner, &[&world.peers]).await;
        until("each side misses the other", Duration::from_secs(20), async || {
            world.nodes[owner].metric("hopcache_ring_members", "").await == 1.0
                && world.nodes[others[0]].metric("hopcache_ring_members", "").await == 2.0
                && world.nodes[others[1]].metric("hopcache_ring_members", "").await == 2.0
        })
        .await;
        assert!(!world.nodes[owner].is_degraded("store").await, "the owner has its store");
        let crowd = (0..30).map(|client| (world.nodes[client % 3].client(), query(statement))).collect();
        let mut slowest = Duration::ZERO;
        for reply in http::crowd(crowd).await {
            let reply = reply.unwrap();
            assert_eq!(reply.value(), "cut from peers", "{reply}");
            slowest = slowest.max(reply.took);
        }
        assert_eq!(world.proxy.runs(statement), 1, "the store's lease did not decide");
        say(&format!(
            "F6, containers: rings of 1 and 2 members, 30 clients of both, 1 run, slowest {} ms",
            slowest.as_millis()
        ));
        world.heal(owner, &[&world.peers]).await;
        world.wait_until_whole().await;
        assert!(world.nodes[owner].ask(&query(statement)).await.is_hit());
    });
}

/// F7: the owner reaches its peers and no store. It serves its copies, and runs once in a degraded TTL for all
/// requests, since its peers ask it. The count is by the whole statement: a text that contains it has another key.
#[test]
fn an_owner_cut_from_the_store_serves_its_peers() {
    run(async {
        let world = World::start("cut-store").await;
        let (warm, cold) = ("RETURN 'warm' AS what", "RETURN 'warm' AS what, 'cold' AS how");
        let (owner, others) = world.owner(warm).await;
        let cold = owned_by(&world, owner, cold).await;
        let sought = owned_by(&world, owner, "RETURN 'sought' AS what").await;
        world.nodes[owner].ask(&query(warm)).await;
        world.cut(owner, &[&world.store]).await;
        // Copies in memory need no store.
        let hit = world.nodes[others[0]].ask(&query(warm)).await;
        assert!(hit.is_hit(), "{hit}");
        until("the owner finds that it has no store", Duration::from_secs(20), async || {
            world.nodes[owner].ask(&query("RETURN timestamp() AS not_cached")).await;
            world.nodes[owner].ask(&query(&sought)).await;
            world.nodes[owner].is_degraded("store").await
        })
        .await;
        assert_eq!(world.nodes[owner].metric("hopcache_ring_members", "").await, 3.0, "its peers are there");
        world.proxy.delay_runs(&cold, SECOND / 2);
        let key =
            world.nodes[others[0]].explain(&cold).await["query_key"].as_str().expect("a key").to_owned();
        let crowd = (0..30).map(|client| (world.nodes[client % 3].client(), query(&cold))).collect();
        let (mut slowest, began) = (Duration::ZERO, Instant::now());
        for reply in http::crowd(crowd).await {
            let reply = reply.unwrap();
            assert_eq!(reply.value(), "warm", "{reply}");
            slowest = slowest.max(reply.took);
        }
        let (runs, took) = (world.proxy.runs(&cold), began.elapsed());
        say(&format!(
            "F7, containers: owner without store, 30 clients, {runs} runs in {} ms, slowest {} ms",
            took.as_millis(),
            slowest.as_millis()
        ));
        // The result is kept for the degraded TTL. A later request is in the next one.
        let most = 1 + took.as_millis() / DEGRADED_TTL.as_millis();
        assert!(runs >= 1 && runs as u128 <= most, "{runs} runs in {took:?}");
        let stored = redis::keys(world.redis_addr(), &format!("hopcache:*{key}*:e")).await;
        assert!(stored.is_empty(), "a peer ran beside the owner: {stored:?}");
        world.heal(owner, &[&world.store]).await;
        world.wait_until_whole().await;
        assert!(world.nodes[owner].ask(&query(warm)).await.is_hit());
    });
}

/// The statement with a comment by which it belongs to the node at `place`.
async fn owned_by(world: &World, place: usize, statement: &str) -> String {
    for number in 0..200 {
        let candidate = format!("{statement}, {number} AS number");
        if world.owner(&candidate).await.0 == place {
            return candidate;
        }
    }
    panic!("{} owns none of 200 keys", world.nodes[place].name);
}
