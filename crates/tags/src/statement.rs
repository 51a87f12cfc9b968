//! Which statements may be cached: where the verdict on tokens and this crate's parser meet.
//!
//! The verdict knows which functions, procedures and clauses are harmless, wherever they stand. It cannot know what a
//! newer Cypher puts beside them, so a text with syntax that the parser does not know is not cached.

use hopcache_core::cypher::statement::Statement;
use hopcache_core::cypher::verdict::{BypassReason, Lexed};

use crate::parse::{Unread, parse};

/// As [`Statement::of`]; a text is a bypass if this crate does not know its syntax. Takes time linear in the length of the
/// text, which is lexed twice.
///
/// ```
/// use hopcache_core::cypher::verdict::Lexed;
///
/// let verdict = |text| hopcache_tags::statement(text, &[], true).lexed;
/// assert_eq!(verdict("MATCH (n:A) RETURN n.x IS :: INTEGER AS x"), Lexed::PerhapsRead);
/// assert_eq!(verdict("MATCH (n:A) FILTER n.x > 1 RETURN n").as_str(), "unreadable");
/// ```
#[must_use]
pub fn statement(text: &str, procedures: &[String], shares: bool) -> Statement {
    let mut statement = Statement::of(text, procedures, shares);
    // Texts that share a form share the verdict.
    if statement.lexed.may_read() && !is_known(statement.normal.as_str()) {
        statement.lexed = Lexed::Bypass(BypassReason::Unreadable);
        statement.shared = None;
    }
    statement
}

/// Whether the parser knows all of the text's syntax, as far as its bounds let it read.
fn is_known(text: &str) -> bool {
    parse(text).err() != Some(Unread::Syntax)
}
