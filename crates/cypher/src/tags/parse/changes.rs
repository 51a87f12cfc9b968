//! Clauses that write: `CREATE`, `MERGE`, `SET`, `REMOVE`, `DELETE`, `FOREACH`.

use crate::lexer::cursor::TokenCursor;

use super::{Parsed, Parser, Unread};
use crate::tags::tree::{Change, Clause, Key, Shape, Target};

impl Parser<'_> {
    pub(super) fn change_clause(&mut self) -> Parsed<Clause> {
        let word = self.source(0).to_ascii_uppercase();
        self.at += 1;
        match word.as_str() {
            "CREATE" | "INSERT" => self.list(Self::path).map(Clause::Create),
            "MERGE" => self.merge(),
            "SET" => Ok(Clause::Change { changes: self.list(Self::set_item)?, is_added: true }),
            "REMOVE" => Ok(Clause::Change { changes: self.list(Self::remove_item)?, is_added: false }),
            "DELETE" => self.delete(false),
            "DETACH" | "NODETACH" => {
                self.expect_word("DELETE")?;
                self.delete(word == "DETACH")
            }
            "FOREACH" => self.nested(Self::foreach),
            _ => Err(Unread::Syntax),
        }
    }

    fn delete(&mut self, is_detach: bool) -> Parsed<Clause> {
        let targets = self.list(Self::expr)?;
        Ok(Clause::Delete { targets, is_detach })
    }

    fn merge(&mut self) -> Parsed<Clause> {
        let path = self.path()?;
        let (mut on_create, mut on_match) = (Vec::new(), Vec::new());
        while self.skip_word("ON") {
            let is_create = self.skip_word("CREATE");
            if !is_create {
                self.expect_word("MATCH")?;
            }
            self.expect_word("SET")?;
            let changes = self.list(Self::set_item)?;
            if is_create { on_create.extend(changes) } else { on_match.extend(changes) }
        }
        Ok(Clause::Merge { path, on_create, on_match })
    }

    fn foreach(&mut self) -> Parsed<Clause> {
        self.expect('(')?;
        let name = self.name()?;
        self.expect_word("IN")?;
        let list = self.before_bar(Self::expr)?;
        self.expect('|')?;
        let body = self.clauses()?;
        self.expect(')')?;
        Ok(Clause::Foreach { name, list, body })
    }

    /// `n.key = value`, `n[key] = value`, `n = map`, `n += map`, `n:Label`.
    fn set_item(&mut self) -> Parsed<Change> {
        let (target, key) = self.target()?;
        if let Some(key) = key {
            self.expect('=')?;
            self.expr()?;
            return Ok(Change::Key { target, key });
        }
        let is_added = self.skip('+');
        if is_added || self.is('=') {
            self.expect('=')?;
            let value = self.expr()?;
            return Ok(Change::Keys { target, value, is_replaced: !is_added });
        }
        self.label_change(target)
    }

    /// `n.key`, `n[key]`, `n:Label`.
    fn remove_item(&mut self) -> Parsed<Change> {
        match self.target()? {
            (target, Some(key)) => Ok(Change::Key { target, key }),
            (target, None) => self.label_change(target),
        }
    }

    fn label_change(&mut self, target: Target) -> Parsed<Change> {
        if !self.skip(':') {
            self.expect_word("IS")?;
        }
        Ok(Change::Labels { target, labels: self.labels()? })
    }

    /// What is changed, and the last key behind it, if there is one.
    fn target(&mut self) -> Parsed<(Target, Option<Key>)> {
        let mut target = if self.is('(') { self.computed_target()? } else { Target::named(&self.name()?) };
        let mut key = None;
        loop {
            let next = if self.skip('.') {
                Key::Name(self.name()?)
            } else if self.skip('[') {
                let index = self.expr()?;
                self.expect(']')?;
                Key::Dynamic(index)
            } else {
                return Ok((target, key));
            };
            if key.is_some() {
                target.name = None;
                target.elements = super::exprs::inside(target.elements);
            }
            key = Some(next);
        }
    }

    /// `(CASE … END)`.
    fn computed_target(&mut self) -> Parsed<Target> {
        self.expect('(')?;
        let mut value = self.expr()?;
        self.expect(')')?;
        if let Shape::Variable(name) = &value.shape {
            return Ok(Target::named(name));
        }
        let elements = std::mem::take(&mut value.carried);
        Ok(Target { name: None, elements, computed: Some(value) })
    }
}
