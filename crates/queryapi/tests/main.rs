//! The tests of this crate, in one program.

mod bolt;
mod differential;
mod properties;
mod table;
