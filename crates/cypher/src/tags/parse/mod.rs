//! A parser of Cypher 5 for tags: it reads the tokens of `crate::lexer` by recursive descent.
//!
//! It fails on any text that it does not read for certain, and the tags of such a text are "anything". So it may know
//! too little of Cypher, and it must never read a text in another sense than Neo4j does. Three choices serve that:
//!
//! - No word is reserved in Cypher. The parser knows at each token whether an operand or an operator is due, so a word
//!   is a variable only where an operand stands.
//! - It never goes back to try another reading. `(a)--(b)` in an expression is a pattern or an error.
//! - Syntax that it does not know (`USE`, schema commands, all that is new in Cypher 25, …) is an error, and such a text is
//!   not cached ([`crate::tags::statement`]).
//!
//! Some syntax of Cypher 5 it knows, and not the meaning: procedures, type predicates, variables that are named like
//! keywords. It reads such a text to its end, so that it finds syntax that it does not know, and then fails with
//! [`Unread::Meaning`].
//!
//! | module | reads |
//! |---|---|
//! | this | tokens, names, brackets, bounds |
//! | [`clauses`] | clauses and subqueries |
//! | [`changes`] | the clauses that write |
//! | [`patterns`] | paths, nodes, relationships |
//! | [`labels`] | expressions of labels and types |
//! | [`exprs`] | expressions |
//! | [`operands`] | operands of expressions |
//! | [`lists`] | lists and comprehensions |
//! | [`calls`] | functions, and what they do with graph elements |
//! | [`types`] | type predicates |

mod calls;
mod changes;
mod clauses;
mod exprs;
mod labels;
mod lists;
mod operands;
mod patterns;
mod types;

use crate::lexer::cursor::{TokenCursor, unquoted};
use crate::lexer::{Token, TokenKind, tokens};

use crate::tags::limits::{COPIES_MAX, NESTING_MAX, STATEMENT_BYTES_MAX};
use crate::tags::tree::Query;

/// Why this parser has no tree of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It has syntax that this parser does not know.
    Syntax,
    /// This parser knows its syntax, and does not know for certain what it reads.
    Meaning,
    /// It is beyond a bound of [`crate::tags::limits`].
    Bound,
}

type Parsed<T> = Result<T, Unread>;

/// The tree of `text`. Takes time linear in its length.
pub(crate) fn parse(text: &str) -> Parsed<Query> {
    if text.len() > STATEMENT_BYTES_MAX {
        return Err(Unread::Bound);
    }
    parse_tokens(text, &tokens(text).collect::<Vec<_>>())
}

/// The same, from its tokens.
pub(crate) fn parse_tokens(text: &str, tokens: &[Token]) -> Parsed<Query> {
    let mut parser = Parser {
        text,
        closers: closers(tokens)?,
        tokens,
        at: 0,
        depth: 0,
        bars: 0,
        copies: 0,
        is_vague: false,
    };
    let query = parser.query()?;
    parser.skip(';');
    match parser.at == tokens.len() {
        false => Err(Unread::Syntax),
        true if parser.is_vague => Err(Unread::Meaning),
        true => Ok(query),
    }
}

/// For each opening bracket the index of its closing one, and for other tokens their own. Fails if brackets do not match.
fn closers(tokens: &[Token]) -> Parsed<Vec<usize>> {
    let mut closers: Vec<usize> = (0..tokens.len()).collect();
    let mut open: Vec<(usize, char)> = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match token.kind {
            TokenKind::Trouble(_) => return Err(Unread::Syntax),
            TokenKind::Punct('(') => open.push((index, ')')),
            TokenKind::Punct('[') => open.push((index, ']')),
            TokenKind::Punct('{') => open.push((index, '}')),
            TokenKind::Punct(close @ (')' | ']' | '}')) => match open.pop() {
                Some((from, awaited)) if awaited == close => closers[from] = index,
                _ => return Err(Unread::Syntax),
            },
            _ => {}
        }
    }
    if open.is_empty() { Ok(closers) } else { Err(Unread::Syntax) }
}

