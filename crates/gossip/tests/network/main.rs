//! Clusters of [`hopcache_gossip::Gossip`] on a virtual network (F11, F12, F13, F14, I9, I12, I13).
//!
//! `HOPCACHE_TEST_GOSSIP_FAKES` (default 50,000): members that one holder of the cluster key invents.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "shared test code may fail tests and prints figures"
)]

mod flood;
mod hostile;
mod life;
mod net;
mod weather;
