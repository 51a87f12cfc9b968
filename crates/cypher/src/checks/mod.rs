//! Careful questions about any text, answered from its tokens alone: may it write, call a procedure, change rights, name a graph?
//!
//! [`schema`] is the other way round: its "yes" is certain. Of the others a "no" is. A text that the lexer does not read to its end is answered by its letters. What may be cached is the
//! subject of [`crate::verdict`].

pub mod calls;
pub mod graphs;
pub mod rights;
pub mod schema;
pub mod writing;
