//! Expressions: operands with operators between them, in the order of the text. Their precedence does not matter,
//! because a form keeps all tokens in order. Only the conjuncts of a whole WHERE may change places.
//!
//! A simple conjunct raises no error on any row: a comparison, `IN`, `STARTS WITH` and the like, or `IS NULL`, of
//! variables, properties of nodes and relationships, parameters and literals; a test of labels. (`x IN $p` with a
//! parameter that is no list is refused before the statement runs, wherever it stands: tried on 5.26.12.) AND is
//! commutative where no operand raises an error, so the order of such conjuncts has no meaning.

use super::operands::Operand;
use super::scope::Variable;
use super::{Parsed, Parser, Unread, put};
use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;

/// An expression in form.
pub(super) struct Expr {
    /// Its text, in the order of the source.
    pub(super) text: String,
    /// The variable that it is, and nothing more.
    pub(super) variable: Option<(String, Variable)>,
    /// Whether it is one operand that raises no error, and not a condition.
    pub(super) is_simple_value: bool,
    /// Its conjuncts, if all are simple.
    conjuncts: Option<Vec<String>>,
}

impl Expr {
    /// Its text with its conjuncts in one order, if they may change places.
    pub(super) fn sorted(self) -> String {
        match self.conjuncts {
            None => self.text,
            Some(mut conjuncts) => {
                conjuncts.sort_unstable();
                conjuncts.join(" AND ")
            }
        }
    }
}

