//! Candidates: queries that may follow a request that was just answered. They come from exact successors, templates,
//! neighbours and overlaps. They are ranked together by the time that they are expected to save; `orders` orders them
//! from the owners of their keys. Such an owner decides whether to carry out an order (`launch.rs`): it knows its copies,
//! its flights and its origin.
//!
//! Every candidate has the identity and database of the request that it follows (I5). All lessons are tagged by both,
//! each definition is checked once more, and the query is built from the request's own identity.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::limits::{
    CANDIDATES_MAX, FIELDS_ROWS_MAX, NEIGHBOUR_PRIOR, NEIGHBOUR_PRIOR_WEIGHT, OVERLAP_PRIOR, READ_FORMS_MAX,
};
use hopcache_core::time::MonoTime;
use hopcache_learning::evidence::posterior;
use hopcache_learning::expansion::neighbours;
use hopcache_learning::fields::Fields;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::gain::{CandidateKind, Prices};
use hopcache_learning::{FormId, Likely, SourceId};
use lru::LruCache;
use parking_lot::Mutex;

use crate::model::ask::Query;
use crate::prefetch::Prefetch;
use crate::prefetch::anchors::Anchors;
use crate::prefetch::answered::Antecedent;
use crate::prefetch::statements::Names;

/// What candidates are made from: forms that were decoded, and anchors of recent queries.
pub(super) struct Considering {
    forms: Mutex<LruCache<FormId, Arc<ReadForm>>>,
    anchors: Mutex<Anchors>,
}

/// A form that was decoded. An id is a digest of the definition, so it has one form for ever.
#[derive(Debug)]
struct ReadForm {
    realm: RealmTag,
    form: Form,
    statement: Arc<str>,
}

impl Considering {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(READ_FORMS_MAX).unwrap_or(NonZeroUsize::MIN);
        Self { forms: Mutex::new(LruCache::new(most)), anchors: Mutex::new(Anchors::new()) }
    }

    pub(super) fn len(&self) -> usize {
        self.forms.lock().len() + self.anchors.lock().len()
    }
}

/// A query that may come next, not read yet.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) statement: Arc<str>,
    pub(super) params: Bytes,
    pub(super) source: SourceId,
    pub(super) form: FormId,
    pub(super) kind: CandidateKind,
    pub(super) p: f64,
}

/// A request, the names of its lessons, and the fields of its result.
struct Asked<'a> {
    query: &'a Query,
    names: Names,
    fields: Option<Arc<Fields>>,
    now: MonoTime,
}

/// The known forms that follow a source, each with its counts.
type KnownForms = Vec<(Arc<ReadForm>, Likely)>;

/// A candidate, and its expected gain.
struct Ranked {
    candidate: Candidate,
    /// Whether it pays by experience as well as by its own probability.
    pays: bool,
    expected_ms: f64,
}

impl Prefetch {
    /// The queries that may follow this one and that pay, the most promising first.
    pub(super) fn candidates_after(&self, before: &Antecedent, now: MonoTime) -> Vec<Candidate> {
        let query = &*before.query;
        let statement = self.learning.lessons.statements.read(&query.statement);
        let asked = Asked {
            query,
            names: statement.names(&self.hasher, &query.key, (&query.database, query.identity.scope)),
            fields: self.fields_here(&query.key),
            now,
        };
        let candidates = self.candidates_of(&asked);
        self.chosen(query, candidates)
    }

    fn candidates_of(&self, asked: &Asked<'_>) -> Vec<Candidate> {
        let kinds = self.policy.kinds;
        let mut all = Vec::new();
        let pattern = SourceId::Pattern(asked.names.pattern);
        let forecast = self.learning.model.lock().forecast(pattern, asked.now).unwrap_or_default();
        let forms = self.forms_of(asked.names.realm, &forecast.successors);
        if kinds.template {
            templates(asked, &forms, &mut all);
        }
        if kinds.exact {
            self.exact(asked, &mut all);
        }
        if kinds.neighbour {
            self.neighbours(asked, (forecast.seen, &forms), &mut all);
        }
        if kinds.overlap {
            self.overlaps(asked, &mut all);
        }
        all
    }

