//! What a write touches.

use std::cell::Cell;
use std::collections::BTreeSet;

use hopcache_core::tags::TagId;

use crate::syntax::{Syntax, certain};
use crate::tags::counters::Counters;
use crate::tags::id::ids;
use crate::tags::limits::MARKS_MAX;
use crate::tags::names::Names;
use crate::tags::params::Params;
use crate::tags::rules::{TagSubject, Touch};
use crate::tags::tokens::tokens;
use crate::tags::touches::{Cause, Touches, touches};

/// Everything that a write may do to the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteEffects {
    found: BTreeSet<(Option<Cause>, Touch)>,
    /// Whether the counters tell about all that the statement has done.
    is_counted: bool,
    ids: Vec<TagId>,
    transactions_max: Option<u32>,
    tokens: Option<Vec<TagId>>,
}

impl WriteEffects {
    /// The effects of `statement` with these parameters (one PackStream map), before anything is known of its run.
    #[must_use]
    pub fn of(statement: &str, params: &[u8]) -> Self {
        Self::noting(statement, params, &Cell::new(false))
    }

    /// The effects of `statement` with any parameters; `None` if a parameter names a label, a type or a key, so that each run has
    /// effects of its own.
    ///
    /// ```
    /// use hopcache_cypher::tags::WriteEffects;
    ///
    /// assert!(WriteEffects::of_text("CREATE (:A {name: $name})").is_some());
    /// assert!(WriteEffects::of_text("CREATE (n:A) SET n += $properties").is_none());
    /// ```
    #[must_use]
    pub fn of_text(statement: &str) -> Option<Self> {
        const NO_PARAMS: [u8; 1] = [0xa0];
        let are_asked = Cell::new(false);
        let effects = Self::noting(statement, &NO_PARAMS, &are_asked);
        (!are_asked.get()).then_some(effects)
    }

    fn noting(statement: &str, params: &[u8], are_asked: &Cell<bool>) -> Self {
        let Some(Syntax { prefix, query, .. }) = certain(statement) else { return Self::anything() };
        let Some(names) = Names::of(&query) else { return Self::anything() };
        let params = Params::new(params, &names, are_asked);
        let tokens = tokens(&query, params);
        if prefix.is_explained && !prefix.is_profiled {
            return Self { tokens, ..Self::from_touches(BTreeSet::new(), true) };
        }
        let found = touches(&query, &names, params);
        let Some(Touches { touches: found, is_uncounted }) = found else { return Self::anything() };
        let found = found.into_iter().map(|(cause, touch)| (Some(cause), touch));
        let effects = Self::from_touches(found.collect(), !is_uncounted);
        if effects.is_anything() {
            return Self::anything();
        }
        Self { tokens, ..effects }
    }

    /// The effects of a write about which nothing is known: it touches every read.
    #[must_use]
    pub fn anything() -> Self {
        Self::from_touches(BTreeSet::from([(None, Touch::Anything)]), false)
    }

    /// The effects of a write that does these things.
    #[must_use]
    pub fn from_parts(touches: impl IntoIterator<Item = Touch>) -> Self {
        Self::from_touches(touches.into_iter().map(|touch| (None, touch)).collect(), false)
    }

    /// Other effects, of a run that may use the same labels, types and keys. The counters tell about all of them.
    pub(crate) fn of_same_tokens(&self, found: impl Iterator<Item = (Option<Cause>, Touch)>) -> Self {
        Self { tokens: self.tokens.clone(), ..Self::from_touches(found.collect(), true) }
    }

    fn from_touches(found: BTreeSet<(Option<Cause>, Touch)>, is_counted: bool) -> Self {
        let change = if found.is_empty() { None } else { Some(TagSubject::Change) };
        let marks = ids(found.iter().flat_map(|(_, touch)| touch.marks()).chain(change));
        if marks.len() > MARKS_MAX {
            return Self::anything();
        }
        let transactions_max = is_counted.then_some(u32::from(!found.is_empty()));
        Self { found, is_counted, ids: marks, transactions_max, tokens: None }
    }

