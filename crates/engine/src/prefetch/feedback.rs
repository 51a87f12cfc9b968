//! What becomes of launches, as the owners of the candidates' keys are told by their tickets. Whoever ends a ticket, a
//! client's hit among them, only leaves a note here; the notes are worked in a little later, and then gossip tells what
//! they say to the sessions' owners.
//!
//! It decides how many candidates a source may launch, and which forms are not launched for a while, since Neo4j refused
//! them. Launches of one source end at the owners of many keys; the owner of a session, who launches, goes by what all of
//! them have counted, as gossip tells it.

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

/// Notes, and what is made of them.
pub(crate) struct Feedback {
    clock: Arc<dyn Clock>,
    model: Arc<Mutex<Successors>>,
    queries_max: u32,
    notes: Mutex<VecDeque<Resolved>>,
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
    fn note(&self, note: Resolved) {
        let mut notes = self.notes.lock();
        if notes.len() < FEEDBACK_MAX {
            notes.push_back(note);
        }
    }

    /// Counts what was noted, for every node to hear.
    pub(super) fn work_in(&self) {
        let notes = std::mem::take(&mut *self.notes.lock());
        if notes.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut model = self.model.lock();
        for Resolved { source, form, resolution, .. } in notes {
            model.launched(source, form, now);
            if resolution.is_used() {
                model.used(source, form, now);
            }
        }
    }

    /// How many candidates a source may launch for one request, by what became of its launches at all nodes.
    pub(super) fn launches_max(&self, source: SourceId) -> usize {
        let counted = self.model.lock().precision(source, self.clock.now());
        let mut widths = self.widths.lock();
        let width = widths.get_or_insert_mut(source, || Width::new(self.queries_max));
        width.told(counted.launched, counted.used, self.queries_max);
        usize::try_from(width.launches_max()).unwrap_or(usize::MAX)
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
    /// Counted when it ends.
    fn launched(&self, _: SourceId, _: FormId) {}

    fn resolved(&self, resolved: &Resolved) {
        self.note(*resolved);
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

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use hopcache_core::learning::{Bounds, Lesson, OriginTag, PatternTag};
    use hopcache_core::limits::PREFETCH_WINDOW;
    use hopcache_core::node::Incarnation;

    use super::super::{CandidateKind, Resolution};
    use super::*;

    const SOURCE: SourceId = SourceId::Pattern(PatternTag(5));

    struct Still;

    impl Clock for Still {
        fn now(&self) -> MonoTime {
            MonoTime(1_000_000)
        }

        // tidy: poll interval; nobody calls it
        fn sleep(&self, _: Millis) -> BoxFuture<'static, ()> {
            std::future::pending().boxed()
        }
    }

    fn node(tag: u64) -> Feedback {
        let model = Successors::new(OriginTag(tag), Incarnation(tag), Bounds::for_patterns(16), Still.now());
        Feedback::new(Arc::new(Still), Arc::new(Mutex::new(model)), 4)
    }

    fn end(node: &Feedback, form: FormId, resolution: Resolution, count: u32) {
        let resolved = Resolved { source: SOURCE, form, kind: CandidateKind::Template, p: 0.5, resolution };
        (0..count).for_each(|_| node.resolved(&resolved));
        node.work_in();
    }

    /// What gossip or a pull brings.
    fn hear(to: &Feedback, from: &Feedback) {
        let digest = to.model.lock().digest(Still.now());
        let page = from.model.lock().answer_pull(&digest, Still.now());
        let lesson = Lesson::decode(&page).unwrap();
        to.model.lock().merge(&lesson, Still.now(), |_| true);
    }

    /// DESIGN "Prefetch", feedback: precision of a pattern above 0.75 raises K, below 0.40 halves it; over the launches of
    /// all owners of keys, none of which has a window's worth of its own, as the session's owner has heard of them.
    #[test]
    fn the_owner_of_a_session_goes_by_what_all_owners_of_keys_have_counted() {
        let (session_owner, owners) = (node(1), [node(2), node(3), node(4)]);
        assert_eq!(session_owner.launches_max(SOURCE), 2);
        let all = |resolution, form, expected: usize| {
            for owner in &owners {
                end(owner, form, resolution, PREFETCH_WINDOW / 2);
                hear(&session_owner, owner);
            }
            assert_eq!(session_owner.launches_max(SOURCE), expected, "{resolution:?}");
        };
        all(Resolution::Used, FormId(9), 3);
        all(Resolution::Late, FormId(9), 4);
        all(Resolution::Wasted, FormId(9), 2);
        // Neighbours and overlaps have no form, and count all the same.
        all(Resolution::Wasted, FormId::ANY, 1);
        for owner in &owners {
            assert!(owner.model.lock().predictions(SOURCE, Still.now()).is_empty(), "no sighting");
        }
    }
}
