//! The boundary between the command line and the nodes that it starts. The two functions below are the only
//! places that start nodes.

use crate::config::{DevOptions, Loaded, Report, UnusedVariable};

/// Runs one node until a signal or a drain ends it.
///
/// # Errors
/// When the node cannot start, or ended badly.
pub async fn serve(loaded: Loaded) -> anyhow::Result<()> {
    crate::serve::serve(loaded).await
}

/// Runs a development cluster until Ctrl-C.
///
/// # Errors
/// When a node cannot start, or ended badly.
pub async fn dev(options: DevOptions, report: Report, unused: &[UnusedVariable]) -> anyhow::Result<()> {
    crate::dev::run(options, report, unused).await
}
