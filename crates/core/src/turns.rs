//! Decides which run is next: a number of slots, shared by principals in turn and by classes in order.
//!
//! A free slot is taken at once by any principal, so one principal alone has all of them (work-conserving). Once runs
//! wait, each slot that becomes free goes to the next principal in a circle, to the first run of its queue. So
//! with P principals waiting, the first run of any of them starts after at most P − 1 others have started, however many
//! runs the others queue (F37).
//!
//! **Order in a principal's queue.** Short runs go first, and no run waits long for that. Each run gets a mark: the
//! expected work that came to its queue before it, plus [`QUEUE_STRETCH`] times its own, at most [`QUEUE_EXTRA_US_MAX`]. The
//! lowest mark is next. A later run goes before it only while the work that came in between is less than the difference
//! of both additions. So all later runs that go first have together at most [`QUEUE_STRETCH`] times the work of the run
//! that they pass. Example: a run of 10 ms lets at most 0.8 s of later work go first, also when short runs never cease
//! to come. (Shortest job first with ageing; the mark is a start tag of fair queueing with a discount for short jobs.)
//!
//! An operator may choose the order of arrival instead ([`QueueOrder`]): all expected work counts as none then, and the bounds
//! of the line are the same.
//!
//! Misses and bypasses have a line each and take turns, so that neither is shed because of the other's queue. Refreshes
//! come after both: a client that meets a waiting refresh has an answer already, and a client of a waiting miss has
//! none (F42). Prefetches have no line: no client has asked, so a prefetch takes only a slot that nobody wants, and
//! does not wait (F40).
//!
//! **Shedding before waiting.** A run that would wait longer than it may, judged by the runs before it, is refused at
//! once ([`TurnAnswer::WouldBeLate`]): in the queue it would cost a place and end the same way. If others use the origin as
//! well, a principal over its equal part of the line is refused for its own load ([`TurnAnswer::PrincipalFull`]). That is a
//! budget of misses for each principal, in slot time and not in requests per second. So there is no rate to configure,
//! and a principal that is alone has every slot and the whole line.
//!
//! The queue only orders waiters. It sets no timeout, starts no run, wakes no task and reads no clock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::limits::{
    PRINCIPAL_SEEN_MS, QUEUE_EXTRA_US_MAX, QUEUE_FORGETS_MS, QUEUE_STRETCH, QUEUE_WORK_US_MAX,
    SLOT_TIME_SMOOTHING,
};
use crate::time::{Millis, MonoTime};

/// Sizes of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnBounds {
    /// Runs at a time; 0 counts as 1.
    pub slots: usize,
    /// Runs of one principal that may wait in one line.
    pub waiting_per_principal: usize,
    /// Runs that may wait in one line, in total.
    pub waiting: usize,
}

/// The order of the runs of one principal that wait.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum QueueOrder {
    /// Short runs first, as the module says.
    #[default]
    Shortest,
    /// First come, first served.
    Arrival,
}

crate::words! {
    /// The purpose of a run, which decides its place.
    #[derive(Default)]
    pub enum RunClass {
        /// Clients wait for it, and others may share it.
        #[default]
        Miss = "miss",
        /// One client waits for it; writes among them.
        Bypass = "bypass",
        /// Nobody waits: a value exists already. Background questions count as one.
        Refresh = "refresh",
        /// No client has asked. It runs at once in a free slot or not at all, so it is shed before all others. The last free
        /// slot is none of its, because the next client would wait for it. Only where there is always just one, it takes that
        /// one. In a probe of the origin's limit, which leaves one slot for a moment, it takes none.
        Prefetch = "prefetch",
    }
}

/// A run that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(u64);

/// The answer to a wish to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnAnswer {
    /// It runs now, and has to be [`Turns::done`].
    Runs,
    /// It waits: until [`Turns::done`] or [`Turns::leave`] names its waiter.
    Waits(WaiterId),
    /// This principal already has the greatest number of waiting runs, or of runs that can begin in time in its turns.
    PrincipalFull,
    /// The line has the greatest number of waiting runs.
    Full,
    /// It would wait for longer than it may.
    WouldBeLate,
}

/// The state of a waiting run that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It had not been called: it is out of the queue and held nothing.
    Queue,
    /// It had been called and held a slot, which now belongs to the run with this waiter, or to nobody.
    Slot(Option<WaiterId>),
}

/// The waiting runs of one class.
#[derive(Debug, Clone)]
struct ClassQueue<P> {
    queues: BTreeMap<P, PrincipalQueue>,
    /// Each principal with a queue, once; the next one first.
    circle: VecDeque<P>,
    waiting: usize,
}

