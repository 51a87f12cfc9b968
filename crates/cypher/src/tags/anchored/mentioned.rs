//! Which names an expression mentions, and whether it may be an aggregate: what decides which rows of a projection are one, and which are
//! shown.

use std::collections::BTreeSet;

use crate::functions::FunctionKind;
use crate::syntax::tree::{Call, Case, Expr, MapProjectionItem, Operand, Tail, When};
use crate::tags::anchored::shown::OF_ELEMENTS;

/// The names in expressions, and whether one may be an aggregate.
#[derive(Debug, Default)]
pub(crate) struct Mentioned<'a> {
    pub(crate) names: BTreeSet<&'a str>,
    pub(crate) may_aggregate: bool,
    /// Whether there may be names that are not among these: those in a subquery, a pattern or a comprehension.
    pub(crate) has_more: bool,
}

impl<'a> Mentioned<'a> {
    pub(crate) fn of(expr: &'a Expr<'a>) -> Self {
        let mut mentioned = Self::default();
        mentioned.add(expr);
        mentioned
    }

    fn all(&mut self, exprs: impl IntoIterator<Item = &'a Expr<'a>>) {
        exprs.into_iter().for_each(|expr| self.add(expr));
    }

    pub(crate) fn add(&mut self, expr: &'a Expr<'a>) {
        for term in &expr.terms {
            self.operand(&term.operand);
            for tail in &term.tail {
                match tail {
                    Tail::Index(index) => self.add(index),
                    Tail::Slice(from, to) => self.all(from.iter().chain(to).map(|bound| &**bound)),
                    Tail::Key(_) | Tail::IsNull | Tail::IsNotNull => {}
                    Tail::Labels(_) | Tail::IsNormalized | Tail::IsTyped => self.is_odd(),
                }
            }
        }
    }

    fn operand(&mut self, operand: &'a Operand<'a>) {
        match operand {
            Operand::Number(_) | Operand::Text(_) | Operand::Constant(_) | Operand::Parameter(_) => {}
            Operand::Variable(name) => drop(self.names.insert(name.as_str())),
            Operand::Parenthesised(inside) => self.add(inside),
            Operand::List(items) => self.all(items),
            Operand::Map(map) => self.all(map.entries.iter().map(|(_, value)| value)),
            Operand::MapProjection(base, entries) => {
                self.names.insert(base.as_str());
                for entry in entries {
                    match entry {
                        MapProjectionItem::All | MapProjectionItem::Key(_) => {}
                        MapProjectionItem::Variable(name) => drop(self.names.insert(name.as_str())),
                        MapProjectionItem::Value(_, value) => self.add(value),
                    }
                }
            }
            Operand::Case(case) => self.case(case),
            Operand::Call(call) => {
                self.may_aggregate |= !is_of_one_row(call);
                self.all(&call.arguments);
            }
            // Its rows are its own.
            Operand::PatternSubquery(_) | Operand::Subquery { .. } => self.has_more = true,
            _ => self.is_odd(),
        }
    }

    fn is_odd(&mut self) {
        (self.may_aggregate, self.has_more) = (true, true);
    }

    fn case(&mut self, case: &'a Case<'a>) {
        self.all(case.subject.iter().chain(&case.otherwise));
        for (values, result) in &case.branches {
            for value in values {
                match value {
                    When::Whole(value) | When::Half(value) => self.add(value),
                    When::Predicate => {}
                }
            }
            self.add(result);
        }
    }
}

/// Functions that certainly are no aggregates.
fn is_of_one_row(call: &Call<'_>) -> bool {
    let function = call.function.as_str();
    let is_known = OF_ELEMENTS.contains(&function)
        || matches!(
            function,
            "length"
                | "toupper"
                | "tolower"
                | "upper"
                | "lower"
                | "tostring"
                | "tointeger"
                | "tofloat"
                | "toboolean"
                | "abs"
                | "round"
                | "ceil"
                | "floor"
                | "sign"
                | "log"
                | "log10"
                | "sqrt"
                | "exp"
                | "left"
                | "right"
                | "substring"
                | "trim"
                | "ltrim"
                | "rtrim"
                | "replace"
                | "split"
                | "exists"
                | "isempty"
        );
    is_known && call.kind == Some(FunctionKind::Cypher)
}
