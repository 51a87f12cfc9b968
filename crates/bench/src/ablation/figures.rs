//! The figures of one load of one arm, and their spread over the rounds. Decides what a figure counts, and no judgement.

use std::time::Duration;

use super::arms::Arm;
use super::load::{Load, Seen};
use super::stage::Cpu;
use super::workloads::Workload;
use crate::expiry::cache_status::Kind;
use crate::expiry::figures::{percentile, share};
use crate::expiry::open_loop::Sample;
use crate::prefetch::counts::Counts;
use hopcache_testbed::report::Spread;

/// The figures of one load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Figures {
    /// Results a second.
    pub(super) per_s: f64,
    /// Of all requests; one that failed or was dropped takes for ever.
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
    /// Hits of all results, in percent.
    pub(super) hits: f64,
    /// Runs at Neo4j for each result, of any cause.
    pub(super) runs: f64,
    /// CPU time for each result, in µs; not a number where it cannot be read.
    pub(super) neo4j_us: f64,
    pub(super) nodes_us: f64,
    pub(super) redis_us: f64,
    pub(super) clients_us: f64,
    pub(super) errors: f64,
    pub(super) dropped: f64,
    /// How late the generator sent, P99.
    pub(super) late_ms: f64,
    /// Runs by cause.
    pub(super) miss_runs: f64,
    pub(super) refresh_runs: f64,
    pub(super) prefetch_runs: f64,
}

/// One load of one arm in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) workload: Workload,
    pub(super) load: Load,
    pub(super) arm: Arm,
    pub(super) round: usize,
    pub(super) figures: Figures,
}

/// All that was measured.
pub(super) struct Cells(pub(super) Vec<Cell>);

/// A figure.
pub(super) struct Column {
    /// In tables.
    pub(super) head: &'static str,
    /// In CSV.
    pub(super) csv: &'static str,
    pub(super) of: fn(&Figures) -> f64,
    /// Behind the point.
    digits: usize,
}

const fn column(head: &'static str, csv: &'static str, of: fn(&Figures) -> f64, digits: usize) -> Column {
    Column { head, csv, of, digits }
}

pub(super) const PER_S: Column = column("requests/s", "per_s", |all| all.per_s, 0);
pub(super) const P99: Column = column("P99 ms", "p99_ms", |all| all.p99_ms, 1);
pub(super) const RUNS: Column = column("runs per request", "runs_per_request", |all| all.runs, 3);
pub(super) const NEO4J: Column = column("Neo4j CPU µs", "neo4j_cpu_us", |all| all.neo4j_us, 0);

/// The columns of the tables; errors and drops are summed, so they are not among them.
pub(super) const COLUMNS: [Column; 10] = [
    PER_S,
    column("P50 ms", "p50_ms", |all| all.p50_ms, 2),
    column("P95 ms", "p95_ms", |all| all.p95_ms, 1),
    P99,
    column("hits %", "hits_percent", |all| all.hits, 1),
    RUNS,
    NEO4J,
    column("nodes' CPU µs", "nodes_cpu_us", |all| all.nodes_us, 0),
    column("Redis' CPU µs", "redis_cpu_us", |all| all.redis_us, 0),
    column("clients' CPU µs", "clients_cpu_us", |all| all.clients_us, 0),
];

/// Further columns of the rounds' CSV.
pub(super) const MORE: [Column; 6] = [
    column("", "errors", |all| all.errors, 0),
    column("", "dropped", |all| all.dropped, 0),
    column("", "sent_late_p99_ms", |all| all.late_ms, 3),
    column("", "miss_runs", |all| all.miss_runs, 0),
    column("", "refresh_runs", |all| all.refresh_runs, 0),
    column("", "prefetch_runs", |all| all.prefetch_runs, 0),
];

impl Column {
    pub(super) fn show(&self, value: f64) -> String {
        match value {
            _ if value.is_nan() => "–".to_owned(),
            _ if value.is_infinite() => "∞".to_owned(),
            _ => format!("{value:.*}", self.digits),
        }
    }

    /// Median (min–max).
    pub(super) fn spread(&self, spread: Spread) -> String {
        let [median, min, max] = [spread.median, spread.min, spread.max].map(|value| self.show(value));
        if min == max { median } else { format!("{median} ({min}–{max})") }
    }
}

