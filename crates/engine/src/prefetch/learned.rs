//! Lessons as operators see them. This module decides nothing, and shows no parameter, because constants and exact
//! parameters are personal data. `explain` shows the statements of forms, too.

use std::collections::BTreeMap;

use hopcache_core::limits::SUCCESSORS_SHOWN_AT_A_TIME;
use hopcache_core::node::NodeName;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::{DecayedTally, FormId, OriginTag, PatternTag, Prediction, SourceId, SourceView, Sum};
use tokio::task::yield_now;

use crate::prefetch::{Prefetch, search};

/// Plain data: a pattern, or an exact query, and its successors.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternView {
    /// The pattern or query, in one database, of one principal.
    pub source: SourceId,
    /// The pattern: the source itself, or the pattern of an exact query. `None` if no session of this node asked the
    /// query lately.
    pub pattern: Option<PatternTag>,
    /// The pattern's text, if this node knows it.
    pub text: Option<String>,
    /// The principal and database, if a successor names them.
    pub realm: Option<RealmTag>,
    /// How often it was seen, decayed.
    pub seen: f64,
    /// Candidates that it may launch for one request at this node, according to its precision.
    pub launches_max: usize,
    /// Launched and used of all of its successors, decayed.
    pub outcome: DecayedTally,
    /// The likeliest first.
    pub successors: Vec<SuccessorView>,
}

/// Plain data: a query that may follow a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct SuccessorView {
    /// Its name.
    pub id: FormId,
    /// Its definition; `None` until that has arrived here.
    pub form: Option<Form>,
    /// Probability.
    pub p: f64,
    /// Counts, decayed.
    pub counts: DecayedTally,
    /// How much of `counts.seen` each node counted, the largest first: a known node's name, or the tag of a node that
    /// is no longer known.
    pub taught_by: Vec<(Result<NodeName, OriginTag>, f64)>,
}

/// Plain data: the size of what was learned, for gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LearningSizes {
    /// Patterns whose successors are known.
    pub patterns: usize,
    /// Forms that can be run.
    pub forms: usize,
    /// Sessions that this node owns.
    pub sessions: usize,
    /// Observations that wait: to be sent, or to be learned from.
    pub waiting: usize,
    /// Other remembered items: anchors, fields, statements, orders of the last moment, notes on launches, the nodes that send
    /// observations.
    pub remembered: usize,
    /// Bytes of counts and definitions, as estimated.
    pub bytes: usize,
    /// Bytes of the queries that sessions remember.
    pub session_bytes: usize,
}

impl Prefetch {
    /// The most frequent patterns and the most frequent exact queries, at most `sources_max` of each. `sought` is the
    /// beginning of an id or a part of the pattern's text, in any case and spacing. Tasks that learn or share meanwhile
    /// wait for one slice of the search at most.
    pub async fn successors_sought(&self, sought: &str, sources_max: usize) -> Vec<PatternView> {
        let now = self.context.now();
        let known = &self.learning.transitions.patterns;
        let sources = search::find_sources(&self.learning.model, known, sought, sources_max, now).await;
        let names = self.origins();
        let mut views = Vec::with_capacity(sources.len());
        for (place, source) in sources.into_iter().enumerate() {
            if place % SUCCESSORS_SHOWN_AT_A_TIME == 0 {
                yield_now().await;
            }
            // It may have been forgotten since.
            let Some(seen) = self.learning.model.lock().view(source, now) else { continue };
            views.push(self.pattern_view(seen, &names));
        }
        views
    }

    /// The size of what was learned.
    #[must_use]
    pub fn learning_sizes(&self) -> LearningSizes {
        let model = self.learning.model.lock().sizes();
        let transitions = &self.learning.transitions;
        LearningSizes {
            patterns: model.patterns,
            forms: model.forms,
            sessions: transitions.sessions(),
            waiting: self.learning.observing.len() + transitions.waiting(),
            remembered: transitions.patterns.lock().len()
                + transitions.fields.len()
                + self.learning.considering.len()
                + self.learning.considering.waiting()
                + self.learning.ordering.len()
                + self.learning.statements.len()
                + transitions.clock_offsets()
                + self.learning.feedback.len(),
            bytes: model.bytes,
            session_bytes: transitions.session_bytes(),
        }
    }

    /// All that this node knows of successors, summed up.
    #[must_use]
    pub fn learned(&self) -> Sum {
        self.learning.model.lock().sum(self.context.now())
    }

    fn origins(&self) -> BTreeMap<OriginTag, NodeName> {
        let view = self.routing.view();
        let known = view
            .members()
            .iter()
            .cloned()
            .chain(self.routing.reachable())
            .chain([self.context.node().clone()]);
        known.map(|node| (OriginTag::of(&self.hasher, &node), node)).collect()
    }

    fn pattern_view(&self, seen: SourceView, names: &BTreeMap<OriginTag, NodeName>) -> PatternView {
        let source = seen.source;
        let pattern = match source {
            SourceId::Pattern(tag) => Some(tag),
            SourceId::Query(tag) => self.learning.transitions.patterns.lock().peek(&tag).copied(),
        };
        let model = self.learning.model.lock();
        let text = seen.text.or_else(|| model.pattern(pattern?).map(ToOwned::to_owned));
        let outcome = model.precision(source, self.context.now());
        drop(model);
        let mut realm = None;
        let successors = seen.successors.into_iter().map(|each| {
            let (whose, view) = self.successor_view(each, names);
            realm = realm.or(whose);
            view
        });
        let successors = successors.collect();
        let launches_max = self.learning.feedback.launches_max(source);
        PatternView { source, pattern, text, realm, seen: seen.tally.seen, launches_max, outcome, successors }
    }

    fn successor_view(
        &self,
        seen: Prediction,
        names: &BTreeMap<OriginTag, NodeName>,
    ) -> (Option<RealmTag>, SuccessorView) {
        let definition = self.learning.model.lock().form(seen.form);
        let (realm, form) = definition.and_then(|bytes| Form::of_definition(&bytes)).unzip();
        let named = |(tag, count): (OriginTag, f64)| (names.get(&tag).cloned().ok_or(tag), count);
        let taught_by = seen.taught_by.into_iter().map(named).collect();
        (realm, SuccessorView { id: seen.form, form, p: seen.p, counts: seen.tally, taught_by })
    }
}
