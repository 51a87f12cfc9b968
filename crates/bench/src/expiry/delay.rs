//! How long the origin takes: log-normal, with the heavy tail of a database under load. The n-th run of
//! every scene with the same seed waits equally long.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hopcache_testbed::dice::Dice;

/// Standard deviation over mean, as in THEORY's table of recompute times that vary.
const CV: f64 = 1.5;
/// Longest delay over mean. It cuts 0.4 % of the draws, so that one of them cannot become the whole of a
/// short run.
const CAP: f64 = 10.0;

/// Delays of one scene, drawn in turn.
pub(crate) struct Delays {
    mean: Duration,
    seed: u64,
    drawn: AtomicU64,
}

impl Delays {
    pub(crate) fn new(mean: Duration, seed: u64) -> Self {
        Self { mean, seed, drawn: AtomicU64::new(0) }
    }

    /// The next one.
    pub(crate) fn draw(&self) -> Duration {
        self.at(self.drawn.fetch_add(1, Ordering::Relaxed))
    }

    fn at(&self, place: u64) -> Duration {
        if self.mean.is_zero() {
            return Duration::ZERO;
        }
        // Log-normal with mean 1: σ² = ln(1 + cv²), μ = −σ²/2.
        let variance = CV.mul_add(CV, 1.0).ln();
        let mut dice = Dice::new(self.seed ^ place.wrapping_mul(0xD134_2543_DE82_EF95));
        let factor = dice.normal().mul_add(variance.sqrt(), -variance / 2.0).exp();
        self.mean.mul_f64(factor.min(CAP))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_have_their_mean_and_spread_and_repeat() {
        let delays = Delays::new(Duration::from_millis(200), 42);
        let drawn: Vec<f64> = (0..50_000).map(|_| delays.draw().as_secs_f64()).collect();
        let mean = drawn.iter().sum::<f64>() / 50_000.0;
        let deviation = (drawn.iter().map(|each| (each - mean).powi(2)).sum::<f64>() / 50_000.0).sqrt();
        // The cap takes about 4 % off the mean and more off the deviation.
        assert!((0.180..0.205).contains(&mean), "{mean}");
        assert!((1.0..1.6).contains(&(deviation / mean)), "{}", deviation / mean);
        assert!(drawn.iter().all(|each| *each <= 2.0));
        let again = Delays::new(Duration::from_millis(200), 42);
        assert!((again.draw().as_secs_f64() - drawn[0]).abs() < 1e-12);
    }

    #[test]
    fn no_mean_is_no_delay() {
        assert_eq!(Delays::new(Duration::ZERO, 1).draw(), Duration::ZERO);
    }
}
