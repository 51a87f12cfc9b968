//! Candidates: queries that may follow a query that was just answered. They come from exact successors, templates and
//! overlaps. They are ranked together by the time that they are expected to save, and ordered from the owners of their
//! keys (`orders.rs`). The owner decides whether to carry out an order (`launch.rs`): it knows its copies, its flights
//! and its origin.
//!
//! The owner of the answered query's key considers. The request came here anyway, on its one hop, and here is the result whose
//! fields templates need. So considering takes no message. A popular key is considered once a second; at a busy node less often,
//! and so is a text whose answers led to nothing (`hopcache_learning::in_vain`). The path only pushes into a bounded queue.
//!
//! A hit of a near copy makes no hop, so its node considers. A near copy is a rendering, which this room cannot read. If
//! a likely template needs fields, this node asks the owner of the key for them, and remembers them (`fields.rs`).
//!
//! Every candidate has the identity and database of the request that it follows (I5). All lessons are tagged by both,
//! each definition is checked once more, and the query is built from the request's own identity.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    ANSWERED_BYTES_MAX, CANDIDATES_MAX, CONSIDER_EVERY_MS, CONSIDER_EVERY_MS_BUSY, CONSIDER_SAMPLED_MS,
    CONSIDERED_AT_A_TIME, CONSIDERED_IN_ROUND_MAX, CONSIDERED_KEPT_MS, CONSIDERED_MAX, FIELDS_ROWS_MAX,
    NEAR_FIELDS_ASKED_AT_A_TIME, OVERLAP_PRIOR,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_cypher::forms::pattern::pattern_id;
use hopcache_learning::evidence::{posterior, prior_above};
use hopcache_learning::fields::Fields;
use hopcache_learning::form::{Form, RealmTag};
use hopcache_learning::gain::{CandidateKind, Prices};
use hopcache_learning::{FormId, Prediction, QueryTag, SourceId};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::yield_now;

use crate::model::ask::Ask;
use crate::model::event::ObservationWord;
use crate::peers::message::ForwardedAsk;
use crate::prefetch::Prefetch;
use crate::prefetch::anchors::{Anchors, anchor_of};
use crate::prefetch::answered::{AnsweredQueries, AnsweredQuery, PushOutcome, round_of};
use crate::prefetch::candidate::{Antecedent, Candidate};
use crate::prefetch::orders::RoundOfOrders;
use crate::prefetch::recent_keys::RecentKeys;

/// Answered queries that wait, and those that were considered a moment ago.
pub(super) struct ConsiderQueue {
    answered: AnsweredQueries,
    considered: RecentKeys,
    anchors: Mutex<Anchors>,
    /// Bounds the questions for fields of near copies.
    asking: Arc<Semaphore>,
}

impl ConsiderQueue {
    pub(super) fn new() -> Self {
        Self {
            answered: AnsweredQueries::new(),
            considered: RecentKeys::new(CONSIDERED_MAX, Millis(CONSIDERED_KEPT_MS)),
            anchors: Mutex::new(Anchors::new()),
            asking: Arc::new(Semaphore::new(NEAR_FIELDS_ASKED_AT_A_TIME)),
        }
    }

    /// Answered queries that wait.
    pub(super) fn waiting(&self) -> usize {
        self.answered.waiting()
    }

    /// Remembered keys and anchors.
    pub(super) fn len(&self) -> usize {
        self.considered.len() + self.anchors.lock().len()
    }
}

/// The candidates of one answered query.
struct Candidates {
    all: Vec<Candidate>,
    /// Whether another query may follow, by what is known now.
    may_follow: bool,
    /// Whether a likely template was left out, because this node does not know the fields of the answer.
    lacks_fields: bool,
}

/// A candidate, and its expected gain.
struct RankedCandidate {
    candidate: Candidate,
    /// Whether it pays by experience as well as by its own probability.
    pays: bool,
    expected_ms: f64,
}

/// A prediction with its form, decoded.
type KnownForm<'a> = (Arc<(RealmTag, Form)>, &'a Prediction);

impl Prefetch {
    fn is_considering(&self) -> bool {
        let policy = self.policy.now();
        policy.prefetch.is_on && policy.prefetch.queries_max > 0
    }

