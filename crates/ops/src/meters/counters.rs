//! Counters and histograms that every request changes.
//!
//! Two threads that add to the same cache line wait for each other longer than the addition takes, and a hit adds to five
//! of them. So each counter has several stripes, one for each of a few threads, and reading sums them. Histograms count
//! into fixed buckets at once. The histograms of the exporter keep every sample until they are read.
//!
//! The names and labels of metrics are in `definitions` and `labels`.

use std::cell::Cell;
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use metrics::Counter;
use opentelemetry::TraceId;

use super::definitions::Metric;
use super::exemplars::Exemplars;
use super::exposition::Exposition;
use super::instrument::{Instrument, Label};

/// Number of stripes. More threads share stripes. A power of two.
const STRIPES: usize = 8;

/// Two cache lines, because processors fetch lines in pairs.
#[repr(align(128))]
struct Stripe<T>(T);

/// The stripe of this thread.
fn stripe() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    MINE.with(|mine| {
        mine.get().unwrap_or_else(|| {
            let next = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
            mine.set(Some(next));
            next
        })
    })
}

/// A counter in stripes whose sum the exporter shows.
pub(super) struct BusyCounter {
    stripes: [Stripe<AtomicU64>; STRIPES],
    shown: Counter,
}

impl BusyCounter {
    /// Counts for `shown`. Nothing else may add to `shown`.
    pub(super) fn new(shown: Counter) -> Self {
        Self { stripes: std::array::from_fn(|_| Stripe(AtomicU64::new(0))), shown }
    }

