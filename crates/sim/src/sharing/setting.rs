//! What one simulation of sharing is of.

/// What one simulation is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Nodes, all alive and known to each other.
    pub nodes: usize,
    /// Sessions that begin each second, in the whole cluster; without any nothing is learned or shared, and membership is
    /// all that is left.
    pub sessions_per_s: u32,
    /// Patterns that sessions walk over.
    pub patterns: usize,
    /// Datagrams that are lost.
    pub lost_percent: u64,
    /// Seconds over which bytes are counted.
    pub seconds: u64,
    /// Trials of the time until all nodes predict.
    pub trials: usize,
    /// Decides all dice.
    pub seed: u64,
}
