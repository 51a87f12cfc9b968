//! Degrees of the graph nodes that queries start from: hinted by the caller, learned in the background, or unknown.
//!
//! A question to the server runs as the principal that asked, in a task of the engine, one at a time and only while
//! less than half of the origin's slots are taken: no client's request waits for it, but for the one slot that it
//! holds for [`DEGREE_TIMEOUT_MS`](limits::DEGREE_TIMEOUT_MS) at the most. It is no run of a query and is not
//! counted as one. What β becomes of a degree is [`hopcache_core::refresh`]'s to say.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::cypher::anchor::Anchor;
use hopcache_core::key::{AnchorTag, QueryKey};
use hopcache_core::limits;
use hopcache_core::refresh::{KeyFacts, Mode};
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::RunClass;
use hopcache_packstream::{Reader, Token};
use lru::LruCache;
use parking_lot::Mutex;

use crate::ask::Query;
use crate::engine::Engine;
use crate::identity::Identity;
use crate::outcome::Event;
use crate::ports::{AccessMode, OriginError, OriginFault, OriginRun};

/// What a plan wants of the degree of its key's anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DegreeWish {
    /// It would decide nothing, or all there is to know is known.
    Nothing,
    /// Its anchor: another key's question may have been about the same one.
    Look,
    /// That it is known soon.
    Ask,
}

/// What is known of a degree, and from whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Degree {
    /// Relationships of the graph node; nothing where nobody knows, which counts as one.
    pub value: Option<u64>,
    /// Who said so.
    pub source: DegreeSource,
}

/// Who said a degree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DegreeSource {
    /// The caller.
    Hint,
    /// The server, asked in the background.
    Learned,
    /// Nobody.
    Unknown,
}

/// What a node knows of degrees, and what it wants to ask.
pub(crate) struct Degrees {
    state: Mutex<State>,
}

struct State {
    /// The anchor of each key that was looked at; a text is read for it once.
    anchors: LruCache<QueryKey, Option<AnchorTag>>,
    /// What the server said, or that it did not, and until when that is believed.
    known: LruCache<AnchorTag, (Option<u64>, MonoTime)>,
    /// Labels and keys whose last question timed out, and until when they are left alone.
    slow: LruCache<AnchorTag, MonoTime>,
    waiting: VecDeque<Question>,
    asked: Option<AnchorTag>,
    /// Whether a task looks at `waiting`.
    is_worked_at: bool,
}

/// No more of a query than it takes to ask: its parameters may be megabytes.
struct Question {
    tag: AnchorTag,
    property: AnchorTag,
    anchor: Anchor,
    identity: Arc<Identity>,
    impersonated: Option<String>,
    database: Arc<str>,
}

/// Whether a task has to be started for what waits.
#[derive(PartialEq, Eq)]
enum Start {
    Worker,
    Nothing,
}

fn capacity(most: usize) -> NonZeroUsize {
    NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN)
}

