//! The anchor of a read: the label and property that find the graph node it starts from. It also has the question to
//! the server about how many relationships that node has.
//!
//! An anchor is certain, or there is none. Any text gives one or none, without a panic. A condition that is not
//! certainly an equality on a property of a labelled node of the first `MATCH` gives none. The anchor decides nothing
//! about what may be cached. A node without a label is no anchor: the server would scan all nodes for it.

pub mod columns;

use hopcache_core::key::AnchorParts;
use hopcache_packstream::{Reader, Token as Packed, Writer};

use crate::lexer::{Token, TokenKind, tokens};
use crate::limits::{ANCHOR_TEXT_BYTES_MAX, ANCHOR_VALUE_BYTES_MAX};

/// The start of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// Label of the node; the first one if it has several.
    pub label: Name,
    /// The property in the equality.
    pub key: Name,
    /// The value of the property: an integer, a string or a boolean, as PackStream.
    pub value: Vec<u8>,
}

/// A name in a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    text: String,
    /// Whether the statement has it in backticks. The embedded graph knows no backticks, so a name that needs
    /// none gets none.
    is_quoted: bool,
}

impl Name {
    /// Without backticks.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As it is written in a statement.
    fn written(&self) -> String {
        if self.is_quoted { format!("`{}`", self.text.replace('`', "``")) } else { self.text.clone() }
    }
}

impl Anchor {
    /// The anchor of `text` with these parameters (one PackStream map), if it certainly has one.
    #[must_use]
    pub fn of(text: &str, params: &[u8]) -> Option<Self> {
        Self::found(text, params).map(|found| found.anchor)
    }

    /// The anchor, and the name of the parameter that has its value; `None` if the text itself has the value.
    #[must_use]
    pub fn with_param(text: &str, params: &[u8]) -> Option<(Self, String)> {
        let found = Self::found(text, params)?;
        found.param.map(|param| (found.anchor, param.text))
    }

    /// What its tags are made of.
    #[must_use]
    pub fn parts(&self) -> AnchorParts<'_> {
        AnchorParts { label: &self.label.text, key: &self.key.text, value: &self.value }
    }

    fn found(text: &str, params: &[u8]) -> Option<Found> {
        if text.len() > ANCHOR_TEXT_BYTES_MAX {
            return None;
        }
        let tokens: Vec<Token> = tokens(text).collect();
        let reading = Reading { text, tokens: &tokens, params };
        // A second branch starts elsewhere.
        let has_union = (0..tokens.len()).any(|at| reading.is_keyword(at, "UNION"));
        let is_readable =
            !has_union && !tokens.iter().any(|token| matches!(token.kind, TokenKind::Trouble(_)));
        if !is_readable || !reading.is_word(0, "MATCH") {
            return None;
        }
        reading.first_match(1)
    }

    /// The statement that asks for the node's degree, with its one parameter in [`Anchor::degree_params`]. If there is
    /// an index, Neo4j 5.26 plans an index seek, a limit of one row, and a read of the degree that it keeps for each
    /// node (`getDegree`). `count { (n)--() }` has the same plan, but the embedded graph does not know it. `MATCH (n
    /// …)--() RETURN count(*)` scans all relationships if there is no index.
    #[must_use]
    pub fn degree_statement(&self) -> String {
        let (label, key) = (self.label.written(), self.key.written());
        format!("MATCH (n:{label} {{{key}: $value}}) WITH n LIMIT 1 RETURN size([(n)--() | 1]) AS degree")
    }

    /// One PackStream map.
    #[must_use]
    pub fn degree_params(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.map(1);
        writer.string("value");
        writer.raw(&self.value);
        writer.into_bytes()
    }
}

/// An anchor, and the parameter that its value came from.
struct Found {
    anchor: Anchor,
    param: Option<Name>,
}

/// A scalar in the text.
struct Scalar {
    value: Vec<u8>,
    /// The parameter that it came from.
    param: Option<Name>,
}

