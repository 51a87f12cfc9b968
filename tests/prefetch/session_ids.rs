//! Issue 7, bad input: session ids of 128 bytes of anything, and one byte more. No id is a label, a log line or an
//! answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::accounting::balanced;
use super::social_graph::{in_session, learning_node, successors, sum};
use crate::support::until;

const WAIT_MAX: Duration = Duration::from_secs(20);
/// Longest id.
const ID_BYTES: usize = 128;

/// The same as `in_session`, with any bytes.
fn by_bytes(session: &[u8], statement: &str, parameters: &Value) -> Arc<[u8]> {
    let request = in_session("\u{1}", statement, parameters);
    let at = request.iter().position(|byte| *byte == 1).unwrap();
    [&request[..at], session, &request[at + 1..]].concat().into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_is_128_bytes_of_anything_and_not_one_more() {
    let cluster = learning_node().await;
    let node = &cluster.nodes[0];
    // Every byte that a header's value may have, and the name that must be visible nowhere.
    let bytes: Vec<u8> = (0x21..=0xFF).filter(|byte| *byte != 0x7F).chain(*b" \t").collect();
    let mut ids: Vec<Vec<u8>> =
        bytes.chunks(ID_BYTES - 12).map(|some| [b"canary-7f3a:", some].concat()).collect();
    ids.iter_mut().for_each(|id| id.resize(ID_BYTES, 0xE9));
    ids.push(b"\xFF".repeat(ID_BYTES));
    // Without an id, the session is that of the client's address.
    ids.push(Vec::new());
    for (place, id) in ids.iter().enumerate() {
        for (step, statement) in ["RETURN $k AS first", "RETURN $k AS second"].into_iter().enumerate() {
            let reply = node.ask(&by_bytes(id, statement, &json!({ "k": 1_000 * (place + 1) }))).await;
            assert_eq!(reply.status, 202, "id {place}, step {step}: {reply}");
        }
    }
    until("each is a session of its own, and teaches", WAIT_MAX, async || {
        sum(&cluster, "hopcache_observations_total", "\"learned\"").await >= ids.len() as f64
            && sum(&cluster, "hopcache_sessions", "").await >= ids.len() as f64
    })
    .await;
    for id in [b"x".repeat(ID_BYTES + 1), b"\xFF".repeat(4_000)] {
        let reply = node.ask(&by_bytes(&id, "RETURN 1 AS one", &json!({}))).await;
        assert_eq!(reply.status, 400, "{reply}");
        let message = reply.json()["errors"][0]["message"].as_str().unwrap().to_lowercase();
        assert!(message.contains("hopcache-session") && message.contains("128"), "{message}");
    }
    let metrics = String::from_utf8(node.admin("/metrics").await.unwrap().body).unwrap();
    let outputs = [metrics, node.log(), successors(node, "").await.to_string()];
    assert!(outputs.iter().all(|text| !text.contains("canary-7f3a")), "an id is kept as a keyed hash only");
    balanced(&cluster.nodes).await;
}
