//! The settings of one simulation of sharing.

/// The settings of one simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Nodes, all alive and known to each other.
    pub(crate) nodes: usize,
    /// Sessions that begin each second, in the whole cluster; without any nothing is learned or shared, and membership
    /// is all that is left.
    pub(crate) sessions_per_s: u32,
    /// Patterns that sessions walk over.
    pub(crate) patterns: usize,
    /// Datagrams that are lost.
    pub(crate) lost_percent: u64,
    /// Seconds over which bytes are counted.
    pub(crate) seconds: u64,
    /// Trials of the time until all nodes predict.
    pub(crate) trials: usize,
    /// Decides all dice.
    pub(crate) seed: u64,
}
