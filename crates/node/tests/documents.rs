//! The pages of `docs/operating` and the alert rules name exactly the items of the code: `Cache-Status` details, values of
//! labels, alerts. A test fails when one of the two changes alone.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use hopcache_config::RefreshSection;
use hopcache_core::words::Word;
use hopcache_engine::outcome::{Detail, Reason};
use hopcache_ops::labels;
use hopcache_ops::meters::{Exposition, Meters, Readings};

const ALERTS: &str = include_str!("../../../cluster/prometheus/alerts.yml");
/// Where the alert rules expect the book, until an operator says where it is published. The domain is reserved (RFC 2606).
const BOOK: &str = "https://hopcache.example/";
const REFERENCE: &str = include_str!("../../../docs/reference/metrics.md");
/// All pages of `docs/operating`, one behind the other.
#[expect(clippy::panic, reason = "a page that cannot be read fails the test")]
static OPERATING: LazyLock<String> = LazyLock::new(|| {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating");
    let text = |page: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(page?.path());
    let pages = std::fs::read_dir(folder).and_then(|pages| pages.map(text).collect::<Result<Vec<_>, _>>());
    pages.unwrap_or_else(|error| panic!("docs/operating cannot be read: {error}")).join("\n")
});

/// The part of a page of `docs/operating` below `heading`, up to the next heading.
fn section(heading: &str) -> Option<&'static str> {
    let (_, rest) = OPERATING.split_once(&format!("\n{heading}\n"))?;
    rest.split("\n#").next()
}

fn has_row_in(section: &str, word: &str) -> bool {
    section.contains(&format!("\n| `{word}` |"))
}

/// The labels in the first column of the table with this header, in one section. Empty if there is no such table.
fn words_of_table(heading: &str, header: &str) -> BTreeSet<&'static str> {
    let table = section(heading).and_then(|section| section.split_once(header));
    // The rest of the header, and the line below it, are not rows.
    let lines = table.into_iter().flat_map(|(_, rows)| rows.lines().skip(2));
    let rows = lines.take_while(|line| line.starts_with("| `"));
    rows.filter_map(|row| row.split('`').nth(1)).collect()
}

/// Details of hits and misses, and of the node that asked the owner or a holder: each has a row, and each row belongs to
/// a detail that is sent.
#[test]
fn the_details_of_answers_are_the_rows_of_their_table() {
    let mut sent: BTreeSet<&str> = Detail::ALL.into_iter().filter_map(labels::answer_detail).collect();
    sent.extend([labels::DETAIL_OWNER, labels::DETAIL_HOLDER]);
    let rows = words_of_table("## Cache-Status", "| `detail` | meaning |");
    assert_eq!(sent, rows);
}

/// The detail of a bypass, the label of its metric and the reason of `explain` are the same text, and each has a row.
#[test]
fn the_reasons_of_bypasses_are_the_rows_of_their_table() {
    let sent: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.word()).collect();
    let heading = "### `cache_bypass_total{reason}`";
    assert_eq!(sent, words_of_table(heading, "| `reason` |"));
}

#[test]
fn every_metric_is_in_the_reference() {
    let text =
        Meters::with(&RefreshSection::default()).render(Readings::default(), Exposition::Prometheus, "");
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.len() > 20, "the exposition shows its metrics: {names:?}");
    for name in names {
        assert!(REFERENCE.contains(&format!("`{name}`")), "{name}: not in docs/reference/metrics.md");
    }
}

/// Names of metrics in the rules' expressions: texts before a selector or a range, or compared as they are.
fn metrics_of_alerts() -> BTreeSet<&'static str> {
    let words = ALERTS.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| {
            ["xfetch_", "cache_", "hopcache_", "single_flight_", "stampede_"]
                .iter()
                .any(|prefix| word.starts_with(prefix))
        })
        .collect()
}

