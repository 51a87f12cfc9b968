//! Which queries may follow a query, and how probable each is: by exact successors, templates, neighbours and overlaps. It orders nothing: what
//! pays is chosen in `consider`.
//!
//! A template whose parameters come from parameters alone gives the whole next query, so what follows that one can be said at once,
//! and so on for [`STEPS_AHEAD_MAX`] steps: a page's first statement names all those that a page asks for the same thing.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::limits::{CANDIDATES_MAX, FIELDS_ROWS_MAX, OVERLAP_PRIOR, STEPS_AHEAD_MAX};
use hopcache_learning::evidence::{posterior, prior_above};
use hopcache_learning::fields::Fields;
use hopcache_learning::form::Form;
use hopcache_learning::gain::{CandidateKind, Prices};
use hopcache_learning::{FormId, QueryTag, SourceId};

use crate::prefetch::Prefetch;
use crate::prefetch::anchors::anchor_of;
use crate::prefetch::answered::Moment;
use crate::prefetch::candidate::{Antecedent, Candidate};
use crate::prefetch::prospects::Successor;

/// The candidates of one answered query.
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    /// Whether another query may follow, by what is known now.
    pub(super) may_follow: bool,
    /// Whether a likely template was left out, because this node does not know the fields of the answer.
    pub(super) lacks_fields: bool,
}

impl Prefetch {
    /// What may follow this query.
    pub(super) fn candidates_of(&self, before: &Antecedent) -> Candidates {
        let policy = self.policy.now();
        let kinds = policy.prefetch.kinds;
        let mut all = Vec::new();
        let mut lacks_fields = false;
        let threshold = Prices::of(f64::NAN, 0.0).threshold();
        let query = SourceId::Query(QueryTag::of(&self.hasher, &before.query.key));
        // What no client has asked leads to neighbours alone.
        let is_ahead = matches!(before.moment, Moment::Ahead { .. });
        let of_pattern = self.prospect(before.statement.pattern, before.statement.realm);
        let sightings = of_pattern.as_ref().map_or(0.0, |prospect| prospect.seen);
        let of_pattern = of_pattern.filter(|_| kinds.template);
        let of_query = (kinds.exact && !is_ahead)
            .then(|| self.learning.model.lock().outlook(query, self.context.now()))
            .flatten();
        let fields = LazyCell::new(|| self.fields_before(before));
        let mut may_follow = of_pattern.as_ref().is_some_and(|prospect| prospect.may_follow)
            || of_query.as_ref().is_some_and(|outlook| !outlook.successors.is_empty());
        let taught: Vec<&Successor> =
            of_pattern.iter().flat_map(|prospect| self.usable(&prospect.successors)).collect();
        if !taught.is_empty() && !is_ahead {
            // A template that no exact count supports, and that cannot pay even at an idle origin, is not bound.
            let p_min = match &of_query {
                Some(exact) if !exact.successors.is_empty() => 0.0,
                Some(exact) => prior_above(threshold, exact.seen),
                None => threshold,
            };
            lacks_fields = templates(before, (&taught, p_min), &fields, &mut all);
        }
        if let Some(outlook) = of_query {
            let successors = self.successors(before.statement.realm, outlook.successors);
            exact((query, outlook.seen), self.usable(&successors), &mut all);
        }
        self.steps_ahead(before, threshold, &mut all);
        if policy.prefetch.neighbour_steps_max > 0 && kinds.template {
            let taught = taught.iter().map(|each| &*each.statement).collect();
            let neighbours = self.neighbours(before, (sightings, &taught, threshold), &fields, &mut all);
            may_follow |= neighbours.may_follow;
            lacks_fields |= neighbours.lacks_fields;
        }
        if kinds.overlap && !is_ahead {
            may_follow |= self.overlaps(before, &mut all);
        }
        Candidates { all, may_follow, lacks_fields }
    }

    /// What follows the templates in `all`, and so on, as far as parameters alone say it. Each query comes once.
    fn steps_ahead(&self, before: &Antecedent, threshold: f64, all: &mut Vec<Candidate>) {
        let asked = (before.statement.read.normal.as_str(), &before.query.params);
        let mut from = 0;
        for _ in 1..STEPS_AHEAD_MAX {
            let steps = from..all.len();
            from = all.len();
            for place in steps {
                for next in self.next_steps(before, &all[place], threshold) {
                    let is_same = |(statement, params): (&str, &Bytes)| {
                        *statement == *next.statement && *params == next.params
                    };
                    let is_known =
                        is_same(asked) || all.iter().any(|other| is_same((&other.statement, &other.params)));
                    if !is_known && all.len() < CANDIDATES_MAX {
                        all.push(next);
                    }
                }
            }
        }
    }