/// The waiting runs of one principal in one line.
#[derive(Debug, Clone, Default)]
struct PrincipalQueue {
    /// By mark, and then by arrival.
    waiting: BTreeSet<(u64, WaiterId)>,
    /// The expected work of all runs that came since the queue was empty, in microseconds.
    came_us: u64,
}

/// The slots and the runs that wait for one.
///
/// Invariant between calls: a run waits only while every slot is taken. After [`Turns::resize`] more runs than slots may
/// be under way.
#[derive(Debug, Clone)]
pub struct Turns<P> {
    bounds: TurnBounds,
    order: QueueOrder,
    /// The slots by which waits are predicted, and of which prefetches leave one.
    usual_slots: usize,
    running: usize,
    misses: ClassQueue<P>,
    bypasses: ClassQueue<P>,
    refreshes: ClassQueue<P>,
    /// Whether the next slot belongs to the bypasses, if one waits.
    is_bypasses_turn: bool,
    waiters: u64,
    /// How long a run holds its slot, smoothed, in milliseconds; `None` before the first has ended.
    held_ms: Option<f64>,
    seen: LastPrincipals<P>,
}

/// The principal that asked last, and the last other one.
#[derive(Debug, Clone)]
struct LastPrincipals<P> {
    last: Option<(P, MonoTime)>,
    before: Option<(P, MonoTime)>,
}

impl<P: Ord + Clone> Turns<P> {
    /// A queue without runs.
    #[must_use]
    pub fn new(bounds: TurnBounds) -> Self {
        Self {
            bounds: TurnBounds { slots: bounds.slots.max(1), ..bounds },
            order: QueueOrder::default(),
            usual_slots: bounds.slots.max(1),
            running: 0,
            misses: ClassQueue::new(),
            bypasses: ClassQueue::new(),
            refreshes: ClassQueue::new(),
            is_bypasses_turn: false,
            waiters: 0,
            held_ms: None,
            seen: LastPrincipals { last: None, before: None },
        }
    }

    /// From the next run that waits on, queues have this order.
    pub fn put_in_order(&mut self, order: QueueOrder) {
        self.order = order;
    }

    /// A run of `principal` wants a slot, and waits for any time.
    pub fn ask(&mut self, principal: &P) -> TurnAnswer {
        if self.takes_free_slot() {
            return TurnAnswer::Runs;
        }
        self.queue(principal, RunClass::Miss, 0)
    }

    /// A run of `principal` wants a slot within `wait_max`.
    pub fn ask_within(
        &mut self,
        principal: &P,
        class: RunClass,
        now: MonoTime,
        wait_max: Millis,
    ) -> TurnAnswer {
        self.ask_costing(principal, (class, 0), now, wait_max)
    }

    /// The same for a run that is expected to take `cost_us` microseconds.
    pub fn ask_costing(
        &mut self,
        principal: &P,
        (class, cost_us): (RunClass, u64),
        now: MonoTime,
        wait_max: Millis,
    ) -> TurnAnswer {
        self.note_asked(principal, now);
        if self.has_slot_for(class) && self.takes_free_slot() {
            return TurnAnswer::Runs;
        }
        match self.judge(principal, class, now, wait_max) {
            Some(refusal) => refusal,
            None => self.queue(principal, class, cost_us),
        }
    }

    /// The refusal that [`Turns::ask_within`] would give to such a run now; `None` if it would run or wait. It counts
    /// as asking, so that others' parts of the line shrink; it takes no place.
    pub fn would_refuse(
        &mut self,
        principal: &P,
        class: RunClass,
        now: MonoTime,
        wait_max: Millis,
    ) -> Option<TurnAnswer> {
        self.note_asked(principal, now);
        if self.has_slot_for(class) {
            return None;
        }
        self.judge(principal, class, now, wait_max).or_else(|| self.lacks_room(principal, class))
    }

    /// A run has ended. Its slot goes to the returned run, or to none.
    pub fn done(&mut self) -> Option<WaiterId> {
        self.running = self.running.saturating_sub(1);
        let called = if self.running < self.bounds.slots { self.next() } else { None };
        self.running += usize::from(called.is_some());
        called
    }

    /// The same for a run that held its slot for `held`, which predicts the next waits.
    pub fn done_after(&mut self, held: Millis) -> Option<WaiterId> {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run are far below 2^53")]
        let held_ms = held.0 as f64;
        self.held_ms =
            Some(self.held_ms.map_or(held_ms, |mean| mean + (held_ms - mean) * SLOT_TIME_SMOOTHING));
        self.done()
    }

