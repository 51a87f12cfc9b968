//! Candidates: queries that may follow a request that was just answered. They come from exact successors, templates,
//! neighbours and overlaps. They are ranked together by the time that they are expected to save, and ordered from the
//! owners of their keys. The owner decides whether to carry out an order (`launch.rs`): it knows its copies, its
//! flights and its origin.
//!
//! Every candidate has the identity and database of the request that it follows (I5). All lessons are tagged by both,
//! each definition is checked once more, and the query is built from the request's own identity.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::cypher::pattern::PatternId;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    CANDIDATES_MAX, FIELDS_ROWS_MAX, LAUNCHES_TOLD_AT_A_TIME, NEIGHBOUR_PRIOR, NEIGHBOUR_PRIOR_WEIGHT,
    ORDERED_KEPT_MS, ORDERED_MAX, OVERLAP_PRIOR,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::evidence::posterior;
use hopcache_learning::expansion::neighbours;
use hopcache_learning::fields::Fields;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::gain::{CandidateKind, Prices};
use hopcache_learning::{FormId, Prediction, SourceId, SourceView};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::model::ask::{Query, QueryParts};
use crate::model::event::{Event, PrefetchWord};
use crate::model::order::{Order, Skip};
use crate::prefetch::Prefetch;
use crate::prefetch::fields::Wanted;
use crate::prefetch::lessons::Antecedent;

/// The keys that were ordered a moment ago, and the bound on orders under way.
pub(super) struct Considering {
    ordered: Mutex<LruCache<QueryKey, MonoTime>>,
    orders: Arc<Semaphore>,
}

impl Considering {
    pub(super) fn new() -> Self {
        let most = NonZeroUsize::new(ORDERED_MAX).unwrap_or(NonZeroUsize::MIN);
        Self {
            ordered: Mutex::new(LruCache::new(most)),
            orders: Arc::new(Semaphore::new(LAUNCHES_TOLD_AT_A_TIME)),
        }
    }

    /// Whether this node has not ordered the key in the last moment. Marks the key as ordered.
    fn is_first(&self, key: &QueryKey, now: MonoTime) -> bool {
        let mut ordered = self.ordered.lock();
        let is_recent = ordered.get(key).is_some_and(|at| now.since(*at) < Millis(ORDERED_KEPT_MS));
        if !is_recent {
            ordered.put(*key, now);
        }
        !is_recent
    }

    pub(super) fn len(&self) -> usize {
        self.ordered.lock().len()
    }
}

/// A query that may come next, not read yet.
#[derive(Debug)]
struct Candidate {
    statement: Arc<str>,
    params: Bytes,
    source: SourceId,
    form: FormId,
    kind: CandidateKind,
    p: f64,
}

/// A candidate, and its expected gain.
struct Ranked {
    candidate: Candidate,
    /// Whether it pays by experience as well as by its own probability.
    pays: bool,
    expected_ms: f64,
}

impl Prefetch {
    /// Considers the queries that may follow each of these, and orders those that pay.
    pub(super) async fn consider_all(self: &Arc<Self>, antecedents: Vec<Antecedent>) {
        if self.policy.queries_max == 0 {
            return;
        }
        let wanted = |before: &Antecedent| {
            (before.query.key, if before.is_miss { Wanted::Anew } else { Wanted::Known })
        };
        let fields = self.fields_of(antecedents.iter().map(wanted).collect()).await;
        for before in antecedents {
            let columns = before.query.columns().map(Arc::as_ref);
            let fields = fields.get(&before.query.key).map(|fields| fields.named(columns));
            let candidates = self.candidates_of(&before, fields.as_deref());
            for candidate in self.chosen(&before, candidates) {
                self.order_candidate(&before, candidate);
            }
        }
    }

    fn candidates_of(&self, before: &Antecedent, fields: Option<&Fields>) -> Vec<Candidate> {
        let kinds = self.policy.kinds;
        let mut all = Vec::new();
        let pattern = SourceId::Pattern(before.seen.pattern);
        let now = self.context.now();
        let view = self.learning.model.lock().view(pattern, now);
        let predictions: &[Prediction] = view.as_ref().map_or(&[], |view| &view.successors);
        let forms = self.forms_of(before.seen.realm, predictions);
        if kinds.template {
            self.templates(before, fields, &forms, &mut all);
        }
        if kinds.exact {
            self.exact(before, now, &mut all);
        }
        if let Some(fields) = fields.filter(|_| kinds.neighbour) {
            self.neighbours(before, fields, (view.as_ref(), &forms), &mut all);
        }
        if kinds.overlap {
            let others = self.learning.lessons.anchors.lock().others(&self.hasher, &before.query);
            all.extend(others.into_iter().map(|other| Candidate {
                statement: other.statement,
                params: other.params,
                source: pattern,
                form: FormId::ANY,
                kind: CandidateKind::Overlap,
                p: OVERLAP_PRIOR,
            }));
        }
        all
    }

