//! Typed neighbours: queries for the nodes that a result names, before anything was learned of what follows it.
//!
//! A column `f.slug` of a `(f:Film)` names films. Patterns that find a film by its slug, and need nothing else, are what clients
//! probably ask next: those that were asked most. So a new cluster predicts with the first page that it answers, and so do clients that
//! have no session. Once sessions have shown what follows a pattern, their templates say it better: the probability falls with each
//! sighting after which the neighbour was not asked.
//!
//! Each pair of patterns is a source of its own: how often its launches were used is counted by all nodes, as of any source, and decides
//! how many it may launch. Database and principal are part of the places by which patterns are found, so nothing crosses either (I5).

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use hopcache_core::limits::{
    FIELDS_ROWS_MAX, FORM_STATEMENT_BYTES_MAX, NEIGHBOUR_ASKED_KEPT, NEIGHBOUR_LABELS_MAX,
    NEIGHBOUR_PATTERNS_MAX, NEIGHBOURS_OF_LABEL_MAX,
};
use hopcache_cypher::shown_nodes::ShownNode;
use hopcache_learning::evidence::of_neighbour;
use hopcache_learning::fields::Fields;
use hopcache_learning::form::RealmTag;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::params::Kind;
use hopcache_learning::{FormId, PatternTag, SourceId};
use hopcache_packstream::{Reader, Token, Writer};
use lru::LruCache;
use parking_lot::Mutex;

use crate::prefetch::Prefetch;
use crate::prefetch::candidate::{Antecedent, Candidate};
use crate::prefetch::candidates::LazyFields;
use crate::prefetch::statements::ReadStatement;

/// A pattern that finds a node by the value of its only parameter.
#[derive(Debug, Clone)]
struct AnchoredPattern {
    key: Box<str>,
    parameter: Box<str>,
    kind: Kind,
    statement: Arc<ReadStatement>,
    /// How often it was asked; earlier requests count less.
    asked: f32,
}

/// A pattern, and where a result has the values to ask it for.
#[derive(Debug, Clone)]
struct Neighbour {
    column: usize,
    path: Vec<Box<str>>,
    pattern: AnchoredPattern,
}

/// A label, as one principal asks for it in one database.
type LabelPlace = (RealmTag, Box<str>);

/// The patterns of each label.
pub(super) struct Neighbours(Mutex<LruCache<LabelPlace, Vec<AnchoredPattern>>>);

impl Neighbours {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(NEIGHBOUR_LABELS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self(Mutex::new(LruCache::new(most)))
    }

    /// Notes a query that was asked.
    pub(super) fn note(&self, asked: &Antecedent) {
        if asked.query.statement.len() > FORM_STATEMENT_BYTES_MAX {
            return;
        }
        let Some((label, key, parameter)) = asked.query.facts().anchor_parameter() else { return };
        let Some(kind) = kind_of_only(parameter, &asked.query.params) else { return };
        let place = (asked.statement.realm, Box::from(label.as_str()));
        let mut labels = self.0.lock();
        let patterns = labels.get_or_insert_mut(place, Vec::new);
        patterns.iter_mut().for_each(|pattern| pattern.asked *= NEIGHBOUR_ASKED_KEPT);
        let is_it = |pattern: &&mut AnchoredPattern| pattern.statement.pattern == asked.statement.pattern;
        if let Some(known) = patterns.iter_mut().find(is_it) {
            known.asked += 1.0;
        } else {
            patterns.truncate(NEIGHBOURS_OF_LABEL_MAX - 1);
            let (key, parameter) = (Box::from(key.as_str()), Box::from(parameter));
            let statement = Arc::clone(&asked.statement);
            patterns.push(AnchoredPattern { key, parameter, kind, statement, asked: 1.0 });
        }
        patterns.sort_by(|one, other| other.asked.total_cmp(&one.asked));
    }

