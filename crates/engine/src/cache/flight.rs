//! Single flight: one leader for each key, any number of followers, every end of a flight told to all.
//!
//! This module decides who leads and who follows. It never runs anything: the leader's work is the
//! caller's, in a task that no client owns, so a client that leaves cancels nothing (F3).
//!
//! The race that the lock closes, two requests A and B for one key:
//! A looks up and finds nothing; B looks up and finds nothing; A inserts and leads; B inserts and leads.
//! So look-up and insertion are one step under the lock. So are, at the other end, telling and removing:
//! A tells its end; B wakes, wants to try again and joins what A has not removed yet; B is told the old end
//! as if it were new. Or A removes; B finds nothing and leads while A's followers still wait.
//! Who finds no flight finds the value in memory, where its leader put it before it landed.
//!
//! Every way in which a flight ends has a name. The table's own are [`Wait`]; what a landed flight says
//! is `Landing` (`lead.rs`); what a request makes of that is the outcome of `here.rs`. The column
//! FAULTS has the words of that file. Tests are in `crates/sim/tests/flight_ends.rs` unless a file is named.
//!
//! | FAULTS | name in the code | what the waiters get | test |
//! |---|---|---|---|
//! | computing | `State::Computing`, `FlightTable::followers` | they wait; new ones join | `a_flight_under_way_is_joined_and_seen` |
//! | done | `Wait::Landed`, `Landing::Ran`, `Kept::Stored` | the value | `done_everybody_gets_the_value_and_it_is_kept` |
//! | done, by another node | `Landing::Found` | the value of the store | `done_elsewhere_is_found_in_the_store` |
//! | done, but stale | `Landing::Stale` | the stale value; a refresh runs | `stale_is_served_to_all_while_one_refresh_runs` |
//! | done, but fenced | `Landing::Ran`, `Kept::Fenced` | the value, not kept (I3) | `fenced_is_answered_and_not_kept` |
//! | error of the statement | `Landing::Failed`, `OriginFault::Failed`, `TooLarge` | the error, from one run | `an_error_of_the_statement_is_everybodys` |
//! | transient error | `Landing::Failed`, any other fault | one more flight, then the error | `a_transient_error_is_tried_once_more_by_one` |
//! | uncacheable, do not serialise | `Landing::Ran`, `Kept::Skipped`, `Detail::{TooLarge, Updates, Off}` | the value of the one run; whoever asks later runs beside the others, not behind them | `uncacheable_waiters_are_not_serialised` |
//! | no read at all | `Landing::NotARead` | each runs for itself, all at once | `not_a_read_sets_all_free_at_once` |
//! | holder gone | `Wait::Lost` (panic, abort); between nodes `win.rs` `is_dead`, `GrantKind::Stolen` | they compete again, one leads (F4) | `a_lost_leader_costs_one_more_run_and_no_lease`, `promises.rs` F1 |
//! | waiter's patience over | `FailureKind::DeadlinePassed` | 504 for that one; the flight goes on | `a_waiters_patience_ends_for_itself_alone` |
//! | waiter's patience over, with a spare | `spare_when_overdue` (`spares.rs`) | the stale answer, marked; the flight goes on | `stale_if_error.rs` `a_slow_run_is_waited_for_as_long_as_runs_usually_take` |
//! | any outage, with a spare | `or_spare` (`spares.rs`) | the stale answer, marked | `stale_if_error.rs` `every_outage_is_answered_by_a_dead_copy_at_every_node` |
//! | holder too old | `is_holder_too_old` (`here.rs`) | they compete again (I4) | `a_holder_too_old_is_not_believed` |
//! | detached | [`FlightTable::detach`] | those who follow get its value; later ones fly anew | `promises.rs` `a_result_read_before_a_purge_does_not_outlive_it` |
//! | no room | [`Seat::Full`], `FailureKind::Overloaded` | 503 | `over_the_cap_is_refused_and_the_flight_goes_on` |

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::seams::{AtomicU32, Mutex, Notify, Ordering, Seed, is_seeded};

/// Plain data: bounds of a table (promise I9).
#[derive(Debug, Clone, Copy)]
pub struct FlightBounds {
    /// Flights at a time.
    pub flights_max: usize,
    /// Followers of one flight at a time.
    pub followers_max: u32,
}

/// Flights under way, by key.
pub struct FlightTable<K, V> {
    flights: Mutex<HashMap<K, Arc<Flight<V>>>>,
    bounds: FlightBounds,
}

struct Flight<V> {
    state: Mutex<State<V>>,
    /// Wakes its waiters in the order in which they came, so that a simulated run can be repeated
    /// (tokio's watch channel wakes in random order).
    ended: Notify,
    /// Those who wait now: who leaves makes room.
    followers: AtomicU32,
}

enum State<V> {
    Computing,
    Landed(V),
    Lost,
}

/// What a request becomes when it meets the table.
pub enum Seat<K: Eq + Hash + Clone, V: Clone> {
    /// It leads: it has to [`Leader::land`].
    Lead(Leader<K, V>),
    /// It waits for the leader.
    Follow(Follower<V>),
    /// Neither: the table or the flight is full.
    Full,
}

/// How a flight ended for a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait<V> {
    /// With the leader's word, a value or an error.
    Landed(V),
    /// The leader panicked or was dropped: compete again (F4).
    Lost,
}

impl<K: Eq + Hash + Clone, V: Clone> FlightTable<K, V> {
    /// An empty table.
    #[must_use]
    pub fn new(bounds: FlightBounds) -> Arc<Self> {
        Arc::new(Self { flights: Mutex::new(HashMap::new()), bounds })
    }

