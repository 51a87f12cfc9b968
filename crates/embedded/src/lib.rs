//! The built-in graph: an [`Origin`](hopcache_engine::ports::Origin) for machines without Neo4j, over
//! graphdblite on a temporary SQLite file, filled with a generated sample (see [`sample`]).
//!
//! It answers in the form Neo4j answers in: columns in the order of the statement, records as
//! PackStream with Bolt 5 structures, errors with Neo4j's codes.
//!
//! **Bounds.** Rows, bytes, hops and paths of one statement have limits (`hopcache_core::limits`,
//! `EMBEDDED_…`); past its deadline a run is answered `TimedOut` at once. The library cannot be
//! interrupted, so the thread goes on by itself, replaced by another one, up to a number; what it would
//! write is not committed.
//!
//! **Writes** are real: `CREATE`, `MERGE`, `SET`, `REMOVE`, `DELETE`, seen by every later statement, gone
//! with the process. Counters are not known: the summary only says `contains-updates`, for a write
//! that changed nothing too.
//!
//! **Refused**, each with a message that says so: `RETURN *`, `EXPLAIN`, `PROFILE`, `CALL`, schema
//! commands, `id()`; every database but `neo4j`; impersonation; parameters that are points, byte arrays
//! or times with a zone name. The library refuses, as syntax errors, what it does not know:
//! `elementId()`, points, `CALL {…}`, `FOREACH`, `LOAD CSV`, `COUNT {…}`, quantified paths, map projections.
//!
//! **Credentials**: any are accepted.
//!
//! [`examples()`] has statements to try.

mod examples;
mod failure;
mod lexer;
mod load;
mod origin;
mod pool;
mod prng;
pub mod sample;
mod statement;
mod values;

pub use examples::{Example, examples};
pub use origin::{EmbeddedOrigin, Settings};
pub use pool::StartError;
pub use sample::Sample;
