//! F31: slow heads, bodies and readers are cut in time, each with an error if one can be sent. Hits go on meanwhile.

use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::{Alone, assert_error};
use crate::support::http::{self, RawAnswer, connect, exchange, listen};
use crate::support::{distribution, say};

/// Slow clients of each kind.
const EACH: usize = 20;
/// Between two bytes of a slow sender.
const DRIBBLE: Duration = Duration::from_millis(300);
const MOST: Duration = Duration::from_secs(25);

/// Sends a beginning, then one byte after the other for as long as the server takes them.
async fn dribble(node: std::net::SocketAddr, beginning: Vec<u8>, byte: &'static [u8]) -> RawAnswer {
    let (read, mut write) = connect(node).await.unwrap().into_split();
    let sending = tokio::spawn(async move {
        let _ = write.write_all(&beginning).await;
        while !byte.is_empty() && write.write_all(byte).await.is_ok() {
            tokio::time::sleep(DRIBBLE).await; // tidy: poll interval
        }
        // Both halves stay until the server ends it.
        std::future::pending::<()>().await;
    });
    let answer = listen(read, MOST).await;
    sending.abort();
    answer
}

fn slow_clients(alone: &Alone, beginning: &[u8], byte: &'static [u8]) -> Vec<JoinHandle<RawAnswer>> {
    let client = alone.node.addrs.client;
    (0..EACH).map(|_| tokio::spawn(dribble(client, beginning.to_vec(), byte))).collect()
}

/// Asks for a large answer again and again and reads nothing.
async fn never_read(node: std::net::SocketAddr, request: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4 << 10).unwrap();
    let mut stream = socket.connect(node).await.unwrap();
    for _ in 0..20 {
        stream.write_all(request).await.unwrap();
    }
    stream
}

/// Sends hits one after another on one connection for this time. Returns the time of each.
async fn hits(alone: &Alone, request: &[u8], span: Duration) -> Vec<Duration> {
    let (started, mut took) = (Instant::now(), Vec::new());
    let mut stream = connect(alone.node.addrs.client).await.unwrap();
    while started.elapsed() < span {
        let reply = exchange(&mut stream, request).await.unwrap();
        assert!(reply.is_hit(), "{reply}");
        took.push(reply.took);
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: poll interval
    }
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_are_cut_and_hits_go_on() {
    let alone = Alone::start("").await;
    let small = alone.warm("RETURN 'hostile slow' AS x").await;
    let large = alone.warm("UNWIND range(1, 300000) AS x RETURN x").await;
    let before = hits(&alone, &small, Duration::from_secs(1)).await;

    let heads = slow_clients(&alone, b"POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: h\r\nx: ", b"x");
    let head = format!(
        "POST /db/neo4j/query/v2 HTTP/1.1\r\nhost: h\r\n{}content-length: 900\r\n\r\n",
        http::login()
    );
    let bodies = slow_clients(&alone, head.as_bytes(), b" ");
    let silent = slow_clients(&alone, b"", b"");
    let mut readers = Vec::new();
    for _ in 0..EACH {
        readers.push(never_read(alone.node.addrs.client, &large).await);
    }
    let during = hits(&alone, &small, Duration::from_secs(9)).await;

    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for answer in heads {
        let answer = answer.await.unwrap();
        assert!(answer.is_closed && answer.replies().len() == 1, "{answer}");
        assert_error("slow head", &answer.replies()[0], 408, ".HeadTooSlow");
        times[0].push(answer.took);
    }
    for answer in bodies {
        let answer = answer.await.unwrap();
        assert!(answer.is_closed && answer.replies().len() == 1, "{answer}");
        assert_error("slow body", &answer.replies()[0], 408, ".BodyTooSlow");
        times[1].push(answer.took);
    }
    for answer in silent {
        let answer = answer.await.unwrap();
        assert!(answer.is_closed && answer.received.is_empty(), "{answer}");
        times[2].push(answer.took);
    }
    for (times, least_s) in times.iter().zip([4, 9, 9]) {
        assert!(times.iter().all(|took| *took > Duration::from_secs(least_s)), "{times:?}");
    }
    alone.wait_for_refused("head_too_slow", EACH, MOST).await;
    alone.wait_for_refused("silent", EACH, MOST).await;
    alone.wait_for_refused("reader_too_slow", EACH, MOST).await;
    drop(readers);
    for (what, times) in [("slow heads", &times[0]), ("slow bodies", &times[1]), ("silent", &times[2])] {
        say(&format!("F31: {what} closed after {}", distribution(times).split(':').next().unwrap()));
    }
    for (what, times) in [("before", &before), ("during", &during)] {
        say(&format!("F31: hits {what}: {}", distribution(times).split(':').next().unwrap()));
    }
    // Far above the time of a hit, and far below the slow clients' limits.
    let late = during.iter().filter(|took| **took > Duration::from_millis(500)).count();
    assert!(late * 50 <= during.len(), "{late} of {} hits were late", during.len());
}
