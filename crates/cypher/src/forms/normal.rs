//! The normal form of a text: equal for texts that get the same answer.
//!
//! White space and comments between tokens become one space, or none beside brackets and commas; one `;` at the end is
//! removed. Every token is kept as written, and so are the gaps inside an item of RETURN without an alias. On Neo4j
//! 5.26.12 the text from such an item's first token to its last, comments included, *is* the column's name. (An
//! un-aliased WITH item that is no plain variable is a syntax error, YIELD takes names only, and UNION compares names,
//! so only RETURN counts.) If it is unclear whether a gap belongs to a column's name, the gap is kept: that costs
//! sharing, never a wrong answer. A text with a [`Trouble`](crate::lexer::Trouble) in it is its own normal form.
//!
//! For texts with equal normal forms, the server's answers differ only in the positions inside notifications.

use std::fmt;
use std::sync::Arc;

use crate::lexer::{Token, TokenKind, tokens};

/// A text in normal form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NormalForm(Arc<str>);

impl NormalForm {
    /// The normal form of `text`. Takes time linear in its length.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::of_tokens(text, &tokens(text).collect::<Vec<_>>())
    }

    /// The same, from its tokens.
    pub(crate) fn of_tokens(text: &str, tokens: &[Token]) -> Self {
        if tokens.iter().any(|token| matches!(token.kind, TokenKind::Trouble(_))) {
            return Self(text.into());
        }
        Self(render(text, without_end(tokens)).into())
    }

    /// A text that another node has normalised. A text that is not normalised only shares less, and is never wrong: it
    /// represents itself.
    #[must_use]
    pub fn as_told(text: Arc<str>) -> Self {
        Self(text)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, shared.
    #[must_use]
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// Shows the length only: query text stays out of logs by default.
impl fmt::Debug for NormalForm {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "NormalForm({} bytes)", self.0.len())
    }
}

/// The tokens without a single `;` at the end. With two of them the text is two statements, which the server refuses.
pub(crate) fn without_end(tokens: &[Token]) -> &[Token] {
    let is_one = tokens.iter().filter(|token| token.is(';')).count() == 1;
    match tokens.split_last() {
        Some((last, rest)) if is_one && last.is(';') => rest,
        _ => tokens,
    }
}

fn render(text: &str, tokens: &[Token]) -> String {
    let kept = kept_gaps(text, tokens);
    let mut out = String::with_capacity(text.len());
    for (index, token) in tokens.iter().enumerate() {
        if let Some(before) = index.checked_sub(1).and_then(|before| tokens.get(before)) {
            if kept[index] {
                out.push_str(&text[before.end..token.start]);
            } else if before.end < token.start && !delimits(before) && !delimits(token) {
                out.push(' ');
            }
        }
        out.push_str(token.text(text));
    }
    out
}

/// Brackets and commas are never part of a longer token, so a space beside them has no meaning.
fn delimits(token: &Token) -> bool {
    matches!(token.kind, TokenKind::Punct('(' | ')' | '[' | ']' | '{' | '}' | ','))
}

/// For each token, whether the gap before it may be part of a column's name.
fn kept_gaps(text: &str, tokens: &[Token]) -> Vec<bool> {
    let mut items = Items { text, tokens, open: vec![None], depth_change: vec![0; tokens.len() + 1] };
    for index in 0..tokens.len() {
        items.read(index);
    }
    while !items.open.is_empty() {
        items.close(tokens.len());
        items.open.pop();
    }
    // Items nest (a subquery in an item), so intervals are summed, not painted: this keeps it linear.
    let mut depth = 0_i64;
    let sums = items.depth_change.iter().take(tokens.len()).map(|change| {
        depth += change;
        depth > 0
    });
    sums.collect()
}

/// Finds the items of RETURN.
struct Items<'a> {
    text: &'a str,
    tokens: &'a [Token],
    /// For each open bracket (and the text itself), the first token of the item of RETURN that is open in it.
    open: Vec<Option<usize>>,
    /// +1 at the first token whose gap is kept, −1 after the last.
    depth_change: Vec<i64>,
}

