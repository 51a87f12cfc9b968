//! The rows of `bench apps`, its comparison of answers, and its comparison of hits. This module measures nothing.

use std::collections::{BTreeMap, BTreeSet};

use hopcache_testbed::report::Spread;

use super::arms::CEILING;
use super::measure::{Figures, Prefetches};

/// The columns, and the digits behind the point of each.
const HEADS: [(&str, usize); 12] = [
    ("statements/s", 0),
    ("page P50 ms", 2),
    ("P95", 2),
    ("P99", 2),
    ("errors", 0),
    ("hits", 0),
    ("hits of reads %", 1),
    ("runs at Neo4j", 0),
    ("prefetches", 0),
    ("right %", 0),
    ("CPU µs per statement", 0),
    ("of that Neo4j's", 0),
];

/// The table's head.
pub(super) fn head() -> String {
    let heads: Vec<&str> = HEADS.iter().map(|(head, _)| *head).collect();
    let rule = "---|".repeat(4 + HEADS.len());
    format!("| application | writes % | loop | arm | {} |\n|{rule}", heads.join(" | "))
}

/// An arm's row: the median of its rounds, with their spread where there are several.
pub(super) fn row(
    application: &str,
    writes: u32,
    rate: Option<f64>,
    arm: &str,
    rounds: &[Figures],
) -> String {
    let cells = HEADS.iter().enumerate().map(|(place, (_, digits))| {
        let all: Option<Vec<f64>> = rounds.iter().map(|figures| values(figures)[place]).collect();
        cell(all.as_deref(), *digits)
    });
    let cells: Vec<String> = cells.collect();
    format!("| {application} | {writes} | {} | {arm} | {} |", loop_name(rate), cells.join(" | "))
}

fn cell(rounds: Option<&[f64]>, digits: usize) -> String {
    let Some(rounds) = rounds else { return "–".to_owned() };
    let Spread { min, median, max } = Spread::of(rounds);
    if rounds.len() > 1 {
        return format!("{median:.digits$} ({min:.digits$}–{max:.digits$})");
    }
    format!("{median:.digits$}")
}

/// How the clients asked.
pub(super) fn loop_name(rate: Option<f64>) -> String {
    rate.map_or_else(|| "closed".to_owned(), |rate| format!("{rate} pages/s"))
}

/// In the order of [`HEADS`].
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn values(figures: &Figures) -> [Option<f64>; HEADS.len()] {
    [
        Some(figures.per_s),
        Some(figures.page_p50_ms),
        Some(figures.page_p95_ms),
        Some(figures.page_p99_ms),
        Some(figures.errors as f64),
        figures.hits.map(|hits| hits as f64),
        figures.hits_percent,
        Some(figures.runs as f64),
        figures.prefetches.map(|prefetches| prefetches.launched as f64),
        figures.prefetches.map(Prefetches::right_percent),
        figures.cpu_us,
        figures.neo4j_cpu_us,
    ]
}

/// The hits of one application, by what its clients did (share of writes, loop) and arm. Rounds are added up.
#[derive(Debug, Default)]
pub(super) struct Hits(BTreeMap<(u32, String), BTreeMap<String, u64>>);

impl Hits {
    pub(super) fn add(&mut self, writes: u32, rate: Option<f64>, arm: &str, figures: &Figures) {
        if let Some(hits) = figures.hits {
            *self.0.entry((writes, loop_name(rate))).or_default().entry(arm.to_owned()).or_default() += hits;
        }
    }

    /// Of an arm: the mean of its hits ÷ those of the ceiling, over all that its clients did. `None` without a ceiling.
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    fn of_ceiling(&self, arm: &str) -> Option<f64> {
        let shares: Option<Vec<f64>> = self
            .0
            .values()
            .map(|arms| {
                let ceiling = *arms.get(CEILING).filter(|hits| **hits > 0)?;
                Some(*arms.get(arm)? as f64 / ceiling as f64)
            })
            .collect();
        let shares = shares.filter(|shares| !shares.is_empty())?;
        Some(shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// A line for the application.
    pub(super) fn line(&self, application: &str, arms: &[String]) -> Option<String> {
        let shares: Vec<String> = arms
            .iter()
            .filter(|arm| *arm != CEILING)
            .filter_map(|arm| Some(format!("{arm} {:.3}", self.of_ceiling(arm)?)))
            .collect();
        (!shares.is_empty())
            .then(|| format!("- {application}, hits ÷ hits of `{CEILING}`, mean: {}", shares.join(", ")))
    }
}

/// Compares the arms' answers, all without writes.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// The arm that the others are compared with, and its digests by line of the trace.
    first: Option<(String, BTreeMap<usize, String>)>,
    /// Of each other arm: how many results were compared, and the lines of the trace whose results differ.
    others: BTreeMap<String, (usize, BTreeSet<usize>)>,
}

impl Answers {
    /// Adds a replay of an arm.
    pub(super) fn compare(&mut self, arm: &str, digests: &[(usize, String)]) {
        let found: BTreeMap<usize, String> = digests.iter().cloned().collect();
        let Some((_, wanted)) = &self.first else {
            self.first = Some((arm.to_owned(), found));
            return;
        };
        let (count, differing) = self.others.entry(arm.to_owned()).or_default();
        let lines = wanted.keys().chain(found.keys());
        differing.extend(lines.filter(|line| wanted.get(line) != found.get(line)));
        *count += found.len();
    }