    /// A request of this node's client was answered by this node.
    pub(super) fn answered_here(&self, ask: &Ask) {
        if self.is_considering() {
            self.answered_ask(ask);
        }
    }

    /// A forwarded request was answered by this node. `ask`: as this node has read it; a hit is answered unread.
    pub(crate) fn answered_forwarded(&self, forwarded: &ForwardedAsk, ask: Option<&Ask>) {
        if !self.is_considering() || forwarded.rest_bytes() > ANSWERED_BYTES_MAX {
            return;
        }
        let answered = || AnsweredQuery::Forwarded(forwarded.clone());
        match ask {
            Some(ask) => self.answered_ask(ask),
            None => self.answered(forwarded.key(), self.context.now(), answered),
        }
    }

    fn answered_ask(&self, ask: &Ask) {
        let now = self.context.now();
        if ask.query.facts().in_vain().is_due(now) {
            let answered = || AnsweredQuery::Here(Arc::clone(&ask.query), ask.rendering);
            self.answered(&ask.query.key, now, answered);
        }
    }

    fn answered(&self, key: &QueryKey, now: MonoTime, answered: impl FnOnce() -> AnsweredQuery) {
        let considering = &self.learning.considering;
        let is_first = considering.considered.is_first(key, now);
        if is_first && considering.answered.push(answered) == PushOutcome::NoRoom {
            self.note_observed(ObservationWord::Unconsidered, 1);
        }
    }

    /// Considers answered queries, for ever: all of them, or samples at a busy node. While the origin has nothing left over
    /// it considers none.
    pub(super) async fn consider_for_ever(self: &Arc<Self>) -> Infallible {
        let answered = &self.learning.considering.answered;
        let Some(mut drained) = answered.drained() else { return pending().await };
        let mut is_busy = false;
        loop {
            let round = if is_busy { self.sampled(&mut drained).await } else { self.all(&mut drained).await };
            let Some(round) = round else { return pending().await };
            let turned_away = answered.take_turned_away();
            self.note_observed(ObservationWord::Unconsidered, turned_away);
            let came = round.len() + turned_away;
            let has_room = self.has_room_for_launches();
            is_busy = came > 0 && (!has_room || is_much(came, is_busy));
            if self.learning.has_ended() {
                continue;
            }
            // Whatever would be ordered now would be refused, at this node and at the others, which share the origin.
            if has_room {
                self.consider_round(round).await;
            } else {
                self.note_observed(ObservationWord::Unconsidered, round.len());
            }
        }
    }

    /// The queries of a round at a quiet node. It begins with the first query, so that an idle node does nothing.
    async fn all(&self, drained: &mut mpsc::Receiver<AnsweredQuery>) -> Option<Vec<AnsweredQuery>> {
        self.learning.considering.answered.let_in_all();
        let first = drained.recv().await?;
        self.context.sleep(Millis(CONSIDER_EVERY_MS)).await;
        Some(round_of(Some(first), drained))
    }

    /// The queries of a round at a busy node: the first ones of its last part, as many as are considered. The others are turned
    /// away, since one that waits costs time even if it is not considered: its memory is freed late, and by another thread.
    async fn sampled(&self, drained: &mut mpsc::Receiver<AnsweredQuery>) -> Option<Vec<AnsweredQuery>> {
        let answered = &self.learning.considering.answered;
        answered.let_in(0);
        self.context.sleep(Millis(CONSIDER_EVERY_MS_BUSY - CONSIDER_SAMPLED_MS)).await;
        if self.has_room_for_launches() {
            answered.let_in(CONSIDERED_IN_ROUND_MAX);
        }
        self.context.sleep(Millis(CONSIDER_SAMPLED_MS)).await;
        answered.let_in(0);
        Some(round_of(None, drained))
    }

