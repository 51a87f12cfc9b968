//! Clauses that read, and subqueries.

use crate::lexer::TokenKind;
use crate::procedures::{effect, is_pure};

use super::tree::{
    Bound, CallForm, Clause, Expr, Item, Match, Name, NewClause, Procedure, Projection, Query, Scope,
    SortKey, Subquery,
};
use super::{Parsed, Parser, Unread};

/// First words of clauses that read.
const CLAUSES: [&str; 14] = [
    "MATCH", "OPTIONAL", "WITH", "UNWIND", "RETURN", "CALL", "LET", "FOR", "FILTER", "WHEN", "ORDER", "SKIP",
    "OFFSET", "LIMIT",
];

impl<'t> Parser<'t, '_> {
    /// Single queries with `UNION` and `NEXT` between them, up to a closing bracket or the end.
    pub(super) fn query(&mut self) -> Parsed<Query<'t>> {
        let first = self.union()?;
        if !self.is_word("NEXT") {
            return Ok(first);
        }
        let mut queries = vec![first];
        while self.skip_word("NEXT") {
            queries.push(self.union()?);
        }
        Ok(Query { branches: vec![vec![Clause::New(NewClause::Next(queries))]] })
    }

    fn union(&mut self) -> Parsed<Query<'t>> {
        let mut branches = vec![self.branch()?];
        while self.skip_word("UNION") {
            self.skip_any_word(&["ALL", "DISTINCT"]);
            branches.push(self.branch()?);
        }
        Ok(Query { branches })
    }

    fn branch(&mut self) -> Parsed<Vec<Clause<'t>>> {
        if self.is('{') {
            return Ok(vec![Clause::New(NewClause::Braces(self.braces()?))]);
        }
        if self.is_word("WHEN") { Ok(vec![Clause::New(self.when()?)]) } else { self.clauses() }
    }

    /// `{ query }`.
    fn braces(&mut self) -> Parsed<Query<'t>> {
        self.expect('{')?;
        let query = self.within_brackets(|parser| parser.nested(Self::query))?;
        self.expect('}')?;
        Ok(query)
    }

    /// `WHEN condition THEN query`, as often as it stands there, and `ELSE query`.
    fn when(&mut self) -> Parsed<NewClause<'t>> {
        let mut cases = Vec::new();
        while self.skip_word("WHEN") {
            let condition = self.expr()?;
            self.expect_word("THEN")?;
            cases.push((condition, self.case_body()?));
        }
        let otherwise = if self.skip_word("ELSE") { Some(self.case_body()?) } else { None };
        Ok(NewClause::When { cases, otherwise })
    }

    /// Behind `THEN` and `ELSE`: clauses, or a query in braces.
    fn case_body(&mut self) -> Parsed<Query<'t>> {
        if self.is('{') {
            return self.braces();
        }
        Ok(Query { branches: vec![self.nested(Self::clauses)?] })
    }

    /// At least one clause.
    pub(super) fn clauses(&mut self) -> Parsed<Vec<Clause<'t>>> {
        let mut clauses = vec![self.clause()?];
        while !self.ends_clauses() {
            clauses.push(self.clause()?);
        }
        Ok(clauses)
    }

    fn ends_clauses(&self) -> bool {
        // A text in which the last three stand elsewhere is not read to its end.
        let is_end = self.kind(0).is_none() || self.is('}') || self.is(')') || self.is(';');
        is_end || self.is_any_word(&["UNION", "NEXT", "WHEN", "ELSE"])
    }

    /// Whether a clause that reads is next, where a pattern may be next as well.
    pub(super) fn begins_clause(&self) -> bool {
        (self.is_any_word(&CLAUSES) && !self.is_at(1, '=')) || self.is('{')
    }

    fn clause(&mut self) -> Parsed<Clause<'t>> {
        match self.source(0).to_ascii_uppercase().as_str() {
            _ if self.kind(0) != Some(TokenKind::Word) => Err(Unread::Syntax),
            "MATCH" | "OPTIONAL" => self.match_or_call(),
            "CALL" => self.call_clause(),
            "UNWIND" => self.unwind(),
            "WITH" | "RETURN" => self.projecting_clause(),
            "FILTER" => {
                self.at += 1;
                self.skip_word("WHERE");
                Ok(Clause::New(NewClause::Filter(self.expr()?)))
            }
            "LET" => {
                self.at += 1;
                Ok(Clause::New(NewClause::Let(self.list(Self::definition)?)))
            }
            "FOR" => {
                self.at += 1;
                let name = self.name()?;
                self.expect_word("IN")?;
                Ok(Clause::New(NewClause::For { list: self.expr()?, name }))
            }
            "ORDER" | "SKIP" | "OFFSET" | "LIMIT" => {
                let mut page = Projection::default();
                self.order_and_bounds(&mut page)?;
                Ok(Clause::New(NewClause::Page(page)))
            }
            "LOAD" => self.load_csv(),
            "FINISH" => {
                self.at += 1;
                Ok(Clause::Finish)
            }
            _ => self.change_clause(),
        }
    }

    /// `WITH` and `RETURN`.
    fn projecting_clause(&mut self) -> Parsed<Clause<'t>> {
        let is_return = self.is_word("RETURN");
        self.at += 1;
        let (mut projection, keys) = self.projection()?;
        if !is_return {
            projection.condition = self.condition()?;
        }
        Ok(match keys {
            Some(keys) => Clause::New(NewClause::Grouped { projection, keys, is_return }),
            None if is_return => Clause::Return(projection),
            None => Clause::With(projection),
        })
    }

    /// `name = value`.
    fn definition(&mut self) -> Parsed<(Name<'t>, Expr<'t>)> {
        let name = self.name()?;
        self.expect('=')?;
        Ok((name, self.expr()?))
    }

    fn match_or_call(&mut self) -> Parsed<Clause<'t>> {
        let is_optional = self.skip_word("OPTIONAL");
        if is_optional && self.is_word("CALL") {
            return self.call_clause();
        }
        self.expect_word("MATCH")?;
        let has_mode = self.is_any_word(&["REPEATABLE", "DIFFERENT"]) && !self.is_at(1, '=');
        if has_mode {
            self.at += 1;
            self.skip_any_word(&["ELEMENT", "ELEMENTS", "BINDINGS", "RELATIONSHIP", "RELATIONSHIPS"]);
        }
        let mut matched = Match { is_optional, has_mode, ..self.matched()? };
        while self.is_word("USING") {
            self.hint()?;
            matched.has_hints = true;
        }
        // With hints, the condition stands behind them.
        if matched.condition.is_none() {
            matched.condition = self.condition()?;
        }
        Ok(Clause::Match(matched))
    }

    /// `USING INDEX n:A(key)`, `USING SCAN n:A`, `USING JOIN ON n`.
    fn hint(&mut self) -> Parsed<()> {
        self.expect_word("USING")?;
        if self.skip_word("JOIN") {
            self.expect_word("ON")?;
            return self.list(Self::name).map(|_| ());
        }
        let is_scan = self.skip_word("SCAN");
        while !is_scan
            && self.is_any_word(&["RANGE", "TEXT", "POINT", "INDEX", "SEEK"])
            && !self.is_at(1, ':')
        {
            self.at += 1;
        }
        self.name()?;
        self.expect(':')?;
        self.name()?;
        if self.skip('(') {
            self.list(Self::name)?;
            self.expect(')')?;
        }
        Ok(())
    }

    fn unwind(&mut self) -> Parsed<Clause<'t>> {
        self.expect_word("UNWIND")?;
        let list = self.expr()?;
        self.expect_word("AS")?;
        Ok(Clause::Unwind { list, name: self.name()? })
    }

    fn load_csv(&mut self) -> Parsed<Clause<'t>> {
        self.expect_word("LOAD")?;
        self.expect_word("CSV")?;
        if self.skip_word("WITH") {
            self.expect_word("HEADERS")?;
        }
        self.expect_word("FROM")?;
        let source = self.expr()?;
        self.expect_word("AS")?;
        let name = self.name()?;
        if self.skip_word("FIELDTERMINATOR") {
            self.expr()?;
        }
        Ok(Clause::LoadCsv { source, name })
    }

    /// The body of `WITH` and of `RETURN`, without a `WHERE`, and the keys of its `GROUP BY`, if it has one.
    fn projection(&mut self) -> Parsed<(Projection<'t>, Option<Vec<Expr<'t>>>)> {
        let is_distinct = self.skip_word("DISTINCT");
        let mut projection = Projection { is_distinct, is_all: self.skip('*'), ..Projection::default() };
        if !projection.is_all || self.skip(',') {
            projection.items = self.list(Self::item)?;
        }
        let keys = self.group_by()?;
        self.order_and_bounds(&mut projection)?;
        Ok((projection, keys))
    }

    /// `GROUP BY a, b`, `GROUP BY ()`, `GROUP BY ALL`.
    fn group_by(&mut self) -> Parsed<Option<Vec<Expr<'t>>>> {
        if !self.skip_word("GROUP") {
            return Ok(None);
        }
        self.expect_word("BY")?;
        let is_empty = self.are("()");
        if is_empty {
            self.at += 2;
        }
        if is_empty || self.skip_word("ALL") {
            return Ok(Some(Vec::new()));
        }
        self.list(Self::expr).map(Some)
    }

    fn order_and_bounds(&mut self, projection: &mut Projection<'t>) -> Parsed<()> {
        if self.skip_word("ORDER") {
            self.expect_word("BY")?;
            projection.order = self.list(Self::sort_key)?;
        }
        let bounds = [("SKIP", Bound::Skip), ("OFFSET", Bound::Offset), ("LIMIT", Bound::Limit)];
        while let Some((_, bound)) = bounds.iter().find(|(word, _)| self.is_word(word)) {
            self.at += 1;
            projection.bounds.push((*bound, self.expr()?));
        }
        Ok(())
    }

    fn item(&mut self) -> Parsed<Item<'t>> {
        let value = self.expr()?;
        let alias = if self.skip_word("AS") { Some(self.name()?) } else { None };
        Ok(Item { value, alias })
    }

    fn sort_key(&mut self) -> Parsed<SortKey<'t>> {
        let value = self.expr()?;
        let is_descending = self.skip_any_word(&["DESC", "DESCENDING"]);
        if !is_descending {
            self.skip_any_word(&["ASC", "ASCENDING"]);
        }
        Ok(SortKey { value, is_descending })
    }

    /// `CALL { … }` and `CALL (a, b) { … }`, and `CALL a.procedure(…) YIELD column`.
    fn call_clause(&mut self) -> Parsed<Clause<'t>> {
        self.expect_word("CALL")?;
        if self.is_name_at(0) {
            return self.procedure_call();
        }
        let scope = self.scope()?;
        self.expect('{')?;
        let query = self.nested(Self::query)?;
        self.expect('}')?;
        let in_transactions = self.skip_word("IN");
        if in_transactions {
            self.transactions()?;
        }
        Ok(Clause::Call(Subquery { scope, query, in_transactions }))
    }

    /// After `CALL`. The meaning is certain of procedures with known effects alone, and with brackets.
    fn procedure_call(&mut self) -> Parsed<Clause<'t>> {
        let mut parts = vec![self.name()?];
        while self.skip('.') {
            parts.push(self.name()?);
        }
        let name = parts.iter().map(Name::as_str).collect::<Vec<_>>().join(".");
        let is_plain = parts.iter().all(|part| !part.as_str().contains('.'));
        let has_brackets = self.skip('(');
        let call = if has_brackets { Some(self.nested(Self::arguments)?) } else { None };
        let is_called = call.as_ref().is_some_and(|call| call.form == CallForm::Plain);
        let is_known = is_plain && (is_pure(&name) || effect(&name).is_some());
        self.is_certain &= is_known && is_called;
        let arguments = call.map(|call| call.arguments).unwrap_or_default();
        let mut procedure = Procedure { name, arguments, columns: Vec::new(), condition: None };
        if self.skip_word("YIELD") && !self.skip('*') {
            procedure.columns = self.list(|parser| {
                let column = parser.name()?;
                let other = if parser.skip_word("AS") { Some(parser.name()?) } else { None };
                Ok((column, other))
            })?;
            procedure.condition = self.condition()?;
        }
        Ok(Clause::Procedure(procedure))
    }

    fn scope(&mut self) -> Parsed<Scope<'t>> {
        if !self.skip('(') {
            return Ok(Scope::Names(Vec::new()));
        }
        let scope = if self.skip('*') {
            Scope::All
        } else if self.is(')') {
            Scope::Names(Vec::new())
        } else {
            Scope::Names(self.list(Self::name)?)
        };
        self.expect(')')?;
        Ok(scope)
    }

    /// After `} IN`: `3 CONCURRENT TRANSACTIONS OF 10 ROWS ON ERROR CONTINUE REPORT STATUS AS status`.
    fn transactions(&mut self) -> Parsed<()> {
        if !self.is_any_word(&["CONCURRENT", "TRANSACTIONS", "TRANSACTION"]) {
            self.expr()?;
        }
        self.skip_word("CONCURRENT");
        if !self.skip_word("TRANSACTIONS") {
            self.expect_word("TRANSACTION")?;
        }
        if self.skip_word("OF") {
            self.expr()?;
            if !self.skip_word("ROWS") {
                self.expect_word("ROW")?;
            }
        }
        if self.skip_word("ON") {
            self.expect_word("ERROR")?;
            if !self.skip_any_word(&["CONTINUE", "BREAK", "FAIL"]) {
                return Err(Unread::Syntax);
            }
        }
        // The status is a map of strings and booleans. Its variable is unknown here, which is right for all others.
        if self.is_word("REPORT") { Err(Unread::Syntax) } else { Ok(()) }
    }
}
