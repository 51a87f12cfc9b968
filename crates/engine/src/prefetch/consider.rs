//! Candidates: queries that may follow a query that was just answered. They come from exact successors, templates,
//! typed neighbours and overlaps. They are ranked together by the time that they are expected to save, and ordered from the owners of their
//! keys (`orders.rs`). The owner decides whether to carry out an order (`launch.rs`): it knows its copies, its flights
//! and its origin.
//!
//! The owner of the query's key considers. The request came here anyway, on its one hop, and here is the result whose
//! fields templates need. So considering takes no message. A miss is considered when its run begins, so that the other statements of
//! a page run beside it, and once more when it was answered if a likely template needs its fields. A popular key is considered once
//! a second; at a busy node less often, and so are a text whose answers led to nothing (`hopcache_learning::in_vain`) and hits after
//! which nearly all is cached (`hopcache_learning::after_hits`). The path only pushes into a bounded queue.
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
    CONSIDERED_AT_A_TIME, CONSIDERED_IN_ROUND_MAX, CONSIDERED_KEPT_MS, CONSIDERED_MAX,
    NEAR_FIELDS_ASKED_AT_A_TIME, OBSERVED_QUERY_BYTES_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_learning::SourceId;
use hopcache_learning::gain::{CandidateKind, Prices};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::yield_now;

use crate::model::ask::Ask;
use crate::model::event::ObservationWord;
use crate::model::order::Order;
use crate::model::outcome::Class;
use crate::peers::message::ForwardedAsk;
use crate::prefetch::Prefetch;
use crate::prefetch::anchors::Anchors;
use crate::prefetch::answered::{AnsweredQueries, AnsweredQuery, Moment, PushOutcome, round_of};
use crate::prefetch::candidate::{Antecedent, Candidate};
use crate::prefetch::candidates::Candidates;
use crate::prefetch::neighbours::Neighbours;
use crate::prefetch::orders::RoundOfOrders;
use crate::prefetch::prospects::Prospects;
use crate::prefetch::recent_keys::RecentKeys;

/// Answered queries that wait, and those that were considered a moment ago.
pub(super) struct ConsiderQueue {
    answered: AnsweredQueries,
    considered: RecentKeys,
    pub(super) anchors: Mutex<Anchors>,
    pub(super) neighbours: Neighbours,
    pub(super) prospects: Prospects,
    /// Bounds the questions for fields of near copies.
    asking: Arc<Semaphore>,
}

impl ConsiderQueue {
    pub(super) fn new() -> Self {
        Self {
            answered: AnsweredQueries::new(),
            considered: RecentKeys::new(CONSIDERED_MAX, Millis(CONSIDERED_KEPT_MS)),
            anchors: Mutex::new(Anchors::new()),
            neighbours: Neighbours::new(),
            prospects: Prospects::new(),
            asking: Arc::new(Semaphore::new(NEAR_FIELDS_ASKED_AT_A_TIME)),
        }
    }

    /// Answered queries that wait.
    pub(super) fn waiting(&self) -> usize {
        self.answered.waiting()
    }

    /// Remembered keys, anchors, labels and prospects.
    pub(super) fn len(&self) -> usize {
        self.considered.len() + self.anchors.lock().len() + self.neighbours.len() + self.prospects.len()
    }
}

/// A candidate, and its expected gain.
struct RankedCandidate {
    candidate: Candidate,
    /// Whether it pays by experience as well as by its own probability.
    pays: bool,
    expected_ms: f64,
}

impl Prefetch {
    fn is_considering(&self) -> bool {
        let policy = self.policy.now();
        policy.prefetch.is_on && policy.prefetch.queries_max > 0
    }

    /// A request of this node's client was answered by this node.
    pub(super) fn answered_here(&self, ask: &Ask, class: Class) {
        if self.is_considering() {
            self.answered_ask(ask, class);
        }
    }

    /// A miss begins to run here. The queries that parameters alone say begin beside it. Where this finds no room, the answer of the
    /// miss is considered, or counted as unconsidered.
    pub(crate) fn runs_here(&self, ask: &Ask) {
        let is_long = ask.query.statement.len() + ask.query.params.len() > OBSERVED_QUERY_BYTES_MAX;
        if self.is_considering() && !is_long && ask.query.facts().in_vain().is_due(self.context.now()) {
            self.learning.considering.answered.push_silently(&ask.query, ask.rendering, Moment::Runs);
        }
    }

