//! The shared form of a text: equal for texts that get the same rows although they are spelled differently.
//!
//! Four differences of spelling go: names of variables, the direction in which a path is written
//! (`(a)-[r]->(b)` is `(b)<-[r]-(a)`), the order of simple conjuncts in WHERE, and the names of columns. The names of the
//! columns are handed out beside the form, so that each asker gets its own. White space, comments between tokens and the
//! case of keywords go with them.
//!
//! Why equal forms mean equal rows: a form is itself a statement. It has the tokens of the text in their order, each
//! variable under a number, paths in one direction and conjuncts in one order, and it means what the text means. So
//! two texts with one form both mean what the form means. What each step rests on:
//!
//! - **Variables** are numbered at their declaration, and a use is looked up in the scope that Neo4j gives it (`scope`). A
//!   name that is used and not declared, or that could be read as another thing, has no form.
//! - **Direction** is kept where it shows: a path with a name, and a list of relationships with a name (`patterns`).
//! - **Conjuncts** are sorted only if none of them can raise an error, so that none protects another (`exprs`).
//! - **Columns** do not count for what follows them: an alias that hides a variable has no form if ORDER BY follows.
//!
//! The parser reads a small part of Cypher 5 and nothing in two ways. MATCH, UNWIND, WITH and RETURN are read. `*`, UNION, CALL,
//! subqueries, comprehensions, map projections, patterns in expressions, quantified and shortest paths are not: such a text
//! has no form and shares as before, by its normal form. That costs sharing, never a wrong answer.
//!
//! Notifications and messages of errors quote the text that was run. This module decides nothing about them.

mod clauses;
mod exprs;
mod operands;
mod patterns;
mod scope;

use std::fmt;
use std::sync::Arc;

use self::scope::Scope;
use crate::forms::normal::without_end;
use crate::lexer::cursor::{TokenCursor, unquoted};
use crate::lexer::{Token, TokenKind};
use crate::limits::{SHARED_NESTING_MAX, SHARED_TEXT_BYTES_MAX, SHARED_TOKENS_MAX};

/// The names of a result's columns, as the asker wrote them.
pub type Columns = Arc<[Box<str>]>;

/// A text in shared form, and the names of its columns.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedForm {
    form: Arc<str>,
    columns: Columns,
}

impl SharedForm {
    /// The shared form of `text`, if this parser proves one. Takes time linear in its length, which is bounded.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        Self::of_tokens(text, &crate::lexer::tokens(text).collect::<Vec<_>>())
    }

    /// The same, from its tokens.
    pub(crate) fn of_tokens(text: &str, tokens: &[Token]) -> Option<Self> {
        if text.len() > SHARED_TEXT_BYTES_MAX || tokens.len() > SHARED_TOKENS_MAX {
            return None;
        }
        // Neo4j decodes `\u0041` before it reads tokens, so names of variables and columns are not what is written.
        if text.contains("\\u") || text.contains("\\U") {
            return None;
        }
        let scope = Scope::default();
        let mut parser = Parser { text, tokens: without_end(tokens), at: 0, depth: 0, scope };
        let (form, columns) = parser.query().ok()?;
        Some(Self { form: form.into(), columns: columns.into() })
    }

    /// The form. It is a statement with the same rows, under other column names.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.form
    }

    /// Bytes that the form and the names keep alive.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.form.len() + columns_bytes(&self.columns)
    }

    /// The names of the columns.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }
}

/// Bytes of names of columns: each with its own block, of 16 bytes at least.
#[must_use]
pub fn columns_bytes(columns: &Columns) -> usize {
    columns.iter().map(|name| size_of::<Box<str>>() + name.len().max(16)).sum()
}

/// Shows the length only: query text stays out of logs by default.
impl fmt::Debug for SharedForm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SharedForm({} bytes, {} columns)", self.form.len(), self.columns.len())
    }
}

/// A text that this parser does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unread;

type Parsed<T> = Result<T, Unread>;

/// The parser's place in a text. It never goes back to try another reading.
struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    /// The variables that an expression may use here.
    scope: Scope,
}

impl<'a> TokenCursor<'a> for Parser<'a> {
    fn place(&self) -> (&'a str, &'a [Token], usize) {
        (self.text, self.tokens, self.at)
    }

    fn advance(&mut self, tokens: usize) {
        self.at += tokens;
    }
}

impl<'a> Parser<'a> {
    /// Whether the next tokens are these characters, with nothing between them.
    fn are_glued(&self, puncts: &str) -> bool {
        puncts
            .chars()
            .enumerate()
            .all(|(ahead, punct)| self.is_at(ahead, punct) && (ahead == 0 || self.is_glued(ahead)))
    }

    /// Whether there is no gap before this token.
    fn is_glued(&self, ahead: usize) -> bool {
        let place = self.at + ahead;
        let ends = |before: usize| self.tokens.get(before).map(|token| token.end);
        place.checked_sub(1).and_then(ends) == self.tokens.get(place).map(|token| token.start)
    }

    fn expect(&mut self, punct: char) -> Parsed<()> {
        if self.skip(punct) { Ok(()) } else { Err(Unread) }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.skip_word(word) { Ok(()) } else { Err(Unread) }
    }

    /// The next token as written, if it is a name: a label, a type, a property key.
    fn written_name(&mut self) -> Parsed<&'a str> {
        if !self.is_name_at(0) {
            return Err(Unread);
        }
        self.at += 1;
        Ok(self.tokens[self.at - 1].text(self.text))
    }

    /// A name without its backticks.
    fn name(&mut self) -> Parsed<String> {
        let is_quoted = self.kind(0) == Some(TokenKind::QuotedWord);
        let written = self.written_name()?;
        Ok(if is_quoted { unquoted(written) } else { written.to_owned() })
    }

    /// Runs `read` one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == SHARED_NESTING_MAX {
            return Err(Unread);
        }
        self.depth += 1;
        let parsed = read(self);
        self.depth -= 1;
        parsed
    }
}

/// Adds a token to a form. One space stands between two tokens, so a form has one reading.
fn put(form: &mut String, token: &str) {
    if !form.is_empty() {
        form.push(' ');
    }
    form.push_str(token);
}

#[cfg(test)]
mod tests;
