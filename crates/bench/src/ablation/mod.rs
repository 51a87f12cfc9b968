//! The ablation: from no cache to hopcache as shipped, one mechanism after another, on workloads as the field publishes
//! them, in closed and open loops. Real Neo4j, real Redis, real nodes; this knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`arms`] | what each arm adds, and its configuration |
//! | [`workload`], [`graphs`], [`rmat`], [`kernels`], [`trace`] | the graphs, the requests and their order |
//! | [`cache_aside`] | what an application without hopcache does |
//! | [`stage`] | the processes of an arm, who answers, and what a load has shown |
//! | [`report`] | tables |

mod arms;
mod cache_aside;
mod graphs;
mod kernels;
mod report;
mod rmat;
mod stage;
mod trace;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use hopcache_testbed::neo4j;
use hopcache_testbed::report::{Report, progress};

use self::arms::Arm;
use self::graphs::Graphs;
use self::stage::{Figures, Stage};
use self::trace::Trace;
use self::workload::Workload;
use crate::load::{Until, turns};

/// Options of the ablation.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A run for trying: one round, two workloads, two loads, all arms. Options beside it win.
    #[arg(long)]
    quick: bool,
    /// Workloads. Default: all; rmat and walks with --quick.
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Arms.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Arm::ALL)]
    arms: Vec<Arm>,
    /// Loads. Default: all; closed-32 and open-80 with --quick.
    #[arg(long, value_enum, value_delimiter = ',')]
    loads: Vec<Load>,
    /// Rounds; each measures everything once, and begins with another arm. Default: 3; 1 with --quick.
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of each load.
    #[arg(long, default_value_t = 1.25)]
    seconds: f64,
    /// Seconds of load before the first measurement of an arm's processes.
    #[arg(long, default_value_t = 1.0)]
    warm: f64,
    /// Seconds of the closed loop that shows the capacity without a cache, for each workload. Twice as many before that
    /// warm Neo4j.
    #[arg(long, default_value_t = 3.0)]
    capacity: f64,
    /// TTL of every arm, in seconds: short, so that entries expire within a load.
    #[arg(long, default_value_t = 2)]
    ttl: u64,
    /// Vertices of the R-MAT graph: 2 to the power of this.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(10..=14))]
    scale: u32,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    data: PathBuf,
    /// Most requests under way in an open loop; a request that is due beyond them is dropped.
    #[arg(long, default_value_t = 256)]
    under_way: usize,
    /// Seed of the graph, the sessions and the arrivals.
    #[arg(long, default_value_t = 5)]
    seed: u64,
    /// Where the report is kept.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Clients and rate of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
enum Load {
    /// A closed loop of 8 clients.
    #[value(name = "closed-8")]
    Closed8,
    /// A closed loop of 32 clients.
    #[value(name = "closed-32")]
    Closed32,
    /// An open loop at 50 % of the capacity without a cache.
    #[value(name = "open-50")]
    Open50,
    /// The same at 80 %.
    #[value(name = "open-80")]
    Open80,
    /// The same at 120 %.
    #[value(name = "open-120")]
    Open120,
}

/// How a load sends.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// So many clients.
    Closed(usize),
    /// So much of the capacity.
    Open(f64),
}

impl Load {
    const fn way(self) -> Way {
        match self {
            Self::Closed8 => Way::Closed(8),
            Self::Closed32 => Way::Closed(32),
            Self::Open50 => Way::Open(0.5),
            Self::Open80 => Way::Open(0.8),
            Self::Open120 => Way::Open(1.2),
        }
    }
}

/// As on the command line.
fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Clients of the load that shows the capacity: those of the greater closed loop.
const CAPACITY_CLIENTS: usize = 32;
/// Clients of the load before the first measurement of an arm.
const WARM_CLIENTS: usize = 8;
/// How far apart in the trace two rounds begin, so that they do not ask the same.
const ROUND_STEPS: usize = 20_000;

/// What is measured.
struct Plan<'a> {
    options: &'a Options,
    workloads: Vec<Workload>,
    loads: Vec<Load>,
    rounds: usize,
    ttl: Duration,
    /// Neo4j's process, if it runs on this machine.
    neo4j: Option<u32>,
}

