//! Clauses that write: `CREATE`, `MERGE`, `SET`, `REMOVE`, `DELETE`, `FOREACH`.

use super::tree::{Change, Clause, Key, Operand, Target};
use super::{Parsed, Parser, Unread};

impl<'t> Parser<'t, '_> {
    pub(super) fn change_clause(&mut self) -> Parsed<Clause<'t>> {
        let word = self.source(0).to_ascii_uppercase();
        self.at += 1;
        match word.as_str() {
            "CREATE" | "INSERT" => self.list(Self::path).map(Clause::Create),
            "MERGE" => self.merge(),
            "SET" => self.list(Self::set_item).map(Clause::Set),
            "REMOVE" => self.list(Self::remove_item).map(Clause::Remove),
            "DELETE" => self.delete(false),
            "DETACH" | "NODETACH" => {
                self.expect_word("DELETE")?;
                self.delete(word == "DETACH")
            }
            "FOREACH" => self.nested(Self::foreach),
            _ => Err(Unread::Syntax),
        }
    }

    fn delete(&mut self, is_detach: bool) -> Parsed<Clause<'t>> {
        let targets = self.list(Self::expr)?;
        Ok(Clause::Delete { targets, is_detach })
    }

    fn merge(&mut self) -> Parsed<Clause<'t>> {
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

    fn foreach(&mut self) -> Parsed<Clause<'t>> {
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
    fn set_item(&mut self) -> Parsed<Change<'t>> {
        let (target, key) = self.target()?;
        if let Some(key) = key {
            self.expect('=')?;
            return Ok(Change::Key { target, key, value: Some(self.expr()?) });
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
    fn remove_item(&mut self) -> Parsed<Change<'t>> {
        match self.target()? {
            (target, Some(key)) => Ok(Change::Key { target, key, value: None }),
            (target, None) => self.label_change(target),
        }
    }

    fn label_change(&mut self, target: Target<'t>) -> Parsed<Change<'t>> {
        let labels = self.labels()?.ok_or(Unread::Syntax)?;
        Ok(Change::Labels { target, labels })
    }

    /// What is changed, and the last key behind it, if there is one.
    fn target(&mut self) -> Parsed<(Target<'t>, Option<Key<'t>>)> {
        let base = if self.skip('(') {
            let inside = self.expr()?;
            self.expect(')')?;
            Operand::Parenthesised(Box::new(inside))
        } else {
            Operand::Variable(self.name()?)
        };
        let mut target = Target { base, keys_between: 0 };
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
            target.keys_between += usize::from(key.replace(next).is_some());
        }
    }
}
