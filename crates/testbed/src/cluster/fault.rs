//! The kinds of fault, and what each may cost by promise. This module causes none.

use serde::Serialize;

/// A fault that lasts for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Fault {
    /// SIGKILL, and a new start.
    Kill,
    /// SIGSTOP for less than a lease, SIGCONT.
    PauseShort,
    /// SIGSTOP for more than a lease, SIGCONT.
    PauseLong,
    /// Two nodes, both directions.
    CutPeers,
    /// The messages from one node to another.
    CutOneWay,
    /// One node and the store.
    CutStore,
    /// One node and the origin.
    CutOrigin,
    /// SIGKILL, and a new start without data.
    StoreKill,
    /// SIGSTOP of the store, SIGCONT.
    StoreStall,
    /// To a replica that lags, the leader killed.
    FailOver,
    /// No run is answered until it ends.
    OriginStall,
    /// Every run fails with an error that the server calls transient.
    OriginErrors,
    /// The origin closes its connections, several times.
    OriginCut,
    /// Leave in good order, and a new start.
    Drain,
}

/// The part that a fault breaks. Two faults at the same time break different parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// A node, or its way to others.
    Node,
    /// The store.
    Store,
    /// The origin.
    Origin,
}

impl Fault {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 14] = [
        Self::Kill,
        Self::PauseShort,
        Self::PauseLong,
        Self::CutPeers,
        Self::CutOneWay,
        Self::CutStore,
        Self::CutOrigin,
        Self::StoreKill,
        Self::StoreStall,
        Self::FailOver,
        Self::OriginStall,
        Self::OriginErrors,
        Self::OriginCut,
        Self::Drain,
    ];

    /// The part that this fault breaks.
    pub const fn part(self) -> Part {
        match self {
            Self::StoreKill | Self::StoreStall | Self::FailOver => Part::Store,
            Self::OriginStall | Self::OriginErrors | Self::OriginCut => Part::Origin,
            _ => Part::Node,
        }
    }

    /// Takes the packet filter.
    pub const fn is_cut(self) -> bool {
        matches!(self, Self::CutPeers | Self::CutOneWay | Self::CutStore | Self::CutOrigin)
    }

    /// The store's data go, or the newest of them.
    pub const fn loses_store(self) -> bool {
        matches!(self, Self::StoreKill | Self::FailOver)
    }

    /// The number of nodes that cannot reach the store, of this many in the cluster. Each of these nodes runs queries
    /// for itself.
    pub const fn without_store(self, nodes: u64) -> u64 {
        match self {
            Self::CutStore => 1,
            Self::StoreKill | Self::StoreStall | Self::FailOver => nodes,
            _ => 0,
        }
    }

    /// Whether a purge may miss a node: a node does not get the purge, or the store forgets it.
    pub const fn hides_purges(self) -> bool {
        !matches!(
            self,
            Self::Kill
                | Self::Drain
                | Self::OriginStall
                | Self::OriginErrors
                | Self::OriginCut
                | Self::CutOrigin
        )
    }

    /// Runs that have their lease wait for the origin, or try it again.
    pub const fn holds_runs(self) -> bool {
        matches!(self, Self::OriginStall | Self::OriginErrors | Self::OriginCut | Self::CutOrigin)
    }

    /// A request to its node cannot end while it lasts.
    pub const fn stops_node(self) -> bool {
        matches!(self, Self::PauseShort | Self::PauseLong)
    }
}
