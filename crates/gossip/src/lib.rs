//! Who is in the cluster, by gossip (SWIM, crate `foca`): messages in, messages out.
//!
//! Decides what to say to whom and what was heard. Never here: sockets, sealing, clocks; who is routed to
//! (that is `hopcache_core::membership`'s: gossip introduces, the TCP probe admits).
//!
//! [`Gossip`] is driven from outside: a datagram came ([`Gossip::heard`]), a timer is due ([`Gossip::due`]), this
//! node has something to say ([`Gossip::say`], [`Gossip::leave`], [`Gossip::spread`]). Each call pushes what is to
//! be done now as [`Effect`]s. With one seed and the same calls in the same order, the same effects follow.
//!
//! How the cases of a living cluster are handled:
//!
//! - **Identity.** A member is a name in one life; two lives of a name are two members here, and the newer
//!   of two cards of one life is the one with the higher revision. So no two lives compete in gossip, where
//!   nothing tells which of them is true: the TCP probe does.
//! - **Restart (new life, same address).** The old life does not answer its pings any more (a ping names the
//!   life it is for), is suspected and declared down; `Report::GossipDown` of the old life changes nothing
//!   about the new one.
//! - **Two nodes with one name.** Both are heard of; core refuses the second as `NameTaken` when it is probed.
//! - **False suspicion.** Who hears that it is suspected says again that it is alive, with a higher counter.
//! - **Declared down while alive** (a pause, a partition). The first message from it is answered with "you
//!   are down"; it comes back as the same card with a higher rejoin count, which wins over its death.
//! - **A healed partition.** Every [`HOUSE_MS`] some members that are down are announced to, and seeds whenever
//!   the node calls [`Gossip::announce`]; both sides then learn that they are taken for dead and rejoin.
//! - **A goodbye while cut off.** Who comes back from the dead, or speaks of the death of one that has said goodbye, is told
//!   for some rounds who has left; what it had for lost is [`Effect::Left`] then.
//! - **Own slowness** (Lifeguard's local health, Dadgar, Phillips, Currey, DSN-W 2018, section IV): a timer that
//!   comes late is put off once, so that answers which wait in the socket are read before anybody is blamed.
//! - **Bounds.** At most [`GOSSIP_MEMBERS_MAX`] members, dead ones included, the longest dead making room; what
//!   does not fit is dropped from a datagram before foca sees it.
//!
//! [`HOUSE_MS`]: hopcache_core::limits::GOSSIP_HOUSE_MS
//! [`GOSSIP_MEMBERS_MAX`]: hopcache_core::limits::GOSSIP_MEMBERS_MAX

mod effect;
mod frame;
mod goodbyes;
mod gossip;
mod identity;
mod settings;
mod spread;
#[cfg(test)]
mod tests;
mod timers;

pub use effect::{Effect, Refused, Timer};
pub use gossip::Gossip;
pub use settings::Settings;
pub use timers::Timers;
