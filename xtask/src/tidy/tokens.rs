//! Rust source as tokens: words, symbols and doc comments, each with its line.
//!
//! Drops comments and the text of strings, so that neither can look like code. Reads `$crate` as `crate`, and the raw
//! identifier `r#fetch` as `fetch`, because both spellings name the same module. Never judges what it reads.

/// Rust's keywords that can be raw identifiers. `r#type` stays `r#type`: the word `type` would declare an item.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro",
    "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "static", "struct", "trait",
    "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// A word is an identifier, a keyword or a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A raw identifier is without `r#`, unless it is a keyword.
    Word(String),
    /// One character. `::` is [`Token::PathSeparator`].
    Symbol(char),
    PathSeparator,
    /// The text of a `///` comment.
    Doc(String),
    /// A string or character literal, without its text.
    Literal,
}

#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub(super) token: Token,
    /// Counted from 1.
    pub(super) line: usize,
}

impl Placed {
    pub(super) fn is_symbol(&self, symbol: char) -> bool {
        self.token == Token::Symbol(symbol)
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.word() == Some(word)
    }

    pub(super) fn word(&self) -> Option<&str> {
        match &self.token {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }
}

pub(super) fn read(source: &str) -> Vec<Placed> {
    let mut reader = Reader { rest: source, line: 1, tokens: Vec::new() };
    while !reader.rest.is_empty() {
        reader.step();
    }
    reader.tokens
}

/// The word that stands for the identifier `name`: the file `type.rs` is the module `r#type`.
pub(super) fn word_of(name: &str) -> String {
    if KEYWORDS.contains(&name) { format!("r#{name}") } else { name.to_owned() }
}

/// The index after the bracket that closes the one at `open`, or the end of the tokens.
pub(super) fn behind_bracket(tokens: &[Placed], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, placed) in tokens.iter().enumerate().skip(open) {
        match placed.token {
            Token::Symbol('(' | '[' | '{') => depth += 1,
            Token::Symbol(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Placed>,
}

impl Reader<'_> {
    fn step(&mut self) {
        let Some(first) = self.rest.chars().next() else { return };
        if self.rest.starts_with("//") {
            self.line_comment();
        } else if self.rest.starts_with("/*") {
            self.skip(block_comment_length(self.rest));
        } else if let Some(length) = raw_string_length(self.rest).or_else(|| string_length(self.rest)) {
            self.push(Token::Literal, length);
        } else if let Some(length) = raw_identifier_length(self.rest) {
            self.push(Token::Word(word_of(&self.rest["r#".len()..length])), length);
        } else if self.rest.starts_with("$crate") {
            self.skip("$".len());
        } else if first == '\'' {
            self.quote();
        } else if is_word_part(first) {
            let length = self.rest.find(|c| !is_word_part(c)).unwrap_or(self.rest.len());
            self.push(Token::Word(self.rest[..length].to_owned()), length);
        } else if self.rest.starts_with("::") {
            self.push(Token::PathSeparator, 2);
        } else if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else {
            self.push(Token::Symbol(first), first.len_utf8());
        }
    }

    fn line_comment(&mut self) {
        let length = self.rest.find('\n').unwrap_or(self.rest.len());
        let text = &self.rest[..length];
        match text.strip_prefix("///") {
            Some(doc) if !doc.starts_with('/') => self.push(Token::Doc(doc.trim().to_owned()), length),
            _ => self.skip(length),
        }
    }

    /// A character literal has its end quote after one character or an escape. A lifetime has no end quote.
    fn quote(&mut self) {
        let inner = &self.rest[1..];
        let character = match inner.chars().next() {
            Some('\\') => inner.get(2..).and_then(|text| text.find('\'')).map(|at| at + 4),
            Some(c) if inner[c.len_utf8()..].starts_with('\'') => Some(c.len_utf8() + 2),
            _ => None,
        };
        match character {
            Some(length) => self.push(Token::Literal, length),
            None => self.skip(1 + inner.find(|c| !is_word_part(c)).unwrap_or(inner.len())),
        }
    }

    fn push(&mut self, token: Token, length: usize) {
        self.tokens.push(Placed { token, line: self.line });
        self.skip(length);
    }

    fn skip(&mut self, length: usize) {
        self.line += self.rest[..length].matches('\n').count();
        self.rest = &self.rest[length..];
    }
}

fn is_word_part(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `r#name`, which is no raw string.
fn raw_identifier_length(text: &str) -> Option<usize> {
    let name = text.strip_prefix("r#")?;
    let length = name.find(|c| !is_word_part(c)).unwrap_or(name.len());
    (length > 0).then_some("r#".len() + length)
}

/// Block comments nest.
fn block_comment_length(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// `r"…"`, `r#"…"#`, `br"…"`, `cr"…"`.
fn raw_string_length(text: &str) -> Option<usize> {
    let after_r =
        text.strip_prefix("br").or_else(|| text.strip_prefix("cr")).or_else(|| text.strip_prefix('r'))?;
    let quoted = after_r.trim_start_matches('#');
    let hashes = &after_r[..after_r.len() - quoted.len()];
    let content = quoted.strip_prefix('"')?;
    let end = format!("\"{hashes}");
    let head = text.len() - content.len();
    Some(content.find(&end).map_or(text.len(), |at| head + at + end.len()))
}

/// `"…"`, `b"…"`, `c"…"`.
fn string_length(text: &str) -> Option<usize> {
    let quoted = text.strip_prefix(['b', 'c']).unwrap_or(text);
    let content = quoted.strip_prefix('"')?;
    let head = text.len() - content.len();
    let mut escaped = false;
    for (at, c) in content.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(head + at + 1),
            _ => {}
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        read(source).iter().filter_map(|placed| placed.word().map(str::to_owned)).collect()
    }

    #[test]
    fn comments_and_strings_hold_no_words() {
        let source = concat!(
            "a // x\n/* y /* z */ w */ b \"c \\\" d\" r#\"e \" f\"# br\"g\" b\"h\" c\"i\"\n",
            "'j' '\\'' '\\u{6b}' 'é' l\n//! m\n",
        );
        assert_eq!(words(source), ["a", "b", "l"]);
    }

    #[test]
    fn a_lifetime_is_no_character() {
        assert_eq!(words("fn a<'b>(c: &'b str, d: &'static str) {}"), ["fn", "a", "c", "str", "d", "str"]);
    }

    #[test]
    fn a_raw_identifier_is_the_word_and_a_raw_keyword_is_not() {
        assert_eq!(words("crate::r#fetch r#type r##\"a\"## r b"), ["crate", "fetch", "r#type", "r", "b"]);
    }

    #[test]
    fn the_crate_of_a_macro_is_the_crate() {
        let tokens = read("$crate::a $b");
        assert!(tokens[0].is_word("crate") && tokens[3].is_symbol('$'));
    }

    #[test]
    fn a_line_is_counted_through_comments_and_strings() {
        let tokens = read("/* a\n */ b \"c\n\" d");
        let lines: Vec<usize> = tokens.iter().filter(|p| p.word().is_some()).map(|p| p.line).collect();
        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn a_doc_comment_is_kept_and_a_bracket_finds_its_end() {
        let tokens = read("/// Plain data.\nstruct A { b: [u8; 2] } c");
        assert_eq!(tokens[0].token, Token::Doc("Plain data.".to_owned()));
        let behind = behind_bracket(&tokens, 3);
        assert!(tokens[behind].is_word("c"));
    }
}