    /// Considers the last ones of a round, which bounds the CPU time of considering: their sessions have not gone on yet. A busy
    /// node lets no more in.
    async fn consider_round(self: &Arc<Self>, mut round: Vec<AnsweredQuery>) {
        let left_out = round.len().saturating_sub(CONSIDERED_IN_ROUND_MAX);
        self.note_observed(ObservationWord::Unconsidered, left_out);
        round.drain(..left_out);
        let mut orders = RoundOfOrders::default();
        let mut without_fields = Vec::new();
        for (place, answered) in round.into_iter().enumerate() {
            if place % CONSIDERED_AT_A_TIME == CONSIDERED_AT_A_TIME - 1 {
                yield_now().await;
            }
            let Some(before) = self.antecedent(answered) else { continue };
            let candidates = self.candidates_of(&before);
            before.query.facts().in_vain().note(candidates.may_follow);
            match candidates {
                Candidates { lacks_fields: true, .. } if self.is_anothers(&before.query.key) => {
                    without_fields.push(before);
                }
                Candidates { all, .. } => self.add_orders(&mut orders, &before, all),
            }
        }
        self.send_orders(orders);
        self.consider_near(without_fields);
    }

    fn add_orders(&self, orders: &mut RoundOfOrders, before: &Antecedent, candidates: Vec<Candidate>) {
        for candidate in self.chosen(before, candidates) {
            self.add_order(orders, before, candidate);
        }
    }

    fn is_anothers(&self, key: &QueryKey) -> bool {
        self.routing.view().owner(key).is_some_and(|owner| owner != self.context.node())
    }

    /// Considers what follows hits of near copies, with the fields that the owners of their keys give. In a task of its
    /// own: a silent owner delays nothing else.
    fn consider_near(self: &Arc<Self>, without_fields: Vec<Antecedent>) {
        if without_fields.is_empty() {
            return;
        }
        let permit = Arc::clone(&self.learning.considering.asking).try_acquire_owned();
        let Some(permit) = permit.ok().filter(|_| !self.learning.has_ended()) else {
            return self.note_observed(ObservationWord::Unconsidered, without_fields.len());
        };
        let prefetch = Arc::clone(self);
        self.context.spawn(async move {
            // From here on they are remembered.
            prefetch.fields_of(without_fields.iter().map(|before| before.query.key).collect()).await;
            let mut orders = RoundOfOrders::default();
            for before in &without_fields {
                let candidates = prefetch.candidates_of(before).all;
                prefetch.add_orders(&mut orders, before, candidates);
            }
            prefetch.send_orders(orders);
            drop(permit);
        });
    }

    fn antecedent(&self, answered: AnsweredQuery) -> Option<Antecedent> {
        let policy = self.policy.now();
        let (query, rendering) = match answered {
            AnsweredQuery::Here(query, rendering) => (query, rendering),
            AnsweredQuery::Forwarded(forwarded) => {
                // The path has answered it without reading it, if it was a hit.
                let ask = forwarded.read(&self.hasher, &policy.allowed, self.context.now()).ok()?;
                (ask.query, ask.rendering)
            }
        };
        let whose = (&query.database, query.identity.scope);
        let lexicon = (&self.hasher, &policy.allowed);
        let statement = self.learning.statements.read(whose, &query.statement, lexicon);
        Some(Antecedent { query, rendering, statement })
    }

