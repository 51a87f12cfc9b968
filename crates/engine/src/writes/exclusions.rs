//! Asks Neo4j whether some node has two labels. If none has, what a write did to a node of the one label ends no result of nodes of the other.
//!
//! Whoever finds a result ended by such a write asks for the pair; the answer comes too late for that result, and in time for the next ones.
//! The questions run beside everything else, with the credentials of the reader. Who sees less than there is (rights by label) has
//! `freshness.triggers` on, and then each write ends all results.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, ReadRange};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{
    EXCLUSION_AGAIN_MS, EXCLUSION_ASK_MS_MAX, EXCLUSION_OVER_MS, EXCLUSIONS_ASKED_MAX, EXCLUSIONS_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_cypher::tags::anchored::label_pair;

use crate::model::ask::Query;
use crate::model::fetch_times::FetchTimes;
use crate::model::ports::{AccessMode, OriginRun, RunBookmarks};
use crate::writes::Writes;

/// A pair of labels of a database.
type NamedPair = (DatabaseTag, [Box<str>; 2]);

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

impl Writes {
    /// A write has ended a result of this query, of a run of this range: asks for pairs of labels that would have kept it.
    pub(crate) fn want_exclusions(self: &Arc<Self>, query: &Query, range: &ReadRange) {
        let (name, now) = (query.tags.database(), self.context.now());
        for labels in self.cache.write_positions().wanted_pairs(query, range) {
            let pair = (name, labels);
            if !self.excluding.lock().begin(&pair, now) {
                continue;
            }
            let (question, _) = label_pair(pair.1.clone());
            let run = self.exclusion_run(query, &question);
            let writes = Arc::clone(self);
            self.context.spawn(async move { writes.ask_exclusion(pair, run).await });
        }
    }

    fn exclusion_run(&self, query: &Query, question: &str) -> OriginRun {
        let written = self.cache.write_positions().of(query.tags.database());
        OriginRun {
            identity: Arc::clone(&query.identity),
            impersonated: query.impersonated.clone(),
            database: Arc::clone(&query.database),
            statement: question.into(),
            pattern: None,
            params: Bytes::from_static(&[0xA0]),
            mode: AccessMode::Read,
            bookmarks: RunBookmarks::After { client: Bookmark::NONE, written },
            timeout_ms: Millis(EXCLUSION_ASK_MS_MAX),
            bytes_max: 1 << 10,
            traceparent: None,
            class: RunClass::Refresh,
            live: None,
            times: FetchTimes::default(),
        }
    }

    async fn ask_exclusion(&self, pair: NamedPair, run: OriginRun) {
        let answer = tokio::select! {
            biased;
            answer = self.origin.run(&run) => answer.ok(),
            () = self.context.sleep(Millis(EXCLUSION_ASK_MS_MAX)) => None,
        };
        let range = answer.as_ref().filter(|answer| answer.rows == 0).and_then(|answer| answer.range.clone());
        let again_ms = if range.is_some() { EXCLUSION_OVER_MS } else { EXCLUSION_AGAIN_MS };
        if let Some(range) = range {
            self.cache.write_positions().exclude(label_pair(pair.1.clone()).1, &range);
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
        let pair = |other: &str| (DatabaseTag(1), ["A".into(), other.into()]);
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
