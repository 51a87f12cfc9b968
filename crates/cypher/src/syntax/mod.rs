//! The tree of a statement, and its reader: recursive descent over the tokens of [`crate::lexer`].
//!
//! | user | walks |
//! |---|---|
//! | [`crate::tags`] | clauses, patterns, and what an expression reads and holds (`facts`) |
//! | [`crate::forms::shared`] | the clauses, patterns and operands on its list, and prints them |
//! | [`crate::anchor`] | the first `MATCH` and its `WHERE` |
//! | [`crate::statement`] | nothing: a text that has no tree is not cached |
//!
//! # What the reader promises
//!
//! A tree is certain, or the tree says where it is not. The reader may know too little of Cypher 5, and it never reads a text in
//! another sense than Neo4j does. Three choices serve that:
//!
//! - No word is reserved in Cypher. The reader knows at each token whether an operand or an operator is due, so a word
//!   is a variable only where an operand stands.
//! - It never goes back to try another reading. `(a)--(b)` in an expression is a pattern or an error.
//! - Syntax that it does not know (`USE`, schema commands, `SEARCH` and some more of Cypher 25, …) is an error, and such a text is
//!   not cached.
//!
//! Some syntax it knows, and not the meaning: most procedures ([`tree::Clause::Procedure`]), labels with
//! a doubtful `|` or `IS` ([`tree::Labels::is_certain`]), variables that are named like keywords, where no property stands behind them. It reads such a text to its end, so that it finds syntax that it does not know, and [`Syntax::is_certain`] is false.
//! A user then takes no part of the tree that depends on that meaning: tags take none of the tree, the shared form has a list of
//! nodes that it prints, and an anchor is made of names and literals alone.
//!
//! Time and memory are linear in the length of a text. Recursion is bounded by [`NESTING_MAX`].
//!
//! # How to add a clause
//!
//! 1. `tree`: a variant of [`tree::Clause`], with everything that the text says, in its order. What has no meaning for a user stays in
//!    the node, so that the user can refuse it. Say so in the node if the reader is not certain of the meaning.
//! 2. `clauses.rs` or `changes.rs`: an arm in `clause` or `change_clause`, and a function that reads what stands behind the word.
//!    `expect` what has to stand there. A keyword that may be a name needs a look at the token behind it. Put what nests into
//!    `nested`. Set `is_certain` to false for syntax without a certain meaning.
//! 3. rustc names the walks that have to know the clause: `tags/names.rs` (what it binds), `tags/needs.rs` (what a read depends on),
//!    `tags/touches.rs` and `tags/tokens.rs` (what a write does), and `tags/anchored/{needs,touches}.rs` (the same with values). A row in [`crate::tags::rules`] for what is new, with a test.
//!    `forms/shared` prints no clause that is not on its list; leave it out unless equal forms certainly mean equal rows.
//! 4. A line in `tests/tags/cypher5_reads.txt` that Neo4j has explained, and the clause in the seeds of `crates/fuzzing`.
//!
//! | module | has or reads |
//! |---|---|
//! | [`tree`] | the nodes |
//! | this | tokens, names, brackets, bounds |
//! | `clauses` | clauses and subqueries |
//! | `changes` | the clauses that write |
//! | `patterns` | paths, nodes, relationships |
//! | `labels` | expressions of labels and types |
//! | `exprs` | expressions |
//! | `operands` | operands of expressions |
//! | `lists` | lists and comprehensions |
//! | `types` | type predicates |
//! | `prefix` | `CYPHER 5 runtime=slotted`, `EXPLAIN`, `PROFILE` before all of that |

mod changes;
mod clauses;
mod exprs;
mod labels;
mod lists;
mod operands;
mod patterns;
mod prefix;
pub mod tree;
mod types;

use std::borrow::Cow;

use crate::lexer::{Token, TokenKind, tokens};
use crate::limits::{NESTING_MAX, STATEMENT_BYTES_MAX};

pub use prefix::Prefix;

use tree::{Name, Query, Span};

/// The tree of a text, and whether the reader knows what it means.
#[derive(Debug)]
pub struct Syntax<'t> {
    /// What stands before the statement.
    pub prefix: Prefix,
    /// The tree.
    pub query: Query<'t>,
    /// Whether the reader knows the meaning of all of it.
    pub is_certain: bool,
}

/// Why this reader has no tree of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unread {
    /// The text has syntax that this reader does not know.
    Syntax,
    /// The text nests too deep.
    Bound,
}

type Parsed<T> = Result<T, Unread>;