    /// One more.
    pub(super) fn add(&self) {
        if let Some(stripe) = self.stripes.get(stripe()) {
            stripe.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the sum to the exporter.
    pub(super) fn show(&self) {
        self.shown.absolute(self.stripes.iter().map(|stripe| stripe.0.load(Ordering::Relaxed)).sum());
    }
}

/// The kind of a histogram.
pub(super) trait Scaled {
    const SCALE: Scale;
}

/// The buckets of a histogram, and its unit.
#[derive(Debug)]
pub(super) struct Scale {
    /// Upper bounds, in the unit of the histogram.
    bounds: [u64; BUCKETS],
    /// The same in seconds, as the exposition format writes them.
    text: [&'static str; BUCKETS],
    /// Units in a second.
    per_second: u64,
}

const BUCKETS: usize = 18;

/// Durations in µs, from a memory hit (10 µs) to the longest wait (a minute), in steps of about ×2.5. The last two bounds
/// lie a little above the default of `origin.timeout` and above the longest wait of a client. So a request that ends by a
/// deadline falls below its bound, and not into the bucket above.
pub(super) struct Taken;

impl Scaled for Taken {
    const SCALE: Scale = Scale {
        bounds: [
            10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 25_000, 100_000, 250_000, 1_000_000, 2_500_000,
            5_000_000, 15_000_000, 31_000_000, 61_000_000,
        ],
        text: [
            "0.00001", "0.000025", "0.00005", "0.0001", "0.00025", "0.0005", "0.001", "0.0025", "0.01",
            "0.025", "0.1", "0.25", "1", "2.5", "5", "15", "31", "61",
        ],
        per_second: 1_000_000,
    };
}

/// Ages and remaining lifetimes in ms. The first bucket holds 0, and the last bound is a day. In µs the sum would
/// overflow within a day at a hundred thousand hits a second on entries that are an hour old.
pub(super) struct Lived;

impl Scaled for Lived {
    const SCALE: Scale = Scale {
        bounds: [
            0, 100, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 90_000, 120_000, 300_000, 600_000,
            1_200_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000,
        ],
        text: [
            "0", "0.1", "1", "2", "5", "10", "15", "30", "60", "90", "120", "300", "600", "1200", "3600",
            "7200", "21600", "86400",
        ],
        per_second: 1_000,
    };
}

impl Scale {
    fn units(&self, span: Duration) -> u64 {
        let units = if self.per_second == 1_000 { span.as_millis() } else { span.as_micros() };
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// The place of the first bound that is not below.
    fn bucket(&self, units: u64) -> usize {
        self.bounds.partition_point(|bound| *bound < units)
    }
}

#[derive(Default)]
struct Buckets {
    /// The last one has no upper bound.
    counts: [AtomicU64; BUCKETS + 1],
    sum: AtomicU64,
}

/// A histogram of durations.
pub(super) struct Histogram<S> {
    metric: Metric,
    /// As in the exposition, such as `class="read"`, or empty.
    labels: String,
    stripes: [Stripe<Buckets>; STRIPES],
    exemplars: Exemplars<{ BUCKETS + 1 }>,
    scale: PhantomData<S>,
}

impl<S: Scaled> Instrument for Histogram<S> {
    fn register(metric: Metric, _: &[&'static str], labels: &[Label]) -> Self {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let stripes = std::array::from_fn(|_| Stripe(Buckets::default()));
        Self { metric, labels: labels.join(","), stripes, exemplars: Exemplars::none(), scale: PhantomData }
    }

    fn write(&self, text: &mut String, form: Exposition) {
        self.write_head(text);
        self.write_series(text, form);
    }
}

impl<S: Scaled> Histogram<S> {
    /// Counts a duration.
    pub(super) fn record(&self, span: Duration) {
        let units = S::SCALE.units(span);
        let bucket = S::SCALE.bucket(units);
        let Some(Stripe(mine)) = self.stripes.get(stripe()) else { return };
        mine.sum.fetch_add(units, Ordering::Relaxed);
        if let Some(count) = mine.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A duration that was counted is that of a request of this trace.
    pub(super) fn exemplify(&self, span: Duration, trace: TraceId) {
        self.exemplars.keep(S::SCALE.bucket(S::SCALE.units(span)), span, trace);
    }

    /// Appends what stands above all histograms of the same name.
    pub(super) fn write_head(&self, out: &mut String) {
        let Metric { name, help } = self.metric;
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} histogram");
    }

    /// Appends its lines.
    pub(super) fn write_series(&self, out: &mut String, form: Exposition) {
        let (name, labels, scale) = (self.metric.name, &self.labels, S::SCALE);
        let separator = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bucket, bound) in scale.text.iter().chain(&["+Inf"]).enumerate() {
            below += self.sum(|buckets| buckets.counts.get(bucket));
            let _ = write!(out, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {below}");
            if form == Exposition::OpenMetrics {
                self.exemplars.write(bucket, out);
            }
            out.push('\n');
        }
        let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let sum = self.sum(|buckets| Some(&buckets.sum));
        let (seconds, rest) = (sum / scale.per_second, sum % scale.per_second);
        let digits = if scale.per_second == 1_000 { 3 } else { 6 };
        let _ = writeln!(out, "{name}_sum{braced} {seconds}.{rest:0digits$}");
        let _ = writeln!(out, "{name}_count{braced} {below}\n");
    }

    fn sum(&self, part: impl Fn(&Buckets) -> Option<&AtomicU64>) -> u64 {
        self.stripes
            .iter()
            .filter_map(|stripe| part(&stripe.0))
            .map(|part| part.load(Ordering::Relaxed))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram<S: Scaled>(labels: &[Label]) -> Histogram<S> {
        Histogram::register(Metric { name: "t_seconds", help: "What." }, &[], labels)
    }

    #[test]
    fn a_histogram_counts_each_duration_once_and_cumulates() {
        let histogram = histogram::<Taken>(&[("class", "read")]);
        for us in [10, 11, 70_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let mut text = String::new();
        histogram.write(&mut text, Exposition::Prometheus);
        assert!(text.starts_with("# HELP t_seconds What.\n# TYPE t_seconds histogram\n"), "{text}");
        for line in [
            "t_seconds_bucket{class=\"read\",le=\"0.00001\"} 1",
            "t_seconds_bucket{class=\"read\",le=\"0.000025\"} 2",
            "t_seconds_bucket{class=\"read\",le=\"61\"} 2",
            "t_seconds_bucket{class=\"read\",le=\"+Inf\"} 3",
            "t_seconds_sum{class=\"read\"} 70.000021",
            "t_seconds_count{class=\"read\"} 3",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn a_bucket_shows_its_newest_trace_in_open_metrics_only() {
        let histogram = histogram::<Taken>(&[]);
        for (us, trace) in [(9, 1), (10, 2), (70_000_000, 3)] {
            histogram.record(Duration::from_micros(us));
            histogram.exemplify(Duration::from_micros(us), TraceId::from(trace));
        }
        let (mut open, mut plain) = (String::new(), String::new());
        histogram.write(&mut open, Exposition::OpenMetrics);
        histogram.write(&mut plain, Exposition::Prometheus);
        let shown: Vec<&str> = open.lines().filter(|line| line.contains(" # ")).collect();
        let [first, last] = shown[..] else { panic!("{open}") };
        let at = |le: &str, count: u32, trace: u32, took: &str| {
            format!("t_seconds_bucket{{le=\"{le}\"}} {count} # {{trace_id=\"{trace:032x}\"}} {took} ")
        };
        assert!(first.starts_with(&at("0.00001", 2, 2, "0.000010")), "{first}");
        assert!(last.starts_with(&at("+Inf", 3, 3, "70.000000")), "{last}");
        let counts = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split(" # ").next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(counts(&open), counts(&plain));
        assert!(!plain.contains(" # "), "{plain}");
    }

    #[test]
    fn bounds_and_their_text_are_the_same_numbers() {
        for scale in [Taken::SCALE, Lived::SCALE] {
            assert!(scale.bounds.is_sorted());
            for (bound, text) in scale.bounds.iter().zip(scale.text) {
                let seconds: f64 = text.parse().unwrap();
                assert_eq!((seconds * scale.per_second as f64).round() as u64, *bound);
            }
        }
    }

    /// A copy without time left has a bucket of its own, and ten years do not overflow.
    #[test]
    fn ages_are_counted_from_nothing_to_years() {
        let histogram = histogram::<Lived>(&[]);
        for seconds in [0, 61, 10 * 365 * 86_400] {
            histogram.record(Duration::from_secs(seconds));
        }
        let mut text = String::new();
        histogram.write(&mut text, Exposition::Prometheus);
        for line in [
            "t_seconds_bucket{le=\"0\"} 1",
            "t_seconds_bucket{le=\"90\"} 2",
            "t_seconds_bucket{le=\"86400\"} 2",
            "t_seconds_sum 315360061.000",
            "t_seconds_count 3",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn threads_add_up() {
        let histogram = histogram::<Taken>(&[]);
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| (0..100).for_each(|_| histogram.record(Duration::from_millis(1))));
            }
        });
        let mut text = String::new();
        histogram.write(&mut text, Exposition::Prometheus);
        assert!(text.contains("t_seconds_count 1600"), "{text}");
    }
}
