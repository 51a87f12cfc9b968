//! The queue of refreshes: which of them runs, waits for a worker, or sleeps before its next try. Each group has a
//! bound (I9) and is shared fairly by principals (F37). The queue runs nothing and knows no key.
//!
//! `workers` run at a time and `queue_max` wait. A refresh that sleeps before its next try has neither a worker nor a
//! place in the queue. So when the origin fails for some keys, workers and places are left to the keys that it still
//! answers.
//!
//! Principals share workers and places. A principal that is alone gets all of them:
//! - A free worker goes to the next principal in a circle, to the refresh that has waited longest.
//! - A run may hold its worker until the deadline of a try, so with turns alone one principal's slow runs would occupy
//!   all workers. If another principal was seen within [`REFRESH_OTHERS_MS`], no principal gets more than half of the
//!   workers, rounded up. So a worker may idle although a principal with half of them waits.
//! - A full queue admits a principal that has at least two places fewer than the principal with most places. The
//!   youngest refresh of that one goes.
//!
//! A request of more than [`BODY_BYTES_UNRESERVED`] occupies room that later requests may need: it runs at once or not
//! at all.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hopcache_core::key::PrincipalScope;
use hopcache_core::limits::{BODY_BYTES_UNRESERVED, REFRESH_OTHERS_MS, REFRESHES_ASLEEP_MAX};
use hopcache_core::time::{Millis, MonoTime};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::model::ask::Query;

/// The bounds, and the holders of each place.
pub(super) struct Queue {
    shared: Arc<Shared>,
    asleep: Arc<AtomicUsize>,
    begun: Arc<AtomicUsize>,
    ended: CancellationToken,
}

struct Shared {
    workers_max: usize,
    queue_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    running: usize,
    /// How many workers each principal has.
    at_work: BTreeMap<PrincipalScope, usize>,
    waiting: usize,
    /// The waiting refreshes of each principal, in order of arrival.
    lines: BTreeMap<PrincipalScope, VecDeque<WaitingCaller>>,
    /// Each waiting principal, once; the next one first.
    circle: VecDeque<PrincipalScope>,
    numbers: u64,
    seen: LastPrincipals,
}

struct WaitingCaller {
    number: u64,
    caller: oneshot::Sender<Worker>,
}

/// Detects whether there is more than one principal.
#[derive(Default)]
struct LastPrincipals {
    latest: Option<(PrincipalScope, MonoTime)>,
    /// When a principal other than the latest was seen last.
    other_at: Option<MonoTime>,
    are_many: bool,
}

/// The right to run. Dropped, it goes to the next in turn.
pub(super) struct Worker {
    shared: Arc<Shared>,
    scope: PrincipalScope,
}

/// One of a bounded number. Dropped, it makes room.
pub(super) struct CountGuard(Arc<AtomicUsize>);

/// A refresh's place.
pub(super) enum QueuePlace {
    /// It may run at once.
    AtWork(Worker),
    /// It waits for a worker.
    InLine(WaitingPlace),
}

/// A place in the line. Dropped, it makes room.
pub(super) struct WaitingPlace {
    shared: Arc<Shared>,
    scope: PrincipalScope,
    number: u64,
    called: oneshot::Receiver<Worker>,
}

impl Queue {
    pub(super) fn new(workers: u32, queue_max: u32) -> Self {
        let shared = Shared {
            workers_max: usize::try_from(workers.max(1)).unwrap_or(1),
            queue_max: usize::try_from(queue_max).unwrap_or(usize::MAX),
            state: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
            asleep: Arc::default(),
            begun: Arc::default(),
            ended: CancellationToken::new(),
        }
    }

    /// Notes a principal whose entries may be refreshed here.
    pub(super) fn saw(&self, query: &Query, now: MonoTime) {
        self.shared.state.lock().seen.note(query.identity.scope, now);
    }

    /// A worker, if one is free and no refresh waits for it.
    pub(super) fn free_worker(&self, query: &Query, now: MonoTime) -> Option<Worker> {
        self.shared.free_worker(query.identity.scope, now)
    }

    /// A place, if there is room.
    pub(super) fn enter(&self, query: &Query, now: MonoTime) -> Option<QueuePlace> {
        self.shared.enter(query.identity.scope, is_heavy(query), now)
    }

    /// Counts a refresh until it ends, wherever it is.
    pub(super) fn begin(&self) -> Option<CountGuard> {
        CountGuard::among(&self.begun, usize::MAX)
    }

    /// Room for a refresh that sleeps before its next try.
    pub(super) fn fall_asleep(&self) -> Option<CountGuard> {
        CountGuard::among(&self.asleep, REFRESHES_ASLEEP_MAX).filter(|_| !self.is_ended())
    }

    /// Ends the queue: no refresh gets a worker any more, and those that wait or sleep end.
    pub(super) fn end(&self) {
        let lines = {
            let mut state = self.shared.state.lock();
            state.has_ended = true;
            state.waiting = 0;
            state.circle.clear();
            std::mem::take(&mut state.lines)
        };
        drop(lines);
        self.ended.cancel();
    }

