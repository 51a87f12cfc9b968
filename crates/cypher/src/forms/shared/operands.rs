//! Operands of expressions: literals, parameters, variables, properties, calls, lists, maps, CASE, brackets.

use super::scope::{Variable, is_plain};
use super::{Parsed, Parser, Unread, put};
use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;

/// An operand in form.
pub(super) struct Operand {
    pub(super) text: String,
    /// The variable that it is, and nothing more.
    pub(super) variable: Option<(String, Variable)>,
    /// Whether it raises no error on any row, and may stand in a comparison of a simple conjunct.
    pub(super) is_simple: bool,
    /// `n:Label`.
    pub(super) is_label_test: bool,
}

impl Operand {
    fn new(text: String, is_simple: bool) -> Self {
        Self { text, variable: None, is_simple, is_label_test: false }
    }
}

/// Functions with a syntax of their own in brackets.
const SPECIAL_CALLS: [&str; 12] = [
    "ALL",
    "ANY",
    "NONE",
    "SINGLE",
    "REDUCE",
    "FILTER",
    "EXTRACT",
    "EXISTS",
    "SHORTESTPATH",
    "ALLSHORTESTPATHS",
    // The second argument is a word (`NFC`), or the first one (`BOTH`, `FROM`).
    "NORMALIZE",
    "TRIM",
];