impl<'t> Syntax<'t> {
    /// Reads `text`, whose tokens these are. Takes time linear in its length.
    ///
    /// # Errors
    ///
    /// If this reader does not know its syntax, or it nests too deep.
    pub fn of(text: &'t str, tokens: &[Token]) -> Result<Self, Unread> {
        let closers = closers(tokens)?;
        let prefix = Prefix::of(text, tokens);
        if prefix.has_unknown_language {
            return Err(Unread::Syntax);
        }
        let at = prefix.tokens;
        let mut parser = Parser { text, closers, tokens, at, depth: 0, bars: 0, inner: 0, is_certain: true };
        let query = parser.query()?;
        parser.skip(';');
        let is_whole = parser.at == tokens.len();
        if is_whole { Ok(Self { prefix, query, is_certain: parser.is_certain }) } else { Err(Unread::Syntax) }
    }
}

/// The tree of `text`, if the reader knows the meaning of all of it, and the text is no longer than [`STATEMENT_BYTES_MAX`].
pub(crate) fn certain(text: &str) -> Option<Syntax<'_>> {
    if text.len() > STATEMENT_BYTES_MAX {
        return None;
    }
    let tokens: Vec<Token> = tokens(text).collect();
    let syntax = Syntax::of(text, &tokens).ok()?;
    syntax.is_certain.then_some(syntax)
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

/// The reader's place in a text.
struct Parser<'t, 's> {
    text: &'t str,
    tokens: &'s [Token],
    closers: Vec<usize>,
    at: usize,
    depth: usize,
    /// How many constructs are open whose parts a `|` separates, such as list comprehensions.
    bars: usize,
    /// How many operands it has read that have maps, patterns, subqueries or variables of their own.
    inner: usize,
    is_certain: bool,
}

