//! What `docs/OPERATING.md` lists is what the code has: `Cache-Status` details, metrics, bypass reasons' home.
//! Decides nothing; it fails when one of the two moves alone.

use hopcache::meters::{Meters, Readings};
use hopcache::words;
use hopcache_core::cypher::verdict::BypassReason;
use hopcache_engine::outcome::{Detail as Answered, Reason};
use hopcache_queryapi::headers::cache_status::Detail;

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
    let sent = answers.into_iter().filter_map(words::answer_detail);
    for detail in sent.chain(reasons.map(words::bypass_detail)).chain([Detail::Owner]) {
        assert!(has_row(detail.as_str()), "{}: no row in docs/OPERATING.md", detail.as_str());
    }
}

#[test]
fn every_metric_is_listed() {
    let text = Meters::new().render(Readings::default());
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
