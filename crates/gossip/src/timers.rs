//! The timers of one [`crate::Gossip`], in order of time. The caller has the clock.
//!
//! This file decides which timer is due, and bounds the number of waiting timers. Of each periodic timer of foca only
//! the latest counts: a new one replaces the older ones. A periodic timer always has a place, because a round that
//! does not begin never comes back. Of the other timers (suspicions) the newest are dropped. Nothing is lost: their
//! member is pinged and suspected again.

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
    /// Adds a timer of [`crate::Effect::Wake`].
    pub fn add(&mut self, now: Millis, after: Millis, timer: Timer) {
        match slot_of(&timer) {
            Some(slot) => self.waiting.retain(|_, other| slot_of(other) != Some(slot)),
            // There is at most one suspicion for each period of its length: far fewer than this.
            None if self.suspicions() >= GOSSIP_TIMERS_MAX - SLOTS => return,
            None => {}
        }
        self.added += 1;
        self.waiting.insert((Millis(now.0.saturating_add(after.0)), self.added), timer);
    }

    /// When the next one is due.
    #[must_use]
    pub fn next(&self) -> Option<Millis> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Removes a due timer and returns it with its delay.
    pub fn pop(&mut self, now: Millis) -> Option<(Timer, Millis)> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= now)?;
        let late = Millis(now.0.saturating_sub(first.key().0.0));
        Some((first.remove(), late))
    }

    fn suspicions(&self) -> usize {
        self.waiting.values().filter(|timer| slot_of(timer).is_none()).count()
    }

    /// The number of waiting timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no timer waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// How many kinds of timers have a place of their own.
const SLOTS: usize = 5;

const fn slot_of(timer: &Timer) -> Option<u8> {
    match &timer.kind {
        Kind::Maintenance => Some(0),
        Kind::Foca(foca::Timer::ProbeRandomMember(_)) => Some(1),
        Kind::Foca(foca::Timer::SendIndirectProbe { .. }) => Some(2),
        Kind::Foca(foca::Timer::PeriodicGossip(_)) => Some(3),
        Kind::Foca(foca::Timer::PeriodicAnnounce(_)) => Some(4),
        Kind::Foca(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use hopcache_core::membership::{Card, Phase};
    use hopcache_core::node::{Incarnation, NodeName};

    use super::*;
    use crate::identity::Identity;

    fn suspicion(life: u64) -> Timer {
        let addr = SocketAddr::from(([10, 0, 0, 1], 7_000));
        let card = Card::new(NodeName::new("node-x").unwrap(), addr, Incarnation(life), Phase::Ready);
        let suspect =
            foca::Timer::ChangeSuspectToDown { member_id: Identity::new(card), incarnation: 0, token: 0 };
        Timer { kind: Kind::Foca(suspect), put_off: false }
    }

    /// However many suspicions wait, every periodic timer has its place: a node whose probe timer is dropped would
    /// never ping a member again. The bound holds as well (I9).
    #[test]
    fn only_suspicions_give_way() {
        let mut timers = Timers::default();
        for life in 0..2 * GOSSIP_TIMERS_MAX as u64 {
            timers.add(Millis(0), Millis(5), suspicion(life));
        }
        let periodic = [
            Kind::Maintenance,
            Kind::Foca(foca::Timer::ProbeRandomMember(1)),
            Kind::Foca(foca::Timer::PeriodicGossip(1)),
            Kind::Foca(foca::Timer::PeriodicAnnounce(1)),
        ];
        for kind in periodic.iter().chain(&periodic) {
            timers.add(Millis(0), Millis(1), Timer { kind: kind.clone(), put_off: false });
        }
        assert!(timers.len() <= GOSSIP_TIMERS_MAX, "{}", timers.len());
        let first: Vec<Kind> = periodic.iter().filter_map(|_| Some(timers.pop(Millis(1))?.0.kind)).collect();
        assert_eq!(first, periodic);
        assert!(timers.pop(Millis(1)).is_none() && timers.len() > GOSSIP_TIMERS_MAX / 2);
    }
}