    /// A prefetch has ended. Its typed neighbours may be a further step.
    pub(super) fn read_ahead(&self, order: &Order) {
        // The sender may have another `prefetch.depth`.
        let steps_max = self.policy.now().prefetch.neighbour_steps_max.saturating_sub(1);
        let steps_left = order.steps_left.min(steps_max);
        if order.kind == CandidateKind::Neighbour && steps_left > 0 && self.is_considering() {
            let moment = Moment::Ahead { steps_left, p: order.p };
            self.learning.considering.answered.push_silently(&order.query, order.rendering, moment);
        }
    }

    /// A forwarded request was answered by this node. `read`: as this node has read and answered it; most hits are answered unread.
    pub(crate) fn answered_forwarded(&self, forwarded: &ForwardedAsk, read: Option<(&Ask, Class)>) {
        if !self.is_considering() || forwarded.rest_bytes() > ANSWERED_BYTES_MAX {
            return;
        }
        if read.is_none() && self.learning.considering.answered.is_turned_away() {
            return;
        }
        let answered = || AnsweredQuery::Forwarded(forwarded.clone());
        match read {
            Some((ask, class)) => self.answered_ask(ask, class),
            None => self.answered(forwarded.key(), self.context.now(), answered),
        }
    }

    fn answered_ask(&self, ask: &Ask, class: Class) {
        if self.learning.considering.answered.is_turned_away() {
            return;
        }
        let moment = if class == Class::Hit { Moment::Hit } else { Moment::Ran };
        let now = self.context.now();
        if ask.query.facts().in_vain().is_due(now) {
            let answered = || AnsweredQuery::Read(Arc::clone(&ask.query), ask.rendering, moment);
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
        let mut lately = CameLately::default();
        loop {
            let round = if is_busy { self.sampled(&mut drained).await } else { self.all(&mut drained).await };
            let Some(round) = round else { return pending().await };
            let turned_away = answered.take_turned_away();
            self.note_observed(ObservationWord::Unconsidered, turned_away);
            let came = round.iter().filter(|each| each.is_answer()).count() + turned_away;
            let has_room = self.has_room_for_launches();
            let of_time = if is_busy { came } else { lately.with(came, self.context.now()) };
            is_busy = came > 0 && (!has_room || is_much(of_time, is_busy));
            if self.learning.has_ended() {
                continue;
            }
            // Whatever would be ordered now would be refused, at this node and at the others, which share the origin.
            if has_room {
                self.consider_round(round).await;
            } else {
                let answered = round.iter().filter(|each| each.is_answer()).count();
                self.note_observed(ObservationWord::Unconsidered, answered);
            }
        }
    }

    /// The queries of a round at a quiet node: at once, since the next statement of a page comes within a millisecond. An idle node
    /// does nothing.
    async fn all(&self, drained: &mut mpsc::Receiver<AnsweredQuery>) -> Option<Vec<AnsweredQuery>> {
        self.learning.considering.answered.let_in_all();
        let first = drained.recv().await?;
        Some(round_of(Some(first), drained))
    }

    /// The queries of a round at a busy node: the first ones of its last part, as many as are considered. The others are turned
    /// away, since one that waits costs time even if it is not considered: its memory is freed late, and by another thread.
    async fn sampled(&self, drained: &mut mpsc::Receiver<AnsweredQuery>) -> Option<Vec<AnsweredQuery>> {
        let answered = &self.learning.considering.answered;
        answered.let_in(0);
        if !self.has_room_for_launches() {
            answered.close();
        }
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
            let runs = before.moment == Moment::Runs;
            if before.moment == Moment::Hit {
                self.note_asked(&before);
                if !before.statement.after_hits.is_due() {
                    continue;
                }
            }
            let candidates = self.candidates_of(&before);
            if !matches!(before.moment, Moment::Ahead { .. }) {
                self.note_considered(&before, &candidates);
            }
            match candidates {
                Candidates { all, .. } if runs => self.add_orders(&mut orders, &before, all),
                Candidates { lacks_fields: true, .. } if self.is_anothers(&before.query.key) => {
                    without_fields.push(before);
                }
                Candidates { all, .. } => self.add_orders(&mut orders, &before, all),
            }
        }
        self.send_orders(orders);
        self.consider_near(without_fields);
    }

