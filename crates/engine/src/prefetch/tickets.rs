//! What becomes of launched prefetches: each has a ticket that is pending until it is used, late or wasted, once. It
//! launches nothing.
//!
//! launched = used + late + wasted + pending, on each node, whatever happens in whatever order:
//!
//! - *used*: the first demand hit on the copy that it brought, its own client's or a forwarded one (which is the only way in
//!   which a near copy is given out), or its hand-over to a new owner, who asks for a request of its own.
//! - *late*: a demand request joined the flight. What was joined before the run began is late when it begins.
//! - *wasted*: all else that ends: the run failed or was refused, the copy was dead, evicted, purged, flushed or replaced.
//! - A node that ends leaves its tickets pending.
//!
//! The copy, the run and nobody else hold the ticket ([`Ticket`] in an `Arc`); the table has it weakly. So whatever way a
//! copy goes (the memory evicts it · a purge · a newer one takes its place · its task panics), with its last holder
//! the ticket is dropped, and one that is still pending then is wasted. The state is one atomic word, and whoever moves it
//! from pending counts it, so two at once cannot both:
//!   a client hits the copy · the memory evicts it · both settle · one of them finds it settled.
//! A hit costs one look at a pointer, and on a prefetched copy at one word more; a lock only on its first hit.
//!
//! A memory may keep what is dead for long (a cache evicts when it has to). So tickets know when their copy is dead, and are
//! swept ([`Tickets::sweep`]) each time the invalidation log is read: that is the bound on the delay.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hopcache_core::key::QueryKey;
use hopcache_core::limits::PREFETCH_TICKETS_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::time::MonoTime;
use hopcache_learning::budget::Budget;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::precision::Calibration;
use parking_lot::Mutex;

use super::{FormId, Order, Skip, SourceId};
use crate::outcome::{Event, PrefetchWord};
use crate::ports::Observer;

/// How a launch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// A demand request was answered with it.
    Used,
    /// A demand request came while it ran, and joined it.
    Late,
    /// Nobody wanted it while it lasted.
    Wasted,
}

impl Resolution {
    /// Whether the prediction was right: late counts as used.
    #[must_use]
    pub const fn is_used(self) -> bool {
        matches!(self, Self::Used | Self::Late)
    }
}

/// A launch that ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Resolved {
    /// What was asked before.
    pub source: SourceId,
    /// By which successor of it.
    pub form: FormId,
    /// How the candidate came about.
    pub kind: CandidateKind,
    /// What was foreseen.
    pub p: f64,
    /// How it ended.
    pub resolution: Resolution,
}

/// Who learns from launches. Called from whatever ends a ticket, a hit and the memory's own housekeeping among them: it takes
/// note, briefly, and never calls the engine or its memory from there.
pub trait Learner: Send + Sync + 'static {
    /// A run of this successor begins.
    fn launched(&self, source: SourceId, form: FormId);
    /// A launch ended.
    fn resolved(&self, resolved: &Resolved);
    /// The server refuses the statement itself: it is not to be launched again for a while.
    fn refused(&self, source: SourceId, form: FormId);
    /// Whether the server refused it not long ago.
    fn is_refused(&self, _form: FormId) -> bool {
        false
    }
    /// What was asked before, for people; nothing where it is not known any more.
    fn text_of(&self, source: SourceId) -> Option<String>;
}

/// What there is to say of an entry that was prefetched.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefetchedView {
    /// What was asked before: its text, or its tag where the text is not known.
    pub because: String,
    /// The node that launched it.
    pub by: NodeName,
    /// How the candidate came about.
    pub kind: CandidateKind,
    /// What was foreseen.
    pub p: f64,
    /// Whether somebody has asked for it since.
    pub is_used: bool,
}

const PENDING: u8 = 0;
const USED: u8 = 1;
const LATE: u8 = 2;
const WASTED: u8 = 3;

/// One launch.
pub(crate) struct Ticket {
    tickets: Arc<Tickets>,
    number: u64,
    source: SourceId,
    form: FormId,
    kind: CandidateKind,
    p: f64,
    by: NodeName,
    state: AtomicU8,
    /// When its copy is dead, in microseconds of the node's clock; never while there is none.
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
    /// A demand request was answered with the copy, or is about to be.
    pub(crate) fn used(&self) {
        self.settle(Resolution::Used);
    }