impl Degrees {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                anchors: LruCache::new(capacity(limits::DEGREES_MAX)),
                known: LruCache::new(capacity(limits::DEGREES_MAX)),
                slow: LruCache::new(capacity(limits::DEGREE_SLOW_MAX)),
                waiting: VecDeque::new(),
                asked: None,
                is_worked_at: false,
            }),
        }
    }

    /// Anchors, degrees, slow properties and questions held.
    pub(crate) fn len(&self) -> usize {
        let state = self.state.lock();
        state.anchors.len() + state.known.len() + state.slow.len() + state.waiting.len()
    }

    pub(crate) fn learned(&self, key: &QueryKey, now: MonoTime) -> Option<u64> {
        let mut state = self.state.lock();
        let tag = (*state.anchors.get(key)?)?;
        state.known.get(&tag).filter(|(_, until)| *until > now)?.0
    }

    /// Whether there is nothing to learn for this key now.
    fn is_settled(&self, key: &QueryKey, now: MonoTime) -> bool {
        let mut state = self.state.lock();
        match state.anchors.get(key).copied() {
            None => false,
            Some(None) => true,
            Some(Some(tag)) => {
                let is_known = state.known.get(&tag).is_some_and(|(_, until)| *until > now);
                is_known || state.is_asking(&tag)
            }
        }
    }

    fn has_looked_at(&self, key: &QueryKey) -> bool {
        self.state.lock().anchors.contains(key)
    }

    /// Takes note of a key's anchor: what is known of that is known of the key.
    fn look_at(&self, key: QueryKey, tag: Option<AnchorTag>) {
        self.state.lock().anchors.put(key, tag);
    }

    /// Takes note of a question, unless its answer is known, slow, or it is one too many.
    fn want(&self, question: Question, now: MonoTime) -> Start {
        let mut state = self.state.lock();
        if state.known.get(&question.tag).is_some_and(|(_, until)| *until > now) {
            return Start::Nothing;
        }
        if let Some(until) = state.slow.get(&question.property).copied().filter(|until| *until > now) {
            state.known.put(question.tag, (None, until));
            return Start::Nothing;
        }
        if state.waiting.len() >= limits::DEGREE_QUEUE_MAX || state.is_asking(&question.tag) {
            return Start::Nothing;
        }
        state.waiting.push_back(question);
        if std::mem::replace(&mut state.is_worked_at, true) { Start::Nothing } else { Start::Worker }
    }

    /// The next question; without one the task that asks is done, which whoever wants one from now on knows.
    fn next(&self) -> Option<Question> {
        let mut state = self.state.lock();
        let question = state.waiting.pop_front();
        state.asked = question.as_ref().map(|question| question.tag);
        state.is_worked_at = question.is_some();
        question
    }

    fn told(&self, question: &Question, said: Said, now: MonoTime) {
        let mut state = self.state.lock();
        let (degree, life_ms) = match said {
            Said::Degree(degree) => (Some(degree), limits::DEGREE_TTL_MS),
            Said::Nothing => (None, limits::DEGREE_UNKNOWN_TTL_MS),
            Said::Slow => {
                state.slow.put(question.property, now + Millis(limits::DEGREE_SLOW_MS));
                (None, limits::DEGREE_SLOW_MS)
            }
        };
        state.known.put(question.tag, (degree, now + Millis(life_ms)));
    }

    /// Nobody asks any more.
    fn abandon(&self) {
        let mut state = self.state.lock();
        state.waiting.clear();
        state.asked = None;
        state.is_worked_at = false;
    }
}

impl State {
    fn is_asking(&self, tag: &AnchorTag) -> bool {
        self.asked == Some(*tag) || self.waiting.iter().any(|waiting| waiting.tag == *tag)
    }
}

/// What came of a question.
enum Said {
    Degree(u64),
    /// There is no such node, or no answer.
    Nothing,
    /// It took too long: there is no index.
    Slow,
}

/// The task that asks: however it ends, another may be started.
struct Asking {
    engine: Arc<Engine>,
    is_done: bool,
}

impl Asking {
    async fn work(mut self) {
        while let Some(question) = self.engine.degrees.next() {
            if self.engine.tasks.is_closed() {
                return;
            }
            self.engine.ask_degree(&question).await;
        }
        self.is_done = true;
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.is_done {
            self.engine.degrees.abandon();
        }
    }
}

impl Engine {
    /// The degree of the graph node that a query starts from, as far as it is known here. Asks nobody.
    #[must_use]
    pub fn degree_of(&self, query: &Query, hint: Option<u64>) -> Degree {
        degree(hint, self.degrees.learned(&query.key, self.now()))
    }

    /// Whether there may be something to learn for this key now.
    pub(crate) fn lacks_degree(&self, key: &QueryKey, now: MonoTime) -> bool {
        self.uses_degrees() && !self.degrees.is_settled(key, now)
    }

    /// What a plan wants that is about to be made for a copy with so much left, after so many hits on it.
    ///
    /// In `adaptive` a degree serves only until there is a history, so it is asked for at the first plan, if ever:
    /// with the copy's first hit the key has been asked for twice.
    pub(crate) fn degree_wish(
        &self,
        key: &QueryKey,
        facts: &KeyFacts,
        (left, hits): (Millis, u32),
    ) -> DegreeWish {
        let rule = &self.policy.refresh.rule;
        if facts.degree.is_some() || !rule.heeds_degree(facts, left) {
            return DegreeWish::Nothing;
        }
        if rule.mode == Mode::Adaptive || hits >= limits::DEGREE_HITS_MIN {
            return DegreeWish::Ask;
        }
        if self.degrees.has_looked_at(key) { DegreeWish::Nothing } else { DegreeWish::Look }
    }

