//! I5 on the real Neo4j with three nodes. A changed password and a dropped user are refused everywhere within 30 s. A
//! wrong password never gets a hit, on any node and under any fault. Two users share nothing.
//!
//! (`crates/fronts/src/credentials/check/tests.rs` shows on a clock of its own that accepted credentials expire after 30
//! s.)

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::bolt_client::BoltClient;
use crate::support::cluster::{Cluster, neo4j_http};
use crate::support::dice::Dice;
use crate::support::http::{Connection, Reply, basic, post};
use crate::support::{environment, http, say, until};

const OLD: &str = "the-old-password";
const NEW: &str = "the-new-password";
/// For how long Neo4j's yes is believed.
const BELIEVED: Duration = Duration::from_secs(30);
/// From then on a hit has Neo4j asked in the background.
const ASKED_AGAIN: Duration = Duration::from_secs(20);

/// A user of Neo4j that is dropped with this value.
struct User(String);

impl User {
    async fn create(name: &str) -> Self {
        let user = Self(format!("hciso{name}{}", std::process::id()));
        administer(&format!("CREATE OR REPLACE USER {} SET PASSWORD '{OLD}' CHANGE NOT REQUIRED", user.0))
            .await;
        user
    }

    /// The statement counts as one of this user's own, so that tests do not share keys.
    fn request(&self, password: &str, k: usize) -> Arc<[u8]> {
        let body = json!({"statement": "RETURN 'isolated' AS what, $k AS k", "parameters": {"k": k}});
        post("/db/neo4j/query/v2", &basic(&self.0, password), &body.to_string())
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let request = administration(&format!("DROP USER {} IF EXISTS", self.0));
        let Ok(mut stream) = std::net::TcpStream::connect(neo4j_http()) else { return };
        let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
        let _ = std::io::Write::write_all(&mut stream, &request);
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
    }
}

fn administration(statement: &str) -> Arc<[u8]> {
    let admin = basic("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD"));
    post("/db/system/query/v2", &admin, &json!({ "statement": statement }).to_string())
}

async fn administer(statement: &str) {
    let reply = http::ask(neo4j_http(), &administration(statement)).await.unwrap();
    assert_eq!(reply.status, 202, "{statement}: {reply}");
}

fn assert_refused(reply: &Reply) {
    // 429 is Neo4j's own, after three wrong passwords in five seconds.
    assert!([401, 429].contains(&reply.status), "{reply}");
    assert_eq!(reply.header("cache-status"), "", "{reply}");
    assert!(reply.json().get("data").is_none(), "{reply}");
}

