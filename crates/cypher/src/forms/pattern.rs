//! The pattern of a text: a hash of its tokens without literals and parameters. Learning and cost estimates are kept by
//! pattern. It never decides what may be cached or shared: 64 unkeyed bits may collide.

use hopcache_core::pattern::PatternId;

use crate::lexer::{Token, TokenKind, tokens};
use crate::syntax::Prefix;

/// The id of the pattern of `text`. The ids are the same on every platform: golden values in the tests pin them.
#[must_use]
pub fn pattern_id(text: &str) -> PatternId {
    id_of_tokens(text, &tokens(text).collect::<Vec<_>>())
}

/// The id of the pattern of `text`, from its tokens.
pub(crate) fn id_of_tokens(text: &str, tokens: &[Token]) -> PatternId {
    PatternId(xxhash_rust::xxh3::xxh3_64(pattern_of(text, tokens).as_bytes()))
}

/// The pattern as text: literals are `?`, lists of literals only are `[ ? ]`, parameters are `$`, one space between
/// tokens, no `;`.
#[must_use]
pub fn pattern(text: &str) -> String {
    pattern_of(text, &tokens(text).collect::<Vec<_>>())
}

/// The pattern as it may be shown to people who may not see literals. A text that the lexer does not read to its end has none: what
/// it does not read may be a literal.
#[must_use]
pub fn shown_pattern(text: &str) -> Option<String> {
    let is_read = tokens(text).all(|token| !matches!(token.kind, TokenKind::Trouble(_)));
    is_read.then(|| pattern(text))
}

fn pattern_of(text: &str, tokens: &[Token]) -> String {
    let (prefix, tokens) = tokens.split_at(Prefix::of(text, tokens).tokens);
    let mut form = PatternText { out: String::with_capacity(text.len()), lists: Vec::new() };
    // The number of a language is no literal.
    prefix.iter().for_each(|token| form.other(token.text(text)));
    let mut before: Option<Token> = None;
    for &token in tokens {
        let names = before.is_some_and(|before| before.is('.') || before.is(':'));
        match token.kind {
            _ if before.is_some_and(|before| before.is('$') && !token.is('(')) => {}
            TokenKind::Number | TokenKind::Text => form.literal(),
            TokenKind::Word if !names && is_literal_word(token.text(text)) => form.literal(),
            TokenKind::Punct(';') => {}
            TokenKind::Punct('[') => form.open_list(),
            TokenKind::Punct(']') => form.close_list(),
            TokenKind::Punct(',') => form.push(","),
            // A sign that begins an item of a list belongs to the literal after it.
            TokenKind::Punct('-' | '+') if form.begins_item() => {}
            _ => form.other(token.text(text)),
        }
        before = Some(token);
    }
    form.out
}

fn is_literal_word(word: &str) -> bool {
    ["TRUE", "FALSE", "NULL"].iter().any(|literal| word.eq_ignore_ascii_case(literal))
}

struct PatternText {
    out: String,
    /// For each open list: where it begins in `out`, and whether it had literals only.
    lists: Vec<(usize, ListKind)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ListKind {
    Literals,
    Mixed,
}

impl PatternText {
    fn push(&mut self, piece: &str) {
        if !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(piece);
    }

    fn literal(&mut self) {
        self.push("?");
    }

    fn other(&mut self, piece: &str) {
        if let Some((_, kind)) = self.lists.last_mut() {
            *kind = ListKind::Mixed;
        }
        self.push(piece);
    }

    fn begins_item(&self) -> bool {
        let literals = self.lists.last().is_some_and(|(_, kind)| *kind == ListKind::Literals);
        literals && self.out.ends_with(['[', ','])
    }

    fn open_list(&mut self) {
        self.lists.push((self.out.len(), ListKind::Literals));
        self.push("[");
    }

    fn close_list(&mut self) {
        match self.lists.pop() {
            Some((start, ListKind::Literals)) => {
                self.out.truncate(start);
                self.push("[");
                self.push("?");
                self.push("]");
            }
            Some((_, ListKind::Mixed)) => {
                self.push("]");
                if let Some((_, outer)) = self.lists.last_mut() {
                    *outer = ListKind::Mixed;
                }
            }
            None => self.push("]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_parameters_go() {
        for (text, expected) in [
            ("MATCH (n {id: 7}) RETURN n.x  ;", "MATCH ( n { id : ? } ) RETURN n . x"),
            ("MATCH (n) WHERE n.a IN [1, -2, 'x'] RETURN $p", "MATCH ( n ) WHERE n . a IN [ ? ] RETURN $"),
            ("RETURN [[1, 2], [true]]", "RETURN [ ? ]"),
            ("RETURN [1, n.x, [2, 3]]", "RETURN [ ? , n . x , [ ? ] ]"),
            ("EXPLAIN CYPHER 5 runtime=slotted RETURN 5", "EXPLAIN CYPHER 5 runtime = slotted RETURN ?"),
            ("RETURN $`a b`, $1, $ x, n.null", "RETURN $ , $ , $ , n . null"),
        ] {
            assert_eq!(pattern(text), expected, "{text}");
        }
    }

    #[test]
    fn ids_are_pinned() {
        let id = pattern_id("MATCH (n {id: 1}) RETURN n");
        assert_eq!(id, pattern_id("MATCH (n{id:$id})  RETURN n".replace("$id", "'x'").as_str()));
        assert_ne!(id, pattern_id("MATCH (n {id: $id}) RETURN n"));
        // A fixed value: a changed hash forgets everything learned in production.
        assert_eq!(pattern_id("").0, 0x2d06_8005_38d3_94c2);
        assert_eq!(id.0, 0xea4b_a837_8fd7_e455);
    }
}
