//! The ends of launched prefetches. Each launch has a ticket that is pending until it is used, late or wasted, once.
//! This module launches nothing.
//!
//! launched = used + late + wasted + pending, on each node, in every order of events:
//!
//! - *used*: the first demand hit on its copy, or the hand-over of the copy to a new owner, which asks because a client
//!   asked it. The hit is one of a client of this node, or a forwarded one (near copies are given out only on forwarded
//!   requests).
//! - *late*: a demand request joined the flight. If it joined before the run began, the ticket is late when the run
//!   begins.
//! - *wasted*: every other end: the run failed or was refused, the copy was dead, evicted, purged, flushed or replaced.
//! - A node that ends leaves its tickets pending.
//!
//! Only the copy and the run hold the ticket ([`Ticket`] in an `Arc`); the table holds it weakly. A copy may go in any
//! way (the memory evicts it · a purge · a newer one takes its place · its task panics). The ticket is dropped with its
//! last holder, and a ticket that is still pending then is wasted. The state is one atomic number. The thread that moves
//! it from pending counts the end, so two threads cannot both count it:
//!   a client hits the copy · the memory evicts it · both settle · one of them finds it settled.
//! A hit costs one look at a pointer, and on a prefetched copy one more look at an atomic. Only the first hit takes a
//! lock.
//!
//! A memory may keep a dead copy for long, because a cache evicts only when it must. So a ticket knows when its copy is
//! dead. [`Tickets::sweep`] runs each time the invalidation log is read, which bounds the delay.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::PREFETCH_TICKETS_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::time::MonoTime;
use hopcache_learning::budget::{Budget, Price};
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::precision::Calibration;
use hopcache_learning::{FormId, SourceId};
use parking_lot::Mutex;

use crate::cache::Provenance;
use crate::model::event::{Event, PrefetchWord};
use crate::model::inspection::PrefetchedView;
use crate::model::order::{Order, Skip};
use crate::model::ports::Observer;

/// How a launch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// A demand request was answered with its copy.
    Used,
    /// A demand request came while it ran, and joined it.
    Late,
    /// No demand request came before it ended.
    Wasted,
}

impl Resolution {
    /// Whether the prediction was right: late counts as used.
    #[must_use]
    pub const fn is_used(self) -> bool {
        matches!(self, Self::Used | Self::Late)
    }
}

/// Plain data: a launch that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResolvedLaunch {
    /// The query that was asked before.
    pub source: SourceId,
    /// The successor of it.
    pub form: FormId,
    /// The kind of candidate.
    pub kind: CandidateKind,
    /// The probability that was predicted.
    pub p: f64,
    /// How it ended.
    pub resolution: Resolution,
}

/// Learns from launches. Every end of a ticket calls it, also a hit or the memory's own housekeeping. So it only takes
/// a note, and never calls a room of the engine or its memory.
pub trait Learner: Send + Sync + 'static {
    /// A run of this successor begins.
    fn launched(&self, source: SourceId, form: FormId);
    /// A launch ended.
    fn resolved(&self, resolved: &ResolvedLaunch);
    /// The server refuses the statement itself: the form is not to be launched again for a while.
    fn refused(&self, source: SourceId, form: FormId);
    /// Whether the server refused it not long ago.
    fn is_refused(&self, _form: FormId) -> bool {
        false
    }
    /// The query that was asked before, for display; `None` if it is no longer known.
    fn text_of(&self, source: SourceId) -> Option<String>;
}

const PENDING: u8 = 0;
const USED: u8 = 1;
const LATE: u8 = 2;
const WASTED: u8 = 3;