/// Asks a node with credentials that Neo4j no longer accepts, until the node refuses them. Returns the time since the
/// change, and the number of hits meanwhile.
async fn until_refused(cluster: &Cluster, node: usize, request: &[u8], changed: Instant) -> (Duration, u32) {
    let mut connection = Connection::open(cluster.nodes[node].addrs.client).await.unwrap();
    let mut hits = 0;
    loop {
        let sent = changed.elapsed();
        let reply = connection.ask(request).await.unwrap();
        if reply.status != 202 {
            assert_refused(&reply);
            return (sent, hits);
        }
        // The time of sending: the acceptance began before the change, so this holds on a slow machine as well.
        assert!(sent < BELIEVED, "{sent:?} after the change: {reply}");
        hits += u32::from(reply.is_hit());
        // tidy: poll interval
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Threats: revoked credentials ≤ 30 s. The three nodes accept the credentials just before the change, so this is the
/// latest possible end. Hits go on meanwhile, so connections with the old log-on are in use and stay open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_password_and_a_dropped_user_are_refused_everywhere_within_30_seconds() {
    let cluster = Cluster::start().await;
    let (changes, goes) = (User::create("changes").await, User::create("goes").await);
    let (old, new, gone) = (changes.request(OLD, 1), changes.request(NEW, 1), goes.request(OLD, 1));
    for node in &cluster.nodes {
        for request in [&old, &gone] {
            assert_eq!(node.ask(request).await.status, 202);
            assert!(node.ask(request).await.is_hit());
        }
    }
    administer(&format!("ALTER USER {} SET PASSWORD '{NEW}' CHANGE NOT REQUIRED", changes.0)).await;
    administer(&format!("DROP USER {}", goes.0)).await;
    let changed = Instant::now();
    for node in &cluster.nodes {
        let reply = node.ask(&new).await;
        assert!(reply.is_hit(), "the new one is accepted at once, and is the same principal: {reply}");
    }
    let accepted = changed.elapsed();
    let each = (0..3).flat_map(|node| [(node, &old, "changed"), (node, &gone, "dropped")]);
    let ends = each.map(async |(node, request, what)| {
        let (after, hits) = until_refused(&cluster, node, request, changed).await;
        say(&format!(
            "{what}: refused on {} after {} ms ({hits} hits before)",
            cluster.nodes[node].name,
            after.as_millis()
        ));
        hits
    });
    let hits = futures_util::future::join_all(ends).await;
    assert!(hits.iter().all(|hits| *hits > 0), "no credentials were accepted: the test proved nothing");
    say(&format!("the new password: a hit on all three nodes within {} ms", accepted.as_millis()));
    // From now on nothing serves the old password: neither a miss over a connection with the old log-on, nor a bypass.
    for (place, node) in cluster.nodes.iter().enumerate() {
        assert_refused(&node.ask(&changes.request(OLD, 100 + place)).await);
        // The three nodes' questions about the old one are three wrong passwords, after which Neo4j itself locks
        // the user out for five seconds.
        let request = changes.request(NEW, 100 + place);
        let is_served = async || match node.ask(&request).await {
            reply if reply.status == 202 => true,
            reply => {
                assert_eq!(reply.status, 429, "{reply}");
                false
            }
        };
        until("the new password is served", Duration::from_secs(20), is_served).await;
    }
}

/// A8: a change that goes through a node is answered when no node accepts the old password, or a user that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_through_a_node_ends_acceptances_before_it_is_answered() {
    let cluster = Cluster::start().await;
    for (round, database) in ["system", "neo4j"].into_iter().enumerate() {
        let users =
            [User::create(&format!("through{round}")).await, User::create(&format!("gone{round}")).await];
        for node in &cluster.nodes {
            for user in &users {
                node.ask(&user.request(OLD, round)).await;
                assert!(node.ask(&user.request(OLD, round)).await.is_hit());
            }
        }
        let admin = basic("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD"));
        for statement in [
            format!("ALTER USER {} SET PASSWORD '{NEW}' CHANGE NOT REQUIRED", users[0].0),
            format!("DROP USER {}", users[1].0),
        ] {
            let body = json!({ "statement": statement }).to_string();
            let request = post(&format!("/db/{database}/query/v2"), &admin, &body);
            let reply = cluster.nodes[round].ask(&request).await;
            assert_eq!(reply.status, 202, "{reply}");
        }
        for node in &cluster.nodes {
            for user in &users {
                assert_refused(&node.ask(&user.request(OLD, round)).await);
            }
        }
    }
}

/// A8 for REVOKE, which needs Neo4j Enterprise: the proxy answers it as such a server, and the transaction of `system` is a change of
/// the password past Hopcache. What that change alone does not end at once, the answer of the REVOKE has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoke_through_a_node_ends_acceptances_before_it_is_answered() {
    let cluster = Cluster::start().await;
    cluster.proxy.answer_runs("REVOKE", &[], |_| Vec::new());
    let user = User::create("revoked").await;
    let (request, believed) = (user.request(OLD, 5), Instant::now());
    for node in &cluster.nodes {
        node.ask(&request).await;
        assert!(node.ask(&request).await.is_hit());
    }
    administer(&format!("ALTER USER {} SET PASSWORD '{NEW}' CHANGE NOT REQUIRED", user.0)).await;
    for node in &cluster.nodes {
        let reply = node.ask(&request).await;
        // On a machine so slow a node has asked Neo4j again by now.
        let is_asked_again = believed.elapsed() >= ASKED_AGAIN;
        assert!(reply.is_hit() || is_asked_again, "nobody has told the node of the change: {reply}");
    }
    let admin = basic("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD"));
    let revoke = json!({ "statement": format!("REVOKE ROLE reader FROM {}", user.0) }).to_string();
    let reply = cluster.nodes[1].ask(&post("/db/neo4j/query/v2", &admin, &revoke)).await;
    assert_eq!(reply.status, 202, "{reply}");
    for node in &cluster.nodes {
        assert_refused(&node.ask(&request).await);
    }
}

