//! A place among the tokens of a text, for parsers that read by recursive descent. It looks ahead and skips. The parser decides
//! what may stand where, and what is an error.

use super::{Token, TokenKind};

/// A parser's place. Each parser has it among its own fields.
pub trait TokenCursor<'a> {
    /// The text, its tokens, and the index of the next one.
    fn place(&self) -> (&'a str, &'a [Token], usize);

    /// Skips so many tokens.
    fn advance(&mut self, tokens: usize);

    /// The kind of the token that comes after `ahead` others; `None` at the end.
    fn kind(&self, ahead: usize) -> Option<TokenKind> {
        let (_, tokens, at) = self.place();
        tokens.get(at + ahead).map(|token| token.kind)
    }

    /// That token as it is written; empty at the end.
    fn source(&self, ahead: usize) -> &'a str {
        let (text, tokens, at) = self.place();
        tokens.get(at + ahead).map_or("", |token| token.text(text))
    }

    /// Whether this character is next.
    fn is(&self, punct: char) -> bool {
        self.is_at(0, punct)
    }

    /// Whether this character comes after `ahead` other tokens.
    fn is_at(&self, ahead: usize, punct: char) -> bool {
        self.kind(ahead) == Some(TokenKind::Punct(punct))
    }

    /// Whether this word is next, in any case.
    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    /// Whether this word comes after `ahead` other tokens, in any case.
    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        self.kind(ahead) == Some(TokenKind::Word) && self.source(ahead).eq_ignore_ascii_case(word)
    }

    /// Whether a name, with backticks or without, comes after `ahead` other tokens.
    fn is_name_at(&self, ahead: usize) -> bool {
        matches!(self.kind(ahead), Some(TokenKind::Word | TokenKind::QuotedWord))
    }

    /// Skips `punct` if it is next.
    fn skip(&mut self, punct: char) -> bool {
        let is_it = self.is(punct);
        self.advance(usize::from(is_it));
        is_it
    }

    /// Skips `word` if it is next.
    fn skip_word(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        self.advance(usize::from(is_it));
        is_it
    }
}

/// A name without its backticks.
#[must_use]
pub fn unquoted(quoted: &str) -> String {
    quoted.get(1..quoted.len() - 1).unwrap_or_default().replace("``", "`")
}
