//! The four strategies as configurations of the same binary: nothing else differs between them. The
//! clients' requests are the same too, hints included.

/// How expiry is met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Strategy {
    /// One flight per key; a request that finds nothing fresh waits for it.
    Mutex,
    /// Early refresh with one β for all keys, and stale copies while it runs.
    Plain,
    /// Early refresh with β by the anchor's degree.
    Topology,
    /// Early refresh with β solved for each key.
    Adaptive,
}

impl Strategy {
    pub(crate) const ALL: [Self; 4] = [Self::Mutex, Self::Plain, Self::Topology, Self::Adaptive];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Plain => "plain",
            Self::Topology => "topology",
            Self::Adaptive => "adaptive",
        }
    }

    /// Lines of `[entry]` beside the TTL's.
    pub(crate) const fn entry(self) -> &'static str {
        match self {
            Self::Mutex => "grace = 0.0\nstale_if_error = \"0\"\n",
            Self::Plain | Self::Topology | Self::Adaptive => "grace = 0.5\n",
        }
    }

    /// `[refresh]`. The minimum TTL is low, so that a benchmark's short TTLs are refreshed early.
    pub(crate) fn sections(self) -> String {
        let lines = match self {
            Self::Mutex => "enabled = false\n",
            Self::Plain => "mode = \"plain\"\nmin_ttl = \"1s\"\n",
            Self::Topology => "mode = \"topology_sensitive\"\nmin_ttl = \"1s\"\n",
            Self::Adaptive => "mode = \"adaptive\"\nmin_ttl = \"1s\"\n",
        };
        format!("[refresh]\n{lines}")
    }
}
