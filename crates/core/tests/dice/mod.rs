//! Seeded random numbers of the distributions that the tests need.

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform in [0, 1), 53 bits: what a node draws.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller, 1958).
    pub(crate) fn normal(&mut self) -> f64 {
        (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Arrivals where `mean` are expected: Poisson, by its normal limit where that is large.
    pub(crate) fn arrivals(&mut self, mean: f64) -> u32 {
        if mean > 200.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as u32;
        }
        let (mut count, mut spent) = (0, self.exponential());
        while spent < mean {
            count += 1;
            spent += self.exponential();
        }
        count
    }
}

/// Distribution of run times.
#[derive(Clone, Copy)]
pub(crate) struct RunTimes {
    pub(crate) mean_ms: f64,
    /// Deviation ÷ mean; 0 for constant run times, else lognormal.
    pub(crate) cv: f64,
}

impl RunTimes {
    /// Mean and deviation of ln(run time).
    fn logs(self) -> (f64, f64) {
        let variance = (1.0 + self.cv * self.cv).ln();
        (self.mean_ms.ln() - variance / 2.0, variance.sqrt())
    }

    /// The quantile at `deviations` above the median.
    pub(crate) fn quantile_ms(self, deviations: f64) -> f64 {
        let (mean, deviation) = self.logs();
        deviation.mul_add(deviations, mean).exp()
    }

    pub(crate) fn one_ms(self, dice: &mut Dice) -> f64 {
        self.quantile_ms(dice.normal())
    }

    /// E[f(run time)], by the trapezium rule on ±7 deviations.
    pub(crate) fn expect(self, f: impl Fn(f64) -> f64) -> f64 {
        let step = 0.005;
        (-1_400..=1_400)
            .map(|at| {
                let z = f64::from(at) * step;
                let density = (-z * z / 2.0).exp() / std::f64::consts::TAU.sqrt();
                f(self.quantile_ms(z)) * density * step
            })
            .sum()
    }
}
