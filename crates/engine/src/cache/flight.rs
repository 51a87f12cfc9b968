//! Single flight: each key has one leader and any number of followers, and every follower learns how the flight ended.
//!
//! This module decides which request leads and which ones follow. It never runs anything: the caller does the leader's work in a task
//! that no client owns, so a client that leaves cancels nothing (F3). There is one exception: the clients of some fronts end what
//! they have asked for, and a flight that only such clients want is abandoned when the last of them has left.
//!
//! Look-up and insertion are one step under the lock. In two steps, requests A and B for one key would both lead:
//!   A finds no flight · B finds no flight · A inserts and leads · B inserts and leads.
//! Telling and removing are one step too. In two steps, telling first, a retry would get an old end as if it were new:
//!   A tells its end · B wakes, tries again and joins A's flight, which is still in the table.
//! With removing first, two flights would overlap:
//!   A removes its flight · B finds none and leads, while A's followers still wait.
//! A request that finds no flight finds the value in memory: the leader puts it there before it lands.
//!
//! # How flights end
//!
//! Every end has a name: [`Wait`] in this table, `FetchResult` (`fetch/result.rs`) for a flight that landed.
//! `path/request.rs` judges what an end means for one request. Tests are in `crates/sim/tests/flight_ends.rs` unless
//! another file is named.
//!
//! - Computing: `State::Computing`. Followers wait, new ones join. Test: `a_flight_under_way_is_joined_and_seen`.
//! - Done: `FetchResult::Ran` with `Kept::Stored` or `Kept::InMemory`. Followers get the value.
//!   Tests: `done_everybody_gets_the_value_and_it_is_kept`, `admission.rs`.
//! - Done by another node: `FetchResult::Found`. Followers get the store's value.
//!   Test: `done_elsewhere_is_found_in_the_store`.
//! - Done, stale: `FetchResult::Stale`. Followers get the stale value, and a refresh runs.
//!   Test: `stale_is_served_to_all_while_one_refresh_runs`.
//! - Done, fenced: `FetchResult::Ran` with `Kept::Fenced`. Followers get the value, and nobody keeps it (I3).
//!   Test: `fenced_is_answered_and_not_kept`.
//! - Statement error: `FetchResult::Failed` with `OriginFault::Failed` or `TooLarge`. Followers get the error of the
//!   one run. Test: `an_error_of_the_statement_is_everybodys`.
//! - Transient error: `FetchResult::Failed`, where `is_leaders_luck` holds. One more flight, then followers get its
//!   error. Test: `a_transient_error_is_tried_once_more_by_one`.
//! - Held back: `FetchResult::HeldBack`. Followers get 503 with the rest of the pause, or a stale fallback; nothing
//!   runs. Test: `stale_if_error.rs` `a_key_that_is_held_back_is_answered_at_once`.
//! - Uncacheable: `FetchResult::Ran` with `Kept::Skipped` and `Detail::{TooLarge, Updates, Off}`. Followers get the
//!   value of the one run. Later requests run in parallel, not one after another. Test:
//!   `uncacheable_waiters_are_not_serialised`.
//! - Not a read: `FetchResult::NotARead`. Each follower runs for itself, all at once.
//!   Test: `not_a_read_sets_all_free_at_once`.
//! - Leader gone: `Wait::Lost` (panic, abort). Followers compete again, and one leads (F4).
//!   Test: `a_lost_leader_costs_one_more_run_and_no_lease`.
//! - Leader on another node gone: `is_dead` (`fetch/lease_acquire.rs`), then `GrantKind::Stolen`. A waiting node leads
//!   (F1). Test: `promises.rs` `a_killed_owner_costs_one_more_run_and_no_waiting_for_the_lease`.
//! - Deadline of one request: `FailureKind::DeadlinePassed`. That request gets 504, the flight goes on.
//!   Test: `a_waiters_patience_ends_for_itself_alone`.
//! - Flight overdue, with a fallback: `fallback_when_overdue` (`path/fallback.rs`). The request gets the stale answer,
//!   marked; the flight goes on. Test: `stale_if_error.rs` `a_slow_run_is_waited_for_as_long_as_runs_usually_take`.
//! - Any trouble (`model/trouble.rs`), with a fallback: `or_fallback` (`path/fallback.rs`). The request gets the stale answer, marked.
//!   Test: `stale_if_error.rs` `every_trouble_is_answered_by_a_dead_copy_at_every_node`.
//! - Result too old for a follower: `is_holder_too_old` (`path/answers.rs`). The follower competes again (I4).
//!   Test: `a_holder_too_old_is_not_believed`.
//! - Abandoned: [`Abandonment`]. All clients that wanted it have left. A request that joins at this moment competes again.
//!   Test: `a_flight_that_nobody_wants_is_abandoned`.
//! - Detached: [`FlightTable::detach`]. Its followers get its value; later requests start a new flight.
//!   Test: `promises.rs` `a_result_read_before_a_purge_does_not_outlive_it`.
//! - No room: [`Seat::Full`], `FailureKind::Overloaded`. The request gets 503, the flight goes on.
//!   Test: `over_the_cap_is_refused_and_the_flight_goes_on`.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::sync_shim::{AtomicU32, Mutex, Notify, Ordering};

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
    /// Wakes waiters in the order of their arrival, so that a simulated run can be repeated. (tokio's watch channel
    /// wakes them in random order.)
    ended: Notify,
    /// Followers that wait now. One that leaves makes room for another.
    followers: AtomicU32,
    wanted: Mutex<WantedBy>,
}

