//! A cluster in operation: nodes join, leave, die and disagree while clients ask. Real `hopcache serve` processes, a
//! real Redis, the real Neo4j or a scripted one. Each module names its faults (F..) and promises (I..).
//!
//! The tests print figures to stderr (`-- --nocapture`). Each module names the variables for larger runs.

mod behind_haproxy;
mod bolt_behind_haproxy;
mod degraded;
mod gossip;
mod joining;
mod leaving;
