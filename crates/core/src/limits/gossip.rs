//! Bounds and times of gossip, each with its reason. Decides nothing.

use super::MEMBERS_MAX;

/// Largest gossip datagram before it is sealed, in bytes: 1,232 fit unfragmented into IPv6's smallest MTU (1,280 in RFC
/// 8200 section 5, less 40 for IPv6 and 8 for UDP). The seal takes 48 of them.
pub const GOSSIP_DATAGRAM_BYTES_MAX: usize = 1_232 - 48;
/// Members in the table, dead ones included: a rolling restart of a full cluster leaves one dead life for each.
pub const GOSSIP_MEMBERS_MAX: usize = 2 * MEMBERS_MAX;
/// News that wait to be sent before further unknown members are refused.
pub const GOSSIP_NEWS_MAX: usize = 2 * GOSSIP_MEMBERS_MAX;
/// Waiting timers of one node: the periodic ones, and a suspicion for each period of the longest suspicion.
pub const GOSSIP_TIMERS_MAX: usize = 64;
/// One member is pinged in each such period. In a cluster of n, some node pings a dead member in the first 1.6 periods
/// on average (SWIM section 3.1: 1 / (1 - 1/e)).
pub const GOSSIP_PERIOD_MS: u64 = 500;
/// A ping without an answer in this time is tried through others: peers are near (2 ms), and a busy one is not dead.
pub const GOSSIP_PING_MS: u64 = 200;
/// The time in which a suspect may object: two full rounds of news there and back on a machine whose cores are all
/// busy.
pub const GOSSIP_SUSPECT_MS: u64 = 1_200;
/// News are pushed to three members this often.
pub const GOSSIP_SPREAD_EVERY_MS: u64 = 100;
/// Members that get news at a time, and members that are asked to ping one that did not answer (SWIM, section 4.1;
/// memberlist's default).
pub const GOSSIP_TARGETS: usize = 3;
/// How often each node sends each piece of news: about 3·ln(100), so that with 30 % of datagrams lost every member of a
/// hundred still gets it.
pub const GOSSIP_TRANSMISSIONS: u8 = 12;
/// A timer this late shows that this node was slow. It suspects no member until it has read its socket.
pub const GOSSIP_LATE_MS: u64 = 100;
/// Pause between two rounds that announce this node to some of the dead and forget the long dead.
pub const GOSSIP_HOUSE_MS: u64 = 1_000;
/// One member is asked this often for its whole table: this repairs losses on the way to a node.
pub const GOSSIP_FEED_MS: u64 = 2_000;
/// Addresses that were asked for admission and have not answered: the seeds of a large cluster.
pub const GOSSIP_KNOCKS_MAX: usize = 32;
/// How often each is asked, a round apart; then the caller asks again. Eight of ten datagrams may be lost.
pub const GOSSIP_KNOCKS_EACH: u32 = 10;
/// Dead members that get an announcement in one round: a partition of 100 nodes heals through the first few.
pub const GOSSIP_ANNOUNCE_DEAD: usize = 3;
/// A dead member gets announcements for this time. After that a seed, or a TCP probe that it answers, brings it back.
pub const GOSSIP_DEAD_KEPT_MS: u64 = 10 * 60_000;
/// A member that left is remembered for this time, so that old news do not bring it back, and members that were cut off
/// meanwhile learn of it. As long as separated halves look for each other.
pub const GOSSIP_LEFT_KEPT_MS: u64 = GOSSIP_DEAD_KEPT_MS;
/// Rounds in which a member that was cut off gets the names of those that left: with half of the datagrams lost, 1 in
/// 1,000 misses one.
pub const GOSSIP_GOODBYES_EACH: u32 = 10;
/// Longest piece that a node can spread, in bytes: it has to fit beside a header with three names.
pub const GOSSIP_SPREAD_BYTES_MAX: usize = 512;
/// Pieces that are passed on at a time.
pub const GOSSIP_SPREAD_SLOTS: u64 = 64;
/// Pieces remembered as seen: 16 for each slot, so that none goes round for ever.
pub const GOSSIP_SPREAD_SEEN_MAX: usize = 1_024;
/// Largest gossip datagram as it is sent, in bytes, seal included: [`GOSSIP_DATAGRAM_BYTES_MAX`] has the reason.
pub const GOSSIP_SEALED_BYTES_MAX: usize = GOSSIP_DATAGRAM_BYTES_MAX + 48;
/// Gossip sessions (lives of senders) with a window on one node: several lives of each member. About 0.7 KiB each.
pub const GOSSIP_SESSIONS_MAX: usize = 4 * MEMBERS_MAX;
/// Datagrams of one sender that may overtake each other: gossip sends a few in a second.
pub const GOSSIP_WINDOW_MESSAGES: usize = 1_024;
/// Datagrams that are read in a row before timers and orders have their turn: under 1 ms of opening.
pub const GOSSIP_BURST_MAX: usize = 64;
/// The log reports refusals of gossip for one reason at most once in this time.
pub const GOSSIP_SAID_MS: u64 = 60_000;
/// Pause between two rounds of announcing this node to seeds and answering members that gossip does not know.
pub const GOSSIP_ROUND_MS: u64 = 2_000;
/// The same after a member has just answered its first probe: a burst of joins is one round.
pub const GOSSIP_ROUND_SOON_MS: u64 = 100;
/// Addresses that get an announcement in one such round; the next round goes on after them.
pub const GOSSIP_ROUND_MAX: usize = 16;
/// Waiting orders to gossip (to leave, to spread something).
pub const GOSSIP_ORDERS_MAX: usize = 64;
/// How long the farewells of a leaving node may take: they are datagrams, sent without waiting.
pub const GOSSIP_LEAVE_MS: u64 = 250;
/// Nodes that gossip takes for alive and routing does not have are named to the prober again this often.
pub const GOSSIP_REHEAR_MS: u64 = 60_000;
/// Remembered lives of other nodes with this node's own name: a mistake in one place of a deployment, restarted a few
/// times.
pub const NAMESAKES_MAX: usize = 8;
