//! Neo4j's own drivers, each with only its URL changed: the same program runs against Neo4j and against Hopcache before
//! it. Needs a real Neo4j, `python3` with `venv`, `node` with `npm`, a JDK with Maven, and Go.

mod answers;
mod arcadedb;
mod balanced;
mod bookmarks;
mod cluster;
mod collapse;
mod commands;
mod differential;
mod examples;
mod hits;
mod install;
mod interrupted;
mod large_messages;
mod leaving;
mod old_clients;
mod raw;
mod readme;
mod round_trips;
mod rust_driver;
mod streaming;
mod vanishing;
mod websocket;

/// A write ends what a session with bookmarks may be answered with. Tests that count hits hold it alone, tests that write hold
/// it together.
static NEO4J: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());