/// Who wants the end of a flight.
enum WantedBy {
    /// These clients, each until its token is cancelled.
    Clients(Vec<CancellationToken>),
    /// Somebody for whom it goes on, whoever leaves.
    Anybody,
}

impl<V> Flight<V> {
    fn wanted_by(&self, client: Option<&CancellationToken>) {
        let mut wanted = self.wanted.lock();
        match (&mut *wanted, client) {
            (WantedBy::Clients(clients), Some(client)) => {
                // A client may come and leave all the time: those who have left go before the list grows.
                if clients.len() == clients.capacity() {
                    clients.retain(|client| !client.is_cancelled());
                }
                clients.push(client.clone());
            }
            (_, None) => *wanted = WantedBy::Anybody,
            (WantedBy::Anybody, Some(_)) => {}
        }
    }

    /// One of those who are still there. If the flight goes on whoever leaves, it is somebody who never does.
    fn someone_there(&self) -> Option<CancellationToken> {
        match &mut *self.wanted.lock() {
            WantedBy::Clients(clients) => {
                clients.retain(|client| !client.is_cancelled());
                clients.first().cloned()
            }
            WantedBy::Anybody => Some(CancellationToken::new()),
        }
    }
}

/// Tells the task of a flight that all its clients have left.
pub struct Abandonment<V>(Arc<Flight<V>>);

impl<V> Abandonment<V> {
    /// Completes when all clients that wanted the flight have left, and never if somebody wants it whoever leaves.
    pub async fn wait(self) {
        while let Some(client) = self.0.someone_there() {
            client.cancelled().await;
        }
    }
}

enum State<V> {
    Computing,
    Landed(V),
    Lost,
}

/// The role of a request in the flight of its key.
pub enum Seat<K: Eq + Hash + Clone, V: Clone> {
    /// It leads, and has to [`Leader::land`].
    Lead(Leader<K, V>),
    /// It waits for the leader.
    Follow(Follower<V>),
    /// Neither: the table or the flight is full.
    Full,
}

