//! Benchmarks of a cluster that changes while it is asked. Each writes a report and says where a goal was
//! missed by its exit code.
//!
//! | module | decides |
//! |---|---|
//! | [`roll`] | a rolling restart behind a load balancer, beside a steady state of the same length |
//! | [`scale`] | from three nodes to five and back |
//! | [`detect`] | how soon a dead node is out of routing, and whether a busy one is suspected |
//! | [`failover`] | a late write about each trouble of the store |
//! | [`balancer`], [`seconds`] | HAProxy before the nodes; figures by second and by span |

mod balancer;
pub(crate) mod detect;
pub(crate) mod failover;
pub(crate) mod roll;
pub(crate) mod scale;
mod seconds;
