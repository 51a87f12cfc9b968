//! The keys and patterns that clients ask this node for most, from a sample of their requests.
//!
//! `hopcache_core::hot` decides which requests are looked at. A request that is not looked at pays one load, and one
//! addition to a counter of its thread. Texts are kept without literals and parameters.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hopcache_core::hot::{AnswerKind, HotCounts, HotTable, SampleRate};
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    HOT_ROWS_MAX, HOT_ROWS_SHOWN, HOT_TAGS_MAX, HOT_TEXT_BYTES_MAX, PATTERN_TEXT_BYTES_MAX,
};
use hopcache_core::pattern::PatternId;
use hopcache_core::tags::TagId;
use hopcache_core::time::Millis;
use hopcache_core::words::Word;
use hopcache_cypher::forms::pattern::{pattern_id, shown_pattern};
use hopcache_engine::ask::Query;
use hopcache_engine::outcome::{Class, How, Reason};
use hopcache_engine::ports::Clock;
use hopcache_engine::watched_words;
use parking_lot::Mutex;

use crate::clock::SystemClock;
use crate::labels;

/// Counts sampled requests.
pub struct HotRequests {
    every: AtomicU32,
    clock: SystemClock,
    sampled: Mutex<Sampled>,
}

struct Sampled {
    rate: SampleRate,
    keys: HotTable<QueryKey, HotKey>,
    patterns: HotTable<PatternId, HotPattern>,
}

/// Plain data: a hot key.
#[derive(Debug, Clone)]
pub struct HotKey {
    /// The statement without literals and parameters.
    pub pattern: Arc<str>,
    /// The database, as a client named it.
    pub database: Arc<str>,
    /// Why its last answer was not kept or not fresh; `None` if it was.
    pub note: Option<&'static str>,
}

/// Plain data: a hot pattern.
#[derive(Debug, Clone)]
pub struct HotPattern {
    /// The statement without literals and parameters.
    pub text: Arc<str>,
    /// Why its last answer was not kept or not fresh; `None` if it was.
    pub note: Option<&'static str>,
    /// What its results depend on; empty for a statement that bypasses the cache.
    pub tags: Vec<(TagId, String)>,
}

/// Plain data: the hottest keys and patterns.
#[derive(Debug, Clone)]
pub struct Hottest {
    /// One of this many requests is looked at.
    pub every: u32,
    /// Keys, the hottest first.
    pub keys: Vec<(QueryKey, HotKey, HotCounts)>,
    /// Patterns, the hottest first.
    pub patterns: Vec<(PatternId, HotPattern, HotCounts)>,
}

impl HotRequests {
    /// Nothing is counted yet.
    #[must_use]
    pub fn new(clock: SystemClock) -> Self {
        let sampled = Sampled {
            rate: SampleRate::new(clock.now()),
            keys: HotTable::new(HOT_ROWS_MAX),
            patterns: HotTable::new(HOT_ROWS_MAX),
        };
        Self { every: AtomicU32::new(1), clock, sampled: Mutex::new(sampled) }
    }

    /// A query was answered.
    pub fn saw(&self, query: &Query, how: &How, took: Duration) {
        if let Some(every) = self.turn() {
            self.count(query, how, (took, every));
        }
    }

    /// A statement of this text went past the cache.
    pub fn saw_bypass(&self, statement: &str, reason: Reason) {
        if statement.len() > HOT_TEXT_BYTES_MAX {
            return;
        }
        let Some(every) = self.turn() else { return };
        let id = pattern_id(statement);
        let about = || HotPattern { text: shown(statement), note: None, tags: Vec::new() };
        let mut sampled = self.sampled.lock();
        let now = self.clock.now();
        let row = sampled.patterns.count(&id, (AnswerKind::Bypass, every), now, about);
        row.note = Some(reason.word());
        sampled.rate.took_one(now);
        self.every.store(sampled.rate.every(), Ordering::Relaxed);
    }

