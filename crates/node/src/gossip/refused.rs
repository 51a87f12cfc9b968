//! Refused datagrams, by reason: how they are counted, and how often they are logged.
//!
//! Anybody who finds the port can send as many datagrams as the network carries. So the log names each reason at most
//! once in [`GOSSIP_SAID_MS`], with the count since the last line. This file never answers the sender.

use std::net::SocketAddr;
use std::time::Duration;

use hopcache_core::limits::GOSSIP_SAID_MS;
use hopcache_core::membership::NotAdmitted;
use tokio::time::Instant;

/// Why a datagram is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Larger than any datagram of a node.
    Oversized,
    /// Too short for a datagram of a node.
    Truncated,
    /// Another version of the format, or a protocol that this node does not understand.
    Version,
    /// Sealed under a key that this node does not have.
    Cluster,
    /// It names a key of this node, and the proof is wrong.
    Forged,
    /// Seen before, or older than the replay window.
    Replayed,
    /// Sealed correctly, and still not readable.
    Unreadable,
    /// Sent by this node: a seed may be the node itself.
    Own,
    /// Its sender gives an address that no node can connect to.
    Unreachable,
    /// The table of members is full.
    Full,
    /// This node has said goodbye.
    Left,
}

impl Refused {
    /// All of them, in the order of [`crate::labels::GOSSIP_REFUSALS`].
    pub const ALL: [Self; 11] = [
        Self::Oversized,
        Self::Truncated,
        Self::Version,
        Self::Cluster,
        Self::Forged,
        Self::Replayed,
        Self::Unreadable,
        Self::Own,
        Self::Unreachable,
        Self::Full,
        Self::Left,
    ];

    /// Its index in [`Self::ALL`].
    #[must_use]
    pub fn place(self) -> usize {
        Self::ALL.iter().position(|each| *each == self).unwrap_or(0)
    }

    /// Its meaning and the action to take, for the log. `None` if there is nothing to do.
    const fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::Oversized => "larger than gossip is: something else sends to the peer port",
            Self::Truncated => "too short for gossip: something else sends to the peer port",
            Self::Version => {
                "another version of gossip: a node of another release, or something else that sends to the peer port"
            }
            Self::Cluster => {
                "another cluster's key or name: if it should belong to this one, compare cluster.key, cluster.previous_key and cluster.name of both"
            }
            Self::Forged => "the proof of the cluster key does not fit: changed on the way, or forged",
            Self::Replayed => "seen before: repeated by the network, or played again",
            Self::Unreadable => {
                "sealed with this cluster's key and yet not readable: a node of another release"
            }
            Self::Unreachable => {
                "its sender gives an address that nobody can connect to: set its node.peer_advertise"
            }
            Self::Full => "as many members as a cluster can have: the sender is left out",
            Self::Own | Self::Left => return None,
        })
    }
}

impl From<hopcache_gossip::Refused> for Refused {
    fn from(why: hopcache_gossip::Refused) -> Self {
        match why {
            hopcache_gossip::Refused::TooLong => Self::Oversized,
            hopcache_gossip::Refused::Malformed => Self::Unreadable,
            hopcache_gossip::Refused::FromMyself => Self::Own,
            hopcache_gossip::Refused::Incompatible(_) => Self::Version,
            hopcache_gossip::Refused::Unreachable => Self::Unreachable,
            hopcache_gossip::Refused::Full => Self::Full,
            hopcache_gossip::Refused::IHaveLeft => Self::Left,
        }
    }
}

/// The refusals since the last log line of each reason.
#[derive(Debug, Default)]
pub struct RefusalLog {
    datagrams: [ReasonLog; Refused::ALL.len()],
    cards: [ReasonLog; 5],
}

impl RefusalLog {
    /// Counts a datagram, and logs its reason if that was not logged recently.
    pub fn datagram(&mut self, why: Refused, from: SocketAddr) {
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
            NotAdmitted::Incompatible { .. } => 2,
            NotAdmitted::Crowded(_) => 3,
            NotAdmitted::Unreachable { .. } => 4,
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
        for (place, why) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(why.place(), place);
        }
    }
}