impl Items<'_> {
    fn read(&mut self, index: usize) {
        let token = &self.tokens[index];
        match token.kind {
            TokenKind::Punct('(' | '[' | '{') => self.open.push(None),
            TokenKind::Punct(')' | ']' | '}') => {
                self.close(index);
                if self.open.len() > 1 {
                    self.open.pop();
                }
            }
            TokenKind::Punct(',') if self.top().is_some() => {
                self.close(index);
                self.set_top(Some(index + 1));
            }
            TokenKind::Punct(';') => self.close(index),
            TokenKind::Word if self.top().is_none() && self.is_word(index, "RETURN") => {
                self.set_top(Some(index + 1));
            }
            TokenKind::Word if self.ends_items(index) => self.close(index),
            _ => {}
        }
    }

    fn top(&self) -> Option<usize> {
        self.open.last().copied().flatten()
    }

    fn set_top(&mut self, item: Option<usize>) {
        if let Some(top) = self.open.last_mut() {
            *top = item;
        }
    }

    fn is_word(&self, index: usize, word: &str) -> bool {
        let token = self.tokens.get(index);
        token.is_some_and(|token| {
            token.kind == TokenKind::Word && token.text(self.text).eq_ignore_ascii_case(word)
        })
    }

    /// Ends the innermost open item before token `end`, and keeps its gaps unless it has an alias.
    fn close(&mut self, end: usize) {
        let Some(start) = self.top() else { return };
        self.set_top(None);
        if end >= start + 2 && !self.has_alias(start, end) {
            self.depth_change[start + 1] += 1;
            self.depth_change[end] -= 1;
        }
    }

    fn has_alias(&self, start: usize, end: usize) -> bool {
        let named = matches!(self.tokens[end - 1].kind, TokenKind::Word | TokenKind::QuotedWord);
        end >= start + 3 && named && self.is_word(end - 2, "AS") && self.ends_operand(end - 3)
    }

    /// Whether the word at `index` ends the list of items. After a whole operand none of these words can be a variable,
    /// since Cypher never has two operands side by side.
    fn ends_items(&self, index: usize) -> bool {
        let Some(start) = self.top() else { return false };
        let is_end = ["SKIP", "LIMIT", "OFFSET", "UNION"].iter().any(|word| self.is_word(index, word))
            || (self.is_word(index, "ORDER") && self.is_word(index + 1, "BY"));
        let all = index == start + 1 && self.tokens[start].is('*');
        is_end && index > start && (all || self.ends_operand(index - 1))
    }

    /// Whether an operand certainly ends with this token. A variable that is named like one of the words below counts
    /// as not ending it, which only keeps more text.
    fn ends_operand(&self, index: usize) -> bool {
        const NOT_AN_END: [&str; 24] = [
            "AND", "OR", "XOR", "NOT", "IN", "IS", "STARTS", "ENDS", "WITH", "CONTAINS", "CASE", "WHEN",
            "THEN", "ELSE", "DISTINCT", "AS", "RETURN", "BY", "WHERE", "UNION", "SKIP", "LIMIT", "OFFSET",
            "ORDER",
        ];
        match self.tokens[index].kind {
            TokenKind::Number | TokenKind::Text | TokenKind::QuotedWord => true,
            TokenKind::Punct(char) => matches!(char, ')' | ']' | '}'),
            TokenKind::Word => !NOT_AN_END.iter().any(|word| self.is_word(index, word)),
            TokenKind::DotDot | TokenKind::Trouble(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_go_but_never_those_that_name_a_column() {
        for (text, normal) in [
            (" MATCH  ( n )\n// all\nRETURN  n . x  AS  x ;", "MATCH(n)RETURN n . x AS x"),
            ("RETURN  1  +  1", "RETURN 1  +  1"),
            ("RETURN 1 /*c*/ + 1 // end", "RETURN 1 /*c*/ + 1"),
            ("RETURN /* lead */ 1+1 , 2  *  3  AS b", "RETURN 1+1,2 * 3 AS b"),
            ("RETURN  1 + 1\n UNION\n RETURN 1 + 1", "RETURN 1 + 1 UNION RETURN 1 + 1"),
            ("RETURN a  + 1  ORDER  BY  a  + 1", "RETURN a  + 1 ORDER BY a + 1"),
            ("RETURN limit  + 1  LIMIT  1", "RETURN limit  + 1 LIMIT 1"),
            ("RETURN COUNT {  RETURN  n  }", "RETURN COUNT {  RETURN  n  }"),
            ("RETURN COUNT {  RETURN  n  }  AS  c", "RETURN COUNT{RETURN n}AS c"),
            ("RETURN  *  LIMIT  1", "RETURN * LIMIT 1"),
            ("RETURN as  AS  as", "RETURN as  AS  as"),
            ("WITH 1 AS  return RETURN return  + 1", "WITH 1 AS return RETURN return  + 1"),
            ("RETURN 1 ;;", "RETURN 1 ;;"),
            ("RETURN 1 ; RETURN  2", "RETURN 1 ; RETURN 2"),
            ("RETURN  'unterminated", "RETURN  'unterminated"),
            ("", ""),
        ] {
            assert_eq!(NormalForm::of(text).as_str(), normal, "{text:?}");
        }
    }

    fn soup() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec![
            "RETURN", "return", "AS", "x", "UNION", "LIMIT", "ORDER", "BY", "(", ")", "{", "}", "[", "]",
            ",", ";", "*", "+", " ", "  ", "\n", "/*c*/", "// c\n", "'s'", "`q`", "1", ".5", "..", "$",
            "\\u0041", "CASE", "DISTINCT",
        ]);
        prop::collection::vec(word, 0..40).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn idempotent_and_never_touches_a_token(text in soup()) {
            let normal = NormalForm::of(&text);
            prop_assert_eq!(NormalForm::of(normal.as_str()), normal.clone());
            let words = |text: &str| tokens(text).map(|token| token.text(text).to_owned()).collect::<Vec<_>>();
            let (mut before, after) = (words(&text), words(normal.as_str()));
            if before.len() > after.len() {
                let dropped = before.pop();
                prop_assert_eq!(dropped.as_deref(), Some(";"));
            }
            prop_assert_eq!(before, after);
        }
    }
}