/// G4: a user that has to change the password is answered as by Neo4j, by each node, and no node calls the password wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_to_change_is_right_at_every_node() {
    const EXPIRED: &str = "Neo.ClientError.Security.CredentialsExpired";
    let cluster = Cluster::start().await;
    let user = User::create("mustchange").await;
    for node in &cluster.nodes {
        node.ask(&user.request(OLD, 3)).await;
        assert!(node.ask(&user.request(OLD, 3)).await.is_hit());
    }
    let admin = basic("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD"));
    let reset =
        json!({"statement": format!("ALTER USER {} SET PASSWORD CHANGE REQUIRED", user.0)}).to_string();
    assert_eq!(cluster.nodes[0].ask(&post("/db/system/query/v2", &admin, &reset)).await.status, 202);
    let direct = http::ask(neo4j_http(), &user.request(OLD, 3)).await.unwrap();
    assert_eq!(direct.json()["errors"][0]["code"], EXPIRED, "{direct}");
    for _ in 0..2 {
        for node in &cluster.nodes {
            let reply = node.ask(&user.request(OLD, 3)).await;
            assert_eq!((reply.status, reply.json()), (direct.status, direct.json()), "{reply}");
            let mut client = BoltClient::connect(node.addrs.bolt).await.unwrap();
            let said = client.log_on_answer(&user.0, OLD).await.unwrap().unwrap();
            assert_eq!(said["credentials_expired"], json!(true), "{said}");
            client.route().await.unwrap().unwrap();
            let refused = client.run("neo4j", "RETURN 1", &json!({})).await.unwrap().unwrap_err();
            assert_eq!(refused.code, EXPIRED);
        }
    }
    let mut client = BoltClient::connect(cluster.nodes[1].addrs.bolt).await.unwrap();
    client.log_on(&user.0, OLD).await.unwrap().unwrap();
    let change = "ALTER CURRENT USER SET PASSWORD FROM $old TO $new";
    client.write("system", change, &json!({"old": OLD, "new": NEW})).await.unwrap().unwrap();
    for node in &cluster.nodes {
        assert_eq!(node.ask(&user.request(NEW, 3)).await.status, 202);
        assert!(node.ask(&user.request(NEW, 3)).await.is_hit());
    }
}

/// Must-show 2 on the real server, where both may read the same: so by keys, hits and runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_users_of_the_real_neo4j_share_nothing() {
    const KEYS: usize = 10;
    let cluster = Cluster::start().await;
    let users = [User::create("ann").await, User::create("bob").await];
    let mut connections = Vec::new();
    for addr in cluster.clients() {
        connections.push(Connection::open(addr).await.unwrap());
    }
    let mut dice = Dice::new(7);
    let mut owners = std::collections::BTreeMap::new();
    let (mut hits, mut misses) = (0, 0);
    for _ in 0..600 {
        let (who, k, node) = (dice.below(2), dice.below(KEYS), dice.below(3));
        let reply = connections[node].ask(&users[who].request(OLD, k)).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        assert_eq!(reply.json()["data"]["values"], json!([[Value::from("isolated"), k]]));
        let how = reply.header("cache-status");
        let key = how.split("key=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned();
        let is_first = !owners.contains_key(&key);
        assert_eq!(*owners.entry(key).or_insert((who, k)), (who, k), "a key of two principals: {reply}");
        assert_eq!(
            is_first,
            !reply.is_hit(),
            "a first request that hits, or a later one that does not: {reply}"
        );
        hits += u32::from(!is_first);
        misses += u32::from(is_first);
    }
    assert_eq!(
        (owners.len(), cluster.proxy.runs("'isolated'")),
        (2 * KEYS, 2 * KEYS),
        "a run for each user and key"
    );
    say(&format!("two users of the real Neo4j: {hits} hits, {misses} misses, {} runs", 2 * KEYS));
}
