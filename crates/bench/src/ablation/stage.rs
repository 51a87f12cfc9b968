//! The processes of one arm, what answers its requests, and the figures of a load. Every arm of a round has new processes and an empty
//! store.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use hopcache_testbed::dice::Dice;
use hopcache_testbed::http::Pool;
use hopcache_testbed::neo4j;
use hopcache_testbed::node::Nodes;
use hopcache_testbed::process::{Dir, Process, cpu_of, free_addrs, start_redis_at, wait_until};

use super::arms::{Arm, Build};
use super::cache_aside::{Application, Extras};
use super::trace::{Step, Trace};
use super::{Load, Plan, Way, name_of};
use crate::bolt::BoltPool;
use crate::cache_status::{CacheStatus, Kind};
use crate::delayed::NODES;
use crate::figures::{each_us, percentile, share};
use crate::load::{Answering, LoadResult, REST, Sample, Until, arrivals, closed, open};
use crate::prefetch::counts::Counts;

/// Everything that runs. Clients go before servers.
pub(super) struct Stage {
    asking: Arc<Asking>,
    nodes: Option<Nodes>,
    /// Of cache-aside.
    redis: Option<(Process, Dir)>,
}

/// What answers, and the trace that is asked from some place on, by all loads of an arm one after another.
struct Asking {
    target: Target,
    trace: Arc<Trace>,
    place: AtomicUsize,
    /// Requests over HTTP that were sent.
    asked: AtomicUsize,
}

enum Target {
    /// Neo4j alone, or nodes.
    Http(Vec<Pool>),
    Bolt(Arc<BoltPool>),
    Applications(Vec<Application>, Arc<BoltPool>),
}

/// CPU time used so far: Neo4j's, if it is on this machine; all nodes'; Redis'; this process', clients and applications.
type Cpu = [Option<Duration>; 4];

/// The figures of one load.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Results a second.
    pub(super) per_s: f64,
    /// P50, P95 and P99 in ms of all requests; one that failed or was dropped takes for ever.
    pub(super) tail_ms: [f64; 3],
    /// Hits of all results, in percent.
    pub(super) hits: f64,
    /// Runs at Neo4j for each result, of any cause.
    pub(super) runs: f64,
    /// CPU time for each result, in µs, of Neo4j, nodes, Redis and clients; not a number where it cannot be read.
    pub(super) cpu_us: [f64; 4],
    pub(super) errors: f64,
    pub(super) dropped: f64,
}

impl Stage {
    pub(super) async fn start(
        arm: Arm,
        ttl: Duration,
        trace: Arc<Trace>,
        place: usize,
    ) -> anyhow::Result<Self> {
        let (mut nodes, mut redis) = (None, None);
        let target = match arm.build() {
            Build::Http => Target::Http(vec![Pool::new(neo4j::http()?)]),
            Build::Bolt => Target::Bolt(Arc::new(BoltPool::new()?)),
            Build::CacheAside(extras) => {
                let (applications, pool, process) = applications(ttl, extras).await?;
                redis = Some(process);
                Target::Applications(applications, pool)
            }
            Build::Nodes => {
                let started = Nodes::start(NODES, &arm.configuration(ttl, &neo4j::bolt()?)).await;
                let started = started.with_context(|| name_of(arm))?;
                let pools = started.clients().into_iter().map(Pool::new).collect();
                nodes = Some(started);
                Target::Http(pools)
            }
        };
        let (place, asked) = (AtomicUsize::new(place), AtomicUsize::new(0));
        Ok(Self { asking: Arc::new(Asking { target, trace, place, asked }), nodes, redis })
    }

    fn ask(&self) -> impl Fn(usize) -> Answering + Send + Sync + use<> {
        let asking = Arc::clone(&self.asking);
        move |_| {
            let asking = Arc::clone(&asking);
            Box::pin(async move {
                let step = asking.trace.step(asking.place.fetch_add(1, Ordering::Relaxed));
                asking.answer(step).await
            })
        }
    }

    pub(super) async fn closed(&self, clients: usize, until: Until) -> anyhow::Result<LoadResult> {
        closed(self.ask(), clients, until).await
    }

    pub(super) async fn measure(
        &self,
        plan: &Plan<'_>,
        load: Load,
        capacity: f64,
        round: usize,
    ) -> anyhow::Result<Figures> {
        tokio::time::sleep(REST).await;
        let span = Duration::from_secs_f64(plan.options.seconds);
        let (runs, before) = (self.runs().await?, self.cpu(plan.neo4j)?);
        let seen = match load.way() {
            Way::Closed(clients) => self.closed(clients, Until::Over(span)).await?,
            Way::Open(share) => {
                let mut dice = Dice::new(plan.options.seed.wrapping_add(round as u64));
                let due = arrivals((capacity * share).max(1.0), span, &mut dice);
                open(self.ask(), due, plan.options.under_way).await?
            }
        };
        tokio::time::sleep(REST).await;
        let (runs, after) = (self.runs().await?.saturating_sub(runs), self.cpu(plan.neo4j)?);
        Ok(Figures::of(&seen, runs, (&before, &after)))
    }

    /// Runs at Neo4j by the nodes' counters. Without nodes the runs are those that this process has asked for.
    async fn runs(&self) -> anyhow::Result<usize> {
        if let Some(nodes) = &self.nodes {
            return Ok(usize::try_from(Counts::of(&nodes.metrics().await?).runs)?);
        }
        Ok(match &self.asking.target {
            Target::Http(_) => self.asking.asked.load(Ordering::Relaxed),
            Target::Bolt(pool) | Target::Applications(_, pool) => usize::try_from(pool.runs())?,
        })
    }

