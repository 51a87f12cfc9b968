//! Which sessions are observed at a node that is busy: all observations of some sessions, so that the model learns some
//! sessions as a whole and not all of them in part. Decides the share; the caller counts and compares.

/// The share of sessions that are observed, as the greatest number of a session that is. The numbers are digests, spread
/// evenly over all values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledSessions {
    number_max: u64,
}

impl Default for SampledSessions {
    fn default() -> Self {
        Self::ALL
    }
}

impl SampledSessions {
    /// Every session.
    pub const ALL: Self = Self { number_max: u64::MAX };

    /// The sessions up to this number.
    #[must_use]
    pub fn of(number_max: u64) -> Self {
        Self { number_max }
    }

    /// The greatest number of a session that is observed.
    #[must_use]
    pub fn number_max(self) -> u64 {
        self.number_max
    }

    /// The sessions to observe after a round with `seen` observations of these sessions, so that a round has about
    /// `round_max`. The share at most doubles from one round to the next: one quiet round proves little.
    #[must_use]
    pub fn after(self, seen: usize, round_max: usize) -> Self {
        let doubled = u128::from(self.number_max) * 2 + 1;
        let fitting = u128::from(self.number_max).saturating_mul(round_max as u128) / seen.max(1) as u128;
        let number_max = fitting.max(1).min(doubled).min(u128::from(u64::MAX));
        Self { number_max: u64::try_from(number_max).unwrap_or(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node that answers 80,000 requests a second learns from about 200 of 20,000 in a round, and from all again when
    /// it is quiet.
    #[test]
    fn the_share_follows_the_load() {
        let mut sampled = SampledSessions::ALL;
        assert_eq!(sampled.after(200, 200), SampledSessions::ALL, "as many as allowed");
        sampled = sampled.after(20_000, 200);
        let share = |sampled: SampledSessions| sampled.number_max() as f64 / u64::MAX as f64;
        assert!((share(sampled) - 0.01).abs() < 1e-6, "{}", share(sampled));
        // The same load: 200 of the sampled sessions.
        sampled = sampled.after(200, 200);
        assert!((share(sampled) - 0.01).abs() < 1e-6, "{}", share(sampled));
        let rounds = (0..).take_while(|_| {
            sampled = sampled.after(0, 200);
            sampled != SampledSessions::ALL
        });
        assert_eq!(rounds.count(), 6, "1 % doubles seven times until it is all");
        assert!(SampledSessions::ALL.after(usize::MAX, 1).number_max() >= 1, "never nobody at all");
    }
}
