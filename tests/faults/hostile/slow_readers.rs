//! I9, F31: clients that read large answers slowly hold a bounded amount of memory and no other client's place. A
//! client over the bound gets an error. Hits go on, and the node recovers when the slow clients leave.
//!
//! `HOPCACHE_TEST_SLOW_READERS` (60) clients ask for as many different results of 4 MB.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

use super::Alone;
use crate::support::{http, say, size, until};

/// `ANSWER_ROOM_BYTES`.
const ROOM_BYTES: usize = 128 << 20;
/// Places for medium results at the origin. Once, this many slow readers stopped all other clients.
const RESULTS_MEDIUM_MAX: usize = 8;
const ROWS: usize = 4_000;
const MOST: Duration = Duration::from_secs(20);

/// Nothing of it is kept, so that only its readers hold it.
fn large(k: usize) -> std::sync::Arc<[u8]> {
    let statement = format!("UNWIND range(1, {ROWS}) AS x RETURN $text AS text, $k AS k");
    let body = json!({"statement": statement, "parameters": {"text": "t".repeat(1_000), "k": k}});
    http::post(
        "/db/neo4j/query/v2",
        &format!("{}cache-control: no-store\r\n", http::login()),
        &body.to_string(),
    )
}

/// Asks, and goes on reading 40 KB each 350 ms, well over the least rate, for 36 s. So the first clients still read
/// when the last one asks. Returns the first bytes of the answer.
async fn read_slowly(alone: &Alone, k: usize, readers: &mut JoinSet<()>) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(32 << 10).unwrap();
    let mut stream = socket.connect(alone.node.addrs.client).await.unwrap();
    stream.write_all(&large(k)).await.unwrap();
    let mut part = vec![0; 40 << 10];
    let got = stream.read(&mut part).await.unwrap();
    let answer = String::from_utf8_lossy(&part[..got]).into_owned();
    readers.spawn(async move {
        while stream.read(&mut part).await.is_ok_and(|got| got > 0) {
            tokio::time::sleep(Duration::from_millis(350)).await; // tidy: poll interval
        }
    });
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_of_large_answers_are_bounded() {
    let count = size("HOPCACHE_TEST_SLOW_READERS", 60);
    let alone = Alone::start("").await;
    let hit = alone.warm("RETURN 'a hit beside slow readers' AS x").await;
    let before = alone.node.resident_bytes();
    let (mut readers, mut served, mut refused, mut peak) = (JoinSet::new(), 0, 0, 0);
    for k in 0..count {
        let answer = read_slowly(&alone, k, &mut readers).await;
        if answer.starts_with("HTTP/1.1 202") {
            served += 1;
        } else {
            assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
            assert!(answer.contains("retry-after: 1"), "{answer}");
            assert!(answer.contains("Hopcache.TransientError.TooManyAnswers"), "{answer}");
            refused += 1;
        }
        peak = peak.max(alone.node.resident_bytes());
        assert!(alone.node.ask(&hit).await.is_hit(), "beside {served} readers");
    }
    say(&format!(
        "I9: {count} slow readers of 4 MB each: {served} served, {refused} got 503; RSS {} MiB before, {} at the peak",
        before >> 20,
        peak >> 20
    ));
    assert!(served > 2 * RESULTS_MEDIUM_MAX, "a slow reader holds no place at the origin: {served}");
    assert!(refused > 0, "{served} answers of 4 MB are on their way");
    let growth = usize::try_from(peak.saturating_sub(before)).unwrap();
    // The bodies of all would be 240 MiB. Beside the room there are results that are being read and rendered, and
    // memory that the allocator keeps of earlier ones.
    assert!(growth < ROOM_BYTES + (128 << 20), "{} MiB more", growth >> 20);
    readers.shutdown().await;
    until("there is room again", MOST, async || alone.node.ask(&large(count)).await.status == 202).await;
}
