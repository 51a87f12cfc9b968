//! Queries that wait to be considered, and the gate before them: answered ones, misses that run, and neighbours that were read ahead.
//! It decides nothing: `consider` says how many more are let in.
//!
//! A query that waits keeps the message that it came in. At a busy node most queries would wait for nothing, and what they
//! keep would be freed late, by another thread, from cold memory: 8 µs a request, in a measurement. So they are turned away
//! at the gate, where it costs one look.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::ANSWERED_MAX;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::model::ask::Query;
use crate::model::rendering::RenderingId;
use crate::peers::message::ForwardedAsk;

/// A query that waits to be considered: it was answered, or runs.
pub(super) enum AnsweredQuery {
    /// A request that this node has read.
    Read(Arc<Query>, RenderingId, Moment),
    /// A hit of another node's request, not read yet.
    Forwarded(ForwardedAsk),
}

/// When a query is considered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Moment {
    /// A miss has just begun to run.
    Runs,
    /// A miss was answered.
    Ran,
    /// A hit was answered: what follows it is mostly cached too.
    Hit,
    /// It was read ahead, as a typed neighbour.
    Ahead {
        /// So many more steps may follow.
        steps_left: u8,
        /// The probability that it will be asked.
        p: f64,
    },
}

impl AnsweredQuery {
    pub(super) fn key(&self) -> &QueryKey {
        match self {
            Self::Read(query, ..) => &query.key,
            Self::Forwarded(forwarded) => forwarded.key(),
        }
    }

    pub(super) const fn moment(&self) -> Moment {
        match self {
            Self::Read(_, _, moment) => *moment,
            Self::Forwarded(_) => Moment::Hit,
        }
    }

    /// Whether a client has its answer.
    pub(super) fn is_answer(&self) -> bool {
        matches!(self.moment(), Moment::Ran | Moment::Hit)
    }
}

/// What became of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PushOutcome {
    /// It waits to be considered.
    Waits,
    /// The gate was shut. It is counted here.
    TurnedAway,
    /// The queue is full.
    NoRoom,
}

/// The queue, and its gate.
pub(super) struct AnsweredQueries {
    queue: mpsc::Sender<AnsweredQuery>,
    /// The queue's end, until the task that drains it takes it.
    drained: Mutex<Option<mpsc::Receiver<AnsweredQuery>>>,
    /// How many more are let in.
    wanted: AtomicUsize,
    /// Whether none will be let in before the next look: nothing could be launched.
    is_closed: AtomicBool,
    /// How many were not, since the last [`AnsweredQueries::take_turned_away`].
    turned_away: AtomicUsize,
}

impl AnsweredQueries {
    /// All are let in.
    pub(super) fn new() -> Self {
        let (queue, drained) = mpsc::channel(ANSWERED_MAX);
        Self {
            queue,
            drained: Mutex::new(Some(drained)),
            wanted: AtomicUsize::new(usize::MAX),
            is_closed: AtomicBool::new(false),
            turned_away: AtomicUsize::new(0),
        }
    }

    pub(super) fn waiting(&self) -> usize {
        ANSWERED_MAX - self.queue.capacity()
    }

    /// The queue's end, for the first caller.
    pub(super) fn drained(&self) -> Option<mpsc::Receiver<AnsweredQuery>> {
        self.drained.lock().take()
    }

    /// Lets in none before the next [`AnsweredQueries::let_in`].
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Turns a query away, and counts it, if none will be let in: the cheapest look, for each answer of a busy node.
    pub(super) fn is_turned_away(&self) -> bool {
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        if is_closed {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
        }
        is_closed
    }

    /// Lets in so many more, then none. Those that are on their way in may add a few.
    pub(super) fn let_in(&self, more: usize) {
        self.wanted.store(more, Ordering::Relaxed);
        self.is_closed.store(false, Ordering::Relaxed);
    }

    /// Lets in all that there is room for.
    pub(super) fn let_in_all(&self) {
        self.let_in(usize::MAX);
    }

    /// Lets a query in, if the gate and the queue have room.
    pub(super) fn push(&self, answered: impl FnOnce() -> AnsweredQuery) -> PushOutcome {
        let one_less = |wanted: usize| wanted.checked_sub(1);
        if self.wanted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err() {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return PushOutcome::TurnedAway;
        }
        if self.queue.try_send(answered()).is_ok() { PushOutcome::Waits } else { PushOutcome::NoRoom }
    }