/// A rule on a series that no node exports never fires, and no operator notices.
#[test]
fn every_metric_of_an_alert_is_exported() {
    let names = metrics_of_alerts();
    assert!(names.contains("hopcache_degraded") && names.len() >= 10, "{names:?}");
    let text =
        Meters::with(&RefreshSection::default()).render(Readings::default(), Exposition::Prometheus, "");
    for name in names {
        let base =
            ["_count", "_sum", "_bucket"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        assert!(
            hopcache_ops::meters::all().any(|metric| metric.name == base),
            "{name}: in alerts.yml, and no node has it"
        );
    }
    // Labels too: a selector without a match is as silent.
    for selector in ["hopcache_degraded{part=\"store\"}", "hopcache_degraded{part=\"origin\"}"] {
        assert!(ALERTS.contains(selector) && text.contains(selector), "{selector}");
    }
    for (selector, words) in
        [("=\"fenced\"", ["fenced"].as_slice()), ("=~\"stored|in_memory\"", &["stored", "in_memory"])]
    {
        assert!(ALERTS.contains(&format!("hopcache_commits_total{{outcome{selector}}}")), "{selector}");
        for word in words {
            assert!(text.contains(&format!("hopcache_commits_total{{outcome=\"{word}\"}}")), "{word}");
        }
    }
    for cause in ["miss", "refresh"] {
        assert!(text.contains(&format!("hopcache_origin_runs_total{{cause=\"{cause}\"}}")), "{cause}");
    }
}

/// Whether an absolute URL leads to a page of the book, and to a heading on it.
fn has_section(url: &str) -> bool {
    let Some((page, anchor)) = url.strip_prefix(BOOK).and_then(|path| path.split_once(".html#")) else {
        return false;
    };
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let Ok(text) = std::fs::read_to_string(docs.join(format!("{page}.md"))) else { return false };
    let headings = text.lines().filter_map(|line| line.strip_prefix("### "));
    headings.map(str::to_lowercase).any(|heading| heading == anchor)
}

/// A link whose page or heading is missing is found, also in this test.
#[test]
fn a_runbook_that_leads_nowhere_is_noticed() {
    assert!(has_section("https://hopcache.example/operating/alerts.html#hopcachestoredown"));
    for wrong in [
        "https://hopcache.example/operating/alerts.html#hopcachestoreup",
        "https://hopcache.example/operating/RUNNING.html#hopcachestoredown",
        "docs/operating/alerts.md#hopcachestoredown",
        "",
    ] {
        assert!(!has_section(wrong), "{wrong}");
    }
}

#[test]
fn every_alert_says_how_bad_it_is_what_to_do_and_where_to_read_on() {
    let rules: Vec<&str> = ALERTS.split("- alert: ").skip(1).collect();
    assert!(rules.len() >= 8, "{}", rules.len());
    for rule in rules {
        let name = rule.lines().next().unwrap();
        assert!(rule.contains("severity: critical") || rule.contains("severity: warning"), "{name}");
        assert!(rule.contains("summary: ") && rule.contains("description: "), "{name}");
        let anchor = format!("runbook: docs/operating/alerts.md#{}\n", name.to_lowercase());
        assert!(rule.contains(&anchor), "{name}: {anchor}");
        assert!(OPERATING.contains(&format!("\n### {name}\n")), "{name}: no heading in docs/operating");
        let url = rule.split_once("runbook_url: ").map(|(_, rest)| rest.lines().next().unwrap());
        assert!(has_section(url.unwrap_or_default()), "{name}: runbook_url: {url:?}");
        let tests = include_str!("../../../cluster/prometheus/alerts_test.yml");
        assert!(
            tests.contains(&format!("alertname=\"{name}\"")),
            "{name}: no scenario in alerts_test.yml fires it"
        );
    }
}

/// Labels that need no explanation: numbers, and bounds of buckets.
fn is_number(word: &str) -> bool {
    word == "+Inf" || word.parse::<f64>().is_ok()
}

/// `name="word"` pairs of one line of the exposition.
fn labels_of(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let labels =
        line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(labels, _)| labels);
    labels
        .split(',')
        .filter_map(|label| label.split_once("=\"").map(|(name, word)| (name, word.trim_end_matches('"'))))
}

/// Whether `word` stands in a row of the section of `metric`, or as a whole word near its name: in its row, or in a
/// line below the table that names it.
fn is_explained(metric: &str, word: &str) -> bool {
    let headings = OPERATING.lines().filter(|line| line.starts_with("### ") && line.contains(metric));
    if headings.filter_map(section).any(|section| has_row_in(section, word)) {
        return true;
    }
    let is_word =
        |line: &str| line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|other| other == word);
    OPERATING.lines().any(|line| line.contains(metric) && is_word(line))
}

/// Every label is explained beside its metric.
#[test]
fn every_word_of_a_label_is_explained() {
    let text =
        Meters::with(&RefreshSection::default()).render(Readings::default(), Exposition::Prometheus, "");
    let mut words = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((metric, _)) = line.split_once('{') else { continue };
        for (label, word) in labels_of(line).filter(|(_, word)| !is_number(word)) {
            let metric =
                metric.trim_end_matches("_bucket").trim_end_matches("_sum").trim_end_matches("_count");
            if metric == "hopcache_build_info" {
                continue;
            }
            assert!(is_explained(metric, word), "{metric}: {label}=\"{word}\" is not explained");
            words += 1;
        }
    }
    assert!(words >= 150, "{words}");
}

/// The reasons why an item was not launched, observed or shared: each has a row in the section of its metric.
#[test]
fn every_word_of_learning_and_prefetch_is_explained() {
    let text =
        Meters::with(&RefreshSection::default()).render(Readings::default(), Exposition::Prometheus, "");
    for (metric, label) in [
        ("prefetch_skipped_total", "reason"),
        ("hopcache_observations_total", "outcome"),
        ("hopcache_learning_shared_total", "outcome"),
        ("cache_bypass_total", "reason"),
        ("hopcache_origin_errors_total", "kind"),
    ] {
        let rows = section(&format!("### `{metric}{{{label}}}`"));
        let rows = rows.unwrap_or_else(|| panic!("{metric}: no section in docs/operating"));
        let series = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
        let words: Vec<&str> = series.filter_map(|labels| labels.split('"').nth(1)).collect();
        assert!(words.len() >= 5, "{metric}: {words:?}");
        for word in words {
            assert!(has_row_in(rows, word), "{metric}: {word} has no row");
        }
    }
}
