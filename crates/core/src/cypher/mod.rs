//! A Cypher text, as far as a cache needs to know it: its tokens, its normal form, and whether it certainly is no
//! cacheable read. The server is the authority on reads and writes; this never is.

pub mod anchor;
pub mod calls;
pub mod columns;
pub mod cursor;
pub mod escapes;
pub mod graphs;
pub mod lexer;
pub mod normal;
pub mod pattern;
pub mod rights;
pub mod shared;
pub mod statement;
pub mod verdict;
pub mod writing;
