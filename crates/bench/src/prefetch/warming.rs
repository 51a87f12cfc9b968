//! Whether measurements that warm Neo4j have done so: it compiles what it runs often, and gets faster for minutes.

/// Whether the last rate is no more than a twentieth above the greatest before.
pub(super) fn is_warm(rates: &[f64]) -> bool {
    let Some((last, before)) = rates.split_last() else { return false };
    *last < 1.05 * before.iter().copied().fold(0.0, f64::max)
}

/// Rates as a report shows them.
pub(super) fn listed(rates: &[f64]) -> String {
    rates.iter().map(|per_s| format!("{per_s:.0}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neo4j_is_warm_when_a_rate_is_hardly_above_those_before() {
        assert_eq!(
            [&[1_200.0][..], &[1_200.0, 4_000.0], &[4_000.0, 1_200.0, 4_199.0]].map(is_warm),
            [false, false, true]
        );
        assert_eq!(listed(&[1_200.4, 4_000.0]), "1200, 4000");
    }
}
