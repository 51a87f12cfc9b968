//! One measurement: data loaded anew, new nodes with a new Redis, one replay, and the counters and CPU times around it.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use hopcache_testbed::metrics::sum;
use hopcache_testbed::neo4j;
use hopcache_testbed::node::Nodes;
use hopcache_testbed::process::{Process, cpu_of};
use serde::Serialize;

use super::arms::Arm;
use super::replay::{Replayed, Target, Traffic};
use crate::figures::{Tail, each_us, share};

/// How drivers find the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scheme {
    /// `bolt://`: one driver for each node; sessions are dealt out to them in turn.
    Bolt,
    /// `neo4j://`: one driver, which gets the nodes' routing table and chooses a node for each statement.
    Neo4j,
}

/// The parts of a run that all measurements share.
pub(super) struct Stage<'a> {
    pub(super) alone: Target,
    pub(super) nodes: usize,
    pub(super) scheme: Scheme,
    pub(super) binary: &'a Path,
}

/// What one measurement has brought. Figures of nodes are `None` for Neo4j alone.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figures {
    pub(super) seconds: f64,
    pub(super) statements: usize,
    pub(super) writes: usize,
    pub(super) left_out: usize,
    pub(super) per_s: f64,
    pub(super) pages: usize,
    pub(super) page_p50_ms: f64,
    pub(super) page_p95_ms: f64,
    pub(super) page_p99_ms: f64,
    pub(super) errors: usize,
    pub(super) messages: Vec<String>,
    /// `cache_hit_total` of all nodes.
    pub(super) hits: Option<u64>,
    /// Hits, of all reads, in percent.
    pub(super) hits_percent: Option<f64>,
    pub(super) misses: Option<u64>,
    pub(super) bypasses: Option<u64>,
    /// Runs at Neo4j: `hopcache_origin_runs_total` of all nodes; all statements where nothing stands before Neo4j.
    pub(super) runs: u64,
    /// Of them, those that nobody had asked for.
    pub(super) prefetches: Option<Prefetches>,
    /// CPU time of all processes but the client's, of each statement. `None` where Neo4j runs on another machine.
    pub(super) cpu_us: Option<f64>,
    pub(super) neo4j_cpu_us: Option<f64>,
    pub(super) nodes_cpu_us: Option<f64>,
    pub(super) redis_cpu_us: Option<f64>,
}

/// What became of prefetches at all nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Prefetches {
    /// `prefetch_attempts_total`.
    pub(super) launched: u64,
    /// `prefetch_hits_total`.
    pub(super) used: u64,
    /// `prefetch_late_total`.
    pub(super) late: u64,
}

impl Prefetches {
    fn since(self, before: Self) -> Self {
        Self {
            launched: self.launched.saturating_sub(before.launched),
            used: self.used.saturating_sub(before.used),
            late: self.late.saturating_sub(before.late),
        }
    }

    /// Those that a request used or waited for, of all, in percent.
    pub(super) fn right_percent(self) -> f64 {
        let launched = usize::try_from(self.launched).unwrap_or(usize::MAX);
        100.0 * share(usize::try_from(self.used + self.late).unwrap_or(usize::MAX), launched)
    }
}

/// Counters and CPU times since the processes' start.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    hits: u64,
    misses: u64,
    bypasses: u64,
    runs: u64,
    prefetches: Prefetches,
    nodes_cpu: Duration,
    redis_cpu: Duration,
    neo4j_cpu: Option<Duration>,
}

