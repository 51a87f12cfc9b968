//! Asks Neo4j whether some node has two labels. If none has, what a write did to a node of the one label ends no result of nodes of the other.
//!
//! A node asks when it finds a result ended by such a write: the answer comes too late for that result, and in time for the next ones. For
//! writes that end many results it asks before they begin (`ahead`).
//!
//! The questions run beside everything else, with the credentials of the reader, and an answer counts for the same principal alone: who sees
//! less than there is hears of fewer nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, ReadRange};
use hopcache_core::key::DatabaseTag;
use hopcache_core::limits::{
    EXCLUSION_AGAIN_MS, EXCLUSION_ASK_MS_MAX, EXCLUSION_LATE_MS, EXCLUSION_LOOK_MS, EXCLUSION_OVER_MS,
    EXCLUSIONS_ASKED_MAX, EXCLUSIONS_MAX,
};
use hopcache_core::result::ResultSet;
use hopcache_core::tags::Viewer;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_core::write_position::{ExclusionsAsked, LabelPair};
use hopcache_cypher::tags::anchored::label_pair;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::ask::Query;
use crate::model::fetch_times::FetchTimes;
use crate::model::identity::Identity;
use crate::model::ports::{AccessMode, OriginError, OriginFault, OriginRun, RunBookmarks};
use crate::writes::Writes;

/// A pair of labels of a database, for one viewer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct NamedPair {
    name: DatabaseTag,
    viewer: Viewer,
    labels: [Box<str>; 2],
}

/// Questions for pairs.
#[derive(Debug, Default)]
pub(super) struct PairQuestions {
    asked: Mutex<ExclusionQuestions>,
    /// A question has ended.
    pub(super) ended: Notify,
}

/// With whose credentials a question is asked.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    pub(super) name: DatabaseTag,
    pub(super) viewer: Viewer,
    database: Arc<str>,
    identity: Arc<Identity>,
    impersonated: Option<String>,
}

/// What becomes of a wish to ask about a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskTurn {
    /// It is asked now.
    Asks,
    /// It is being asked, or has no place yet.
    Waits,
    /// It was asked a short time ago, or cannot be asked.
    Over,
}

/// The pairs that were asked about.
#[derive(Debug, Default)]
struct ExclusionQuestions {
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
    fn begin(&mut self, pair: &NamedPair, now: MonoTime) -> AskTurn {
        match self.pairs.get(pair) {
            Some(asked) if asked.again > now => {
                return if asked.is_under_way { AskTurn::Waits } else { AskTurn::Over };
            }
            _ if self.under_way(now) >= EXCLUSIONS_ASKED_MAX => return AskTurn::Waits,
            _ => {}
        }
        if self.pairs.len() >= EXCLUSIONS_MAX && !self.pairs.contains_key(pair) {
            let earliest = self.pairs.iter().min_by_key(|(_, asked)| asked.again);
            let earliest = earliest.filter(|(_, asked)| asked.again <= now).map(|(pair, _)| pair.clone());
            let Some(earliest) = earliest else { return AskTurn::Over };
            self.pairs.remove(&earliest);
        }
        let again = now + Millis(2 * EXCLUSION_ASK_MS_MAX);
        self.pairs.insert(pair.clone(), Asked { again, is_under_way: true });
        AskTurn::Asks
    }