    /// Whether any arm gave another answer than the first one.
    pub(super) fn differ(&self) -> bool {
        self.others.values().any(|(_, lines)| !lines.is_empty())
    }

    /// A line for each arm but the first.
    pub(super) fn lines(&self) -> Vec<String> {
        let Some((first, _)) = &self.first else { return Vec::new() };
        let line = |(arm, (count, differing)): (&String, &(usize, BTreeSet<usize>))| {
            if differing.is_empty() {
                return format!(
                    "- without writes, all {count} results of reads at `{arm}` are those at `{first}`"
                );
            }
            let places: Vec<String> = differing.iter().take(5).map(|line| (line + 1).to_string()).collect();
            format!(
                "- WITHOUT WRITES, {} LINES OF THE TRACE HAVE OTHER RESULTS at `{arm}` than at `{first}`, among them {}",
                differing.len(),
                places.join(", ")
            )
        };
        self.others.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(count: Option<u64>) -> Figures {
        Figures {
            seconds: 1.0,
            statements: 100,
            writes: 0,
            left_out: 0,
            per_s: 100.0,
            pages: 30,
            page_p50_ms: 1.0,
            page_p95_ms: 2.0,
            page_p99_ms: 3.5,
            errors: 0,
            messages: Vec::new(),
            hits: count,
            hits_percent: count.map(|_| 12.34),
            misses: count,
            bypasses: count,
            runs: 88,
            prefetches: count.map(|launched| Prefetches { launched, used: 4, late: 1 }),
            cpu_us: Some(900.4),
            neo4j_cpu_us: Some(700.0),
            nodes_cpu_us: None,
            redis_cpu_us: None,
        }
    }

    #[test]
    fn a_row_has_a_cell_for_each_head() {
        let alone = row("films", 1, None, "neo4j", &[hits(None)]);
        assert_eq!(
            alone,
            "| films | 1 | closed | neo4j | 100 | 1.00 | 2.00 | 3.50 | 0 | – | – | 88 | – | – | 900 | 700 |"
        );
        let two = row("films", 5, Some(20.0), "hopcache", &[hits(Some(10)), hits(Some(20))]);
        assert!(
            two.contains("| 20 pages/s | hopcache |") && two.contains("| 15 (10–20) | 12.3 (12.3–12.3) |"),
            "{two}"
        );
        assert_eq!(head().lines().next().unwrap().matches('|').count(), alone.matches('|').count());
    }

    #[test]
    fn hits_are_compared_with_the_ceiling_of_the_same_traffic() {
        let mut all = Hits::default();
        for (writes, arm, count) in
            [(0, "hopcache", 90), (0, "ttl", 100), (5, "hopcache", 30), (5, "ttl", 60)]
        {
            all.add(writes, None, arm, &hits(Some(count)));
        }
        all.add(0, None, "neo4j", &hits(None));
        let arms = ["neo4j", "hopcache", "ttl"].map(str::to_owned);
        assert_eq!(all.line("films", &arms).unwrap(), "- films, hits ÷ hits of `ttl`, mean: hopcache 0.700");
        assert_eq!(Hits::default().line("films", &arms), None);
    }

    #[test]
    fn another_answer_is_named_by_its_line() {
        let digests = |second: &str| vec![(0, "a".to_owned()), (4, second.to_owned())];
        let mut answers = Answers::default();
        answers.compare("neo4j", &digests("b"));
        answers.compare("hopcache", &digests("b"));
        assert!(!answers.differ());
        assert_eq!(
            answers.lines(),
            ["- without writes, all 2 results of reads at `hopcache` are those at `neo4j`"]
        );
        answers.compare("ttl", &digests("c"));
        assert!(answers.differ());
        assert!(
            answers.lines()[1].contains("at `ttl` than at `neo4j`, among them 5"),
            "{:?}",
            answers.lines()
        );
    }

    #[test]
    fn a_missing_answer_is_another_answer() {
        let mut answers = Answers::default();
        answers.compare("neo4j", &[(0, "a".to_owned()), (1, "b".to_owned())]);
        answers.compare("hopcache", &[(0, "a".to_owned())]);
        assert!(answers.differ());
    }
}
