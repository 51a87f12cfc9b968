//! JSON tokens of a request body.
//!
//! The reader is our own, because the server's choices (Jackson) have to be kept and serde_json cannot keep them. Its
//! spelling decides the type of a number (`1` and `1.0`, integers beyond 64 bits, `1e400`). The text of a scalar can
//! be needed as it stands. Lone surrogates are read, and bytes behind the object are never read.

use super::Malformed;

/// The most tokens of a body. Read, a token takes up to 60 bytes, which bounds what a body takes to at most 250 MB; a body of 4 MiB
/// has never more. These are 1,300 rows with a vector of 1,536 numbers.
const TOKENS_MAX: usize = 4 << 20;

/// One token. Numbers keep their text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(String),
    ListStart,
    ListEnd,
    MapStart,
    MapEnd,
    Comma,
    Colon,
}

/// Reads tokens off a body. Its text is known to be UTF-8.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    tokens: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, tokens: 0 }
    }

    /// The byte that the next token starts with.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.as_bytes().get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Result<Token<'a>, Malformed> {
        let first = self.peek().ok_or(Malformed::Cut)?;
        self.tokens += 1;
        if self.tokens > TOKENS_MAX {
            return Err(Malformed::Long);
        }
        let single = match first {
            b'[' => Token::ListStart,
            b']' => Token::ListEnd,
            b'{' => Token::MapStart,
            b'}' => Token::MapEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => return self.number(),
            _ => return self.word(),
        };
        self.at += 1;
        Ok(single)
    }

    fn word(&mut self) -> Result<Token<'a>, Malformed> {
        let rest = self.text.get(self.at..).unwrap_or("");
        let len = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
        let token = match &rest[..len] {
            "null" => Token::Null,
            "true" => Token::Bool(true),
            "false" => Token::Bool(false),
            _ => return Err(Malformed::Syntax(self.at)),
        };
        self.at += len;
        Ok(token)
    }

    fn digits(&self, from: usize) -> usize {
        self.text
            .as_bytes()
            .get(from..)
            .map_or(0, |rest| rest.iter().take_while(|b| b.is_ascii_digit()).count())
    }

    fn number(&mut self) -> Result<Token<'a>, Malformed> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut end = start + usize::from(bytes[start] == b'-');
        let whole = self.digits(end);
        if whole == 0 || (whole > 1 && bytes[end] == b'0') {
            return Err(Malformed::Syntax(start));
        }
        end += whole;
        if bytes.get(end) == Some(&b'.') {
            let fraction = self.digits(end + 1);
            if fraction == 0 {
                return Err(Malformed::Syntax(start));
            }
            end += 1 + fraction;
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let power = self.digits(end + 1 + sign);
            if power == 0 {
                return Err(Malformed::Syntax(start));
            }
            end += 1 + sign + power;
        }
        if bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            return Err(Malformed::Syntax(start));
        }
        self.at = end;
        Ok(Token::Number(&self.text[start..end]))
    }

    fn string(&mut self) -> Result<Token<'a>, Malformed> {
        let bytes = self.text.as_bytes();
        let mut at = self.at + 1;
        let mut copied = at;
        let mut out = String::new();
        loop {
            match bytes.get(at) {
                None => return Err(Malformed::Cut),
                Some(b'"') => break,
                Some(b'\\') => {
                    out.push_str(&self.text[copied..at]);
                    at = self.escape(at + 1, &mut out)?;
                    copied = at;
                }
                Some(0..=0x1F) => return Err(Malformed::Syntax(at)),
                Some(_) => at += 1,
            }
        }
        out.push_str(&self.text[copied..at]);
        self.at = at + 1;
        Ok(Token::Text(out))
    }

    /// Reads an escape behind its backslash, and returns where to go on.
    fn escape(&self, at: usize, out: &mut String) -> Result<usize, Malformed> {
        let plain = match self.text.as_bytes().get(at) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{C}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(at + 1, out),
            _ => return Err(Malformed::Syntax(at)),
        };
        out.push(plain);
        Ok(at + 1)
    }

    fn unicode(&self, at: usize, out: &mut String) -> Result<usize, Malformed> {
        let unit = self.hex(at).ok_or(Malformed::Syntax(at))?;
        if (0xD800..0xDC00).contains(&unit)
            && self.text.get(at + 4..at + 6) == Some("\\u")
            && let Some(low) = self.hex(at + 6).filter(|low| (0xDC00..0xE000).contains(low))
        {
            let wide = 0x1_0000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
            out.push(char::from_u32(wide).unwrap_or('?'));
            return Ok(at + 10);
        }
        // Half of a pair alone: Java keeps it, and writes `?` when it turns text into UTF-8.
        out.push(char::from_u32(unit).unwrap_or('?'));
        Ok(at + 4)
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        all_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
    }
}