impl Parser<'_> {
    pub(super) fn operand(&mut self) -> Parsed<Operand> {
        match self.kind(0).ok_or(Unread)? {
            TokenKind::Number | TokenKind::Text => Ok(self.literal()),
            TokenKind::Punct('-' | '+') if self.kind(1) == Some(TokenKind::Number) => {
                let sign = self.source(0);
                self.at += 1;
                let number = self.literal();
                Ok(Operand::new(format!("{sign} {}", number.text), true))
            }
            TokenKind::Punct('$') => {
                let parameter = self.parameter()?;
                self.suffixes(Operand::new(parameter, true))
            }
            TokenKind::Punct('(') => {
                self.at += 1;
                let inner = self.expr()?;
                self.expect(')')?;
                // `(n)` names its column `n`, and `(n)--(m)` is a pattern.
                if inner.variable.is_some() {
                    return Err(Unread);
                }
                self.suffixes(Operand::new(format!("( {} )", inner.text), false))
            }
            TokenKind::Punct('[') => {
                let list = self.list()?;
                self.suffixes(list)
            }
            TokenKind::Punct('{') => {
                let map = self.nested(Self::map)?;
                self.suffixes(Operand::new(map, false))
            }
            TokenKind::Word => self.word(),
            TokenKind::QuotedWord => self.variable(),
            _ => Err(Unread),
        }
    }

    fn literal(&mut self) -> Operand {
        let text = self.source(0).to_owned();
        self.at += 1;
        Operand::new(text, true)
    }

    fn parameter(&mut self) -> Parsed<String> {
        self.expect('$')?;
        let is_number = self.kind(0) == Some(TokenKind::Number)
            && self.source(0).bytes().all(|byte| byte.is_ascii_digit());
        if !is_number && !self.is_name_at(0) {
            return Err(Unread);
        }
        let text = format!("${}", self.source(0));
        self.at += 1;
        Ok(text)
    }

    fn word(&mut self) -> Parsed<Operand> {
        for literal in ["TRUE", "FALSE", "NULL"] {
            if self.skip_word(literal) {
                let is_alone = !(self.is('(') || self.is('.') || self.is('['));
                return if is_alone { Ok(Operand::new(literal.to_owned(), true)) } else { Err(Unread) };
            }
        }
        if self.skip_word("CASE") {
            return Ok(Operand::new(self.case()?, false));
        }
        match self.call_len() {
            Some(len) => self.call(len),
            None => self.variable(),
        }
    }

    fn variable(&mut self) -> Parsed<Operand> {
        let name = self.name()?;
        let variable = self.scope.find(&name).filter(|_| is_plain(&name)).ok_or(Unread)?;
        let operand = Operand { variable: Some((name, variable)), ..Operand::new(variable.text(), true) };
        self.suffixes(operand)
    }

    /// `.key`, `[index]`, `[from..to]`, `:Label` behind an operand.
    fn suffixes(&mut self, mut operand: Operand) -> Parsed<Operand> {
        loop {
            let variable = operand.variable.take();
            if self.skip('.') {
                let key = self.written_name()?;
                // A bracket behind it would make it a call.
                if self.is('(') {
                    return Err(Unread);
                }
                put(&mut operand.text, ".");
                put(&mut operand.text, key);
                operand.is_simple = variable.is_some_and(|(_, variable)| variable.is_element);
            } else if self.is('[') {
                let index = self.index()?;
                put(&mut operand.text, &index);
                operand.is_simple = false;
            } else if self.is(':') {
                let (_, variable) = variable.ok_or(Unread)?;
                while self.skip(':') {
                    put(&mut operand.text, ":");
                    put(&mut operand.text, self.written_name()?);
                }
                operand.is_label_test = variable.is_element;
                operand.is_simple = false;
                return Ok(operand);
            } else {
                operand.variable = variable;
                return Ok(operand);
            }
        }
    }

    fn index(&mut self) -> Parsed<String> {
        let mut text = "[".to_owned();
        self.expect('[')?;
        if self.kind(0) != Some(TokenKind::DotDot) {
            put(&mut text, &self.expr()?.text);
        }
        if self.kind(0) == Some(TokenKind::DotDot) {
            self.at += 1;
            put(&mut text, "..");
            if !self.is(']') {
                put(&mut text, &self.expr()?.text);
            }
        }
        self.expect(']')?;
        put(&mut text, "]");
        Ok(text)
    }

    fn list(&mut self) -> Parsed<Operand> {
        self.expect('[')?;
        let mut operand = Operand::new("[".to_owned(), true);
        // A comprehension: `[x IN list | …]`.
        let is_name = matches!(self.kind(0), Some(TokenKind::Word | TokenKind::QuotedWord));
        if is_name && (self.is_word_at(1, "IN") || self.is_at(1, '=')) {
            return Err(Unread);
        }
        while !self.is(']') {
            let item = self.expr()?;
            put(&mut operand.text, &item.text);
            operand.is_simple &= item.is_simple_value;
            if !self.skip(',') {
                break;
            }
            put(&mut operand.text, ",");
            if self.is(']') {
                return Err(Unread);
            }
        }
        self.expect(']')?;
        put(&mut operand.text, "]");
        Ok(operand)
    }

    /// `{key: value, …}`.
    pub(super) fn map(&mut self) -> Parsed<String> {
        self.expect('{')?;
        let mut text = "{".to_owned();
        while !self.is('}') {
            put(&mut text, self.written_name()?);
            self.expect(':')?;
            put(&mut text, ":");
            put(&mut text, &self.expr()?.text);
            if !self.skip(',') {
                break;
            }
            put(&mut text, ",");
            if self.is('}') {
                return Err(Unread);
            }
        }
        self.expect('}')?;
        put(&mut text, "}");
        Ok(text)
    }

    /// `CASE` is behind.
    fn case(&mut self) -> Parsed<String> {
        let mut text = "CASE".to_owned();
        if !self.is_word("WHEN") {
            put(&mut text, &self.expr()?.text);
        }
        let mut branches = 0;
        while self.skip_word("WHEN") {
            put(&mut text, "WHEN");
            put(&mut text, &self.expr()?.text);
            self.expect_word("THEN")?;
            put(&mut text, "THEN");
            put(&mut text, &self.expr()?.text);
            branches += 1;
        }
        if branches == 0 {
            return Err(Unread);
        }
        if self.skip_word("ELSE") {
            put(&mut text, "ELSE");
            put(&mut text, &self.expr()?.text);
        }
        self.expect_word("END")?;
        put(&mut text, "END");
        Ok(text)
    }

    /// The number of tokens of a function's name, if a call is next: `f(`, `a.b.f(`.
    fn call_len(&self) -> Option<usize> {
        let mut len = 1;
        while self.is_at(len, '.') && self.kind(len + 1) == Some(TokenKind::Word) {
            len += 2;
        }
        self.is_at(len, '(').then_some(len)
    }

    fn call(&mut self, len: usize) -> Parsed<Operand> {
        if SPECIAL_CALLS.iter().any(|special| self.is_word(special)) {
            return Err(Unread);
        }
        let is_count = self.is_word("COUNT") && len == 1;
        let mut text = String::new();
        for _ in 0..len {
            put(&mut text, self.source(0));
            self.at += 1;
        }
        self.expect('(')?;
        put(&mut text, "(");
        if is_count && self.is('*') && self.is_at(1, ')') {
            self.at += 1;
            put(&mut text, "*");
        } else if !self.is(')') {
            self.arguments(&mut text)?;
        }
        self.expect(')')?;
        put(&mut text, ")");
        self.suffixes(Operand::new(text, false))
    }

    fn arguments(&mut self, text: &mut String) -> Parsed<()> {
        if self.skip_word("DISTINCT") {
            put(text, "DISTINCT");
        }
        loop {
            put(text, &self.expr()?.text);
            if !self.skip(',') {
                return Ok(());
            }
            put(text, ",");
        }
    }
}
