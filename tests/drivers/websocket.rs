//! A browser: Bolt inside a WebSocket, on the same port.

use std::net::SocketAddr;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use crate::drivers::raw::Raw;
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
    let mut plain = TcpStream::connect(node.addrs.bolt).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400") && answer.ends_with("has its own port\n"), "{answer}");
    Raw::logged_on(&node).await;
}
