//! What was learned, as operators see it. It decides nothing, and shows no parameter: constants and exact parameters are
//! personal data, statements of forms are what `explain` shows too.

use std::collections::BTreeMap;

use hopcache_core::learning::form::Form;
use hopcache_core::learning::{Decayed, OriginTag, PatternTag, Prediction, SourceId, SourceView};
use hopcache_core::node::NodeName;

use crate::engine::Engine;

/// A pattern and what follows it.
#[derive(Debug, Clone, PartialEq)]
pub struct PatternView {
    /// The pattern, in a database, as one principal asks it.
    pub tag: PatternTag,
    /// Its text, where it is known here.
    pub text: Option<String>,
    /// How often it was seen, decayed.
    pub seen: f64,
    /// The likeliest first.
    pub successors: Vec<SuccessorView>,
}

/// What may follow a pattern.
#[derive(Debug, Clone, PartialEq)]
pub struct SuccessorView {
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
        sources.into_iter().filter_map(|source| self.pattern_view(source, &names)).collect()
    }

    /// What is known of one pattern.
    #[must_use]
    pub fn successors_of(&self, pattern: PatternTag) -> Option<PatternView> {
        let source = self.learning.model.lock().view(SourceId::Pattern(pattern), self.now())?;
        self.pattern_view(source, &self.origins())
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
                + lessons.fields.len()
                + self.learning.considering.len()
                + lessons.tellers()
                + self.learning.feedback.len(),
            bytes: model.bytes,
            session_bytes: lessons.session_bytes(),
        }
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

    fn pattern_view(&self, source: SourceView, names: &BTreeMap<OriginTag, NodeName>) -> Option<PatternView> {
        let SourceId::Pattern(tag) = source.source else { return None };
        let successors = source.successors.into_iter().map(|each| self.successor_view(each, names)).collect();
        Some(PatternView { tag, text: source.text, seen: source.tally.seen, successors })
    }

    fn successor_view(&self, seen: Prediction, names: &BTreeMap<OriginTag, NodeName>) -> SuccessorView {
        let definition = self.learning.model.lock().form(seen.form);
        let form = definition.and_then(|bytes| Form::of_definition(&bytes)).map(|(_, form)| form);
        let named = |(tag, count): (OriginTag, f64)| (names.get(&tag).cloned().ok_or(tag), count);
        let taught_by = seen.taught_by.into_iter().map(named).collect();
        SuccessorView { form, p: seen.p, counts: seen.tally, taught_by }
    }
}
