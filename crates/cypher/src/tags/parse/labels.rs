//! Expressions of labels and types: `A`, `A:B`, `A|B`, `A&!B`, `(A|B)&C`, `%`, `$($param)`.

use crate::lexer::cursor::TokenCursor;

use super::{Parsed, Parser};
use crate::tags::tree::LabelExpr;

impl Parser<'_> {
    /// After `:` or `IS` in a pattern.
    pub(super) fn labels(&mut self) -> Parsed<LabelExpr> {
        self.within_brackets(Self::labels_of_expression)
    }

    /// After `:` in an expression. A `|` may belong to what is around the expression: `[x IN l WHERE x:A | x]`.
    pub(super) fn labels_of_expression(&mut self) -> Parsed<LabelExpr> {
        self.nested(Self::either)
    }

    fn either(&mut self) -> Parsed<LabelExpr> {
        let mut parts = vec![self.every()?];
        while self.is('|') && !self.is_at(1, '|') && self.bar_is_inside() {
            self.at += 1;
            // `A|:B` is an old form for types.
            self.skip(':');
            parts.push(self.every()?);
        }
        Ok(one_or(parts, LabelExpr::Or))
    }

    fn every(&mut self) -> Parsed<LabelExpr> {
        let mut parts = vec![self.label()?];
        while self.skip('&') || (!self.is_at(1, ':') && self.skip(':')) {
            parts.push(self.label()?);
        }
        Ok(one_or(parts, LabelExpr::And))
    }

    fn label(&mut self) -> Parsed<LabelExpr> {
        if self.skip('!') {
            return Ok(LabelExpr::Not(Box::new(self.nested(Self::label)?)));
        }
        if self.skip('%') {
            return Ok(LabelExpr::Any);
        }
        if self.skip('(') {
            let inside = self.labels()?;
            self.expect(')')?;
            return Ok(inside);
        }
        if self.skip('$') {
            return self.dynamic_label();
        }
        Ok(LabelExpr::Name(self.name()?))
    }

    /// After `$`: `(expression)`, `any(expression)` or `all(expression)`. The meaning of an expression with maps, subqueries
    /// or variables of its own is unknown: [`crate::tags::names`] does not look into labels.
    fn dynamic_label(&mut self) -> Parsed<LabelExpr> {
        if !self.skip_word("ANY") {
            self.skip_word("ALL");
        }
        self.expect('(')?;
        let names = self.within_brackets(Self::expr)?;
        self.expect(')')?;
        let is_plain = names.in_maps.is_empty()
            && names.bindings.is_empty()
            && names.patterns.is_empty()
            && names.queries.is_empty();
        self.is_vague |= !is_plain;
        Ok(LabelExpr::Dynamic(Box::new(names)))
    }
}

fn one_or(mut parts: Vec<LabelExpr>, all: fn(Vec<LabelExpr>) -> LabelExpr) -> LabelExpr {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            all(parts)
        }
    }
}
