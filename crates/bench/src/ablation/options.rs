//! Options of the ablation, and the plan that they and their defaults make. Decides how long everything takes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use super::arms::Arm;
use super::load::Load;
use super::workloads::Workload;

/// How to read the directory that a run leaves.
pub(super) const READING: &str = include_str!("reading.md");
/// From the start of an arm's processes until they answer, about, and the pauses between its loads.
const START_S: f64 = 1.5;

/// Options of the ablation.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// A run for trying: one round, two workloads, two loads of 2 s, all arms. Options beside it win.
    #[arg(long)]
    quick: bool,
    /// Workloads. Default: all; rmat and walks with --quick.
    #[arg(long, value_enum, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Arms. Each is compared with the one before it. Default: all but nodes-uncached.
    #[arg(long, value_enum, value_delimiter = ',')]
    arms: Vec<Arm>,
    /// Loads. Default: all; closed-32 and open-80 with --quick.
    #[arg(long, value_enum, value_delimiter = ',')]
    loads: Vec<Load>,
    /// Rounds; each measures everything once, and begins with another arm. Default: 3; 1 with --quick.
    #[arg(long)]
    rounds: Option<usize>,
    /// Seconds of each load. Default: 1.25; 2 with --quick.
    #[arg(long)]
    seconds: Option<f64>,
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
    /// Directory of the report, and its data. Default: docs/benchmarks/DATE-ablation.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
}

/// What is measured.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) workloads: Vec<Workload>,
    pub(super) arms: Vec<Arm>,
    pub(super) loads: Vec<Load>,
    pub(super) rounds: usize,
    pub(super) span: Duration,
    pub(super) warm: Duration,
    pub(super) capacity: Duration,
    pub(super) ttl: Duration,
    pub(super) scale: u32,
    pub(super) data: PathBuf,
    pub(super) under_way_max: usize,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn of(options: &Options) -> anyhow::Result<Self> {
        let (rounds, seconds) = if options.quick { (1, 2.0) } else { (3, 1.25) };
        let (rounds, seconds) = (options.rounds.unwrap_or(rounds), options.seconds.unwrap_or(seconds));
        let spans = [seconds, options.warm, options.capacity].map(Duration::try_from_secs_f64);
        let [span, warm, capacity] = spans;
        ensure!(rounds > 0 && seconds > 0.0 && options.ttl > 0, "nothing to measure");
        Ok(Self {
            workloads: or(
                &options.workloads,
                options.quick,
                &Workload::ALL,
                &[Workload::Rmat, Workload::Walks],
            ),
            arms: or(&options.arms, options.quick, &Arm::DEFAULT, &Arm::DEFAULT),
            loads: or(&options.loads, options.quick, &Load::ALL, &[Load::Closed32, Load::Open80]),
            rounds,
            span: span?,
            warm: warm?,
            capacity: capacity?,
            ttl: Duration::from_secs(options.ttl),
            scale: options.scale,
            data: options.data.clone(),
            under_way_max: options.under_way,
            seed: options.seed,
        })
    }

    /// About how long it takes, graphs apart.
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    pub(super) fn minutes(&self) -> f64 {
        let of_arm = START_S + self.warm.as_secs_f64() + self.span.as_secs_f64() * self.loads.len() as f64;
        let arms = of_arm * (self.rounds * self.workloads.len() * self.arms.len()) as f64;
        (arms + 3.0 * self.capacity.as_secs_f64() * self.workloads.len() as f64) / 60.0
    }
}

/// What was asked for, in the order of the whole.
fn or<T: Copy + Ord>(asked: &[T], quick: bool, all: &[T], few: &[T]) -> Vec<T> {
    let mut wanted = match (asked.is_empty(), quick) {
        (false, _) => asked.to_vec(),
        (true, true) => few.to_vec(),
        (true, false) => all.to_vec(),
    };
    wanted.sort_unstable();
    wanted.dedup();
    wanted
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn plan(line: &[&str]) -> Plan {
        let line = ["ablation"].iter().chain(line);
        Plan::of(&Line::try_parse_from(line).unwrap().options).unwrap()
    }

    #[test]
    fn the_defaults_measure_everything_in_about_forty_minutes() {
        let plan = plan(&[]);
        assert_eq!((plan.workloads.len(), plan.arms.len(), plan.loads.len(), plan.rounds), (6, 15, 5, 3));
        assert!((35.0..42.0).contains(&plan.minutes()), "{}", plan.minutes());
    }

    #[test]
    fn quick_measures_every_arm_in_about_three_minutes() {
        let quick = plan(&["--quick"]);
        assert_eq!((quick.arms.len(), quick.rounds, quick.span), (15, 1, Duration::from_secs(2)));
        assert!((2.5..4.0).contains(&quick.minutes()), "{}", quick.minutes());
        let less = plan(&["--quick", "--arms", "all,no-cache,all", "--workloads", "zipf-0.99"]);
        assert_eq!((less.arms, less.workloads), (vec![Arm::NoCache, Arm::All], vec![Workload::Zipf099]));
    }

    #[test]
    fn a_graph_beyond_the_published_scales_is_refused() {
        assert!(Line::try_parse_from(["ablation", "--scale", "15"]).is_err());
        assert_eq!(plan(&["--scale", "10"]).scale, 10);
    }
}