/// One launch.
pub(super) struct Ticket {
    tickets: Arc<Tickets>,
    number: u64,
    source: SourceId,
    form: FormId,
    kind: CandidateKind,
    p: f64,
    by: NodeName,
    price: Price,
    state: AtomicU8,
    /// When its copy is dead, in microseconds of the node's clock; never while it has none.
    dead_at: AtomicU64,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Ticket")
            .field("number", &self.number)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Ticket {
    /// Ends the ticket, if nothing has. Returns whether this call did.
    fn settle(&self, resolution: Resolution) -> bool {
        let word = match resolution {
            Resolution::Used => USED,
            Resolution::Late => LATE,
            Resolution::Wasted => WASTED,
        };
        if self.state.load(Ordering::Relaxed) != PENDING || self.tickets.has_ended.load(Ordering::Acquire) {
            return false;
        }
        let settled = self.state.compare_exchange(PENDING, word, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if settled {
            self.tickets.settled(self, resolution);
        }
        settled
    }

    /// Its copy is no answer from `dead_at` on.
    pub(super) fn is_dead_at(&self, dead_at: MonoTime) {
        self.dead_at.store(dead_at.0, Ordering::Relaxed);
    }
}

/// The ticket as its copy sees it.
impl Provenance for Ticket {
    fn used(&self) {
        self.settle(Resolution::Used);
    }

    fn joined(&self) {
        self.settle(Resolution::Late);
    }

    fn flush(&self) -> bool {
        self.settle(Resolution::Wasted)
    }

    fn view(&self) -> PrefetchedView {
        let text = self.tickets.learner.get().and_then(|learner| learner.text_of(self.source));
        let because = text.unwrap_or_else(|| match self.source {
            SourceId::Pattern(tag) => format!("pattern {:016x}", tag.0),
            SourceId::Query(tag) => format!("query {:016x}", tag.0),
        });
        let is_used = matches!(self.state.load(Ordering::Relaxed), USED | LATE);
        PrefetchedView { because, by: self.by.clone(), kind: self.kind, p: self.p, is_used }
    }

    fn weight_bytes(&self) -> usize {
        size_of::<Self>()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.settle(Resolution::Wasted);
    }
}

/// All launches of a node, their budget, and the accuracy of predictions.
pub(super) struct Tickets {
    observer: Arc<dyn Observer>,
    learner: OnceLock<Arc<dyn Learner>>,
    budget: Mutex<Budget>,
    calibration: Mutex<Calibration>,
    table: Mutex<Table>,
    /// The number of entries in [`Table::flying`]. Most joined flights find none, and take no lock for it.
    flying: AtomicUsize,
    has_ended: AtomicBool,
}

/// Never locked while a ticket may be dropped. No other lock is taken under this one.
#[derive(Default)]
struct Table {
    last: u64,
    pending: BTreeMap<u64, Weak<Ticket>>,
    flying: HashMap<QueryKey, FlyingLaunch>,
}

/// A flight that was launched and has not ended.
#[derive(Default)]
struct FlyingLaunch {
    ticket: Option<Weak<Ticket>>,
    /// Whether a demand request joined it before its run began.
    is_joined: bool,
}

/// A flight's permit: it counts against the bound on flights, and it has a token of the budget. If it is dropped before
/// a run began, the token goes back.
pub(super) struct LaunchPermit {
    tickets: Arc<Tickets>,
    key: QueryKey,
    price: Price,
    has_token: AtomicBool,
}

impl Tickets {
    pub(super) fn new(observer: Arc<dyn Observer>) -> Arc<Self> {
        Arc::new(Self {
            observer,
            learner: OnceLock::new(),
            budget: Mutex::default(),
            calibration: Mutex::default(),
            table: Mutex::default(),
            flying: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
        })
    }

    pub(super) fn teach(&self, learner: Arc<dyn Learner>) -> bool {
        self.learner.set(learner).is_ok()
    }

    /// A demand miss ran at the origin. Runs of its pattern take `run_ms`, if that is known.
    pub(super) fn demand_miss(&self, run_ms: Option<f64>) {
        self.budget.lock().demand_miss(run_ms);
    }

    pub(super) fn calibrated(&self, kind: CandidateKind, p: f64) -> f64 {
        self.calibration.lock().effective(kind, p)
    }

    pub(super) fn pending(&self) -> usize {
        self.table.lock().pending.len()
    }

    pub(super) fn flying(&self) -> usize {
        self.flying.load(Ordering::Relaxed)
    }

    pub(super) fn tokens(&self) -> i64 {
        self.budget.lock().tokens()
    }

    /// A permit for one of at most `runs_max` flights, paid for a run that takes about `run_ms`.
    pub(super) fn begin(
        self: &Arc<Self>,
        key: &QueryKey,
        runs_max: usize,
        run_ms: Option<f64>,
    ) -> Result<LaunchPermit, Skip> {
        {
            let mut table = self.table.lock();
            if table.flying.contains_key(key) {
                return Err(Skip::InFlight);
            }
            if table.pending.len() + table.flying.len() >= PREFETCH_TICKETS_MAX {
                return Err(Skip::Full);
            }
            if table.flying.len() >= runs_max {
                return Err(Skip::OriginBusy);
            }
            table.flying.insert(*key, FlyingLaunch::default());
            self.flying.store(table.flying.len(), Ordering::Release);
        }
        let (price, has_token) = {
            let mut budget = self.budget.lock();
            let price = budget.price(run_ms);
            (price, budget.take(price))
        };
        let has_price = AtomicBool::new(has_token);
        let permit = LaunchPermit { tickets: Arc::clone(self), key: *key, price, has_token: has_price };
        if has_token { Ok(permit) } else { Err(Skip::Budget) }
    }

    /// A demand request joined the flight of a key, which may be a miss's. The caller has asked the table of flights
    /// before. A prefetch that landed in between is not found here; then the request meets the ticket at the copy that
    /// it gets.
    pub(super) fn joined(&self, key: &QueryKey) {
        if self.flying.load(Ordering::Acquire) == 0 {
            return;
        }
        let ticket = {
            let mut table = self.table.lock();
            let Some(flying) = table.flying.get_mut(key) else { return };
            flying.is_joined = true;
            flying.ticket.as_ref().and_then(Weak::upgrade)
        };
        if let Some(ticket) = ticket {
            ticket.settle(Resolution::Late);
        }
    }

    /// Ends the tickets of copies that are dead.
    pub(super) fn sweep(&self, now: MonoTime) {
        for ticket in self.all_pending() {
            if ticket.dead_at.load(Ordering::Relaxed) <= now.0 {
                ticket.settle(Resolution::Wasted);
            }
        }
    }

    /// Settles nothing any more: the node ends.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    pub(super) fn refused(&self, order: &Order) {
        if let Some(learner) = self.learner.get() {
            learner.refused(order.source, order.form);
        }
    }

    pub(super) fn is_refused(&self, form: FormId) -> bool {
        self.learner.get().is_some_and(|learner| learner.is_refused(form))
    }

    fn all_pending(&self) -> Vec<Arc<Ticket>> {
        self.table.lock().pending.values().filter_map(Weak::upgrade).collect()
    }

    fn settled(&self, ticket: &Ticket, resolution: Resolution) {
        self.table.lock().pending.remove(&ticket.number);
        if resolution.is_used() {
            self.budget.lock().used(ticket.price);
            self.calibration.lock().used(ticket.kind, ticket.p);
        }
        let (kind, p) = (ticket.kind, ticket.p);
        self.observer.note(Event::Prefetch(match resolution {
            Resolution::Used => PrefetchWord::Used(kind),
            Resolution::Late => PrefetchWord::Late(kind),
            Resolution::Wasted => PrefetchWord::Wasted(kind),
        }));
        if let Some(learner) = self.learner.get() {
            learner.resolved(&ResolvedLaunch {
                source: ticket.source,
                form: ticket.form,
                kind,
                p,
                resolution,
            });
        }
    }
}

impl LaunchPermit {
    /// The run begins: from now on there is a ticket for it, and its token is spent.
    pub(super) fn open(&self, order: &Order) -> Arc<Ticket> {
        self.has_token.store(false, Ordering::Release);
        let tickets = &self.tickets;
        tickets.observer.note(Event::Prefetch(PrefetchWord::Launched(order.kind)));
        tickets.calibration.lock().launched(order.kind, order.p);
        if let Some(learner) = tickets.learner.get() {
            learner.launched(order.source, order.form);
        }
        let (ticket, is_joined) = {
            let mut table = tickets.table.lock();
            table.last += 1;
            let ticket = Arc::new(Ticket {
                tickets: Arc::clone(tickets),
                number: table.last,
                source: order.source,
                form: order.form,
                kind: order.kind,
                p: order.p,
                by: order.by.clone(),
                price: self.price,
                state: AtomicU8::new(PENDING),
                dead_at: AtomicU64::new(u64::MAX),
            });
            let number = table.last;
            table.pending.insert(number, Arc::downgrade(&ticket));
            let flying = table.flying.entry(self.key).or_default();
            flying.ticket = Some(Arc::downgrade(&ticket));
            (ticket, flying.is_joined)
        };
        if is_joined {
            ticket.settle(Resolution::Late);
        }
        ticket
    }
}

impl Drop for LaunchPermit {
    fn drop(&mut self) {
        {
            let mut table = self.tickets.table.lock();
            table.flying.remove(&self.key);
            self.tickets.flying.store(table.flying.len(), Ordering::Release);
        }
        if *self.has_token.get_mut() {
            self.tickets.budget.lock().give_back(self.price);
        }
    }
}

#[cfg(test)]
mod tests;
