//! Formulas of early refresh by chance: how early it is, how often late, and at which extra load.
//!
//! The mode `adaptive` (`fitted.rs`) calls [`beta_for_late`] and Ein. [`mean_lead_ms`], [`late_probability`],
//! [`never_early_probability`] and [`load_factor`] decide nothing and run on no node. They evaluate a plan: for the
//! tests, which compare them with THEORY's numbers, simulated keys and each other, and for computing a plan by hand.
//!
//! Source: hits come as a Poisson process of rate λ, each fires with probability e^(−r/s) at r before expiry (Vattani,
//! Chierichetti, Lowenstein, PVLDB 8(8), 2015). Thinned so, the fires with more than x left are Poisson with mean ∫
//! λ·e^(−r/s) dr = λ·s·e^(−x/s); the lead L of the first one is Gumbel (THEORY "Early refresh"). Throughout, s = β·δ,
//! and λ·s = n·β is the expected number of fires before expiry. All functions take finite numbers that are not
//! negative.

/// Euler's constant γ.
const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

/// Expected fires before expiry: λ·s = n·β.
fn expected_fires(scale_ms: f64, rate_per_s: f64) -> f64 {
    scale_ms * rate_per_s / 1_000.0
}

/// `E[L⁺] = s·(ln(nβ) + γ + E1(nβ))`, in milliseconds. A first fire after expiry counts as no lead.
#[must_use]
pub fn mean_lead_ms(scale_ms: f64, rate_per_s: f64) -> f64 {
    scale_ms * entire_exponential_integral(expected_fires(scale_ms, rate_per_s))
}

/// P(late) = exp(−nβ·e^(−run/s)): a run of `run_ms` that begins with the first fire lands after expiry. With the
/// run's length as k·δ this is exp(−nβ·e^(−k/β)).
#[must_use]
pub fn late_probability(scale_ms: f64, rate_per_s: f64, run_ms: f64) -> f64 {
    if scale_ms <= 0.0 {
        return 1.0;
    }
    (-expected_fires(scale_ms, rate_per_s) * (-run_ms / scale_ms).exp()).exp()
}

/// P(no fire before expiry) = e^(−nβ).
#[must_use]
pub fn never_early_probability(scale_ms: f64, rate_per_s: f64) -> f64 {
    (-expected_fires(scale_ms, rate_per_s)).exp()
}

/// Origin runs, as a multiple of one for each TTL: `1 / (1 − E[L]/T)`. Infinite if the lead is the TTL or more.
#[must_use]
pub fn load_factor(mean_lead_ms: f64, ttl_ms: f64) -> f64 {
    if mean_lead_ms < ttl_ms { 1.0 / (1.0 - mean_lead_ms / ttl_ms) } else { f64::INFINITY }
}

/// β with P(late) = `late` for runs of k·δ: the solution of n·β·e^(−k/β) = ln(1/late), n = λδ > 0.
///
/// With w = k/β it reads w·e^w = n·k / ln(1/late), so β = k / W(n·k / ln(1/late)), W being Lambert's function.
/// Infinite for a key that nobody asks.
#[must_use]
pub fn beta_for_late(arrivals_per_run: f64, tail_factor: f64, late: f64) -> f64 {
    let product = arrivals_per_run * tail_factor / -late.ln();
    if product > 0.0 { tail_factor / lambert_w(product) } else { f64::INFINITY }
}

/// The principal branch of Lambert's W for x > 0: w·e^w = x.
///
/// Start: Winitzki's approximation, within 2 %. Step: Newton's on w + ln w = ln x, of quadratic order for every
/// x > 0 (Iacono and Boyd, "New approximations to the principal real-valued branch of the Lambert W-function",
/// Adv. Comput. Math. 43, 2017, eq. 22). Three steps reach the precision of f64.
fn lambert_w(x: f64) -> f64 {
    let log = x.ln_1p();
    let mut w = log * (1.0 - log.ln_1p() / (2.0 + log));
    for _ in 0..3 {
        w = w / (1.0 + w) * (1.0 + (x / w).ln());
    }
    w
}

/// E1(x) = ∫ₓ^∞ e^(−t)/t dt for x > 0.
///
/// Up to 2 by its series (Abramowitz and Stegun 5.1.11), above by its continued fraction (5.1.22), whose error at
/// depth m falls as e^(−4·√(m·x)): 85/x levels reach the precision of f64.
#[must_use]
pub fn exponential_integral(x: f64) -> f64 {
    if x <= 2.0 {
        return entire_series(x) - EULER_GAMMA - x.ln();
    }
    let mut fraction = x;
    #[expect(clippy::cast_possible_truncation, reason = "at most 46, x is above 2")]
    let levels = 3 + (85.0 / x) as i32;
    for depth in (1..=levels).rev() {
        let depth = f64::from(depth);
        fraction = x + depth / (1.0 + depth / fraction);
    }
    (-x).exp() / fraction
}

/// Ein(x) = ln(x) + γ + E1(x). It is 0 at 0, where the terms are not finite.
pub(super) fn entire_exponential_integral(x: f64) -> f64 {
    if x <= 2.0 {
        entire_series(x)
    } else if x < 40.0 {
        x.ln() + EULER_GAMMA + exponential_integral(x)
    } else {
        // E1 is below the last bit of the sum.
        x.ln() + EULER_GAMMA
    }
}

/// Ein(x) = Σ (−1)^(k+1)·x^k / (k·k!); for x ≤ 2 the 22nd term is below 10^−16.
fn entire_series(x: f64) -> f64 {
    let (mut sum, mut power) = (0.0, -1.0);
    for k in 1..=22 {
        let k = f64::from(k);
        power *= -x / k;
        sum += power / k;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abramowitz and Stegun, table 5.1.
    #[test]
    fn the_exponential_integral_is_the_printed_one() {
        for (x, printed) in [
            (0.01, 4.037_929_576_5),
            (0.5, 0.559_773_594_8),
            (1.0, 0.219_383_934_4),
            (2.0, 0.048_900_510_7),
            (5.0, 0.001_148_295_6),
            (10.0, 4.156_968_93e-6),
        ] {
            let ours = exponential_integral(x);
            assert!((ours / printed - 1.0).abs() < 1e-8, "E1({x}) = {ours}, printed {printed}");
        }
    }

    #[test]
    fn series_and_continued_fraction_meet() {
        let (below, above) = (exponential_integral(2.0), exponential_integral(2.0 + 1e-12));
        assert!((below - above).abs() < 1e-11, "{below} {above}");
        assert!((entire_exponential_integral(39.999_999) - entire_exponential_integral(40.0)).abs() < 1e-6);
        assert_eq!(entire_exponential_integral(0.0), 0.0);
    }

    #[test]
    fn lambert_w_inverts() {
        for exponent in -300..300 {
            let x = 10.0_f64.powi(exponent);
            let w = lambert_w(x);
            assert!((w + w.ln() - x.ln()).abs() <= 1e-12 * x.ln().abs().max(1.0), "W({x}) = {w}");
        }
    }
}