    pub(super) fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Waits until the queue has ended.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(super) fn waiting(&self) -> usize {
        self.shared.state.lock().waiting
    }

    pub(super) fn at_work(&self) -> usize {
        self.shared.state.lock().running
    }

    pub(super) fn begun(&self) -> usize {
        self.begun.load(Ordering::Relaxed)
    }

    pub(super) fn asleep(&self) -> usize {
        self.asleep.load(Ordering::Relaxed)
    }
}

/// Whether a query occupies room that later requests may need.
pub(super) fn is_heavy(query: &Query) -> bool {
    query.statement.len() + query.params.len() > BODY_BYTES_UNRESERVED
}

impl Shared {
    fn free_worker(self: &Arc<Self>, scope: PrincipalScope, now: MonoTime) -> Option<Worker> {
        self.state.lock().seen.note(scope, now);
        // First, refreshes that waited for principals not seen since get their workers.
        self.hand_out();
        let mut state = self.state.lock();
        let may_run = state.may_run(&scope, self.workers_max);
        may_run.then(|| self.hire(&mut state, scope))
    }

    fn enter(self: &Arc<Self>, scope: PrincipalScope, is_heavy: bool, now: MonoTime) -> Option<QueuePlace> {
        if let Some(worker) = self.free_worker(scope, now) {
            return Some(QueuePlace::AtWork(worker));
        }
        if is_heavy {
            return None;
        }
        let mut state = self.state.lock();
        if state.has_ended {
            return None;
        }
        let pushed_out = match state.waiting < self.queue_max {
            true => None,
            false => Some(state.push_out_for(&scope)?),
        };
        let place = self.stand_in_line(&mut state, scope);
        drop(state);
        drop(pushed_out);
        Some(QueuePlace::InLine(place))
    }

    fn stand_in_line(self: &Arc<Self>, state: &mut State, scope: PrincipalScope) -> WaitingPlace {
        let (caller, called) = oneshot::channel();
        let number = state.numbers;
        state.numbers += 1;
        state.waiting += 1;
        let line = state.lines.entry(scope).or_default();
        if line.is_empty() {
            state.circle.push_back(scope);
        }
        line.push_back(WaitingCaller { number, caller });
        WaitingPlace { shared: Arc::clone(self), scope, number, called }
    }

    fn hire(self: &Arc<Self>, state: &mut State, scope: PrincipalScope) -> Worker {
        state.running += 1;
        *state.at_work.entry(scope).or_default() += 1;
        Worker { shared: Arc::clone(self), scope }
    }

    /// Gives free workers to waiting refreshes that may have them.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let mut state = self.state.lock();
            let Some((scope, next)) = state.next(self.workers_max) else { return };
            let worker = self.hire(&mut state, scope);
            // A worker that finds its refresh gone is dropped, which takes the lock.
            drop(state);
            let _ = next.caller.send(worker);
        }
    }
}

impl State {
    fn may_run(&self, scope: &PrincipalScope, workers_max: usize) -> bool {
        let most = if self.seen.are_many { workers_max.div_ceil(2) } else { workers_max };
        let own = self.at_work.get(scope).copied().unwrap_or(0);
        !self.has_ended && self.running < workers_max && own < most
    }

    fn next(&mut self, workers_max: usize) -> Option<(PrincipalScope, WaitingCaller)> {
        let turn = self.circle.iter().position(|scope| self.may_run(scope, workers_max))?;
        let scope = self.circle.remove(turn)?;
        let line = self.lines.get_mut(&scope)?;
        let next = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&scope);
        } else {
            self.circle.push_back(scope);
        }
        self.waiting -= 1;
        Some((scope, next))
    }

    /// Takes the youngest refresh out of the longest line, unless that is `scope`'s line or would become shorter than
    /// it.
    fn push_out_for(&mut self, scope: &PrincipalScope) -> Option<WaitingCaller> {
        let own = self.lines.get(scope).map_or(0, VecDeque::len);
        let longest = self.lines.iter().max_by_key(|(_, line)| line.len()).map(|(longest, _)| *longest)?;
        // The new refresh counts as waiting, too.
        let youngest = self.lines.get(&longest).filter(|line| line.len() > own + 1)?.back()?.number;
        self.leave(&longest, youngest)
    }

    fn leave(&mut self, scope: &PrincipalScope, number: u64) -> Option<WaitingCaller> {
        let line = self.lines.get_mut(scope)?;
        let place = line.iter().position(|each| each.number == number)?;
        let left = line.remove(place)?;
        if line.is_empty() {
            self.lines.remove(scope);
            self.circle.retain(|each| each != scope);
        }
        self.waiting -= 1;
        Some(left)
    }
}

impl LastPrincipals {
    fn note(&mut self, scope: PrincipalScope, now: MonoTime) {
        if let Some((latest, at)) = self.latest
            && latest != scope
        {
            self.other_at = Some(at);
        }
        self.latest = Some((scope, now));
        self.are_many = self.other_at.is_some_and(|at| now.since(at) < Millis(REFRESH_OTHERS_MS));
    }
}