    /// A waiting run is given up, whether or not it has been called.
    pub fn leave(&mut self, principal: &P, waiter: WaiterId) -> Left {
        let was_waiting = [&mut self.misses, &mut self.bypasses, &mut self.refreshes]
            .into_iter()
            .any(|line| line.remove(principal, waiter));
        if was_waiting { Left::Queue } else { Left::Slot(self.done()) }
    }

    /// There are so many slots from now on; 0 counts as 1. Runs under way keep theirs, so fewer slots take effect as runs
    /// end. More slots go to the returned runs. Waits are predicted by `usual`, so that a short time with few slots
    /// refuses nobody.
    pub fn resize(&mut self, slots: usize, usual: usize) -> Vec<WaiterId> {
        self.bounds.slots = slots.max(1);
        self.usual_slots = usual.max(1);
        let mut called = Vec::new();
        while self.running < self.bounds.slots
            && let Some(waiter) = self.next()
        {
            self.running += 1;
            called.push(waiter);
        }
        called
    }

    /// Runs under way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Runs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.misses.waiting + self.bypasses.waiting + self.refreshes.waiting
    }

    fn has_slot_for(&self, class: RunClass) -> bool {
        let left_free = usize::from(class == RunClass::Prefetch && self.usual_slots > 1);
        self.running + left_free < self.bounds.slots
    }

    fn takes_free_slot(&mut self) -> bool {
        let is_free = self.running < self.bounds.slots;
        self.running += usize::from(is_free);
        is_free
    }

    fn line(&self, class: RunClass) -> &ClassQueue<P> {
        match class {
            RunClass::Miss => &self.misses,
            RunClass::Bypass => &self.bypasses,
            // Never in it: see `judge`.
            RunClass::Refresh | RunClass::Prefetch => &self.refreshes,
        }
    }

    fn line_mut(&mut self, class: RunClass) -> &mut ClassQueue<P> {
        match class {
            RunClass::Miss => &mut self.misses,
            RunClass::Bypass => &mut self.bypasses,
            RunClass::Refresh | RunClass::Prefetch => &mut self.refreshes,
        }
    }

    /// The last runs predict nothing after a silence: Neo4j may have been slow then, and all who ask at once now would be refused.
    fn note_asked(&mut self, principal: &P, now: MonoTime) {
        let was_silent = |(_, at): &(P, MonoTime)| now.since(*at) > Millis(QUEUE_FORGETS_MS);
        if self.running == 0 && self.seen.last.as_ref().is_some_and(was_silent) {
            self.held_ms = None;
        }
        self.seen.note(principal, now);
    }

    /// The reason for not letting this run wait, if any. Behind fewer runs than there are slots it may always wait: the
    /// last runs predict the next one too badly.
    fn judge(&self, principal: &P, class: RunClass, now: MonoTime, wait_max: Millis) -> Option<TurnAnswer> {
        if class == RunClass::Prefetch {
            return Some(TurnAnswer::WouldBeLate);
        }
        let is_shared = self.seen.has_other(principal, now);
        let (held_ms, slots) = (self.held_ms?, self.usual_slots);
        // The runs that are called before it: those of its own line, of the other clients' line every second one, and
        // before a refresh all of both. Refreshes give way, however many wait.
        let before = |in_line: usize| match class {
            RunClass::Miss => in_line + self.bypasses.waiting.min(in_line + 1),
            RunClass::Bypass => in_line + self.misses.waiting.min(in_line + 1),
            RunClass::Refresh | RunClass::Prefetch => in_line + self.misses.waiting + self.bypasses.waiting,
        };
        #[expect(clippy::cast_precision_loss, reason = "runs, slots and milliseconds are far below 2^53")]
        let is_late = |before: usize| {
            before >= slots && held_ms * (before + 1) as f64 / slots as f64 > wait_max.0 as f64
        };
        let line = self.line(class);
        // Counts other principals' runs one by one only if the whole line would not be done in time.
        if !is_late(before(line.waiting)) || !is_late(before(line.called_before(principal))) {
            return None;
        }
        let own = line.queue(principal);
        let in_circle = line.circle.len() + usize::from(own == 0);
        // A principal that asked lately counts here even if it is not waiting: the line would delay it.
        let principals = in_circle.max(1 + usize::from(is_shared));
        let is_over_its_part = principals > 1 && (own + 1) * principals > line.waiting + 1;
        Some(if is_over_its_part { TurnAnswer::PrincipalFull } else { TurnAnswer::WouldBeLate })
    }

    fn queue(&mut self, principal: &P, class: RunClass, cost_us: u64) -> TurnAnswer {
        if let Some(refusal) = self.lacks_room(principal, class) {
            return refusal;
        }
        let waiter = WaiterId(self.waiters);
        // Equal marks: the first waiter goes first.
        let cost_us = if self.order == QueueOrder::Arrival { 0 } else { cost_us };
        self.line_mut(class).push(principal, waiter, cost_us);
        self.waiters += 1;
        TurnAnswer::Waits(waiter)
    }

    /// The exceeded bound of the line, if any.
    fn lacks_room(&self, principal: &P, class: RunClass) -> Option<TurnAnswer> {
        let bounds = self.bounds;
        let line = self.line(class);
        if line.queue(principal) >= bounds.waiting_per_principal {
            return Some(TurnAnswer::PrincipalFull);
        }
        (line.waiting >= bounds.waiting).then_some(TurnAnswer::Full)
    }

    fn next(&mut self) -> Option<WaiterId> {
        self.is_bypasses_turn = !self.is_bypasses_turn;
        let (first, second) = if self.is_bypasses_turn {
            (&mut self.bypasses, &mut self.misses)
        } else {
            (&mut self.misses, &mut self.bypasses)
        };
        first.pop().or_else(|| second.pop()).or_else(|| self.refreshes.pop())
    }
}

