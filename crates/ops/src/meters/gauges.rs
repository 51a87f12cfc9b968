//! The values that are read for an exposition, and the gauges that show them. Those of the process alone read their own.

use metrics::{Counter, Gauge};

use super::definitions as defined;
use super::process::ProcessGauges;
use crate::labels;

/// The values of the gauges.
#[derive(Debug, Clone, Copy, Default)]
pub struct Readings {
    /// Nodes in the ring.
    pub ring_members: usize,
    /// The ring's epoch.
    pub ring_epoch: u64,
    /// Copies in memory.
    pub entries: u64,
    /// Their bytes.
    pub entry_bytes: u64,
    /// Copies evicted so far.
    pub evictions: u64,
    /// Flights of all kinds.
    pub flights: usize,
    /// Runs at the origin.
    pub origin_in_flight: usize,
    /// Runs that the origin may have at a time; 0 if there is no bound.
    pub origin_limit: usize,
    /// Refreshes that began and have not ended.
    pub refreshes: usize,
    /// Refreshes that wait for a worker.
    pub refreshes_waiting: usize,
    /// Prefetches that are not used yet.
    pub prefetches_pending: usize,
    /// Leases held.
    pub leases: usize,
    /// Tasks of the process that have not ended.
    pub tasks: usize,
    /// Patterns with known successors.
    pub learned_patterns: usize,
    /// Next queries that can be run.
    pub learned_forms: usize,
    /// Sessions that this node owns.
    pub sessions: usize,
    /// Bytes of learned data and of the queries that sessions remember.
    pub learning_bytes: usize,
    /// Observations that wait.
    pub observations_waiting: usize,
    /// Connections of Bolt clients.
    pub bolt_connections: usize,
    /// Explicit transactions over HTTP.
    pub http_transactions: usize,
    /// Log lines lost so far.
    pub log_lines_dropped: u64,
    /// Which of [`labels::PARTS`] are degraded.
    pub degraded: [bool; labels::PARTS.len()],
}

pub(super) struct Gauges {
    ring_members: Gauge,
    ring_epoch: Gauge,
    entries: Gauge,
    entry_bytes: Gauge,
    evictions: Counter,
    flights: Gauge,
    origin_in_flight: Gauge,
    origin_limit: Gauge,
    queue: Gauge,
    active_refreshes: Gauge,
    prefetches_pending: Gauge,
    active_locks: Gauge,
    tasks: Gauge,
    learned_patterns: Gauge,
    learned_forms: Gauge,
    sessions: Gauge,
    learning_bytes: Gauge,
    observations_waiting: Gauge,
    bolt_connections: Gauge,
    http_transactions: Gauge,
    log_lines_dropped: Counter,
    degraded: [Gauge; labels::PARTS.len()],
    process: ProcessGauges,
}

impl Gauges {
    /// Reads the process anew.
    pub(super) fn read_process(&self) {
        self.process.read();
    }

    pub(super) fn register() -> Self {
        Self {
            ring_members: defined::RING_MEMBERS.gauge(),
            ring_epoch: defined::RING_EPOCH.gauge(),
            entries: defined::ENTRIES.gauge(),
            entry_bytes: defined::ENTRY_BYTES.gauge(),
            evictions: defined::EVICTIONS.counter(),
            flights: defined::FLIGHTS.gauge(),
            origin_in_flight: defined::IN_FLIGHT.gauge(),
            origin_limit: defined::ORIGIN_LIMIT.gauge(),
            queue: defined::QUEUE.gauge(),
            active_refreshes: defined::ACTIVE_REFRESHES.gauge(),
            prefetches_pending: defined::PREFETCHES_PENDING.gauge(),
            active_locks: defined::ACTIVE_LOCKS.gauge(),
            tasks: defined::TASKS.gauge(),
            learned_patterns: defined::LEARNED_PATTERNS.gauge(),
            learned_forms: defined::LEARNED_FORMS.gauge(),
            sessions: defined::SESSIONS.gauge(),
            learning_bytes: defined::LEARNING_BYTES.gauge(),
            observations_waiting: defined::OBSERVATIONS_WAITING.gauge(),
            bolt_connections: defined::BOLT_CONNECTIONS.gauge(),
            http_transactions: defined::HTTP_TRANSACTIONS.gauge(),
            log_lines_dropped: defined::LINES_DROPPED.counter(),
            degraded: labels::PARTS.map(|part| defined::DEGRADED.gauge_of("part", part)),
            process: ProcessGauges::register(),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "gauges are doubles; these counts are far below 2^53")]
    pub(super) fn set(&self, now: Readings) {
        self.ring_members.set(now.ring_members as f64);
        self.ring_epoch.set(now.ring_epoch as f64);
        self.entries.set(now.entries as f64);
        self.entry_bytes.set(now.entry_bytes as f64);
        self.evictions.absolute(now.evictions);
        self.flights.set(now.flights as f64);
        self.origin_in_flight.set(now.origin_in_flight as f64);
        self.origin_limit.set(now.origin_limit as f64);
        self.queue.set(now.refreshes_waiting as f64);
        self.active_refreshes.set(now.refreshes as f64);
        self.prefetches_pending.set(now.prefetches_pending as f64);
        self.active_locks.set(now.leases as f64);
        self.tasks.set(now.tasks as f64);
        self.learned_patterns.set(now.learned_patterns as f64);
        self.learned_forms.set(now.learned_forms as f64);
        self.sessions.set(now.sessions as f64);
        self.learning_bytes.set(now.learning_bytes as f64);
        self.observations_waiting.set(now.observations_waiting as f64);
        self.bolt_connections.set(now.bolt_connections as f64);
        self.http_transactions.set(now.http_transactions as f64);
        self.log_lines_dropped.absolute(now.log_lines_dropped);
        for (gauge, is_degraded) in self.degraded.iter().zip(now.degraded) {
            gauge.set(f64::from(u8::from(is_degraded)));
        }
    }
}
