//! How launches ended, for the owners of the candidates' keys. Every end of a ticket, a client's hit among them, only
//! leaves a note here. The notes are counted a little later, and gossip brings the counts to the sessions' owners.
//!
//! This module decides how many candidates a source may launch, and which forms are not launched for a while because
//! Neo4j refused them. Launches of one source end at the owners of many keys. The owner of a session, which orders
//! them, uses the counts of all these nodes.
//!
//! The node of a run knows of its refusal. A node that orders the form from it again learns of it from the answer, and
//! then orders the form from no node for the same time ([`Feedback::heard_refused`]). It does not pass the refusal on.
//! Two nodes that passed on refusals they only heard of would never stop, and a form that Neo4j accepts again would not
//! come back.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::limits::{
    FEEDBACK_MAX, PREFETCH_NEARLY_CERTAIN_P, PREFETCH_WINDOW, RECORD_KEPT_MS, REFUSED_FORMS_MAX,
    REFUSED_FORMS_MS, WIDTHS_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::precision::{Trials, Width};
use hopcache_learning::{FormId, SourceId, Successors};
use lru::LruCache;
use parking_lot::Mutex;

use crate::model::ports::Clock;
use crate::prefetch::tickets::{Learner, ResolvedLaunch};

/// Reads the operator's greatest number of candidates for one request, which a reload may change.
pub(super) type QueriesMax = Box<dyn Fn() -> u32 + Send + Sync>;

/// Notes on launches, and the bounds that follow from them.
pub(super) struct Feedback {
    clock: Arc<dyn Clock>,
    model: Arc<Mutex<Successors>>,
    /// The operator's greatest number of candidates at this moment.
    queries_max: QueriesMax,
    notes: Mutex<VecDeque<ResolvedLaunch>>,
    records: Mutex<LruCache<SourceId, SourceRecord>>,
    trials: Mutex<Trials>,
    /// Forms refused by this node's own runs, each with its end.
    refused: Mutex<LruCache<FormId, MonoTime>>,
    /// Forms refused in other nodes' answers to orders, each with its end.
    heard_refused: Mutex<LruCache<FormId, MonoTime>>,
}

/// What the launches of a source have shown.
#[derive(Debug, Clone, Copy)]
struct SourceRecord {
    /// When the counts were summed up.
    at: MonoTime,
    width: Width,
    is_mostly_right: bool,
}

impl SourceRecord {
    fn new(queries_max: u32) -> Self {
        Self { at: MonoTime::default(), width: Width::new(queries_max), is_mostly_right: false }
    }
}

impl Feedback {
    pub(super) fn new(clock: Arc<dyn Clock>, model: Arc<Mutex<Successors>>, queries_max: QueriesMax) -> Self {
        let bounded = |most| NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
        Self {
            clock,
            model,
            queries_max,
            notes: Mutex::default(),
            records: Mutex::new(LruCache::new(bounded(WIDTHS_MAX))),
            trials: Mutex::default(),
            refused: Mutex::new(LruCache::new(bounded(REFUSED_FORMS_MAX))),
            heard_refused: Mutex::new(LruCache::new(bounded(REFUSED_FORMS_MAX))),
        }
    }

    /// Notes over the bound are lost: precision is an estimate.
    fn note(&self, note: ResolvedLaunch) {
        let mut notes = self.notes.lock();
        if notes.len() < FEEDBACK_MAX {
            notes.push_back(note);
        }
    }

    /// Counts the notes, so that gossip shares them.
    pub(super) fn work_in(&self) {
        let notes = std::mem::take(&mut *self.notes.lock());
        if notes.is_empty() {
            return;
        }
        let now = self.clock.now();
        let mut model = self.model.lock();
        for ResolvedLaunch { source, form, resolution, kind, .. } in notes {
            if kind == CandidateKind::Neighbour {
                // A pair of patterns is in no session. Its launches give it a place among the sources.
                model.saw(source, now);
            }
            model.launched(source, form, now);
            if resolution.is_used() {
                model.used(source, form, now);
            }
        }
    }

    /// How many candidates a source may launch for one request, according to its launches at all nodes.
    pub(super) fn launches_max(&self, source: SourceId) -> usize {
        let width = self.record(source).width;
        usize::try_from(width.launches_max().min((self.queries_max)())).unwrap_or(usize::MAX)
    }

    /// Whether launches of this source that have ended were used in most cases, at all nodes together, and are enough to say so.
    pub(super) fn is_mostly_right(&self, source: SourceId) -> bool {
        self.record(source).is_mostly_right
    }

    /// The record of a source, of now or of a moment ago: to sum its counts up takes longer than to consider a query.
    fn record(&self, source: SourceId) -> SourceRecord {
        let now = self.clock.now();
        if let Some(record) = self.records.lock().get(&source)
            && now.since(record.at) < Millis(RECORD_KEPT_MS)
        {
            return *record;
        }
        let ended = self.model.lock().precision(source, now);
        // A node whose own limit is 0 takes orders of others, and may get another limit.
        let queries_max = (self.queries_max)().max(1);
        let mut records = self.records.lock();
        let record = records.get_or_insert_mut(source, || SourceRecord::new(queries_max));
        record.at = now;
        record.width.told(ended.launched, ended.used, queries_max);
        record.is_mostly_right = ended.launched >= f64::from(PREFETCH_WINDOW)
            && ended.used >= ended.launched * PREFETCH_NEARLY_CERTAIN_P;
        *record
    }

