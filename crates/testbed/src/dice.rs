//! Seeded chance: the same seed gives the same arrivals, keys and delays, so that all strategies of a run
//! meet the same load. Never used for anything secret.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// In (0, 1]: its logarithm is finite.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    /// Any order of them is as likely as any other (Fisher and Yates, by Durstenfeld 1964).
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        (1..all.len()).rev().for_each(|last| all.swap(last, self.below(last + 1)));
    }

    /// Exponential with mean 1: the gaps of a Poisson process.
    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Standard normal (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// Ranks 0, 1, 2, … with the frequencies 1, 1/2^s, 1/3^s, …
pub struct Zipf {
    /// Sum of the frequencies up to each rank, over the sum of all.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// A distribution of this many ranks with this exponent.
    #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
    pub fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=ranks)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|each| *each /= sum);
        Self { cumulative }
    }

    /// A rank.
    pub fn draw(&self, dice: &mut Dice) -> usize {
        let unit = dice.unit();
        self.cumulative.partition_point(|each| *each < unit).min(self.cumulative.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_frequencies_are_those_of_its_definition() {
        // Zipf 0.99 on 1,000 ranks: H = 7.73; the first rank has 1/H = 0.129, the tenth 10^-0.99 of that.
        let (zipf, mut dice) = (Zipf::new(1_000, 0.99), Dice::new(7));
        let mut counts = vec![0_u32; 1_000];
        for _ in 0..200_000 {
            counts[zipf.draw(&mut dice)] += 1;
        }
        let harmonic: f64 = (1..=1_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        for (rank, count) in [(1, counts[0]), (10, counts[9])] {
            let wanted = 200_000.0 * f64::from(rank).powf(-0.99) / harmonic;
            assert!((f64::from(count) / wanted - 1.0).abs() < 0.05, "rank {rank}: {count}, not {wanted}");
        }
    }

    #[test]
    fn units_are_never_zero_and_gaps_have_mean_one() {
        let mut dice = Dice::new(1);
        let gaps: Vec<f64> = (0..100_000).map(|_| dice.exponential()).collect();
        assert!(gaps.iter().all(|gap| gap.is_finite() && *gap >= 0.0));
        let mean = gaps.iter().sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
