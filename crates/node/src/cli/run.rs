//! The boundary between the command line and the nodes that it starts. The two functions below are the only
//! places that start nodes.

use hopcache_config::{DevOptions, LoadedConfig, Report, UnusedVariable};

use crate::dev::DevShow;

/// Runs one node until a signal or a drain ends it.
///
/// # Errors
/// When the node cannot start, or ended badly.
pub async fn serve(loaded: LoadedConfig, is_json: bool) -> anyhow::Result<()> {
    crate::serve::serve(loaded, is_json).await
}

/// Runs a development cluster until Ctrl-C.
///
/// # Errors
/// When a node cannot start, or ended badly.
pub async fn dev(
    options: DevOptions,
    show: DevShow,
    report: Report,
    unused: &[UnusedVariable],
) -> anyhow::Result<()> {
    crate::dev::run(options, show, report, unused).await
}
