//! The process as its operating system counts it, under the names that Prometheus' client libraries share
//! (prometheus.io, "Writing client libraries", process metrics).

use metrics_process::collector::collect;

use super::definitions::Counted;
use super::instrument::Reading;

/// Reads the process anew. A value that the system does not tell stays as it was.
pub(super) fn read(into: &Counted) {
    let read = collect();
    if let Some(seconds) = read.cpu_seconds_total {
        into.cpu_seconds.set(seconds);
    }
    for (gauge, value) in [
        (&into.open_fds, read.open_fds),
        (&into.max_fds, read.max_fds),
        (&into.virtual_bytes, read.virtual_memory_bytes),
        (&into.resident_bytes, read.resident_memory_bytes),
        (&into.start_seconds, read.start_time_seconds),
        (&into.threads, read.threads),
    ] {
        value.into_iter().for_each(|value| gauge.take(value));
    }
}