/// An operator between two operands, or after one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    And,
    /// It compares any two values and raises no error.
    Compares(&'static str),
    /// `IS NULL`, `IS NOT NULL`.
    Tests(&'static str),
    Other(&'static str),
}

/// The conjunct that is being read.
#[derive(Default)]
struct Conjunct {
    text: String,
    values: usize,
    comparisons: usize,
    tests: usize,
    label_tests: usize,
    is_other: bool,
}

impl Conjunct {
    fn take(&mut self, operand: &Operand) {
        put(&mut self.text, &operand.text);
        match (operand.is_label_test, operand.is_simple) {
            (true, _) => self.label_tests += 1,
            (false, true) => self.values += 1,
            (false, false) => self.is_other = true,
        }
    }

    fn is_simple(&self) -> bool {
        let counts = (self.values, self.comparisons, self.tests, self.label_tests);
        !self.is_other && matches!(counts, (2, 1, 0, 0) | (1, 0, 1, 0) | (0, 0, 0, 1))
    }
}

impl Parser<'_> {
    /// An expression. The caller decides whether what follows may follow.
    pub(super) fn expr(&mut self) -> Parsed<Expr> {
        self.nested(Self::expr_here)
    }

    fn expr_here(&mut self) -> Parsed<Expr> {
        let mut text = String::new();
        let mut conjuncts = Some(Vec::new());
        let mut conjunct = Conjunct::default();
        let mut operands = 0;
        let (variable, is_simple_value) = loop {
            conjunct.is_other |= self.prefixes(&mut text, &mut conjunct.text)?;
            let operand = self.operand()?;
            operands += 1;
            put(&mut text, &operand.text);
            conjunct.take(&operand);
            let mut is_alone = operands == 1 && !conjunct.is_other;
            let mut operator = self.operator()?;
            while let Some(Operator::Tests(word)) = operator {
                is_alone = false;
                conjunct.tests += 1;
                put(&mut text, word);
                put(&mut conjunct.text, word);
                operator = self.operator()?;
            }
            let word = match operator {
                None => break (operand.variable.filter(|_| is_alone), operand.is_simple && is_alone),
                Some(Operator::And) => {
                    put(&mut text, "AND");
                    end(&mut conjuncts, &mut conjunct);
                    continue;
                }
                Some(Operator::Compares(word)) => {
                    conjunct.comparisons += 1;
                    // `IN` raises an error on a value that is no list.
                    conjunct.is_other |= word == "IN" && !(self.is('[') || self.is('$'));
                    word
                }
                Some(Operator::Other(word) | Operator::Tests(word)) => {
                    conjunct.is_other = true;
                    word
                }
            };
            put(&mut text, word);
            put(&mut conjunct.text, word);
        };
        end(&mut conjuncts, &mut conjunct);
        Ok(Expr { text, variable, is_simple_value, conjuncts })
    }

    /// `NOT`, and signs. Returns whether there is one. The sign of a number is part of its operand.
    fn prefixes(&mut self, text: &mut String, conjunct: &mut String) -> Parsed<bool> {
        let mut found = false;
        loop {
            let is_sign = (self.is('-') || self.is('+')) && self.kind(1) != Some(TokenKind::Number);
            let word = match self.source(0) {
                // `--` and `-[` belong to patterns.
                "-" | "+" if is_sign && matches!(self.kind(1), Some(TokenKind::Punct('-' | '[' | '>'))) => {
                    return Err(Unread);
                }
                sign @ ("-" | "+") if is_sign => sign,
                _ if self.is_word("NOT") => "NOT",
                _ => return Ok(found),
            };
            self.at += 1;
            found = true;
            put(text, word);
            put(conjunct, word);
        }
    }

    fn operator(&mut self) -> Parsed<Option<Operator>> {
        let Some(kind) = self.kind(0) else { return Ok(None) };
        match kind {
            TokenKind::Word => self.word_operator(),
            TokenKind::Punct('+' | '-' | '*' | '/' | '%' | '^' | '=' | '<' | '>') => {
                self.punct_operator().map(Some)
            }
            _ => Ok(None),
        }
    }

    fn punct_operator(&mut self) -> Parsed<Operator> {
        const GLUED: [(&str, Operator); 4] = [
            ("<=", Operator::Compares("<=")),
            (">=", Operator::Compares(">=")),
            ("<>", Operator::Compares("<>")),
            ("=~", Operator::Other("=~")),
        ];
        const SINGLE: [(char, Operator); 9] = [
            ('=', Operator::Compares("=")),
            ('<', Operator::Compares("<")),
            ('>', Operator::Compares(">")),
            ('+', Operator::Other("+")),
            ('-', Operator::Other("-")),
            ('*', Operator::Other("*")),
            ('/', Operator::Other("/")),
            ('%', Operator::Other("%")),
            ('^', Operator::Other("^")),
        ];
        let found =
            GLUED.iter().find(|(puncts, _)| self.are_glued(puncts)).map(|(_, operator)| (2, *operator));
        let single = || SINGLE.iter().find(|(punct, _)| self.is(*punct)).map(|(_, operator)| (1, *operator));
        let (len, operator) = found.or_else(single).ok_or(Unread)?;
        let (is_minus, is_less) = (self.is('-'), self.is('<') && len == 1);
        let is_glued = self.is_glued(len);
        self.at += len;
        match self.kind(0) {
            // `(a)-[r]-(b)`, `(a)--(b)`, `(a)-->(b)`, `(a)<-[r]-(b)` are patterns, `< =` and `< >` are errors.
            Some(TokenKind::Punct('-' | '[' | '>' | '<')) if is_minus => Err(Unread),
            Some(TokenKind::Punct('-')) if is_less && is_glued => Err(Unread),
            Some(TokenKind::Punct('=' | '<' | '>' | '~')) => Err(Unread),
            _ => Ok(operator),
        }
    }

    fn word_operator(&mut self) -> Parsed<Option<Operator>> {
        const PLAIN: [(&str, Operator); 5] = [
            ("AND", Operator::And),
            ("OR", Operator::Other("OR")),
            ("XOR", Operator::Other("XOR")),
            ("IN", Operator::Compares("IN")),
            ("CONTAINS", Operator::Compares("CONTAINS")),
        ];
        if let Some((_, operator)) = PLAIN.iter().find(|(word, _)| self.is_word(word)) {
            self.at += 1;
            return Ok(Some(*operator));
        }
        for (first, operator) in [("STARTS", "STARTS WITH"), ("ENDS", "ENDS WITH")] {
            if self.skip_word(first) {
                self.expect_word("WITH")?;
                return Ok(Some(Operator::Compares(operator)));
            }
        }
        if !self.skip_word("IS") {
            return Ok(None);
        }
        let word = if self.skip_word("NOT") { "IS NOT NULL" } else { "IS NULL" };
        self.expect_word("NULL")?;
        Ok(Some(Operator::Tests(word)))
    }
}

/// Ends the conjunct.
fn end(conjuncts: &mut Option<Vec<String>>, conjunct: &mut Conjunct) {
    let ended = std::mem::take(conjunct);
    match conjuncts {
        Some(all) if ended.is_simple() => all.push(ended.text),
        _ => *conjuncts = None,
    }
}
