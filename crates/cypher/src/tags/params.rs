//! The parameters of a statement, as far as they name labels, types and keys.

use std::cell::Cell;

use hopcache_packstream::{Reader, Token, Value, decode};

use crate::syntax::tree::{Expr, Key, Operand};
use crate::tags::limits::MARKS_MAX;

/// The parameters of a statement: one PackStream map.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Params<'a> {
    map: &'a [u8],
    /// Whether somebody has asked for a parameter's value.
    are_asked: &'a Cell<bool>,
}

impl<'a> Params<'a> {
    /// `map` is one PackStream map. `are_asked` becomes true when what follows depends on it.
    pub(crate) const fn noting(map: &'a [u8], are_asked: &'a Cell<bool>) -> Self {
        Self { map, are_asked }
    }
}

impl Params<'_> {
    /// The names that a dynamic label, type or key has in this run; `None` if they are not known.
    pub(crate) fn names_of(self, expr: &Expr<'_>) -> Option<Vec<String>> {
        match expr.alone()? {
            Operand::Parameter(parameter) => self.names(parameter.as_str()),
            operand => operand.plain_text().map(|name| vec![name.to_owned()]),
        }
    }

    /// The keys of a map in this run; `None` if they are not known.
    pub(crate) fn keys_of(self, map: &Expr<'_>) -> Option<Vec<String>> {
        match map.alone()? {
            Operand::Map(map) => Some(map.entries.iter().map(|(key, _)| key.as_str().to_owned()).collect()),
            Operand::Parameter(parameter) => self.keys(parameter.as_str()),
            _ => None,
        }
    }

    /// The names that a key has in this run; `None` if they are not known.
    pub(crate) fn key_names(self, key: &Key<'_>) -> Option<Vec<String>> {
        match key {
            Key::Name(name) => Some(vec![name.as_str().to_owned()]),
            Key::Dynamic(expr) => self.names_of(expr),
        }
    }

    /// The names in a parameter that is a string or a list of strings; `None` if it is anything else.
    fn names(self, parameter: &str) -> Option<Vec<String>> {
        let names = match self.get(parameter)? {
            Value::String(name) => vec![name],
            Value::List(items) if items.len() <= MARKS_MAX => {
                let text = |item| if let Value::String(name) = item { Some(name) } else { None };
                items.into_iter().map(text).collect::<Option<_>>()?
            }
            _ => return None,
        };
        Some(names)
    }

    /// The keys of a parameter that is a map; `None` if it is anything else.
    pub(crate) fn keys(self, parameter: &str) -> Option<Vec<String>> {
        match self.get(parameter)? {
            Value::Map(entries) if entries.len() <= MARKS_MAX => {
                Some(entries.into_iter().map(|(key, _)| key).collect())
            }
            _ => None,
        }
    }

    /// The parameter's value. A parameter that is there twice has none: which of them counts is the server's choice.
    fn get(self, parameter: &str) -> Option<Value> {
        self.are_asked.set(true);
        let mut reader = Reader::new(self.map);
        let Ok(Token::Map(entries)) = reader.token() else { return None };
        let mut found = None;
        for _ in 0..entries {
            let is_it = reader.key().ok()? == parameter;
            let value = reader.skip().ok()?;
            if is_it && found.replace(value).is_some() {
                return None;
            }
        }
        decode(found?).ok()
    }
}
