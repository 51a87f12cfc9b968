//! One real node in front of the real Neo4j, against that Neo4j itself: what clients see, what is kept,
//! what is refused. Nothing here knows how hopcache works inside; only HTTP and the command line.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bookmarks;
mod cli;
mod credentials;
mod freshness;
mod http;
mod input;
mod outages;
mod refusals;
mod start;
mod statements;
mod verdicts;
