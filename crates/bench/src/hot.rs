//! Arms of servers that answer the same hot query as fast as they can, alternated: CPU time for each request. A fixed number of
//! connections, each with one request under way. The generator keeps nothing of a request, so that it costs little itself.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::bail;
use hopcache_testbed::http::Connection;
use hopcache_testbed::report::{Report, Spread};
use tokio::task::JoinSet;

use crate::bolt::Client;

/// Options of all benchmarks of hits.
#[derive(clap::Args)]
#[group(id = "hot")]
pub(crate) struct Options {
    /// Rounds; each runs every arm once.
    #[arg(long, default_value_t = 7)]
    pub(crate) rounds: usize,
    /// Seconds of load for each arm in each round.
    #[arg(long, default_value_t = 3)]
    pub(crate) seconds: u64,
    /// Keep-alive connections.
    #[arg(long, default_value_t = 32)]
    pub(crate) connections: usize,
    /// Where the report is kept.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

/// How a connection asks.
#[derive(Clone)]
pub(crate) enum Hot {
    /// RUN and PULL.
    Bolt(Vec<u8>),
    /// A request, and the length of its answer's body.
    Http(Vec<u8>, usize),
}

/// A server.
pub(crate) struct Arm {
    pub(crate) name: String,
    addr: SocketAddr,
    /// Of the connections, in turn.
    asked: Vec<Hot>,
    cpu: Box<dyn Fn() -> anyhow::Result<Duration>>,
    pub(crate) cpu_us: Vec<f64>,
    per_second: Vec<f64>,
}

impl Arm {
    /// `cpu`: the CPU time that its processes have used.
    pub(crate) fn new(
        name: impl Into<String>,
        addr: SocketAddr,
        asked: Vec<Hot>,
        cpu: impl Fn() -> anyhow::Result<Duration> + 'static,
    ) -> Self {
        let (cpu_us, per_second) = (Vec::new(), Vec::new());
        Self { name: name.into(), addr, asked, cpu: Box::new(cpu), cpu_us, per_second }
    }

    #[expect(clippy::cast_precision_loss, reason = "request counts are far below 2^53")]
    async fn measure(&mut self, connections: usize, span: Duration) -> anyhow::Result<()> {
        let (before, started) = ((self.cpu)()?, Instant::now());
        let requests = load(self.addr, &self.asked, connections, span).await? as f64;
        let wall = started.elapsed();
        let used = (self.cpu)()?.saturating_sub(before);
        self.cpu_us.push(used.as_secs_f64() * 1e6 / requests);
        self.per_second.push(requests / wall.as_secs_f64());
        Ok(())
    }

    /// Its CPU time ÷ another's, round by round.
    pub(crate) fn beside(&self, other: &Self) -> Spread {
        let ratios: Vec<f64> =
            self.cpu_us.iter().zip(&other.cpu_us).map(|(one, other)| one / other).collect();
        Spread::of(&ratios)
    }
}

/// Warms all arms, measures them round by round, and writes the table.
pub(crate) async fn alternate(
    options: &Options,
    arms: &mut [Arm],
    report: &mut Report,
) -> anyhow::Result<()> {
    report.line(&format!(
        "{} connections, {} rounds of {} s for each arm, closed loop",
        options.connections, options.rounds, options.seconds
    ));
    for arm in arms.iter() {
        load(arm.addr, &arm.asked, options.connections, Duration::from_millis(500)).await?;
    }
    for _ in 0..options.rounds {
        for arm in &mut *arms {
            arm.measure(options.connections, Duration::from_secs(options.seconds)).await?;
        }
    }
    report
        .line("\n| arm | CPU µs per request: median (min–max) | requests/s: median (min–max) | raw CPU µs |");
    report.line("|---|---|---|---|");
    for Arm { name, cpu_us, per_second, .. } in arms.iter() {
        let raw: Vec<String> = cpu_us.iter().map(|cpu| format!("{cpu:.2}")).collect();
        let (cpu, rate) = (Spread::of(cpu_us), Spread::of(per_second));
        report.line(&format!("| {name} | {cpu} | {rate} | {} |", raw.join(" ")));
    }
    report.line("");
    Ok(())
}

/// How many requests were answered.
async fn load(addr: SocketAddr, asked: &[Hot], connections: usize, span: Duration) -> anyhow::Result<u64> {
    let (until, mut loops) = (Instant::now() + span, JoinSet::new());
    for asked in asked.iter().cycle().take(connections) {
        let asked = asked.clone();
        loops.spawn(async move {
            let mut requests = 0_u64;
            match asked {
                Hot::Bolt(request) => {
                    let mut client = Client::open(&addr.to_string(), "bench").await?;
                    while Instant::now() < until {
                        client.ask(&request, |_| ()).await?;
                        requests += 1;
                    }
                }
                Hot::Http(request, body_len) => {
                    let mut connection = Connection::open(addr).await?;
                    while Instant::now() < until {
                        let (head, end) = connection.exchange(&request).await?;
                        if end - head != body_len {
                            bail!("a body of {} bytes, not {body_len}", end - head);
                        }
                        requests += 1;
                    }
                }
            }
            anyhow::Ok(requests)
        });
    }
    let mut requests = 0;
    while let Some(ended) = loops.join_next().await {
        requests += ended??;
    }
    Ok(requests)
}