/// A workload with its requests, and what Neo4j can do without a cache, in results a second.
type Workloads = BTreeMap<Workload, (Arc<Trace>, f64)>;
/// The figures of all rounds.
type Cells = BTreeMap<(Workload, Load, Arm), Vec<Figures>>;

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(options.rounds != Some(0) && options.seconds > 0.0 && options.ttl > 0, "nothing to measure");
    let quick = options.quick;
    let plan = Plan {
        options,
        workloads: or(&options.workloads, quick, &Workload::ALL, &[Workload::Rmat, Workload::Walks]),
        loads: or(&options.loads, quick, Load::value_variants(), &[Load::Closed32, Load::Open80]),
        rounds: options.rounds.unwrap_or(if quick { 1 } else { 3 }),
        ttl: Duration::from_secs(options.ttl),
        neo4j: neo4j::pid()?,
    };
    let mut report = Report::open("Ablation");
    let graphs = Graphs::load(&plan.workloads, (options.scale, options.seed), &options.data).await?;
    let measured = plan.everything(&graphs, &mut report).await;
    graphs.remove().await?;
    measured?;
    report.line(include_str!("reading.md"));
    options.out.as_ref().map_or(Ok(()), |path| report.write(path))
}

/// What was asked for, in the order of the whole.
fn or<T: Copy + Ord>(asked: &[T], quick: bool, all: &[T], few: &[T]) -> Vec<T> {
    let default = if quick { few } else { all };
    let mut wanted = if asked.is_empty() { default.to_vec() } else { asked.to_vec() };
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

impl Plan<'_> {
    async fn everything(&self, graphs: &Graphs, report: &mut Report) -> anyhow::Result<()> {
        report::open(self, &graphs.size(), report);
        let mut workloads = Workloads::new();
        for workload in &self.workloads {
            let trace = Arc::new(graphs.trace(*workload, self.options.seed)?);
            // All workloads warm Neo4j before the first one counts: the first seconds of a JVM are slow.
            self.capacity(&trace, 2.0).await.with_context(|| name_of(*workload))?;
            workloads.insert(*workload, (trace, 0.0));
        }
        for (trace, capacity) in workloads.values_mut() {
            *capacity = self.capacity(trace, 1.0).await?;
        }
        report::workloads(self, &workloads, report);
        let cells = self.rounds(&workloads).await?;
        report::tables(self, &cells, report);
        Ok(())
    }

    /// Neo4j's capacity for a workload, by the arm without a cache.
    async fn capacity(&self, trace: &Arc<Trace>, times: f64) -> anyhow::Result<f64> {
        let stage = Stage::start(Arm::NoCache, self.ttl, Arc::clone(trace), 0).await?;
        let span = Duration::from_secs_f64(times * self.options.capacity);
        let seen = stage.closed(CAPACITY_CLIENTS, Until::Over(span)).await?;
        ensure!(seen.errors() == 0, "Neo4j refused {} of {} requests", seen.errors(), seen.samples.len());
        Ok(seen.per_s())
    }

    /// Each arm once for each workload in every round. A round begins with another arm.
    async fn rounds(&self, workloads: &Workloads) -> anyhow::Result<Cells> {
        let (mut cells, arms) = (Cells::new(), &self.options.arms);
        for round in 0..self.rounds {
            for (workload, (trace, capacity)) in workloads {
                for place in turns(arms.len(), round) {
                    let arm = arms[place];
                    progress(&format!("round {}: {}, {}", round + 1, name_of(*workload), name_of(arm)));
                    let stage = Stage::start(arm, self.ttl, Arc::clone(trace), round * ROUND_STEPS).await?;
                    let warm = Duration::from_secs_f64(self.options.warm);
                    stage.closed(WARM_CLIENTS, Until::Over(warm)).await?;
                    for load in &self.loads {
                        let figures = stage.measure(self, *load, *capacity, round).await?;
                        cells.entry((*workload, *load, arm)).or_default().push(figures);
                    }
                }
            }
        }
        Ok(cells)
    }
}
