//! The kinds of metrics: how each is registered, for every value of its labels.

use std::marker::PhantomData;

use hopcache_core::words::Word;
use metrics::{Counter, Gauge, counter, describe_counter, describe_gauge, gauge};

use super::counters::{BusyCounter, Histogram, Taken};
use super::definitions::Metric;
use super::exposition::Exposition;
use crate::labels::AnswerClass;

/// A label's name and its value.
pub(super) type Label = (&'static str, &'static str);

/// A kind of metric.
pub(super) trait Instrument: Sized {
    /// Registers one series for each value of the labels `names`, all of them with `labels`.
    fn register(metric: Metric, names: &[&'static str], labels: &[Label]) -> Self;

    /// Gives the exporter the sum, if the exporter does not have it.
    fn show(&self) {}

    /// Appends the lines that the exporter does not have.
    fn write(&self, _text: &mut String, _form: Exposition) {}
}

/// A metric whose value is read for each exposition.
pub(super) trait Reading<T> {
    fn take(&self, now: T);
}

impl Instrument for Counter {
    fn register(metric: Metric, _: &[&'static str], labels: &[Label]) -> Self {
        describe_counter!(metric.name, metric.help);
        counter!(metric.name, &labels.to_vec())
    }
}

impl Instrument for Gauge {
    fn register(metric: Metric, _: &[&'static str], labels: &[Label]) -> Self {
        describe_gauge!(metric.name, metric.help);
        gauge!(metric.name, &labels.to_vec())
    }
}

impl Instrument for BusyCounter {
    fn register(metric: Metric, names: &[&'static str], labels: &[Label]) -> Self {
        Self::new(Instrument::register(metric, names, labels))
    }

    fn show(&self) {
        Self::show(self);
    }
}

/// One `I` for each word of a label.
pub(super) struct By<W, I>(Box<[I]>, PhantomData<W>);

impl<W: Word, I> By<W, I> {
    pub(super) fn of(&self, word: W) -> &I {
        &self.0[word.place()]
    }
}

impl<W: Word> By<W, Counter> {
    pub(super) fn add(&self, word: W) {
        self.of(word).increment(1);
    }
}

impl<W: Word, I: Instrument> Instrument for By<W, I> {
    fn register(metric: Metric, names: &[&'static str], labels: &[Label]) -> Self {
        let (name, rest) = names.split_first().unwrap_or((&"", &[]));
        let of_word = |word: &W| I::register(metric, rest, &[labels, &[(*name, word.word())]].concat());
        Self(W::ALL.iter().map(of_word).collect(), PhantomData)
    }

    fn show(&self) {
        self.0.iter().for_each(I::show);
    }
}

/// How long requests took, by how they were answered.
pub(super) struct RequestTimes([Histogram<Taken>; AnswerClass::ALL.len()]);

impl RequestTimes {
    pub(super) fn of(&self, answered: AnswerClass) -> &Histogram<Taken> {
        &self.0[answered.place()]
    }
}

impl Instrument for RequestTimes {
    fn register(metric: Metric, _: &[&'static str], _: &[Label]) -> Self {
        let of_class =
            |class, result| Histogram::register(metric, &[], &[("class", class), ("result", result)]);
        Self([of_class("read", "hit"), of_class("read", "miss"), of_class("bypass", "bypass")])
    }

    fn write(&self, text: &mut String, form: Exposition) {
        self.0[0].write_head(text);
        self.0.iter().for_each(|histogram| histogram.write_series(text, form));
    }
}

/// The program's version. Its value never changes: its labels are the point.
pub(super) struct BuildInfo;

impl Instrument for BuildInfo {
    fn register(metric: Metric, _: &[&'static str], _: &[Label]) -> Self {
        let commit = option_env!("HOPCACHE_COMMIT").unwrap_or("unknown");
        let labels = [("version", env!("CARGO_PKG_VERSION")), ("commit", commit)];
        Gauge::register(metric, &[], &labels).set(1.0);
        Self
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges are doubles; these counts are far below 2^53")]
impl Reading<u64> for Gauge {
    fn take(&self, now: u64) {
        self.set(now as f64);
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges are doubles; these counts are far below 2^53")]
impl Reading<usize> for Gauge {
    fn take(&self, now: usize) {
        self.set(now as f64);
    }
}

impl Reading<f64> for Gauge {
    fn take(&self, now: f64) {
        self.set(now);
    }
}

impl Reading<u64> for Counter {
    fn take(&self, now: u64) {
        self.absolute(now);
    }
}

impl<W: Word, const N: usize> Reading<[bool; N]> for By<W, Gauge> {
    fn take(&self, now: [bool; N]) {
        for (gauge, is_so) in self.0.iter().zip(now) {
            gauge.set(f64::from(u8::from(is_so)));
        }
    }
}
