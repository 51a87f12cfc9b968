//! What a read depends on and what a write touches, from the texts of both: labels, relationship types, property keys.
//!
//! [`ReadTags::touched_by`] is "no" only if the write cannot change the read's result, whatever the graph is: rows,
//! values, counts, and their order where `ORDER BY` gives one. [`rules`] has all rules in one table, and the exact
//! promise. A statement that the reader ([`crate::syntax`]) does not read for certain has the tag "anything".
//!
//! [`anchored`] says the same more finely: a read of one value of a key and a write to another are told apart. The engine does not
//! use it yet.
//!
//! Two questions beside: can the result change while the graph stays ([`ReadTags::is_volatile`]), and how many
//! transaction ids does the write consume at most ([`WriteEffects::transactions_max`], [`WriteEffects::tokens`])?
//!
//! The reader is Hopcache's own. `open-cypher` 0.5, the only published one with a typed tree, does not read
//! `CALL { … }`, `FOREACH`, `EXISTS { (a)-->(:B) }`, dynamic labels, index hints and `FINISH`, and took
//! 132 s for 60 KB of `( ( ( …` (not optimised, on a busy machine).
//!
//! ```
//! use hopcache_cypher::tags::{ReadTags, WriteEffects};
//!
//! let read = ReadTags::of("MATCH (u:User {id: $id})-[:FOLLOWS]->(f) RETURN f.name");
//! let touches = |write| read.touched_by(&WriteEffects::of(write, &[0xa0]));
//! assert!(touches("MATCH (u:User {id: 1}) SET u.name = 'Ada'"));
//! assert!(touches("MATCH (a:User {id: 1})-[r:FOLLOWS]->() DELETE r"));
//! assert!(!touches("MATCH (u:User {id: 1}) SET u.seen = 7"));
//! assert!(!touches("MATCH (u:User {id: 1}) CREATE (u)-[:WROTE]->(:Post {name: 'x'})"));
//! ```

pub mod anchored;
mod counters;
mod facts;
mod id;
pub mod limits;
mod names;
mod needs;
mod params;
mod read;
pub mod rules;
mod tokens;
mod touches;
mod volatility;
mod write;

pub use counters::Counters;
pub use hopcache_core::tags::TagId;
pub use read::ReadTags;
pub use rules::{Need, Token, Touch};
pub use volatility::Volatility;
pub use write::WriteEffects;
