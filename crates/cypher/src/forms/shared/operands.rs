//! Operands of expressions: literals, parameters, variables, calls, lists, maps, CASE, brackets.

use super::Printer;
use super::exprs::Role;
use super::scope::{Variable, is_plain};
use crate::lexer::TokenKind;
use crate::syntax::tree::{Call, CallForm, Case, Expr, Map, Name, Operand, When};

/// Functions with a syntax of their own in brackets, and words that begin another operand.
const SPECIAL_CALLS: [&str; 20] = [
    "TRUE",
    "FALSE",
    "NULL",
    "CASE",
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
    // An argument is a key (`property_exists(n, key)`) or a word (`FLOAT32`), and looks like a variable.
    "PROPERTY_EXISTS",
    "VECTOR",
    "VECTOR_DISTANCE",
    "VECTOR_NORM",
];

impl<'q> Printer<'q> {
    /// An operand without what stands behind it, and the variable that it is.
    pub(super) fn bare_operand(&mut self, operand: &'q Operand<'q>) -> Option<(Role, Option<Variable>)> {
        let role = match operand {
            Operand::Number(literal) | Operand::Text(literal) | Operand::Constant(literal) => {
                self.put(literal);
                Role::Value
            }
            Operand::Parameter(name) => {
                self.parameter(name)?;
                Role::Value
            }
            Operand::Variable(name) => {
                let variable = self.scope.find(name.as_str()).filter(|_| is_plain(name.as_str()))?;
                self.put(&variable.text());
                return Some((Role::Value, Some(variable)));
            }
            Operand::Parenthesised(inside) => {
                self.put("(");
                self.expr(inside)?;
                self.put(")");
                // `(n)` names its column `n`, and `(n)--(m)` is a pattern.
                if inside.variable().is_some() {
                    return None;
                }
                Role::Other
            }
            Operand::List(items) => self.list(items)?,
            Operand::Map(map) => {
                self.map(map)?;
                Role::Other
            }
            Operand::Case(case) => {
                self.case(case)?;
                Role::Other
            }
            Operand::Call(call) => {
                self.call(call)?;
                Role::Other
            }
            _ => return None,
        };
        Some((role, None))
    }

    fn parameter(&mut self, name: &Name<'_>) -> Option<()> {
        if name.is_number() && !name.as_str().bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.put(&format!("${}", name.written()));
        Some(())
    }

    fn list(&mut self, items: &'q [Expr<'q>]) -> Option<Role> {
        // It may be meant as a comprehension: `[x = (a)--(b) | …]`.
        let is_name = |at: usize| matches!(self.kind(at), Some(TokenKind::Word | TokenKind::QuotedWord));
        let first = items.first().map_or(0, |item| item.tokens.from);
        if !items.is_empty() && is_name(first) && self.is(first + 1, '=') {
            return None;
        }
        self.put("[");
        let mut is_simple = true;
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            is_simple &= self.expr(item)?.is_simple_value;
        }
        self.put("]");
        Some(if is_simple { Role::Value } else { Role::Other })
    }

    /// `{key: value, …}`.
    pub(super) fn map(&mut self, map: &'q Map<'q>) -> Option<()> {
        if self.is(map.tokens.to - 2, ',') {
            return None;
        }
        self.nested(|printer| {
            printer.put("{");
            for (at, (key, value)) in map.entries.iter().enumerate() {
                if at > 0 {
                    printer.put(",");
                }
                printer.put(&key.written());
                printer.put(":");
                printer.expr(value)?;
            }
            printer.put("}");
            Some(())
        })
    }

    fn case(&mut self, case: &'q Case<'q>) -> Option<()> {
        self.put("CASE");
        case.subject.iter().try_for_each(|subject| self.expr(subject).map(|_| ()))?;
        if case.branches.is_empty() {
            return None;
        }
        for (values, result) in &case.branches {
            let [When::Whole(value)] = values.as_slice() else { return None };
            self.put("WHEN");
            self.expr(value)?;
            self.put("THEN");
            self.expr(result)?;
        }
        if let Some(otherwise) = &case.otherwise {
            self.put("ELSE");
            self.expr(otherwise)?;
        }
        self.put("END");
        Some(())
    }

    fn call(&mut self, call: &'q Call<'q>) -> Option<()> {
        let first = call.name.first()?.as_str();
        let is_special = SPECIAL_CALLS.iter().any(|special| first.eq_ignore_ascii_case(special));
        let is_known = match call.form {
            CallForm::Plain | CallForm::Distinct => true,
            CallForm::Star => call.function == "count",
            CallForm::Worded => false,
        };
        if is_special || !is_known || call.name.iter().any(|part| part.is_quoted) {
            return None;
        }
        for (at, part) in call.name.iter().enumerate() {
            if at > 0 {
                self.put(".");
            }
            self.put(part.as_str());
        }
        self.put("(");
        match call.form {
            CallForm::Star => self.put("*"),
            CallForm::Distinct => self.put("DISTINCT"),
            CallForm::Plain | CallForm::Worded => {}
        }
        for (at, argument) in call.arguments.iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            self.expr(argument)?;
        }
        self.put(")");
        Some(())
    }
}
