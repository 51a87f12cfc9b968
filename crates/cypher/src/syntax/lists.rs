//! Lists: literals, comprehensions, and what else binds a variable to the elements of a list.

use super::tree::{Each, Expr, Match, Operand, Reduce};
use super::{Parsed, Parser};

impl<'t> Parser<'t, '_> {
    /// After `all(`, `any(` and so on: `x IN list WHERE condition)`.
    pub(super) fn list_predicate(&mut self) -> Parsed<Operand<'t>> {
        self.at += 2;
        let mut each = self.bound_in_list()?;
        each.condition = self.condition()?;
        self.expect(')')?;
        Ok(Operand::ListPredicate(Box::new(each)))
    }

    /// `x IN list`.
    fn bound_in_list(&mut self) -> Parsed<Each<'t>> {
        let name = self.name()?;
        self.expect_word("IN")?;
        Ok(Each { name, list: self.expr()?, condition: None, value: None })
    }

    /// `reduce(sum = start, x IN list | next)`.
    pub(super) fn reduce(&mut self) -> Parsed<Operand<'t>> {
        self.at += 2;
        let sum = self.name()?;
        self.expect('=')?;
        let start = self.expr()?;
        self.expect(',')?;
        let mut each = self.before_bar(Self::bound_in_list)?;
        self.expect('|')?;
        each.value = Some(self.within_brackets(Self::expr)?);
        self.expect(')')?;
        Ok(Operand::Reduce(Box::new(Reduce { sum, start, each })))
    }

    /// `[a, b]`, `[x IN list WHERE condition | value]`, `[(a)--(b) WHERE condition | value]`.
    pub(super) fn list_or_comprehension(&mut self) -> Parsed<Operand<'t>> {
        self.expect('[')?;
        let is_list_comprehension = self.is_name_at(0) && self.is_word_at(1, "IN");
        let is_named_path = self.is_name_at(0) && self.is_at(1, '=') && self.is_at(2, '(');
        let operand = if is_list_comprehension {
            self.before_bar(Self::list_comprehension)?
        } else if is_named_path || (self.begins_path() && self.has_bar(self.at)) {
            self.before_bar(Self::pattern_comprehension)?
        } else if self.is(']') {
            Operand::List(Vec::new())
        } else {
            Operand::List(self.list(Self::expr)?)
        };
        self.expect(']')?;
        Ok(operand)
    }

    fn list_comprehension(&mut self) -> Parsed<Operand<'t>> {
        let mut each = self.bound_in_list()?;
        each.condition = self.condition()?;
        each.value = if self.skip('|') { Some(self.value_behind_bar()?) } else { None };
        Ok(Operand::ListComprehension(Box::new(each)))
    }

    fn pattern_comprehension(&mut self) -> Parsed<Operand<'t>> {
        let name = if self.is_at(1, '=') { Some(self.name()?) } else { None };
        self.at += usize::from(name.is_some());
        let mut path = self.path_in_expression()?;
        path.name = name;
        let condition = self.condition()?;
        self.expect('|')?;
        let matched = Match { paths: vec![path], condition, ..Match::default() };
        Ok(Operand::PatternComprehension(Box::new((matched, self.value_behind_bar()?))))
    }

    fn value_behind_bar(&mut self) -> Parsed<Expr<'t>> {
        self.within_brackets(Self::expr)
    }
}
