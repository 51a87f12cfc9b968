//! The present slowness of this machine. A time bound for a calm machine is multiplied by it. So no test fails because
//! others use the machine, and no bound is looser on a calm one.
//!
//! The control phase is in the same test, a moment before the fault: plain misses at the nodes that the test asks
//! later.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http;

/// A miss on a calm machine with a debug build takes 10 to 60 ms.
const CALM_MISS: Duration = Duration::from_millis(100);
const CONTROLS: usize = 20;

/// How many times slower than a calm machine this one is: 1 on a calm one.
#[derive(Debug, Clone, Copy)]
pub struct Slowness(f64);

impl Slowness {
    /// By the slowest of some misses at each of these nodes in turn.
    pub async fn of(clients: &[SocketAddr]) -> Self {
        let mut took = Vec::new();
        for number in 0..CONTROLS {
            let request = http::query("RETURN $k AS pace", &json!({ "k": format!("pace {number}") }));
            let asked = Instant::now();
            let reply = http::ask(clients[number % clients.len()], &request).await.unwrap();
            assert_eq!(reply.status, 202, "{reply}");
            took.push(asked.elapsed());
        }
        Self::by(took)
    }

    /// The slowness by the times of plain requests, each of which takes less than a tenth of a second on a calm
    /// machine.
    pub fn by(took: impl IntoIterator<Item = Duration>) -> Self {
        let slowest = took.into_iter().max().unwrap_or_default();
        Self((slowest.as_secs_f64() / CALM_MISS.as_secs_f64()).max(1.0))
    }

    /// A calm machine's bound, on this machine.
    pub fn bound(self, calm: Duration) -> Duration {
        calm.mul_f64(self.0)
    }
}
