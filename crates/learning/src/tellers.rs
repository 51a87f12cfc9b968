//! When another node sent what it tells, by this node's clock: what the times of observations are counted back from.
//!
//! Two nodes' clocks have nothing to do with each other, so an observation says how long ago it was; counted back from when
//! the message was read, it seems later by the message's transit: a new connection, a busy peer, this node's own
//! queues. Of two clicks through different nodes the first one's transit may be longer than the pause between them:
//!   A answers at 100 · its message takes 9 ms · B is asked at 103 · its message takes 1 ms: B seems asked at 104, while A
//!   seems to answer at 109.
//! So a message says what its sender's clock reads, which is only ever compared with earlier readings of the same clock:
//! (arrival − reading) is the clocks' unknown difference and the transit, and the least of the last minute has the least transit.
//! What a message took beyond that is known, and taken off (the minimum filter of NTP, RFC 5905 section 10). What stays is
//! the least transit itself, below a millisecond between nodes of one site, for which
//! [`hopcache_core::limits::SESSION_SKEW_MS`] stands. It decides nothing of what is told.

use std::collections::BTreeMap;

use hopcache_core::limits::{MEMBERS_MAX, TELLER_TRANSIT_MS_MAX, TELLER_WINDOW_MS};
use hopcache_core::node::Incarnation;
use hopcache_core::time::{Millis, MonoTime};

use crate::OriginTag;

/// One life of a node: by its clock the observations that it tells are exact among each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Teller {
    /// The node.
    pub node: OriginTag,
    /// Its life: with another one its clock begins anew.
    pub life: Incarnation,
}

/// The nodes that tell of observations, at most [`MEMBERS_MAX`].
#[derive(Debug, Default)]
pub struct Tellers {
    known: BTreeMap<Teller, Record>,
}

/// The least (arrival − reading) in this window and in the one before it, in microseconds modulo 2⁶⁴.
#[derive(Debug)]
struct Record {
    before: u64,
    least: u64,
    /// When this window began.
    since: MonoTime,
    heard: MonoTime,
}

impl Tellers {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// When a message that came at `now` was sent, by this node's clock: never after `now`, and no more than
    /// [`TELLER_TRANSIT_MS_MAX`] before it. `reading` is its sender's clock when it was sent; any number does no harm.
    pub fn sent_at(&mut self, teller: Teller, reading: MonoTime, now: MonoTime) -> MonoTime {
        let apart = now.0.wrapping_sub(reading.0);
        if !self.known.contains_key(&teller) {
            self.make_room();
            self.known.insert(teller, Record { before: apart, least: apart, since: now, heard: now });
            return now;
        }
        let Some(record) = self.known.get_mut(&teller) else { return now };
        record.heard = record.heard.max(now);
        if now.since(record.since) >= Millis(TELLER_WINDOW_MS) {
            (record.before, record.least, record.since) = (record.least, apart, now);
        }
        let transit = beyond(apart, record.before).max(beyond(apart, record.least));
        // A clock that stood still, or was another one: nobody waits for an answer for so long.
        if transit > i128::from(TELLER_TRANSIT_MS_MAX) * 1_000 {
            (record.before, record.least, record.since) = (apart, apart, now);
            return now;
        }
        if beyond(apart, record.least) < 0 {
            record.least = apart;
        }
        MonoTime(now.0.saturating_sub(u64::try_from(transit).unwrap_or(0)))
    }

    /// The one that was not heard of for longest gives way.
    fn make_room(&mut self) {
        if self.known.len() < MEMBERS_MAX {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, record)| record.heard).map(|(teller, _)| *teller);
        if let Some(oldest) = oldest {
            self.known.remove(&oldest);
        }
    }

    /// Nodes that are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// By how much `apart` is over `least`: both are differences of clocks modulo 2⁶⁴.
fn beyond(apart: u64, least: u64) -> i128 {
    i128::from(apart.wrapping_sub(least).cast_signed())
}
