//! Clauses: which are printed, and which variables and columns they leave.

use super::Printer;
use super::scope::{Variable, is_plain};
use crate::syntax::tree::{Bound, Clause, Expr, Item, Match, Name, Projection, Query};

/// The items of a WITH or RETURN.
struct Items {
    /// The names of the columns, in order.
    names: Vec<Box<str>>,
    /// The columns that later text may name.
    columns: Vec<(String, Variable)>,
    /// Whether an alias hides a variable that is visible before.
    hides: bool,
}

impl<'q> Printer<'q> {
    /// The whole text: the names of its columns.
    pub(super) fn query(&mut self, query: &'q Query<'q>) -> Option<Vec<Box<str>>> {
        let [clauses] = query.branches.as_slice() else { return None };
        let (last, rest) = clauses.split_last()?;
        rest.iter().try_for_each(|clause| self.clause(clause))?;
        let Clause::Return(projection) = last else { return None };
        self.put("RETURN");
        self.returned(projection)
    }

    fn clause(&mut self, clause: &'q Clause<'q>) -> Option<()> {
        match clause {
            Clause::Match(matched) => self.match_clause(matched),
            Clause::Unwind { list, name } => {
                self.put("UNWIND");
                self.expr(list)?;
                self.put("AS");
                let variable = self.declared(name)?;
                self.put(&variable.text());
                Some(())
            }
            Clause::With(projection) => {
                self.put("WITH");
                self.with(projection)
            }
            _ => None,
        }
    }

    fn match_clause(&mut self, matched: &'q Match<'q>) -> Option<()> {
        if matched.has_mode || matched.has_hints {
            return None;
        }
        if matched.is_optional {
            self.put("OPTIONAL");
        }
        self.put("MATCH");
        self.paths(&matched.paths)?;
        self.condition(matched.condition.as_ref())
    }

    /// A variable with a name that no visible one has.
    fn declared(&mut self, name: &Name<'_>) -> Option<Variable> {
        let name = name.as_str();
        let is_new = is_plain(name) && self.scope.find(name).is_none();
        is_new.then(|| self.scope.declare(name, false))
    }

    fn condition(&mut self, condition: Option<&'q Expr<'q>>) -> Option<()> {
        condition.map_or(Some(()), |condition| {
            self.put("WHERE");
            self.sorted_expr(condition)
        })
    }

    fn with(&mut self, projection: &'q Projection<'q>) -> Option<()> {
        let items = self.items(projection, true)?;
        if items.hides || items.columns.len() < items.names.len() {
            return None;
        }
        // Conditions and orders may name the columns, and the variables before them.
        self.scope.add(&items.columns);
        self.order_and_bounds(projection)?;
        self.condition(projection.condition.as_ref())?;
        self.scope.keep_only(items.columns);
        Some(())
    }

    fn returned(&mut self, projection: &'q Projection<'q>) -> Option<Vec<Box<str>>> {
        let items = self.items(projection, false)?;
        if items.hides && !projection.order.is_empty() {
            return None;
        }
        self.scope.add(&items.columns);
        self.order_and_bounds(projection)?;
        Some(items.names)
    }

    fn items(&mut self, projection: &'q Projection<'q>, are_aliased: bool) -> Option<Items> {
        if projection.is_all {
            return None;
        }
        if projection.is_distinct {
            self.put("DISTINCT");
        }
        let mut items = Items { names: Vec::new(), columns: Vec::new(), hides: false };
        for (at, item) in projection.items.iter().enumerate() {
            if at > 0 {
                self.put(",");
            }
            self.item(item, &mut items, are_aliased)?;
        }
        Some(items)
    }

    /// `expression`, `expression AS name`. In a form each item has an alias.
    fn item(&mut self, item: &'q Item<'q>, items: &mut Items, is_aliased: bool) -> Option<()> {
        self.expr(&item.value)?;
        let own = item.value.variable().map(Name::as_str);
        let name = match item.name() {
            // Backticks of a plain variable are not part of its column's name.
            Some(name) => name.as_str().to_owned(),
            None if is_aliased => return None,
            None => {
                let span = item.value.tokens;
                self.text[self.tokens[span.from].start..self.tokens[span.to - 1].end].to_owned()
            }
        };
        if items.names.iter().any(|other| **other == *name) {
            return None;
        }
        items.hides |= own != Some(&name) && self.scope.find(&name).is_some();
        let is_element = own.and_then(|own| self.scope.find(own)).is_some_and(|own| own.is_element);
        let column = self.scope.number(is_element);
        self.put("AS");
        self.put(&column.text());
        if item.name().is_some() && is_plain(&name) {
            items.columns.push((name.clone(), column));
        }
        items.names.push(name.into());
        Some(())
    }

    /// `ORDER BY …`, one `SKIP …`, one `LIMIT …`.
    fn order_and_bounds(&mut self, projection: &'q Projection<'q>) -> Option<()> {
        for (at, key) in projection.order.iter().enumerate() {
            self.put(if at == 0 { "ORDER BY" } else { "," });
            self.expr(&key.value)?;
            if key.is_descending {
                self.put("DESC");
            }
        }
        let kinds: Vec<Bound> = projection.bounds.iter().map(|(bound, _)| *bound).collect();
        if !matches!(kinds.as_slice(), [] | [Bound::Skip | Bound::Limit] | [Bound::Skip, Bound::Limit]) {
            return None;
        }
        for (bound, count) in &projection.bounds {
            self.put(if *bound == Bound::Skip { "SKIP" } else { "LIMIT" });
            self.expr(count)?;
        }
        Some(())
    }
}
