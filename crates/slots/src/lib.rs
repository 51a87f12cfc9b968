//! Slots that principals take in turn. [`hopcache_core::turns`] decides which run is next, and
//! [`hopcache_core::origin_limit`] how many slots there are. This crate decides how long a run waits, and does not know
//! the use of a slot. Its clock is tokio's, which the simulator turns.
//!
//! The race that dropping a waiting future has to survive:
//!   a run ends and calls waiter 7 · waiter 7 has the slot · the future of 7 is dropped before it is polled again.
//! Nothing else knows of that slot. So a waiting run holds a guard. Its drop gives the place up under the lock and learns
//! whether the waiter had been called. If so, the slot goes to the next run.

use std::collections::HashMap;
use std::sync::Weak;
use std::time::Duration;

use hopcache_core::leftover::Leftover;
use hopcache_core::limits::ORIGIN_LIMIT_TICK_MS;
use hopcache_core::origin_limit::{LimitBounds, OriginLimit, RunStart};
use hopcache_core::pattern::PatternId;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::{Left, QueueOrder, RunClass, TurnAnswer, TurnBounds, Turns, WaiterId};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Slots, and the runs that wait for one.
pub struct Slots<P: Ord + Clone> {
    state: Mutex<State<P>>,
    started: Instant,
}

struct State<P> {
    turns: Turns<P>,
    limit: OriginLimit,
    leftover: Leftover,
    /// How each waiting run is called.
    callers: HashMap<WaiterId, oneshot::Sender<()>>,
}

/// Why a run gets no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// The maximum of runs of this principal waits already.
    PrincipalFull,
    /// The maximum of runs of all principals waits already.
    Full,
    /// No slot became free in time, or none would.
    Late,
}

/// A slot. Dropping it frees the slot.
pub struct Slot<'a, P: Ord + Clone> {
    slots: &'a Slots<P>,
    since: Instant,
    start: RunStart,
    /// Of a run whose time says something about the server.
    pattern: Option<PatternId>,
}

impl<P: Ord + Clone> Slots<P> {
    /// All free, and always as many.
    #[must_use]
    pub fn new(bounds: TurnBounds) -> Self {
        Self::within(bounds, LimitBounds { min: bounds.slots, max: bounds.slots }, 0)
    }

    /// All free. Their number follows how long the runs take. [`tick_while_used`] has to run beside. `wall_clock_us` is the
    /// time of day, in microseconds: nodes with the same clock probe at the same time.
    #[must_use]
    pub fn within(bounds: TurnBounds, limits: LimitBounds, wall_clock_us: u64) -> Self {
        let limit = OriginLimit::new(limits, wall_clock_us);
        let turns = Turns::new(TurnBounds { slots: limit.limit(), ..bounds });
        let state = State { turns, limit, leftover: Leftover::default(), callers: HashMap::new() };
        Self { state: Mutex::new(state), started: Instant::now() }
    }

    /// The same, with the runs that wait in this order.
    pub fn in_order(mut self, order: QueueOrder) -> Self {
        self.state.get_mut().turns.put_in_order(order);
        self
    }

    /// Time has passed: the number of slots may change.
    fn tick(&self) {
        let mut state = self.state.lock();
        state.limit.tick(self.now());
        state.resize();
    }

    /// How many slots there are, without regard to a short probe.
    pub fn limit(&self) -> usize {
        self.state.lock().limit.learned()
    }

    /// Whether there is something left over for a run that nobody waits for: no run waits, none has waited for long in
    /// the last moment or for much of the last seconds, and runs take less than twice as long as on an idle server.
    pub fn has_spare(&self) -> bool {
        let state = self.state.lock();
        state.turns.waiting() == 0 && !state.limit.is_strained() && state.leftover.is_some(self.now())
    }

