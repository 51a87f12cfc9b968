//! F31, I9: pipelined requests are answered in their order, and a client that pipelines without reading
//! holds a bounded amount of memory until it is cut.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;

use super::Alone;
use crate::support::http::{self, send_raw};
use crate::support::say;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pipelined_requests_are_answered_in_order() {
    let alone = Alone::start("").await;
    let mut bytes = Vec::new();
    for n in 0..100 {
        // Every third is a write, which is slower than the others.
        let statement = if n % 3 == 0 { "CREATE (x:HcPipelined) DELETE x RETURN $n" } else { "RETURN $n" };
        bytes.extend_from_slice(&http::query(statement, &json!({ "n": n })));
    }
    bytes.extend_from_slice(b"GET /no/such/path HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    let answer = send_raw(alone.node.addrs.client, &bytes, Duration::from_secs(30)).await;
    let replies = answer.replies();
    assert_eq!(replies.len(), 101, "{answer}");
    for (n, reply) in replies[..100].iter().enumerate() {
        assert_eq!(reply.value(), n, "{reply}");
    }
    assert_eq!(replies[100].status, 404);
    assert!(answer.is_closed);
    say(&format!("100 pipelined requests answered in order in {} ms", answer.took.as_millis()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_pipelines_and_does_not_read_holds_little() {
    const CLIENTS: usize = 40;
    const REQUESTS: usize = 200;
    let alone = Alone::start("").await;
    // About 2 MB; each client asks for 400 MB of it.
    let large = alone.warm("UNWIND range(1, 300000) AS x RETURN x").await;
    let answer_bytes = alone.node.ask(&large).await.body.len();
    let before = alone.node.resident_bytes();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut stream = socket.connect(alone.node.addrs.client).await.unwrap();
        let all = large.repeat(REQUESTS);
        clients.push(tokio::spawn(async move {
            let _ = stream.write_all(&all).await;
            stream
        }));
    }
    let mut most = before;
    let is_cut = async || {
        most = most.max(alone.node.resident_bytes());
        alone.refused("reader_too_slow").await >= CLIENTS as f64
    };
    crate::support::until("all are cut", Duration::from_secs(25), is_cut).await;
    let grown = most.saturating_sub(before);
    say(&format!(
        "{CLIENTS} clients × {REQUESTS} pipelined requests of {answer_bytes} bytes, none read: resident memory + {} KiB",
        grown >> 10
    ));
    assert!(grown < 64 << 20, "{grown} bytes");
    drop(clients);
    assert!(alone.node.ask(&large).await.is_hit());
}
