//! Whose run is next: a fixed number of slots, shared by principals in turn.
//!
//! A free slot is taken at once, whoever asks, so one principal alone has all of them (work-conserving).
//! Once runs wait, each slot that becomes free goes to the next principal in a circle, to the run of it
//! that has waited longest. So with P principals waiting, the first run of any of them starts after at
//! most P − 1 others have started, however many runs the others queue (F37). Never decides how long
//! anybody waits, runs nothing and wakes nobody: tickets go in and out.

use std::collections::{BTreeMap, VecDeque};

/// Sizes of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnBounds {
    /// Runs at a time; 0 counts as 1.
    pub slots: usize,
    /// Runs of one principal that may wait.
    pub waiting_per_principal: usize,
    /// Runs that may wait altogether.
    pub waiting: usize,
}

/// A run that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What became of a wish to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// It runs now, and has to be [`Turns::done`].
    Runs,
    /// It waits: until [`Turns::done`] or [`Turns::leave`] names its ticket.
    Waits(Ticket),
    /// As many runs of this principal wait as may.
    PrincipalFull,
    /// As many runs wait altogether as may.
    Full,
}

/// What became of a waiting run that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It had not been called: it is out of the queue and held nothing.
    Queue,
    /// It had been called and held a slot, which now belongs to the run with this ticket, or to nobody.
    Slot(Option<Ticket>),
}

/// The slots and who waits for one.
///
/// Held between calls: somebody waits only while every slot is taken.
#[derive(Debug, Clone)]
pub struct Turns<P> {
    bounds: TurnBounds,
    running: usize,
    waiting: usize,
    queues: BTreeMap<P, VecDeque<Ticket>>,
    /// Each principal with a queue, once; the next one first.
    circle: VecDeque<P>,
    tickets: u64,
}

impl<P: Ord + Clone> Turns<P> {
    /// Nobody runs.
    #[must_use]
    pub fn new(bounds: TurnBounds) -> Self {
        let bounds = TurnBounds { slots: bounds.slots.max(1), ..bounds };
        Self { bounds, running: 0, waiting: 0, queues: BTreeMap::new(), circle: VecDeque::new(), tickets: 0 }
    }

    /// A run of `principal` wants a slot.
    pub fn ask(&mut self, principal: &P) -> Asked {
        if self.running < self.bounds.slots {
            self.running += 1;
            return Asked::Runs;
        }
        let queued = self.queues.get(principal).map_or(0, VecDeque::len);
        if queued >= self.bounds.waiting_per_principal {
            return Asked::PrincipalFull;
        }
        if self.waiting >= self.bounds.waiting {
            return Asked::Full;
        }
        let ticket = Ticket(self.tickets);
        self.tickets += 1;
        self.waiting += 1;
        if queued == 0 {
            self.circle.push_back(principal.clone());
        }
        self.queues.entry(principal.clone()).or_default().push_back(ticket);
        Asked::Waits(ticket)
    }

    /// A run has ended. Its slot belongs to the run that is named, or to nobody.
    pub fn done(&mut self) -> Option<Ticket> {
        let called = self.next();
        match called {
            Some(_) => self.waiting -= 1,
            None => self.running = self.running.saturating_sub(1),
        }
        called
    }

    /// A waiting run is given up, whether it has been called or not.
    pub fn leave(&mut self, principal: &P, ticket: Ticket) -> Left {
        let place = self
            .queues
            .get_mut(principal)
            .and_then(|queue| Some((queue.iter().position(|each| *each == ticket)?, queue)));
        let Some((place, queue)) = place else { return Left::Slot(self.done()) };
        queue.remove(place);
        self.waiting -= 1;
        if queue.is_empty() {
            self.queues.remove(principal);
            self.circle.retain(|each| each != principal);
        }
        Left::Queue
    }

    /// Runs under way.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running
    }

    /// Runs that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn next(&mut self) -> Option<Ticket> {
        let principal = self.circle.pop_front()?;
        let queue = self.queues.get_mut(&principal)?;
        let ticket = queue.pop_front();
        if queue.is_empty() {
            self.queues.remove(&principal);
        } else {
            self.circle.push_back(principal);
        }
        ticket
    }
}
