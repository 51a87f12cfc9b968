//! Faults, hostile clients and bad input: `hopcache serve` processes on a real Redis and a real or proxied Neo4j. Each
//! test proves that its fault happened. The tests use hopcache only through its HTTP interface.
//!
//! The tests print figures to stderr (`-- --nocapture`). Each module names the variables for larger runs.

mod audit;
mod bodies;
mod degrees;
mod descriptors;
mod flights;
mod hostile;
mod hosts;
mod input;
mod isolation;
mod messages;
mod origin;
mod query_log;
mod request_log;
mod shutdown;
mod start;
mod store;
mod tls;
