//! The timers of one [`crate::Gossip`], in order of time. The clock is the caller's.
//!
//! Decides which timer is due, and bounds how many wait: of foca's periodic ones only the latest counts,
//! since each new one makes the older ones void.

use std::collections::BTreeMap;

use hopcache_core::limits::GOSSIP_TIMERS_MAX;
use hopcache_core::time::Millis;

use crate::effect::{Kind, Timer};

/// Timers that wait.
#[derive(Debug, Default)]
pub struct Timers {
    waiting: BTreeMap<(Millis, u64), Timer>,
    added: u64,
}

impl Timers {
    /// Takes what [`crate::Effect::Wake`] brought.
    pub fn add(&mut self, now: Millis, after: Millis, timer: Timer) {
        if let Some(slot) = slot_of(&timer) {
            self.waiting.retain(|_, other| slot_of(other) != Some(slot));
        }
        if self.waiting.len() >= GOSSIP_TIMERS_MAX {
            // Suspicions only: at most one for each period and its length are ever under way.
            return;
        }
        self.added += 1;
        self.waiting.insert((Millis(now.0.saturating_add(after.0)), self.added), timer);
    }

    /// When the next one is due.
    #[must_use]
    pub fn next(&self) -> Option<Millis> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes out one that is due, and how late that is.
    pub fn pop(&mut self, now: Millis) -> Option<(Timer, Millis)> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        let late = Millis(now.0.saturating_sub(first.key().0.0));
        Some((first.remove(), late))
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

const fn slot_of(timer: &Timer) -> Option<u8> {
    match &timer.kind {
        Kind::House => Some(0),
        Kind::Foca(foca::Timer::ProbeRandomMember(_)) => Some(1),
        Kind::Foca(foca::Timer::SendIndirectProbe { .. }) => Some(2),
        Kind::Foca(foca::Timer::PeriodicGossip(_)) => Some(3),
        Kind::Foca(foca::Timer::PeriodicAnnounce(_)) => Some(4),
        Kind::Foca(_) => None,
    }
}
