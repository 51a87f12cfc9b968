//! One frame of `hopcache top`: as text for people, and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::exposition::Totals;
use crate::cli::fields::{items, number, readable, text};
use crate::cli::table;

/// Hottest patterns that a frame shows.
pub(super) const PATTERNS_SHOWN: usize = 5;
/// Most characters of a line: a terminal is at least this wide.
const COLUMNS: usize = 80;
/// Characters of a node's name.
const NAME_CHARS: usize = 15;
/// Most characters of a pattern in a frame, behind its figure.
const PATTERN_CHARS_MAX: usize = COLUMNS - 13;

/// Which nodes stand first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Order {
    /// As the ring has them.
    #[default]
    Ring,
    /// Those with the most requests.
    Requests,
    /// Those whose slowest answers take longest.
    Slowest,
    /// Those with the smallest share of hits.
    FewestHits,
}

impl Order {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Ring => Self::Requests,
            Self::Requests => Self::Slowest,
            Self::Slowest => Self::FewestHits,
            Self::FewestHits => Self::Ring,
        }
    }

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ring => "as in the ring",
            Self::Requests => "by requests",
            Self::Slowest => "by P99",
            Self::FewestHits => "by hits, the fewest first",
        }
    }

    /// What stands first has the smallest number. Nodes that do not answer stand first.
    fn of(self, row: &Row) -> f64 {
        let Ok(between) = &row.between else {
            return if self == Self::Ring { 0.0 } else { f64::NEG_INFINITY };
        };
        match self {
            Self::Ring => 0.0,
            Self::Requests => -between.requests(),
            Self::Slowest => -between.quantile(0.99).unwrap_or(0.0),
            Self::FewestHits => between.hit_ratio().unwrap_or(1.0),
        }
    }
}

/// The cells of a line: names to the left, figures to the right.
fn line([name, requests, hits, p50, p99, runs, running, entries, mib]: [&str; 9]) -> String {
    format!(
        "{name:<NAME_CHARS$} {requests:>10} {hits:>7} {p50:>7} {p99:>7} {runs:>6} {running:>7} {entries:>7} {mib:>6}"
    )
}

/// What of a node does not work.
fn degraded(row: &Row) -> Option<String> {
    let between = row.between.as_ref().ok().filter(|between| !between.degraded.is_empty())?;
    let parts = between.degraded.join(", ");
    Some(shortened(&table::clean(&format!("  {}: {parts}", row.name)), COLUMNS))
}

fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().nth(chars_max).is_none() {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}

/// Plain data: a node in a frame.
pub(super) struct Row {
    pub(super) name: String,
    /// The figures between this frame and the one before, or why there are none.
    pub(super) between: Result<Totals, String>,
}

/// Plain data: one look at the cluster.
pub(super) struct Frame {
    pub(super) rows: Vec<Row>,
    /// The time between the two looks.
    pub(super) elapsed: Duration,
    /// The answer of `/admin/v1/successors`.
    pub(super) patterns: Value,
}

impl Frame {
    fn whole(&self) -> Totals {
        let mut whole = Totals::default();
        self.rows.iter().filter_map(|row| row.between.as_ref().ok()).for_each(|between| whole.join(between));
        whole
    }

    fn per_second(&self, count: f64) -> f64 {
        count / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Lines of at most [`COLUMNS`] characters: a terminal of the usual width shows them as they are.
    pub(super) fn to_text(&self, order: Order) -> String {
        let whole = self.whole();
        let answering = self.rows.iter().filter(|row| row.between.is_ok()).count();
        let mut lines = vec![
            format!(
                "{answering} of {} nodes answer   requests/s {}   hits {}",
                self.rows.len(),
                rate(self.per_second(whole.requests())),
                percent(whole.hit_ratio()),
            ),
            format!(
                "P50 {}   P99 {}   runs/s at Neo4j {}",
                duration(whole.quantile(0.5)),
                duration(whole.quantile(0.99)),
                rate(self.per_second(whole.runs)),
            ),
            String::new(),
            line(["node", "requests/s", "hits", "P50", "P99", "runs/s", "running", "entries", "MiB"]),
        ];
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|one, other| order.of(one).total_cmp(&order.of(other)));
        lines.extend(rows.iter().map(|row| self.row(row)));
        let degraded: Vec<String> = rows.iter().filter_map(|row| degraded(row)).collect();
        if !degraded.is_empty() {
            lines.extend([String::new(), "Degraded (`hopcache status` says what that means):".to_owned()]);
            lines.extend(degraded);
        }
        let patterns: Vec<&Value> = items(&self.patterns, "patterns").take(PATTERNS_SHOWN).collect();
        if !patterns.is_empty() {
            lines.push("\nHottest patterns of sessions, by how often they were seen of late:".to_owned());
            lines.extend(patterns.into_iter().map(pattern_line));
        }
        lines.join("\n")
    }

    fn row(&self, row: &Row) -> String {
        let name = shortened(&row.name, NAME_CHARS);
        let between = match &row.between {
            Ok(between) => between,
            Err(why) => return shortened(&format!("{name:<NAME_CHARS$} {}", table::clean(why)), COLUMNS),
        };
        let cells = [
            rate(self.per_second(between.requests())),
            percent(between.hit_ratio()),
            duration(between.quantile(0.5)),
            duration(between.quantile(0.99)),
            rate(self.per_second(between.runs)),
            format!("{:.0}", between.in_flight),
            format!("{:.0}", between.entries),
            mib(between.entry_bytes),
        ];
        let [requests, hits, p50, p99, runs, running, entries, mib] = &cells;
        line([&name, requests, hits, p50, p99, runs, running, entries, mib])
    }

