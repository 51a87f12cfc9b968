//! Whether an arm meets its conditions, by figures of paired rounds. Pure: it measures nothing.

use super::counts::Counts;

/// The judged figures of one round of one arm.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    pub(super) requests: usize,
    /// Requests whose client waited for the origin, also for a prefetch that was under way.
    pub(super) waited: usize,
    pub(super) errors: usize,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    /// Successors that the node knows which knows least, at the end.
    pub(super) forms_known: u64,
    /// Of the measured time.
    pub(super) counts: Counts,
}

/// An arm's round beside the same round without prefetch: the same clicks at the same times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Beside {
    /// Demand misses that reached the origin (runs with cause `miss`): share by which they are fewer.
    pub(super) misses_fewer: f64,
    /// The same share of requests that waited. A request that joined a prefetch under way counts.
    pub(super) waits_fewer: f64,
    /// Share by which the origin ran more, from any cause.
    pub(super) runs_more: f64,
    /// Difference of P99.
    pub(super) p99_more_ms: f64,
}

/// A condition, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) holds: bool,
    pub(super) text: String,
}

const MISSES_FEWER_LEAST: f64 = 0.30;
const ACCURACY_LEAST: f64 = 0.70;
const RUNS_MORE_MOST: f64 = 0.20;
/// With gossip off a node has to know less than this share of its knowledge with gossip: "clearly less".
const ALONE_MOST: f64 = 0.80;

impl Beside {
    pub(super) fn of(arm: &Figures, off: &Figures) -> Self {
        Self {
            misses_fewer: -more(arm.counts.miss_runs, off.counts.miss_runs),
            waits_fewer: -more(arm.waited as u64, off.waited as u64),
            runs_more: more(arm.counts.runs, off.counts.runs),
            p99_more_ms: arm.p99_ms - off.p99_ms,
        }
    }
}

/// The increase as a share of `base`; 0 if `base` is 0.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn more(count: u64, base: u64) -> f64 {
    if base == 0 { 0.0 } else { count as f64 / base as f64 - 1.0 }
}

/// The middle one; of nothing, 0.
pub(super) fn median(values: impl Iterator<Item = f64>) -> f64 {
    hopcache_testbed::report::Spread::of(&values.collect::<Vec<f64>>()).median
}

fn beside(arm: &[Figures], off: &[Figures], figure: impl Fn(&Beside) -> f64) -> f64 {
    median(arm.iter().zip(off).map(|(arm, off)| figure(&Beside::of(arm, off))))
}

/// Must show 3: an arm's rounds beside those without prefetch, and beside those where nodes learn alone.
pub(super) fn of_walks(arm: &[Figures], off: &[Figures], alone: Option<&[Figures]>) -> Vec<Point> {
    let fewer = beside(arm, off, |beside| beside.misses_fewer);
    let more = beside(arm, off, |beside| beside.runs_more);
    let accuracy = median(arm.iter().map(|each| each.counts.accuracy().unwrap_or(0.0)));
    let mut points = vec![
        point(
            fewer >= MISSES_FEWER_LEAST,
            format!(
                "demand misses {:.1} % fewer, at least {:.0} %",
                fewer * 100.0,
                MISSES_FEWER_LEAST * 100.0
            ),
        ),
        point(accuracy >= ACCURACY_LEAST, format!("accuracy {accuracy:.3}, at least {ACCURACY_LEAST:.2}")),
        point(
            more <= RUNS_MORE_MOST,
            format!("origin runs {:+.1} %, at most {:+.0} %", more * 100.0, RUNS_MORE_MOST * 100.0),
        ),
        of_errors(arm),
    ];
    if let Some(alone) = alone {
        let by_itself = beside(alone, off, |beside| beside.misses_fewer);
        #[expect(clippy::cast_precision_loss, reason = "thousands")]
        let known = |rounds: &[Figures]| median(rounds.iter().map(|each| each.forms_known as f64));
        let (apart, together) = (known(alone), known(arm));
        points.push(point(
            apart < together * ALONE_MOST,
            format!(
                "with gossip off the node that knows least knows {apart:.0} successors, with gossip {together:.0}, less than {:.0} % of that; demand misses {:.1} % fewer, {:.1} % with gossip",
                ALONE_MOST * 100.0,
                by_itself * 100.0,
                fewer * 100.0
            ),
        ));
    }
    points
}

fn of_errors(arm: &[Figures]) -> Point {
    let errors: usize = arm.iter().map(|each| each.errors).sum();
    point(errors == 0, format!("{errors} client errors"))
}

fn point(holds: bool, text: String) -> Point {
    Point { holds, text }
}

impl std::fmt::Display for Point {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "- {}: {}", if self.holds { "holds" } else { "MISSED" }, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(miss_runs: u64, prefetch_runs: u64, used: u64, wasted: u64) -> Figures {
        let counts = Counts {
            miss_runs,
            prefetch_runs,
            runs: miss_runs + prefetch_runs,
            launched: prefetch_runs,
            used,
            wasted,
            ..Counts::default()
        };
        Figures { requests: 1_000, waited: 100, p99_ms: 50.0, forms_known: 120, counts, ..Figures::default() }
    }

    fn held(points: &[Point]) -> Vec<bool> {
        points.iter().map(|point| point.holds).collect()
    }

    #[test]
    fn walks_are_judged_by_the_figures_of_the_issue() {
        let off = [figures(1_000, 0, 0, 0); 3];
        let alone = [Figures { forms_known: 40, ..figures(950, 60, 50, 10) }; 3];
        // 30 % fewer misses, and 428 runs with 70 % used: +12.8 % of runs.
        let good = [figures(700, 428, 300, 128); 3];
        assert_eq!(held(&of_walks(&good, &off, Some(&alone))), [true; 5]);
        let short = [figures(701, 428, 300, 128); 3];
        assert_eq!(held(&of_walks(&short, &off, Some(&alone))), [false, true, true, true, true]);
        let wasteful = [figures(600, 700, 400, 300); 3];
        assert_eq!(held(&of_walks(&wasteful, &off, Some(&alone))), [true, false, false, true, true]);
        let as_wise = alone.map(|each| Figures { forms_known: 96, ..each });
        assert_eq!(held(&of_walks(&good, &off, Some(&as_wise))), [true, true, true, true, false]);
        let failing = good.map(|each| Figures { errors: 1, ..each });
        assert_eq!(held(&of_walks(&failing, &off, None)), [true, true, true, false]);
    }

    #[test]
    fn rounds_are_paired_before_the_median_is_taken() {
        // Rounds of different weight: each has half of its own partner.
        let off = [figures(1_000, 0, 0, 0), figures(100, 0, 0, 0), figures(10, 0, 0, 0)];
        let arm = [figures(500, 100, 9, 1), figures(50, 10, 9, 1), figures(5, 1, 1, 0)];
        assert!((beside(&arm, &off, |beside| beside.misses_fewer) - 0.5).abs() < 1e-9);
    }
}
