//! Clients in a closed loop, and what they see in each of the two modes. Decides nothing about what is asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hopcache_testbed::http::Connection;
use hopcache_testbed::report::{Report, Spread};
use tokio::task::JoinSet;

use super::figures::{Times, share};
use super::scene::ask;

/// Name, and lines of `[freshness]`.
pub(super) const ARMS: [(&str, &str); 2] = [("proved", ""), ("ttl", "mode = \"ttl\"")];

/// A request, and whether it writes.
pub(super) type Draw = (Arc<[u8]>, bool);

/// What one client, or all, has seen.
#[derive(Default)]
pub(super) struct Seen {
    reads: Vec<Duration>,
    writes: Vec<Duration>,
    hits: u64,
    proved: u64,
}

/// One client: asks for what it draws, until the time is over.
pub(super) async fn client(
    addr: SocketAddr,
    span: Duration,
    mut draw: impl FnMut() -> Draw,
) -> anyhow::Result<Seen> {
    let (mut seen, until) = (Seen::default(), Instant::now() + span);
    let mut connection = Connection::open(addr).await?;
    while Instant::now() < until {
        let (request, is_write) = draw();
        let sent = Instant::now();
        let how = ask(&mut connection, &request).await?;
        if is_write {
            seen.writes.push(sent.elapsed());
        } else {
            seen.reads.push(sent.elapsed());
            seen.hits += u64::from(how.is_hit);
            seen.proved += u64::from(how.is_proved);
        }
    }
    Ok(seen)
}

/// Waits for all clients.
pub(super) async fn together(mut clients: JoinSet<anyhow::Result<Seen>>) -> anyhow::Result<Seen> {
    let mut all = Seen::default();
    while let Some(ended) = clients.join_next().await {
        let seen = ended??;
        all.reads.extend(seen.reads);
        all.writes.extend(seen.writes);
        all.hits += seen.hits;
        all.proved += seen.proved;
    }
    Ok(all)
}

/// The figures of all rounds of an arm.
#[derive(Default)]
pub(super) struct Arm {
    per_s: Vec<f64>,
    hits: Vec<f64>,
    proved: Vec<f64>,
    runs: Vec<f64>,
    times: [Vec<f64>; 3],
    write_times: [Vec<f64>; 2],
}

impl Arm {
    /// What was seen in a round of so many seconds, and the reading runs of that time.
    pub(super) fn add(&mut self, (mut seen, runs): (Seen, u64), seconds: u64) {
        let reads = seen.reads.len() as u64;
        let all = reads + seen.writes.len() as u64;
        self.per_s.push(share(all, seconds));
        self.hits.push(100.0 * share(seen.hits, reads));
        self.proved.push(100.0 * share(seen.proved, seen.hits));
        self.runs.push(share(runs, reads));
        let (read, write) = (Times::of(&mut seen.reads), Times::of(&mut seen.writes));
        for (all, each) in self.times.iter_mut().zip([read.p50, read.p95, read.p99]) {
            all.push(each);
        }
        for (all, each) in self.write_times.iter_mut().zip([write.p50, write.p99]) {
            all.push(each);
        }
    }

    fn cells(&self) -> Vec<String> {
        let rate = Spread::of(&self.per_s);
        let mut cells = vec![format!("{:.0} ({:.0}–{:.0})", rate.median, rate.min, rate.max)];
        cells.extend([&self.hits, &self.proved].map(|all| format!("{:.1}", Spread::of(all).median)));
        cells.push(format!("{:.4}", Spread::of(&self.runs).median));
        cells.extend(self.times.iter().map(|all| Spread::of(all).to_string()));
        cells.extend(self.write_times.iter().map(|all| Spread::of(all).to_string()));
        cells
    }
}

/// The head of the table that [`rows`] fills.
pub(super) fn head(report: &mut Report) {
    report.line("\n| keys | writes % | arm | requests/s | hits of reads % | proved of hits % | reading runs per read | read P50 ms | P95 | P99 | write P50 ms | P99 |");
    report.line("|---|---|---|---|---|---|---|---|---|---|---|---|");
}

/// A row for each arm.
pub(super) fn rows(report: &mut Report, (keys, writes): (&str, f64), arms: &[Arm; ARMS.len()]) {
    for ((name, _), arm) in ARMS.iter().zip(arms) {
        report.line(&format!("| {keys} | {writes} | {name} | {} |", arm.cells().join(" | ")));
    }
}
