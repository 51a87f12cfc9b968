//! F32: connections over the limit get a 503 and are closed. The node recovers by itself, whether the crowd leaves or
//! stays silent.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::{Alone, assert_error};
use crate::support::http::{self, RawAnswer, connect, exchange, send_raw};
use crate::support::{say, size, until};

const PLACES: usize = 100;

fn over_the_limit() -> usize {
    size("HOPCACHE_TEST_CONNECTIONS", 500)
}

async fn silent(alone: &Alone, count: usize) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    for _ in 0..count {
        streams.push(connect(alone.node.addrs.client).await.unwrap());
    }
    streams
}

/// Clients with a place are served all the time. They ask in turn: who is silent for long loses its place in a crowd.
async fn are_served<Never>(inside: &mut [TcpStream], request: &[u8]) -> Never {
    loop {
        for stream in &mut *inside {
            assert!(exchange(stream, request).await.unwrap().is_hit());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_the_limit_are_told_so() {
    let alone = Alone::start(&format!("max_connections = {PLACES}")).await;
    let addr = alone.node.addrs.client;
    let request = alone.warm("RETURN 'hostile crowd' AS x").await;
    let mut inside = silent(&alone, PLACES).await;

    let mut outside = JoinSet::new();
    for _ in 0..over_the_limit() {
        let request = request.clone();
        outside.spawn(async move { send_raw(addr, &request, Duration::from_secs(8)).await });
    }
    let answers = tokio::select! {
        answers = outside.join_all() => answers,
        never = are_served(&mut inside, &request) => never,
    };
    let (refused, dropped): (Vec<RawAnswer>, Vec<RawAnswer>) =
        answers.into_iter().partition(|answer| !answer.received.is_empty());
    for answer in &refused {
        let replies = answer.replies();
        assert!(answer.is_closed && replies.len() == 1, "{answer}");
        assert_error("over the limit", &replies[0], 503, "Hopcache.TransientError.TooManyConnections");
        assert_eq!(replies[0].header("retry-after"), "1", "{answer}");
    }
    assert!(dropped.iter().all(|answer| answer.is_closed), "no client is left waiting");
    assert!(
        refused.len() >= over_the_limit().min(256),
        "refused {}, dropped {}",
        refused.len(),
        dropped.len()
    );
    alone.wait_for_refused("crowded", over_the_limit(), Duration::from_secs(1)).await;
    say(&format!(
        "F32: {PLACES} places; {} got 503, {} closed without an answer",
        refused.len(),
        dropped.len()
    ));

    // The crowd leaves.
    drop(inside);
    let gone = Instant::now();
    let is_served = async || http::ask(addr, &request).await.is_ok_and(|reply| reply.is_hit());
    until("served again when the crowd has gone", Duration::from_secs(5), is_served).await;
    say(&format!("F32: served again {} ms after the crowd had gone", gone.elapsed().as_millis()));

    // The crowd stays, and says nothing.
    let crowd = silent(&alone, 2 * PLACES).await;
    let came = Instant::now();
    assert!(!is_served().await, "the node is full");
    until("served again though the crowd stays", Duration::from_secs(20), is_served).await;
    say(&format!("F32: served again {} ms after a silent crowd came that stays", came.elapsed().as_millis()));
    drop(crowd);
}