    /// The patterns that are anchored at what a result names, the most asked first.
    fn of(&self, realm: RealmTag, shown: &[ShownNode]) -> Vec<Neighbour> {
        let mut found = Vec::new();
        let labels = self.0.lock();
        for node in shown {
            let patterns = labels.peek(&(realm, Box::from(node.label.as_str())));
            for pattern in patterns.into_iter().flatten() {
                let Some(path) = node.path_of(&pattern.key) else { continue };
                found.push(Neighbour { column: node.column, path, pattern: pattern.clone() });
            }
        }
        drop(labels);
        found.sort_by(|one, other| other.pattern.asked.total_cmp(&one.pattern.asked));
        found
    }

    /// Remembered labels.
    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

/// Whether a query has neighbours.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NeighboursFound {
    pub(super) may_follow: bool,
    /// Whether they were left out, because this node does not know the fields of the answer.
    pub(super) lacks_fields: bool,
}

impl Prefetch {
    /// The neighbours of what was asked, which was seen so often in sessions. `taught`: the statements of templates that follow it.
    /// Each is a candidate for the first rows of the answer, if this node knows their fields.
    pub(super) fn neighbours<F: FnOnce() -> Option<Arc<Fields>>>(
        &self,
        before: &Antecedent,
        (sightings, taught, p_min): (f64, &BTreeSet<&str>, f64),
        fields: &LazyFields<F>,
        all: &mut Vec<Candidate>,
    ) -> NeighboursFound {
        let shown = before.query.facts().shown_nodes();
        if shown.is_empty() || of_neighbour(0, sightings) <= p_min {
            return NeighboursFound::default();
        }
        let mut found = self.learning.considering.neighbours.of(before.statement.realm, shown);
        found.retain(|each| !taught.contains(each.pattern.statement.read.normal.as_str()));
        found.truncate(NEIGHBOUR_PATTERNS_MAX);
        if found.is_empty() {
            return NeighboursFound::default();
        }
        let Some(fields) = fields.as_deref() else {
            return NeighboursFound { may_follow: true, lacks_fields: true };
        };
        for neighbour in &found {
            let source = self.source_of(before, &neighbour.pattern.statement);
            let rows = (0..FIELDS_ROWS_MAX).map(|row| (row, of_neighbour(row, sightings)));
            for (row, p) in rows.take_while(|(_, p)| *p > p_min) {
                let Some(params) = neighbour.params_of(fields, row) else { continue };
                let statement = neighbour.pattern.statement.read.normal.shared();
                let kind = CandidateKind::Neighbour;
                all.push(Candidate { statement, params: params.into(), source, form: FormId::ANY, kind, p });
            }
        }
        NeighboursFound { may_follow: true, lacks_fields: false }
    }

    /// The pair of two patterns, as a source. Operators see it by both texts.
    fn source_of(&self, before: &Antecedent, next: &ReadStatement) -> SourceId {
        let text = format!("{} /* typed neighbours: */ {}", before.statement.text, next.text);
        let (query, scope) = (&before.query, before.query.identity.scope);
        let tag = PatternTag::of(&self.hasher, &query.database, scope, &text);
        let mut model = self.learning.model.lock();
        if model.pattern(tag).is_none() {
            model.define_pattern(tag, &text);
        }
        SourceId::Pattern(tag)
    }
}

impl Neighbour {
    /// The parameters of the query for the node in this row (one PackStream map).
    fn params_of(&self, fields: &Fields, row: u8) -> Option<Vec<u8>> {
        let value = fields.value(row, fields.column(self.column)?, &self.path)?;
        if Kind::of(value) != Some(self.pattern.kind) {
            return None;
        }
        let mut writer = Writer::new();
        writer.map(1);
        writer.string(&self.pattern.parameter);
        writer.raw(value);
        Some(writer.into_bytes())
    }
}

/// The type of the value of this parameter, if it is the only one.
fn kind_of_only(parameter: &str, params: &[u8]) -> Option<Kind> {
    let mut reader = Reader::new(params);
    if !matches!(reader.token(), Ok(Token::Map(1))) || reader.key().ok()? != parameter {
        return None;
    }
    Kind::of(reader.skip().ok()?)
}