/// The parser's place in a text.
struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token],
    closers: Vec<usize>,
    at: usize,
    depth: usize,
    /// How many constructs are open whose parts a `|` separates, such as list comprehensions.
    bars: usize,
    copies: usize,
    /// Whether it has read syntax whose meaning it does not know. The tree is then of no use.
    is_vague: bool,
}

impl<'a> TokenCursor<'a> for Parser<'a> {
    fn place(&self) -> (&'a str, &'a [Token], usize) {
        (self.text, self.tokens, self.at)
    }

    fn advance(&mut self, tokens: usize) {
        self.at += tokens;
    }
}

impl Parser<'_> {
    /// Whether the next tokens are these characters.
    fn are(&self, puncts: &str) -> bool {
        puncts.chars().enumerate().all(|(ahead, punct)| self.is_at(ahead, punct))
    }

    fn is_any_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    fn expect(&mut self, punct: char) -> Parsed<()> {
        if self.skip(punct) { Ok(()) } else { Err(Unread::Syntax) }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.skip_word(word) { Ok(()) } else { Err(Unread::Syntax) }
    }

    /// A name, without its backticks.
    fn name(&mut self) -> Parsed<String> {
        let source = self.source(0);
        let name = match self.kind(0) {
            Some(TokenKind::Word) => source.to_owned(),
            Some(TokenKind::QuotedWord) => unquoted(source),
            _ => return Err(Unread::Syntax),
        };
        self.at += 1;
        Ok(name)
    }

    /// `$name` or `$0`. The name of the parameter.
    fn parameter(&mut self) -> Parsed<String> {
        self.expect('$')?;
        if self.kind(0) == Some(TokenKind::Number) {
            self.at += 1;
            return Ok(self.tokens[self.at - 1].text(self.text).to_owned());
        }
        self.name()
    }

    /// Runs `read` one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == NESTING_MAX {
            return Err(Unread::Bound);
        }
        self.depth += 1;
        let parsed = read(self);
        self.depth -= 1;
        parsed
    }

    /// Runs `read` where a `|` separates, so that the last `|` is not one of labels.
    fn before_bar<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.with_bars(self.bars + 1, read)
    }

    /// Runs `read` inside brackets of its own, where no `|` from outside separates.
    fn within_brackets<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.with_bars(0, read)
    }

    fn with_bars<T>(&mut self, bars: usize, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        let outside = std::mem::replace(&mut self.bars, bars);
        let parsed = read(self);
        self.bars = outside;
        parsed
    }

    /// `read (, read)*`.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![read(self)?];
        while self.skip(',') {
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// Counts `count` copies of names; fails when there are too many.
    fn copy(&mut self, count: usize) -> Parsed<()> {
        self.copies += count;
        if self.copies > COPIES_MAX { Err(Unread::Bound) } else { Ok(()) }
    }

    /// Whether the `|` that is next is one of labels or types. Where a `|` separates as well, which is which is for Neo4j
    /// to say: the last one separates here, and the meaning counts as unknown.
    fn bar_is_inside(&mut self) -> bool {
        if self.bars == 0 {
            return true;
        }
        self.is_vague = true;
        self.has_bar(self.at + 1)
    }

    /// Whether a `|` is at `from` or behind it, before a comma or the end of the bracket that is open there. `||` is none.
    fn has_bar(&self, from: usize) -> bool {
        let is_bar = |at: usize| self.tokens.get(at).is_some_and(|token| token.is('|'));
        let mut at = from;
        while let Some(token) = self.tokens.get(at) {
            match token.kind {
                TokenKind::Punct('(' | '[' | '{') => at = self.closers[at],
                TokenKind::Punct(',' | ')' | ']' | '}') => return false,
                TokenKind::Punct('|') if is_bar(at + 1) => at += 1,
                TokenKind::Punct('|') => return true,
                _ => {}
            }
            at += 1;
        }
        false
    }

    /// The index after the bracket that closes the one that is next.
    fn behind_bracket(&self) -> usize {
        self.closers.get(self.at).map_or(self.at, |close| close + 1)
    }
}
