//! When another node sent its observations, by this node's clock: their ages count back from then.
//!
//! Two nodes' clocks are unrelated, so an observation states how long ago it was. Counted back from when the message
//! was read, it seems later by the message's transit: a new connection, a busy peer, this node's own queues. Of two
//! clicks through different nodes the first one's transit may be longer than the pause between them:
//!   A answers at 100 · its message takes 9 ms · B is asked at 103 · its message takes 1 ms: B seems asked at 104,
//!   while A seems to answer at 109.
//! So a message has a reading of its sender's clock, which is compared only with earlier readings of the same clock.
//! (arrival − reading) is the clocks' unknown difference plus the transit, and the least of the last minute has the
//! least transit. The transit beyond that is known, and subtracted (the minimum filter of NTP, RFC 5905 section 10).
//! The least transit itself remains: below a millisecond between nodes of one site, covered by
//! [`hopcache_core::limits::SESSION_SKEW_MS`]. This decides nothing about the observations.

use std::collections::BTreeMap;

use hopcache_core::limits::{CLOCK_TRANSIT_MS_MAX, CLOCK_WINDOW_MS, MEMBERS_MAX};
use hopcache_core::node::Incarnation;
use hopcache_core::time::{Millis, MonoTime};

use crate::OriginTag;

/// One life of a node. By its clock the times of its observations are exact relative to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SenderClock {
    /// The node.
    pub node: OriginTag,
    /// Its life: in another one its clock begins anew.
    pub life: Incarnation,
}

/// The nodes that send observations, at most [`MEMBERS_MAX`].
#[derive(Debug, Default)]
pub struct ClockOffsets {
    known: BTreeMap<SenderClock, ClockOffset>,
}

/// The least (arrival − reading) in this window and in the one before it, in microseconds modulo 2⁶⁴.
#[derive(Debug)]
struct ClockOffset {
    before: u64,
    least: u64,
    /// When this window began.
    since: MonoTime,
    heard: MonoTime,
}

impl ClockOffsets {
    /// No nodes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The sending time, by this node's clock, of a message that came at `now`: never after `now`, and at most
    /// [`CLOCK_TRANSIT_MS_MAX`] before it. `reading` is its sender's clock at sending; any number is harmless.
    pub fn sent_at(&mut self, sender: SenderClock, reading: MonoTime, now: MonoTime) -> MonoTime {
        let apart = now.0.wrapping_sub(reading.0);
        if !self.known.contains_key(&sender) {
            self.make_room();
            self.known.insert(sender, ClockOffset { before: apart, least: apart, since: now, heard: now });
            return now;
        }
        let Some(record) = self.known.get_mut(&sender) else { return now };
        record.heard = record.heard.max(now);
        if now.since(record.since) >= Millis(CLOCK_WINDOW_MS) {
            (record.before, record.least, record.since) = (record.least, apart, now);
        }
        let transit = beyond(apart, record.before).max(beyond(apart, record.least));
        // A clock that stood still, or another clock: no sender waits this long for an answer.
        if transit > i128::from(CLOCK_TRANSIT_MS_MAX) * 1_000 {
            (record.before, record.least, record.since) = (apart, apart, now);
            return now;
        }
        if beyond(apart, record.least) < 0 {
            record.least = apart;
        }
        MonoTime(now.0.saturating_sub(u64::try_from(transit).unwrap_or(0)))
    }

    /// The longest silent one gives way.
    fn make_room(&mut self) {
        if self.known.len() < MEMBERS_MAX {
            return;
        }
        let oldest = self.known.iter().min_by_key(|(_, record)| record.heard).map(|(sender, _)| *sender);
        if let Some(oldest) = oldest {
            self.known.remove(&oldest);
        }
    }

    /// The number of known nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no node is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

/// By how much `apart` exceeds `least`: both are differences of clocks modulo 2⁶⁴.
fn beyond(apart: u64, least: u64) -> i128 {
    i128::from(apart.wrapping_sub(least).cast_signed())
}
