//! Time as arguments. A node never compares its own wall clock with another's: it measures
//! differences on its monotonic clock, and takes shared ages from the store (THEORY "Leases").

use std::ops::{Add, Sub};

/// A span of time in whole milliseconds.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Millis(pub u64);

impl Millis {
    /// A span of zero.
    pub const ZERO: Self = Self(0);

    /// The rest of this span after `spent`; zero if `spent` is longer.
    #[must_use]
    pub const fn saturating_sub(self, spent: Self) -> Self {
        Self(self.0.saturating_sub(spent.0))
    }

    /// As the standard library's duration.
    #[must_use]
    pub const fn duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl From<std::time::Duration> for Millis {
    fn from(span: std::time::Duration) -> Self {
        Self(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A reading of one node's monotonic clock, in microseconds. At the node's start it is
/// [`CLOCK_START_US`](crate::limits::CLOCK_START_US), twenty years. Readings of two nodes are unrelated and never compared.
#[derive(
    Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct MonoTime(pub u64);

impl MonoTime {
    /// The span from `earlier` to this; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0) / 1_000)
    }
}

impl Add<Millis> for MonoTime {
    type Output = Self;
    fn add(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0.saturating_mul(1_000)))
    }
}

impl Sub<Millis> for MonoTime {
    type Output = Self;
    fn sub(self, span: Millis) -> Self {
        Self(self.0.saturating_sub(span.0.saturating_mul(1_000)))
    }
}