    /// The queries that followed this very query. They are judged together with the templates of its pattern, which are
    /// in `all` already: each is evidence for the other (`hopcache_learning::evidence`).
    fn exact(&self, before: &Antecedent, now: MonoTime, all: &mut Vec<Candidate>) {
        let source = SourceId::Query(before.seen.tag);
        let Some(view) = self.learning.model.lock().view(source, now) else { return };
        let sightings = view.tally.seen;
        let mut seen_after: BTreeMap<(Arc<str>, Bytes), (FormId, f64)> = BTreeMap::new();
        for (form, prediction) in self.forms_of(before.seen.realm, &view.successors) {
            if let Form::Exact { statement, params } = form {
                let next = (Arc::from(&*statement), Bytes::from(params));
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

    /// The known forms of predictions that belong to this database and principal and that Neo4j has not refused.
    fn forms_of<'a>(&self, realm: RealmTag, predictions: &'a [Prediction]) -> Vec<(Form, &'a Prediction)> {
        let model = self.learning.model.lock();
        let known =
            predictions.iter().filter_map(|prediction| Some((model.form(prediction.form)?, prediction)));
        let known: Vec<(Bytes, &Prediction)> = known.collect();
        drop(model);
        let read = known.into_iter().filter_map(|(definition, prediction)| {
            let (whose, form) = Form::of_definition(&definition)?;
            (whose == realm && !self.learning.feedback.is_not_ordered(prediction.form))
                .then_some((form, prediction))
        });
        read.collect()
    }

    fn templates(
        &self,
        before: &Antecedent,
        fields: Option<&Fields>,
        forms: &[(Form, &Prediction)],
        all: &mut Vec<Candidate>,
    ) {
        let p_of = |form: &Form| forms.iter().find(|(other, _)| other == form).map(|(_, each)| each.p);
        for (form, prediction) in forms {
            if matches!(form, Form::Exact { .. }) {
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
                    source: SourceId::Pattern(before.seen.pattern),
                    form: prediction.form,
                    kind: CandidateKind::Template,
                    p,
                });
            }
        }
    }

    /// The same statement for the first nodes of the result. The more often the pattern is seen without following
    /// itself, the less likely a neighbour is.
    fn neighbours(
        &self,
        before: &Antecedent,
        fields: &Fields,
        (view, forms): (Option<&SourceView>, &[(Form, &Prediction)]),
        all: &mut Vec<Candidate>,
    ) {
        let query = &before.query;
        let normal = query.normal.as_str();
        let of_itself = forms.iter().filter(|(form, _)| form.statement() == normal);
        let followed: f64 = of_itself.map(|(_, prediction)| prediction.tally.seen).fold(0.0, f64::max);
        let seen = view.map_or(0.0, |view| view.tally.seen);
        let p = (NEIGHBOUR_PRIOR * NEIGHBOUR_PRIOR_WEIGHT + followed) / (NEIGHBOUR_PRIOR_WEIGHT + seen);
        let depth = usize::try_from(self.policy.depth).unwrap_or(usize::MAX);
        for neighbour in neighbours(&query.statement, &query.params, fields, depth) {
            all.push(Candidate {
                statement: Arc::clone(&query.statement),
                params: neighbour.params.into(),
                source: SourceId::Pattern(before.seen.pattern),
                form: FormId::ANY,
                kind: CandidateKind::Expansion,
                p: p.min(1.0),
            });
        }
    }

    /// The candidates that pay, the most promising first. A source's precision bounds its own candidates, the operator
    /// bounds all of them. Of the candidates that only experience speaks against, one is tried now and then.
    fn chosen(&self, before: &Antecedent, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let load = self.origin.slots().map_or(0.0, |slots| ratio(self.origin.in_flight(), slots));
        // The threshold does not depend on the time of a run. That costs a look at the statement.
        let pays = |each: &Candidate| Prices::of(f64::NAN, load).pays(each.p);
        let mut ranked: Vec<Ranked> =
            candidates.into_iter().filter(pays).map(|each| self.ranked(before, each, load)).collect();
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

    fn ranked(&self, before: &Antecedent, candidate: Candidate, load: f64) -> Ranked {
        let pattern = PatternId::of(&candidate.statement);
        // It runs as the same principal, in the same database.
        let run_ms =
            self.cache.pace().mean_ms(&before.query.cost_key().of_pattern(pattern)).unwrap_or(f64::NAN);
        let prices = Prices::of(run_ms, load);
        let p = self.calibrated(candidate.kind, candidate.p);
        Ranked { pays: prices.pays(p), expected_ms: prices.expected_ms(p), candidate }
    }

    /// Orders a candidate from the owner of its key, in a task of its own.
    fn order_candidate(self: &Arc<Self>, before: &Antecedent, candidate: Candidate) {
        let asked = &before.query;
        let parts = QueryParts {
            database: Arc::clone(&asked.database),
            statement: candidate.statement,
            params: candidate.params,
            impersonated: asked.impersonated.clone(),
            identity: Arc::clone(&asked.identity),
        };
        let query = Query::read(parts, &self.hasher, &self.procedures);
        if query.key == asked.key || self.learning.has_ended() {
            return;
        }
        // Taken before the key is marked as ordered: a candidate that is left out now may be ordered with the next
        // request.
        let Ok(permit) = Arc::clone(&self.learning.considering.orders).try_acquire_owned() else {
            self.context.note(Event::Prefetch(PrefetchWord::Skipped(Skip::Unreached)));
            return;
        };
        if !self.learning.considering.is_first(&query.key, self.context.now()) {
            return;
        }
        let order = Order {
            query: Arc::new(query),
            rendering: before.rendering,
            source: candidate.source,
            form: candidate.form,
            kind: candidate.kind,
            p: candidate.p,
            by: self.context.node().clone(),
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            let _permit = permit;
            prefetch.order(order).await;
        });
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
