//! F31, F32 on the listeners of operators and peers: the same bounds, in their own words.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::Alone;
use crate::support::http::{Reply, connect, send_raw};
use crate::support::{say, until};

/// Connections of operators at a time.
const ADMIN_CONNECTIONS_MAX: usize = 64;
const MOST: Duration = Duration::from_secs(20);

/// The only answer to these bytes, as problem details.
async fn refusal(addr: SocketAddr, bytes: &[u8], status: u16) -> Reply {
    let answer = send_raw(addr, bytes, MOST).await;
    let mut replies = answer.replies();
    assert!(answer.is_closed && replies.len() == 1, "{answer}");
    let reply = replies.remove(0);
    assert_eq!(reply.status, status, "{reply}");
    assert_eq!(reply.header("content-type"), "application/problem+json", "{reply}");
    assert_eq!(reply.json()["status"], status, "{reply}");
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_and_peers_have_the_same_bounds() {
    let alone = Alone::start("").await;
    let addrs = alone.node.addrs;
    for addr in [addrs.peer, addrs.admin] {
        refusal(addr, b"\0\r\n\r\n", 400).await;
        refusal(addr, &[b"GET / HTTP/1.1\r\nx: ", &[b'x'; 40_000][..]].concat(), 431).await;
    }
    let slow_body = b"POST /admin/v1/explain HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n{";
    let slow_message = b"POST /peer/v1/ask HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n{";
    let slow_head = b"GET / HTTP/1.1\r\nx: ";
    let (addr, came) = (addrs.admin, Instant::now());
    let crowd = async {
        let mut crowd = Vec::new();
        for _ in 0..ADMIN_CONNECTIONS_MAX {
            crowd.push(connect(addr).await.unwrap());
        }
        refusal(addr, b"GET /livez HTTP/1.1\r\nhost: h\r\n\r\n", 503).await;
        let is_live = async || alone.node.admin("/livez").await.is_ok_and(|reply| reply.status == 200);
        until("operators are served though the crowd stays", MOST, is_live).await;
        came.elapsed().as_millis()
    };
    let slow = tokio::join!(
        refusal(addrs.peer, slow_head, 408),
        refusal(addrs.admin, slow_head, 408),
        send_raw(addrs.peer, slow_message, MOST),
        send_raw(addrs.admin, slow_body, MOST),
        crowd,
    );
    for answer in [&slow.2, &slow.3] {
        assert_eq!(answer.replies()[0].status, 408, "{answer}");
    }
    say(&format!("F32: operators served again {} ms after a silent crowd came that stays", slow.4));
    for listener in ["peer", "admin"] {
        let labels = format!("listener=\"{listener}\",reason=\"head_");
        let refused = alone.node.metric("hopcache_connections_refused_total", &labels).await;
        assert_eq!(refused, Some(3.0), "{listener}");
    }
}
