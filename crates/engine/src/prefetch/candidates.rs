//! Which queries may follow a query, and how probable each is: by exact successors, templates and overlaps. It orders nothing: what
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
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::gain::{CandidateKind, Prices};
use hopcache_learning::{FormId, Prediction, QueryTag, SourceId};

use crate::prefetch::Prefetch;
use crate::prefetch::anchors::anchor_of;
use crate::prefetch::answered::Moment;
use crate::prefetch::candidate::{Antecedent, Candidate};

/// The candidates of one answered query.
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    /// Whether another query may follow, by what is known now.
    pub(super) may_follow: bool,
    /// Whether a likely template was left out, because this node does not know the fields of the answer.
    pub(super) lacks_fields: bool,
}

/// A prediction with its form, decoded.
type KnownForm<'a> = (Arc<(RealmTag, Form)>, &'a Prediction);

impl Prefetch {
    /// What may follow this query.
    pub(super) fn candidates_of(&self, before: &Antecedent) -> Candidates {
        let policy = self.policy.now();
        let kinds = policy.prefetch.kinds;
        let mut all = Vec::new();
        let mut lacks_fields = false;
        let threshold = Prices::of(f64::NAN, 0.0).threshold();
        let pattern = SourceId::Pattern(before.statement.pattern);
        let query = SourceId::Query(QueryTag::of(&self.hasher, &before.query.key));
        let now = self.context.now();
        let (of_pattern, of_query) = {
            let model = self.learning.model.lock();
            (model.outlook(pattern, now), model.outlook(query, now).filter(|_| kinds.exact))
        };
        let sightings = of_pattern.as_ref().map_or(0.0, |outlook| outlook.seen);
        // What no client has asked leads to neighbours alone.
        let is_ahead = matches!(before.moment, Moment::Ahead(_));
        let of_pattern = of_pattern.filter(|_| kinds.template && !is_ahead);
        let of_query = of_query.filter(|_| !is_ahead);
        let fields = LazyCell::new(|| self.fields_before(before));
        let may_be_soon = |each: &Prediction| each.p > threshold / 2.0;
        let mut may_follow =
            of_pattern.as_ref().is_some_and(|outlook| outlook.successors.iter().any(may_be_soon))
                || of_query.as_ref().is_some_and(|outlook| !outlook.successors.is_empty());
        let forms =
            of_pattern.as_ref().map(|outlook| self.forms_of(before.statement.realm, &outlook.successors));
        let forms = forms.unwrap_or_default();
        if !forms.is_empty() {
            // A template that no exact count supports, and that cannot pay even at an idle origin, is not bound.
            let p_min = match &of_query {
                Some(exact) if !exact.successors.is_empty() => 0.0,
                Some(exact) => prior_above(threshold, exact.seen),
                None => threshold,
            };
            lacks_fields = templates(before, (&forms, p_min), &fields, &mut all);
        }
        if let Some(outlook) = of_query {
            let forms = self.forms_of(before.statement.realm, &outlook.successors);
            exact((query, outlook.seen), forms, &mut all);
        }
        self.steps_ahead(before, threshold, &mut all);
        if policy.prefetch.neighbour_steps_max > 0 && kinds.template {
            let taught = forms.iter().map(|(known, _)| known.1.statement()).collect();
            let neighbours = self.neighbours(before, (sightings, &taught, threshold), &fields, &mut all);
            may_follow |= neighbours.may_follow;
            lacks_fields |= neighbours.lacks_fields;
        }
        if is_ahead {
            return Candidates { all, may_follow, lacks_fields };
        }
        if kinds.overlap {
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
        let outlook = self.learning.model.lock().outlook(SourceId::Pattern(read.pattern), self.context.now());
        let Some(outlook) = outlook else { return Vec::new() };
        let mut steps = Vec::new();
        for (known, prediction) in self.forms_of(before.statement.realm, &outlook.successors) {
            let (form, p) = (&known.1, step.p * prediction.p);
            if p <= threshold || matches!(form, Form::Exact { .. }) || form.needs_fields() {
                continue;
            }
            let statement: Arc<str> = Arc::from(form.statement());
            steps.extend(form.bind(&step.params, None).into_iter().map(|bound| Candidate {
                statement: Arc::clone(&statement),
                params: bound.params.into(),
                source: SourceId::Pattern(before.statement.pattern),
                form: prediction.form,
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

    /// The known forms of predictions that belong to this database and principal and that Neo4j has not refused.
    fn forms_of<'a>(&self, realm: RealmTag, predictions: &'a [Prediction]) -> Vec<KnownForm<'a>> {
        let defined: Vec<(Bytes, &Prediction)> = {
            let model = self.learning.model.lock();
            predictions.iter().filter_map(|each| Some((model.form(each.form)?, each))).collect()
        };
        let known = defined.into_iter().filter_map(|(definition, prediction)| {
            let form = self.learning.statements.form(prediction.form, &definition)?;
            let is_usable = form.0 == realm && !self.learning.feedback.is_not_ordered(prediction.form);
            is_usable.then_some((form, prediction))
        });
        known.collect()
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
    (forms, p_min): (&[KnownForm<'_>], f64),
    fields: &LazyFields<F>,
    all: &mut Vec<Candidate>,
) -> bool {
    let p_of = |form: &Form| forms.iter().find(|(other, _)| other.1 == *form).map(|(_, each)| each.p);
    let is_likely = |each: &Prediction| each.p > p_min;
    let needs_fields = forms.iter().any(|(form, each)| is_likely(each) && form.1.needs_fields());
    let fields = if needs_fields { fields.as_deref() } else { None };
    for (known, prediction) in forms {
        let form = &known.1;
        if matches!(form, Form::Exact { .. }) || !is_likely(prediction) {
            continue;
        }
        let rows = fields.map_or(1, Fields::rows).min(u64::from(FIELDS_ROWS_MAX));
        let p_first = form.of_first_row().and_then(|first| p_of(&first)).unwrap_or(0.0);
        let statement: Arc<str> = Arc::from(form.statement());
        for bound in form.bind(&before.query.params, fields) {
            let p = if form.is_each() {
                p_of_row(prediction.p, p_first, (bound.row, rows))
            } else {
                prediction.p
            };
            all.push(Candidate {
                statement: Arc::clone(&statement),
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
fn exact((source, sightings): (SourceId, f64), forms: Vec<KnownForm<'_>>, all: &mut Vec<Candidate>) {
    let mut seen_after: BTreeMap<(Arc<str>, Bytes), (FormId, f64)> = BTreeMap::new();
    for (form, prediction) in forms {
        if let Form::Exact { statement, params } = &form.1 {
            let next = (Arc::from(&**statement), Bytes::copy_from_slice(params));
            seen_after.insert(next, (prediction.form, prediction.tally.seen));
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