    fn candidates_of(&self, before: &Antecedent) -> Candidates {
        let kinds = self.policy.now().prefetch.kinds;
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
        let of_pattern = of_pattern.filter(|_| kinds.template);
        let may_be_soon = |each: &Prediction| each.p > threshold / 2.0;
        let mut may_follow =
            of_pattern.as_ref().is_some_and(|outlook| outlook.successors.iter().any(may_be_soon))
                || of_query.as_ref().is_some_and(|outlook| !outlook.successors.is_empty());
        if let Some(outlook) = of_pattern {
            let forms = self.forms_of(before.statement.realm, &outlook.successors);
            // A template that no exact count supports, and that cannot pay even at an idle origin, is not bound.
            let p_min = match &of_query {
                Some(exact) if !exact.successors.is_empty() => 0.0,
                Some(exact) => prior_above(threshold, exact.seen),
                None => threshold,
            };
            lacks_fields = self.templates(before, (&forms, p_min), &mut all);
        }
        if let Some(outlook) = of_query {
            let forms = self.forms_of(before.statement.realm, &outlook.successors);
            exact((query, outlook.seen), forms, &mut all);
        }
        if kinds.overlap {
            may_follow |= self.overlaps(before, &mut all);
        }
        Candidates { all, may_follow, lacks_fields }
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

    /// Returns whether a likely template needs fields that this node does not know.
    fn templates(
        &self,
        before: &Antecedent,
        (forms, p_min): (&[KnownForm<'_>], f64),
        all: &mut Vec<Candidate>,
    ) -> bool {
        let p_of = |form: &Form| forms.iter().find(|(other, _)| other.1 == *form).map(|(_, each)| each.p);
        // Reading them takes some microseconds, and most templates need none.
        let is_likely = |each: &Prediction| each.p > p_min;
        let needs_fields = forms.iter().any(|(form, each)| is_likely(each) && form.1.needs_fields());
        let fields = if needs_fields { self.fields_known(&before.query.key) } else { None };
        let lacks_fields = needs_fields && fields.is_none();
        // Not those of the query: a query whose reading another node has told does not name them.
        let columns = before.statement.read.shared.as_ref().map(|shared| shared.columns().as_ref());
        let fields = fields.as_deref().map(|fields| fields.named(columns));
        let fields = fields.as_deref();
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
        lacks_fields
    }

    /// The candidates that pay, the most promising first. A source's precision bounds its own candidates, the operator
    /// bounds all of them. Of the candidates that only experience speaks against, one is tried now and then.
    fn chosen(&self, before: &Antecedent, candidates: Vec<Candidate>) -> Vec<Candidate> {
        let load = self.origin.slots().map_or(0.0, |slots| ratio(self.origin.in_flight(), slots));
        // The threshold does not depend on the time of a run. That costs a look at the statement.
        let pays = |each: &Candidate| Prices::of(f64::NAN, load).pays(each.p);
        let mut ranked: Vec<RankedCandidate> =
            candidates.into_iter().filter(pays).map(|each| self.ranked(before, each, load)).collect();
        ranked.sort_by(|one, other| other.expected_ms.total_cmp(&one.expected_ms));
        ranked.truncate(CANDIDATES_MAX);
        let mut seen: Vec<(Arc<str>, Bytes)> = Vec::new();
        let queries_max = usize::try_from(self.policy.now().prefetch.queries_max).unwrap_or(usize::MAX);
        // How many candidates each source may still launch.
        let mut left: BTreeMap<SourceId, usize> = BTreeMap::new();
        let mut chosen = Vec::new();
        let mut was_refused = false;
        for RankedCandidate { candidate, pays, .. } in ranked {
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

    fn ranked(&self, before: &Antecedent, candidate: Candidate, load: f64) -> RankedCandidate {
        let pattern = pattern_id(&candidate.statement);
        // It runs as the same principal, in the same database.
        let run_ms =
            self.cache.key_stats().mean_ms(&before.query.cost_key().of_pattern(pattern)).unwrap_or(f64::NAN);
        let prices = Prices::of(run_ms, load);
        let p = self.calibrated(candidate.kind, candidate.p);
        RankedCandidate { pays: prices.pays(p), expected_ms: prices.expected_ms(p), candidate }
    }
}

/// Whether so many queries of a round make a node busy. It stays busy until half as many come as made it so.
fn is_much(came: usize, is_busy: bool) -> bool {
    let rounds = usize::try_from(CONSIDER_EVERY_MS_BUSY / CONSIDER_EVERY_MS).unwrap_or(1);
    came > if is_busy { CONSIDERED_IN_ROUND_MAX * rounds / 2 } else { CONSIDERED_IN_ROUND_MAX }
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

    #[test]
    fn a_node_is_busy_from_a_rate_on_until_half_of_it() {
        let is_busy = |per_s: u64, was_busy: bool| {
            let round_ms = if was_busy { CONSIDER_EVERY_MS_BUSY } else { CONSIDER_EVERY_MS };
            is_much(usize::try_from(per_s * round_ms / 1_000).unwrap(), was_busy)
        };
        assert_eq!([900, 1_000].map(|per_s| is_busy(per_s, false)), [false, true]);
        assert_eq!([450, 500, 5_000].map(|per_s| is_busy(per_s, true)), [false, true, true]);
    }
}