    /// What follows a template after this query, as far as its parameters alone say it. The probability is that of all steps. A launch counts
    /// for the query that was asked: the step between may never come.
    fn next_steps(&self, before: &Antecedent, step: &Candidate, threshold: f64) -> Vec<Candidate> {
        if step.kind != CandidateKind::Template || step.p <= threshold {
            return Vec::new();
        }
        let policy = self.policy.now();
        let whose = (&before.query.database, before.query.identity.scope);
        let read = self.learning.statements.read(whose, &step.statement, (&self.hasher, &policy.allowed));
        let Some(prospect) = self.prospect(read.pattern, before.statement.realm) else { return Vec::new() };
        let mut steps = Vec::new();
        for successor in self.usable(&prospect.successors) {
            let (form, p) = (successor.form(), step.p * successor.prediction.p);
            if p <= threshold || matches!(form, Form::Exact { .. }) || form.needs_fields() {
                continue;
            }
            steps.extend(form.bind(&step.params, None).into_iter().map(|bound| Candidate {
                statement: Arc::clone(&successor.statement),
                params: bound.params.into(),
                source: SourceId::Pattern(before.statement.pattern),
                form: successor.prediction.form,
                kind: CandidateKind::Template,
                p,
            }));
        }
        steps
    }

    /// Entries of this node that start from the same graph node and are about to expire. Returns whether any other query starts there.
    fn overlaps(&self, before: &Antecedent, all: &mut Vec<Candidate>) -> bool {
        let Some(tag) = anchor_of(&self.hasher, &before.query) else { return false };
        let others = self.learning.considering.anchors.lock().others(tag, &before.query);
        let has_others = !others.is_empty();
        let source = SourceId::Pattern(before.statement.pattern);
        for other in others.into_iter().filter(|other| self.is_about_to_expire(&other.key)) {
            all.push(Candidate {
                statement: other.statement,
                params: other.params,
                source,
                form: FormId::ANY,
                kind: CandidateKind::Overlap,
                p: OVERLAP_PRIOR,
            });
        }
        has_others
    }

    /// Those that Neo4j has not refused.
    fn usable<'a>(&self, successors: &'a [Successor]) -> impl Iterator<Item = &'a Successor> {
        successors.iter().filter(|each| !self.learning.feedback.is_not_ordered(each.prediction.form))
    }

    /// The fields of the answer, if this node knows them. A run brings new ones: those of the copy that it replaces are not the ones that
    /// the client will see.
    fn fields_before(&self, before: &Antecedent) -> Option<Arc<Fields>> {
        let fields = self.fields_known(&before.query.key).filter(|_| before.moment != Moment::Runs)?;
        // Not those of the query: a query whose reading another node has told does not name them.
        let columns = before.statement.read.shared.as_ref().map(|shared| shared.columns().as_ref());
        Some(match fields.named(columns) {
            Cow::Borrowed(_) => fields,
            Cow::Owned(named) => Arc::new(named),
        })
    }
}

/// The fields of the answer, read when they are first needed: that takes some microseconds, and most templates need none.
pub(super) type LazyFields<F> = LazyCell<Option<Arc<Fields>>, F>;

/// Returns whether a likely template needs fields that this node does not know.
fn templates<F: FnOnce() -> Option<Arc<Fields>>>(
    before: &Antecedent,
    (taught, p_min): (&[&Successor], f64),
    fields: &LazyFields<F>,
    all: &mut Vec<Candidate>,
) -> bool {
    let p_of = |form: &Form| taught.iter().find(|other| other.form() == form).map(|each| each.prediction.p);
    let likely = || taught.iter().filter(|each| each.prediction.p > p_min);
    let needs_fields = likely().any(|each| each.form().needs_fields());
    let fields = if needs_fields { fields.as_deref() } else { None };
    for successor in likely() {
        let (form, prediction) = (successor.form(), &successor.prediction);
        if matches!(form, Form::Exact { .. }) {
            continue;
        }
        let rows = fields.map_or(1, Fields::rows).min(u64::from(FIELDS_ROWS_MAX));
        let p_first = form.of_first_row().and_then(|first| p_of(&first)).unwrap_or(0.0);
        for bound in form.bind(&before.query.params, fields) {
            let p = if form.is_each() {
                p_of_row(prediction.p, p_first, (bound.row, rows))
            } else {
                prediction.p
            };
            all.push(Candidate {
                statement: Arc::clone(&successor.statement),
                params: bound.params.into(),
                source: SourceId::Pattern(before.statement.pattern),
                form: prediction.form,
                kind: CandidateKind::Template,
                p,
            });
        }
    }
    needs_fields && fields.is_none()
}

/// The queries that followed this very query, of `source`, which was seen so often. They are judged together with the
/// templates of its pattern, which are in `all` already: each is evidence for the other (`hopcache_learning::evidence`).
fn exact<'a>(
    (source, sightings): (SourceId, f64),
    successors: impl Iterator<Item = &'a Successor>,
    all: &mut Vec<Candidate>,
) {
    let mut seen_after: BTreeMap<(Arc<str>, Bytes), (FormId, f64)> = BTreeMap::new();
    for successor in successors {
        if let Form::Exact { params, .. } = successor.form() {
            let next = (Arc::clone(&successor.statement), Bytes::copy_from_slice(params));
            seen_after.insert(next, (successor.prediction.form, successor.prediction.tally.seen));
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
