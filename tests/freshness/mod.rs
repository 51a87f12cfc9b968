//! Freshness: entries expire, are refreshed, go stale, and outlive their origin's faults. `hopcache serve` processes
//! with a real Redis, before the real Neo4j or a scripted one that causes faults. The tests use hopcache only through
//! its HTTP interface.
//!
//! A proxy outside hopcache counts runs. The tests print figures to stderr (`-- --nocapture`). Each module names the
//! variables for larger runs.

mod cache_control;
mod client_errors;
mod hints;
mod paused_node;
mod scripted_cluster;
mod stale_if_error;
mod stale_while_revalidate;
mod zero_ttl;