    /// The effects that a run had which succeeded with these counters. A run that failed may have done more than its
    /// counters tell if it has committed parts (`CALL { … } IN TRANSACTIONS`), or if its end is not known: use
    /// [`WriteEffects::of`] alone for these.
    #[must_use]
    pub fn narrowed(&self, counters: &Counters) -> Self {
        if counters.others != 0 || self.is_anything() {
            return Self::anything();
        }
        if !self.is_counted {
            return self.clone();
        }
        let happened =
            |(cause, _): &&(Option<Cause>, Touch)| cause.is_none_or(|cause| count(counters, cause) != 0);
        let effects = Self::from_touches(self.found.iter().filter(happened).cloned().collect(), true);
        Self { tokens: self.tokens.clone(), ..effects }
    }

    /// The bytes that it takes on the heap, by estimate.
    pub(crate) fn weight_bytes(&self) -> usize {
        let found: usize = self.found.iter().map(|(_, touch)| touch.name_bytes()).sum();
        // Leaves of a tree are half empty at worst.
        let of_tree = 2 * self.found.len() * size_of::<(Option<Cause>, Touch)>();
        found + of_tree + size_of_val(self.ids.as_slice()) + self.tokens.as_deref().map_or(0, size_of_val)
    }

    /// What the write may do, for people.
    pub fn touches(&self) -> impl Iterator<Item = &Touch> {
        self.found.iter().map(|(_, touch)| touch)
    }

    /// The same, each with the counter that is zero if it has not happened.
    pub(crate) fn causes(&self) -> impl Iterator<Item = (Option<Cause>, &Touch)> {
        self.found.iter().map(|(cause, touch)| (*cause, touch))
    }

    /// Whether nothing is known of the write.
    #[must_use]
    pub fn is_anything(&self) -> bool {
        self.touches().any(|touch| *touch == Touch::Anything)
    }

    /// How many transaction ids a run consumes at most, new tokens apart: one if it may change anything, none if it
    /// certainly does not. In an explicit transaction this is the most for all of its statements together. `None` if it
    /// is not known: `CALL { … } IN TRANSACTIONS`, a procedure, a schema command, an unknown construct.
    #[must_use]
    pub const fn transactions_max(&self) -> Option<u32> {
        self.transactions_max
    }

    /// The labels, types and property keys that a run may use, as sorted numbers ([`crate::tags::Token`]), at most
    /// [`crate::tags::limits::TOKENS_MAX`]. Each that the database has never had before may consume one transaction id more, also in a run that
    /// fails. A run need not use all of them, and several new keys of one map may consume one id together. `None` if they
    /// are not known.
    ///
    /// ```
    /// use hopcache_cypher::tags::{TagId, Token, WriteEffects};
    ///
    /// let effects = WriteEffects::of("MATCH (n:A) SET n:B", &[0xa0]);
    /// assert_eq!(effects.transactions_max(), Some(1));
    /// assert_eq!(effects.tokens(), Some([TagId::from(Token::Label("B"))].as_slice()));
    /// ```
    #[must_use]
    pub fn tokens(&self) -> Option<&[TagId]> {
        self.tokens.as_deref()
    }

    /// The marks as sorted numbers, at most [`MARKS_MAX`]; none if the write does nothing.
    #[must_use]
    pub fn ids(&self) -> &[TagId] {
        &self.ids
    }
}

pub(crate) fn count(counters: &Counters, cause: Cause) -> i64 {
    match cause {
        Cause::NodesCreated => counters.nodes_created,
        Cause::NodesDeleted => counters.nodes_deleted,
        Cause::RelationshipsCreated => counters.relationships_created,
        Cause::RelationshipsDeleted => counters.relationships_deleted,
        Cause::PropertiesSet => counters.properties_set,
        Cause::LabelsAdded => counters.labels_added,
        Cause::LabelsRemoved => counters.labels_removed,
    }
}