    /// The hottest keys and patterns.
    #[must_use]
    pub fn hottest(&self) -> Hottest {
        let mut sampled = self.sampled.lock();
        let now = self.clock.now();
        sampled.rate.relax(now);
        let every = sampled.rate.every();
        self.every.store(every, Ordering::Relaxed);
        let keys = sampled.keys.hottest(HOT_ROWS_SHOWN, now).into_iter();
        let patterns = sampled.patterns.hottest(HOT_ROWS_SHOWN, now).into_iter();
        Hottest {
            every,
            keys: keys.map(|(key, about, counts)| (*key, about.clone(), counts)).collect(),
            patterns: patterns.map(|(id, about, counts)| (*id, about.clone(), counts)).collect(),
        }
    }

    /// Whether this request is looked at, and how many requests it stands for.
    fn turn(&self) -> Option<u32> {
        thread_local! {
            static PASSED: Cell<u32> = const { Cell::new(0) };
        }
        let every = self.every.load(Ordering::Relaxed);
        PASSED.with(|passed| {
            let place = passed.get() + 1;
            let is_turn = place >= every;
            passed.set(if is_turn { 0 } else { place });
            is_turn.then_some(every)
        })
    }

    #[cold]
    fn count(&self, query: &Query, how: &How, (took, every): (Duration, u32)) {
        let (answered, note) = read(how, took);
        let text = || shown(&query.statement);
        let mut sampled = self.sampled.lock();
        let now = self.clock.now();
        let about = || HotPattern { text: text(), note: None, tags: tags(query, answered) };
        let row = sampled.patterns.count(&query.pattern, (answered, every), now, about);
        row.note = note;
        let pattern = Arc::clone(&row.text);
        if answered != AnswerKind::Bypass {
            let about = || HotKey { pattern, database: Arc::clone(&query.database), note: None };
            sampled.keys.count(&query.key, (answered, every), now, about).note = note;
        }
        sampled.rate.took_one(now);
        self.every.store(sampled.rate.every(), Ordering::Relaxed);
    }
}

/// How a request was answered, and why its answer was not kept or not fresh.
fn read(how: &How, took: Duration) -> (AnswerKind, Option<&'static str>) {
    let detail = how.detail.and_then(labels::answer_detail);
    match how.class {
        Class::Hit => (AnswerKind::Hit, detail),
        Class::Miss { .. } => (AnswerKind::Miss(Millis::from(took)), detail),
        Class::Bypass(reason) => (AnswerKind::Bypass, Some(reason.word())),
    }
}

fn tags(query: &Query, answered: AnswerKind) -> Vec<(TagId, String)> {
    if answered == AnswerKind::Bypass || query.statement.len() > HOT_TEXT_BYTES_MAX {
        return Vec::new();
    }
    let mut words = watched_words(&query.statement);
    words.truncate(HOT_TAGS_MAX);
    words
}

/// The text as it may be shown.
fn shown(statement: &str) -> Arc<str> {
    if statement.len() > HOT_TEXT_BYTES_MAX {
        return format!("a statement of {} bytes", statement.len()).into();
    }
    let Some(mut text) = shown_pattern(statement) else { return "an unreadable statement".into() };
    text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_literal_is_kept_and_a_reason_is() {
        let hot = HotRequests::new(SystemClock::start());
        for _ in 0..3 {
            hot.saw_bypass("CREATE (:Person {mail: 'secret@example.org'})", Reason::Write);
        }
        let Hottest { patterns, keys, every } = hot.hottest();
        assert_eq!((patterns.len(), keys.len(), every), (1, 0, 1));
        let (_, about, counts) = &patterns[0];
        assert!(!about.text.contains("secret") && about.text.contains("Person"), "{}", about.text);
        assert!(about.note == Some("write") && (counts.requests() - 3.0).abs() < 0.1, "{counts:?}");
    }

    /// I9: a statement of any length costs little.
    #[test]
    fn a_long_statement_is_shown_by_its_length() {
        let long = format!("RETURN '{}'", "x".repeat(HOT_TEXT_BYTES_MAX));
        assert_eq!(&*shown(&long), format!("a statement of {} bytes", long.len()));
        let many = format!("RETURN {}", "n.property, ".repeat(200));
        assert!(shown(&many).len() <= PATTERN_TEXT_BYTES_MAX);
    }
}
