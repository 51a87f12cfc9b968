//! Careful questions about any text, answered from its tokens alone: may it write, call a procedure, change rights, name a graph?
//!
//! A "no" is certain. A text that the lexer does not read to its end is answered by its letters. What may be cached is the
//! subject of [`crate::verdict`].

pub mod calls;
pub mod graphs;
pub mod rights;
pub mod writing;