impl QueuePlace {
    /// Waits for a worker. `None` when the queue ended meanwhile, or another principal got the place.
    pub(super) async fn worker(self) -> Option<Worker> {
        match self {
            Self::AtWork(worker) => Some(worker),
            Self::InLine(mut place) => (&mut place.called).await.ok(),
        }
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        // A worker that was sent and not taken is dropped with the channel, after this, and goes to the next.
        let left = self.shared.state.lock().leave(&self.scope, self.number);
        drop(left);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state.lock();
            state.running -= 1;
            let left = state.at_work.get_mut(&self.scope).map(|own| {
                *own -= 1;
                *own
            });
            if left == Some(0) {
                state.at_work.remove(&self.scope);
            }
        }
        self.shared.hand_out();
    }
}

impl CountGuard {
    fn among(counter: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let more = |count: usize| (count < most).then_some(count + 1);
        counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self(Arc::clone(counter)))
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVE: PrincipalScope = PrincipalScope([1; 32]);
    const ANN: PrincipalScope = PrincipalScope([2; 32]);
    const NOW: MonoTime = MonoTime(0);

    fn places(queue: &Queue, scope: PrincipalScope, count: usize, now: MonoTime) -> Vec<QueuePlace> {
        (0..count).filter_map(|_| queue.shared.enter(scope, false, now)).collect()
    }

    fn at_work(places: &[QueuePlace]) -> usize {
        places.iter().filter(|place| matches!(place, QueuePlace::AtWork(_))).count()
    }

    /// One principal alone gets every worker and every place (work-conserving).
    #[test]
    fn who_is_alone_has_everything() {
        let queue = Queue::new(4, 10);
        let all = places(&queue, EVE, 20, NOW);
        assert_eq!((all.len(), at_work(&all), queue.waiting()), (14, 4, 10));
        drop(all);
        assert_eq!((queue.at_work(), queue.waiting()), (0, 0));
    }

    /// F37: half of the workers and half of a full queue are for others, once there are others.
    #[test]
    fn others_have_half() {
        let queue = Queue::new(4, 10);
        places(&queue, ANN, 1, NOW);
        let eves = places(&queue, EVE, 20, NOW);
        assert_eq!((eves.len(), at_work(&eves), queue.waiting()), (12, 2, 10));
        let anns = places(&queue, ANN, 20, NOW);
        assert_eq!((at_work(&anns), anns.len(), queue.waiting()), (2, 7, 10));
        let lines: Vec<_> = queue.shared.state.lock().lines.values().map(VecDeque::len).collect();
        assert_eq!(lines, [5, 5]);
        drop(anns);
        assert_eq!((queue.at_work(), queue.waiting()), (2, 5));

        let later = NOW + Millis(REFRESH_OTHERS_MS + 1);
        places(&queue, EVE, 1, later);
        assert_eq!((queue.at_work(), queue.waiting()), (4, 3), "nobody else was seen for long");
        drop(eves);
        assert_eq!((queue.at_work(), queue.waiting()), (0, 0));
    }

    /// Workers that become free go in turn.
    #[tokio::test]
    async fn workers_go_in_turn() {
        let queue = Queue::new(1, 10);
        let running = places(&queue, EVE, 1, NOW);
        let mut eves = places(&queue, EVE, 3, NOW);
        let ann = places(&queue, ANN, 1, NOW).pop().unwrap();
        drop(running);
        let first = eves.remove(0).worker().await.unwrap();
        drop(first);
        let second = ann.worker().await.expect("before Eve's second");
        assert_eq!((queue.at_work(), queue.waiting()), (1, 2));
        drop(second);
        queue.end();
        let at_work = eves.remove(0).worker().await;
        assert!(at_work.is_some() && eves.remove(0).worker().await.is_none());
        assert!(queue.shared.enter(ANN, false, NOW).is_none());
    }

    /// A heavy request has a worker at once, or nothing.
    #[test]
    fn the_heavy_do_not_wait() {
        let queue = Queue::new(1, 10);
        let running = queue.shared.enter(EVE, true, NOW);
        assert!(matches!(running, Some(QueuePlace::AtWork(_))));
        assert!(queue.shared.enter(EVE, true, NOW).is_none());
        assert!(queue.shared.enter(EVE, false, NOW).is_some());
    }

    /// A worker that was sent to a refresh goes to the next one if that refresh is dropped before it takes it.
    #[test]
    fn a_called_one_that_is_dropped_gives_its_worker_on() {
        let queue = Queue::new(1, 10);
        let running = places(&queue, EVE, 1, NOW);
        let mut waiting = places(&queue, EVE, 2, NOW);
        drop(running);
        assert_eq!((queue.at_work(), queue.waiting()), (1, 1));
        drop(waiting.remove(0));
        assert_eq!((queue.at_work(), queue.waiting()), (1, 0), "the second's");
        drop(waiting);
        assert_eq!(queue.at_work(), 0);
    }
}
