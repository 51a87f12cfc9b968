//! Decides which keys of a stream are kept when there are more than there is room for.
//!
//! Source: Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT
//! 2005, doi 10.1007/978-3-540-30570-5_27. A key that finds no room replaces the one with the least weight, and takes
//! over that weight. So with m places and a stream of weight N every key is overestimated by at most N/m, and every key
//! with more than N/m is present.
//!
//! Keys from other nodes are kept apart: such a key finds room only with more weight than the least has, and never
//! takes the last half of the places from keys that this node saw itself (F14). Decides nothing else about the keys.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy)]
struct Counter {
    weight: f64,
    error: f64,
    is_own: bool,
}

/// The result of offering a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferOutcome<K> {
    /// It was there.
    Kept,
    /// There was room.
    Added,
    /// It took the place of this one.
    Replaced(K),
    /// There is no room for it.
    Refused,
}

/// Keys with weights, at most as many as the bound given at first.
#[derive(Debug)]
pub struct SpaceSaving<K> {
    places: usize,
    counters: BTreeMap<K, Counter>,
    /// The same by weight: keys that this node saw, and keys that only other nodes reported.
    own: BTreeSet<(u64, K)>,
    heard: BTreeSet<(u64, K)>,
}

/// Weights are finite and not negative, so their bits have their order.
const fn order(weight: f64) -> u64 {
    weight.to_bits()
}

impl<K: Ord + Copy> SpaceSaving<K> {
    /// Room for `places` keys, at least one.
    #[must_use]
    pub fn new(places: usize) -> Self {
        let places = places.max(1);
        Self { places, counters: BTreeMap::new(), own: BTreeSet::new(), heard: BTreeSet::new() }
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counters.len()
    }

    /// Whether there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Whether a new key finds room without taking another one's.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.counters.len() < self.places
    }

    /// A key's weight: at least the offered sum, at most [`Self::error`] more.
    #[must_use]
    pub fn weight(&self, key: K) -> Option<f64> {
        self.counters.get(&key).map(|counter| counter.weight)
    }

    /// The weight that a key took over from the ones before it.
    #[must_use]
    pub fn error(&self, key: K) -> Option<f64> {
        self.counters.get(&key).map(|counter| counter.error)
    }

    /// This node saw `key` once more. Always finds room.
    pub fn see(&mut self, key: K, amount: f64) -> OfferOutcome<K> {
        if self.add(key, amount, true) {
            return OfferOutcome::Kept;
        }
        let own = |weight, error| Counter { weight, error, is_own: true };
        if self.has_room() {
            self.put(key, own(amount, 0.0));
            return OfferOutcome::Added;
        }
        let Some(least) = self.least(true) else { return OfferOutcome::Refused };
        let error = self.take(least).map_or(0.0, |counter| counter.weight);
        self.put(key, own(error + amount, error));
        OfferOutcome::Replaced(least)
    }

    /// Another node reported this weight of `key`.
    pub fn hear(&mut self, key: K, amount: f64) -> OfferOutcome<K> {
        if self.add(key, amount, false) {
            return OfferOutcome::Kept;
        }
        let heard = Counter { weight: amount, error: 0.0, is_own: false };
        if self.has_room() {
            self.put(key, heard);
            return OfferOutcome::Added;
        }
        let least = self.least(false).filter(|least| self.weight(*least).is_some_and(|least| least < amount));
        let Some(least) = least else { return OfferOutcome::Refused };
        self.take(least);
        self.put(key, heard);
        OfferOutcome::Replaced(least)
    }

    /// The next key to go: for a key that this node saw, any key; otherwise none of the last half of its own.
    #[must_use]
    pub fn least(&self, for_own: bool) -> Option<K> {
        self.least_but(None, for_own).map(|(_, key)| key)
    }

    /// The same, with its weight, among all but `except`.
    #[must_use]
    pub fn least_but(&self, except: Option<K>, for_own: bool) -> Option<(f64, K)> {
        let is_other = |place: &&(u64, K)| Some(place.1) != except;
        let own = self.own.iter().find(is_other).filter(|_| for_own || self.own.len() > self.places / 2);
        let least = [own, self.heard.iter().find(is_other)].into_iter().flatten().min();
        least.map(|(weight, key)| (f64::from_bits(*weight), *key))
    }

    /// Forgets a key.
    pub fn forget(&mut self, key: K) {
        self.take(key);
    }

    /// Multiplies every weight, which changes no order (except of weights too small to matter).
    pub fn scale(&mut self, factor: f64) {
        let counters = std::mem::take(&mut self.counters);
        self.own.clear();
        self.heard.clear();
        for (key, counter) in counters {
            let (weight, error) = (counter.weight * factor, counter.error * factor);
            self.put(key, Counter { weight, error, ..counter });
        }
    }

    /// Adds to an existing key. Returns whether it exists.
    fn add(&mut self, key: K, amount: f64, saw: bool) -> bool {
        let Some(counter) = self.counters.get_mut(&key) else { return false };
        let from = if counter.is_own { &mut self.own } else { &mut self.heard };
        from.remove(&(order(counter.weight), key));
        counter.weight += amount;
        counter.is_own |= saw;
        let to = if counter.is_own { &mut self.own } else { &mut self.heard };
        to.insert((order(counter.weight), key));
        true
    }

    fn take(&mut self, key: K) -> Option<Counter> {
        let counter = self.counters.remove(&key)?;
        let order_of = if counter.is_own { &mut self.own } else { &mut self.heard };
        order_of.remove(&(order(counter.weight), key));
        Some(counter)
    }

    fn put(&mut self, key: K, counter: Counter) {
        let order_of = if counter.is_own { &mut self.own } else { &mut self.heard };
        order_of.insert((order(counter.weight), key));
        self.counters.insert(key, counter);
    }
}
