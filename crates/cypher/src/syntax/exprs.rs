//! Expressions: operands with operators between them, and what stands behind an operand (`.key`, `[index]`, `:Label`).

use crate::lexer::TokenKind;
use crate::verdict::may_follow_variable;

use super::tree::{Expr, Labels, Map, Operator, Sign, Tail, Term};
use super::{Parsed, Parser, Unread};

const WORDS: [&str; 5] = ["AND", "OR", "XOR", "IN", "CONTAINS"];

/// The longer ones first.
const SIGNS: [&str; 15] = ["<>", "<=", ">=", "=~", "!=", "||", "<", ">", "=", "+", "-", "*", "/", "%", "^"];

impl<'t> Parser<'t, '_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> Parsed<Expr<'t>> {
        self.nested(|parser| {
            let from = parser.at;
            let mut terms = vec![parser.term(None)?];
            while let Some(operator) = parser.operator()? {
                terms.push(parser.term(Some(operator))?);
            }
            Ok(Expr { terms, tokens: parser.since(from) })
        })
    }

    /// An operand with what stands before and behind it.
    fn term(&mut self, operator: Option<Operator>) -> Parsed<Term<'t>> {
        let from = self.at;
        let mut signs = Vec::new();
        while let Some(sign) = self.sign() {
            signs.push(sign);
        }
        let operand = self.operand()?;
        self.inner += usize::from(operand.has_inner());
        let mut tail = Vec::new();
        while let Some(next) = self.tail()? {
            tail.push(next);
        }
        Ok(Term { operator, signs, operand, tail, tokens: self.since(from) })
    }

    fn sign(&mut self) -> Option<Sign> {
        if self.skip('-') {
            return Some(Sign::Minus);
        }
        if self.skip('+') {
            return Some(Sign::Plus);
        }
        if self.skip_word("NOT") { Some(Sign::Not) } else { None }
    }

    /// An operator with two operands, if one is next.
    pub(super) fn operator(&mut self) -> Parsed<Option<Operator>> {
        let is_glued = self.is_glued(1);
        for (word, sign) in [("STARTS", "STARTS WITH"), ("ENDS", "ENDS WITH")] {
            if self.skip_word(word) {
                self.expect_word("WITH")?;
                return Ok(Some(Operator { sign, is_glued: true }));
            }
        }
        let word = WORDS.iter().find(|word| self.is_word(word));
        let Some(sign) = word.or_else(|| SIGNS.iter().find(|sign| self.are(sign))) else { return Ok(None) };
        // `+=` is no operator.
        if *sign == "+" && self.is_at(1, '=') {
            return Err(Unread::Syntax);
        }
        let is_single = word.is_some() || sign.len() == 1;
        self.at += if is_single { 1 } else { 2 };
        Ok(Some(Operator { sign, is_glued: is_single || is_glued }))
    }

    /// What stands behind an operand, if it is next.
    fn tail(&mut self) -> Parsed<Option<Tail<'t>>> {
        if self.skip('.') {
            return self.name().map(Tail::Key).map(Some);
        }
        if self.is('[') {
            return self.index().map(Some);
        }
        if self.are("::") {
            self.at += 2;
            return self.type_predicate().map(Some);
        }
        if self.skip(':') {
            return self.labels_of_expression().map(Tail::Labels).map(Some);
        }
        if self.is_word("IS") { self.is_predicate().map(Some) } else { Ok(None) }
    }

    /// `[index]` and `[from..to]`.
    fn index(&mut self) -> Parsed<Tail<'t>> {
        self.expect('[')?;
        let index = if self.is_slice() { None } else { Some(Box::new(self.expr()?)) };
        let is_slice = self.is_slice();
        self.at += usize::from(is_slice);
        let to = if is_slice && !self.is(']') { Some(Box::new(self.expr()?)) } else { None };
        self.expect(']')?;
        match index {
            Some(index) if !is_slice => Ok(Tail::Index(index)),
            from => Ok(Tail::Slice(from, to)),
        }
    }

    fn is_slice(&self) -> bool {
        self.kind(0) == Some(TokenKind::DotDot)
    }

    /// `IS [NOT] NULL`, `IS [NOT] [NFC] NORMALIZED`, `IS [NOT] TYPED type`, `IS [NOT] :: type`, `IS Label`,
    /// `IS [NOT] LABELED Label`.
    pub(super) fn is_predicate(&mut self) -> Parsed<Tail<'t>> {
        self.expect_word("IS")?;
        let is_not = self.skip_word("NOT");
        let form = usize::from(self.is_any_word(&["NFC", "NFD", "NFKC", "NFKD"]));
        if self.is_word_at(form, "NORMALIZED") {
            self.at += form + 1;
            return Ok(Tail::IsNormalized);
        }
        if self.are("::") || self.is_word("TYPED") {
            self.at += if self.is(':') { 2 } else { 1 };
            return self.type_predicate();
        }
        // Of Cypher 5 alone, a label with this name may stand here with an operator behind it. Then its meaning is unknown.
        if self.is_word("LABELED") && (self.is_name_at(1) || "!%($".chars().any(|sign| self.is_at(1, sign))) {
            let is_certain = !may_follow_variable(self.source(1));
            self.at += 1;
            let labels = self.labels_of_expression()?;
            self.is_certain &= is_certain;
            return Ok(Tail::Labels(Labels { is_worded: true, ..labels }));
        }
        if is_not {
            self.expect_word("NULL")?;
            return Ok(Tail::IsNotNull);
        }
        if self.skip_word("NULL") {
            return Ok(Tail::IsNull);
        }
        let labels = self.labels_of_expression()?;
        self.is_certain = false;
        Ok(Tail::Labels(Labels { is_worded: true, is_certain: false, ..labels }))
    }

    /// `{key: value, …}`. A comma may stand behind the last value.
    pub(super) fn map(&mut self) -> Parsed<Map<'t>> {
        let from = self.at;
        self.expect('{')?;
        let mut entries = Vec::new();
        while !self.is('}') {
            let key = self.name()?;
            self.expect(':')?;
            entries.push((key, self.expr()?));
            if !self.skip(',') {
                break;
            }
        }
        self.expect('}')?;
        Ok(Map { entries, tokens: self.since(from) })
    }
}
