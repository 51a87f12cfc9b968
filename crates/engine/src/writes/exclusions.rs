//! Asks Neo4j whether some node has two labels. If none has, what a write did to a node of the one label ends no result of nodes of the other.
//!
//! Whoever finds a result ended by such a write asks for the pair; the answer comes too late for that result, and in time for the next ones.
//! The questions run beside everything else, with the credentials of the reader, and an answer counts for the same principal alone: who sees
//! less than there is hears of fewer nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, ReadRange};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{
    EXCLUSION_AGAIN_MS, EXCLUSION_ASK_MS_MAX, EXCLUSION_LOOK_MS, EXCLUSION_OVER_MS, EXCLUSIONS_ASKED_MAX,
    EXCLUSIONS_MAX,
};
use hopcache_core::tags::Viewer;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_core::write_position::{ExclusionsAsked, LabelPair};
use hopcache_cypher::tags::anchored::label_pair;

use crate::model::ask::{Query, RunBounds};
use crate::model::ports::{OriginRun, RunBookmarks};
use crate::writes::Writes;

/// A pair of labels of a database, for one viewer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamedPair {
    name: DatabaseTag,
    viewer: Viewer,
    labels: [Box<str>; 2],
}

/// The pairs that were asked about.
#[derive(Debug, Default)]
pub(super) struct ExclusionQuestions {
    pairs: BTreeMap<NamedPair, Asked>,
    /// Before this time nobody looks for pairs again.
    looked_until: MonoTime,
}

/// Before this time a pair is not asked about again. A question that is under way ends until then, or nobody waits for it.
#[derive(Debug, Clone, Copy)]
struct Asked {
    again: MonoTime,
    is_under_way: bool,
}

impl ExclusionQuestions {
    /// Whether to look for pairs that would help. Each look judges a result anew.
    fn may_look(&mut self, now: MonoTime) -> bool {
        if now < self.looked_until || self.under_way(now) >= EXCLUSIONS_ASKED_MAX {
            return false;
        }
        self.looked_until = now + Millis(EXCLUSION_LOOK_MS);
        true
    }

    fn under_way(&self, now: MonoTime) -> usize {
        self.pairs.values().filter(|asked| asked.is_under_way && asked.again > now).count()
    }

    /// Whether to ask now. Then the question is under way.
    fn begin(&mut self, pair: &NamedPair, now: MonoTime) -> bool {
        let is_due = self.pairs.get(pair).is_none_or(|asked| asked.again <= now);
        if !is_due || self.under_way(now) >= EXCLUSIONS_ASKED_MAX {
            return false;
        }
        if self.pairs.len() >= EXCLUSIONS_MAX && !self.pairs.contains_key(pair) {
            let earliest = self.pairs.iter().min_by_key(|(_, asked)| asked.again);
            let Some((earliest, _)) = earliest.filter(|(_, asked)| asked.again <= now) else { return false };
            let earliest = earliest.clone();
            self.pairs.remove(&earliest);
        }
        let again = now + Millis(2 * EXCLUSION_ASK_MS_MAX);
        self.pairs.insert(pair.clone(), Asked { again, is_under_way: true });
        true
    }

    fn end(&mut self, pair: NamedPair, again: MonoTime) {
        self.pairs.insert(pair, Asked { again, is_under_way: false });
    }
}

/// A question, with what held when it was asked.
struct Question {
    pair: NamedPair,
    labels: LabelPair,
    run: OriginRun,
    asked: ExclusionsAsked,
}