    pub(super) fn to_json(&self) -> Value {
        let nodes: Vec<Value> = self.rows.iter().map(|row| self.row_json(row)).collect();
        let patterns: Vec<Value> = items(&self.patterns, "patterns")
            .take(PATTERNS_SHOWN)
            .map(|pattern| json!({"text": pattern.get("text"), "seen": pattern.get("seen")}))
            .collect();
        json!({"seconds": self.elapsed.as_secs_f64(), "cluster": self.figures(&self.whole()), "nodes": nodes,
               "patterns": patterns})
    }

    fn row_json(&self, row: &Row) -> Value {
        let between = match &row.between {
            Ok(between) => between,
            Err(why) => return json!({"name": row.name, "error": why}),
        };
        let mut node = self.figures(between);
        node["name"] = json!(row.name);
        node["degraded"] = json!(between.degraded);
        node
    }

    fn figures(&self, between: &Totals) -> Value {
        json!({
            "requests_per_s": self.per_second(between.requests()),
            "hit_ratio": between.hit_ratio(),
            "p50_ms": between.quantile(0.5).map(|seconds| seconds * 1e3),
            "p99_ms": between.quantile(0.99).map(|seconds| seconds * 1e3),
            "runs_per_s": self.per_second(between.runs),
            "running": between.in_flight,
            "entries": between.entries,
            "entry_bytes": between.entry_bytes,
        })
    }
}

fn pattern_line(pattern: &Value) -> String {
    let named = readable(&text(pattern, "text")).replace(['\n', '\r'], " ");
    let named = if named.is_empty() { "(its text is not known here)".to_owned() } else { named };
    let named = shortened(&named, PATTERN_CHARS_MAX);
    table::clean(&format!("  {:>7.1}  {named}", number(pattern, "seen")))
}

fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn mib(bytes: f64) -> String {
    let mib = bytes / f64::from(1 << 20);
    if mib < 1_000.0 { format!("{mib:.1}") } else { format!("{mib:.0}") }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn duration(seconds: Option<f64>) -> String {
    match seconds.map(|seconds| seconds * 1e3) {
        None => "-".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
        Some(ms) if ms >= 10_000.0 => format!("{:.1} s", ms / 1e3),
        Some(ms) => format!("{ms:.0} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_shows_the_cluster_its_nodes_and_its_patterns() {
        let busy = "cache_hit_total 190\ncache_miss_total 10\nhopcache_origin_runs_total{cause=\"miss\"} 3\n\
                    hopcache_entries 7\nhopcache_entry_bytes 2097152\nhopcache_degraded{part=\"store\"} 1\n";
        let rows = vec![
            Row { name: "node-a".into(), between: Ok(Totals::read(busy)) },
            Row { name: "node-b".into(), between: Err("does not answer".into()) },
        ];
        let long = "x".repeat(200);
        let patterns = json!({"patterns": [
            {"text": "MATCH ( p : Person )\nRETURN \u{1b}[2J", "seen": 24.04}, {"text": long, "seen": 1.0}]});
        let frame = Frame { rows, elapsed: Duration::from_secs(2), patterns };
        let text = frame.to_text(Order::Ring);
        let first = "1 of 2 nodes answer   requests/s 100   hits 95.0 %";
        assert_eq!(text.lines().next(), Some(first), "{text}");
        for part in ["does not answer", "  node-a: store", "2.0", "   24.0  MATCH (p:Person)", "…"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains(&long), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
        let json = frame.to_json();
        assert_eq!(json["cluster"]["hit_ratio"], json!(0.95));
        assert_eq!(json["nodes"][1], json!({"name": "node-b", "error": "does not answer"}));
    }

    /// Lines keep to the width with the largest figures, and words are never broken.
    #[test]
    fn nodes_are_sorted_and_wide_figures_fit() {
        let busy = "cache_hit_total 1999990\ncache_miss_total 10\nhopcache_entries 9999999\nhopcache_entry_bytes 104857600000\n\
                    hopcache_request_duration_seconds_bucket{le=\"20\"} 5\nhopcache_origin_runs_total{cause=\"miss\"} 199999\n";
        let slow =
            "cache_hit_total 1\ncache_miss_total 9\nhopcache_request_duration_seconds_bucket{le=\"60\"} 5\n";
        let row = |name: &str, text: &str| Row { name: name.into(), between: Ok(Totals::read(text)) };
        let rows = vec![
            row("a-node-with-a-name-of-forty-characters-0", busy),
            row("slow", slow),
            Row { name: "gone".into(), between: Err("does not answer".into()) },
        ];
        let frame = Frame { rows, elapsed: Duration::from_secs(1), patterns: Value::Null };
        let first = |order: Order| {
            let text = frame.to_text(order);
            assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
            let of = |name: &str| text.lines().position(|line| line.starts_with(name)).unwrap();
            let mut names = vec![(of("a-node-with-"), 'b'), (of("slow"), 's'), (of("gone"), 'g')];
            names.sort_unstable();
            names.into_iter().map(|(_, name)| name).collect::<String>()
        };
        let (ring, requests) = (Order::default(), Order::default().next());
        assert_eq!((first(ring), first(requests)), ("bsg".to_owned(), "gbs".to_owned()));
        assert_eq!(
            (first(requests.next()), first(requests.next().next())),
            ("gsb".to_owned(), "gsb".to_owned())
        );
        assert_eq!(requests.next().next().next(), ring, "it begins anew");
    }
}
