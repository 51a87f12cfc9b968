//! Tokens of Cypher 5 text. Total, linear and without allocation: any text lexes. A part that this lexer does not know
//! for certain becomes [`TokenKind::Trouble`], which every reader of tokens treats as "never cached, never rewritten".
//! It decides nothing about meaning.
//!
//! Every rule here was tried on Neo4j 5.26.12: which characters are white space, that `\uXXXX` is decoded
//! before tokens are formed (so that it can end a string or a comment), that `$ x` is a parameter.

pub mod escapes;

/// One token: its kind and its place in the text, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Its kind.
    pub kind: TokenKind,
    /// Offset of its first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
}

/// Kinds of token. White space and comments are no tokens: they fill the gaps between tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// An unquoted name or keyword; Cypher has no reserved words.
    Word,
    /// A name in backticks.
    QuotedWord,
    /// A number.
    Number,
    /// A string.
    Text,
    /// One character of punctuation.
    Punct(char),
    /// `..`, which separates two numbers and belongs to neither.
    DotDot,
    /// A part that this lexer does not read; see [`Trouble`].
    Trouble(Trouble),
}

/// Why a part of a text is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trouble {
    /// A string, comment or backtick name that does not end.
    Unterminated,
    /// `\u` where decoding it could change the tokens.
    UnicodeEscape,
    /// Digits that are no number of Cypher 5, or that are followed directly by a name.
    BadNumber,
    /// A letter that touches a string: `s"…{expression}…"` of Cypher 25. What such a string holds, and where it ends, is
    /// not read.
    PrefixedText,
    /// A character that belongs neither to names nor to punctuation, or a lone carriage return in a comment.
    UnknownCharacter,
}

impl Token {
    /// The token as written.
    #[must_use]
    pub fn text<'a>(&self, source: &'a str) -> &'a str {
        source.get(self.start..self.end).unwrap_or_default()
    }

    /// Whether this is that character of punctuation.
    #[must_use]
    pub fn is(&self, punct: char) -> bool {
        self.kind == TokenKind::Punct(punct)
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread has begun to lex a text.
    pub(crate) static LEXED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// The tokens of `source`, in order.
#[must_use]
pub fn tokens(source: &str) -> Tokens<'_> {
    #[cfg(test)]
    LEXED.set(LEXED.get() + 1);
    Tokens { source, at: 0, after_word: false }
}

/// Iterator over [`tokens`].
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    source: &'a str,
    at: usize,
    /// Whether the token before ended here with a name, so that a `$` would belong to the name.
    after_word: bool,
}

impl Iterator for Tokens<'_> {
    type Item = Token;

    fn next(&mut self) -> Option<Token> {
        let gap_from = self.at;
        if let Some(trouble) = self.skip_gap() {
            return Some(trouble);
        }
        let start = self.at;
        let first = self.peek()?;
        let glued = self.after_word && start == gap_from;
        let kind = match first {
            '\'' | '"' => self.string(first),
            '`' => self.quoted_word(),
            '0'..='9' => self.number(),
            '.' if self.second() == Some(b'.') => {
                self.at += 2;
                TokenKind::DotDot
            }
            '.' if self.second().is_some_and(|next| next.is_ascii_digit()) => self.number(),
            _ if starts_word(first) => {
                self.skip_while(continues_word);
                let is_letter = self.at == start + first.len_utf8();
                match self.peek() {
                    // No keyword has one letter, and no string may stand behind a name.
                    Some('\'' | '"') if is_letter => TokenKind::Trouble(Trouble::PrefixedText),
                    _ => TokenKind::Word,
                }
            }
            // `a$b` is one name to the server.
            '$' if glued => self.unknown(first),
            _ if PUNCTUATION.contains(first) => {
                self.at += 1;
                TokenKind::Punct(first)
            }
            '\\' if self.second() == Some(b'u') => {
                self.at += 2;
                TokenKind::Trouble(Trouble::UnicodeEscape)
            }
            _ => self.unknown(first),
        };
        self.after_word = matches!(kind, TokenKind::Word | TokenKind::Number);
        Some(Token { kind, start, end: self.at })
    }
}

const PUNCTUATION: &str = "()[]{},;.:+-*/%^=<>|&!~$";

