//! One counter for each value of a label. The values are the closed lists of `labels`.

use metrics::Counter;

use super::definitions::Metric;

/// One counter for each label of a closed list.
pub(super) struct Family<const N: usize> {
    counters: [Counter; N],
}

impl<const N: usize> Family<N> {
    pub(super) fn new(metric: Metric, name: &'static str, labels: &[&'static str; N]) -> Self {
        Self::made(labels, |label| metric.counter_of(name, label))
    }

    pub(super) fn made(labels: &[&'static str; N], make: impl Fn(&'static str) -> Counter) -> Self {
        Self { counters: std::array::from_fn(|place| make(labels[place])) }
    }

    pub(super) fn add(&self, place: usize) {
        self.add_many(place, 1);
    }

    pub(super) fn add_many(&self, place: usize, more: u64) {
        if let Some(counter) = self.counters.get(place) {
            counter.increment(more);
        }
    }
}
