//! Writes are seen (INTERFACE section 2b): who has a write's answer gets nothing from before it, through any node, over
//! both fronts, in any session, without a bookmark.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::bolt_client::BoltClient;
use crate::support::cluster::{Cluster, OwnLabel, Plan, at_neo4j};
use crate::support::http::{self, Reply};
use crate::support::{environment, say, until, value_within};

/// Each writer has a graph node of its own.
const WRITERS: usize = 4;
/// Several leases: the tests share the machine.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Prefetches would hide which reads are hits.
const PLAN: fn() -> Plan = || Plan { prefetch: None, ..Plan::default() };

pub struct Items {
    label: OwnLabel,
}

impl Items {
    pub async fn new(test: &str) -> Self {
        let label = OwnLabel::new(test);
        at_neo4j(&format!("UNWIND range(0, {WRITERS}) AS id CREATE (:{} {{id: id, at: 0}})", label.0)).await;
        Self { label }
    }

    pub fn read(&self) -> String {
        format!("MATCH (n:{} {{id: $id}}) RETURN n.at AS at", self.label.0)
    }

    pub fn write(&self) -> String {
        format!("MATCH (n:{} {{id: $id}}) SET n.at = $at RETURN n.at AS at", self.label.0)
    }
}

pub async fn bolt(addr: SocketAddr) -> BoltClient {
    let mut client = BoltClient::connect(addr).await.unwrap();
    client.log_on("neo4j", &environment("HOPCACHE_TEST_NEO4J_PASSWORD")).await.unwrap().unwrap();
    client
}

/// Writes over HTTP, over Bolt, or in a transaction over either, in turn.
pub async fn write(cluster: &Cluster, node: usize, turn: i64, (statement, parameters): (&str, &Value)) {
    let addrs = &cluster.nodes[node].addrs;
    match turn % 4 {
        0 => {
            let reply = http::ask(addrs.client, &http::query(statement, parameters)).await.unwrap();
            assert_eq!(reply.status, 202, "{reply}");
        }
        1 => drop(bolt(addrs.bolt).await.write("neo4j", statement, parameters).await.unwrap().unwrap()),
        2 => {
            let mut client = bolt(addrs.bolt).await;
            client.write_in_transaction("neo4j", statement, parameters).await.unwrap().unwrap();
        }
        _ => {
            let id = begin(cluster, node, &json!({"statement": statement, "parameters": parameters})).await;
            // Committed at another node than the one that holds it.
            let committed = end(cluster, (node + 1) % 3, "POST", &format!("{id}/commit")).await;
            assert_eq!(committed.status, 202, "{committed}");
        }
    }
}

/// Writes as [`write`] does, with the database `system`: the statement names its graph by itself.
async fn write_by_use(cluster: &Cluster, node: usize, turn: i64, (statement, parameters): (&str, &Value)) {
    let addrs = &cluster.nodes[node].addrs;
    let body = json!({"statement": statement, "parameters": parameters});
    match turn % 4 {
        0 => {
            let asked = http::post("/db/system/query/v2", &http::login(), &body.to_string());
            let reply = http::ask(addrs.client, &asked).await.unwrap();
            assert_eq!(reply.status, 202, "{reply}");
        }
        1 => drop(bolt(addrs.bolt).await.write("system", statement, parameters).await.unwrap().unwrap()),
        2 => {
            let mut client = bolt(addrs.bolt).await;
            client.write_in_transaction("system", statement, parameters).await.unwrap().unwrap();
        }
        _ => {
            let id = begin_in(cluster, node, ("system", &body)).await;
            let client = cluster.nodes[(node + 1) % 3].addrs.client;
            let committed = end_in(client, "POST", ("system", &format!("{id}/commit"))).await;
            assert_eq!(committed.status, 202, "{committed}");
        }
    }
}

/// Begins a transaction over HTTP with this statement, and returns its name.
pub async fn begin(cluster: &Cluster, node: usize, body: &Value) -> String {
    begin_in(cluster, node, ("neo4j", body)).await
}

async fn begin_in(cluster: &Cluster, node: usize, (database, body): (&str, &Value)) -> String {
    let path = format!("/db/{database}/query/v2/tx");
    let opening = http::post(&path, &http::login(), &body.to_string());
    let opened = http::ask(cluster.nodes[node].addrs.client, &opening).await.unwrap();
    assert_eq!(opened.status, 202, "{opened}");
    opened.json()["transaction"]["id"].as_str().unwrap().to_owned()
}