    /// Waits for a slot for a run of `principal`, until `deadline`.
    pub async fn take(&self, principal: &P, deadline: Instant) -> Result<Slot<'_, P>, NoSlot> {
        self.take_as(principal, deadline, |state, _| state.turns.ask(principal)).await
    }

    /// Like [`Slots::take`], for a run of this class and pattern. A run whose turn would come too late is refused at once.
    pub async fn take_in_time(
        &self,
        principal: &P,
        (class, pattern): (RunClass, PatternId),
        deadline: Instant,
    ) -> Result<Slot<'_, P>, NoSlot> {
        let span = Millis::from(deadline.saturating_duration_since(Instant::now()));
        let ask = |state: &mut State<P>, now| {
            let expected_us = state.limit.expected_us(pattern).unwrap_or_default();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast")]
            let cost_us = expected_us as u64;
            state.turns.ask_costing(principal, (class, cost_us), now, span)
        };
        self.take_as(principal, deadline, ask).await
    }

    /// Why [`Slots::take_in_time`] would refuse such a run at once. `None` when the run would start or wait.
    pub fn would_refuse(&self, principal: &P, class: RunClass, wait: Duration) -> Option<NoSlot> {
        let mut state = self.state.lock();
        let refusal = state.turns.would_refuse(principal, class, self.now(), wait.into())?;
        match refusal {
            TurnAnswer::PrincipalFull => Some(NoSlot::PrincipalFull),
            TurnAnswer::Full => Some(NoSlot::Full),
            TurnAnswer::WouldBeLate => Some(NoSlot::Late),
            TurnAnswer::Runs | TurnAnswer::Waits(_) => None,
        }
    }

    async fn take_as(
        &self,
        principal: &P,
        deadline: Instant,
        ask: impl FnOnce(&mut State<P>, MonoTime) -> TurnAnswer,
    ) -> Result<Slot<'_, P>, NoSlot> {
        let mut place = {
            let mut state = self.state.lock();
            let since = self.now();
            match ask(&mut state, since) {
                TurnAnswer::Runs => return Ok(self.slot(&mut state)),
                TurnAnswer::PrincipalFull => return Err(NoSlot::PrincipalFull),
                TurnAnswer::Full => return Err(NoSlot::Full),
                TurnAnswer::WouldBeLate => return Err(NoSlot::Late),
                TurnAnswer::Waits(waiter) => {
                    state.limit.was_full();
                    let (caller, called) = oneshot::channel();
                    state.callers.insert(waiter, caller);
                    QueuePlace { slots: self, principal, waiter, called, since, has_ended: false }
                }
            }
        };
        match timeout_at(deadline, &mut place.called).await {
            Ok(Ok(())) => Ok(place.into_slot()),
            _ => Err(NoSlot::Late),
        }
    }

    fn now(&self) -> MonoTime {
        MonoTime(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn slot(&self, state: &mut State<P>) -> Slot<'_, P> {
        Slot { slots: self, since: Instant::now(), start: state.limit.begin(self.now()), pattern: None }
    }

    /// Slots in use.
    pub fn running(&self) -> usize {
        self.state.lock().turns.running()
    }

    /// Runs that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().turns.waiting()
    }
}

/// Lets the number of slots follow the time, until nobody else has the slots.
pub async fn tick_while_used<P: Ord + Clone>(slots: Weak<Slots<P>>) {
    while let Some(slots) = slots.upgrade() {
        slots.tick();
        drop(slots);
        tokio::time::sleep(Duration::from_millis(ORIGIN_LIMIT_TICK_MS)).await;
    }
}

impl<P: Ord + Clone> Slot<'_, P> {
    /// The run has ended, and its time says something about the server.
    pub fn ended_as(mut self, pattern: PatternId) {
        self.pattern = Some(pattern);
    }
}

impl<P: Ord + Clone> State<P> {
    /// A wait has ended. One with a probe in it may have been for the probe.
    fn note_wait(&mut self, since: MonoTime, now: MonoTime) {
        if !self.limit.was_probing_since(since) {
            self.leftover.waited(since, now);
        }
    }

    /// There are as many slots as the limit says now.
    fn resize(&mut self) {
        for waiter in self.turns.resize(self.limit.limit(), self.limit.learned()) {
            self.call(Some(waiter));
        }
    }

    /// Calls the next run. When its future is gone already, dropping its guard passes the slot on.
    fn call(&mut self, next: Option<WaiterId>) {
        if let Some(caller) = next.and_then(|waiter| self.callers.remove(&waiter)) {
            let _ = caller.send(());
        }
    }
}