/// White space between tokens in Neo4j 5.26.12. U+0085, U+200B and U+FEFF are none.
fn is_space(char: char) -> bool {
    matches!(char, '\t'..='\r' | '\u{1c}'..='\u{1f}' | ' ' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}'
        | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

/// Narrower than Java's identifiers on purpose: the characters that Java ignores inside names could hide
/// a keyword from us, so they are [`Trouble::UnknownCharacter`].
fn starts_word(char: char) -> bool {
    char == '_' || (char.is_alphabetic() && char <= '\u{ffff}')
}

fn continues_word(char: char) -> bool {
    starts_word(char) || char.is_ascii_digit()
}

impl Tokens<'_> {
    fn rest(&self) -> &str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn second(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at + 1).copied()
    }

    fn skip_while(&mut self, member: fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.find(|char| !member(char)).unwrap_or(rest.len());
    }

    fn unknown(&mut self, first: char) -> TokenKind {
        self.at += first.len_utf8();
        TokenKind::Trouble(Trouble::UnknownCharacter)
    }

    /// Skips white space and comments. A comment that cannot be trusted is a token.
    fn skip_gap(&mut self) -> Option<Token> {
        loop {
            self.skip_while(is_space);
            let start = self.at;
            let (body, close) = match (self.rest().as_bytes().first(), self.second()) {
                (Some(b'/'), Some(b'/')) => (start + 2, "\n"),
                (Some(b'/'), Some(b'*')) => (start + 2, "*/"),
                _ => return None,
            };
            let tail = self.source.get(body..).unwrap_or_default();
            let found = tail.find(close);
            let inside = &tail[..found.unwrap_or(tail.len())];
            self.at = body + inside.len() + found.map_or(0, |_| close.len());
            let trouble = if inside.contains("\\u") {
                Some(Trouble::UnicodeEscape)
            } else if close == "\n" && inside.trim_end_matches('\r').contains('\r') {
                Some(Trouble::UnknownCharacter)
            } else if close == "*/" && found.is_none() {
                Some(Trouble::Unterminated)
            } else {
                None
            };
            if let Some(trouble) = trouble {
                return Some(Token { kind: TokenKind::Trouble(trouble), start, end: self.at });
            }
        }
    }

    fn string(&mut self, quote: char) -> TokenKind {
        let bytes = self.source.as_bytes();
        let mut kind = TokenKind::Text;
        self.at += 1;
        while let Some(&byte) = bytes.get(self.at) {
            if byte == b'\\' {
                if self.second() == Some(b'u') && !escape_is_harmless(&bytes[self.at + 2..]) {
                    kind = TokenKind::Trouble(Trouble::UnicodeEscape);
                }
                // The byte after the backslash may begin a longer character. Its other bytes are neither quotes nor
                // backslashes, and the loop walks over them.
                self.at = (self.at + 2).min(bytes.len());
            } else {
                self.at += 1;
                if char::from(byte) == quote {
                    return kind;
                }
            }
        }
        TokenKind::Trouble(Trouble::Unterminated)
    }

    fn quoted_word(&mut self) -> TokenKind {
        let start = self.at;
        self.at += 1;
        loop {
            let Some(found) = self.rest().find('`') else {
                self.at = self.source.len();
                return TokenKind::Trouble(Trouble::Unterminated);
            };
            self.at += found + 1;
            if self.peek() != Some('`') {
                break;
            }
            self.at += 1;
        }
        let escaped = self.source[start..self.at].contains("\\u");
        if escaped { TokenKind::Trouble(Trouble::UnicodeEscape) } else { TokenKind::QuotedWord }
    }

    fn number(&mut self) -> TokenKind {
        let start = self.at;
        self.skip_while(continues_word);
        let dot_digit = self.peek() == Some('.') && self.second().is_some_and(|next| next.is_ascii_digit());
        if dot_digit {
            self.at += 1;
            self.skip_while(continues_word);
        }
        let decimal = !self.source[start..].starts_with("0x");
        let exponent = decimal && self.source[start..self.at].ends_with(['e', 'E']);
        if exponent && self.peek().is_some_and(|sign| matches!(sign, '+' | '-')) {
            self.at += 1;
            self.skip_while(continues_word);
        }
        if is_number(&self.source[start..self.at]) {
            TokenKind::Number
        } else {
            TokenKind::Trouble(Trouble::BadNumber)
        }
    }
}

/// Whether the four digits after `\u` name a character that ends nothing and escapes nothing.
fn escape_is_harmless(digits: &[u8]) -> bool {
    let code = digits.get(..4).filter(|code| code.iter().all(u8::is_ascii_hexdigit));
    let code = code.and_then(|code| std::str::from_utf8(code).ok());
    let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
    code.is_some_and(|code| code >= 0x20 && !matches!(code, 0x22 | 0x27 | 0x5c | 0x60))
}

