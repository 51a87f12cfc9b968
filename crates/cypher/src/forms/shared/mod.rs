//! The shared form of a text: equal for texts that get the same rows although they are spelled differently.
//!
//! Four differences of spelling go: names of variables, the direction in which a path is written
//! (`(a)-[r]->(b)` is `(b)<-[r]-(a)`), the order of simple conjuncts in WHERE, and the names of columns. The names of the
//! columns are handed out beside the form, so that each asker gets its own. White space, comments between tokens and the
//! case of keywords go with them. A prefix (`CYPHER 5 runtime=slotted`) stays, in one spelling.
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
//! The printer knows a small part of the tree ([`crate::syntax`]). MATCH, UNWIND, WITH and RETURN are printed. `*`, UNION, CALL,
//! subqueries, comprehensions, map projections, patterns in expressions, quantified and shortest paths are not: such a text
//! has no form and shares as before, by its normal form. That costs sharing, never a wrong answer. A node that is not on the list
//! of a `match` has no form, and neither has one whose spelling could be read in another way: a gap inside an arrow or an operator,
//! a sign before a sign.
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
use crate::lexer::{Token, TokenKind, tokens};
use crate::limits::{SHARED_NESTING_MAX, SHARED_TEXT_BYTES_MAX, SHARED_TOKENS_MAX};
use crate::syntax::Syntax;
use crate::syntax::tree::Span;

/// The names of a result's columns, as the asker wrote them.
pub type Columns = Arc<[Box<str>]>;

/// A text in shared form, and the names of its columns.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedForm {
    form: Arc<str>,
    columns: Columns,
}

impl SharedForm {
    /// The shared form of `text`, if this printer proves one. Takes time linear in its length, which is bounded.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        if text.len() > SHARED_TEXT_BYTES_MAX {
            return None;
        }
        let tokens: Vec<Token> = tokens(text).collect();
        let syntax = Syntax::of(text, &tokens).ok()?;
        Self::of_tree(text, &tokens, &syntax)
    }

    /// The same, from its tree.
    pub(crate) fn of_tree(text: &str, tokens: &[Token], syntax: &Syntax<'_>) -> Option<Self> {
        if text.len() > SHARED_TEXT_BYTES_MAX || tokens.len() > SHARED_TOKENS_MAX {
            return None;
        }
        // Neo4j decodes `\u0041` before it reads tokens, so names of variables and columns are not what is written.
        if text.contains("\\u") || text.contains("\\U") {
            return None;
        }
        let Syntax { prefix, query, .. } = syntax;
        if prefix.plan.is_some() || prefix.unknown.is_some() {
            return None;
        }
        let mut form = String::with_capacity(text.len() * 2);
        form.push_str(&prefix.form());
        let mut printer = Printer { text, tokens, form, depth: 0, scope: Scope::default() };
        let columns = printer.query(query)?;
        Some(Self { form: printer.form.into(), columns: columns.into() })
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

/// A printer's place. Each step is `None` if a node has no form.
struct Printer<'q> {
    text: &'q str,
    tokens: &'q [Token],
    /// What is printed so far.
    form: String,
    depth: usize,
    /// The variables that an expression may use here.
    scope: Scope,
}

impl<'q> Printer<'q> {
    /// Prints a token.
    fn put(&mut self, token: &str) {
        put(&mut self.form, token);
    }

    /// Prints tokens as they are written.
    fn put_all(&mut self, span: Span) {
        (span.from..span.to).for_each(|at| self.put(self.tokens[at].text(self.text)));
    }

    /// What `print` prints, apart from the form.
    fn apart(&mut self, print: impl FnOnce(&mut Self) -> Option<()>) -> Option<String> {
        let form = std::mem::take(&mut self.form);
        let printed = print(self);
        let apart = std::mem::replace(&mut self.form, form);
        printed.map(|()| apart)
    }

    fn is(&self, at: usize, punct: char) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(punct))
    }

    fn kind(&self, at: usize) -> Option<TokenKind> {
        self.tokens.get(at).map(|token| token.kind)
    }

    /// Runs `print` one level deeper.
    fn nested<T>(&mut self, print: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == SHARED_NESTING_MAX {
            return None;
        }
        self.depth += 1;
        let printed = print(self);
        self.depth -= 1;
        printed
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