pub async fn end(cluster: &Cluster, node: usize, method: &str, path: &str) -> Reply {
    end_at(cluster.nodes[node].addrs.client, method, path).await
}

async fn end_at(client: SocketAddr, method: &str, path: &str) -> Reply {
    end_in(client, method, ("neo4j", path)).await
}

async fn end_in(client: SocketAddr, method: &str, (database, path): (&str, &str)) -> Reply {
    let head = format!(
        "{method} /db/{database}/query/v2/tx/{path} HTTP/1.1\r\nhost: t\r\n{}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}",
        http::login()
    );
    http::ask(client, &Arc::from(head.into_bytes())).await.unwrap()
}

/// The value over HTTP or Bolt, and whether it was a hit. On a busy machine Neo4j may fall silent for seconds: what stands in for it is
/// marked, and asked for again.
pub async fn read(cluster: &Cluster, node: usize, is_http: bool, read: (&str, usize)) -> (i64, bool) {
    value_within("an answer of Neo4j", Duration::from_secs(30), async || {
        let (value, status) = read_once(cluster, node, is_http, read).await;
        (!status.contains("stale-if-error")).then(|| (value, status.contains("; hit")))
    })
    .await
}

/// The value, and the cache's status.
async fn read_once(
    cluster: &Cluster,
    node: usize,
    is_http: bool,
    (statement, id): (&str, usize),
) -> (i64, String) {
    let addrs = &cluster.nodes[node].addrs;
    let parameters = json!({ "id": id });
    if is_http {
        let reply = http::ask(addrs.client, &http::query(statement, &parameters)).await.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
        return (reply.value().as_i64().unwrap(), reply.header("cache-status").to_owned());
    }
    let rows = bolt(addrs.bolt).await.run("neo4j", statement, &parameters).await.unwrap().unwrap();
    (rows.rows[0][0].as_i64().unwrap(), rows.cache_status)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_seen_through_every_node_over_both_fronts() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("Written").await;
    let (reading, writing) = (items.read(), items.write());
    for at in 1..=12 {
        for node in 0..3 {
            read(&cluster, node, true, (&reading, 0)).await;
        }
        let writer = usize::try_from(at).unwrap() % 3;
        write(&cluster, writer, at / 3, (&writing, &json!({"id": 0, "at": at}))).await;
        for turn in 0..6 {
            let (value, is_hit) = read(&cluster, (writer + 1 + turn) % 3, turn % 2 == 0, (&reading, 0)).await;
            assert_eq!(value, at, "turn {turn}");
            assert_eq!(is_hit, turn > 0, "turn {turn}: one run, and then hits, whatever the front");
        }
    }
    // A statement that matches nothing changes nothing, and ends nothing.
    write(&cluster, 1, 0, (&writing, &json!({"id": -1, "at": 1}))).await;
    assert!(read(&cluster, 0, true, (&reading, 0)).await.1);
    let mut written = 0.0;
    for node in &cluster.nodes {
        written += node.metric("hopcache_invalidations_total", "cause=\"own_write\"").await.unwrap_or(0.0);
    }
    assert_eq!(written, 12.0);
}

/// A statement names its graph by itself, and writes in another database than its client's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_through_use_is_seen() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("Use").await;
    let (reading, writing) = (items.read(), items.write());
    for at in 1..=8 {
        for node in 0..3 {
            read(&cluster, node, true, (&reading, 0)).await;
        }
        assert!(read(&cluster, 0, true, (&reading, 0)).await.1, "there is something to end");
        let spelled = ["USE neo4j", "/* it */ uSe`neo4j`"][usize::from(at > 4)];
        let (writer, text) = (usize::try_from(at).unwrap() % 3, format!("{spelled} {writing}"));
        write_by_use(&cluster, writer, at, (&text, &json!({"id": 0, "at": at}))).await;
        for turn in 0..6 {
            let (value, _) = read(&cluster, (writer + 1 + turn) % 3, turn % 2 == 0, (&reading, 0)).await;
            assert_eq!(value, at, "turn {turn}");
        }
    }
}

