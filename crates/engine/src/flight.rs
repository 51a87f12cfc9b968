//! Single flight: one leader for each key, any number of followers, every end of a flight told to all.
//!
//! This module decides who leads and who follows. It never runs anything: the leader's work is the
//! caller's, in a task that no client owns, so a client that leaves cancels nothing (F3).
//!
//! The race that the lock closes, two requests A and B for one key:
//! A looks up and finds nothing; B looks up and finds nothing; A inserts and leads; B inserts and leads.
//! So look-up and insertion are one step under the lock. The other end: A lands and removes the flight;
//! B looks up between the two. So the value is sent before the removal, and B either reads it or
//! finds no flight and finds the value in memory, where A put it before it landed.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Bounds of a table (promise I9).
#[derive(Debug, Clone, Copy)]
pub struct FlightBounds {
    /// Flights at a time.
    pub flights_max: usize,
    /// Followers of one flight.
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
            flight.followers.fetch_add(1, Ordering::Relaxed);
            return Seat::Follow(Follower { flight: Arc::clone(flight) });
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
        Follower { flight: Arc::clone(&self.flight) }
    }

    /// Whether requests can still join (no invalidation took the flight out of the table).
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.table.flights.lock().get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight))
    }

    /// Tells everyone, and ends the flight. Returns how many followed.
    pub fn land(mut self, value: V) -> u32 {
        self.landed = true;
        self.end(State::Landed(value))
    }

    fn end(&self, state: State<V>) -> u32 {
        *self.flight.state.lock() = state;
        self.flight.ended.notify_waiters();
        let mut flights = self.table.flights.lock();
        // Only our own flight: after a detach, the key may belong to a newer one.
        if flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            flights.remove(&self.key);
        }
        self.flight.followers.load(Ordering::Relaxed)
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Drop for Leader<K, V> {
    fn drop(&mut self) {
        if !self.landed {
            self.end(State::Lost);
        }
    }
}

/// A seat that waits. Dropping it (the client left) changes nothing for anybody else.
pub struct Follower<V> {
    flight: Arc<Flight<V>>,
}

impl<V: Clone> Follower<V> {
    /// Waits for the end of the flight. Has no deadline of its own: the caller's bounds it.
    pub async fn wait(self) -> Wait<V> {
        let ended = self.flight.ended.notified();
        tokio::pin!(ended);
        // In line before the look, or an end between look and wait would wake nobody.
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

#[cfg(test)]
mod tests {
    use super::{FlightBounds, FlightTable, Seat, Wait};

    fn table() -> std::sync::Arc<FlightTable<u32, u32>> {
        FlightTable::new(FlightBounds { flights_max: 2, followers_max: 3 })
    }

    #[tokio::test]
    async fn one_leads_and_all_get_its_value() {
        let table = table();
        let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
        let followers: Vec<_> = (0..3)
            .map(|_| match table.join(&1) {
                Seat::Follow(follower) => tokio::spawn(follower.wait()),
                _ => panic!("later ones follow"),
            })
            .collect();
        assert!(matches!(table.join(&1), Seat::Full), "the fourth follower is over the bound");
        assert_eq!(leader.land(7), 3);
        for follower in followers {
            assert_eq!(follower.await.unwrap(), Wait::Landed(7));
        }
        assert!(table.is_empty());
    }

    /// F4: a leader that panics strands nobody.
    #[tokio::test]
    async fn a_lost_leader_is_told() {
        let table = table();
        let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
        let Seat::Follow(follower) = table.join(&1) else { panic!("the second follows") };
        let lead = tokio::spawn(async move {
            let _leader = leader;
            panic!("seeded: the leader panics");
        });
        assert!(lead.await.unwrap_err().is_panic());
        assert_eq!(follower.wait().await, Wait::Lost);
        assert!(matches!(table.join(&1), Seat::Lead(_)), "the next one leads");
    }

    /// F3: a follower that leaves is only that.
    #[tokio::test]
    async fn a_follower_that_leaves_changes_nothing() {
        let table = table();
        let Seat::Lead(leader) = table.join(&1) else { panic!("the first leads") };
        let Seat::Follow(leaves) = table.join(&1) else { panic!("the second follows") };
        let Seat::Follow(stays) = table.join(&1) else { panic!("the third follows") };
        drop(leaves);
        leader.land(9);
        assert_eq!(stays.wait().await, Wait::Landed(9));
    }

    #[tokio::test]
    async fn after_a_detach_new_requests_start_anew_and_old_followers_are_served() {
        let table = table();
        let Seat::Lead(old) = table.join(&1) else { panic!("the first leads") };
        let Seat::Follow(waits) = table.join(&1) else { panic!("the second follows") };
        assert_eq!(table.detach(|key| *key == 1), 1);
        assert!(!old.is_attached());
        let Seat::Lead(new) = table.join(&1) else { panic!("a new flight") };
        old.land(1);
        assert_eq!(waits.wait().await, Wait::Landed(1));
        assert!(new.is_attached(), "the old flight's end must not remove the new one");
        new.land(2);
        assert!(table.is_empty());
    }

    #[test]
    fn the_table_is_bounded() {
        let table = table();
        let _first = table.join(&1);
        let _second = table.join(&2);
        assert!(matches!(table.join(&3), Seat::Full));
    }
}
