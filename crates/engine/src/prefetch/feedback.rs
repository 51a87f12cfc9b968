//! What becomes of launches, as the owners of the candidates' keys are told by their tickets. Whoever ends a ticket, a
//! client's hit among them, only leaves a note here; the notes are worked in a little later, and then gossip tells what
//! they say to the sessions' owners.
//!
//! It decides how many candidates a source may launch (from its precision), and which forms are not launched for a while,
//! since Neo4j refused them.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::learning::precision::{Trials, Width};
use hopcache_core::learning::{FormId, SourceId, Successors};
use hopcache_core::limits::{FEEDBACK_MAX, REFUSED_FORMS_MAX, REFUSED_FORMS_MS, WIDTHS_MAX};
use hopcache_core::time::{Millis, MonoTime};
use lru::LruCache;
use parking_lot::Mutex;

use super::{Learner, Resolved};
use crate::ports::Clock;

enum Note {
    Launched(SourceId, FormId),
    Resolved(Resolved),
}

/// Notes, and what is made of them.
pub(crate) struct Feedback {
    clock: Arc<dyn Clock>,
    model: Arc<Mutex<Successors>>,
    queries_max: u32,
    notes: Mutex<VecDeque<Note>>,
    widths: Mutex<LruCache<SourceId, Width>>,
    trials: Mutex<Trials>,
    refused: Mutex<LruCache<FormId, MonoTime>>,
}

impl Feedback {
    pub(super) fn new(clock: Arc<dyn Clock>, model: Arc<Mutex<Successors>>, queries_max: u32) -> Self {
        let bounded = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self {
            clock,
            model,
            queries_max,
            notes: Mutex::default(),
            widths: Mutex::new(LruCache::new(bounded(WIDTHS_MAX))),
            trials: Mutex::default(),
            refused: Mutex::new(LruCache::new(bounded(REFUSED_FORMS_MAX))),
        }
    }

    /// Notes over the bound are lost: precision is an estimate.
    fn note(&self, note: Note) {
        let mut notes = self.notes.lock();
        if notes.len() < FEEDBACK_MAX {
            notes.push_back(note);
        }
    }

    /// Works in what was noted. An expansion or an overlap has no form that others know: it is no successor.
    pub(super) fn work_in(&self) {
        let notes = std::mem::take(&mut *self.notes.lock());
        if notes.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut model = self.model.lock();
        let mut widths = self.widths.lock();
        for note in notes {
            match note {
                Note::Launched(source, form) if form != FormId::ANY => model.launched(source, form, now),
                Note::Launched(..) => {}
                Note::Resolved(resolved) => {
                    let is_used = resolved.resolution.is_used();
                    if is_used && resolved.form != FormId::ANY {
                        model.used(resolved.source, resolved.form, now);
                    }
                    let width = widths.get_or_insert_mut(resolved.source, || Width::new(self.queries_max));
                    width.resolved(is_used, self.queries_max);
                }
            }
        }
    }

    /// How many candidates a source may launch for one request.
    pub(super) fn launches_max(&self, source: SourceId) -> usize {
        let width = self.widths.lock().get(&source).copied();
        let launches = width.unwrap_or_else(|| Width::new(self.queries_max)).launches_max();
        usize::try_from(launches).unwrap_or(usize::MAX)
    }

    /// Whether a candidate that only experience speaks against is tried all the same.
    pub(super) fn is_tried(&self) -> bool {
        self.trials.lock().is_tried()
    }

    pub(super) fn len(&self) -> usize {
        self.notes.lock().len() + self.widths.lock().len() + self.refused.lock().len()
    }
}

impl Learner for Feedback {
    fn launched(&self, source: SourceId, form: FormId) {
        self.note(Note::Launched(source, form));
    }

    fn resolved(&self, resolved: &Resolved) {
        self.note(Note::Resolved(*resolved));
    }

    fn refused(&self, _: SourceId, form: FormId) {
        if form == FormId::ANY {
            return;
        }
        let until = self.clock.now() + Millis(REFUSED_FORMS_MS);
        self.refused.lock().put(form, until);
    }

    fn is_refused(&self, form: FormId) -> bool {
        let now = self.clock.now();
        self.refused.lock().peek(&form).is_some_and(|until| *until > now)
    }

    fn text_of(&self, source: SourceId) -> Option<String> {
        match source {
            SourceId::Pattern(tag) => self.model.lock().pattern(tag).map(ToOwned::to_owned),
            SourceId::Query(_) => None,
        }
    }
}
