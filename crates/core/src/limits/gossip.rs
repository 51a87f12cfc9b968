//! Bounds and times of gossip, each with its reason. Decides nothing.

use super::MEMBERS_MAX;

/// Largest gossip datagram before it is sealed, in bytes: 1,232 fit unfragmented into IPv6's smallest MTU (1,280 of
/// RFC 8200 section 5, less 40 of IPv6 and 8 of UDP); 48 of them are left to the seal.
pub const GOSSIP_DATAGRAM_BYTES_MAX: usize = 1_232 - 48;
/// Members in the table, dead ones included: a rolling restart of a full cluster leaves one dead life for each.
pub const GOSSIP_MEMBERS_MAX: usize = 2 * MEMBERS_MAX;
/// News that wait to be told before no more unknown members are let in.
pub const GOSSIP_NEWS_MAX: usize = 2 * GOSSIP_MEMBERS_MAX;
/// Timers of one node that wait: the periodic ones, and a suspicion for each period of the longest suspicion.
pub const GOSSIP_TIMERS_MAX: usize = 64;
/// One member is pinged in each such period. In a cluster of n a dead member is pinged by somebody in the
/// first 1.6 periods on average (SWIM section 3.1: 1 / (1 - 1/e)).
pub const GOSSIP_PERIOD_MS: u64 = 500;
/// A ping that was not answered in this time is tried through others: peers are near (2 ms), a busy one is not dead.
pub const GOSSIP_PING_MS: u64 = 200;
/// A suspect has this long to object: two full rounds of news there and back on a machine whose cores are all busy.
pub const GOSSIP_SUSPECT_MS: u64 = 1_200;
/// News are pushed to three members this often.
pub const GOSSIP_SPREAD_EVERY_MS: u64 = 100;
/// Members to whom news are pushed at a time, and who are asked to ping one that did not answer (SWIM, section 4.1;
/// memberlist's default).
pub const GOSSIP_TARGETS: usize = 3;
/// How often each node tells each piece of news: about 3·ln(100), so that with 30 % of datagrams lost every member of a
/// hundred still hears of it.
pub const GOSSIP_TRANSMISSIONS: u8 = 12;
/// A timer that is this late says that this node was slow: it blames nobody until it has read its socket.
pub const GOSSIP_LATE_MS: u64 = 100;
/// Pause between two rounds in which some of the dead are announced to and the long dead are forgotten.
pub const GOSSIP_HOUSE_MS: u64 = 1_000;
/// One member is asked for all that it knows this often: what was lost on the way to a node comes by again.
pub const GOSSIP_FEED_MS: u64 = 2_000;
/// Addresses that were asked to be let in and have not answered: the seeds of a large cluster.
pub const GOSSIP_KNOCKS_MAX: usize = 32;
/// How often each is asked, a round apart; then it is the caller's turn again. Eight of ten datagrams may be lost.
pub const GOSSIP_KNOCKS_EACH: u32 = 10;
/// Dead members announced to in one round: a partition of 100 nodes heals through the first few.
pub const GOSSIP_ANNOUNCE_DEAD: usize = 3;
/// A dead member is announced to for this long; after that a seed, or a TCP probe that it answers, brings it back.
pub const GOSSIP_DEAD_KEPT_MS: u64 = 10 * 60_000;
/// A member that said goodbye is remembered for this long, so that old news do not bring it back, and who was cut off
/// meanwhile is told of it: as long as halves that were cut apart look for each other.
pub const GOSSIP_LEFT_KEPT_MS: u64 = GOSSIP_DEAD_KEPT_MS;
/// Rounds in which a member that was cut off is told who has left: with half of the datagrams lost, 1 in 1,000 is not told.
pub const GOSSIP_GOODBYES_EACH: u32 = 10;
/// Longest piece that a node can spread, in bytes: it has to fit beside a header with three names.
pub const GOSSIP_SPREAD_BYTES_MAX: usize = 512;
/// Pieces that are passed on at a time.
pub const GOSSIP_SPREAD_SLOTS: u64 = 64;
/// Pieces that are known as seen: 16 for each slot, so that one does not go round for ever.
pub const GOSSIP_SPREAD_SEEN_MAX: usize = 1_024;
/// Largest gossip datagram as it is sent, in bytes, seal included: [`GOSSIP_DATAGRAM_BYTES_MAX`] has the reason.
pub const GOSSIP_SEALED_BYTES_MAX: usize = GOSSIP_DATAGRAM_BYTES_MAX + 48;
/// Gossip sessions (lives of senders) that one node keeps windows for: several lives of each member. About 0.7 KiB each.
pub const GOSSIP_SESSIONS_MAX: usize = 4 * MEMBERS_MAX;
/// Datagrams of one sender that may overtake each other: gossip sends a few in a second.
pub const GOSSIP_WINDOW_MESSAGES: usize = 1_024;
/// Datagrams that are read in one go before timers and orders have their turn: under 1 ms of opening.
pub const GOSSIP_BURST_MAX: usize = 64;
/// What gossip refuses for one reason is said in the log at most once in this time.
pub const GOSSIP_SAID_MS: u64 = 60_000;
/// Pause between two rounds of announcing this node to seeds and answering members that gossip does not know.
pub const GOSSIP_ROUND_MS: u64 = 2_000;
/// The same when a member has just answered its first probe: a burst of joins is one round.
pub const GOSSIP_ROUND_SOON_MS: u64 = 100;
/// Addresses that one such round announces to; the next round goes on behind them.
pub const GOSSIP_ROUND_MAX: usize = 16;
/// Orders to gossip (to leave, to spread something) that wait.
pub const GOSSIP_ORDERS_MAX: usize = 64;
/// How long the goodbyes of a node that leaves may take: they are datagrams, sent without waiting.
pub const GOSSIP_LEAVE_MS: u64 = 250;
/// Nodes that gossip holds for alive and that are not routed to are named to the prober again this often.
pub const GOSSIP_REHEAR_MS: u64 = 60_000;
/// Lives of other nodes of a node's own name that it remembers: a mistake in one place of a deployment, restarted a few times.
pub const NAMESAKES_MAX: usize = 8;