/// A statement that fails half-way has committed a part: `CALL { } IN TRANSACTIONS`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_fails_half_way_is_seen() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("HalfWay").await;
    let reading = items.read();
    for node in 0..3 {
        read(&cluster, node, true, (&reading, 0)).await;
    }
    let half = format!(
        "UNWIND [1, 0] AS x CALL (x) {{ MATCH (n:{} {{id: 0}}) SET n.at = 10 / x }} IN TRANSACTIONS OF 1 ROW",
        items.label.0
    );
    let reply = http::ask(cluster.nodes[0].addrs.client, &http::query(&half, &json!({}))).await.unwrap();
    assert_eq!(reply.status, 400, "{reply}");
    for node in 0..3 {
        assert_eq!(read(&cluster, node, node != 1, (&reading, 0)).await.0, 10);
    }
}

/// A transaction over HTTP that is rolled back ends nothing. One whose statements commit for themselves has ended the
/// entries when its statement is answered, whatever becomes of the transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_transaction_commits_before_its_end_is_seen() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("Implicit").await;
    let (reading, writing) = (items.read(), items.write());
    for node in 0..3 {
        read(&cluster, node, true, (&reading, 0)).await;
    }
    let undone = json!({"statement": writing, "parameters": {"id": 0, "at": 5}});
    let id = begin(&cluster, 0, &undone).await;
    assert_eq!(end(&cluster, 1, "DELETE", &id).await.status, 200);
    for node in 0..3 {
        assert_eq!(read(&cluster, node, node == 1, (&reading, 0)).await, (0, true));
    }
    let parts = format!(
        "UNWIND [7] AS x CALL (x) {{ MATCH (n:{} {{id: 0}}) SET n.at = x }} IN TRANSACTIONS",
        items.label.0
    );
    let id = begin(&cluster, 0, &json!({"statement": parts, "txType": "IMPLICIT"})).await;
    for node in 0..3 {
        assert_eq!(read(&cluster, node, node == 1, (&reading, 0)).await.0, 7);
    }
    assert_eq!(end(&cluster, 2, "DELETE", &id).await.status, 200);
    assert_eq!(read(&cluster, 1, true, (&reading, 0)).await.0, 7);
}

/// The proxy has kept COMMIT, and passes it on now. Neo4j carries it out, or sees first that its client has gone. Once nodes have
/// asked again, none serves what is older than Neo4j's own answer. Until then a read that the proxy has kept as well, and passes on
/// before COMMIT, may answer: it is from after the client's answer, and from before the write.
async fn assert_nothing_is_older(cluster: &Cluster, items: &Items, nodes: &[usize]) {
    cluster.proxy.resume();
    let (reading, at) = (items.read(), format!("MATCH (n:{} {{id: 0}}) RETURN n.at AS at", items.label.0));
    until("nodes have asked again", Duration::from_secs(10), async || {
        let now = at_neo4j(&at).await.value();
        json!(read(cluster, nodes[0], true, (&reading, 0)).await.0) == now
    })
    .await;
    let mut same = 0;
    for turn in 0..30 {
        let before = at_neo4j(&at).await.value();
        let (value, _) = read(cluster, nodes[turn % nodes.len()], turn % 2 == 0, (&reading, 0)).await;
        if at_neo4j(&at).await.value() == before {
            assert_eq!(json!(value), before, "turn {turn}");
            same += 1;
        }
    }
    assert!(same >= 29, "{same}");
}

/// The node that holds a transaction is killed while its COMMIT is under way. The node that the client asks says that it may
/// have been carried out, and ends the entries first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_holder_is_killed_is_seen() {
    let mut cluster = Cluster::of(PLAN()).await;
    let items = Items::new("KilledInCommit").await;
    let (reading, writing) = (items.read(), items.write());
    for node in 0..3 {
        read(&cluster, node, true, (&reading, 0)).await;
    }
    let id = begin(&cluster, 0, &json!({"statement": writing, "parameters": {"id": 0, "at": 5}})).await;
    let before = cluster.proxy.commits();
    cluster.proxy.stall();
    let client = cluster.nodes[1].addrs.client;
    let committing = tokio::spawn(async move { end_at(client, "POST", &format!("{id}/commit")).await });
    let is_under_way = async || cluster.proxy.commits() > before;
    until("COMMIT is on its way", WAIT_MAX, is_under_way).await;
    cluster.nodes[0].kill();
    let lost = committing.await.unwrap();
    // Not a status that clients or balancers repeat.
    assert!(lost.status == 500 && lost.to_string().contains("may have been"), "{lost}");
    assert_nothing_is_older(&cluster, &items, &[1, 2]).await;
}

