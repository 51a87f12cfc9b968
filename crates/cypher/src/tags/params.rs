//! The parameters of a statement, as far as they name labels, types and keys.

use std::cell::Cell;
use std::collections::BTreeSet;

use hopcache_packstream::{Reader, Token, Value, decode};

use crate::syntax::tree::{Expr, Key, Operand, Tail};
use crate::tags::limits::MARKS_MAX;
use crate::tags::names::Names;

/// The most items of a list that are looked at for their keys. Each takes microseconds.
const ITEMS_MAX: usize = 1 << 16;

/// The parameters of a statement: one PackStream map.
#[derive(Clone, Copy)]
pub(crate) struct Params<'a, 'q> {
    packed: &'a [u8],
    /// The variables of the statement: some hold the items of a parameter.
    names: &'a Names<'q>,
    /// Whether somebody has asked for a parameter's value.
    are_asked: &'a Cell<bool>,
}

impl<'a, 'q> Params<'a, 'q> {
    /// `packed` is one PackStream map. `are_asked` becomes true when what follows depends on it.
    pub(crate) fn new(packed: &'a [u8], names: &'a Names<'q>, are_asked: &'a Cell<bool>) -> Self {
        Self { packed, names, are_asked }
    }

    /// The names that a dynamic label, type or key has in this run; `None` if they are not known.
    pub(crate) fn names_of(self, expr: &Expr<'_>) -> Option<Vec<String>> {
        match expr.alone()? {
            Operand::Parameter(parameter) => self.names(parameter.as_str()),
            Operand::List(items) => {
                let text = |item: &Expr<'_>| Some(item.alone()?.plain_text()?.to_owned());
                items.iter().map(text).collect()
            }
            operand => operand.plain_text().map(|name| vec![name.to_owned()]),
        }
    }

    /// The keys of a map in this run; `None` if they are not known. Of a map that differs by row, those of all rows.
    pub(crate) fn keys_of(self, map: &Expr<'_>) -> Option<Vec<String>> {
        if let Some(Operand::Map(map)) = map.alone() {
            return Some(map.entries.iter().map(|(key, _)| key.as_str().to_owned()).collect());
        }
        let [term] = map.terms.as_slice() else { return None };
        let key =
            |tail: &'_ Tail<'_>| if let Tail::Key(key) = tail { Some(key.as_str().to_owned()) } else { None };
        let path: Vec<String> = term.tail.iter().map(key).collect::<Option<_>>()?;
        let mut keys = BTreeSet::new();
        match &term.operand {
            _ if !term.signs.is_empty() => return None,
            Operand::Parameter(parameter) => {
                let mut reader = Reader::new(self.get(parameter.as_str())?);
                add_keys(&mut reader, &path, &mut keys)?;
            }
            Operand::Variable(row) => {
                let list = self.get(self.names.items_of(row.as_str())?)?;
                add_keys_of_items(list, &path, &mut keys)?;
            }
            _ => return None,
        }
        Some(keys.into_iter().collect())
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
        let names = match decode(self.get(parameter)?).ok()? {
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
        let mut keys = BTreeSet::new();
        add_keys(&mut Reader::new(self.get(parameter)?), &[], &mut keys)?;
        Some(keys.into_iter().collect())
    }

    /// The parameter's value. A parameter that is there twice has none: which of them counts is the server's choice.
    fn get(self, parameter: &str) -> Option<&'a [u8]> {
        self.are_asked.set(true);
        let mut reader = Reader::new(self.packed);
        let Ok(Token::Map(entries)) = reader.token() else { return None };
        let mut found = None;
        for _ in 0..entries {
            let is_it = reader.key().ok()? == parameter;
            let value = reader.skip().ok()?;
            if is_it && found.replace(value).is_some() {
                return None;
            }
        }
        found
    }
}

/// Adds the keys of each item of `list`. `UNWIND` makes one row of what is no list, and none of null.
fn add_keys_of_items(list: &[u8], path: &[String], keys: &mut BTreeSet<String>) -> Option<()> {
    let mut reader = Reader::new(list);
    match reader.token().ok()? {
        Token::List(items) if items <= ITEMS_MAX => {
            (0..items).try_for_each(|_| add_keys(&mut reader, path, keys))
        }
        Token::List(_) => None,
        _ => add_keys(&mut Reader::new(list), path, keys),
    }
}

/// Adds the keys of the map at `path` in the next value. Null is a map without keys; what is neither is not known.
fn add_keys(reader: &mut Reader<'_>, path: &[String], keys: &mut BTreeSet<String>) -> Option<()> {
    let entries = match reader.token().ok()? {
        Token::Map(entries) => entries,
        Token::Null => return Some(()),
        _ => return None,
    };
    for _ in 0..entries {
        let key = reader.key().ok()?;
        match path.split_first() {
            Some((first, rest)) if first == key => add_keys(reader, rest, keys)?,
            Some(_) => drop(reader.skip().ok()?),
            None => {
                reader.skip().ok()?;
                if !keys.contains(key) {
                    keys.insert(key.to_owned());
                }
            }
        }
        if keys.len() > MARKS_MAX {
            return None;
        }
    }
    Some(())
}