impl Scalar {
    fn found(self, label: Name, key: Name) -> Found {
        Found { anchor: Anchor { label, key, value: self.value }, param: self.param }
    }
}

/// A labelled node of the first `MATCH`, for conditions in its `WHERE`.
struct Labelled {
    variable: Name,
    label: Name,
}

/// What a node pattern turned out to be.
enum Node {
    Anchor(Found),
    Labelled(Labelled),
    Other,
}

/// Words that begin a new clause: an operand before one of them is complete.
const CLAUSES: [&str; 9] =
    ["RETURN", "WITH", "MATCH", "OPTIONAL", "UNWIND", "CALL", "FINISH", "WHERE", "USING"];

/// Words that stand between or before operands.
const OPERATORS: [&str; 9] = ["WHERE", "AND", "NOT", "IN", "STARTS", "ENDS", "WITH", "CONTAINS", "IS"];

/// A text that is being read.
struct Reading<'a> {
    text: &'a str,
    tokens: &'a [Token],
    params: &'a [u8],
}

impl Reading<'_> {
    /// The patterns of the first `MATCH`, left to right, then its `WHERE`.
    fn first_match(&self, from: usize) -> Option<Found> {
        let mut at = from;
        let mut labelled = Vec::new();
        loop {
            if self.name(at).is_some() && self.is(at + 1, '=') {
                at += 2;
            }
            loop {
                let (node, behind) = self.node(at)?;
                match node {
                    Node::Anchor(anchor) => return Some(anchor),
                    Node::Labelled(node) => labelled.push(node),
                    Node::Other => {}
                }
                at = behind;
                if !self.is(at, '-') && !self.is(at, '<') {
                    break;
                }
                at = self.relationship(at)?;
            }
            if !self.is(at, ',') {
                break;
            }
            at += 1;
        }
        if self.is_word(at, "WHERE") { self.conditions(at + 1, &labelled) } else { None }
    }

    /// The node pattern at `at`, and where it ends.
    fn node(&self, at: usize) -> Option<(Node, usize)> {
        if !self.is(at, '(') {
            return None;
        }
        let behind = self.behind_bracket(at)?;
        Some((self.node_inside(at + 1).unwrap_or(Node::Other), behind))
    }

    fn node_inside(&self, from: usize) -> Option<Node> {
        let variable = self.name(from);
        let mut at = from + usize::from(variable.is_some());
        if !self.is(at, ':') {
            return None;
        }
        let label = self.name(at + 1)?;
        at += 2;
        while self.is(at, ':') && self.name(at + 1).is_some() {
            at += 2;
        }
        if self.is(at, '{') {
            if let Some((key, value)) = self.property(at + 1) {
                return Some(Node::Anchor(value.found(label, key)));
            }
            at = self.behind_bracket(at)?;
        }
        let is_whole = self.is(at, ')');
        variable.filter(|_| is_whole).map(|variable| Node::Labelled(Labelled { variable, label }))
    }

    /// The first entry of a map whose value is a scalar.
    fn property(&self, from: usize) -> Option<(Name, Scalar)> {
        let mut at = from;
        loop {
            let key = self.name(at)?;
            if !self.is(at + 1, ':') {
                return None;
            }
            if let Some((value, behind)) = self.value(at + 2)
                && (self.is(behind, ',') || self.is(behind, '}'))
            {
                return Some((key, value));
            }
            at = self.next_entry(at + 2)?;
        }
    }

    /// The position after the next comma of the same map.
    fn next_entry(&self, from: usize) -> Option<usize> {
        let mut at = from;
        while !self.is(at, ',') {
            if self.closes(at) {
                return None;
            }
            at = self.behind(at)?;
        }
        Some(at + 1)
    }

    /// The position after the relationship at `at`: `-`, `--`, `-[…]-`, with an arrow at either end.
    fn relationship(&self, at: usize) -> Option<usize> {
        let mut at = at + usize::from(self.is(at, '<'));
        if !self.is(at, '-') {
            return None;
        }
        at += 1;
        if self.is(at, '[') {
            at = self.behind_bracket(at)?;
        }
        if !self.is(at, '-') {
            return None;
        }
        at += 1;
        Some(at + usize::from(self.is(at, '>')))
    }

    /// An equality that the `WHERE` from here on always requires: one part of an `AND` at its top level.
    fn conditions(&self, from: usize, labelled: &[Labelled]) -> Option<Found> {
        if !self.is_without_or(from) {
            return None;
        }
        let mut at = from;
        loop {
            if let Some(anchor) = self.equality(at, labelled) {
                return Some(anchor);
            }
            while !self.is_keyword(at, "AND") {
                // An `AND` after `CASE` is not at the top level of the condition.
                if self.tokens.get(at).is_none() || self.is_keyword(at, "CASE") || self.begins_clause(at) {
                    return None;
                }
                at = self.behind(at)?;
            }
            at += 1;
        }
    }

    /// Whether a clause begins at `at`, even an unknown one: two operands never stand side by side.
    fn begins_clause(&self, at: usize) -> bool {
        let is_any = |at, words: &[&str]| words.iter().any(|word| self.is_keyword(at, word));
        let Some(before) = at.checked_sub(1) else { return true };
        if is_any(at, &CLAUSES) {
            return !(self.is_word(at, "WITH") && is_any(before, &["STARTS", "ENDS"]));
        }
        let is_operand = self.name(before).is_some() && !is_any(before, &OPERATORS)
            || self.literal(before, TokenKind::Number).is_some()
            || self.literal(before, TokenKind::Text).is_some()
            || self.closes(before);
        is_operand && self.name(at).is_some() && !is_any(at, &OPERATORS)
    }

    /// Looks to the end of the text: no word is reserved, so the end of the clause is uncertain.
    fn is_without_or(&self, from: usize) -> bool {
        let mut at = from;
        while at < self.tokens.len() {
            let is_or = self.is_keyword(at, "OR") || self.is_keyword(at, "XOR");
            match self.behind(at) {
                Some(behind) if !is_or => at = behind,
                _ => return false,
            }
        }
        true
    }

    /// `variable.key = value` or the other way round, with nothing on either side.
    fn equality(&self, at: usize, labelled: &[Labelled]) -> Option<Found> {
        let (place, value, behind) = match self.value(at) {
            Some((value, behind)) if self.is(behind, '=') => (behind + 1, value, behind + 4),
            _ => {
                let (value, behind) = self.value(at + 4).filter(|_| self.is(at + 3, '='))?;
                (at, value, behind)
            }
        };
        let (variable, key) = (self.name(place)?, self.name(place + 2)?);
        if !self.is(place + 1, '.') || !self.ends_operand(behind) {
            return None;
        }
        let node = labelled.iter().find(|node| node.variable.text == variable.text)?;
        Some(value.found(node.label.clone(), key))
    }

    fn ends_operand(&self, at: usize) -> bool {
        let is_last = self.is(at, ';') || self.tokens.get(at).is_none();
        is_last || self.is_word(at, "AND") || CLAUSES.iter().any(|clause| self.is_word(at, clause))
    }

    /// The scalar at `at` as PackStream, and where it ends.
    fn value(&self, at: usize) -> Option<(Scalar, usize)> {
        let mut param = None;
        let (value, behind) = if self.is(at, '$') {
            let name = self.name(at + 1)?;
            let value = self.parameter(&name.text)?;
            param = Some(name);
            (value, at + 2)
        } else if self.is(at, '-') {
            (integer("-", self.literal(at + 1, TokenKind::Number)?)?, at + 2)
        } else if let Some(digits) = self.literal(at, TokenKind::Number) {
            (integer("", digits)?, at + 1)
        } else if let Some(quoted) = self.literal(at, TokenKind::Text) {
            (string(quoted)?, at + 1)
        } else {
            let is_true = self.is_word(at, "TRUE");
            if !is_true && !self.is_word(at, "FALSE") {
                return None;
            }
            (packed(|writer| writer.bool(is_true)), at + 1)
        };
        (value.len() <= ANCHOR_VALUE_BYTES_MAX).then_some((Scalar { value, param }, behind))
    }

    fn parameter(&self, name: &str) -> Option<Vec<u8>> {
        let mut reader = Reader::new(self.params);
        let Ok(Packed::Map(pairs)) = reader.token() else { return None };
        for _ in 0..pairs {
            let is_it = reader.key().ok()? == name;
            let value = reader.skip().ok()?;
            if is_it {
                let scalar = Reader::new(value).token().ok()?;
                let is_scalar = matches!(scalar, Packed::Int(_) | Packed::Str(_) | Packed::Bool(_));
                return is_scalar.then(|| value.to_vec());
            }
        }
        None
    }

    fn literal(&self, at: usize, kind: TokenKind) -> Option<&str> {
        self.tokens.get(at).filter(|token| token.kind == kind).map(|token| token.text(self.text))
    }

    fn is(&self, at: usize, punct: char) -> bool {
        self.tokens.get(at).is_some_and(|token| token.is(punct))
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        self.literal(at, TokenKind::Word).is_some_and(|text| text.eq_ignore_ascii_case(word))
    }

    /// Whether the word at `at` is this keyword, and cannot be the name of a property, a label or a parameter.
    fn is_keyword(&self, at: usize, word: &str) -> bool {
        let is_name = at > 0 && ['.', ':', '$'].iter().any(|punct| self.is(at - 1, *punct));
        self.is_word(at, word) && !is_name
    }

    fn name(&self, at: usize) -> Option<Name> {
        if let Some(word) = self.literal(at, TokenKind::Word) {
            return Some(Name { text: word.to_owned(), is_quoted: false });
        }
        let quoted = self.literal(at, TokenKind::QuotedWord)?;
        let inside = quoted.strip_prefix('`')?.strip_suffix('`')?;
        Some(Name { text: inside.replace("``", "`"), is_quoted: true })
    }

    fn closes(&self, at: usize) -> bool {
        [')', ']', '}'].iter().any(|close| self.is(at, *close))
    }

    /// The position after the token at `at`, or after its bracket if it opens one. A closing bracket without an opening
    /// one here ends the reading.
    fn behind(&self, at: usize) -> Option<usize> {
        if self.closes(at) || self.tokens.get(at).is_none() {
            return None;
        }
        let opens = ['(', '[', '{'].iter().any(|open| self.is(at, *open));
        if opens { self.behind_bracket(at) } else { Some(at + 1) }
    }

    fn behind_bracket(&self, open: usize) -> Option<usize> {
        let mut awaited = Vec::new();
        for at in open..self.tokens.len() {
            let TokenKind::Punct(punct) = self.tokens[at].kind else { continue };
            match punct {
                '(' => awaited.push(')'),
                '[' => awaited.push(']'),
                '{' => awaited.push('}'),
                ')' | ']' | '}' if awaited.pop() != Some(punct) => return None,
                _ => {}
            }
            if awaited.is_empty() {
                return Some(at + 1);
            }
        }
        None
    }
}

/// Decimal digits without a leading zero, which might be an octal number's.
fn integer(sign: &str, digits: &str) -> Option<Vec<u8>> {
    let is_plain =
        digits == "0" || !digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = format!("{sign}{digits}").parse().ok().filter(|_| is_plain)?;
    Some(packed(|writer| writer.int(number)))
}

/// The text of a literal. `\u` is not among the escapes read here: the server decodes it before it forms tokens.
fn string(quoted: &str) -> Option<Vec<u8>> {
    let inside = quoted.get(1..quoted.len().checked_sub(1)?)?;
    let mut text = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(char) = chars.next() {
        text.push(match char {
            '\\' => match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                same @ ('\\' | '\'' | '"') => same,
                _ => return None,
            },
            other => other,
        });
    }
    Some(packed(|writer| writer.string(&text)))
}

fn packed(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.into_bytes()
}
