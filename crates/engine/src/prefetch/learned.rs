//! What was learned, as operators see it. It decides nothing, and shows no parameter: constants and exact parameters are
//! personal data, statements of forms are what `explain` shows too.

use std::collections::BTreeMap;

use hopcache_core::limits::SUCCESSORS_SHOWN_AT_A_TIME;
use hopcache_core::node::NodeName;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::{Decayed, FormId, OriginTag, PatternTag, Prediction, SourceId, SourceView, Sum};
use tokio::task::yield_now;

use super::sought;
use crate::engine::Engine;

/// A pattern, or an exact query, and what follows it.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternView {
    /// What was asked, in a database, by one principal.
    pub source: SourceId,
    /// The pattern: the source itself, or the one that an exact query is of; nothing where no session of this node asked it
    /// lately.
    pub pattern: Option<PatternTag>,
    /// The pattern's text, where it is known here.
    pub text: Option<String>,
    /// Of which principal and database, where a successor says so.
    pub realm: Option<RealmTag>,
    /// How often it was seen, decayed.
    pub seen: f64,
    /// Candidates that it may launch for one request at this node, by its precision.
    pub launches_max: usize,
    /// Launched and used of all of its successors, decayed.
    pub outcome: Decayed,
    /// The likeliest first.
    pub successors: Vec<SuccessorView>,
}

/// What may follow a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct SuccessorView {
    /// Its name.
    pub id: FormId,
    /// What is run; nothing while its definition has not come here.
    pub form: Option<Form>,
    /// Probability.
    pub p: f64,
    /// Counts, decayed.
    pub counts: Decayed,
    /// Who counted how much of `counts.seen`, the most first: a node that this one knows, or the tag of one that it does
    /// not know any more.
    pub taught_by: Vec<(Result<NodeName, OriginTag>, f64)>,
}

/// How much was learned, for gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LearningSizes {
    /// Patterns of which is known what follows.
    pub patterns: usize,
    /// Forms that can be run.
    pub forms: usize,
    /// Sessions that this node owns.
    pub sessions: usize,
    /// Observations that wait: to be told, or to be learned from.
    pub waiting: usize,
    /// What is remembered beside that: anchors, fields, orders of the last moment, notes on launches, the nodes that tell.
    pub remembered: usize,
    /// Bytes of counts and definitions, as estimated.
    pub bytes: usize,
    /// Bytes of the queries that sessions remember.
    pub session_bytes: usize,
}

impl Engine {
    /// What is known of the most frequent patterns, at most so many.
    #[must_use]
    pub fn successors_view(&self, patterns_max: usize) -> Vec<PatternView> {
        let sources = self.learning.model.lock().patterns(patterns_max, self.now());
        let names = self.origins();
        sources.into_iter().map(|source| self.pattern_view(source, &names)).collect()
    }

    /// The most frequent patterns, and beside them the most frequent exact queries, whose id begins with what is sought or
    /// whose pattern's text has it, in any case and spacing: at most so many of each. Whoever learns or tells meanwhile
    /// waits for a slice of them at the most.
    pub async fn successors_sought(&self, sought: &str, sources_max: usize) -> Vec<PatternView> {
        let now = self.now();
        let known = &self.learning.lessons.patterns;
        let sources = sought::seek(&self.learning.model, known, sought, sources_max, now).await;
        let names = self.origins();
        let mut views = Vec::with_capacity(sources.len());
        for (place, source) in sources.into_iter().enumerate() {
            if place % SUCCESSORS_SHOWN_AT_A_TIME == 0 {
                yield_now().await;
            }
            // It may have given way since.
            let Some(seen) = self.learning.model.lock().view(source, now) else { continue };
            views.push(self.pattern_view(seen, &names));
        }
        views
    }

    /// How much was learned.
    #[must_use]
    pub fn learning_sizes(&self) -> LearningSizes {
        let model = self.learning.model.lock().sizes();
        let lessons = &self.learning.lessons;
        LearningSizes {
            patterns: model.patterns,
            forms: model.forms,
            sessions: lessons.sessions(),
            waiting: self.learning.observing.len() + lessons.waiting(),
            remembered: lessons.anchors.lock().len()
                + lessons.patterns.lock().len()
                + lessons.fields.len()
                + self.learning.considering.len()
                + lessons.tellers()
                + self.learning.feedback.len(),
            bytes: model.bytes,
            session_bytes: lessons.session_bytes(),
        }
    }

    /// All that is known here of what follows what, summed up.
    #[must_use]
    pub fn learned(&self) -> Sum {
        self.learning.model.lock().sum(self.now())
    }

    fn origins(&self) -> BTreeMap<OriginTag, NodeName> {
        let view = self.ports.routing.view();
        let known = view
            .members()
            .iter()
            .cloned()
            .chain(self.ports.routing.reachable())
            .chain([self.me.node.clone()]);
        known.map(|node| (OriginTag::of(&self.hasher, &node), node)).collect()
    }

    fn pattern_view(&self, seen: SourceView, names: &BTreeMap<OriginTag, NodeName>) -> PatternView {
        let source = seen.source;
        let pattern = match source {
            SourceId::Pattern(tag) => Some(tag),
            SourceId::Query(tag) => self.learning.lessons.patterns.lock().peek(&tag).copied(),
        };
        let model = self.learning.model.lock();
        let text = seen.text.or_else(|| model.pattern(pattern?).map(ToOwned::to_owned));
        let outcome = model.precision(source, self.now());
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
