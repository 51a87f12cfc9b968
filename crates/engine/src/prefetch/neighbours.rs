//! Typed neighbours: queries for the nodes that a result names, before anything was learned of what follows it.
//!
//! A column `f.slug` of a `(f:Film)` names films. Patterns that find a film by its slug, and need nothing else, are what clients
//! probably ask next: those that were asked most. So a new cluster predicts with the first page that it answers, and so do clients that
//! have no session. Once sessions have shown what follows a pattern, their templates say it better: the probability falls with each
//! sighting of the pattern, and a neighbour that a template knows is none.
//!
//! Each pair of patterns is a source of its own: how often its launches were used is counted as of any source, and decides how many it
//! may launch. A pair that is down to none has no trials. Nodes tell each other these counts by pulls alone, and where more patterns are
//! asked than are kept, only the factor of the kind holds a pair back. Database and principal are part of the places by which patterns are found, so nothing crosses either (I5).

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

use crate::fetch::Verdict;
use crate::model::ask::Query;
use crate::prefetch::Prefetch;
use crate::prefetch::answered::Moment;
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
    /// The column's number, and how many columns there are.
    column: (usize, usize),
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

    /// Notes a read that a client has asked. The last text and type stand for its pattern.
    fn note(&self, asked: &Antecedent) {
        let Some((label, key, parameter)) = asked.query.facts().anchor_parameter() else { return };
        let kind = kind_of_only(parameter, &asked.query.params);
        let Some(kind) = kind.filter(|kind| matches!(kind, Kind::Int | Kind::Text | Kind::Bool)) else {
            return;
        };
        let place = (asked.statement.realm, Box::from(label.as_str()));
        let mut labels = self.0.lock();
        let patterns = labels.get_or_insert_mut(place, Vec::new);
        patterns.iter_mut().for_each(|pattern| pattern.asked *= NEIGHBOUR_ASKED_KEPT);
        let is_it = |pattern: &AnchoredPattern| pattern.statement.pattern == asked.statement.pattern;
        let before = patterns.iter().position(is_it).map_or(0.0, |at| patterns.remove(at).asked);
        patterns.truncate(NEIGHBOURS_OF_LABEL_MAX - 1);
        patterns.push(AnchoredPattern {
            key: key.as_str().into(),
            parameter: parameter.into(),
            kind,
            statement: Arc::clone(&asked.statement),
            asked: before + 1.0,
        });
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
                let is_known =
                    |other: &Neighbour| other.pattern.statement.pattern == pattern.statement.pattern;
                if !found.iter().any(is_known) {
                    let (column, pattern) = ((node.column, node.columns), pattern.clone());
                    found.push(Neighbour { column, path, pattern });
                }
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
    /// A query of a client is considered: later it may be a neighbour, if the server has called it a read.
    pub(super) fn note_asked(&self, asked: &Antecedent) {
        let is_short = asked.query.statement.len() <= FORM_STATEMENT_BYTES_MAX;
        let is_read = || self.fetch.classifier().verdict(&asked.query) == Verdict::Read;
        if is_short && self.policy.now().prefetch.neighbour_steps_max > 0 && is_read() {
            self.learning.considering.neighbours.note(asked);
        }
    }

    /// The neighbours of what was asked, which was seen so often in sessions. `taught`: the statements of templates that follow it.
    /// Each is a candidate for the first rows of the answer, if this node knows their fields.
    pub(super) fn neighbours<F: FnOnce() -> Option<Arc<Fields>>>(
        &self,
        before: &Antecedent,
        (sightings, taught, p_min): (f64, &BTreeSet<&str>, f64),
        fields: &LazyFields<F>,
        all: &mut Vec<Candidate>,
    ) -> NeighboursFound {
        // Of what was read ahead, a further step is as likely as both together.
        let p_before = if let Moment::Ahead { p, .. } = before.moment { p } else { 1.0 };
        let p_of = |row| self.calibrated(CandidateKind::Neighbour, p_before * of_neighbour(row, sightings));
        let shown = before.query.facts().shown_nodes();
        if shown.is_empty() || p_of(0) <= p_min {
            return NeighboursFound::default();
        }
        let found = self.learning.considering.neighbours.of(before.statement.realm, shown).into_iter();
        let found = found.filter_map(|each| {
            let next = &each.pattern.statement;
            let source = self.source_of(before, next);
            let may_launch = !taught.contains(next.read.normal.as_str())
                && self.learning.feedback.launches_max(source) > 0;
            may_launch.then_some((source, each))
        });
        let found: Vec<(SourceId, Neighbour)> = found.take(NEIGHBOUR_PATTERNS_MAX).collect();
        if found.is_empty() {
            return NeighboursFound::default();
        }
        let Some(fields) = fields.as_deref() else {
            return NeighboursFound { may_follow: true, lacks_fields: true };
        };
        for (source, neighbour) in &found {
            let next = &neighbour.pattern.statement;
            let is_asked = next.pattern == before.statement.pattern;
            for row in (0..FIELDS_ROWS_MAX).take_while(|row| p_of(*row) > p_min) {
                let Some(params) = neighbour.params_of(fields, row) else { continue };
                if is_asked && before.query.params == params {
                    continue;
                }
                let (kind, p) = (CandidateKind::Neighbour, p_before * of_neighbour(row, sightings));
                let (statement, source) = (next.read.normal.shared(), *source);
                all.push(Candidate { statement, params: params.into(), source, form: FormId::ANY, kind, p });
            }
        }
        NeighboursFound { may_follow: true, lacks_fields: false }
    }

    /// The pair of two patterns, as a source.
    fn source_of(&self, before: &Antecedent, next: &ReadStatement) -> SourceId {
        let pair = [before.statement.pattern, next.pattern].map(|pattern| pattern.0.to_le_bytes());
        SourceId::Pattern(PatternTag(self.hasher.learning_tag(b"neighbour", [&pair[0], &pair[1], b""])))
    }

    /// Keeps the text of a pair, by which operators see it: a neighbour is ordered.
    pub(super) fn define_pair(&self, pair: SourceId, before: &Antecedent, next: &Query) {
        let SourceId::Pattern(tag) = pair else { return };
        let mut model = self.learning.model.lock();
        if model.pattern(tag).is_none() {
            let text = format!("{} /* as a neighbour of */ {}", next.normal.as_str(), before.statement.text);
            model.define_pattern(tag, &text);
        }
    }
}

impl Neighbour {
    /// The parameters of the query for the node in this row (one PackStream map).
    fn params_of(&self, fields: &Fields, row: u8) -> Option<Vec<u8>> {
        let value = fields.value(row, fields.column(self.column.0, self.column.1)?, &self.path)?;
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
