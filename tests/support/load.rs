//! A steady load: requests leave at their times on kept connections, whether or not earlier ones were answered (open
//! loop). It judges nothing, and returns every answer with its times.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::authority::TlsClient;
use super::http::{Connection, Reply};

/// One request and its answer.
#[derive(Debug)]
pub struct Sample {
    /// When it was due.
    pub due: Instant,
    /// From when it was due to its last byte.
    pub took: Duration,
    /// Place of its request in the list.
    #[expect(dead_code, reason = "shown when a test fails")]
    pub request: usize,
    pub reply: std::io::Result<Reply>,
}

impl Sample {
    /// The answer; the connection has to have held.
    pub fn reply(&self) -> &Reply {
        self.reply.as_ref().unwrap_or_else(|error| panic!("no answer: {error}"))
    }
}

/// A load that goes on until it is stopped.
pub struct Load {
    lanes: JoinSet<Vec<Sample>>,
    is_over: Arc<AtomicBool>,
}

/// Connections for each address.
const LANES: usize = 8;

/// How a load connects.
#[derive(Debug, Clone)]
pub struct Way {
    /// Where the listener has TLS.
    pub tls: Option<TlsClient>,
    /// Requests on one connection; the next request opens another.
    pub requests_per_connection: usize,
}

impl Way {
    /// Plainly, on connections that are kept.
    pub const PLAIN: Self = Self { tls: None, requests_per_connection: usize::MAX };
}

impl Load {
    /// `per_s` requests a second over all addresses; the requests in turn, each lane beginning elsewhere.
    pub fn start(clients: &[SocketAddr], requests: &[Arc<[u8]>], per_s: u64) -> Self {
        Self::start_by(&Way::PLAIN, clients, requests, per_s)
    }

    /// The same on connections of this kind.
    pub fn start_by(way: &Way, clients: &[SocketAddr], requests: &[Arc<[u8]>], per_s: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let requests: Arc<[Arc<[u8]>]> = requests.into();
        let count = clients.len() * LANES;
        let gap = Duration::from_secs(1) * u32::try_from(count).unwrap() / u32::try_from(per_s).unwrap();
        let begin = Instant::now();
        let mut lanes = JoinSet::new();
        for lane in 0..count {
            let first = begin + gap * u32::try_from(lane).unwrap() / u32::try_from(count).unwrap();
            let (addr, way) = (clients[lane % clients.len()], way.clone());
            let walk = Walk { addr, way, first, gap, lane, lanes: count };
            lanes.spawn(walk.go(Arc::clone(&requests), Arc::clone(&is_over)));
        }
        Self { lanes, is_over }
    }

    /// Ends it; every answer in the order in which the requests were due.
    pub async fn stop(mut self) -> Vec<Sample> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut samples = Vec::new();
        while let Some(lane) = self.lanes.join_next().await {
            samples.extend(lane.unwrap());
        }
        samples.sort_by_key(|sample| sample.due);
        samples
    }
}

/// One connection's requests.
struct Walk {
    addr: SocketAddr,
    way: Way,
    first: Instant,
    gap: Duration,
    lane: usize,
    lanes: usize,
}

impl Walk {
    async fn go(self, requests: Arc<[Arc<[u8]>]>, is_over: Arc<AtomicBool>) -> Vec<Sample> {
        let (mut samples, mut kept) = (Vec::new(), None);
        let (mut due, mut request) = (self.first, self.lane % requests.len());
        while !is_over.load(Ordering::Relaxed) {
            // tidy: the simulated arrivals
            tokio::time::sleep_until(due.into()).await;
            if samples.len() % self.way.requests_per_connection == 0 {
                kept = None;
            }
            let reply = self.ask(&mut kept, &requests[request]).await;
            samples.push(Sample { due, took: due.elapsed(), request, reply });
            due += self.gap;
            request = (request + self.lanes) % requests.len();
        }
        samples
    }

    async fn ask(&self, kept: &mut Option<Connection>, request: &[u8]) -> std::io::Result<Reply> {
        let connection = match kept {
            Some(connection) => connection,
            None => kept.insert(Connection::open_by(self.way.tls.as_ref(), self.addr).await?),
        };
        let reply = connection.ask(request).await;
        if reply.is_err() {
            *kept = None;
        }
        reply
    }
}

/// The percentile of the samples for this share (0 to 100).
pub fn percentile_ms(samples: &[&Sample], share: f64) -> f64 {
    let mut took: Vec<f64> = samples.iter().map(|sample| sample.took.as_secs_f64() * 1_000.0).collect();
    took.sort_unstable_by(f64::total_cmp);
    let place = (took.len() as f64 * share / 100.0) as usize;
    took.get(place.min(took.len().saturating_sub(1))).copied().unwrap_or(0.0)
}
