//! One frame of `hopcache top`: as text for people, and as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::exposition::Totals;
use crate::cli::fields::{items, number, readable, text};
use crate::cli::table;

/// Hottest patterns that a frame shows.
pub(super) const PATTERNS_SHOWN: usize = 5;
/// Most characters of a pattern in a frame: one line of a terminal.
const PATTERN_CHARS_MAX: usize = 96;

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

    pub(super) fn to_text(&self) -> String {
        let whole = self.whole();
        let answering = self.rows.iter().filter(|row| row.between.is_ok()).count();
        let mut lines = vec![format!(
            "{answering} of {} nodes answer   requests/s {}   hits {}   P50 {}   P99 {}   runs/s at Neo4j {}",
            self.rows.len(),
            rate(self.per_second(whole.requests())),
            percent(whole.hit_ratio()),
            duration(whole.quantile(0.5)),
            duration(whole.quantile(0.99)),
            rate(self.per_second(whole.runs)),
        )];
        let header =
            ["node", "requests/s", "hits", "P50", "P99", "runs/s", "running", "entries", "MiB", "degraded"];
        lines.push(table::render(&header, self.rows.iter().map(|row| self.cells(row))));
        let patterns: Vec<&Value> = items(&self.patterns, "patterns").take(PATTERNS_SHOWN).collect();
        if !patterns.is_empty() {
            lines.push("Hottest patterns of sessions, by how often they were seen of late:".to_owned());
            lines.extend(patterns.into_iter().map(pattern_line));
        }
        lines.join("\n")
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let between = match &row.between {
            Ok(between) => between,
            Err(why) => return vec![row.name.clone(), why.clone()],
        };
        vec![
            row.name.clone(),
            rate(self.per_second(between.requests())),
            percent(between.hit_ratio()),
            duration(between.quantile(0.5)),
            duration(between.quantile(0.99)),
            rate(self.per_second(between.runs)),
            format!("{:.0}", between.in_flight),
            format!("{:.0}", between.entries),
            format!("{:.1}", between.entry_bytes / f64::from(1 << 20)),
            if between.degraded.is_empty() { "-".to_owned() } else { between.degraded.join(", ") },
        ]
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
    let mut line: String = named.chars().take(PATTERN_CHARS_MAX).collect();
    if named.chars().nth(PATTERN_CHARS_MAX).is_some() {
        line.push('…');
    }
    table::clean(&format!("  {:>7.1}  {line}", number(pattern, "seen")))
}

fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { format!("{per_second:.0}") }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn duration(seconds: Option<f64>) -> String {
    match seconds.map(|seconds| seconds * 1e3) {
        None => "-".to_owned(),
        Some(ms) if ms < 10.0 => format!("{ms:.1} ms"),
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
        let text = frame.to_text();
        let first =
            "1 of 2 nodes answer   requests/s 100   hits 95.0 %   P50 -   P99 -   runs/s at Neo4j 1.5";
        assert_eq!(text.lines().next(), Some(first), "{text}");
        for part in ["does not answer", "store", "2.0", "   24.0  MATCH (p:Person)", "…"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}') && !text.contains(&long), "{text}");
        let json = frame.to_json();
        assert_eq!(json["cluster"]["hit_ratio"], json!(0.95));
        assert_eq!(json["nodes"][1], json!({"name": "node-b", "error": "does not answer"}));
    }
}