impl Figures {
    /// What the load has seen, the counters' increase, and the CPU time before and after.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    pub(super) fn of(seen: &Seen, counts: &Counts, (before, after): (&Cpu, &Cpu)) -> Self {
        let of =
            |kinds: &[Kind]| seen.samples.iter().filter(|each| kinds.contains(&each.status.kind)).count();
        let (hits, errors) = (of(&[Kind::Fresh, Kind::Stale]), of(&[Kind::Failed]));
        let results = seen.samples.len() - errors;
        let each_us = |one: Duration, other: Duration| {
            other.saturating_sub(one).as_secs_f64() * 1e6 / results.max(1) as f64
        };
        let [p50_ms, p95_ms, p99_ms] = percentiles(seen);
        let mut late_us: Vec<u64> =
            seen.samples.iter().map(|sample| sample.sent_us.saturating_sub(sample.due_us)).collect();
        late_us.sort_unstable();
        Self {
            per_s: results as f64 / seen.wall.as_secs_f64(),
            p50_ms,
            p95_ms,
            p99_ms,
            hits: 100.0 * share(hits, results),
            runs: counts.runs as f64 / results.max(1) as f64,
            neo4j_us: before.neo4j.zip(after.neo4j).map_or(f64::NAN, |(one, other)| each_us(one, other)),
            nodes_us: each_us(before.nodes, after.nodes),
            redis_us: each_us(before.redis, after.redis),
            clients_us: each_us(before.clients, after.clients),
            errors: errors as f64,
            dropped: seen.dropped as f64,
            late_ms: percentile(&late_us, 0.99) / 1e3,
            miss_runs: counts.miss_runs as f64,
            refresh_runs: counts.refresh_runs as f64,
            prefetch_runs: counts.prefetch_runs as f64,
        }
    }
}

/// P50, P95 and P99 of everything that was due. Without an answer a request takes for ever: answers that were refused at
/// once, or never asked for, must not make a tail shorter.
fn percentiles(seen: &Seen) -> [f64; 3] {
    const FOR_EVER: u64 = u64::MAX;
    let took = |sample: &Sample| match sample.status.kind {
        Kind::Failed => FOR_EVER,
        Kind::Fresh | Kind::Stale | Kind::Miss => sample.took_us(),
    };
    let mut took_us: Vec<u64> = seen.samples.iter().map(took).collect();
    took_us.extend(std::iter::repeat_n(FOR_EVER, seen.dropped));
    took_us.sort_unstable();
    [0.5, 0.95, 0.99].map(|share| match percentile(&took_us, share) {
        // 2^64 as the nearest number of a double.
        us if us > 1e18 => f64::INFINITY,
        us => us / 1e3,
    })
}

impl Cells {
    fn rounds(&self, (workload, load, arm): (Workload, Load, Arm)) -> impl Iterator<Item = &Cell> {
        self.0.iter().filter(move |cell| (cell.workload, cell.load, cell.arm) == (workload, load, arm))
    }

    /// A figure's spread over the rounds; `None` if it was not measured.
    pub(super) fn spread(&self, at: (Workload, Load, Arm), column: &Column) -> Option<Spread> {
        let rounds: Vec<f64> = self.rounds(at).map(|cell| (column.of)(&cell.figures)).collect();
        (!rounds.is_empty()).then(|| Spread::of(&rounds))
    }

    /// A figure's sum over the rounds.
    pub(super) fn sum(&self, at: (Workload, Load, Arm), of: fn(&Figures) -> f64) -> f64 {
        self.rounds(at).map(|cell| of(&cell.figures)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expiry::cache_status::CacheStatus;

    fn sample(took_ms: u64, kind: Kind) -> Sample {
        let status = CacheStatus { kind, ..CacheStatus::NOTHING };
        Sample { due_us: 1_000, sent_us: 1_500, answered_us: 1_000 + took_ms * 1_000, status }
    }

    fn cpu(ms: u64) -> Cpu {
        let time = Duration::from_millis(ms);
        Cpu { neo4j: Some(time), nodes: time * 2, redis: time * 3, clients: time * 4 }
    }

    #[test]
    fn figures_are_for_each_result() {
        let mut samples: Vec<Sample> = (1..=7).map(|ms| sample(ms, Kind::Fresh)).collect();
        samples.extend([sample(8, Kind::Stale), sample(100, Kind::Miss), sample(1, Kind::Failed)]);
        let seen = Seen { samples, dropped: 0, wall: Duration::from_secs(3) };
        let counts = Counts { runs: 18, miss_runs: 9, ..Counts::default() };
        let figures = Figures::of(&seen, &counts, (&cpu(10), &cpu(19)));
        let close = |one: f64, other: f64| assert!((one - other).abs() < 1e-6, "{one}, not {other}");
        close(figures.per_s, 3.0);
        close(figures.hits, 100.0 * 8.0 / 9.0);
        close(figures.runs, 2.0);
        close(figures.neo4j_us, 1_000.0);
        close(figures.clients_us, 4_000.0);
        close(figures.errors, 1.0);
        close(figures.late_ms, 0.5);
        close(figures.p50_ms, 5.0);
        assert_eq!(figures.p99_ms, f64::INFINITY, "the failed one is the tenth of ten");
    }

    #[test]
    fn what_was_dropped_takes_for_ever() {
        let samples = (1..=96).map(|ms| sample(ms, Kind::Miss)).collect();
        let seen = Seen { samples, dropped: 4, wall: Duration::from_secs(1) };
        assert_eq!(percentiles(&seen), [50.0, 95.0, f64::INFINITY]);
        assert_eq!(
            (P99.show(f64::INFINITY), P99.show(f64::NAN), P99.show(1.26)),
            ("∞".into(), "–".into(), "1.3".into())
        );
    }
}
