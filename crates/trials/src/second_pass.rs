//! What a program's reads find the second time, by the lines that a node writes of each request (`log.requests`).
//!
//! The program marks its passes by statements whose columns have names of their own: `RETURN 1 AS hcFirstPass`, `hcSecondPass`, `hcOver`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hopcache_testbed::node::LOOK_EVERY;
use serde_json::Value;

const SECOND: &str = "hcSecondPass";
const OVER: &str = "hcOver";
/// A node writes a line when it has answered.
const SOON: Duration = Duration::from_secs(10);

/// Plain data: the requests between two marks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SecondPass {
    pub(crate) hits: usize,
    pub(crate) all: usize,
    /// How often which pattern was no hit, and how it was answered.
    pub(crate) others: BTreeMap<(String, String), usize>,
}

impl SecondPass {
    pub(crate) fn of(log: &str) -> anyhow::Result<Self> {
        let mut found = Self::default();
        let mut is_second = false;
        for line in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            let (pattern, class) = (text("pattern"), text("class"));
            if class.is_empty() || pattern.contains(OVER) {
                is_second &= class.is_empty();
                continue;
            }
            if pattern.contains(SECOND) {
                is_second = true;
                continue;
            }
            if !is_second {
                continue;
            }
            found.all += 1;
            if class == "hit" {
                found.hits += 1;
            } else {
                let how = [class, text("detail")].join(" ");
                *found.others.entry((pattern, how.trim().to_owned())).or_default() += 1;
            }
        }
        ensure!(found.all > 0, "the program has read nothing between its marks");
        Ok(found)
    }
}

/// The log, once it has the last mark.
pub(crate) fn until_over(log: impl Fn() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let start = Instant::now();
    loop {
        let text = log()?;
        if text.contains(OVER) {
            return Ok(text);
        }
        ensure!(start.elapsed() < SOON, "no line of the last mark");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Why a pattern is no hit: of lines that are the begin of a pattern and the reason in turn.
pub(crate) fn reason_of<'a>(reasons: &'a str, pattern: &str) -> Option<&'a str> {
    let lines: Vec<&str> = reasons.lines().filter(|line| !line.is_empty()).collect();
    let pairs = lines.as_chunks::<2>().0;
    pairs.iter().find(|[begin, _]| pattern.starts_with(*begin)).map(|[_, reason]| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_counts() {
        let line = |pattern: &str, class: &str, detail: &str| {
            serde_json::json!({"message": "request", "pattern": pattern, "class": class, "detail": detail})
                .to_string()
        };
        let log = [
            line("RETURN ? AS hcFirstPass", "miss", ""),
            line("MATCH (n)", "miss", ""),
            line("RETURN ? AS hcSecondPass", "miss", ""),
            "no line of a request".to_owned(),
            r#"{"message":"a node has joined"}"#.to_owned(),
            line("MATCH (n)", "hit", ""),
            line("CALL apoc.x()", "bypass", "procedure"),
            line("CALL apoc.x()", "bypass", "procedure"),
            line("RETURN ? AS hcOver", "miss", ""),
            line("MATCH (n) DETACH DELETE n", "bypass", "write"),
        ];
        let seen = SecondPass::of(&log.join("\n")).unwrap();
        let others = BTreeMap::from([(("CALL apoc.x()".to_owned(), "bypass procedure".to_owned()), 2)]);
        assert_eq!(seen, SecondPass { hits: 1, all: 3, others });
        assert!(SecondPass::of(&log[..3].join("\n")).is_err(), "nothing was read");
    }

    #[test]
    fn a_reason_belongs_to_the_begin_of_a_pattern() {
        let reasons = "CALL apoc.x(\nit writes\n\nSHOW\nit counts\n";
        assert_eq!(reason_of(reasons, "CALL apoc.x(?)"), Some("it writes"));
        assert_eq!(reason_of(reasons, "SHOW INDEXES"), Some("it counts"));
        assert_eq!(reason_of(reasons, "MATCH"), None);
    }
}
