//! Datagrams that are not believed, by reason: how they are counted, and how often the log speaks of them.
//!
//! Whoever finds the port can send as many as the network carries, so the log says each reason at most once in
//! [`GOSSIP_SAID_MS`], with how many there were since it last did. Nothing here answers the sender.

use std::net::SocketAddr;
use std::time::Duration;

use hopcache_core::limits::{GOSSIP_DATAGRAM_BYTES_MAX, GOSSIP_SAID_MS};
use tokio::time::Instant;

/// Why a datagram is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Larger than any that a node sends.
    Oversized,
    /// Too short to hold what every datagram has.
    Truncated,
    /// Of another version of the form.
    Version,
    /// Sealed under a key that this node does not have.
    Cluster,
    /// It claims a key of this node's, and the proof does not fit.
    Forged,
    /// Seen before, further behind than the window reaches, or this node's own.
    Replayed,
    /// Sealed as it should be, and yet not readable, or of another protocol.
    Unreadable,
}

impl Refused {
    /// All of them, in the order of [`crate::words::GOSSIP_REFUSALS`].
    pub const ALL: [Self; 7] = [
        Self::Oversized,
        Self::Truncated,
        Self::Version,
        Self::Cluster,
        Self::Forged,
        Self::Replayed,
        Self::Unreadable,
    ];

    /// Its place among them.
    #[must_use]
    pub fn place(self) -> usize {
        Self::ALL.iter().position(|each| *each == self).unwrap_or(0)
    }

    /// What it is and what to do, for the log.
    const fn advice(self) -> &'static str {
        match self {
            Self::Oversized => "larger than gossip is: something else sends to the peer port",
            Self::Truncated => "too short for gossip: something else sends to the peer port",
            Self::Version => {
                "another version of gossip: a node of another release, or something else that sends to the peer port"
            }
            Self::Cluster => {
                "another cluster's key or name: where it should belong to this one, compare cluster.key, cluster.previous_key and cluster.name of both"
            }
            Self::Forged => "the proof of the cluster key does not fit: changed on the way, or forged",
            Self::Replayed => "seen before: repeated by the network, or played again",
            Self::Unreadable => "sealed with this cluster's key, but not readable: a node of another release",
        }
    }
}

/// What was refused, and what the log has said of it.
#[derive(Debug, Default)]
pub struct Complaints {
    of: [Complaint; Refused::ALL.len()],
}

#[derive(Debug, Default)]
struct Complaint {
    said_at: Option<Instant>,
    unsaid: u64,
}

impl Complaints {
    /// Notes one, and says it if its reason has not been said lately.
    pub fn note(&mut self, why: Refused, from: SocketAddr) {
        if let Some(datagrams) = self.due(why, Instant::now()) {
            tracing::warn!(%from, datagrams, limit = GOSSIP_DATAGRAM_BYTES_MAX, "gossip not believed: {}", why.advice());
        }
    }

    /// How many there were since the log last spoke of this reason, if it is to speak now.
    fn due(&mut self, why: Refused, now: Instant) -> Option<u64> {
        let complaint = self.of.get_mut(why.place())?;
        complaint.unsaid = complaint.unsaid.saturating_add(1);
        let pause = Duration::from_millis(GOSSIP_SAID_MS);
        if complaint.said_at.is_some_and(|said| now.duration_since(said) < pause) {
            return None;
        }
        complaint.said_at = Some(now);
        Some(std::mem::take(&mut complaint.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_a_minute_for_each_reason() {
        let (mut complaints, start) = (Complaints::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(complaints.due(Refused::Forged, at(0)), Some(1));
        for ms in 1..1_000 {
            assert_eq!(complaints.due(Refused::Forged, at(ms)), None);
        }
        assert_eq!(complaints.due(Refused::Cluster, at(1_000)), Some(1), "another reason");
        assert_eq!(complaints.due(Refused::Forged, at(GOSSIP_SAID_MS)), Some(1_000));
        for (place, why) in Refused::ALL.into_iter().enumerate() {
            assert_eq!(why.place(), place);
        }
    }
}
