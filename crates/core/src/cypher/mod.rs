//! What a Cypher text is, as far as a cache has to know: its tokens, its normal form, and whether it
//! certainly is no cacheable read. The authority on reads and writes is the server, never this.

pub mod anchor;
pub mod columns;
pub mod lexer;
pub mod normal;
pub mod pattern;
pub mod statement;
pub mod verdict;