    /// Lets in a query that no client has an answer to, if all are let in and the queue has room. It is not counted.
    pub(super) fn push_silently(&self, query: &Arc<Query>, rendering: RenderingId, moment: Moment) {
        // A gate that counts is a busy node's: it has places for answers only.
        if self.wanted.load(Ordering::Relaxed) > usize::MAX / 2 {
            let _ = self.queue.try_send(AnsweredQuery::Read(Arc::clone(query), rendering, moment));
        }
    }

    /// How many the gate has turned away since the last call.
    pub(super) fn take_turned_away(&self) -> usize {
        self.turned_away.swap(0, Ordering::Relaxed)
    }
}

/// The queries that wait, each once.
pub(super) fn round_of(
    first: Option<AnsweredQuery>,
    drained: &mut mpsc::Receiver<AnsweredQuery>,
) -> Vec<AnsweredQuery> {
    let mut round: Vec<AnsweredQuery> = first.into_iter().collect();
    while round.len() < ANSWERED_MAX
        && let Ok(next) = drained.try_recv()
    {
        round.push(next);
    }
    leave_once(&mut round);
    round
}

/// Leaves each query once in a round: as answered, else as one that runs. `RecentKeys` leaves out most repeats, but not all.
fn leave_once(round: &mut Vec<AnsweredQuery>) {
    let rank = |query: &AnsweredQuery| match query.moment() {
        Moment::Ran | Moment::Hit => 2,
        Moment::Runs => 1,
        Moment::Ahead { .. } => 0,
    };
    let mut ranks: BTreeMap<QueryKey, u8> = BTreeMap::new();
    for query in round.iter() {
        let best = ranks.entry(*query.key()).or_default();
        *best = rank(query).max(*best);
    }
    round.retain(|query| {
        let is_it = ranks.get(query.key()) == Some(&rank(query));
        is_it && ranks.remove(query.key()).is_some()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_gate_keeps_nothing_and_counts() {
        let answered = AnsweredQueries::new();
        let query = Arc::new(Query::of_text("RETURN 1 AS one"));
        let push = |count: usize| {
            let push =
                |_| answered.push(|| AnsweredQuery::Read(Arc::clone(&query), RenderingId(0), Moment::Hit));
            (0..count).map(push).last()
        };
        assert_eq!(push(2), Some(PushOutcome::Waits));
        answered.let_in(3);
        assert_eq!([push(3), push(2)], [PushOutcome::Waits, PushOutcome::TurnedAway].map(Some));
        answered.let_in(0);
        assert_eq!(push(1), Some(PushOutcome::TurnedAway));
        assert_eq!((answered.waiting(), answered.take_turned_away(), answered.take_turned_away()), (5, 3, 0));
        assert_eq!(Arc::strong_count(&query), 6);
        answered.let_in_all();
        assert_eq!(push(ANSWERED_MAX), Some(PushOutcome::NoRoom));
    }

    /// Two hot keys that push each other out of `RecentKeys` take two places of a round, not all of them.
    #[test]
    fn a_round_has_each_query_once() {
        let queries = ["RETURN 1 AS one", "RETURN 2 AS two", "RETURN 3 AS three"];
        let queries = queries.map(|text| Arc::new(Query::of_text(text)));
        let answered =
            |place: usize| AnsweredQuery::Read(Arc::clone(&queries[place]), RenderingId(0), Moment::Hit);
        let mut round: Vec<AnsweredQuery> = (0..250).map(|number| answered(number % 2)).collect();
        // One runs, and one ran while it waited.
        round.insert(0, AnsweredQuery::Read(Arc::clone(&queries[1]), RenderingId(0), Moment::Runs));
        round.push(AnsweredQuery::Read(Arc::clone(&queries[2]), RenderingId(0), Moment::Runs));
        leave_once(&mut round);
        let moments: Vec<Moment> = round.iter().map(AnsweredQuery::moment).collect();
        assert_eq!(moments, [Moment::Hit, Moment::Hit, Moment::Runs]);
        assert!(
            round.iter().map(AnsweredQuery::key).eq(queries.iter().map(|query| &query.key)),
            "in their order"
        );
    }
}
