//! Learns the degrees of the graph nodes that queries start from. A caller gives a degree as a hint, a background task
//! learns it, or it is unknown.
//!
//! A question to the server runs as the principal that asked, in a task of the engine, without a lease. There is one
//! question at a time, and only while less than half of the origin's slots are taken. So no client's request waits for
//! it, except for the one slot that it holds for at most [`DEGREE_TIMEOUT_MS`](limits::DEGREE_TIMEOUT_MS). It is not
//! counted as a run of a query. [`hopcache_core::refresh`] derives β from a degree.

use std::sync::Arc;

use hopcache_core::key::{AnchorTag, QueryKey};
use hopcache_core::limits;
use hopcache_core::refresh::{KeyFacts, Mode};
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_cypher::anchor::Anchor;
use hopcache_packstream::{Reader, Token};

use crate::cache::{DegreeAnswer, Start};
use crate::fetch::was_sent;
use crate::model::ask::Query;
use crate::model::degree::{Degree, DegreeQuestion, DegreeSource};
use crate::model::event::Event;
use crate::model::fetch_times::FetchTimes;
use crate::model::origin_run::RunBookmarks;
use crate::model::ports::{AccessMode, OriginError, OriginFault, OriginRun};
use crate::refresh::Refresh;

/// How much a plan needs the degree of its key's anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DegreeWish {
    /// Not at all: it would decide nothing, or is known.
    Nothing,
    /// Only if it is known: reads the anchor, as another key's question may have been about the same one.
    Look,
    /// Soon: asks the server.
    Ask,
}

/// The task that asks. However it ends, another may be started.
struct DegreeWorker {
    refresh: Arc<Refresh>,
    is_done: bool,
}

impl DegreeWorker {
    async fn work(mut self) {
        while let Some(question) = self.refresh.cache.key_stats().degrees().next() {
            if self.refresh.context.tasks().is_closed() {
                return;
            }
            self.refresh.ask_degree(&question).await;
        }
        self.is_done = true;
    }
}

impl Drop for DegreeWorker {
    fn drop(&mut self) {
        if !self.is_done {
            self.refresh.cache.key_stats().degrees().abandon();
        }
    }
}

impl Refresh {
    /// For the simulator: the degree of the graph node that a query starts from, if this node knows it. Asks nobody.
    #[must_use]
    pub fn degree_of(&self, query: &Query, hint: Option<u64>) -> Degree {
        degree(hint, self.cache.key_stats().degrees().learned(&query.key, self.context.now()))
    }

    /// Whether there may be something to learn for this key now.
    pub(crate) fn lacks_degree(&self, key: &QueryKey, now: MonoTime) -> bool {
        self.uses_degrees() && !self.cache.key_stats().degrees().is_settled(key, now)
    }

    /// The wish of a plan that is about to be made for a copy with `left` of its soft TTL, after `hits` hits.
    ///
    /// In `adaptive` mode a degree is used only until there is a history. So it is asked for at the first plan, if
    /// ever: at the copy's first hit the key has been requested twice.
    pub(crate) fn degree_wish(
        &self,
        key: &QueryKey,
        facts: &KeyFacts,
        (left, hits): (Millis, u32),
    ) -> DegreeWish {
        let rule = &self.policy().rule;
        if facts.degree.is_some() || !rule.heeds_degree(facts, left) {
            return DegreeWish::Nothing;
        }
        if rule.mode == Mode::Adaptive || hits >= limits::DEGREE_HITS_MIN {
            return DegreeWish::Ask;
        }
        if self.cache.key_stats().degrees().has_looked_at(key) {
            DegreeWish::Nothing
        } else {
            DegreeWish::Look
        }
    }

    /// For the simulator: learns the degree for a query, as a plan that wishes `DegreeWish::Ask` does.
    pub fn learn_degree(self: &Arc<Self>, query: &Arc<Query>) {
        if self.lacks_degree(&query.key, self.context.now()) {
            self.learn_degree_as(query, DegreeWish::Ask);
        }
    }

