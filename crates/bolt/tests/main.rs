//! The tests of this crate, in one program.

mod contract;
mod garbage;
mod hostile;
mod opening;
mod rest;
mod silence;
mod support;