    /// Takes a seat for `key`.
    pub fn join(self: &Arc<Self>, key: &K) -> Seat<K, V> {
        let mut flights = self.flights.lock();
        if let Some(flight) = flights.get(key) {
            if flight.followers.load(Ordering::Relaxed) >= self.bounds.followers_max {
                return Seat::Full;
            }
            let flight = Arc::clone(flight);
            if is_seeded(Seed::CountLater) {
                drop(flights);
            }
            // Leavers count down beside the lock; nobody else counts up.
            flight.followers.fetch_add(1, Ordering::Relaxed);
            return Seat::Follow(Follower { flight, kind: SeatKind::Counted });
        }
        if is_seeded(Seed::InsertLater) {
            drop(flights);
            flights = self.flights.lock();
        }
        if flights.len() >= self.bounds.flights_max {
            return Seat::Full;
        }
        let flight = Arc::new(Flight {
            state: Mutex::new(State::Computing),
            ended: Notify::new(),
            followers: AtomicU32::new(0),
        });
        flights.insert(key.clone(), Arc::clone(&flight));
        Seat::Lead(Leader { table: Arc::clone(self), key: key.clone(), flight, landed: false })
    }

    /// Flights under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flights.lock().len()
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `key` has a flight, and how many follow it.
    #[must_use]
    pub fn followers(&self, key: &K) -> Option<u32> {
        self.flights.lock().get(key).map(|flight| flight.followers.load(Ordering::Relaxed))
    }

    /// Takes flights out of the table, so that requests from now on start new ones; those who follow
    /// still get their leader's value. An invalidation does this: the flight may have read before it.
    pub fn detach(&self, covers: impl Fn(&K) -> bool) -> usize {
        let mut flights = self.flights.lock();
        let before = flights.len();
        flights.retain(|key, _| !covers(key));
        before - flights.len()
    }
}

/// The leader's duty. Dropped without landing (a panic, an abort), it tells its followers that it
/// was lost.
pub struct Leader<K: Eq + Hash + Clone, V: Clone> {
    table: Arc<FlightTable<K, V>>,
    key: K,
    flight: Arc<Flight<V>>,
    landed: bool,
}

impl<K: Eq + Hash + Clone, V: Clone> Leader<K, V> {
    /// A follower's seat on this very flight, for the request that leads it through a detached task.
    #[must_use]
    pub fn follow(&self) -> Follower<V> {
        Follower { flight: Arc::clone(&self.flight), kind: SeatKind::Leaders }
    }

    /// Whether requests can still join (no invalidation took the flight out of the table).
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.table.flights.lock().get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
    }

    /// Tells everyone, and ends the flight. Returns how many followed it to its end.
    pub fn land(mut self, value: V) -> u32 {
        self.landed = true;
        self.end(State::Landed(value))
    }

    fn end(&self, state: State<V>) -> u32 {
        let followers = self.flight.followers.load(Ordering::Relaxed);
        let mut flights = self.table.flights.lock();
        if is_seeded(Seed::TellFirst) {
            drop(flights);
            *self.flight.state.lock() = state;
            self.flight.ended.notify_waiters();
            self.remove(&mut self.table.flights.lock());
            return followers;
        }
        self.remove(&mut flights);
        if is_seeded(Seed::RemoveFirst) {
            drop(flights);
            *self.flight.state.lock() = state;
        } else {
            *self.flight.state.lock() = state;
            drop(flights);
        }
        // Outside the lock: there may be thousands to wake.
        self.flight.ended.notify_waiters();
        followers
    }

    fn remove(&self, flights: &mut HashMap<K, Arc<Flight<V>>>) {
        // Only our own flight: after a detach, the key may belong to a newer one.
        let is_ours = |flight: &Arc<Flight<V>>| Arc::ptr_eq(flight, &self.flight);
        if flights.get(&self.key).is_some_and(is_ours) || is_seeded(Seed::RemoveAny) {
            flights.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Leader<K, V> {
    fn drop(&mut self) {
        if !self.landed && !is_seeded(Seed::SilentLoss) {
            self.end(State::Lost);
        }
    }
}

/// A seat that waits. Dropping it (the client left) makes room for another, and changes nothing else for
/// anybody.
pub struct Follower<V> {
    flight: Arc<Flight<V>>,
    kind: SeatKind,
}

/// Whether a seat counts against the flight's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeatKind {
    /// It was joined.
    Counted,
    /// It came with the leader's.
    Leaders,
}

impl<V> Drop for Follower<V> {
    fn drop(&mut self) {
        if self.kind == SeatKind::Counted && !is_seeded(Seed::KeepPlace) {
            self.flight.followers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<V: Clone> Follower<V> {
    /// Waits for the end of the flight. Has no deadline of its own: the caller's bounds it.
    pub async fn wait(self) -> Wait<V> {
        let early = if is_seeded(Seed::LookFirst) { Some(self.look()) } else { None };
        let ended = self.flight.ended.notified();
        tokio::pin!(ended);
        // In line before the look, or an end between look and wait would wake nobody.
        ended.as_mut().enable();
        if let Some(wait) = early.unwrap_or_else(|| self.look()) {
            return wait;
        }
        ended.await;
        self.look().unwrap_or(Wait::Lost)
    }

    fn look(&self) -> Option<Wait<V>> {
        match &*self.flight.state.lock() {
            State::Computing => None,
            State::Landed(value) => Some(Wait::Landed(value.clone())),
            State::Lost => Some(Wait::Lost),
        }
    }
}
