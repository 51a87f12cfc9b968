//! Stampedes, for people: flights that had followers. It remembers the largest of the last minutes, and nothing in the engine
//! asks for them.
//!
//! Only the end of a run comes here, and only one with followers. So a hit pays nothing.

use std::collections::VecDeque;

use hopcache_core::key::QueryKey;
use hopcache_core::limits::{
    CROWDS_REMEMBERED_MAX, CROWDS_REMEMBERED_MS, HOT_TEXT_BYTES_MAX, PATTERN_TEXT_BYTES_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_cypher::forms::pattern::pattern;
use parking_lot::Mutex;

use crate::model::ask::Query;

/// Plain data: a flight that ended with followers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crowd {
    /// The key.
    pub key: QueryKey,
    /// The statement without literals and parameters; empty if it is too long.
    pub pattern: String,
    /// Requests that waited, without the leading one.
    pub followers: u32,
    /// From the beginning of the read to the end of the flight; `None` if nothing was read.
    pub took_ms: Option<Millis>,
}

/// Plain data: a flight under way that has followers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdUnderWay {
    /// The key.
    pub key: QueryKey,
    /// Requests that wait, without the leading one.
    pub followers: u32,
}

/// The last flights that ended with followers.
#[derive(Default)]
pub(super) struct Crowds(Mutex<VecDeque<(Crowd, MonoTime)>>);

impl Crowds {
    /// A flight ended `now`; its value was read from `began` on.
    pub(super) fn ended(&self, query: &Query, followers: u32, began: Option<MonoTime>, now: MonoTime) {
        let took_ms = began.map(|began| now.since(began));
        let crowd = Crowd { key: query.key, pattern: shown(&query.statement), followers, took_ms };
        let mut crowds = self.0.lock();
        crowds.push_back((crowd, now));
        forget_one(&mut crowds, now);
    }

    /// All of them, the oldest first, each with the time since its end.
    pub(super) fn shown(&self, now: MonoTime) -> Vec<(Crowd, Millis)> {
        self.0.lock().iter().map(|(crowd, ended)| (crowd.clone(), now.since(*ended))).collect()
    }
}

/// Forgets one flight if there are too many: the oldest if it is old, else the smallest. Flights with one follower come all the
/// time, and the stampede that somebody looks for must not give way to them.
fn forget_one(crowds: &mut VecDeque<(Crowd, MonoTime)>, now: MonoTime) {
    if crowds.len() <= CROWDS_REMEMBERED_MAX {
        return;
    }
    let is_oldest_old = crowds.front().is_some_and(|(_, ended)| now.since(*ended).0 > CROWDS_REMEMBERED_MS);
    // The first of equal ones: the oldest.
    let smallest = crowds.iter().enumerate().min_by_key(|(_, (crowd, _))| crowd.followers);
    let place = if is_oldest_old { 0 } else { smallest.map_or(0, |(place, _)| place) };
    crowds.remove(place);
}

fn shown(statement: &str) -> String {
    if statement.len() > HOT_TEXT_BYTES_MAX {
        return String::new();
    }
    let mut text = pattern(statement);
    text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(ms: u64, followers: u32) -> (Crowd, MonoTime) {
        let crowd = Crowd { key: QueryKey([0; 32]), pattern: String::new(), followers, took_ms: None };
        (crowd, at(ms))
    }

    fn at(ms: u64) -> MonoTime {
        MonoTime(ms * 1_000)
    }

    /// One stampede, then more small flights than are remembered.
    #[test]
    fn a_stampede_stays_among_small_flights_until_it_is_old() {
        let mut crowds = VecDeque::from([after(0, 29)]);
        let followers = |crowds: &VecDeque<(Crowd, MonoTime)>| -> Vec<u32> {
            crowds.iter().map(|(crowd, _)| crowd.followers).collect()
        };
        for ms in 1..=200 {
            crowds.push_back(after(ms, 1));
            forget_one(&mut crowds, at(ms));
        }
        assert_eq!(crowds.len(), CROWDS_REMEMBERED_MAX);
        assert_eq!((followers(&crowds)[0], crowds[1].1), (29, at(138)), "the oldest small ones went");
        let late = CROWDS_REMEMBERED_MS + 1;
        crowds.push_back(after(late, 1));
        forget_one(&mut crowds, at(late));
        assert_eq!(crowds.len(), CROWDS_REMEMBERED_MAX);
        assert!(!followers(&crowds).contains(&29), "an old stampede goes first");
    }
}
