//! The process as its operating system counts it, under the names that Prometheus' client libraries share
//! (prometheus.io, "Writing client libraries", process metrics).

use metrics::Gauge;
use metrics_process::collector::collect;

use super::definitions as defined;

pub(super) struct ProcessGauges {
    cpu_seconds: Gauge,
    open_fds: Gauge,
    max_fds: Gauge,
    virtual_bytes: Gauge,
    resident_bytes: Gauge,
    start_seconds: Gauge,
    threads: Gauge,
}

impl ProcessGauges {
    pub(super) fn register() -> Self {
        // Its value never changes. Its labels are the point.
        let commit = option_env!("HOPCACHE_COMMIT").unwrap_or("unknown");
        defined::BUILD_INFO
            .gauge_of_labels([("version", env!("CARGO_PKG_VERSION")), ("commit", commit)])
            .set(1.0);
        Self {
            cpu_seconds: defined::PROCESS_CPU.gauge(),
            open_fds: defined::PROCESS_OPEN_FDS.gauge(),
            max_fds: defined::PROCESS_MAX_FDS.gauge(),
            virtual_bytes: defined::PROCESS_VIRTUAL.gauge(),
            resident_bytes: defined::PROCESS_RESIDENT.gauge(),
            start_seconds: defined::PROCESS_START.gauge(),
            threads: defined::PROCESS_THREADS.gauge(),
        }
    }

    /// Reads the process anew. A value that the system does not tell stays as it was.
    pub(super) fn read(&self) {
        let read = collect();
        if let Some(seconds) = read.cpu_seconds_total {
            self.cpu_seconds.set(seconds);
        }
        for (gauge, value) in [
            (&self.open_fds, read.open_fds),
            (&self.max_fds, read.max_fds),
            (&self.virtual_bytes, read.virtual_memory_bytes),
            (&self.resident_bytes, read.resident_memory_bytes),
            (&self.start_seconds, read.start_time_seconds),
            (&self.threads, read.threads),
        ] {
            set(gauge, value);
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges are doubles; these counts are far below 2^53")]
fn set(gauge: &Gauge, value: Option<u64>) {
    if let Some(value) = value {
        gauge.set(value as f64);
    }
}