impl Counters {
    async fn read(nodes: Option<&Nodes>) -> anyhow::Result<Self> {
        let neo4j_cpu = neo4j::pid()?.map(cpu_of).transpose()?;
        let Some(nodes) = nodes else { return Ok(Self { neo4j_cpu, ..Self::default() }) };
        let metrics = nodes.metrics().await?;
        let of = |name: &str| sum(&metrics, name, "").unwrap_or(0);
        Ok(Self {
            hits: of("cache_hit_total"),
            misses: of("cache_miss_total"),
            bypasses: of("cache_bypass_total"),
            runs: of("hopcache_origin_runs_total"),
            prefetches: Prefetches {
                launched: of("prefetch_attempts_total"),
                used: of("prefetch_hits_total"),
                late: of("prefetch_late_total"),
            },
            nodes_cpu: nodes.cpu()?,
            redis_cpu: nodes.redis().as_ref().map_or(Ok(Duration::ZERO), Process::cpu)?,
            neo4j_cpu,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            hits: self.hits.saturating_sub(before.hits),
            misses: self.misses.saturating_sub(before.misses),
            bypasses: self.bypasses.saturating_sub(before.bypasses),
            runs: self.runs.saturating_sub(before.runs),
            prefetches: self.prefetches.since(before.prefetches),
            nodes_cpu: self.nodes_cpu.saturating_sub(before.nodes_cpu),
            redis_cpu: self.redis_cpu.saturating_sub(before.redis_cpu),
            neo4j_cpu: self.neo4j_cpu.zip(before.neo4j_cpu).map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

impl Stage<'_> {
    /// Measures an arm. `load`: the file of the application's data.
    pub(super) async fn measure(
        &self,
        arm: &Arm,
        load: &Path,
        traffic: &Traffic,
    ) -> anyhow::Result<(Figures, Replayed)> {
        // Before the nodes start, so that they see no write that passed them by.
        self.alone.load(Some(load), true).await?;
        let nodes = if arm.has_nodes() {
            let sections = arm.sections(&neo4j::bolt()?);
            Some(Nodes::start_of(self.binary, self.nodes, &arm.node_lines(), &sections).await?)
        } else {
            None
        };
        let target = Target { uris: self.uris(nodes.as_ref()), ..self.alone.clone() };
        let ready = target.replay(traffic).await?;
        let before = Counters::read(nodes.as_ref()).await?;
        let replayed = ready.run().await?;
        let counters = Counters::read(nodes.as_ref()).await?.since(&before);
        if let Some(nodes) = &nodes {
            nodes.nodes.iter().try_for_each(hopcache_testbed::node::Node::check_runs)?;
        }
        ensure!(replayed.statements > 0, "no statement of {} was asked", traffic.trace.display());
        ensure!(
            traffic.writes > 0 || replayed.writes == 0,
            "{} writes ran in a replay without writes",
            replayed.writes
        );
        Ok((figures(&replayed, &counters, arm.has_nodes()), replayed))
    }

    /// One for each driver.
    fn uris(&self, nodes: Option<&Nodes>) -> Vec<String> {
        let Some(nodes) = nodes else { return self.alone.uris.clone() };
        match self.scheme {
            Scheme::Bolt => nodes.nodes.iter().map(|node| format!("bolt://{}", node.bolt)).collect(),
            Scheme::Neo4j => {
                nodes.nodes.iter().take(1).map(|node| format!("neo4j://{}", node.bolt)).collect()
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn figures(replayed: &Replayed, counters: &Counters, has_nodes: bool) -> Figures {
    let Replayed { seconds, statements, writes, left_out, errors, .. } = *replayed;
    let tail = Tail::of(replayed.times_us.clone());
    let of_nodes = |count: u64| has_nodes.then_some(count);
    let cpu_us = |spent: Duration| each_us(spent, statements);
    let hits = usize::try_from(counters.hits).unwrap_or(usize::MAX);
    let all_cpu = counters.neo4j_cpu.map(|neo4j| neo4j + counters.nodes_cpu + counters.redis_cpu);
    Figures {
        seconds,
        statements,
        writes,
        left_out,
        per_s: statements as f64 / seconds,
        pages: tail.count,
        page_p50_ms: tail.p50_ms,
        page_p95_ms: tail.p95_ms,
        page_p99_ms: tail.p99_ms,
        errors,
        messages: replayed.messages.clone(),
        hits: of_nodes(counters.hits),
        hits_percent: has_nodes.then(|| 100.0 * share(hits, statements.saturating_sub(writes))),
        misses: of_nodes(counters.misses),
        bypasses: of_nodes(counters.bypasses),
        runs: if has_nodes { counters.runs } else { statements as u64 },
        prefetches: has_nodes.then_some(counters.prefetches),
        cpu_us: all_cpu.map(cpu_us),
        neo4j_cpu_us: counters.neo4j_cpu.map(cpu_us),
        nodes_cpu_us: has_nodes.then(|| cpu_us(counters.nodes_cpu)),
        redis_cpu_us: has_nodes.then(|| cpu_us(counters.redis_cpu)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed() -> Replayed {
        let times_us = vec![4_000, 1_000, 2_000, 3_000];
        let (messages, digests) = (Vec::new(), Vec::new());
        Replayed {
            seconds: 2.0,
            statements: 10,
            writes: 2,
            left_out: 1,
            errors: 0,
            messages,
            times_us,
            digests,
        }
    }

    #[test]
    fn figures_are_of_the_measured_part() {
        let ms = Duration::from_millis;
        let before =
            Counters { hits: 7, runs: 3, nodes_cpu: ms(20), neo4j_cpu: Some(ms(100)), ..Counters::default() };
        let after = Counters {
            hits: 11,
            misses: 2,
            runs: 9,
            nodes_cpu: ms(50),
            redis_cpu: ms(10),
            neo4j_cpu: Some(ms(160)),
            ..Counters::default()
        };
        let found = figures(&replayed(), &after.since(&before), true);
        assert_eq!((found.hits, found.misses, found.bypasses, found.runs), (Some(4), Some(2), Some(0), 6));
        let near =
            |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{value} is not {wanted}");
        near(found.per_s, 5.0);
        near(found.hits_percent.unwrap(), 50.0);
        near(found.cpu_us.unwrap(), 10_000.0);
        near(found.page_p50_ms, 2.0);
        near(found.page_p99_ms, 4.0);
    }

    #[test]
    fn neo4j_alone_has_no_hits_and_runs_every_statement() {
        let found = figures(&replayed(), &Counters::default(), false);
        assert_eq!((found.hits, found.hits_percent, found.runs, found.cpu_us), (None, None, 10, None));
    }
}