    /// A query of a client was considered.
    fn note_considered(&self, before: &Antecedent, candidates: &Candidates) {
        let considering = &self.learning.considering;
        let runs = before.moment == Moment::Runs;
        // The answer of a run brings nothing new, unless its fields are needed.
        if runs && !candidates.lacks_fields {
            considering.considered.is_first(&before.query.key, self.context.now());
        }
        if !runs || !candidates.lacks_fields {
            if before.moment != Moment::Hit {
                self.note_asked(before);
            }
            before.query.facts().in_vain().note(candidates.may_follow);
        }
    }

    fn add_orders(&self, orders: &mut RoundOfOrders, before: &Antecedent, candidates: Vec<Candidate>) {
        for RankedCandidate { candidate, expected_ms, .. } in self.chosen(before, candidates) {
            self.add_order(orders, before, (candidate, expected_ms));
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
        let moment = answered.moment();
        let (query, rendering) = match answered {
            AnsweredQuery::Read(query, rendering, _) => (query, rendering),
            AnsweredQuery::Forwarded(forwarded) => {
                // The path has answered it without reading it, if it was a hit.
                let ask = forwarded.read(&self.hasher, &policy.allowed, self.context.now()).ok()?;
                (ask.query, ask.rendering)
            }
        };
        let whose = (&query.database, query.identity.scope);
        let lexicon = (&self.hasher, &policy.allowed);
        let statement = self.learning.statements.read(whose, &query.statement, lexicon);
        Some(Antecedent { query, rendering, statement, moment })
    }

    /// The candidates that pay, the most promising first. A source's precision bounds its own candidates, the operator
    /// bounds all of them. Of the candidates that only experience speaks against, one is tried now and then.
    fn chosen(&self, before: &Antecedent, candidates: Vec<Candidate>) -> Vec<RankedCandidate> {
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
        for ranked in ranked {
            let RankedCandidate { candidate, pays, .. } = &ranked;
            let query = (Arc::clone(&candidate.statement), candidate.params.clone());
            if chosen.len() >= queries_max || seen.contains(&query) {
                continue;
            }
            let feedback = &self.learning.feedback;
            let left =
                left.entry(candidate.source).or_insert_with(|| feedback.launches_max(candidate.source));
            let pays = *pays && *left > 0;
            // Only experience speaks against it: the first such candidate of a request may be a trial.
            let is_trial = !pays && !std::mem::replace(&mut was_refused, true) && feedback.is_tried();
            if pays || is_trial {
                *left = left.saturating_sub(1);
                seen.push(query);
                chosen.push(ranked);
            }
        }
        chosen
    }

    fn ranked(&self, before: &Antecedent, candidate: Candidate, load: f64) -> RankedCandidate {
        let (policy, whose) = (self.policy.now(), (&before.query.database, before.query.identity.scope));
        let lexicon = (&self.hasher, &policy.allowed);
        let pattern = self.learning.statements.read(whose, &candidate.statement, lexicon).read.pattern;
        // It runs as the same principal, in the same database.
        let run_ms =
            self.cache.key_stats().mean_ms(&before.query.cost_key().of_pattern(pattern)).unwrap_or(f64::NAN);
        let prices = Prices::of(run_ms, load);
        let p = self.calibrated(candidate.kind, candidate.p);
        RankedCandidate { pays: prices.pays(p), expected_ms: prices.expected_ms(p), candidate }
    }
}

/// The queries that came to a quiet node in the present [`CONSIDER_EVERY_MS`].
#[derive(Debug, Default)]
struct CameLately {
    since: MonoTime,
    count: usize,
}

impl CameLately {
    /// With `came` more at `now`.
    fn with(&mut self, came: usize, now: MonoTime) -> usize {
        if now.since(self.since) >= Millis(CONSIDER_EVERY_MS) {
            *self = Self { since: now, count: 0 };
        }
        self.count += came;
        self.count
    }
}

/// Whether so many queries of a round, or of its time, make a node busy. It stays busy until half as many come as made it so.
fn is_much(came: usize, is_busy: bool) -> bool {
    let rounds = usize::try_from(CONSIDER_EVERY_MS_BUSY / CONSIDER_EVERY_MS).unwrap_or(1);
    came > if is_busy { CONSIDERED_IN_ROUND_MAX * rounds / 2 } else { CONSIDERED_IN_ROUND_MAX }
}

fn ratio(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "slots are few")]
    let ratio = part as f64 / whole.max(1) as f64;
    ratio
}

#[cfg(test)]
mod tests {
    use super::*;

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
