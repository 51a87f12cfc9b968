//! `hopcache serve` processes on a real Redis and a real Neo4j, with real clients. The tests kill and stop processes. A
//! proxy before Neo4j counts runs, outside hopcache. The tests use hopcache only through its HTTP interface.
//!
//! `HOPCACHE_TEST_ROUNDS=30` repeats each fault 30 times. The tests print figures to stderr (`-- --nocapture`).

mod captured;
mod collapse;
mod commits;
mod hits;
mod holder_paused;
mod invalidated;
mod joining;
mod leaving;
mod marked;
mod origin_restored;
mod outdated;
mod owner_killed;
mod proved;
mod purge;
mod routed;
mod spellings;
mod store_down;
mod traced;
mod transactions;
mod writes;
pub mod written;
