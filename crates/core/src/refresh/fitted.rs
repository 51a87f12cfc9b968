//! The mode `adaptive`: β, or a window, for a key's own rate and cost (DESIGN "Early refresh").
//!
//! # The equation
//!
//! n·β·e^(−k/β) = ln(1/ε) for P(late) = ε, n = λδ. The factor k is a late run's length ÷ δ. The 99th percentile itself
//! is not enough: one run in a hundred takes longer, and is late more often than ε. So k is taken further out on the
//! same lognormal distribution.
//!
//! By chance it is the 99.7th percentile, because the lead varies too and often covers a longer run. P(late) over all
//! runs is then at most 2·10⁻³ (computed for cv 0 to 2.6 and 1 to 10,000 requests per second; with the 99th percentile
//! and cv 1.5 it is 3.2·10⁻³ at 1,000/s). By window it is the quantile at 1 − ε, because that lead hardly varies:
//! P(late) ≤ P(run > its quantile) + ε = 2ε. If all runs take the same time, k is 1.
//!
//! # β0 and σ
//!
//! They multiply the solution, before the bounds. At β0·σ = 1 P(late) is ε, above it is less, below it is more. More is
//! then the operator's choice and no reason for a window. They multiply the window as well.
//!
//! # Rarely asked keys
//!
//! The rarer a key, the larger its β: at one request per second it is 35, a lead of 18 s at δ = 200 ms. If a bound cuts
//! β below the solution, a window replaces it. The first hit with w = kδ + ln(1/ε)/λ left refreshes. It is late with
//! probability ε, and leads by only w − 1/λ. It needs an owner that sees all hits, and near copies report theirs.
//!
//! If w is over a fifth of the TTL, lateness is accepted. Such a key is asked at most a few dozen times in a TTL, or
//! its read takes a large part of the TTL. A wider window would read it anew for few requests or none. A late refresh
//! makes nobody wait, since the stale copy is served meanwhile.

use super::formulas::{beta_for_late, entire_exponential_integral};
use super::{Cost, Plan, Timing};
use crate::limits::{
    REFRESH_FITTED_BETA_MAX, REFRESH_FITTED_BETA_MIN, REFRESH_LATE_SHARE, REFRESH_LEAD_SHARE_MAX,
    REFRESH_RATE_PER_S_UNKNOWN,
};
use crate::time::Millis;

/// Standard deviations from the median to the 99.7th percentile: the run that a refresh by chance assumes.
const CHANCE_DEVIATIONS: f64 = 2.748;
/// The same to 1 − ε: the run that a window assumes.
const WINDOW_DEVIATIONS: f64 = 3.090;
/// Newton's steps towards the bound on the lead: 2 to 5 are usual, and any number is on the safe side.
const STEPS_MAX: u32 = 12;
/// The steps end this close above the bound; the linear step that follows ends as close below it.
const LEAD_TOLERANCE: f64 = 1e-3;

/// Plan for a key with a history. `factor` is β0·σ.
pub(super) fn by_history(cost: Cost, ttl_ms: Millis, rate_per_s: f64, factor: f64) -> Plan {
    let lead_ms_max = lead_ms_max(ttl_ms);
    let arrivals_per_run = rate_per_s * cost.mean_ms / 1_000.0;
    let tail_factor = cost.quantile_ms(CHANCE_DEVIATIONS) / cost.mean_ms;
    // Infinite if nobody asks. Made finite here, so that no factor makes it NaN.
    let solved = beta_for_late(arrivals_per_run, tail_factor, REFRESH_LATE_SHARE).min(f64::MAX);
    let beta = within_bounds(solved * factor, cost, arrivals_per_run, lead_ms_max);
    let by_chance = |timing| Plan { scale_ms: beta * cost.mean_ms, ahead_ms: 0.0, timing };
    if beta >= solved * factor.min(1.0) {
        return by_chance(Timing::Fitted);
    }
    let window_ms = cost.quantile_ms(WINDOW_DEVIATIONS) - REFRESH_LATE_SHARE.ln() * 1_000.0 / rate_per_s;
    if window_ms <= lead_ms_max {
        let ahead_ms = (window_ms * factor).min(lead_ms_max);
        return Plan { scale_ms: 0.0, ahead_ms, timing: Timing::RefreshAhead };
    }
    by_chance(Timing::LateAccepted)
}

/// Plan for a key without history: the degree estimates how hot it may be.
pub(super) fn by_prior(cost: Cost, ttl_ms: Millis, beta: f64) -> Plan {
    let arrivals_per_run = REFRESH_RATE_PER_S_UNKNOWN * cost.mean_ms / 1_000.0;
    let beta = within_bounds(beta, cost, arrivals_per_run, lead_ms_max(ttl_ms));
    Plan { scale_ms: beta * cost.mean_ms, ahead_ms: 0.0, timing: Timing::Prior }
}

fn lead_ms_max(ttl_ms: Millis) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a share of it needs no more than 53 bits")]
    let ttl_ms = ttl_ms.0 as f64;
    ttl_ms * REFRESH_LEAD_SHARE_MAX
}

/// β within its own bounds, and below them where the mean lead would be over its bound.
fn within_bounds(beta: f64, cost: Cost, arrivals_per_run: f64, lead_ms_max: f64) -> f64 {
    let beta = beta.clamp(REFRESH_FITTED_BETA_MIN, REFRESH_FITTED_BETA_MAX);
    beta_within_lead(beta, arrivals_per_run, lead_ms_max / cost.mean_ms)
}

/// The largest β' ≤ β with β'·Ein(nβ') ≤ `lead`, the mean lead in runs; rather a little less than more.
///
/// The left side h is convex and grows from 0, so Newton's method comes down from β without passing the solution.
/// h(t·β) ≤ t·h(β) for t ≤ 1, so the last, linear step ends at the solution or before it.
fn beta_within_lead(mut beta: f64, arrivals_per_run: f64, lead: f64) -> f64 {
    let lead_of = |beta: f64| beta * entire_exponential_integral(arrivals_per_run * beta);
    for _ in 0..STEPS_MAX {
        let reached = lead_of(beta);
        if reached <= lead * (1.0 + LEAD_TOLERANCE) {
            break;
        }
        let slope = reached / beta - (-arrivals_per_run * beta).exp_m1();
        beta = (beta - (reached - lead) / slope).max(0.0);
    }
    let reached = lead_of(beta);
    if reached > lead { beta * lead / reached } else { beta }
}
