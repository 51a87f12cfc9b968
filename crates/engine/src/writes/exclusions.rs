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
    EXCLUSION_AGAIN_MS, EXCLUSION_ASK_MS_MAX, EXCLUSION_OVER_MS, EXCLUSIONS_ASKED_MAX, EXCLUSIONS_MAX,
};
use hopcache_core::tags::Viewer;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_core::write_position::WriteEpoch;
use hopcache_cypher::tags::anchored::label_pair;

use crate::model::ask::Query;
use crate::model::fetch_times::FetchTimes;
use crate::model::ports::{AccessMode, OriginRun, RunBookmarks};
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
    /// Each with the time before which it is not asked again; `None`: a question is under way.
    pairs: BTreeMap<NamedPair, Option<MonoTime>>,
}

impl ExclusionQuestions {
    /// Whether to ask now. Then the question is under way.
    fn begin(&mut self, pair: &NamedPair, now: MonoTime) -> bool {
        let under_way = self.pairs.values().filter(|again| again.is_none()).count();
        let is_due = self.pairs.get(pair).is_none_or(|again| again.is_some_and(|again| again <= now));
        let is_known = self.pairs.contains_key(pair);
        if !is_due || under_way >= EXCLUSIONS_ASKED_MAX || (!is_known && self.pairs.len() >= EXCLUSIONS_MAX) {
            return false;
        }
        self.pairs.insert(pair.clone(), None);
        true
    }

    fn end(&mut self, pair: NamedPair, again: MonoTime) {
        self.pairs.insert(pair, Some(again));
    }
}

/// What was known when a question was asked.
struct Question {
    pair: NamedPair,
    run: OriginRun,
    epoch: WriteEpoch,
    rights_since: Option<MonoTime>,
}

impl Writes {
    /// A write has ended a result of this query, of a run of this range: asks for pairs of labels that would have kept it.
    pub(crate) fn want_exclusions(self: &Arc<Self>, query: &Query, range: &ReadRange) {
        let (name, now) = (query.tags.database(), self.context.now());
        for labels in self.cache.write_positions().wanted_pairs(query, range) {
            let pair = NamedPair { name, viewer: query.viewer(), labels };
            if !self.excluding.lock().begin(&pair, now) {
                continue;
            }
            let question = self.exclusion_question(query, pair, range);
            let writes = Arc::clone(self);
            self.context.spawn(async move { writes.ask_exclusion(question).await });
        }
    }

    fn exclusion_question(&self, query: &Query, pair: NamedPair, range: &ReadRange) -> Question {
        let positions = self.cache.write_positions();
        let (statement, _) = label_pair(pair.labels.clone());
        let run = OriginRun {
            identity: Arc::clone(&query.identity),
            impersonated: query.impersonated.clone(),
            database: Arc::clone(&query.database),
            statement: statement.into(),
            pattern: None,
            params: Bytes::from_static(&[0xA0]),
            mode: AccessMode::Read,
            bookmarks: RunBookmarks::After { client: Bookmark::NONE, written: positions.of(pair.name) },
            timeout_ms: Millis(EXCLUSION_ASK_MS_MAX),
            bytes_max: 1 << 10,
            traceparent: None,
            class: RunClass::Refresh,
            live: None,
            times: FetchTimes::default(),
        };
        let epoch = positions.of_database(range.to().database).map(|position| position.epoch());
        let rights_since = self.cache.proofs().rights_since();
        Question { pair, run, epoch: epoch.unwrap_or_default(), rights_since }
    }

    async fn ask_exclusion(&self, question: Question) {
        let Question { pair, run, epoch, rights_since } = question;
        let answer = tokio::select! {
            biased;
            answer = self.origin.run(&run) => answer.ok(),
            () = self.context.sleep(Millis(EXCLUSION_ASK_MS_MAX)) => None,
        };
        let range = answer.as_ref().filter(|answer| answer.rows == 0).and_then(|answer| answer.range.clone());
        let again_ms = if range.is_some() { EXCLUSION_OVER_MS } else { EXCLUSION_AGAIN_MS };
        // Schedule: the question is answered · the viewer gets rights for a node of both labels · what was known is forgotten · the answer
        // arrives here.
        if let Some(range) = range.filter(|_| self.cache.proofs().rights_since() == rights_since) {
            let (_, labels) = label_pair(pair.labels.clone());
            self.cache.write_positions().exclude((pair.viewer, labels), (epoch, &range));
        }
        self.excluding.lock().end(pair, self.context.now() + Millis(again_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_asked_about_once_at_a_time_and_not_too_often() {
        let mut asked = ExclusionQuestions::default();
        let pair = |other: &str| NamedPair {
            name: DatabaseTag(1),
            viewer: Viewer::default(),
            labels: ["A".into(), other.into()],
        };
        assert!(asked.begin(&pair("B"), MonoTime(0)) && !asked.begin(&pair("B"), MonoTime(9)));
        assert!(
            asked.begin(&pair("C"), MonoTime(9)) && !asked.begin(&pair("D"), MonoTime(9)),
            "two at a time"
        );
        asked.end(pair("B"), MonoTime(50));
        assert!(!asked.begin(&pair("B"), MonoTime(49)) && asked.begin(&pair("B"), MonoTime(50)));
        asked.end(pair("B"), MonoTime(50));
        for other in 0..EXCLUSIONS_MAX {
            if asked.begin(&pair(&other.to_string()), MonoTime(60)) {
                asked.end(pair(&other.to_string()), MonoTime(60));
            }
        }
        assert!(!asked.begin(&pair("one more"), MonoTime(99)), "there is no place");
    }
}