    /// Sees to it that the degree for this query is known some time: at once where it is, or cannot be; else the
    /// server is asked in the background.
    pub fn learn_degree(self: &Arc<Self>, query: &Arc<Query>) {
        if self.lacks_degree(&query.key, self.now()) {
            self.learn_degree_as(query, DegreeWish::Ask);
        }
    }

    /// Reads the statement: for most keys once, and at most once for each plan of a copy, never for each hit.
    pub(crate) fn learn_degree_as(self: &Arc<Self>, query: &Arc<Query>, wish: DegreeWish) {
        let question = self.question(query);
        let tag = question.as_ref().map(|question| question.tag);
        self.degrees.look_at(query.key, tag);
        let Some(question) = question.filter(|_| wish == DegreeWish::Ask) else { return };
        if self.degrees.want(question, self.now()) == Start::Worker {
            self.tasks.spawn(Asking { engine: Arc::clone(self), is_done: false }.work());
        }
    }

    /// Whether anything is decided by a degree.
    fn uses_degrees(&self) -> bool {
        let refresh = &self.policy.refresh;
        refresh.is_early && refresh.rule.mode != Mode::Plain && self.policy.ttl_ms >= refresh.ttl_ms_min
    }

    fn question(&self, query: &Query) -> Option<Question> {
        let anchor = Anchor::of(query.normal.as_str(), &query.params)?;
        Some(Question {
            tag: AnchorTag::of(&self.hasher, &query.database, query.identity.scope, &anchor),
            property: AnchorTag::of_property(&self.hasher, &query.database, &anchor),
            anchor,
            identity: Arc::clone(&query.identity),
            impersonated: query.impersonated.clone(),
            database: Arc::clone(&query.database),
        })
    }

    /// Asks one question, if the origin has room; else it is forgotten, and a later hit comes back to it.
    async fn ask_degree(&self, question: &Question) {
        let origin = &self.ports.origin;
        let is_idle = origin.slots().is_none_or(|slots| 2 * origin.in_flight() < slots);
        if !is_idle || !origin.is_reachable() {
            return;
        }
        let ended = origin.run(&question.run()).await;
        if was_asked(&ended) {
            self.note(Event::DegreeAsked { is_known: matches!(said(&ended), Said::Degree(_)) });
        }
        self.degrees.told(question, said(&ended), self.now());
    }
}

impl Question {
    fn run(&self) -> OriginRun {
        OriginRun {
            identity: Arc::clone(&self.identity),
            impersonated: self.impersonated.clone(),
            database: Arc::clone(&self.database),
            statement: self.anchor.degree_statement().into(),
            params: self.anchor.degree_params().into(),
            mode: AccessMode::Read,
            bookmarks: Vec::new(),
            timeout_ms: Millis(limits::DEGREE_TIMEOUT_MS),
            bytes_max: limits::DEGREE_RESULT_BYTES_MAX,
            traceparent: None,
            class: RunClass::Refresh,
        }
    }
}

/// The caller's word goes first: it may know of relationships that come.
pub(crate) fn degree(hint: Option<u64>, learned: Option<u64>) -> Degree {
    match (hint, learned) {
        (Some(_), _) => Degree { value: hint, source: DegreeSource::Hint },
        (None, Some(_)) => Degree { value: learned, source: DegreeSource::Learned },
        (None, None) => Degree { value: None, source: DegreeSource::Unknown },
    }
}

fn was_asked(ended: &Result<ResultSet, OriginError>) -> bool {
    ended.as_ref().err().is_none_or(|error| error.was_sent)
}

fn said(ended: &Result<ResultSet, OriginError>) -> Said {
    match ended {
        Ok(result) => {
            number_in(result).map_or(Said::Nothing, |number| Said::Degree(number.min(limits::DEGREE_MAX)))
        }
        Err(error) if error.was_sent && error.kind == OriginFault::TimedOut => Said::Slow,
        Err(_) => Said::Nothing,
    }
}

/// The one number of the one record.
fn number_in(result: &ResultSet) -> Option<u64> {
    let mut reader = Reader::new(&result.records);
    let Ok(Token::List(1)) = reader.token() else { return None };
    let Ok(Token::Int(number)) = reader.token() else { return None };
    u64::try_from(number).ok()
}
