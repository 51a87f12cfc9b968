//! Clauses that read, and subqueries.

use crate::lexer::TokenKind;
use crate::lexer::cursor::TokenCursor;

use super::{Parsed, Parser, Unread};
use crate::tags::tree::{Call, Clause, Expr, Item, Projection, Query, Scope, Shape};

impl Parser<'_> {
    /// Single queries with `UNION` between them, up to a closing bracket or the end.
    pub(super) fn query(&mut self) -> Parsed<Query> {
        let mut branches = vec![self.clauses()?];
        while self.skip_word("UNION") {
            if !self.skip_word("ALL") {
                self.skip_word("DISTINCT");
            }
            branches.push(self.clauses()?);
        }
        Ok(Query { branches })
    }

    /// At least one clause.
    pub(super) fn clauses(&mut self) -> Parsed<Vec<Clause>> {
        let mut clauses = vec![self.clause()?];
        while !self.ends_clauses() {
            clauses.push(self.clause()?);
        }
        Ok(clauses)
    }

    fn ends_clauses(&self) -> bool {
        self.kind(0).is_none() || self.is('}') || self.is(')') || self.is(';') || self.is_word("UNION")
    }

    /// Whether a clause that reads is next, where a pattern may be next as well.
    pub(super) fn begins_clause(&self) -> bool {
        self.is_any_word(&["MATCH", "OPTIONAL", "WITH", "UNWIND", "RETURN", "CALL"]) && !self.is_at(1, '=')
    }

    fn clause(&mut self) -> Parsed<Clause> {
        match self.source(0).to_ascii_uppercase().as_str() {
            _ if self.kind(0) != Some(TokenKind::Word) => Err(Unread::Syntax),
            "MATCH" | "OPTIONAL" => self.match_or_call(),
            "CALL" => self.call_clause(),
            "UNWIND" => self.unwind(),
            "WITH" => {
                self.at += 1;
                self.projection(true).map(Clause::With)
            }
            "RETURN" => {
                self.at += 1;
                self.projection(false).map(Clause::Return)
            }
            "LOAD" => self.load_csv(),
            "FINISH" => {
                self.at += 1;
                Ok(Clause::Finish)
            }
            _ => self.change_clause(),
        }
    }

    fn match_or_call(&mut self) -> Parsed<Clause> {
        let is_optional = self.skip_word("OPTIONAL");
        if is_optional && self.is_word("CALL") {
            return self.call_clause();
        }
        self.expect_word("MATCH")?;
        if self.is_any_word(&["REPEATABLE", "DIFFERENT"]) && !self.is_at(1, '=') {
            self.at += 1;
            let kinds = ["ELEMENT", "ELEMENTS", "BINDINGS", "RELATIONSHIP", "RELATIONSHIPS"];
            self.at += usize::from(self.is_any_word(&kinds));
        }
        let mut matched = self.matched()?;
        while self.is_word("USING") {
            self.hint()?;
        }
        // With hints, the condition stands behind them.
        if matched.condition.is_none() && self.skip_word("WHERE") {
            matched.condition = Some(self.expr()?);
        }
        Ok(Clause::Match(matched))
    }

    /// `USING INDEX n:A(key)`, `USING SCAN n:A`, `USING JOIN ON n`. A hint does not change a result.
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

    fn unwind(&mut self) -> Parsed<Clause> {
        self.expect_word("UNWIND")?;
        let list = self.expr()?;
        self.expect_word("AS")?;
        Ok(Clause::Unwind { list, name: self.name()? })
    }

    fn load_csv(&mut self) -> Parsed<Clause> {
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

    /// The body of `WITH`, which may have a condition, and of `RETURN`.
    fn projection(&mut self, has_condition: bool) -> Parsed<Projection> {
        self.skip_word("DISTINCT");
        let mut projection = Projection { is_all: self.skip('*'), ..Projection::default() };
        if !projection.is_all || self.skip(',') {
            projection.items = self.list(Self::item)?;
        }
        if self.skip_word("ORDER") {
            self.expect_word("BY")?;
            projection.rest = self.list(Self::sort_key)?;
        }
        while self.is_any_word(&["SKIP", "OFFSET", "LIMIT"]) {
            self.at += 1;
            projection.rest.push(self.expr()?);
        }
        if has_condition && self.skip_word("WHERE") {
            projection.rest.push(self.expr()?);
        }
        Ok(projection)
    }

    fn item(&mut self) -> Parsed<Item> {
        let value = self.expr()?;
        let alias = if self.skip_word("AS") {
            Some(self.name()?)
        } else if let Shape::Variable(name) = &value.shape {
            Some(name.clone())
        } else {
            None
        };
        Ok(Item { value, alias })
    }

    fn sort_key(&mut self) -> Parsed<Expr> {
        let key = self.expr()?;
        let ways = ["ASC", "ASCENDING", "DESC", "DESCENDING"];
        self.at += usize::from(self.is_any_word(&ways));
        Ok(key)
    }

    /// `CALL { … }` and `CALL (a, b) { … }`, and `CALL a.procedure(…) YIELD column`.
    fn call_clause(&mut self) -> Parsed<Clause> {
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
        Ok(Clause::Call(Call { scope, query, in_transactions }))
    }

    /// After `CALL`: a procedure may do anything.
    fn procedure_call(&mut self) -> Parsed<Clause> {
        self.is_vague = true;
        self.name()?;
        while self.skip('.') {
            self.name()?;
        }
        if self.skip('(') {
            self.nested(Self::arguments)?;
        }
        if self.skip_word("YIELD") && !self.skip('*') {
            self.list(|parser| {
                parser.name()?;
                if parser.skip_word("AS") { parser.name().map(|_| ()) } else { Ok(()) }
            })?;
            if self.skip_word("WHERE") {
                self.expr()?;
            }
        }
        Ok(Clause::Finish)
    }

    fn scope(&mut self) -> Parsed<Scope> {
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
            if !self.is_any_word(&["CONTINUE", "BREAK", "FAIL"]) {
                return Err(Unread::Syntax);
            }
            self.at += 1;
        }
        // The status is a map of strings and booleans. Its variable is unknown here, which is right for all others.
        if self.is_word("REPORT") { Err(Unread::Syntax) } else { Ok(()) }
    }
}