    /// Whether it was asked about a short time ago, so that nobody asks now.
    fn rests(&self, pair: &NamedPair, now: MonoTime) -> bool {
        self.pairs.get(pair).is_some_and(|asked| !asked.is_under_way && asked.again > now)
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

impl Reader {
    pub(super) fn of(query: &Query) -> Self {
        let Query { database, identity, impersonated, .. } = query;
        Self {
            name: query.tags.database(),
            viewer: query.viewer(),
            database: Arc::clone(database),
            identity: Arc::clone(identity),
            impersonated: impersonated.clone(),
        }
    }

    /// Whether it asks with these credentials.
    pub(super) fn is(&self, identity: &Arc<Identity>) -> bool {
        Arc::ptr_eq(&self.identity, identity)
    }

    fn run(&self, statement: &str, class: RunClass, bookmarks: RunBookmarks) -> OriginRun {
        OriginRun {
            identity: Arc::clone(&self.identity),
            impersonated: self.impersonated.clone(),
            database: Arc::clone(&self.database),
            statement: statement.into(),
            pattern: None,
            params: Bytes::from_static(&[0xA0]),
            mode: AccessMode::Read,
            may_be_repeated: true,
            bookmarks,
            timeout_ms: Millis(EXCLUSION_ASK_MS_MAX),
            bytes_max: 1 << 10,
            traceparent: None,
            class,
            metadata: None,
            live: None,
            times: FetchTimes::default(),
        }
    }
}

impl Writes {
    /// A write has ended a result of this query, of a run of this range: asks for pairs of labels that would have kept it.
    pub(crate) fn want_exclusions(self: &Arc<Self>, query: &Query, range: &ReadRange) {
        if !self.excluding.asked.lock().may_look(self.context.now()) {
            return;
        }
        let database = range.to().database;
        for labels in self.cache.write_positions().wanted_pairs(query, range) {
            self.want_pair((&Reader::of(query), RunClass::Refresh), database, labels);
        }
    }

    /// Asks about this pair, if it is due and there is a place for it now.
    pub(super) fn want_pair(
        self: &Arc<Self>,
        (reader, class): (&Reader, RunClass),
        database: DatabaseUuid,
        labels: [Box<str>; 2],
    ) -> AskTurn {
        let pair = NamedPair { name: reader.name, viewer: reader.viewer, labels };
        let Some((statement, labels)) = label_pair(pair.labels.clone()) else { return AskTurn::Over };
        let turn = self.excluding.asked.lock().begin(&pair, self.context.now());
        if turn == AskTurn::Asks {
            let written = self.cache.write_positions().of(reader.name);
            let bookmarks = RunBookmarks::After { client: Bookmark::NONE, written };
            let run = reader.run(&statement, class, bookmarks);
            let asked = self.cache.write_positions().exclusions_asked(database);
            let asked = if class == RunClass::Prefetch { asked.ahead() } else { asked };
            let question = Question { pair, labels, run, asked };
            let writes = Arc::clone(self);
            self.context.spawn(async move { writes.ask_exclusion(question).await });
        }
        turn
    }

    /// Whether a pair was asked about a short time ago.
    pub(super) fn rests(&self, name: DatabaseTag, (viewer, labels): (Viewer, [Box<str>; 2])) -> bool {
        self.excluding.asked.lock().rests(&NamedPair { name, viewer, labels }, self.context.now())
    }

    async fn ask_exclusion(&self, question: Question) {
        let Question { pair, labels, run, asked } = question;
        let answer = tokio::select! {
            biased;
            answer = self.origin.run(&run) => Some(answer),
            () = self.context.sleep(Millis(EXCLUSION_ASK_MS_MAX)) => None,
        };
        if let Some(Err(error)) = &answer
            && matches!(error.kind, OriginFault::Unauthorized(_))
        {
            self.forget_reader(&run.identity);
        }
        let again_ms = again_ms(answer.as_ref());
        let answer = answer.and_then(Result::ok);
        let range = answer.as_ref().filter(|answer| answer.rows == 0).and_then(|answer| answer.range.clone());
        if let Some(range) = range {
            self.cache.write_positions().exclude((pair.viewer, labels), (asked, &range));
        }
        self.excluding.asked.lock().end(pair, self.context.now() + Millis(again_ms));
        self.excluding.ended.notify_waiters();
    }
}

/// How long a pair rests after this answer. That some node has both, or that Neo4j refuses the question, stays so for long. A Neo4j that was
/// busy or away, as after its restart, has said nothing about the pair. `None`: it took too long.
fn again_ms(answer: Option<&Result<ResultSet, OriginError>>) -> u64 {
    match answer {
        Some(Ok(result)) if result.rows == 0 && result.range.is_some() => EXCLUSION_OVER_MS,
        Some(Ok(_)) => EXCLUSION_AGAIN_MS,
        Some(Err(error)) => match error.kind {
            OriginFault::Failed(_) | OriginFault::Unauthorized(_) => EXCLUSION_AGAIN_MS,
            _ if error.was_sent => EXCLUSION_LATE_MS,
            _ => EXCLUSION_OVER_MS,
        },
        None => EXCLUSION_LATE_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ports::Neo4jFailure;

    #[test]
    fn a_neo4j_that_was_away_is_asked_again_soon() {
        let failed = |kind: OriginFault, was_sent| {
            let error = OriginError { was_sent, ..kind.into() };
            again_ms(Some(&Err(error)))
        };
        assert_eq!(again_ms(None), EXCLUSION_LATE_MS);
        assert_eq!(failed(OriginFault::Cut(String::new()), true), EXCLUSION_LATE_MS);
        assert_eq!(failed(OriginFault::Overloaded, false), EXCLUSION_OVER_MS);
        let code = "Neo.ClientError.Security.Forbidden".to_owned();
        let refusal = Neo4jFailure { code, message: String::new(), as_sent: Vec::new() };
        assert_eq!(failed(OriginFault::Failed(refusal), true), EXCLUSION_AGAIN_MS);
    }

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
        let mut begin = |label, ms| asked.begin(&pair(label), at(ms));
        assert_eq!([begin("B", 0), begin("B", 9)], [AskTurn::Asks, AskTurn::Waits]);
        assert_eq!([begin("C", 9), begin("D", 9)], [AskTurn::Asks, AskTurn::Waits], "two at a time");
        assert!(!asked.may_look(at(9)));
        asked.end(pair("B"), at(50));
        let mut begin = |label, ms| asked.begin(&pair(label), at(ms));
        assert_eq!([begin("B", 49), begin("B", 50)], [AskTurn::Over, AskTurn::Asks]);
        asked.end(pair("B"), at(99));
        assert_eq!([asked.rests(&pair("B"), at(98)), asked.rests(&pair("B"), at(99))], [true, false]);
        let mut begin = |label, ms| asked.begin(&pair(label), at(ms));
        let later = 9 + 2 * EXCLUSION_ASK_MS_MAX;
        assert_eq!(begin("D", later), AskTurn::Asks, "nobody waits for C any more");
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
        assert_eq!(asked.begin(&pair(EXCLUSIONS_MAX), at(99)), AskTurn::Over, "none is due");
        assert_eq!(asked.begin(&pair(EXCLUSIONS_MAX), at(100)), AskTurn::Asks);
        assert!(!asked.pairs.contains_key(&pair(0)) && asked.pairs.len() == EXCLUSIONS_MAX);
    }

    #[test]
    fn results_are_not_judged_anew_all_the_time() {
        let mut asked = ExclusionQuestions::default();
        assert!(asked.may_look(at(7)) && !asked.may_look(at(7 + EXCLUSION_LOOK_MS - 1)));
        assert!(asked.may_look(at(7 + EXCLUSION_LOOK_MS)));
    }
}
