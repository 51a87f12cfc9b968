//! Nodes before a Neo4j whose runs are slow: a proxy before Neo4j holds the benchmark's runs back and counts them, outside hopcache:
//! the truth about runs. It changes no byte. Delays are log-normal, with the heavy tail of a database under load. The n-th run of
//! every scene with the same seed waits equally long.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hopcache_testbed::bolt_proxy::BoltProxy;
use hopcache_testbed::dice::Dice;
use hopcache_testbed::neo4j;
use hopcache_testbed::node::{Nodes, PREFETCH_OFF};

/// Nodes of a measurement that does not say otherwise.
pub(crate) const NODES: usize = 3;
/// Every statement of the benchmark names a column so, and no other does: EXPLAINs, log-ons and a node's own queries pass at once
/// and do not count as runs.
pub(crate) const MARK: &str = "AS benched";
/// Standard deviation over mean, as in THEORY's table of recompute times that vary.
const CV: f64 = 1.5;
/// Longest delay over mean. It cuts 0.4 % of the draws, so that one of them cannot become the whole of a
/// short run.
const CAP: f64 = 10.0;

/// The plan of a measurement.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// More lines of `[entry]`.
    pub(crate) entry: &'static str,
    /// Further sections of the configuration.
    pub(crate) sections: String,
    pub(crate) ttl: Duration,
    pub(crate) jitter: f64,
    /// Mean delay that the proxy adds to each run.
    pub(crate) delay: Duration,
    /// `origin.max_concurrent` of each node.
    pub(crate) concurrent_max: u32,
    pub(crate) seed: u64,
}

/// Everything that runs. Dropped in this order: clients go before servers.
pub(crate) struct Scene {
    pub(crate) nodes: Nodes,
    pub(crate) proxy: BoltProxy,
}

impl Scene {
    pub(crate) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        let proxy = BoltProxy::start(&neo4j::bolt()?).await?;
        let (mean, seed, drawn) = (plan.delay, plan.seed, AtomicU64::new(0));
        proxy.draw_delays(MARK, move || delay(mean, seed, drawn.fetch_add(1, Ordering::Relaxed)));
        let nodes = Nodes::start(NODES, &configuration(plan, &proxy.addr().to_string())).await?;
        Ok(Self { nodes, proxy })
    }
}

fn delay(mean: Duration, seed: u64, place: u64) -> Duration {
    // Log-normal with mean 1: σ² = ln(1 + cv²), μ = −σ²/2.
    let variance = CV.mul_add(CV, 1.0).ln();
    let mut dice = Dice::new(seed ^ place.wrapping_mul(0xD134_2543_DE82_EF95));
    let factor = dice.normal().mul_add(variance.sqrt(), -variance / 2.0).exp();
    mean.mul_f64(factor.min(CAP))
}

fn configuration(plan: &Plan, neo4j: &str) -> String {
    let Plan { entry, sections, ttl, jitter, concurrent_max, .. } = plan;
    let mut text = format!(
        "[origin]\nuri = \"bolt://{neo4j}\"\nmax_concurrent = {concurrent_max}\ntimeout = \"30s\"\n[entry]\nttl = \"{}ms\"\nttl_jitter = {jitter:?}\n{entry}{sections}",
        ttl.as_millis()
    );
    // What is measured is the end of a TTL.
    let _ = writeln!(text, "[freshness]\nmax_life = \"0s\"");
    // Arms are compared by their runs, so prefetch is off unless it is measured.
    if !sections.contains("[prefetch]") {
        text.push_str(PREFETCH_OFF);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_have_their_mean_and_spread_and_repeat() {
        let mean = Duration::from_millis(200);
        let drawn: Vec<f64> = (0..50_000).map(|place| delay(mean, 42, place).as_secs_f64()).collect();
        let mean_s = drawn.iter().sum::<f64>() / 50_000.0;
        let deviation = (drawn.iter().map(|each| (each - mean_s).powi(2)).sum::<f64>() / 50_000.0).sqrt();
        // The cap takes about 4 % off the mean and more off the deviation.
        assert!((0.180..0.205).contains(&mean_s), "{mean_s}");
        assert!((1.0..1.6).contains(&(deviation / mean_s)), "{}", deviation / mean_s);
        assert!(drawn.iter().all(|each| *each <= 2.0));
        assert_eq!(delay(mean, 42, 7), delay(mean, 42, 7));
        assert_eq!(delay(Duration::ZERO, 1, 1), Duration::ZERO);
    }
}