fn is_number(text: &str) -> bool {
    if let Some(hex) = text.strip_prefix("0x") {
        return is_digits(hex, |byte| byte.is_ascii_hexdigit());
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return is_digits(octal, |byte| matches!(byte, b'0'..=b'7'));
    }
    let decimal = |part: &str| is_digits(part, |byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let mantissa_is_number = match mantissa.split_once('.') {
        Some((whole, part)) => (whole.is_empty() || decimal(whole)) && decimal(part),
        None => decimal(mantissa),
    };
    mantissa_is_number && exponent.is_none_or(|digits| decimal(digits.trim_start_matches(['+', '-'])))
}

/// Digits with single underscores between them.
fn is_digits(text: &str, digit: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let edges =
        bytes.first().is_some_and(|&byte| digit(byte)) && bytes.last().is_some_and(|&byte| digit(byte));
    edges && !text.contains("__") && bytes.iter().all(|&byte| byte == b'_' || digit(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds(source: &str) -> Vec<(TokenKind, &str)> {
        tokens(source).map(|token| (token.kind, token.text(source))).collect()
    }

    #[test]
    fn ranges_are_not_fractions() {
        use TokenKind::{DotDot, Number, Punct};
        assert_eq!(kinds("1..2"), [(Number, "1"), (DotDot, ".."), (Number, "2")]);
        assert_eq!(kinds("1.5e-3"), [(Number, "1.5e-3")]);
        assert_eq!(kinds("5--2"), [(Number, "5"), (Punct('-'), "-"), (Punct('-'), "-"), (Number, "2")]);
        for number in ["0", "1_000", "0xFf", "0o17", ".5", "1e5", "1.5E+3"] {
            assert_eq!(kinds(number), [(Number, number)]);
        }
        for bad in ["1x", "1AS", "0xg", "1__0", "1_", "1f", "0o8", "1e", "1e+", "0XfF"] {
            assert_eq!(kinds(bad)[0].0, TokenKind::Trouble(Trouble::BadNumber), "{bad}");
        }
    }

    #[test]
    fn an_escape_that_could_end_something_is_trouble() {
        let trouble = |source: &str| {
            tokens(source).find_map(|token| match token.kind {
                TokenKind::Trouble(trouble) => Some(trouble),
                _ => None,
            })
        };
        let escape = Some(Trouble::UnicodeEscape);
        for source in
            [r"R\u0045TURN 1", r"'\u0027 + 1'", r"'\u005C'", r"// \u000A + 1", r"/* \u002A/ */", r"`\u0043`"]
        {
            assert_eq!(trouble(source), escape, "{source}");
        }
        assert_eq!(trouble(r"'\u0043 \\u0027 é'"), None);
        for source in ["'abc", "\"abc\\\"", "/* abc", "`abc``", "'\\"] {
            assert_eq!(trouble(source), Some(Trouble::Unterminated), "{source}");
        }
        for source in ["a$b", "ra\u{ad}nd()", "a\u{200b}b", "// a\rb", "a#b", "\u{85}"] {
            assert_eq!(trouble(source), Some(Trouble::UnknownCharacter), "{source:?}");
        }
    }

    /// The server reads `s "x"` and `names"x"` as a name and a string, as Cypher 5 does (tried on 2026.09.0).
    #[test]
    fn a_letter_that_touches_a_string_is_trouble() {
        let is_prefix = |source: &str| {
            tokens(source).any(|token| token.kind == TokenKind::Trouble(Trouble::PrefixedText))
        };
        for source in [
            "RETURN s'{rand()}' AS x",
            "RETURN S\"{rand()}\"",
            "RETURN 'a'+s'b'",
            "RETURN [s'{1}']",
            "n.s'x'",
            "$s'x'",
            "`a`s'x'",
            "/**/s''",
            "ſ'x'",
            "f\"{x}\"",
        ] {
            assert!(is_prefix(source), "{source}");
        }
        for source in ["RETURN s 'x'", "s/**/'x'", "IN'x'", "names\"x\"", "s`x`", "'s'", "x.s+'y'", "s"] {
            assert!(!is_prefix(source), "{source}");
        }
    }

    proptest! {
        /// I13: any text lexes, tokens are in order, disjoint, not empty, and on character boundaries.
        #[test]
        fn total(source in "(\\PC|['\"`/*\\\\u0-9.$\n\r]){0,60}") {
            let mut end = 0;
            for token in tokens(&source) {
                prop_assert!(token.start >= end && token.end > token.start);
                prop_assert!(!token.text(&source).is_empty());
                end = token.end;
            }
            prop_assert!(end <= source.len());
        }
    }
}
