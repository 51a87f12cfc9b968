//! The bytes that a node may send for learning in a second, computed from the limits alone. It measures nothing.

use hopcache_core::limits::{
    DELTA_PIECE_BYTES_MAX, DELTA_PIECES_PER_ROUND, DELTAS_EVERY_MS, GOSSIP_FEED_MS, GOSSIP_PERIOD_MS,
    GOSSIP_SEALED_BYTES_MAX, GOSSIP_SPREAD_BYTES_MAX, GOSSIP_SPREAD_EVERY_MS, GOSSIP_TARGETS,
    GOSSIP_TRANSMISSIONS, PULL_DIGEST_BYTES_MAX, PULL_EVERY_MS, PULL_PAGE_BYTES_MAX, PULL_PAGES_PER_ROUND,
};

use super::peer::PULL_HEAD_BYTES;

/// Life and number of a piece's origin, and its length in a datagram.
const PIECE_HEAD_BYTES: u64 = 8 + 8 + 2;
const SECOND_MS: u64 = 1_000;
/// A ping and the answer to another one, in each period.
const PROBES: u64 = 2;
/// Datagrams for a lost ping: requests, indirect pings, their answers and what is forwarded of them, by each of the
/// targets.
const INDIRECT: u64 = 4 * GOSSIP_TARGETS as u64;
/// An announcement and the answer to another one.
const FEEDS: u64 = 2;

/// Largest number of bytes of one node in a second. Where the number depends on the choices of other nodes, it is their
/// mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// New pieces, each once: pieces per round × longest piece.
    pub(crate) new_bytes: u64,
    /// All nodes' new pieces, each passed on as often as foca passes on: the use of the budget of pieces.
    pub(crate) passed_on_bytes: u64,
    /// As many datagrams as foca sends, each of the largest size: the room that there is.
    pub(crate) datagram_bytes: u64,
    /// Pulls: the longest digests and pages, as often as each round adds to the allowance of pulls. A node that has
    /// just joined may pull more, once.
    pub(crate) pull_bytes: u64,
}

impl Allowed {
    /// The allowance with this many nodes, when `lost_percent` of datagrams are lost.
    #[must_use]
    pub(crate) const fn with(nodes: usize, lost_percent: u64) -> Self {
        let pieces = DELTA_PIECES_PER_ROUND as u64 * SECOND_MS / DELTAS_EVERY_MS;
        let passed_on = pieces * (GOSSIP_SPREAD_BYTES_MAX as u64 + PIECE_HEAD_BYTES);
        let others = nodes.saturating_sub(1);
        let targets = if others < GOSSIP_TARGETS { others } else { GOSSIP_TARGETS } as u64;
        let probes = PROBES + if lost_percent > 0 { INDIRECT } else { 0 };
        let datagrams = targets * SECOND_MS / GOSSIP_SPREAD_EVERY_MS
            + probes * SECOND_MS / GOSSIP_PERIOD_MS
            + FEEDS * SECOND_MS / GOSSIP_FEED_MS;
        let pull = PULL_HEAD_BYTES + PULL_DIGEST_BYTES_MAX + PULL_PAGE_BYTES_MAX;
        Self {
            new_bytes: pieces * DELTA_PIECE_BYTES_MAX as u64,
            passed_on_bytes: nodes as u64 * passed_on * GOSSIP_TRANSMISSIONS as u64,
            datagram_bytes: datagrams * GOSSIP_SEALED_BYTES_MAX as u64,
            pull_bytes: (PULL_PAGES_PER_ROUND * pull) as u64 * SECOND_MS / PULL_EVERY_MS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limits, calculated by hand: 2 × 512 in 250 ms; 8 pieces × 530 × 12 for each node; three (two) targets every
    /// 100 ms, four probes and one feed in a second, each 1,232; 2 + 21,008 + 65,536.
    #[test]
    fn what_is_allowed_is_what_the_limits_say() {
        let ten = Allowed::with(10, 0);
        assert_eq!((ten.new_bytes, ten.passed_on_bytes), (4_096, 10 * 50_880));
        assert_eq!((ten.datagram_bytes, ten.pull_bytes), (35 * 1_232, 2 * 86_546));
        assert_eq!(Allowed::with(100, 0), Allowed { passed_on_bytes: 100 * 50_880, ..ten });
        assert_eq!(Allowed::with(3, 0).datagram_bytes, 25 * 1_232);
        assert_eq!(Allowed::with(10, 30).datagram_bytes, 59 * 1_232);
    }
}
