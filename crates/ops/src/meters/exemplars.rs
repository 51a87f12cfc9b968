//! Exemplars of a histogram: for each bucket the newest request whose trace can be looked up (OpenMetrics 1.0, "Exemplars").
//!
//! Only requests that are traced come here, so the lock costs other requests nothing.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use opentelemetry::TraceId;
use parking_lot::Mutex;

#[derive(Debug, Clone, Copy)]
struct Exemplar {
    trace: TraceId,
    took: Duration,
    at: SystemTime,
}

/// The exemplars of `N` buckets.
pub(super) struct Exemplars<const N: usize>(Mutex<[Option<Exemplar>; N]>);

impl<const N: usize> Exemplars<N> {
    pub(super) fn none() -> Self {
        Self(Mutex::new([None; N]))
    }

    /// A request of this trace fell into this bucket.
    pub(super) fn keep(&self, bucket: usize, took: Duration, trace: TraceId) {
        if let Some(place) = self.0.lock().get_mut(bucket) {
            *place = Some(Exemplar { trace, took, at: SystemTime::now() });
        }
    }

    /// Appends the exemplar of a bucket to the bucket's line.
    pub(super) fn write(&self, bucket: usize, out: &mut String) {
        let kept = self.0.lock().get(bucket).copied().flatten();
        let Some(Exemplar { trace, took, at }) = kept else { return };
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (took, at) = (took.as_secs_f64(), at.as_secs_f64());
        let _ = write!(out, " # {{trace_id=\"{trace}\"}} {took:.6} {at:.3}");
    }
}