impl<'t> Parser<'t, '_> {
    /// The kind of the token that comes after `ahead` others; `None` at the end.
    fn kind(&self, ahead: usize) -> Option<TokenKind> {
        self.tokens.get(self.at + ahead).map(|token| token.kind)
    }

    /// That token as it is written; empty at the end.
    fn source(&self, ahead: usize) -> &'t str {
        self.tokens.get(self.at + ahead).map_or("", |token| token.text(self.text))
    }

    /// Whether this character is next.
    fn is(&self, punct: char) -> bool {
        self.is_at(0, punct)
    }

    /// Whether this character comes after `ahead` other tokens.
    fn is_at(&self, ahead: usize, punct: char) -> bool {
        self.kind(ahead) == Some(TokenKind::Punct(punct))
    }

    /// Whether the next tokens are these characters.
    fn are(&self, puncts: &str) -> bool {
        puncts.chars().enumerate().all(|(ahead, punct)| self.is_at(ahead, punct))
    }

    /// Whether no gap stands before the token that comes after `ahead` others.
    fn is_glued(&self, ahead: usize) -> bool {
        let place = self.at + ahead;
        let end = place.checked_sub(1).and_then(|before| self.tokens.get(before)).map(|token| token.end);
        end == self.tokens.get(place).map(|token| token.start)
    }

    /// Whether this word is next, in any case.
    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    /// Whether this word comes after `ahead` other tokens, in any case.
    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        self.kind(ahead) == Some(TokenKind::Word) && self.source(ahead).eq_ignore_ascii_case(word)
    }

    fn is_any_word(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is_word(word))
    }

    /// Whether a name, with backticks or without, comes after `ahead` other tokens.
    fn is_name_at(&self, ahead: usize) -> bool {
        matches!(self.kind(ahead), Some(TokenKind::Word | TokenKind::QuotedWord))
    }

    /// Skips `punct` if it is next.
    fn skip(&mut self, punct: char) -> bool {
        let is_it = self.is(punct);
        self.at += usize::from(is_it);
        is_it
    }

    /// Skips `word` if it is next.
    fn skip_word(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        self.at += usize::from(is_it);
        is_it
    }

    /// Skips one of `words` if one is next.
    fn skip_any_word(&mut self, words: &[&str]) -> bool {
        let is_it = self.is_any_word(words);
        self.at += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, punct: char) -> Parsed<()> {
        if self.skip(punct) { Ok(()) } else { Err(Unread::Syntax) }
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.skip_word(word) { Ok(()) } else { Err(Unread::Syntax) }
    }

    fn name(&mut self) -> Parsed<Name<'t>> {
        let source = self.source(0);
        let is_quoted = match self.kind(0) {
            Some(TokenKind::Word) => false,
            Some(TokenKind::QuotedWord) => true,
            _ => return Err(Unread::Syntax),
        };
        self.at += 1;
        let inside = source.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(source);
        let is_plain = !inside.contains('`');
        let text = if is_plain { Cow::Borrowed(inside) } else { Cow::Owned(inside.replace("``", "`")) };
        Ok(Name { text, is_quoted })
    }

    /// `$name` or `$0`.
    fn parameter(&mut self) -> Parsed<Name<'t>> {
        self.expect('$')?;
        if self.kind(0) != Some(TokenKind::Number) {
            return self.name();
        }
        self.at += 1;
        Ok(Name { text: Cow::Borrowed(self.tokens[self.at - 1].text(self.text)), is_quoted: false })
    }

    /// The tokens from `from` to here.
    fn since(&self, from: usize) -> Span {
        Span { from, to: self.at }
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

    /// Whether the `|` that is next is one of labels or types. Where a `|` separates as well, which is which is for Neo4j
    /// to say: the last one separates here, and the meaning counts as unknown.
    fn bar_is_inside(&mut self) -> bool {
        if self.bars == 0 {
            return true;
        }
        self.is_certain = false;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::tree::{Arrow, Change, Clause, Element, Operand, Sign, Tail};

    fn with_query(text: &str, check: impl FnOnce(&Query<'_>, &dyn Fn(Span) -> String)) {
        let tokens: Vec<Token> = tokens(text).collect();
        let syntax = Syntax::of(text, &tokens).unwrap();
        let source = |span: Span| text[tokens[span.from].start..tokens[span.to - 1].end].to_owned();
        check(&syntax.query, &source);
    }

    #[test]
    fn the_tree_has_what_the_text_says() {
        let text =
            "OPTIONAL MATCH (a:`A` {id: $p})<-[r:R*2..]- (b) WHERE NOT a.x = -1 AND b:B SET a.y = r + 1";
        with_query(text, |query, source| {
            let [Clause::Match(matched), Clause::Set(changes)] = query.branches[0].as_slice() else {
                panic!()
            };
            let [Element::Node(a), Element::Relationship(r), Element::Node(_)] =
                matched.paths[0].elements.as_slice()
            else {
                panic!()
            };
            assert!(matched.is_optional && r.arrow == Arrow::Left && r.is_glued && !r.may_be_empty());
            let length = r.length.unwrap();
            assert_eq!((length.least, length.most, source(length.tokens)), (2, None, "*2..".to_owned()));
            let labels = a.labels.as_ref().unwrap();
            assert_eq!((source(labels.tokens), labels.is_certain), ("`A`".to_owned(), true));
            let (key, value) = a.filter.entries().next().unwrap();
            assert!(key.as_str() == "id" && matches!(value.alone(), Some(Operand::Parameter(_))));
            let condition = matched.condition.as_ref().unwrap();
            let terms = condition.terms.iter().map(|term| {
                (term.operator.map(|operator| operator.sign), source(term.tokens), term.signs.as_slice())
            });
            let expected = [
                (None, "NOT a.x".to_owned(), &[Sign::Not][..]),
                (Some("="), "-1".to_owned(), &[Sign::Minus][..]),
                (Some("AND"), "b:B".to_owned(), &[][..]),
            ];
            assert_eq!(terms.collect::<Vec<_>>(), expected);
            assert!(matches!(condition.terms[2].tail.as_slice(), [Tail::Labels(_)]));
            let [Change::Key { value: Some(value), .. }] = changes.as_slice() else { panic!() };
            assert_eq!(source(value.tokens), "r + 1");
        });
    }

    #[test]
    fn the_tree_says_where_it_is_not_certain() {
        let is_certain = |text: &str| {
            let tokens: Vec<Token> = tokens(text).collect();
            Syntax::of(text, &tokens).map(|syntax| syntax.is_certain)
        };
        for text in [
            "RETURN own.f(1)",
            "MATCH (n:A|B) RETURN n",
            "RETURN [x IN $l WHERE (x:A|B) | x]",
            "MATCH (n:$($p)) RETURN n {.x}",
            "RETURN 1 IS :: INTEGER",
            "MATCH (n) WHERE n IS LABELED A FILTER n.x RETURN n",
            "MATCH (any)-->(end) WHERE any.x > end.x RETURN count(DISTINCT any.x)",
        ] {
            assert_eq!(is_certain(text), Ok(true), "{text}");
        }
        for text in [
            "CALL a.b()",
            "RETURN [x IN $l WHERE x:A|B | x]",
            "MATCH (n) WHERE n IS A RETURN n",
            "MATCH (n) WHERE n IS LABELED OR RETURN n",
            "MATCH (set) RETURN set",
            "MATCH (any) RETURN size(any {.x})",
            "MATCH (n:$([x IN $l | x])) RETURN n",
        ] {
            assert_eq!(is_certain(text), Ok(false), "{text}");
        }
        assert_eq!(is_certain("MATCH (n) SEARCH n.x RETURN n"), Err(Unread::Syntax));
        assert_eq!(is_certain(&format!("RETURN {}1{}", "[".repeat(40), "]".repeat(40))), Err(Unread::Bound));
    }
}