/// A stopped node delays a write by its lease at most. When it goes on, it serves nothing from before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_node_serves_nothing_from_before_a_write() {
    let cluster = Cluster::of(PLAN()).await;
    let items = Items::new("Stopped").await;
    let (reading, writing) = (items.read(), items.write());
    let sleeper = cluster.owner(&reading, &json!({ "id": 0 })).await;
    let writer = (sleeper + 1) % 3;
    for at in 1..=3 {
        for node in 0..3 {
            read(&cluster, node, true, (&reading, 0)).await;
        }
        cluster.nodes[sleeper].signal("STOP");
        let began = Instant::now();
        write(&cluster, writer, 0, (&writing, &json!({"id": 0, "at": at}))).await;
        let took = began.elapsed();
        // The requests wait in its sockets, so it reads them first when it goes on.
        let request = http::query(&reading, &json!({ "id": 0 }));
        let crowd = vec![(cluster.nodes[sleeper].addrs.client, Arc::clone(&request)); 10];
        let first = tokio::spawn(http::crowd(crowd));
        until("its lease has run out", WAIT_MAX, async || began.elapsed() > Duration::from_millis(900)).await;
        cluster.nodes[sleeper].signal("CONT");
        for reply in first.await.unwrap() {
            let reply = reply.unwrap();
            assert_eq!(reply.value(), json!(at), "{reply}");
        }
        say(&format!("a write while a node is stopped: {} ms", took.as_millis()));
        assert!(took < WAIT_MAX);
        for node in &cluster.nodes {
            node.wait_for_members(3).await;
        }
    }
}

/// Neo4j carries out a statement about users in `system`, whatever database its client has named. What was read with the rights of
/// before is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_users_sent_to_another_database_ends_all_entries() {
    const READ: &str = "UNWIND [1] AS of_rights RETURN of_rights";
    let label = OwnLabel::new("rights");
    // A prefetch would read the entry anew.
    let cluster = Cluster::of(Plan { prefetch: None, freshness: "", ..Plan::default() }).await;
    let user = label.0.to_lowercase();
    for turn in 0..4 {
        for statement in
            [format!("CREATE USER {user} SET PASSWORD 'a password'"), format!("DROP USER {user}")]
        {
            for node in &cluster.nodes {
                node.ask(&http::query(READ, &json!({}))).await;
                assert!(node.ask(&http::query(READ, &json!({}))).await.is_hit());
            }
            write(&cluster, 0, turn, (&statement, &json!({}))).await;
            let reply = cluster.nodes[2].ask(&http::query(READ, &json!({}))).await;
            assert!(!reply.is_hit(), "{statement}: {reply}");
        }
    }
}

/// `mode = "ttl"`: entries live for their ttl whatever is written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_ttl_a_write_ends_nothing() {
    let cluster = Cluster::of(Plan { freshness: "mode = \"ttl\"", ..PLAN() }).await;
    let items = Items::new("Ttl").await;
    let (reading, writing) = (items.read(), items.write());
    for node in 0..3 {
        read(&cluster, node, true, (&reading, 0)).await;
    }
    for turn in 0..4 {
        write(&cluster, 0, turn, (&writing, &json!({"id": 0, "at": 5}))).await;
    }
    for node in 0..3 {
        assert_eq!(read(&cluster, node, true, (&reading, 0)).await, (0, true));
    }
}

/// Without Redis the nodes tell each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_a_write_is_seen() {
    let mut cluster = Cluster::of(PLAN()).await;
    let items = Items::new("NoStore").await;
    let (reading, writing) = (items.read(), items.write());
    for node in 0..3 {
        read(&cluster, node, true, (&reading, 0)).await;
    }
    cluster.redis.kill();
    for at in 1..=9 {
        let writer = usize::try_from(at).unwrap() % 3;
        write(&cluster, writer, at, (&writing, &json!({"id": 0, "at": at}))).await;
        for turn in 0..3 {
            let (value, _) = read(&cluster, (writer + 1 + turn) % 3, turn % 2 == 0, (&reading, 0)).await;
            assert_eq!(value, at, "turn {turn}");
        }
    }
}
