//! Tests of the hop: proofs and replay without a network, then client and server over loopback.

mod auth;
mod framed;
mod frames;
pub(crate) mod harness;
mod loopback;
