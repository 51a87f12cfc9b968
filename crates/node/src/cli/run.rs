//! The boundary between the command line and what it starts. The two functions below are the only
//! places that start nodes.

use crate::config::{DevOptions, Loaded};

/// Runs one node until it is told to stop.
///
/// # Errors
/// When the node cannot start, or ended badly.
#[expect(clippy::unused_async, reason = "the node that is wired in here is async")]
pub async fn serve(loaded: Loaded) -> anyhow::Result<()> {
    let _ = loaded;
    anyhow::bail!("serve: this build has no node to start yet")
}

/// Runs a development cluster until Ctrl-C.
///
/// # Errors
/// When a node cannot start, or ended badly.
#[expect(clippy::unused_async, reason = "the cluster that is wired in here is async")]
pub async fn dev(options: DevOptions) -> anyhow::Result<()> {
    let _ = options;
    anyhow::bail!("dev: this build has no cluster to start yet")
}
