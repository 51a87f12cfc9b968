//! Who is in the cluster, by gossip (SWIM, crate `foca`): messages in, messages out.
//!
//! Decides what to say to whom and what was heard. Never here: sockets, sealing, clocks; who is routed to
//! (that is `hopcache_core::membership`'s).
