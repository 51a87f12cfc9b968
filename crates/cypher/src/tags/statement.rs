//! Which statements may be cached: where the verdict on tokens and the parser of tags meet.
//!
//! The verdict knows which functions, procedures and clauses are harmless, wherever they stand. It cannot know what a
//! newer Cypher puts beside them, so a text with syntax that the parser does not know is not cached.

use crate::lexer::{Token, tokens};
use crate::statement::Statement;
use crate::verdict::{BypassReason, Lexed};

use crate::tags::limits::STATEMENT_BYTES_MAX;
use crate::tags::parse::{Unread, parse_tokens};

/// As [`Statement::of`]; a text is a bypass if the parser does not know its syntax, or it nests too deep to be read. Of a longer one
/// than the parser reads, the tokens decide: it has a long literal or list. Lexes the text once, in time linear in its length.
///
/// ```
/// use hopcache_cypher::verdict::Lexed;
///
/// let verdict = |text| hopcache_cypher::tags::statement(text, &[], true).lexed;
/// assert_eq!(verdict("MATCH (n:A) RETURN n.x IS :: INTEGER AS x"), Lexed::PerhapsRead);
/// assert_eq!(verdict("MATCH (n:A) FILTER n.x > 1 RETURN n").as_str(), "unreadable");
/// ```
#[must_use]
pub fn statement(text: &str, procedures: &[String], shares: bool) -> Statement {
    let tokens: Vec<Token> = tokens(text).collect();
    let mut statement = Statement::of_tokens(text, &tokens, procedures, shares);
    // The form's length, not the text's: texts that share a form share the verdict.
    let is_read = statement.lexed.may_read() && statement.normal.as_str().len() <= STATEMENT_BYTES_MAX;
    if is_read && matches!(parse_tokens(text, &tokens), Err(Unread::Syntax | Unread::Bound)) {
        statement.lexed = Lexed::Bypass(BypassReason::Unreadable);
        statement.shared = None;
    }
    statement
}
