//! The console in a real Chromium, before three `hopcache serve` processes on a real Redis and a real Neo4j.
//!
//! `HOPCACHE_TEST_PICTURES=/full/path` keeps a picture of every view, light and dark, wide and narrow. The tests print
//! figures to stderr (`-- --nocapture`).

mod browser;
mod token;
mod traffic;
mod views;
