//! Lists: literals, comprehensions, and what else binds a variable to the elements of a list.

use crate::lexer::cursor::TokenCursor;

use super::{Parsed, Parser};
use crate::tags::tree::{Expr, Match, Shape};

impl Parser<'_> {
    /// After `all(`, `any(` and so on: `x IN list WHERE condition)`.
    pub(super) fn list_predicate(&mut self) -> Parsed<Expr> {
        self.at += 2;
        let mut whole = self.bound_in_list()?;
        if self.skip_word("WHERE") {
            whole.absorb(self.expr()?);
        }
        self.expect(')')?;
        Ok(whole)
    }

    /// `x IN list`: the list, with `x` bound to its elements.
    fn bound_in_list(&mut self) -> Parsed<Expr> {
        let name = self.name()?;
        self.expect_word("IN")?;
        let mut list = self.expr()?;
        self.copy(list.carried.len())?;
        list.bindings.push((name, list.carried.clone()));
        list.shape = Shape::Other;
        Ok(list)
    }

    /// `reduce(sum = start, x IN list | next)`.
    pub(super) fn reduce(&mut self) -> Parsed<Expr> {
        self.at += 2;
        let sum = self.name()?;
        self.expect('=')?;
        let mut whole = self.expr()?;
        self.expect(',')?;
        whole.absorb(self.before_bar(Self::bound_in_list)?);
        self.expect('|')?;
        whole.absorb(self.within_brackets(Self::expr)?);
        self.expect(')')?;
        self.copy(whole.carried.len())?;
        whole.bindings.push((sum, whole.carried.clone()));
        whole.shape = Shape::Other;
        Ok(whole)
    }

    /// `[a, b]`, `[x IN list WHERE condition | value]`, `[(a)--(b) WHERE condition | value]`.
    pub(super) fn list_or_comprehension(&mut self) -> Parsed<Expr> {
        self.expect('[')?;
        let is_list_comprehension = self.is_name_at(0) && self.is_word_at(1, "IN");
        let is_named_path = self.is_name_at(0) && self.is_at(1, '=') && self.is_at(2, '(');
        let mut whole = if is_list_comprehension {
            self.before_bar(Self::list_comprehension)?
        } else if is_named_path || (self.begins_path() && self.has_bar(self.at)) {
            self.before_bar(Self::pattern_comprehension)?
        } else {
            self.plain_list()?
        };
        self.expect(']')?;
        whole.shape = Shape::Other;
        Ok(whole)
    }

    fn plain_list(&mut self) -> Parsed<Expr> {
        let mut whole = Expr::default();
        if self.is(']') {
            return Ok(whole);
        }
        for item in self.list(Self::expr)? {
            whole.absorb(item);
        }
        Ok(whole)
    }

    fn list_comprehension(&mut self) -> Parsed<Expr> {
        let mut whole = self.bound_in_list()?;
        if self.skip_word("WHERE") {
            let condition = self.expr()?;
            whole.absorb_reads(condition);
        }
        if self.skip('|') {
            let value = self.within_brackets(Self::expr)?;
            whole.carried.clear();
            whole.absorb(value);
        }
        Ok(whole)
    }

    fn pattern_comprehension(&mut self) -> Parsed<Expr> {
        let name = if self.is_at(1, '=') { Some(self.name()?) } else { None };
        self.at += usize::from(name.is_some());
        let mut path = self.path_in_expression()?;
        path.name = name;
        let condition = if self.skip_word("WHERE") { Some(self.expr()?) } else { None };
        self.expect('|')?;
        let mut value = self.within_brackets(Self::expr)?;
        value.patterns.push(Match { paths: vec![path], condition });
        Ok(value)
    }
}
