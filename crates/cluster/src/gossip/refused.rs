//! Refused datagrams, by reason: how they are counted, and how often they are logged.
//!
//! Anybody who finds the port can send as many datagrams as the network carries. So the log names each reason at most
//! once in [`GOSSIP_SAID_MS`], with the count since the last line. This file never answers the sender.

use std::net::SocketAddr;
use std::time::Duration;

use hopcache_core::limits::GOSSIP_SAID_MS;
use hopcache_core::membership::NotAdmitted;
use hopcache_ops::gossip_refusals::GossipRefusal;
use tokio::time::Instant;

/// The reason under which a refusal of the protocol is counted.
pub(super) const fn reason_of(why: hopcache_gossip::DatagramRefusal) -> GossipRefusal {
    match why {
        hopcache_gossip::DatagramRefusal::TooLong => GossipRefusal::Oversized,
        hopcache_gossip::DatagramRefusal::Malformed => GossipRefusal::Unreadable,
        hopcache_gossip::DatagramRefusal::FromMyself => GossipRefusal::Own,
        hopcache_gossip::DatagramRefusal::Incompatible(_) => GossipRefusal::Version,
        hopcache_gossip::DatagramRefusal::Unreachable => GossipRefusal::Unreachable,
        hopcache_gossip::DatagramRefusal::Full => GossipRefusal::Full,
        hopcache_gossip::DatagramRefusal::IHaveLeft => GossipRefusal::Left,
    }
}

/// The refusals since the last log line of each reason.
#[derive(Debug, Default)]
pub struct RefusalLog {
    datagrams: [ReasonLog; GossipRefusal::ALL.len()],
    cards: [ReasonLog; 4],
}

impl RefusalLog {
    /// Counts a datagram, and logs its reason if that was not logged recently.
    pub fn datagram(&mut self, why: GossipRefusal, from: SocketAddr) {
        let due = self.datagrams.get_mut(why.place()).and_then(|reason| reason.due(Instant::now()));
        if let (Some(datagrams), Some(advice)) = (due, why.advice()) {
            tracing::warn!(%from, datagrams, "gossip refused: {advice}");
        }
    }

    /// Counts a node that gossip named and that is not admitted, and logs it in the same way.
    pub fn card(&mut self, why: &NotAdmitted) {
        let place = match why {
            NotAdmitted::NameTaken { .. } => 0,
            NotAdmitted::Full(_) => 1,
            NotAdmitted::Crowded(_) => 2,
            NotAdmitted::Unreachable { .. } => 3,
        };
        let due = self.cards.get_mut(place).and_then(|reason| reason.due(Instant::now()));
        if let Some(times) = due {
            tracing::warn!(times, "a node heard of by gossip stays out: {why}");
        }
    }
}

#[derive(Debug, Default)]
struct ReasonLog {
    logged_at: Option<Instant>,
    unlogged: u64,
}

impl ReasonLog {
    /// Counts one. Returns the count since the last log line if a line is due now.
    fn due(&mut self, now: Instant) -> Option<u64> {
        self.unlogged = self.unlogged.saturating_add(1);
        let pause = Duration::from_millis(GOSSIP_SAID_MS);
        if self.logged_at.is_some_and(|at| now.duration_since(at) < pause) {
            return None;
        }
        self.logged_at = Some(now);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_minute_for_each_reason() {
        let (mut reason, start) = (ReasonLog::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(reason.due(at(0)), Some(1));
        for ms in 1..1_000 {
            assert_eq!(reason.due(at(ms)), None);
        }
        assert_eq!(reason.due(at(GOSSIP_SAID_MS)), Some(1_000));
        for (place, why) in GossipRefusal::ALL.into_iter().enumerate() {
            assert_eq!(why.place(), place);
        }
    }
}
