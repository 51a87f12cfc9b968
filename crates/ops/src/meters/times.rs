//! The histograms of a node.

use super::counters::{Histogram, LIVED, TAKEN};
use super::definitions::{self as defined, Metric};
use super::exposition::Exposition;

pub(super) struct Times {
    /// In the order of [`crate::labels::CLASSES`].
    pub(super) requests: [Histogram; 3],
    pub(super) runs: Histogram,
    pub(super) refreshes: Histogram,
    pub(super) age: Histogram,
    pub(super) ttl_left: Histogram,
}

impl Times {
    pub(super) fn register() -> Self {
        let taken = |metric: Metric, labels| Histogram::new(metric.name, labels, &TAKEN);
        Self {
            requests: [
                taken(defined::REQUEST_TIMES, r#"class="read",result="hit""#),
                taken(defined::REQUEST_TIMES, r#"class="read",result="miss""#),
                taken(defined::REQUEST_TIMES, r#"class="bypass",result="bypass""#),
            ],
            runs: taken(defined::RUN_TIMES, ""),
            refreshes: taken(defined::REFRESH_TIMES, ""),
            age: Histogram::new(defined::AGES.name, "", &LIVED),
            ttl_left: Histogram::new(defined::TTLS_LEFT.name, "", &LIVED),
        }
    }

    pub(super) fn write(&self, out: &mut String, form: Exposition) {
        for (class, histogram) in self.requests.iter().enumerate() {
            histogram.write(out, (class == 0).then_some(defined::REQUEST_TIMES.help), form);
        }
        self.runs.write(out, Some(defined::RUN_TIMES.help), form);
        self.refreshes.write(out, Some(defined::REFRESH_TIMES.help), form);
        self.age.write(out, Some(defined::AGES.help), form);
        self.ttl_left.write(out, Some(defined::TTLS_LEFT.help), form);
    }
}
