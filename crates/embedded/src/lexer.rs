//! Splits a statement into tokens, as far as its columns and its access mode depend on them.

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier, keyword, number or parameter.
    Word,
    /// An identifier in backticks.
    Quoted,
    /// A string literal.
    Text,
    /// One character of anything else.
    Sign,
}

/// One token: its bytes in the statement, and how many brackets are open around it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) start: usize,
    pub(crate) depth: usize,
}

impl Token<'_> {
    pub(crate) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.kind != Kind::Text && self.text.eq_ignore_ascii_case(word)
    }
}

/// Splits `statement`. Comments and space are dropped. A string or comment without an end reaches to the end of the
/// statement, and the library then refuses it.
pub(crate) fn tokens(statement: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    while let Some(first) = statement[start..].chars().next() {
        let rest = &statement[start..];
        let (kind, len) = extent(first, rest);
        let Some(kind) = kind else {
            start += len;
            continue;
        };
        if matches!(first, ')' | ']' | '}') && kind == Kind::Sign {
            depth = depth.saturating_sub(1);
        }
        tokens.push(Token { kind, text: &rest[..len], start, depth });
        if matches!(first, '(' | '[' | '{') && kind == Kind::Sign {
            depth += 1;
        }
        start += len;
    }
    tokens
}

/// Kind (`None`: space or comment) and length in bytes of the first token of `rest`.
fn extent(first: char, rest: &str) -> (Option<Kind>, usize) {
    let until = |end: &str| rest[end.len()..].find(end).map_or(rest.len(), |at| at + 2 * end.len());
    match first {
        '`' => (Some(Kind::Quoted), until("`")),
        '\'' | '"' => (Some(Kind::Text), string_len(first, rest)),
        '/' if rest.starts_with("//") => (None, rest.find('\n').unwrap_or(rest.len())),
        '/' if rest.starts_with("/*") => (None, rest[2..].find("*/").map_or(rest.len(), |at| at + 4)),
        _ if first.is_whitespace() => (None, first.len_utf8()),
        _ if is_word(first) => (Some(Kind::Word), rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
        _ => (Some(Kind::Sign), first.len_utf8()),
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

fn string_len(quote: char, rest: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in rest.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == quote => return at + letter.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}
