//! What `docs/OPERATING.md` and the alert rules name is what the code has: `Cache-Status` details, metrics, alerts,
//! keys of the configuration.
//! Decides nothing; it fails when one of the two moves alone.

use std::collections::BTreeSet;

use hopcache::config::{self, RefreshSection};
use hopcache::labels;
use hopcache::meters::{ALL, Meters, Readings};
use hopcache_core::cypher::verdict::BypassReason;
use hopcache_engine::outcome::{Detail as Answered, Reason};
use hopcache_queryapi::headers::cache_status::Detail;

const ALERTS: &str = include_str!("../../../cluster/prometheus/alerts.yml");
const OPERATING: &str = include_str!("../../../docs/OPERATING.md");
/// Where words are named that nothing sends yet.
const UNSENT: &str = "are words of the list";

fn unsent_line() -> Option<&'static str> {
    OPERATING.lines().find(|line| line.contains(UNSENT))
}

fn has_row(word: &str) -> bool {
    OPERATING.contains(&format!("\n| `{word}` |"))
}

#[test]
fn every_detail_has_a_row_or_is_said_to_be_unsent() {
    for detail in Detail::ALL {
        let word = detail.as_str();
        let is_unsent = unsent_line().unwrap().contains(&format!("`{word}`"));
        assert!(has_row(word) != is_unsent, "{word}: a row of the table, or the line of unsent words");
    }
}

#[test]
fn every_detail_that_a_node_sends_has_a_row() {
    let answers = [
        Answered::Stale,
        Answered::Degraded,
        Answered::TooLarge,
        Answered::Fenced,
        Answered::Updates,
        Answered::Off,
        Answered::NotCached,
        Answered::Failed,
    ];
    let reasons = [
        Reason::Write,
        Reason::Unknown,
        Reason::NoStore,
        Reason::Bookmarks,
        Reason::TooLarge,
        Reason::Rejected,
        Reason::Text(BypassReason::VolatileFunction),
        Reason::Text(BypassReason::Schema),
    ];
    let sent = answers.into_iter().filter_map(labels::answer_detail);
    for detail in sent.chain(reasons.map(labels::bypass_detail)).chain([Detail::Owner]) {
        assert!(has_row(detail.as_str()), "{}: no row in docs/OPERATING.md", detail.as_str());
    }
}

#[test]
fn every_metric_is_listed() {
    let text = Meters::with(&RefreshSection::default()).render(Readings::default());
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(names.len() > 20, "the exposition shows its metrics: {names:?}");
    for name in names {
        assert!(OPERATING.contains(&format!("`{name}")), "{name}: not in docs/OPERATING.md");
    }
}

/// Names of metrics in the rules' expressions: words before a selector or a range, or compared as they are.
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

/// A rule on a series that nobody exports never fires, and nobody notices.
#[test]
fn every_metric_of_an_alert_is_exported() {
    let names = metrics_of_alerts();
    assert!(names.contains("hopcache_degraded") && names.len() >= 10, "{names:?}");
    let text = Meters::with(&RefreshSection::default()).render(Readings::default());
    for name in names {
        let base =
            ["_count", "_sum", "_bucket"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
        assert!(ALL.iter().any(|metric| metric.name == base), "{name}: in alerts.yml, and no node has it");
    }
    // Labels too: a selector that nothing matches is as silent.
    for selector in ["hopcache_degraded{part=\"store\"}", "hopcache_degraded{part=\"origin\"}"] {
        assert!(ALERTS.contains(selector) && text.contains(selector), "{selector}");
    }
    for (metric, word) in [("hopcache_commits_total", "fenced"), ("hopcache_commits_total", "stored")] {
        let selector = format!("{metric}{{outcome=\"{word}\"}}");
        assert!(ALERTS.contains(&selector) && text.contains(&selector), "{selector}");
    }
    for cause in ["miss", "refresh"] {
        assert!(text.contains(&format!("hopcache_origin_runs_total{{cause=\"{cause}\"}}")), "{cause}");
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
        let anchor = format!("runbook: docs/OPERATING.md#{}\n", name.to_lowercase());
        assert!(rule.contains(&anchor), "{name}: {anchor}");
        assert!(OPERATING.contains(&format!("\n### {name}\n")), "{name}: no heading in docs/OPERATING.md");
        let tests = include_str!("../../../cluster/prometheus/alerts_test.yml");
        assert!(
            tests.contains(&format!("alertname=\"{name}\"")),
            "{name}: no scenario in alerts_test.yml fires it"
        );
    }
}

/// The keys that decide about freshness and prefetch.
#[test]
fn every_key_of_entries_refreshes_and_prefetch_has_a_row() {
    let schema = config::schema();
    for section in ["entry", "refresh", "prefetch"] {
        let keys = schema["properties"][section]["properties"].as_object().unwrap();
        assert!(keys.len() > 5, "{section}");
        for key in keys.keys() {
            assert!(OPERATING.contains(&format!("\n| `{section}.{key}`")), "{section}.{key}: no row");
        }
    }
}

/// What was not launched, observed or shared, and why: each word stands in the row of its metric.
#[test]
fn every_word_of_learning_and_prefetch_is_explained() {
    let text = Meters::with(&RefreshSection::default()).render(Readings::default());
    for metric in ["prefetch_skipped_total", "hopcache_observations_total", "hopcache_learning_shared_total"]
    {
        let row = OPERATING.lines().find(|line| line.starts_with(&format!("| `{metric}")));
        let row = row.unwrap_or_else(|| panic!("{metric}: no row in docs/OPERATING.md"));
        let series = text.lines().filter_map(|line| line.strip_prefix(metric)?.strip_prefix('{'));
        let words: Vec<&str> = series.filter_map(|labels| labels.split('"').nth(1)).collect();
        assert!(words.len() >= 5, "{metric}: {words:?}");
        for word in words {
            let mut known = row.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            assert!(known.any(|other| other == word), "{metric}: {word} is not explained");
        }
    }
}
