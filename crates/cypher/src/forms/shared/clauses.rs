//! Clauses: which are read, and which variables and columns they leave.

use super::scope::{Variable, is_plain};
use super::{Parsed, Parser, Unread, put};
use crate::lexer::cursor::TokenCursor;

/// The items of a WITH or RETURN.
struct Items {
    /// The names of the columns, in order.
    names: Vec<Box<str>>,
    /// The columns that later text may name.
    columns: Vec<(String, Variable)>,
    /// Whether an alias hides a variable that is visible before.
    hides: bool,
}

impl Parser<'_> {
    /// The whole text: its form, and the names of its columns.
    pub(super) fn query(&mut self) -> Parsed<(String, Vec<Box<str>>)> {
        let mut form = String::with_capacity(self.text.len() * 2);
        loop {
            if self.skip_word("RETURN") {
                put(&mut form, "RETURN");
                let columns = self.returned(&mut form)?;
                return if self.at == self.tokens.len() { Ok((form, columns)) } else { Err(Unread) };
            }
            self.clause(&mut form)?;
        }
    }

    fn clause(&mut self, form: &mut String) -> Parsed<()> {
        if self.skip_word("UNWIND") {
            put(form, "UNWIND");
            put(form, &self.expr()?.text);
            self.expect_word("AS")?;
            let name = self.new_name()?;
            put(form, "AS");
            put(form, &self.scope.declare(&name, false).text());
            return Ok(());
        }
        if self.skip_word("WITH") {
            put(form, "WITH");
            return self.with(form);
        }
        if self.skip_word("OPTIONAL") {
            put(form, "OPTIONAL");
        }
        self.expect_word("MATCH")?;
        put(form, "MATCH");
        self.patterns(form)?;
        self.condition(form)
    }

    /// A name that no visible variable has.
    fn new_name(&mut self) -> Parsed<String> {
        let name = self.name()?;
        if is_plain(&name) && self.scope.find(&name).is_none() { Ok(name) } else { Err(Unread) }
    }

    /// `WHERE condition`, if one follows.
    fn condition(&mut self, form: &mut String) -> Parsed<()> {
        if self.skip_word("WHERE") {
            put(form, "WHERE");
            put(form, &self.expr()?.sorted());
        }
        Ok(())
    }

    fn with(&mut self, form: &mut String) -> Parsed<()> {
        let items = self.items(form, true)?;
        if items.hides || items.columns.len() < items.names.len() {
            return Err(Unread);
        }
        // Conditions and orders may name the columns, and the variables before them.
        self.scope.add(&items.columns);
        self.order_and_bounds(form)?;
        self.condition(form)?;
        self.scope.keep_only(items.columns);
        Ok(())
    }

    fn returned(&mut self, form: &mut String) -> Parsed<Vec<Box<str>>> {
        let items = self.items(form, false)?;
        if items.hides && self.is_word("ORDER") {
            return Err(Unread);
        }
        self.scope.add(&items.columns);
        self.order_and_bounds(form)?;
        Ok(items.names)
    }

    fn items(&mut self, form: &mut String, are_aliased: bool) -> Parsed<Items> {
        if self.skip_word("DISTINCT") {
            put(form, "DISTINCT");
        }
        let mut items = Items { names: Vec::new(), columns: Vec::new(), hides: false };
        loop {
            self.item(form, &mut items, are_aliased)?;
            if !self.skip(',') {
                return Ok(items);
            }
            put(form, ",");
        }
    }

    /// `expression`, `expression AS name`. In a form each item has an alias.
    fn item(&mut self, form: &mut String, items: &mut Items, is_aliased: bool) -> Parsed<()> {
        let first = self.at;
        let expr = self.expr()?;
        let last = self.at - 1;
        let alias = if self.skip_word("AS") { Some(self.name()?) } else { None };
        let name = match (&alias, &expr.variable) {
            (Some(alias), _) => alias.clone(),
            // Backticks of a plain variable are not part of its column's name.
            (None, Some((name, _))) => name.clone(),
            (None, None) if is_aliased => return Err(Unread),
            (None, None) => self.text[self.tokens[first].start..self.tokens[last].end].to_owned(),
        };
        if items.names.iter().any(|other| **other == *name) {
            return Err(Unread);
        }
        let is_itself = expr.variable.as_ref().is_some_and(|(own, _)| *own == name);
        items.hides |= !is_itself && self.scope.find(&name).is_some();
        let is_element = expr.variable.as_ref().is_some_and(|(_, variable)| variable.is_element);
        let column = self.scope.number(is_element);
        put(form, &expr.text);
        put(form, "AS");
        put(form, &column.text());
        let has_name = alias.is_some() || expr.variable.is_some();
        if has_name && is_plain(&name) {
            items.columns.push((name.clone(), column));
        }
        items.names.push(name.into());
        Ok(())
    }

    /// `ORDER BY …`, `SKIP …`, `LIMIT …`, each if it follows.
    fn order_and_bounds(&mut self, form: &mut String) -> Parsed<()> {
        if self.skip_word("ORDER") {
            self.expect_word("BY")?;
            put(form, "ORDER BY");
            loop {
                put(form, &self.expr()?.text);
                if self.skip_word("DESC") || self.skip_word("DESCENDING") {
                    put(form, "DESC");
                } else if !self.skip_word("ASC") {
                    self.skip_word("ASCENDING");
                }
                if !self.skip(',') {
                    break;
                }
                put(form, ",");
            }
        }
        for word in ["SKIP", "LIMIT"] {
            if self.skip_word(word) {
                put(form, word);
                put(form, &self.expr()?.text);
            }
        }
        Ok(())
    }
}