impl<P: Ord + Clone> ClassQueue<P> {
    const fn new() -> Self {
        Self { queues: BTreeMap::new(), circle: VecDeque::new(), waiting: 0 }
    }

    /// The number of this principal's waiting runs.
    fn queue(&self, principal: &P) -> usize {
        self.queues.get(principal).map_or(0, |queue| queue.waiting.len())
    }

    /// Waiting runs that would be called before the principal's next one: its own, and of each other principal the
    /// waiting ones, up to one for each turn of this one's.
    fn called_before(&self, principal: &P) -> usize {
        let own = self.queue(principal);
        let of_others = self.queues.iter().filter(|(each, _)| *each != principal);
        own + of_others.map(|(_, queue)| queue.waiting.len().min(own + 1)).sum::<usize>()
    }

    fn push(&mut self, principal: &P, waiter: WaiterId, cost_us: u64) {
        let queue = self.queues.entry(principal.clone()).or_default();
        if queue.waiting.is_empty() {
            self.circle.push_back(principal.clone());
        }
        queue.push(waiter, cost_us, self.circle.len());
        self.waiting += 1;
    }

    fn pop(&mut self) -> Option<WaiterId> {
        let principal = self.circle.pop_front()?;
        let queue = self.queues.get_mut(&principal)?;
        let (_, waiter) = queue.waiting.pop_first()?;
        if queue.waiting.is_empty() {
            self.queues.remove(&principal);
        } else {
            self.circle.push_back(principal);
        }
        self.waiting -= 1;
        Some(waiter)
    }

    fn remove(&mut self, principal: &P, waiter: WaiterId) -> bool {
        let Some(queue) = self.queues.get_mut(principal) else { return false };
        let Some(place) = queue.waiting.iter().find(|(_, each)| *each == waiter).copied() else {
            return false;
        };
        queue.waiting.remove(&place);
        self.waiting -= 1;
        if queue.waiting.is_empty() {
            self.queues.remove(principal);
            self.circle.retain(|each| each != principal);
        }
        true
    }
}

impl PrincipalQueue {
    /// While other principals wait as well, each later run of this queue also costs a turn of each of them.
    fn push(&mut self, waiter: WaiterId, cost_us: u64, principals: usize) {
        let extra_max = QUEUE_EXTRA_US_MAX / (principals as u64).max(1);
        let extra = cost_us.saturating_mul(QUEUE_STRETCH).min(extra_max);
        self.waiting.insert((self.came_us.saturating_add(extra), waiter));
        self.came_us = self.came_us.saturating_add(cost_us.min(QUEUE_WORK_US_MAX));
    }
}

impl<P: Ord + Clone> LastPrincipals<P> {
    fn note(&mut self, principal: &P, now: MonoTime) {
        match &mut self.last {
            Some((last, at)) if last == principal => *at = now,
            last => self.before = last.replace((principal.clone(), now)),
        }
    }

    /// Whether another principal has asked lately.
    fn has_other(&self, principal: &P, now: MonoTime) -> bool {
        let is_other = |seen: &Option<(P, MonoTime)>| {
            seen.as_ref()
                .is_some_and(|(who, at)| who != principal && now.since(*at) < Millis(PRINCIPAL_SEEN_MS))
        };
        is_other(&self.last) || is_other(&self.before)
    }
}