    /// The queries that followed this very query. They are judged together with the templates of its pattern, which are
    /// in `all` already: each is evidence for the other (`hopcache_learning::evidence`).
    fn exact(&self, asked: &Asked<'_>, all: &mut Vec<Candidate>) {
        let source = SourceId::Query(asked.names.query);
        let Some(forecast) = self.learning.model.lock().forecast(source, asked.now) else { return };
        let sightings = forecast.seen;
        let mut seen_after: BTreeMap<(Arc<str>, Bytes), (FormId, f64)> = BTreeMap::new();
        for (read, likely) in self.forms_of(asked.names.realm, &forecast.successors) {
            if let Form::Exact { params, .. } = &read.form {
                let next = (Arc::clone(&read.statement), Bytes::copy_from_slice(params));
                seen_after.insert(next, (likely.form, likely.seen));
            }
        }
        let mut foreseen: BTreeMap<(Arc<str>, Bytes), f64> = BTreeMap::new();
        for template in all.iter_mut() {
            let next = (Arc::clone(&template.statement), template.params.clone());
            let seen = seen_after.get(&next).map_or(0.0, |(_, seen)| *seen);
            let prior = foreseen.entry(next).or_insert(0.0);
            *prior = prior.max(template.p);
            template.p = posterior(seen, sightings, template.p);
        }
        for (next, (form, seen)) in seen_after {
            let p = posterior(seen, sightings, foreseen.get(&next).copied().unwrap_or(0.0));
            let (statement, params) = next;
            all.push(Candidate { statement, params, source, form, kind: CandidateKind::Exact, p });
        }
    }

    /// The known forms of successors that belong to this database and principal and that Neo4j has not refused.
    fn forms_of(&self, realm: RealmTag, successors: &[Likely]) -> KnownForms {
        let known = successors.iter().filter_map(|likely| Some((self.read_form(likely.form)?, *likely)));
        known
            .filter(|(read, likely)| {
                read.realm == realm && !self.learning.feedback.is_not_ordered(likely.form)
            })
            .collect()
    }

    fn read_form(&self, id: FormId) -> Option<Arc<ReadForm>> {
        if let Some(known) = self.learning.considering.forms.lock().get(&id) {
            return Some(Arc::clone(known));
        }
        let definition = self.learning.model.lock().form(id)?;
        let (realm, form) = Form::of_definition(&definition)?;
        let read = Arc::new(ReadForm { realm, statement: Arc::from(form.statement()), form });
        self.learning.considering.forms.lock().put(id, Arc::clone(&read));
        Some(read)
    }

    /// The same statement for the first nodes of the result. The more often the pattern is seen without following
    /// itself, the less likely a neighbour is.
    fn neighbours(
        &self,
        asked: &Asked<'_>,
        (seen, forms): (f64, &[(Arc<ReadForm>, Likely)]),
        all: &mut Vec<Candidate>,
    ) {
        let (query, Some(fields)) = (asked.query, &asked.fields) else { return };
        let normal = query.normal.as_str();
        let of_itself = forms.iter().filter(|(read, _)| *read.statement == *normal);
        let followed: f64 = of_itself.map(|(_, likely)| likely.seen).fold(0.0, f64::max);
        let p = (NEIGHBOUR_PRIOR * NEIGHBOUR_PRIOR_WEIGHT + followed) / (NEIGHBOUR_PRIOR_WEIGHT + seen);
        if !Prices::of(f64::NAN, 0.0).pays(p) {
            return;
        }
        let depth = usize::try_from(self.policy.depth).unwrap_or(usize::MAX);
        for neighbour in neighbours(&query.statement, &query.params, fields, depth) {
            all.push(Candidate {
                statement: Arc::clone(&query.statement),
                params: neighbour.params.into(),
                source: SourceId::Pattern(asked.names.pattern),
                form: FormId::ANY,
                kind: CandidateKind::Expansion,
                p: p.min(1.0),
            });
        }
    }

    /// Recent queries that start from the same graph node, of entries of this node that are about to expire. No other
    /// node is asked whether one is.
    fn overlaps(&self, asked: &Asked<'_>, all: &mut Vec<Candidate>) {
        let others = self.learning.considering.anchors.lock().others(&self.hasher, asked.query);
        let ending = others.into_iter().filter(|other| self.is_about_to_expire(&other.key));
        all.extend(ending.map(|other| Candidate {
            statement: other.statement,
            params: other.params,
            source: SourceId::Pattern(asked.names.pattern),
            form: FormId::ANY,
            kind: CandidateKind::Overlap,
            p: OVERLAP_PRIOR,
        }));
    }

