//! Hopcache's decisions, and nothing else: the key of a query, its owner, the right to write it, its age.
//!
//! Everything here is a function of its arguments. There is no clock (times come in), no dice (random
//! numbers come in), no socket, no file, no task, no map of random order: `clippy.toml` beside this
//! crate's manifest refuses them. So the same inputs give the same decision in a test, in the
//! simulator and in production.

pub mod admission;
pub mod backoff;
pub mod bookmark;
pub mod breaker;
pub mod change_rate;
pub mod cores;
pub mod entry;
pub mod hot;
pub mod key;
pub mod lease;
pub mod leftover;
pub mod limits;
pub mod membership;
pub mod name_glob;
pub mod near;
pub mod node;
pub mod origin_limit;
pub mod pattern;
pub mod pattern_worth;
pub mod proof;
pub mod refresh;
pub mod result;
pub mod retries;
pub mod ring;
pub mod routing_table;
pub mod short;
pub mod tags;
pub mod time;
pub mod turns;
pub mod usual_time;
pub mod wire;
pub mod words;
pub mod write_position;

#[cfg(test)]
extern crate self as hopcache_core;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod tests;