    /// Whether a candidate is tried although experience speaks against it.
    pub(super) fn is_tried(&self) -> bool {
        self.trials.lock().is_tried()
    }

    /// Another node answered an order of this form with a refusal.
    pub(super) fn heard_refused(&self, form: FormId) {
        self.put_refused(&self.heard_refused, form);
    }

    /// Whether the form is ordered from no node, because this node or another was refused it not long ago.
    pub(super) fn is_not_ordered(&self, form: FormId) -> bool {
        self.is_refused(form) || self.is_in(&self.heard_refused, form)
    }

    fn put_refused(&self, forms: &Mutex<LruCache<FormId, MonoTime>>, form: FormId) {
        // Overlaps have no form: one refusal is no evidence about the others.
        if form != FormId::ANY {
            let until = self.clock.now() + Millis(REFUSED_FORMS_MS);
            forms.lock().put(form, until);
        }
    }

    fn is_in(&self, forms: &Mutex<LruCache<FormId, MonoTime>>, form: FormId) -> bool {
        let now = self.clock.now();
        forms.lock().peek(&form).is_some_and(|until| *until > now)
    }

    pub(super) fn len(&self) -> usize {
        let refused = self.refused.lock().len() + self.heard_refused.lock().len();
        self.notes.lock().len() + self.records.lock().len() + refused
    }
}

impl Learner for Feedback {
    /// Counted when it ends.
    fn launched(&self, _: SourceId, _: FormId) {}

    fn resolved(&self, resolved: &ResolvedLaunch) {
        self.note(*resolved);
    }

    fn refused(&self, _: SourceId, form: FormId) {
        self.put_refused(&self.refused, form);
    }

    fn is_refused(&self, form: FormId) -> bool {
        self.is_in(&self.refused, form)
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
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use hopcache_core::node::Incarnation;
    use hopcache_learning::{Bounds, OriginTag, PatternTag, TransitionCounts};

    use super::*;
    use crate::prefetch::Resolution;

    const SOURCE: SourceId = SourceId::Pattern(PatternTag(5));

    const BEGAN: MonoTime = MonoTime(1_000_000);

    /// Records are summed up anew at each look.
    #[derive(Default)]
    struct GoesOn(AtomicU64);

    impl Clock for GoesOn {
        fn now(&self) -> MonoTime {
            BEGAN + Millis(RECORD_KEPT_MS * self.0.fetch_add(1, Ordering::Relaxed))
        }

        // tidy: poll interval; nobody calls it
        fn sleep(&self, _: Millis) -> BoxFuture<'static, ()> {
            std::future::pending().boxed()
        }
    }

    fn node(tag: u64) -> Feedback {
        let model = Successors::new(OriginTag(tag), Incarnation(tag), Bounds::for_patterns(16), BEGAN);
        Feedback::new(Arc::new(GoesOn::default()), Arc::new(Mutex::new(model)), Box::new(|| 4))
    }

    fn end(node: &Feedback, form: FormId, resolution: Resolution, count: u32) {
        let resolved =
            ResolvedLaunch { source: SOURCE, form, kind: CandidateKind::Template, p: 0.5, resolution };
        (0..count).for_each(|_| node.resolved(&resolved));
        node.work_in();
    }

    /// Merges, as after gossip or a pull.
    fn hear(to: &Feedback, from: &Feedback) {
        let digest = to.model.lock().digest(BEGAN);
        let page = from.model.lock().answer_pull(&digest, BEGAN);
        let counts = TransitionCounts::decode(&page).unwrap();
        to.model.lock().merge(&counts, BEGAN, |_| true);
    }

    /// Issue 7, "its binding dropped": a form whose refusal is only heard of is not ordered, and this refusal is no
    /// answer to another node's order. Otherwise B would inform A just before B tries again, A would inform B, and so
    /// on for ever.
    #[test]
    fn what_is_heard_to_be_refused_is_not_passed_on() {
        let (orderer, owner) = (node(1), node(2));
        owner.refused(SOURCE, FormId(9));
        orderer.heard_refused(FormId(9));
        assert_eq!((owner.is_refused(FormId(9)), owner.is_not_ordered(FormId(9))), (true, true));
        assert_eq!((orderer.is_refused(FormId(9)), orderer.is_not_ordered(FormId(9))), (false, true));
        orderer.heard_refused(FormId::ANY);
        assert!(!orderer.is_not_ordered(FormId::ANY), "overlaps have no form in common");
    }

    /// DESIGN "Prefetch", feedback: precision of a pattern above 0.75 raises K, below 0.40 halves it. The launches of
    /// all key owners count together, as the session's owner has heard of them; no key owner has a whole window of its
    /// own.
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
        assert!(!session_owner.is_mostly_right(SOURCE), "nothing has ended");
        all(Resolution::Used, FormId(9), 3);
        all(Resolution::Late, FormId(9), 4);
        assert!(session_owner.is_mostly_right(SOURCE));
        all(Resolution::Wasted, FormId(9), 2);
        // Overlaps have no form, and count too.
        assert!(!session_owner.is_mostly_right(SOURCE), "a third was wasted");
        all(Resolution::Wasted, FormId::ANY, 1);
        for owner in &owners {
            assert!(owner.model.lock().predictions(SOURCE, BEGAN).is_empty(), "no sighting");
        }
    }
}
