//! Prometheus text, as far as benchmarks and trials read it.

use anyhow::Context;

/// Sum over a metric's series whose labels contain `label`; `None` without such a series.
pub fn sum(metrics: &str, name: &str, label: &str) -> Option<u64> {
    let series = metrics.lines().filter_map(|line| {
        let (series, value) = line.rsplit_once(' ')?;
        let (known, labels) = series.split_at(series.find('{').unwrap_or(series.len()));
        (known == name && labels.contains(label)).then(|| value.parse::<u64>().ok())?
    });
    series.reduce(|one, other| one + other)
}

/// The whole number behind a name at the start of a line.
pub fn number_behind(text: &str, name: &str) -> anyhow::Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number =
        line.and_then(|rest| rest.split_whitespace().next()).with_context(|| format!("no {name}"))?;
    Ok(number.parse()?)
}

#[cfg(test)]
mod tests {
    use super::sum;

    #[test]
    fn counters_are_summed_over_their_labels_only() {
        let metrics = "# TYPE a_total counter\na_total{x=\"1\"} 3\na_total{x=\"2\"} 4\na_total_more 9\nb 1\n";
        assert_eq!(sum(metrics, "a_total", ""), Some(7));
        assert_eq!(sum(metrics, "a_total", "x=\"2\""), Some(4));
        assert_eq!(sum(metrics, "b", ""), Some(1));
        assert_eq!(sum(metrics, "c", ""), None);
    }
}