impl<P: Ord + Clone> Drop for Slot<'_, P> {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        state.limit.end(self.slots.now(), self.start, self.pattern);
        state.resize();
        let next = state.turns.done_after(self.since.elapsed().into());
        state.call(next);
    }
}

/// A place in the queue.
struct QueuePlace<'a, 'p, P: Ord + Clone> {
    slots: &'a Slots<P>,
    principal: &'p P,
    waiter: WaiterId,
    called: oneshot::Receiver<()>,
    since: MonoTime,
    has_ended: bool,
}

impl<'a, P: Ord + Clone> QueuePlace<'a, '_, P> {
    fn into_slot(mut self) -> Slot<'a, P> {
        self.has_ended = true;
        let mut state = self.slots.state.lock();
        state.note_wait(self.since, self.slots.now());
        self.slots.slot(&mut state)
    }
}

impl<P: Ord + Clone> Drop for QueuePlace<'_, '_, P> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut state = self.slots.state.lock();
        state.note_wait(self.since, self.slots.now());
        state.callers.remove(&self.waiter);
        if let Left::Slot(next) = state.turns.leave(self.principal, self.waiter) {
            state.call(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use hopcache_core::limits::ORIGIN_LEFTOVER_WAITS;

    use super::*;

    const BOUNDS: TurnBounds = TurnBounds { slots: 1, waiting_per_principal: 2, waiting: 3 };

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// The schedule in the module's header: called, and dropped before it was polled.
    #[tokio::test]
    async fn a_called_run_that_is_dropped_gives_its_slot_on() {
        let slots = Slots::new(BOUNDS);
        let running = slots.take(&'a', soon()).await.unwrap();
        let mut next = Box::pin(slots.take(&'a', soon()));
        let mut last = pin!(slots.take(&'b', soon()));
        assert!(poll(next.as_mut()).is_pending() && poll(last.as_mut()).is_pending());
        drop(running);
        drop(next);
        let slot = last.await.expect("the slot went on");
        assert_eq!((slots.running(), slots.waiting()), (1, 0));
        drop(slot);
        assert_eq!(slots.running(), 0);
    }

    #[tokio::test]
    async fn a_waiting_run_that_is_dropped_holds_nothing() {
        let slots = Slots::new(BOUNDS);
        let running = slots.take(&'a', soon()).await.unwrap();
        {
            let mut waits = pin!(slots.take(&'a', soon()));
            assert!(poll(waits.as_mut()).is_pending());
            assert_eq!(slots.waiting(), 1);
        }
        assert_eq!(slots.waiting(), 0);
        drop(running);
        assert_eq!(slots.running(), 0);
        assert!(slots.state.lock().callers.is_empty());
    }

    /// Runs that take ten times as long together as alone bring the number of slots down. A waiting run is called when it
    /// rises again, also if no other run ends.
    #[tokio::test(start_paused = true)]
    async fn the_number_of_slots_follows_the_times_of_runs() {
        let slots = Slots::within(
            TurnBounds { slots: 8, waiting_per_principal: 100, waiting: 100 },
            LimitBounds { min: 2, max: 8 },
            0,
        );
        let pattern = PatternId(1);
        let pass = async |ms| tokio::time::sleep(Duration::from_millis(ms)).await; // tidy: virtual time
        for _ in 0..20 {
            let alone = slots.take(&'a', soon()).await.unwrap();
            pass(10).await;
            alone.ended_as(pattern);
        }
        let before = slots.limit();
        for _ in 0..40 {
            let mut running = Vec::new();
            while running.len() < slots.limit()
                && let Ok(slot) = slots.take(&'a', Instant::now()).await
            {
                running.push(slot);
            }
            pass(100).await;
            running.into_iter().for_each(|slot| slot.ended_as(pattern));
            slots.tick();
        }
        assert!(slots.limit() < before, "{} slots after {before}", slots.limit());
        assert!(!slots.has_spare(), "nothing is left over for runs that nobody waits for");
    }

    /// Issue 18, point 3: with a fixed number of slots, too, nothing is left over while runs wait, and for a moment after.
    #[tokio::test(start_paused = true)]
    async fn a_wait_leaves_nothing_over_for_prefetch() {
        let slots = Slots::new(BOUNDS);
        assert!(slots.has_spare());
        let running = slots.take(&'a', soon()).await.unwrap();
        let mut next = Box::pin(slots.take(&'a', soon()));
        assert!(slots.has_spare(), "nobody has waited");
        assert!(poll(next.as_mut()).is_pending());
        assert!(!slots.has_spare(), "one waits");
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: virtual time
        drop(running);
        drop(next.await.unwrap());
        assert!(!slots.has_spare(), "one has just waited");
        tokio::time::sleep(Duration::from_millis(20 * ORIGIN_LEFTOVER_WAITS)).await; // tidy: virtual time
        assert!(slots.has_spare());
    }

    /// Issue 18, point 3: a wait that its client gave up was a wait.
    #[tokio::test(start_paused = true)]
    async fn a_wait_that_is_given_up_leaves_nothing_over() {
        let slots = Slots::new(BOUNDS);
        let running = slots.take(&'a', soon()).await.unwrap();
        let mut next = Box::pin(slots.take(&'a', soon()));
        assert!(poll(next.as_mut()).is_pending());
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: virtual time
        drop(next);
        drop(running);
        assert!(!slots.has_spare(), "one has just waited");
        tokio::time::sleep(Duration::from_millis(20 * ORIGIN_LEFTOVER_WAITS)).await; // tidy: virtual time
        assert!(slots.has_spare());
    }

    /// Issue 18, point 3: runs that wait for a probe of the limit say nothing about Neo4j.
    #[tokio::test(start_paused = true)]
    async fn a_wait_for_a_probe_leaves_over_what_was() {
        let bounds = TurnBounds { slots: 4, waiting_per_principal: 100, waiting: 100 };
        let slots = Slots::within(bounds, LimitBounds { min: 1, max: 4 }, 0);
        slots.state.lock().limit.was_full();
        while !slots.state.lock().limit.is_probing() {
            tokio::time::sleep(Duration::from_millis(5)).await; // tidy: virtual time
            slots.tick();
        }
        let running = slots.take(&'a', soon()).await.unwrap();
        let mut next = Box::pin(slots.take(&'a', soon()));
        assert!(poll(next.as_mut()).is_pending(), "one run at a time in a probe");
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: virtual time
        drop(running);
        drop(next.await.unwrap());
        assert!(slots.has_spare());
    }

    /// F40: a prefetch takes no slot that a client's run waits for, and not the last free one.
    #[tokio::test(start_paused = true)]
    async fn a_prefetch_leaves_the_last_slot_to_clients() {
        let slots = Slots::new(TurnBounds { slots: 2, ..BOUNDS });
        let prefetch = async || {
            let as_prefetch = (RunClass::Prefetch, PatternId(1));
            slots.take_in_time(&'p', as_prefetch, soon()).await.map(drop)
        };
        assert_eq!(prefetch().await, Ok(()));
        let running = slots.take(&'a', soon()).await.unwrap();
        assert_eq!(prefetch().await, Err(NoSlot::Late), "the last free slot");
        let other = slots.take(&'a', soon()).await.unwrap();
        let mut next = Box::pin(slots.take(&'a', soon()));
        assert!(poll(next.as_mut()).is_pending());
        drop(running);
        assert_eq!(prefetch().await, Err(NoSlot::Late), "the slot of the run that waited");
        drop((other, next.await.unwrap()));
        assert_eq!(prefetch().await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_are_bounded_in_number_and_time() {
        let slots = Slots::new(BOUNDS);
        let _running = slots.take(&'a', soon()).await.unwrap();
        let mut waiting: Vec<_> = "aab".chars().collect();
        let mut futures: Vec<_> =
            waiting.iter_mut().map(|principal| Box::pin(slots.take(principal, soon()))).collect();
        assert!(futures.iter_mut().all(|future| poll(future.as_mut()).is_pending()));
        assert_eq!(slots.take(&'a', soon()).await.err(), Some(NoSlot::PrincipalFull));
        assert_eq!(slots.take(&'c', soon()).await.err(), Some(NoSlot::Full));
        for late in futures {
            assert_eq!(late.await.err(), Some(NoSlot::Late));
        }
        assert_eq!((slots.running(), slots.waiting()), (1, 0));
    }
}
