//! Expressions of labels and types: `A`, `A:B`, `A|B`, `A&!B`, `(A|B)&C`, `%`, `$($param)`.

use super::tree::{LabelExpr, Labels};
use super::{Parsed, Parser};

impl<'t> Parser<'t, '_> {
    /// `:A` or `IS A` in a pattern or a change, if one is next.
    pub(super) fn labels(&mut self) -> Parsed<Option<Labels<'t>>> {
        let is_worded = !self.is(':');
        if !self.skip(':') && !self.skip_word("IS") {
            return Ok(None);
        }
        let labels = self.within_brackets(Self::labels_of_expression)?;
        Ok(Some(Labels { is_worded, ..labels }))
    }

    /// After `:` in an expression. A `|` may belong to what is around the expression: `[x IN l WHERE x:A | x]`.
    pub(super) fn labels_of_expression(&mut self) -> Parsed<Labels<'t>> {
        let from = self.at;
        let was_certain = std::mem::replace(&mut self.is_certain, true);
        let expr = self.nested(Self::either)?;
        let is_certain = self.is_certain;
        self.is_certain &= was_certain;
        Ok(Labels { expr, is_worded: false, is_certain, tokens: self.since(from) })
    }

    fn either(&mut self) -> Parsed<LabelExpr<'t>> {
        let mut parts = vec![self.every()?];
        while self.is('|') && !self.is_at(1, '|') && self.bar_is_inside() {
            self.at += 1;
            // `A|:B` is an old form for types.
            self.skip(':');
            parts.push(self.every()?);
        }
        Ok(one_or(parts, LabelExpr::Or))
    }

    fn every(&mut self) -> Parsed<LabelExpr<'t>> {
        let mut parts = vec![self.label()?];
        while self.skip('&') || (!self.is_at(1, ':') && self.skip(':')) {
            parts.push(self.label()?);
        }
        Ok(one_or(parts, LabelExpr::And))
    }

    fn label(&mut self) -> Parsed<LabelExpr<'t>> {
        if self.skip('!') {
            return Ok(LabelExpr::Not(Box::new(self.nested(Self::label)?)));
        }
        if self.skip('%') {
            return Ok(LabelExpr::Any);
        }
        if self.skip('(') {
            let inside = self.within_brackets(|parser| parser.nested(Self::either))?;
            self.expect(')')?;
            return Ok(inside);
        }
        if self.skip('$') {
            return self.dynamic_label();
        }
        Ok(LabelExpr::Name(self.name()?))
    }

    /// After `$`: `(expression)`, `any(expression)` or `all(expression)`. The meaning of an expression with maps, subqueries
    /// or variables of its own counts as unknown: no walk looks for variables in labels.
    fn dynamic_label(&mut self) -> Parsed<LabelExpr<'t>> {
        self.skip_any_word(&["ANY", "ALL"]);
        self.expect('(')?;
        let before = self.inner;
        let names = self.within_brackets(Self::expr)?;
        self.is_certain &= self.inner == before;
        self.expect(')')?;
        Ok(LabelExpr::Dynamic(Box::new(names)))
    }
}

fn one_or<'t>(mut parts: Vec<LabelExpr<'t>>, all: fn(Vec<LabelExpr<'t>>) -> LabelExpr<'t>) -> LabelExpr<'t> {
    match parts.pop() {
        Some(only) if parts.is_empty() => only,
        last => {
            parts.extend(last);
            all(parts)
        }
    }
}