    /// Reads the statement at most once for each plan of a copy, and usually once for each key; never for each hit.
    pub(crate) fn learn_degree_as(self: &Arc<Self>, query: &Arc<Query>, wish: DegreeWish) {
        let question = self.question(query);
        let tag = question.as_ref().map(|question| question.tag);
        self.cache.key_stats().degrees().look_at(query.key, tag);
        let Some(question) = question.filter(|_| wish == DegreeWish::Ask) else { return };
        if self.cache.key_stats().degrees().want(question, self.context.now()) == Start::Worker {
            self.context.spawn(DegreeWorker { refresh: Arc::clone(self), is_done: false }.work());
        }
    }

    /// Whether a degree decides anything.
    fn uses_degrees(&self) -> bool {
        let (policy, ttl_ms) = (self.policy(), self.policy.now().ttl_ms);
        policy.is_early && policy.rule.mode != Mode::Plain && ttl_ms >= policy.ttl_ms_min
    }

    fn question(&self, query: &Query) -> Option<DegreeQuestion> {
        let anchor = Anchor::of(query.normal.as_str(), &query.params)?;
        Some(DegreeQuestion {
            tag: AnchorTag::of(&self.hasher, &query.database, query.identity.scope, anchor.parts()),
            property: AnchorTag::of_property(&self.hasher, &query.database, anchor.parts()),
            anchor,
            identity: Arc::clone(&query.identity),
            impersonated: query.impersonated.clone(),
            database: Arc::clone(&query.database),
        })
    }

    /// Asks one question if the origin has room. Otherwise the question is forgotten, and a later hit asks it again.
    async fn ask_degree(&self, question: &DegreeQuestion) {
        let origin = &self.origin;
        let is_idle = origin.slots().is_none_or(|slots| 2 * origin.in_flight() < slots);
        if !is_idle || !origin.has_spare() || !origin.is_reachable() {
            return;
        }
        let ended = origin.run(&run_of(question)).await;
        if was_sent(&ended) {
            self.context
                .note(Event::DegreeAsked { is_known: matches!(answer_of(&ended), DegreeAnswer::Degree(_)) });
        }
        self.cache.key_stats().degrees().told(question, answer_of(&ended), self.context.now());
    }
}

fn run_of(question: &DegreeQuestion) -> OriginRun {
    OriginRun {
        identity: Arc::clone(&question.identity),
        impersonated: question.impersonated.clone(),
        database: Arc::clone(&question.database),
        statement: question.anchor.degree_statement().into(),
        pattern: None,
        params: question.anchor.degree_params().into(),
        mode: AccessMode::Read,
        may_be_repeated: true,
        bookmarks: RunBookmarks::default(),
        timeout_ms: Millis(limits::DEGREE_TIMEOUT_MS),
        bytes_max: limits::DEGREE_RESULT_BYTES_MAX,
        traceparent: None,
        class: RunClass::Refresh,
        metadata: None,
        live: None,
        times: FetchTimes::default(),
    }
}

/// The caller's hint wins: the caller may know of relationships to come.
pub(crate) fn degree(hint: Option<u64>, learned: Option<u64>) -> Degree {
    match (hint, learned) {
        (Some(_), _) => Degree { value: hint, source: DegreeSource::Hint },
        (None, Some(_)) => Degree { value: learned, source: DegreeSource::Learned },
        (None, None) => Degree { value: None, source: DegreeSource::Unknown },
    }
}

fn answer_of(ended: &Result<ResultSet, OriginError>) -> DegreeAnswer {
    match ended {
        Ok(result) => number_in(result)
            .map_or(DegreeAnswer::Nothing, |number| DegreeAnswer::Degree(number.min(limits::DEGREE_MAX))),
        Err(error) if error.was_sent && error.kind == OriginFault::TimedOut => DegreeAnswer::Slow,
        Err(_) => DegreeAnswer::Nothing,
    }
}

/// The single number of the single record.
fn number_in(result: &ResultSet) -> Option<u64> {
    let mut reader = Reader::new(&result.records);
    let Ok(Token::List(1)) = reader.token() else { return None };
    let Ok(Token::Int(number)) = reader.token() else { return None };
    u64::try_from(number).ok()
}
