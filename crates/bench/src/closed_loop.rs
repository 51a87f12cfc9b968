//! A closed-loop load generator: a fixed number of keep-alive connections, each with one request under way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use hopcache_testbed::http::Connection;

/// The result of a closed loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loaded {
    /// Requests answered.
    pub(crate) requests: u64,
    /// Time from the first to the last.
    pub(crate) wall: Duration,
}

/// Runs `connections` loops for `span`, each with one of `requests`, in turn. Every answer has to have a body as long
/// as `body_len`.
pub(crate) async fn closed_loop(
    addr: SocketAddr,
    requests: &[Vec<u8>],
    connections: usize,
    span: Duration,
    body_len: usize,
) -> anyhow::Result<Loaded> {
    let started = Instant::now();
    let until = started + span;
    let mut loops = tokio::task::JoinSet::new();
    for request in requests.iter().cycle().take(connections) {
        let request = request.clone();
        loops.spawn(async move {
            let mut connection = Connection::open(addr).await?;
            let mut requests = 0_u64;
            while Instant::now() < until {
                let (head, end) = connection.exchange(&request).await?;
                if end - head != body_len {
                    bail!("a body of {} bytes, not {body_len}", end - head);
                }
                requests += 1;
            }
            anyhow::Ok(requests)
        });
    }
    let mut requests = 0;
    while let Some(ended) = loops.join_next().await {
        requests += ended??;
    }
    Ok(Loaded { requests, wall: started.elapsed() })
}

/// Sends the requests of each number below `end` once, over `connections` keep-alive connections. They draw the numbers from
/// `next`, so that others see how far they are. Every answer has to be a result.
pub(crate) async fn each_once(
    addr: SocketAddr,
    connections: usize,
    (next, end): (&Arc<AtomicUsize>, usize),
    requests: impl Fn(usize) -> Vec<Vec<u8>> + Clone + Send + 'static,
) -> anyhow::Result<()> {
    let mut loops = tokio::task::JoinSet::new();
    for _ in 0..connections {
        let (next, requests) = (Arc::clone(next), requests.clone());
        loops.spawn(async move {
            let mut connection = Connection::open(addr).await?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= end {
                    return anyhow::Ok(());
                }
                for request in requests(number) {
                    let answer = connection.ask(&request).await?;
                    if answer.status() != 202 {
                        bail!("{}{}", answer.head, String::from_utf8_lossy(&answer.body));
                    }
                }
            }
        });
    }
    while let Some(ended) = loops.join_next().await {
        ended??;
    }
    Ok(())
}
