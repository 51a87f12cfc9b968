//! Stampedes, for people: flights that had followers. It remembers the last ones and decides nothing.
//!
//! Only the end of a run comes here, and only one with followers. So a hit pays nothing.

use std::collections::VecDeque;

use hopcache_core::cypher::pattern::pattern;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{CROWDS_REMEMBERED_MAX, HOT_TEXT_BYTES_MAX, PATTERN_TEXT_BYTES_MAX};
use hopcache_core::time::{Millis, MonoTime};
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
        if crowds.len() >= CROWDS_REMEMBERED_MAX {
            crowds.pop_front();
        }
        crowds.push_back((crowd, now));
    }

    /// All of them, the oldest first, each with the time since its end.
    pub(super) fn shown(&self, now: MonoTime) -> Vec<(Crowd, Millis)> {
        self.0.lock().iter().map(|(crowd, ended)| (crowd.clone(), now.since(*ended))).collect()
    }
}

fn shown(statement: &str) -> String {
    if statement.len() > HOT_TEXT_BYTES_MAX {
        return String::new();
    }
    let mut text = pattern(statement);
    text.truncate(text.floor_char_boundary(PATTERN_TEXT_BYTES_MAX));
    text
}
