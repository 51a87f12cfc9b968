//! Options of the soak, and how often it takes samples.

use std::path::PathBuf;
use std::time::Duration;

/// Options of the soak.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Minutes of load, faults included.
    #[arg(long, default_value_t = 30)]
    pub(super) minutes: u64,
    /// Clients, spread over the nodes; each waits for its answer and then a little.
    #[arg(long, default_value_t = 48)]
    pub(super) clients: usize,
    /// Pause of a client after each answer, in ms.
    #[arg(long, default_value_t = 40)]
    pub(super) pause_ms: u64,
    /// Seconds between the end of a fault and the next.
    #[arg(long, default_value_t = 8)]
    pub(super) fault_pause: u64,
    /// Directory for `report.md`.
    #[arg(long)]
    pub(super) out: Option<PathBuf>,
}

/// Pause between two samples.
pub(super) const SAMPLE_EVERY: Duration = Duration::from_secs(10);
