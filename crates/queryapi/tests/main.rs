//! The tests of this crate, in one program.

#[allow(unreachable_pub, reason = "other crates' tests use it too")]
mod bolt;
mod differential;
mod properties;
mod table;
