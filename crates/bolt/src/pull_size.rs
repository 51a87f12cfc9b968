//! How many records one PULL asks for.
//!
//! Neo4j holds the records of a PULL for a client that is slower than itself: 10,000 of 20 KB took all of a server's direct memory. On the
//! way to a far Neo4j each PULL costs a round trip. So the first PULL asks for as many as drivers do, and the next ones for more if the
//! records are short.

/// Bytes that one PULL asks for, by the mean of the records before it.
const PULL_BYTES: u64 = 4 << 20;
/// A PULL asks for at most so many times as many records as the first one.
const GROWTH_MAX: u32 = 10;

/// The records of a result so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Pulled {
    rows: u64,
    bytes: u64,
}

impl Pulled {
    /// One more record.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Records of the next PULL: at least as many as the first one asked for.
    pub(crate) fn next_rows(self, first: u32) -> u32 {
        let first = first.max(1);
        if self.rows == 0 {
            return first;
        }
        let fitting = PULL_BYTES.saturating_mul(self.rows) / self.bytes.max(1);
        let most = first.saturating_mul(GROWTH_MAX);
        u32::try_from(fitting).unwrap_or(most).clamp(first, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: u32, bytes: usize) -> Pulled {
        let mut pulled = Pulled::default();
        (0..rows).for_each(|_| pulled.add(bytes));
        pulled
    }

    #[test]
    fn short_records_are_pulled_by_the_ten_thousand_and_long_ones_by_the_thousand() {
        for (bytes, rows) in [(0, 10_000), (100, 10_000), (1_000, 4_194), (20_000, 1_000), (64 << 20, 1_000)]
        {
            assert_eq!(of(1_000, bytes).next_rows(1_000), rows, "{bytes}");
        }
        assert_eq!(of(0, 0).next_rows(1_000), 1_000, "the first PULL");
        assert_eq!((of(0, 0).next_rows(0), of(1, 1).next_rows(0)), (1, 10));
    }
}
