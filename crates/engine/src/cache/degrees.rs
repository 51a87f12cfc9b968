//! The table of degrees: the server's answers about the graph nodes that queries start from, and the questions that
//! wait.
//!
//! It asks nobody: `refresh::degree` does.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use hopcache_core::key::{AnchorTag, QueryKey};
use hopcache_core::limits;
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;
use parking_lot::Mutex;

use crate::model::degree::DegreeQuestion;

/// This node's known degrees and open questions.
pub(crate) struct Degrees {
    state: Mutex<State>,
}

struct State {
    /// The anchor of each key that was looked at, so that its text is read once.
    anchors: LruCache<QueryKey, Option<AnchorTag>>,
    /// The server's answer, `None` for no answer, and until when it is valid.
    known: LruCache<AnchorTag, (Option<u64>, MonoTime)>,
    /// Labels and keys whose last question timed out, and until when no question about them is asked.
    slow: LruCache<AnchorTag, MonoTime>,
    waiting: VecDeque<DegreeQuestion>,
    asked: Option<AnchorTag>,
    /// Whether a task works on `waiting`.
    is_worked_at: bool,
}

/// Whether a task has to be started for the waiting questions.
#[derive(PartialEq, Eq)]
pub(crate) enum Start {
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
    pub(crate) fn is_settled(&self, key: &QueryKey, now: MonoTime) -> bool {
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

    pub(crate) fn has_looked_at(&self, key: &QueryKey) -> bool {
        self.state.lock().anchors.contains(key)
    }

    /// Notes a key's anchor: degrees known for the anchor apply to the key.
    pub(crate) fn look_at(&self, key: QueryKey, tag: Option<AnchorTag>) {
        self.state.lock().anchors.put(key, tag);
    }

    /// Queues a question, unless its answer is known, its property is slow, or the queue is full.
    pub(crate) fn want(&self, question: DegreeQuestion, now: MonoTime) -> Start {
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

    /// The next question. Without one the asking task is done; the next `want` starts another.
    pub(crate) fn next(&self) -> Option<DegreeQuestion> {
        let mut state = self.state.lock();
        let question = state.waiting.pop_front();
        state.asked = question.as_ref().map(|question| question.tag);
        state.is_worked_at = question.is_some();
        question
    }

    pub(crate) fn told(&self, question: &DegreeQuestion, answer: DegreeAnswer, now: MonoTime) {
        let mut state = self.state.lock();
        let (degree, life_ms) = match answer {
            DegreeAnswer::Degree(degree) => (Some(degree), limits::DEGREE_TTL_MS),
            DegreeAnswer::Nothing => (None, limits::DEGREE_UNKNOWN_TTL_MS),
            DegreeAnswer::Slow => {
                state.slow.put(question.property, now + Millis(limits::DEGREE_SLOW_MS));
                (None, limits::DEGREE_SLOW_MS)
            }
        };
        state.known.put(question.tag, (degree, now + Millis(life_ms)));
    }

    /// Notes that no task asks any more.
    pub(crate) fn abandon(&self) {
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

/// The result of a question.
pub(crate) enum DegreeAnswer {
    Degree(u64),
    /// The node does not exist, or there was no answer.
    Nothing,
    /// It took too long: the property has no index.
    Slow,
}