impl Writes {
    /// A write has ended a result of this query, of a run of this range: asks for pairs of labels that would have kept it.
    pub(crate) fn want_exclusions(self: &Arc<Self>, query: &Query, range: &ReadRange) {
        let now = self.context.now();
        if !self.excluding.lock().may_look(now) {
            return;
        }
        for labels in self.cache.write_positions().wanted_pairs(query, range) {
            let pair = NamedPair { name: query.tags.database(), viewer: query.viewer(), labels };
            let Some((statement, labels)) = label_pair(pair.labels.clone()) else { continue };
            if !self.excluding.lock().begin(&pair, now) {
                continue;
            }
            let asked = self.cache.write_positions().exclusions_asked(range.to().database);
            let question = Question { run: self.exclusion_run(query, &statement), pair, labels, asked };
            let writes = Arc::clone(self);
            self.context.spawn(async move { writes.ask_exclusion(question).await });
        }
    }

    fn exclusion_run(&self, query: &Query, statement: &str) -> OriginRun {
        let written = self.cache.write_positions().of(query.tags.database());
        let bounds = RunBounds { timeout_ms: Millis(EXCLUSION_ASK_MS_MAX), bytes_max: 1 << 10 };
        OriginRun {
            statement: statement.into(),
            pattern: None,
            params: Bytes::from_static(&[0xA0]),
            bookmarks: RunBookmarks::After { client: Bookmark::NONE, written },
            class: RunClass::Refresh,
            ..query.reading(bounds, None)
        }
    }

    async fn ask_exclusion(&self, question: Question) {
        let Question { pair, labels, run, asked } = question;
        let answer = tokio::select! {
            biased;
            answer = self.origin.run(&run) => answer.ok(),
            () = self.context.sleep(Millis(EXCLUSION_ASK_MS_MAX)) => None,
        };
        let range = answer.as_ref().filter(|answer| answer.rows == 0).and_then(|answer| answer.range.clone());
        let again_ms = if range.is_some() { EXCLUSION_OVER_MS } else { EXCLUSION_AGAIN_MS };
        if let Some(range) = range {
            self.cache.write_positions().exclude((pair.viewer, labels), (asked, &range));
        }
        self.excluding.lock().end(pair, self.context.now() + Millis(again_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime(0) + Millis(ms)
    }

    #[test]
    fn a_pair_is_asked_about_once_at_a_time_and_not_too_often() {
        let mut asked = ExclusionQuestions::default();
        let pair = |other: &str| NamedPair {
            name: DatabaseTag(1),
            viewer: Viewer::default(),
            labels: ["A".into(), other.into()],
        };
        assert!(asked.begin(&pair("B"), at(0)) && !asked.begin(&pair("B"), at(9)));
        let is_third = asked.begin(&pair("C"), at(9)) && !asked.begin(&pair("D"), at(9));
        assert!(is_third && !asked.may_look(at(9)), "two at a time");
        asked.end(pair("B"), at(50));
        assert!(!asked.begin(&pair("B"), at(49)) && asked.begin(&pair("B"), at(50)));
        assert!(asked.begin(&pair("D"), at(9 + 2 * EXCLUSION_ASK_MS_MAX)), "nobody waits for C any more");
    }

    #[test]
    fn the_pair_that_was_asked_about_longest_ago_makes_room() {
        let mut asked = ExclusionQuestions::default();
        let pair = |other: usize| NamedPair {
            name: DatabaseTag(1),
            viewer: Viewer::default(),
            labels: ["A".into(), other.to_string().into()],
        };
        for other in 0..EXCLUSIONS_MAX {
            asked.end(pair(other), at(100 + other as u64));
        }
        assert!(!asked.begin(&pair(EXCLUSIONS_MAX), at(99)), "none is due");
        assert!(asked.begin(&pair(EXCLUSIONS_MAX), at(100)));
        assert!(!asked.pairs.contains_key(&pair(0)) && asked.pairs.len() == EXCLUSIONS_MAX);
    }

    #[test]
    fn results_are_not_judged_anew_all_the_time() {
        let mut asked = ExclusionQuestions::default();
        assert!(asked.may_look(at(7)) && !asked.may_look(at(7 + EXCLUSION_LOOK_MS - 1)));
        assert!(asked.may_look(at(7 + EXCLUSION_LOOK_MS)));
    }
}
