//! Membership by gossip (SWIM, crate `foca`): messages in, messages out.
//!
//! This crate decides which message goes to which member, and what a received message means. It has no sockets, no
//! sealing and no clock. `hopcache_core::membership` decides which nodes are routed to: gossip introduces a node, and the
//! TCP probe admits it.
//!
//! The caller drives [`Gossip`]: a datagram came ([`Gossip::heard`]), a timer is due ([`Gossip::due`]), or this node has
//! news ([`Gossip::say`], [`Gossip::leave`], [`Gossip::spread`]). Each call pushes [`Effect`]s, which the caller carries
//! out. The same seed and the same calls in the same order give the same effects.
//!
//! How the cases of a live cluster are handled:
//!
//! - **Identity.** A member is a name in one life. Two lives of a name are two members here. Of two cards of one life the
//!   card with the higher revision is newer. Gossip cannot tell which of two lives is true, so they never compete here:
//!   the TCP probe decides.
//! - **Restart (new life, same address).** The old life does not answer pings any more, because a ping names the life that
//!   it is for. The old life is suspected and declared down. `Report::GossipDown` of the old life changes nothing about
//!   the new one.
//! - **Two nodes with one name.** Gossip knows both. Core refuses the second as `NameTaken` when it is probed.
//! - **False suspicion.** A suspected member that hears of it says again that it is alive, with a higher counter.
//! - **Declared down while alive** (a pause, a partition). The answer to its first message is "you are down". It comes
//!   back with the same card and a higher rejoin count, which wins over its death.
//! - **A healed partition.** Every [`HOUSE_MS`] this node announces itself to some members that are down, and to seeds when
//!   the node calls [`Gossip::announce`]. Both sides then learn that they are declared dead, and rejoin.
//! - **A goodbye while cut off.** Some members miss a goodbye: they come back after a cut, or they call a member dead
//!   that has said goodbye. Such a member gets the goodbyes again for some rounds. A member that it believed dead
//!   then becomes [`Effect::Left`].
//! - **Own slowness** (Lifeguard's local health, Dadgar, Phillips, Currey, DSN-W 2018, section IV): a timer that comes late
//!   is delayed once, so that answers in the socket are read before a member is suspected.
//! - **Bounds.** There are at most [`GOSSIP_MEMBERS_MAX`] members, including dead ones. The member that has been dead
//!   longest makes room. Members that do not fit are dropped from a datagram before foca sees it.
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

pub use effect::{DatagramRefusal, Effect, Timer};
pub use gossip::Gossip;
pub use settings::Settings;
pub use timers::Timers;