/// How a flight ended for a follower.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wait<V> {
    /// With the leader's value or error.
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
            // Leavers count down without the lock, but only `join` counts up.
            flight.followers.fetch_add(1, Ordering::Relaxed);
            return Seat::Follow(Follower { flight, kind: SeatKind::Counted });
        }
        if flights.len() >= self.bounds.flights_max {
            return Seat::Full;
        }
        let flight = Arc::new(Flight {
            state: Mutex::new(State::Computing),
            ended: Notify::new(),
            followers: AtomicU32::new(0),
            wanted: Mutex::new(WantedBy::Clients(Vec::new())),
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

    /// The number of followers of `key`'s flight, if it has one.
    #[must_use]
    pub fn followers(&self, key: &K) -> Option<u32> {
        self.flights.lock().get(key).map(|flight| flight.followers.load(Ordering::Relaxed))
    }

    /// Flights that have followers now, at most `limit`.
    #[must_use]
    pub fn crowded(&self, limit: usize) -> Vec<(K, u32)> {
        let flights = self.flights.lock();
        let counted = flights.iter().map(|(key, flight)| (key, flight.followers.load(Ordering::Relaxed)));
        counted
            .filter(|(_, followers)| *followers > 0)
            .take(limit)
            .map(|(key, count)| (key.clone(), count))
            .collect()
    }

    /// Takes flights out of the table, so that requests from now on start new ones. Present followers still get their
    /// leader's value. An invalidation detaches flights because they may have read before it. Returns their number.
    pub fn detach(&self, covers: impl Fn(&K) -> bool) -> usize {
        let mut flights = self.flights.lock();
        let before = flights.len();
        flights.retain(|key, _| !covers(key));
        before - flights.len()
    }
}

/// The leader's duty to land. A leader that is dropped without landing (a panic, an abort) ends the flight as lost.
pub struct Leader<K: Eq + Hash + Clone, V: Clone> {
    table: Arc<FlightTable<K, V>>,
    key: K,
    flight: Arc<Flight<V>>,
    landed: bool,
}

impl<K: Eq + Hash + Clone, V: Clone> Leader<K, V> {
    /// A follower's seat on this flight, for the request whose detached task leads it.
    #[must_use]
    pub fn follow(&self) -> Follower<V> {
        Follower { flight: Arc::clone(&self.flight), kind: SeatKind::Leaders }
    }

    /// For the task that leads. Those who want the flight have to be noted before ([`Follower::wanted_by`]).
    #[must_use]
    pub fn abandonment(&self) -> Abandonment<V> {
        Abandonment(Arc::clone(&self.flight))
    }

    /// The number of clients whose leaving ends the flight, if it ends with them.
    #[cfg(test)]
    pub(crate) fn clients_noted(&self) -> usize {
        match &*self.flight.wanted.lock() {
            WantedBy::Clients(clients) => clients.len(),
            WantedBy::Anybody => 0,
        }
    }

    /// Whether requests can still join (no invalidation took the flight out of the table).
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.table.flights.lock().get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
    }

    /// Ends the flight with `value` for all followers. Returns how many there were.
    pub fn land(mut self, value: V) -> u32 {
        self.landed = true;
        self.end(State::Landed(value))
    }

    fn end(&self, state: State<V>) -> u32 {
        let followers = self.flight.followers.load(Ordering::Relaxed);
        let mut flights = self.table.flights.lock();
        self.remove(&mut flights);
        *self.flight.state.lock() = state;
        drop(flights);
        // Outside the lock, as there may be thousands to wake.
        self.flight.ended.notify_waiters();
        followers
    }

    fn remove(&self, flights: &mut HashMap<K, Arc<Flight<V>>>) {
        // Only our own flight: after a detach, the key may belong to a newer one.
        let is_ours = |flight: &Arc<Flight<V>>| Arc::ptr_eq(flight, &self.flight);
        if flights.get(&self.key).is_some_and(is_ours) {
            flights.remove(&self.key);
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Leader<K, V> {
    fn drop(&mut self) {
        if !self.landed {
            self.end(State::Lost);
        }
    }
}

/// A seat that waits. Dropping it (the client left) makes room for another follower and has no other effect.
pub struct Follower<V> {
    flight: Arc<Flight<V>>,
    kind: SeatKind,
}

/// Whether a seat counts against the flight's bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SeatKind {
    /// A follower's, taken by joining.
    Counted,
    /// The leading request's own, which is not counted.
    Leaders,
}

impl<V> Drop for Follower<V> {
    fn drop(&mut self) {
        if self.kind == SeatKind::Counted {
            self.flight.followers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<V: Clone> Follower<V> {
    /// Notes who waits: a client that ends what it leaves, or else somebody for whom the flight goes on.
    pub fn wanted_by(&self, client: Option<&CancellationToken>) {
        self.flight.wanted_by(client);
    }

    /// Waits for the end of the flight. It has no deadline: the caller's deadline bounds it.
    pub async fn wait(self) -> Wait<V> {
        let ended = self.flight.ended.notified();
        tokio::pin!(ended);
        // In line before the look: otherwise an end between look and wait would not wake this follower.
        ended.as_mut().enable();
        if let Some(wait) = self.look() {
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
