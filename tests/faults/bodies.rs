//! I9: large request bodies, and large messages over Bolt, share a bounded room. A run whose client is gone keeps its part
//! until its end. A body that turns out small takes no part.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::bolt_client::BoltClient;
use crate::support::bolt_proxy::{BoltProxy, Trouble};
use crate::support::lone::{Lone, Spec};
use crate::support::scripted_neo4j::ScriptedNeo4j;
use crate::support::{environment, http, say, until};

/// One principal's: three quarters of `BODY_ROOM_BYTES` over `REQUEST_BODY_BYTES_MAX`.
const LARGEST_AT_A_TIME: usize = 12;
const STATEMENT: &str = "RETURN $k";

/// A node with a proxy before its Neo4j.
struct ProxiedNode {
    lone: Lone,
    proxy: BoltProxy,
    _neo4j: ScriptedNeo4j,
}

impl ProxiedNode {
    async fn start() -> Self {
        let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
        let neo4j = ScriptedNeo4j::start(&[("neo4j", &password)], Duration::ZERO).await;
        let proxy = BoltProxy::start(neo4j.uri().trim_start_matches("bolt://")).await.unwrap();
        let origin = format!("uri = \"bolt://{}\"\ntimeout = \"30s\"\nmax_concurrent = 32", proxy.addr());
        let lone = Lone::start(&Spec { origin, ..Spec::on("memory:") }).await;
        // From now on the statement is known for a read, and its sender is believed.
        assert_eq!(lone.node.ask(&request(0, 10)).await.status, 202);
        Self { lone, proxy, _neo4j: neo4j }
    }
}

fn request(k: usize, bytes: usize) -> Arc<[u8]> {
    http::query(STATEMENT, &json!({"k": k, "text": "t".repeat(bytes)}))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_bodies_of_unknown_length_hold_no_room_while_they_run() {
    let ProxiedNode { lone, proxy, _neo4j } = &ProxiedNode::start().await;
    // Longer than a request waits for room.
    proxy.delay_runs(STATEMENT, Duration::from_secs(3));
    let requests = (1..=2 * LARGEST_AT_A_TIME).map(|k| {
        let body = json!({"statement": STATEMENT, "parameters": {"k": k}}).to_string();
        let text = format!(
            "POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\n{}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
            http::login(),
            body.len()
        );
        (lone.node.addrs.client, Arc::from(text.into_bytes()))
    });
    for reply in http::crowd(requests.collect()).await {
        let reply = reply.unwrap();
        assert_eq!(reply.status, 202, "{reply}");
    }
    assert_eq!(proxy.runs(STATEMENT), 1 + 2 * LARGEST_AT_A_TIME);
}

/// Large messages that wait behind a request under way hold room for their own size only, and one principal's leave room
/// for another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_wait_over_bolt_hold_their_own_size() {
    let ProxiedNode { lone, proxy, _neo4j } = &ProxiedNode::start().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    proxy.trouble(STATEMENT, Trouble::StallAfter(0), 2 * LARGEST_AT_A_TIME);
    let mut waiting = Vec::new();
    for k in 1..=2 * LARGEST_AT_A_TIME {
        let mut client = BoltClient::connect(lone.node.addrs.bolt).await.unwrap();
        client.log_on("neo4j", &password).await.unwrap().unwrap();
        // A run that stalls, and a large message behind it.
        client
            .send_runs(&[(STATEMENT, json!({"k": k})), (STATEMENT, json!({"text": "t".repeat(80_000)}))])
            .await
            .unwrap();
        waiting.push(client);
    }
    let all_run = |runs: &[_]| runs.len() > 2 * LARGEST_AT_A_TIME;
    assert!(proxy.wait_until(STATEMENT, Duration::from_secs(20), all_run).await, "not all run");
    // Longer than the messages need to arrive: a request that finds room says so.
    let served = async || lone.node.ask(&request(0, 10)).await.status == 202;
    until("hits are served", Duration::from_secs(5), served).await;
    let body = http::query("RETURN 1 AS other", &json!({"text": "t".repeat(80_000)}));
    let reply = lone.node.ask(&body).await;
    assert_eq!(reply.status, 202, "24 messages of 80 KB hold 2 MB: {reply}");
    proxy.cut();
}

/// Transactions that are open, and have not reached Neo4j, with options of nearly the largest size.
const TRANSACTIONS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_transactions_keep_the_bytes_of_their_options() {
    let ProxiedNode { lone, proxy: _, _neo4j } = &ProxiedNode::start().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    let before = lone.node.resident_bytes() >> 20;
    // Numbers of nine bytes in the message: decoded, they take five times as much.
    let options = json!({"tx_metadata": {"a": vec![1; 12_000]}});
    let mut open = Vec::new();
    for _ in 0..TRANSACTIONS {
        let mut client = BoltClient::connect(lone.node.addrs.bolt).await.unwrap();
        client.log_on("neo4j", &password).await.unwrap().unwrap();
        client.begin(options.clone()).await.unwrap().unwrap();
        open.push(client);
    }
    let after = lone.node.resident_bytes() >> 20;
    say(&format!(
        "I9 over Bolt: {} open transactions with 108 KB of options: RSS {before} MiB before, {after} after",
        open.len()
    ));
    // Twice their bytes, and the buffers of connections.
    assert!(after < before + 2 * 21 + 32, "{after} MiB");
}

/// Statements that wait behind a run, each with options that are large when they are decoded.
const WAITING: u64 = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_wait_over_bolt_keep_the_bytes_of_their_options() {
    let ProxiedNode { lone, proxy, _neo4j } = &ProxiedNode::start().await;
    let password = environment("HOPCACHE_TEST_NEO4J_PASSWORD");
    proxy.trouble(STATEMENT, Trouble::StallAfter(0), 1);
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        let mut client = BoltClient::connect(lone.node.addrs.bolt).await.unwrap();
        client.log_on("neo4j", &password).await.unwrap().unwrap();
        waiting.push(client);
    }
    let before = lone.node.resident_bytes() >> 20;
    // One byte each in the message.
    let options = json!({"mode": "r", "tx_metadata": {"a": vec![Value::Null; 60_000]}});
    let parameters = json!({"k": -1});
    for client in &mut waiting {
        client.send_run_with(STATEMENT, &parameters, &options).await.unwrap();
    }
    let all_wait = async || {
        let explained = lone.node.explain(STATEMENT, &parameters).await;
        explained["flight"]["followers"].as_u64() == Some(WAITING - 1)
    };
    until("all wait for one run", Duration::from_secs(30), all_wait).await;
    let after = lone.node.resident_bytes() >> 20;
    say(&format!(
        "I9 over Bolt: {WAITING} statements with 60 KB of options wait: RSS {before} MiB before, {after} after"
    ));
    // Three times their bytes, and what the allocator keeps of the decoded ones. If those were kept, it would be 500 MiB.
    assert!(after < before + 3 * 18 + 64, "{after} MiB");
    proxy.cut();
}
