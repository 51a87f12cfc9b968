//! Who acts on a simulated world: the schedule of a seed, its clients and writers, and the faults that it brings about.
//!
//! [`simulate`](simulate::simulate) runs one seed. `src/main.rs` runs many.

pub(crate) mod actions;
pub mod churn;
pub(crate) mod clients;
pub(crate) mod cluster;
pub(crate) mod membership_changes;
pub mod minimise;
pub mod profile;
pub mod simulate;
pub(crate) mod transactions;
pub(crate) mod writers;