    /// Ends it, if nothing has; whether this did.
    pub(crate) fn settle(&self, resolution: Resolution) -> bool {
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

    /// From then on its copy is no answer any more.
    pub(crate) fn is_dead_at(&self, dead_at: MonoTime) {
        self.dead_at.store(dead_at.0, Ordering::Relaxed);
    }

    pub(crate) fn view(&self) -> PrefetchedView {
        let text = self.tickets.learner.get().and_then(|learner| learner.text_of(self.source));
        let because = text.unwrap_or_else(|| match self.source {
            SourceId::Pattern(tag) => format!("pattern {:016x}", tag.0),
            SourceId::Query(tag) => format!("query {:016x}", tag.0),
        });
        let is_used = matches!(self.state.load(Ordering::Relaxed), USED | LATE);
        PrefetchedView { because, by: self.by.clone(), kind: self.kind, p: self.p, is_used }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.settle(Resolution::Wasted);
    }
}

/// All of a node's launches, what they cost, and what was learned by them.
pub(crate) struct Tickets {
    observer: Arc<dyn Observer>,
    learner: OnceLock<Arc<dyn Learner>>,
    budget: Mutex<Budget>,
    calibration: Mutex<Calibration>,
    table: Mutex<Table>,
    /// How many [`Table::flying`] has: most joined flights find none, and take no lock for it.
    flying: AtomicUsize,
    has_ended: AtomicBool,
}

/// Locked never while a ticket may be dropped, nor anything else is locked.
#[derive(Default)]
struct Table {
    last: u64,
    pending: BTreeMap<u64, Weak<Ticket>>,
    flying: HashMap<QueryKey, Flying>,
}

/// A flight that was launched and has not ended.
#[derive(Default)]
struct Flying {
    ticket: Option<Weak<Ticket>>,
    /// A demand request joined it before its run began.
    is_joined: bool,
}

/// A flight's place among those that may be under way, and its token. Dropped before a run began, the token goes back.
pub(crate) struct Place {
    tickets: Arc<Tickets>,
    key: QueryKey,
    has_token: bool,
}

impl Tickets {
    pub(crate) fn new(observer: Arc<dyn Observer>) -> Arc<Self> {
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

    pub(crate) fn teach(&self, learner: Arc<dyn Learner>) -> bool {
        self.learner.set(learner).is_ok()
    }

    /// A demand miss ran at the origin.
    pub(crate) fn demand_miss(&self) {
        self.budget.lock().demand_miss();
    }

    pub(crate) fn calibrated(&self, kind: CandidateKind, p: f64) -> f64 {
        self.calibration.lock().effective(kind, p)
    }

    pub(crate) fn pending(&self) -> usize {
        self.table.lock().pending.len()
    }

    pub(crate) fn flying(&self) -> usize {
        self.flying.load(Ordering::Relaxed)
    }

    pub(crate) fn tokens(&self) -> i64 {
        self.budget.lock().tokens()
    }

    /// A place among at most `runs_max`, and a token.
    pub(crate) fn begin(self: &Arc<Self>, key: &QueryKey, runs_max: usize) -> Result<Place, Skip> {
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
            table.flying.insert(*key, Flying::default());
            self.flying.store(table.flying.len(), Ordering::Release);
        }
        let has_token = self.budget.lock().take();
        let place = Place { tickets: Arc::clone(self), key: *key, has_token };
        if has_token { Ok(place) } else { Err(Skip::Budget) }
    }

    /// A demand request joined the flight of a key. It may not be a prefetch's; and its table was asked before this one is,
    /// so what landed in between is not found here: then the request meets the ticket at the copy that it is given.
    pub(crate) fn joined(&self, key: &QueryKey) {
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
    pub(crate) fn sweep(&self, now: MonoTime) {
        for ticket in self.all_pending() {
            if ticket.dead_at.load(Ordering::Relaxed) <= now.0 {
                ticket.settle(Resolution::Wasted);
            }
        }
    }

    /// Nothing is settled any more: the node ends.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    pub(crate) fn refused(&self, order: &Order) {
        if let Some(learner) = self.learner.get() {
            learner.refused(order.source, order.form);
        }
    }

    pub(crate) fn is_refused(&self, form: FormId) -> bool {
        self.learner.get().is_some_and(|learner| learner.is_refused(form))
    }

    fn all_pending(&self) -> Vec<Arc<Ticket>> {
        self.table.lock().pending.values().filter_map(Weak::upgrade).collect()
    }

    fn settled(&self, ticket: &Ticket, resolution: Resolution) {
        self.table.lock().pending.remove(&ticket.number);
        if resolution.is_used() {
            self.budget.lock().used();
            self.calibration.lock().used(ticket.kind, ticket.p);
        }
        let (kind, p) = (ticket.kind, ticket.p);
        self.observer.note(Event::Prefetch(match resolution {
            Resolution::Used => PrefetchWord::Used(kind),
            Resolution::Late => PrefetchWord::Late(kind),
            Resolution::Wasted => PrefetchWord::Wasted(kind),
        }));
        if let Some(learner) = self.learner.get() {
            learner.resolved(&Resolved { source: ticket.source, form: ticket.form, kind, p, resolution });
        }
    }
}

impl Place {
    /// The run begins: from now on there is a ticket for it, and its token is spent.
    pub(crate) fn open(&mut self, order: &Order) -> Arc<Ticket> {
        self.has_token = false;
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

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut table = self.tickets.table.lock();
            table.flying.remove(&self.key);
            self.tickets.flying.store(table.flying.len(), Ordering::Release);
        }
        if self.has_token {
            self.tickets.budget.lock().give_back();
        }
    }
}

#[cfg(test)]
mod tests;