    fn cpu(&self, neo4j: Option<u32>) -> anyhow::Result<Cpu> {
        let nodes = self.nodes.as_ref();
        let redis = match (&self.redis, nodes) {
            (Some((redis, _)), _) => Some(redis.cpu()?),
            (None, Some(nodes)) => nodes.redis().as_ref().map(Process::cpu).transpose()?,
            (None, None) => Some(Duration::ZERO),
        };
        let nodes = nodes.map_or(Ok(Duration::ZERO), Nodes::cpu)?;
        Ok([neo4j.map(cpu_of).transpose()?, Some(nodes), redis, Some(cpu_of(std::process::id())?)])
    }
}

/// As many processes of the application that has no hopcache as there are nodes.
async fn applications(
    ttl: Duration,
    extras: Extras,
) -> anyhow::Result<(Vec<Application>, Arc<BoltPool>, (Process, Dir))> {
    let (dir, pool) = (Dir::new()?, Arc::new(BoltPool::new()?));
    let addr = free_addrs(IpAddr::from(Ipv4Addr::LOCALHOST), 1)?[0];
    let redis = start_redis_at(addr, &dir.0)?;
    wait_until("redis answers", || std::net::TcpStream::connect(addr).is_ok())?;
    let mut applications = Vec::new();
    for place in 0..NODES {
        applications.push(Application::open(place, addr, Arc::clone(&pool), (ttl, extras)).await?);
    }
    Ok((applications, pool, (redis, dir)))
}

impl Asking {
    async fn answer(&self, step: Step) -> CacheStatus {
        let message = self.trace.message(step);
        match &self.target {
            Target::Bolt(pool) => {
                let ran = pool.ask(message, |_| ()).await;
                CacheStatus::only(if ran.is_ok() { Kind::Miss } else { Kind::Failed })
            }
            Target::Applications(processes, _) => {
                let process = &processes[step.turn % processes.len()];
                CacheStatus::only(process.answer(step.key, message).await)
            }
            // Neo4j's own answer has no Cache-Status, so a result of it is a miss.
            Target::Http(pools) => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                CacheStatus::of(pools[step.turn % pools.len()].ask(&self.trace.bytes(step)).await)
            }
        }
    }
}

impl Figures {
    /// What the load has seen, the runs of its time, and the CPU time before and after.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn of(seen: &LoadResult, runs: usize, (before, after): (&Cpu, &Cpu)) -> Self {
        let results = seen.results();
        let cpu_us = std::array::from_fn(|place| {
            let spent = before[place].zip(after[place]).map(|(one, other)| other.saturating_sub(one));
            spent.map_or(f64::NAN, |spent| each_us(spent, results))
        });
        Self {
            per_s: seen.per_s(),
            tail_ms: tail_ms(seen),
            hits: 100.0 * share(seen.count(CacheStatus::is_hit), results),
            runs: runs as f64 / results.max(1) as f64,
            cpu_us,
            errors: seen.errors() as f64,
            dropped: seen.dropped as f64,
        }
    }
}

/// P50, P95 and P99 of everything that was due. Without an answer a request takes for ever: answers that were refused at
/// once, or never asked for, must not make a tail shorter.
fn tail_ms(seen: &LoadResult) -> [f64; 3] {
    const FOR_EVER: u64 = u64::MAX;
    let took = |sample: &Sample| if sample.status.kind == Kind::Failed { FOR_EVER } else { sample.took_us() };
    let mut took_us: Vec<u64> = seen.samples.iter().map(took).collect();
    took_us.extend(std::iter::repeat_n(FOR_EVER, seen.dropped));
    took_us.sort_unstable();
    [0.5, 0.95, 0.99].map(|share| match percentile(&took_us, share) {
        // 2^64 as the nearest number of a double.
        us if us > 1e18 => f64::INFINITY,
        us => us / 1e3,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn figures_are_for_each_result_and_what_failed_or_was_dropped_takes_for_ever() {
        let sample = |took_ms: u64, kind: Kind| Sample {
            due_us: 1_000,
            sent_us: 1_500,
            answered_us: 1_000 + took_ms * 1_000,
            status: CacheStatus::only(kind),
        };
        let mut samples: Vec<Sample> = (1..=7).map(|ms| sample(ms, Kind::Fresh)).collect();
        samples.extend([sample(8, Kind::Stale), sample(100, Kind::Miss), sample(1, Kind::Failed)]);
        let mut seen =
            LoadResult { start: Instant::now(), samples, dropped: 0, wall: Duration::from_secs(3) };
        let cpu =
            |ms: u64| [None, Some(ms), Some(ms * 2), Some(ms * 3)].map(|ms| ms.map(Duration::from_millis));
        let figures = Figures::of(&seen, 18, (&cpu(10), &cpu(19)));
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-6, "{one}, not {other}");
        close(figures.per_s, 3.0);
        close(figures.hits, 100.0 * 8.0 / 9.0);
        close(figures.runs, 2.0);
        close(figures.cpu_us[1], 1_000.0);
        close(figures.cpu_us[3], 3_000.0);
        assert!(figures.cpu_us[0].is_nan());
        assert_eq!(
            figures.tail_ms,
            [5.0, f64::INFINITY, f64::INFINITY],
            "the failed one is the tenth of ten"
        );
        seen.samples = (1..=96).map(|ms| sample(ms, Kind::Miss)).collect();
        seen.dropped = 4;
        assert_eq!(tail_ms(&seen), [50.0, 95.0, f64::INFINITY]);
    }
}
