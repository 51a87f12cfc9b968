//! How many records one PULL asks for.
//!
//! Neo4j holds the records of a PULL for a client that is slower than itself: 10,000 of 20 KB took all of a server's direct memory. On the
//! way to a far Neo4j each PULL costs a round trip. So the first PULL asks for as many as drivers do. The next one asks for twice as
//! many at most, if the records of the last one were short and this node has read them as fast as they came.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes that one PULL asks for, by the mean of the records of the PULL before it.
const PULL_BYTES: u64 = 4 << 20;
/// A PULL asks for at most so many times as many records as the first one.
const GROWTH_MAX: u32 = 10;

/// The records of the PULL under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulled {
    asked: u32,
    rows: u64,
    bytes: u64,
    /// When it was sent.
    sent: Instant,
    /// For how long nobody has read since then.
    idle: Duration,
    /// Since when nobody reads.
    idle_since: Option<Instant>,
}

impl Pulled {
    /// The first PULL of a result, which asks for so many records.
    pub(crate) fn first(rows: u32) -> Self {
        Self {
            asked: rows.max(1),
            rows: 0,
            bytes: 0,
            sent: Instant::now(),
            idle: Duration::ZERO,
            idle_since: None,
        }
    }

    /// Records that it asks for.
    pub(crate) fn asked(self) -> u32 {
        self.asked
    }

    /// One more record.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Nobody reads from now on.
    pub(crate) fn rests(&mut self) {
        self.idle_since = Some(Instant::now());
    }

    /// Somebody reads again.
    pub(crate) fn goes_on(&mut self) {
        self.idle += self.idle_since.take().map_or(Duration::ZERO, |since| since.elapsed());
    }

    /// The next PULL behind it. The first PULL of the result has asked for `first`, and so does each at least.
    pub(crate) fn next(self, first: u32) -> Self {
        let first = first.max(1);
        let keeps_up = 2 * self.idle <= self.sent.elapsed();
        let most = if keeps_up { self.asked.saturating_mul(2) } else { first };
        let most = most.clamp(first, first.saturating_mul(GROWTH_MAX));
        let fitting = PULL_BYTES.saturating_mul(self.rows) / self.bytes.max(1);
        Self::first(u32::try_from(fitting).unwrap_or(most).clamp(first, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What PULLs ask for, of a result whose records have these sizes from PULL to PULL.
    fn asked(first: u32, sizes: &[usize]) -> Vec<u32> {
        let mut pulled = Pulled::first(first);
        let asks = |bytes: &usize| {
            (0..pulled.asked()).for_each(|_| pulled.add(*bytes));
            pulled = pulled.next(first);
            pulled.asked()
        };
        sizes.iter().map(asks).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn short_records_are_pulled_by_more_and_more_and_long_ones_by_the_thousand() {
        assert_eq!(asked(1_000, &[100; 6]), [2_000, 4_000, 8_000, 10_000, 10_000, 10_000]);
        assert_eq!(asked(1_000, &[1_000; 4]), [2_000, 4_000, 4_194, 4_194]);
        assert_eq!(asked(1_000, &[20_000, 64 << 20, 0]), [1_000, 1_000, 2_000]);
        assert_eq!(asked(0, &[1, 1, 1, 1, 1]), [2, 4, 8, 10, 10]);
        assert_eq!(Pulled::first(1_000).next(1_000).asked(), 1_000, "a PULL without records");
    }

    /// The records of one PULL decide the next, not those of all.
    #[tokio::test(start_paused = true)]
    async fn long_records_behind_short_ones_are_not_pulled_by_the_ten_thousand() {
        assert_eq!(asked(1_000, &[10, 10, 10, 10, 20_000]), [2_000, 4_000, 8_000, 10_000, 1_000]);
    }

    /// Neo4j holds what a slow reader does not take.
    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_no_more_than_at_first() {
        for (idle_ms, expected) in [(40, 2_000), (60, 1_000)] {
            let mut pulled = Pulled::first(1_000);
            (0..1_000).for_each(|_| pulled.add(10));
            pulled.rests();
            tokio::time::advance(Duration::from_millis(idle_ms)).await;
            pulled.goes_on();
            tokio::time::advance(Duration::from_millis(100 - idle_ms)).await;
            assert_eq!(pulled.next(1_000).asked(), expected, "{idle_ms} of 100 ms idle");
        }
    }
}
