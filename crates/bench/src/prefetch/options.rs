//! Options of the walks, and how to read the directory that a prefetch benchmark leaves.

use std::path::PathBuf;

use super::arm::Arm;
use crate::expiry::options::Common;

/// How to read the directory that a workload leaves.
pub(super) const READING: &str = include_str!("reading.md");

/// Options of walks.
#[derive(clap::Args)]
#[group(id = "walks")]
pub(crate) struct WalkOptions {
    #[command(flatten)]
    pub(super) common: Common,
    /// Directory of LDBC's CSV files.
    #[arg(long, default_value = "data/ldbc-sf0.1")]
    pub(super) data: PathBuf,
    /// Arms, in the order of the table. `off` is always measured. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) arms: Vec<Arm>,
    /// Mean delay that the proxy adds to each run, in ms.
    #[arg(long, default_value_t = 20)]
    pub(super) origin_ms: u64,
    /// Clicks per second, of all sessions together.
    #[arg(long, default_value_t = 300.0)]
    pub(super) rate: f64,
    /// Seconds that are measured.
    #[arg(long, default_value_t = 60)]
    pub(super) seconds: u64,
    /// Seconds before the measurement. During them sessions begin one by one, caches are empty, and nodes have learned
    /// nothing. A copy counts as wasted only after its life, which is 1.5 TTL.
    #[arg(long, default_value_t = 30)]
    pub(super) warm: u64,
    /// TTL in seconds. 20 s at 300 clicks/s are 6,000 clicks, over about 24,000 different queries.
    #[arg(long, default_value_t = 20)]
    pub(super) ttl: u64,
    /// Clicks of a session.
    #[arg(long, default_value_t = 24)]
    pub(super) clicks: usize,
    /// Pauses between a session's clicks are exponential with a mean of 1 s, times this.
    #[arg(long, default_value_t = 0.5)]
    pub(super) think: f64,
    /// Share of clicks that follow from an earlier result.
    #[arg(long, default_value_t = 0.7)]
    pub(super) follow: f64,
    /// Share of follows from a profile that do the usual: open the friends after a jump, or the posts after a choice
    /// from a list.
    #[arg(long, default_value_t = 0.9)]
    pub(super) usual: f64,
    /// Number of applications; sessions belong to them in turn. Each application has its own statements, so with many
    /// of them a node seldom sees each.
    #[arg(long, default_value_t = 1)]
    pub(super) applications: usize,
    /// Exponent of the popularity of persons that are jumped to.
    #[arg(long, default_value_t = 0.99)]
    pub(super) exponent: f64,
}
