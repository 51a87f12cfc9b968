//! Decides to which addresses this node announces itself, and when. It sends nothing.
//!
//! The node announces itself to seeds, and to members that answered a probe over TCP, as long as gossip does not see them
//! as alive. So a node joins through one seed, and a node that was alone finds the others when they start. Two halves of
//! a cluster that were cut apart merge through any address that one half still knows of the other. An address without a
//! node costs the datagrams with which the core repeats an announcement.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use hopcache_core::limits::{GOSSIP_REHEAR_MS, GOSSIP_ROUND_MAX, GOSSIP_ROUND_MS, GOSSIP_ROUND_SOON_MS};
use hopcache_core::membership::MemberInfo;
use hopcache_gossip::Gossip;
use tokio::time::Instant;

/// When the next round of announcements is due, and with which address it begins.
#[derive(Debug)]
pub(super) struct AnnounceSchedule {
    due_at: Instant,
    last: Instant,
    rehear_at: Instant,
    /// The last address of the previous round. Rounds go through the addresses in order, and each continues there.
    after: Option<SocketAddr>,
}

impl AnnounceSchedule {
    /// The first round is due at once.
    pub(super) fn new(now: Instant) -> Self {
        Self { due_at: now, last: now, rehear_at: now + pause(GOSSIP_REHEAR_MS), after: None }
    }

    pub(super) const fn next_due(&self) -> Instant {
        self.due_at
    }

    pub(super) fn are_due(&self, now: Instant) -> bool {
        self.due_at <= now
    }

    /// The members have changed: the next round comes soon, one round for many changes.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due_at = self.due_at.min((self.last + pause(GOSSIP_ROUND_SOON_MS)).max(now));
    }

    pub(super) fn is_rehearing_due(&mut self, now: Instant) -> bool {
        let is_due = self.rehear_at <= now;
        if is_due {
            self.rehear_at = now + pause(GOSSIP_REHEAR_MS);
        }
        is_due
    }

    /// The addresses of this round.
    pub(super) fn addresses(
        &mut self,
        now: Instant,
        seeds: &[SocketAddr],
        members: &[MemberInfo],
        gossip: &Gossip,
    ) -> Vec<SocketAddr> {
        (self.due_at, self.last) = (now + pause(GOSSIP_ROUND_MS), now);
        let answering = members.iter().filter(|member| member.state.is_routable());
        let mut unknown: BTreeSet<SocketAddr> =
            answering.map(|member| member.peer_addr).chain(seeds.iter().copied()).collect();
        // A member may be reached at another address than the one on its card, so both count as known.
        let alive = |member: &&MemberInfo| gossip.members().any(|card| card.life == member.incarnation);
        for known in members.iter().filter(alive) {
            unknown.remove(&known.peer_addr);
        }
        unknown.remove(&gossip.me().peer_addr);
        gossip.members().for_each(|card| {
            unknown.remove(&card.peer_addr);
        });
        self.next_of(&unknown)
    }

    fn next_of(&mut self, addrs: &BTreeSet<SocketAddr>) -> Vec<SocketAddr> {
        let behind = addrs.iter().filter(|addr| Some(**addr) > self.after);
        let before = addrs.iter().filter(|addr| Some(**addr) <= self.after);
        let round: Vec<SocketAddr> = behind.chain(before).take(GOSSIP_ROUND_MAX).copied().collect();
        self.after = round.last().copied();
        round
    }
}

const fn pause(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When there are more addresses than fit a round, every address has its turn.
    #[test]
    fn rounds_go_through_all_addresses() {
        let mut schedule = AnnounceSchedule::new(Instant::now());
        let addrs: BTreeSet<SocketAddr> =
            (1..=40_u16).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let rounds: Vec<Vec<SocketAddr>> = (0..5).map(|_| schedule.next_of(&addrs)).collect();
        assert!(rounds.iter().all(|round| round.len() == GOSSIP_ROUND_MAX));
        let all: BTreeSet<SocketAddr> = rounds.into_iter().take(3).flatten().collect();
        assert_eq!(all, addrs);
    }

    #[test]
    fn a_burst_of_changes_is_one_round() {
        let start = Instant::now();
        let mut schedule = AnnounceSchedule::new(start);
        (schedule.due_at, schedule.last) = (start + pause(GOSSIP_ROUND_MS), start);
        schedule.hurry(start);
        assert!(!schedule.are_due(start) && schedule.are_due(start + pause(GOSSIP_ROUND_SOON_MS)));
    }
}
