//! The rounds: starts each arm's processes, sends its loads one after another, and keeps what they show. Decides the
//! order of everything, and no figure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};

use super::arms::Arm;
use super::figures::{Cell, Cells, Figures};
use super::load::{Load, Seen, Way, closed, open};
use super::options::Plan;
use super::stage::{Asking, Stage};
use super::workloads::Workload;
use super::workloads::trace::Trace;
use crate::expiry::cache_status::Kind;
use crate::expiry::options::turns;
use crate::output::Output;

/// Between two loads, and before the counters are read: what was under way ends.
const REST: Duration = Duration::from_millis(100);
/// Clients of the load that shows the capacity: those of the greater closed loop.
const CAPACITY_CLIENTS: usize = 32;
/// Clients of the load before the first measurement of an arm.
const WARM_CLIENTS: usize = 8;
/// How far apart in the trace two rounds begin, so that they do not ask the same.
const ROUND_STEPS: usize = 20_000;

/// A workload with its requests, and what Neo4j can do without a cache.
pub(super) struct Ready {
    pub(super) trace: Arc<Trace>,
    /// Results a second.
    pub(super) capacity: f64,
}

pub(super) type Workloads = BTreeMap<Workload, Ready>;

/// What all measurements have in common.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    /// Its process, if it runs on this machine.
    pub(super) neo4j: Option<u32>,
}

impl Bench<'_> {
    /// Neo4j's capacity for each workload, by the arm without a cache. All workloads warm it before the first one counts:
    /// the first seconds of a JVM are slow.
    pub(super) async fn capacities(&self, traces: Vec<(Workload, Arc<Trace>)>) -> anyhow::Result<Workloads> {
        let mut ready = Workloads::new();
        for (workload, trace) in &traces {
            let warming = self.capacity(trace, 2 * self.plan.capacity).await;
            warming.with_context(|| format!("the workload {}", workload.name()))?;
        }
        for (workload, trace) in traces {
            let capacity = self.capacity(&trace, self.plan.capacity).await?;
            ready.insert(workload, Ready { trace, capacity });
        }
        Ok(ready)
    }

    async fn capacity(&self, trace: &Arc<Trace>, span: Duration) -> anyhow::Result<f64> {
        let stage = Stage::start(Arm::NoCache, self.plan.ttl).await?;
        let asking = Asking::new(&stage.target, trace, 0);
        let Seen { samples, wall, .. } = closed(&asking, CAPACITY_CLIENTS, span).await?;
        let failed = samples.iter().filter(|sample| sample.status.kind == Kind::Failed).count();
        ensure!(failed == 0, "Neo4j refused {failed} of {} requests", samples.len());
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let results = samples.len() as f64;
        Ok(results / wall.as_secs_f64())
    }

    /// Each arm once for each workload in every round. A round begins with another arm.
    pub(super) async fn rounds(&self, workloads: &Workloads, output: &Output) -> anyhow::Result<Cells> {
        let Plan { arms, rounds, .. } = self.plan;
        let mut cells = Vec::new();
        for round in 0..*rounds {
            for (workload, ready) in workloads {
                for place in turns(arms.len(), round) {
                    let arm = arms[place];
                    output.say(&format!("round {}: {}, {}", round + 1, workload.name(), arm.name()));
                    let measured = self.arm(arm, (*workload, ready), round).await;
                    cells.extend(measured.with_context(|| format!("{}: {}", workload.name(), arm.name()))?);
                }
            }
        }
        Ok(Cells(cells))
    }

    async fn arm(
        &self,
        arm: Arm,
        (workload, ready): (Workload, &Ready),
        round: usize,
    ) -> anyhow::Result<Vec<Cell>> {
        let stage = Stage::start(arm, self.plan.ttl).await?;
        let asking = Asking::new(&stage.target, &ready.trace, round * ROUND_STEPS);
        closed(&asking, WARM_CLIENTS, self.plan.warm).await?;
        let mut cells = Vec::new();
        for load in &self.plan.loads {
            tokio::time::sleep(REST).await;
            let figures = self.load(&stage, &asking, (*load, ready.capacity), round).await?;
            cells.push(Cell { workload, load: *load, arm, round, figures });
        }
        Ok(cells)
    }

    async fn load(
        &self,
        stage: &Stage,
        asking: &Arc<Asking>,
        (load, capacity): (Load, f64),
        round: usize,
    ) -> anyhow::Result<Figures> {
        let Plan { span, under_way_max, seed, .. } = *self.plan;
        let counts = stage.counts().await?;
        let before = stage.cpu(self.neo4j)?;
        let seen = match load.way() {
            Way::Closed(clients) => closed(asking, clients, span).await?,
            Way::Open(percent) => {
                let seed = seed.wrapping_add(round as u64);
                open(asking, (rate(capacity, percent), span), under_way_max, seed).await?
            }
        };
        tokio::time::sleep(REST).await;
        let after = stage.cpu(self.neo4j)?;
        Ok(Figures::of(&seen, &stage.counts().await?.since(&counts), (&before, &after)))
    }
}

/// So much of the capacity, in requests a second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousands")]
pub(super) fn rate(capacity: f64, percent: u32) -> u32 {
    (capacity * f64::from(percent) / 100.0).round().max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn a_rate_is_its_share_of_the_capacity() {
        assert_eq!((rate(1_000.4, 80), rate(1_000.0, 120), rate(0.2, 50)), (800, 1_200, 1));
    }
}
