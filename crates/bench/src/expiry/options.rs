//! Options that all workloads of the expiry benchmark share, the order of arms in a round, and how to read the output.

use std::path::PathBuf;

use super::open_loop::Arrivals;
use crate::output::Output;

/// How to read the directory that a workload leaves.
pub(super) const READING: &str = include_str!("reading.md");

/// The options of all workloads.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Rounds; each measures every arm once, and begins with another one.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// How arrivals are spaced.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub(crate) arrivals: Arrivals,
    /// Share by which TTLs are made longer or shorter.
    #[arg(long, default_value_t = 0.1)]
    pub(crate) jitter: f64,
    /// Most requests under way at a time, each with a thread. Further requests wait, and their wait counts.
    #[arg(long, default_value_t = 512)]
    pub(crate) threads: usize,
    /// `origin.max_concurrent` of each node.
    #[arg(long, default_value_t = 64)]
    pub(crate) max_concurrent: u32,
    /// Seed of arrivals, keys and delays.
    #[arg(long, default_value_t = 5)]
    pub(crate) seed: u64,
    /// Directory of the report, its raw data and its plots. Default: docs/benchmarks/DATE-WORKLOAD.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
}

impl Common {
    /// Opens a workload's report, before the measurement begins.
    pub(crate) fn open(&self, name: &str, title: &str) -> anyhow::Result<Output> {
        Output::open(self.out.as_deref(), name, title)
    }
}

/// The order of the arms in this round. Each round begins with another arm, so no arm is always first on a machine that
/// has just become quiet.
pub(crate) fn turns(arms: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |place| (place + round) % arms)
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn each_round_begins_with_another_arm() {
        assert_eq!(turns(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(turns(3, 1).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(turns(3, 5).collect::<Vec<_>>(), [2, 0, 1]);
    }
}
