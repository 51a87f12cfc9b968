//! The text of a statement, as far as a cache needs to know it. The server is the authority on reads and writes; this crate never is.
//!
//! | room | answers |
//! |---|---|
//! | [`lexer`] | what the tokens of a text are |
//! | [`syntax`] | what the tree of a text is |
//! | [`verdict`] | whether a text certainly is no cacheable read |
//! | [`functions`] | what is known of a function |
//! | [`checks`] | whether a text may write, call a procedure, change rights or name a graph |
//! | [`forms`] | which texts share an answer, or a pattern |
//! | [`statement`] | all of that which the request path needs, from one pass over the tokens |
//! | [`anchor`] | which graph node a read starts from |
//! | [`shown_nodes`] | which graph nodes a result names |
//! | [`tags`] | what a read depends on, and what a write touches |
//!
//! Everything here is a function of its arguments, as in `hopcache_core`: no clock, no dice, no sockets.

pub mod anchor;
pub mod checks;
pub mod forms;
pub mod functions;
pub mod lexer;
pub mod limits;
mod procedures;
pub mod shown_nodes;
pub mod statement;
pub mod syntax;
pub mod tags;
pub mod verdict;
mod words;

#[cfg(test)]
extern crate self as hopcache_cypher;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod tests;
