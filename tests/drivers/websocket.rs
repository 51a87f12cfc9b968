//! A browser: Bolt inside a WebSocket, on the same port.

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::drivers::raw::Raw;
use crate::support::environment;
use crate::support::lone::{Lone, Spec};

/// Bytes of a message from the browser: requests are cut in their middle.
const PIECE_BYTES: usize = 5;

/// Takes one plain connection, and carries its bytes to the node in a WebSocket.
async fn browser(node: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut plain, _) = listener.accept().await.unwrap();
        let stream = TcpStream::connect(node).await.unwrap();
        let (mut socket, _) = client_async(format!("ws://{node}/"), stream).await.unwrap();
        let mut read = vec![0; 4 << 10];
        loop {
            tokio::select! {
                count = plain.read(&mut read) => match count {
                    Ok(count) if count > 0 => {
                        for piece in read[..count].chunks(PIECE_BYTES) {
                            socket.send(Message::Binary(Bytes::copy_from_slice(piece))).await.unwrap();
                        }
                    }
                    _ => break,
                },
                message = socket.next() => match message {
                    Some(Ok(Message::Binary(bytes))) => plain.write_all(&bytes).await.unwrap(),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                    _ => break,
                },
            }
        }
    });
    addr
}

/// A read is a hit the second time, and a large result comes whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_gets_what_a_driver_gets() {
    let node = Lone::start(&Spec::on("memory:")).await;
    let mut raw = Raw::logged_on_to(browser(node.addrs.bolt).await).await;
    for text in ["fwd=miss", "hit"] {
        raw.run("UNWIND range(1, 20000) AS n RETURN n").await;
        assert_eq!(raw.reply().await[1], 0x70);
        let mut records = 0;
        let end = loop {
            let reply = raw.reply().await;
            if reply[1] != 0x71 {
                break reply;
            }
            records += 1;
        };
        assert_eq!((records, end[1]), (20_000, 0x70));
        assert!(String::from_utf8_lossy(&end).contains(text), "{}", String::from_utf8_lossy(&end));
    }
}

/// What is no Bolt ends the connection. The node serves on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_message_and_a_plain_request_are_refused() {
    let node = Lone::start(&Spec::on("memory:")).await;
    let stream = TcpStream::connect(node.addrs.bolt).await.unwrap();
    let (mut socket, _) = client_async(format!("ws://{}/", node.addrs.bolt), stream).await.unwrap();
    socket.send(Message::text("RETURN 1")).await.unwrap();
    while let Some(Ok(message)) = socket.next().await {
        assert!(message.is_close(), "{message:?}");
    }
    for request in ["GET / HTTP/9\r\nHost: a\r\n\r\n", "GET  \r\n\r\n"] {
        let answer = answer_of(node.addrs.bolt, request).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.ends_with("has its own port\n"), "{answer}");
    }
    Raw::logged_on(&node).await;
}

/// All that a listener sends before it closes.
async fn answer_of(addr: SocketAddr, request: &str) -> String {
    let mut plain = TcpStream::connect(addr).await.unwrap();
    plain.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = plain.read_to_string(&mut answer).await;
    answer
}

/// The fields of an answer's head, sorted, without its date and what the two servers need not have in common.
fn head_of(answer: &str) -> (&str, Vec<String>) {
    let (head, _) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let (status, fields) = head.split_once("\r\n").unwrap_or((head, ""));
    let own = ["date:", "content-length:", "connection:"];
    let kept = fields.lines().filter(|field| own.iter().all(|name| !field.starts_with(name)));
    let mut kept: Vec<String> = kept.map(str::to_owned).collect();
    kept.sort();
    (status, kept)
}

/// C5: what a balancer's health check gets from the Bolt port, at Neo4j and here. Neo4j's document is empty there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_on_the_bolt_port_is_answered_as_by_neo4j() {
    let node = Lone::start(&Spec::on("memory:")).await;
    let neo4j = environment("HOPCACHE_TEST_NEO4J_BOLT");
    let neo4j: SocketAddr = neo4j.trim_start_matches("bolt://").parse().unwrap();
    for request in [
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "GET /any/path HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nConnection: close\r\n\r\n",
        "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 0\r\n\r\n",
    ] {
        let (ours, theirs) = (answer_of(node.addrs.bolt, request).await, answer_of(neo4j, request).await);
        assert_eq!(head_of(&ours), head_of(&theirs), "{request}");
    }
    let whole = answer_of(node.addrs.bolt, "GET / HTTP/1.1\r\nHost: a:1\r\n\r\n").await;
    let document: serde_json::Value = serde_json::from_str(whole.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(document["bolt_direct"], format!("bolt://{}", node.addrs.bolt));
    assert!(document["neo4j_version"].as_str().unwrap().starts_with("5."), "{document}");
}