    /// The candidates that pay, the most promising first. A source's precision bounds its own candidates, the operator
    /// bounds all of them. Of the candidates that only experience speaks against, one is tried now and then.
    fn chosen(&self, query: &Query, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let load = self.origin.slots().map_or(0.0, |slots| ratio(self.origin.in_flight(), slots));
        // The threshold does not depend on the time of a run. That costs a look at the statement.
        let pays = |each: &Candidate| Prices::of(f64::NAN, load).pays(each.p);
        let mut ranked: Vec<Ranked> =
            candidates.into_iter().filter(pays).map(|each| self.ranked(query, each, load)).collect();
        ranked.sort_by(|one, other| other.expected_ms.total_cmp(&one.expected_ms));
        ranked.truncate(CANDIDATES_MAX);
        let mut seen: Vec<(Arc<str>, Bytes)> = Vec::new();
        let queries_max = usize::try_from(self.policy.queries_max).unwrap_or(usize::MAX);
        // How many candidates each source may still launch.
        let mut left: BTreeMap<SourceId, usize> = BTreeMap::new();
        let mut chosen = Vec::new();
        let mut was_refused = false;
        for Ranked { candidate, pays, .. } in ranked {
            let query = (Arc::clone(&candidate.statement), candidate.params.clone());
            if chosen.len() >= queries_max || seen.contains(&query) {
                continue;
            }
            let feedback = &self.learning.feedback;
            let left =
                left.entry(candidate.source).or_insert_with(|| feedback.launches_max(candidate.source));
            let pays = pays && *left > 0;
            // Only experience speaks against it: the first such candidate of a request may be a trial.
            let is_trial = !pays && !std::mem::replace(&mut was_refused, true) && feedback.is_tried();
            if pays || is_trial {
                *left = left.saturating_sub(1);
                seen.push(query);
                chosen.push(candidate);
            }
        }
        chosen
    }

    fn ranked(&self, query: &Query, candidate: Candidate, load: f64) -> Ranked {
        let pattern = self.learning.lessons.statements.read(&candidate.statement).id;
        // It runs as the same principal, in the same database.
        let run_ms = self.cache.pace().mean_ms(&query.cost_key().of_pattern(pattern)).unwrap_or(f64::NAN);
        let prices = Prices::of(run_ms, load);
        let p = self.calibrated(candidate.kind, candidate.p);
        Ranked { pays: prices.pays(p), expected_ms: prices.expected_ms(p), candidate }
    }
}

/// The templates of the pattern, bound to the query's parameters and fields.
fn templates(asked: &Asked<'_>, forms: &[(Arc<ReadForm>, Likely)], all: &mut Vec<Candidate>) {
    let fields = asked.fields.as_deref();
    let p_of = |form: &Form| forms.iter().find(|(other, _)| other.form == *form).map(|(_, likely)| likely.p);
    for (read, likely) in forms {
        let form = &read.form;
        if matches!(form, Form::Exact { .. }) {
            continue;
        }
        let rows = fields.map_or(1, Fields::rows).min(u64::from(FIELDS_ROWS_MAX));
        let p_first = form.of_first_row().and_then(|first| p_of(&first)).unwrap_or(0.0);
        for bound in form.bind(&asked.query.params, fields) {
            let p = if form.is_each() { p_of_row(likely.p, p_first, (bound.row, rows)) } else { likely.p };
            all.push(Candidate {
                statement: Arc::clone(&read.statement),
                params: bound.params.into(),
                source: SourceId::Pattern(asked.names.pattern),
                form: likely.form,
                kind: CandidateKind::Template,
                p,
            });
        }
    }
}

/// The probability of one row of a template that stands for any of the first rows. The first row has a form of its own;
/// the others share the rest of the template's probability.
fn p_of_row(p_each: f64, p_first: f64, (row, rows): (u8, u64)) -> f64 {
    if rows <= 1 {
        return p_each;
    }
    if row == 0 {
        return p_first;
    }
    #[expect(clippy::cast_precision_loss, reason = "no more than eight rows")]
    let others = (rows - 1) as f64;
    (p_each - p_first).max(0.0) / others
}

fn ratio(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "slots are few")]
    let ratio = part as f64 / whole.max(1) as f64;
    ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    /// THEORY "Learning and prefetch": the rows' probabilities add up to the probability of any of them.
    #[test]
    fn the_rows_share_what_the_first_one_leaves() {
        let p = |row| p_of_row(0.8, 0.5, (row, 4));
        assert_eq!(p(0), 0.5);
        assert!((p(1) - 0.1).abs() < 1e-12);
        assert!(((0..4).map(p).sum::<f64>() - 0.8).abs() < 1e-12);
        assert_eq!(p_of_row(0.8, 0.5, (0, 1)), 0.8, "with one row the first is all");
        assert_eq!(p_of_row(0.4, 0.5, (1, 2)), 0.0, "counts that decay apart");
    }
}
