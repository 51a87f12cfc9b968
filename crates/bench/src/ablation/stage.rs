//! The processes of one arm, and what answers its requests. Every arm of a round has new processes and an empty store.
//! Decides no load.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;

use super::arms::{Arm, Build};
use super::bolt_pool::BoltPool;
use super::cache_aside::{Application, Extras, Origin as _};
use super::load::Answering;
use super::pool::Pool;
use super::redis_store::RedisStore;
use super::workloads::trace::{Step, Trace};
use crate::expiry::cache_status::{CacheStatus, Kind};
use crate::expiry::scene::{NODES, metrics_of};
use crate::prefetch::counts::Counts;
use hopcache_testbed::neo4j;
use hopcache_testbed::process::{
    ClusterPlan, NodeAddrs, Process, cpu_of, hopcache_binary, start_cluster, start_redis, tempdir,
};

/// Processes of the application that has no hopcache: as many as there are nodes.
const APPLICATIONS: usize = NODES;

/// Everything that runs. Clients go before servers.
pub(super) struct Stage {
    pub(super) target: Arc<Target>,
    nodes: Vec<(Process, NodeAddrs)>,
    redis: Option<Process>,
}

/// What answers.
pub(super) enum Target {
    Http(Pool),
    Bolt(BoltPool),
    Applications(Vec<Application<RedisStore, BoltPool>>, Arc<BoltPool>),
    Nodes(Vec<Pool>),
}

/// CPU time used so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cpu {
    /// `None` if it is not on this machine.
    pub(super) neo4j: Option<Duration>,
    pub(super) nodes: Duration,
    pub(super) redis: Duration,
    /// This process: clients, and the applications of cache-aside.
    pub(super) clients: Duration,
}

impl Stage {
    pub(super) async fn start(arm: Arm, ttl: Duration) -> anyhow::Result<Self> {
        let alone = |target| Self { target: Arc::new(target), nodes: Vec::new(), redis: None };
        match arm.build() {
            Build::Http => Ok(alone(Target::Http(Pool::new(neo4j::http()?)))),
            Build::Bolt => Ok(alone(Target::Bolt(BoltPool::new()?))),
            Build::CacheAside(extras) => Self::applications(ttl, extras).await,
            Build::Nodes => Self::nodes(arm, ttl).await,
        }
    }

    async fn applications(ttl: Duration, extras: Extras) -> anyhow::Result<Self> {
        let (redis, addr) = start_redis(&tempdir()?)?;
        let pool = Arc::new(BoltPool::new()?);
        let mut processes = Vec::new();
        for place in 0..APPLICATIONS {
            let store = RedisStore::open(addr).await?;
            processes.push(Application::new(place, store, Arc::clone(&pool), (ttl, extras)));
        }
        let target = Arc::new(Target::Applications(processes, pool));
        Ok(Self { target, nodes: Vec::new(), redis: Some(redis) })
    }

    async fn nodes(arm: Arm, ttl: Duration) -> anyhow::Result<Self> {
        let (dir, binary) = (tempdir()?, hopcache_binary()?);
        let (redis, redis_addr) = start_redis(&dir)?;
        let common = arm.configuration(ttl, &neo4j::bolt()?, &redis_addr.to_string());
        let plan = ClusterPlan { binary: &binary, dir: &dir, common: &common, node: "" };
        let nodes = start_cluster(&plan, NODES).await.with_context(|| {
            let log = std::fs::read_to_string(dir.join("node-0.log")).unwrap_or_default();
            format!("the nodes of `{}` do not start; the first one says:\n{log}", arm.name())
        })?;
        let pools = nodes.iter().map(|(_, addrs)| Pool::new(addrs.client)).collect();
        Ok(Self { target: Arc::new(Target::Nodes(pools)), nodes, redis: Some(redis) })
    }

    /// The nodes' counters. Without nodes the runs are those that this process has asked for.
    pub(super) async fn counts(&self) -> anyhow::Result<Counts> {
        let asked = match &*self.target {
            Target::Http(pool) => pool.asked(),
            Target::Bolt(pool) => pool.runs(),
            Target::Applications(_, pool) => pool.runs(),
            Target::Nodes(_) => {
                let admins: Vec<SocketAddr> = self.nodes.iter().map(|(_, addrs)| addrs.admin).collect();
                return Ok(Counts::of(&metrics_of(&admins).await?));
            }
        };
        Ok(Counts { runs: asked, miss_runs: asked, ..Counts::default() })
    }

    pub(super) fn cpu(&self, neo4j: Option<u32>) -> anyhow::Result<Cpu> {
        Ok(Cpu {
            neo4j: neo4j.map(cpu_of).transpose()?,
            nodes: self.nodes.iter().map(|(process, _)| process.cpu()).sum::<anyhow::Result<_>>()?,
            redis: self.redis.as_ref().map_or(Ok(Duration::ZERO), Process::cpu)?,
            clients: cpu_of(std::process::id())?,
        })
    }
}

impl Target {
    async fn answer(&self, trace: &Trace, step: Step) -> Kind {
        let pool = match self {
            Self::Bolt(pool) => {
                return pool.run(trace.message(step)).await.map_or(Kind::Failed, |_| Kind::Miss);
            }
            Self::Applications(processes, _) => {
                return processes[step.turn % processes.len()].answer(step.key, trace.message(step)).await;
            }
            Self::Http(pool) => pool,
            Self::Nodes(pools) => &pools[step.turn % pools.len()],
        };
        // Neo4j's own answer has no Cache-Status, so a result of it is a miss.
        let answer = pool.ask(&trace.bytes(step)).await;
        answer.map_or(Kind::Failed, |answer| CacheStatus::of(&answer.head).kind)
    }
}

/// A trace that is asked from some place on, by all loads of an arm one after another.
pub(super) struct Asking {
    target: Arc<Target>,
    trace: Arc<Trace>,
    place: AtomicUsize,
}

impl Asking {
    pub(super) fn new(target: &Arc<Target>, trace: &Arc<Trace>, place: usize) -> Arc<Self> {
        let (target, trace) = (Arc::clone(target), Arc::clone(trace));
        Arc::new(Self { target, trace, place: AtomicUsize::new(place) })
    }
}

impl Answering for Asking {
    async fn next(&self) -> Kind {
        let step = self.trace.step(self.place.fetch_add(1, Ordering::Relaxed));
        self.target.answer(&self.trace, step).await
    }
}
