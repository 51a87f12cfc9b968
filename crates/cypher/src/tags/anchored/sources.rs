//! Where a value comes from: a literal, a parameter, an item of a list, an entry of a map. A source is a fact of a text; with the
//! parameters of a run it says which values there can be.

use std::collections::BTreeSet;
use std::sync::Arc;

use hopcache_core::limits::ARGUMENTS_BYTES_MAX;
use hopcache_core::tags::ClassId;
use hopcache_packstream::{Value, decode};

use crate::syntax::tree::{Expr, Operand, Sign, Tail, Term};
use crate::tags::anchored::classes::{class_of, of_place};
use crate::tags::anchored::env::KeyRef;
use crate::tags::limits::CLASSES_MAX;

/// The longest way from a parameter to a value: `$rows`, an item, `.a`, `.b` has four steps. It bounds recursion.
const DEPTH_MAX: usize = 8;

/// The most values that one source is asked for. Beyond it they are not known.
const VALUES_MAX: usize = 1 << 14;

static NULL: Value = Value::Null;

/// Where the values of an expression come from, over all rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Source {
    /// Nobody knows.
    #[default]
    Unknown,
    /// A literal.
    Literal(Value),
    /// A parameter.
    Parameter(String),
    /// An item of a list.
    Item(Arc<Source>),
    /// An entry of a map.
    Entry(Arc<Source>, String),
    /// One of these, none of which is another `OneOf`, a list or a map.
    OneOf(Arc<[Source]>),
    /// A list that the text spells out, with its depth. It is no scalar; its items are.
    List(Arc<[Source]>, usize),
    /// A map that the text spells out, with its depth.
    Map(Arc<[(String, Source)]>, usize),
}

/// The classes that values can have.
pub type Classes = BTreeSet<ClassId>;

impl Source {
    /// The source of `expr`. `variable` says what a variable holds.
    pub(crate) fn of(expr: &Expr<'_>, variable: &dyn Fn(&str) -> Self) -> Self {
        match expr.terms.as_slice() {
            [term] => Self::of_term(term, variable),
            _ => Self::Unknown,
        }
    }

    /// The same of a term, whatever operator stands before it.
    pub(crate) fn of_term(term: &Term<'_>, variable: &dyn Fn(&str) -> Self) -> Self {
        let source = match (term.signs.as_slice(), &term.operand) {
            ([], Operand::Number(digits)) => number(digits, ""),
            ([Sign::Minus], Operand::Number(digits)) if term.tail.is_empty() => number(digits, "-"),
            ([], operand) => Self::of_operand(operand, variable),
            _ => Self::Unknown,
        };
        term.tail.iter().fold(source, |source, tail| match tail {
            Tail::Key(key) => source.entry(key.as_str()),
            Tail::Index(index) => match index.alone().and_then(Operand::plain_text) {
                Some(key) => source.entry(key),
                None => Self::Unknown,
            },
            _ => Self::Unknown,
        })
    }

    fn of_operand(operand: &Operand<'_>, variable: &dyn Fn(&str) -> Self) -> Self {
        match operand {
            Operand::Text(_) => {
                operand.plain_text().map_or(Self::Unknown, |text| Self::Literal(Value::from(text)))
            }
            Operand::Constant("TRUE") => Self::Literal(Value::Bool(true)),
            Operand::Constant("FALSE") => Self::Literal(Value::Bool(false)),
            Operand::Constant("NULL") => Self::Literal(Value::Null),
            Operand::Parameter(name) => Self::Parameter(name.as_str().to_owned()),
            Operand::Variable(name) => variable(name.as_str()),
            Operand::Parenthesised(inside) => Self::of(inside, variable),
            Operand::List(items) if items.len() <= CLASSES_MAX => {
                let items: Arc<[Self]> = items.iter().map(|item| Self::of(item, variable)).collect();
                let depth = items.iter().map(Self::depth).max().unwrap_or(0) + 1;
                if depth > DEPTH_MAX { Self::Unknown } else { Self::List(items, depth) }
            }
            Operand::Map(map) if map.entries.len() <= CLASSES_MAX => {
                let entry = |(key, value): &(crate::syntax::tree::Name<'_>, Expr<'_>)| {
                    (key.as_str().to_owned(), Self::of(value, variable))
                };
                let entries: Arc<[(String, Self)]> = map.entries.iter().map(entry).collect();
                let depth = entries.iter().map(|(_, value)| value.depth()).max().unwrap_or(0) + 1;
                if depth > DEPTH_MAX { Self::Unknown } else { Self::Map(entries, depth) }
            }
            _ => Self::Unknown,
        }
    }

    fn depth(&self) -> usize {
        match self {
            Self::Unknown | Self::Literal(_) | Self::Parameter(_) => 0,
            Self::Item(of) | Self::Entry(of, _) => of.depth() + 1,
            Self::OneOf(parts) => parts.iter().map(Self::depth).max().unwrap_or(0) + 1,
            Self::List(_, depth) | Self::Map(_, depth) => *depth,
        }
    }

    /// An entry of these maps.
    pub(crate) fn entry(self, key: &str) -> Self {
        match self {
            Self::Unknown | Self::List(..) => Self::Unknown,
            Self::Literal(Value::Null) => Self::Literal(Value::Null),
            Self::Literal(_) => Self::Unknown,
            Self::Map(entries, _) => {
                let mut found = entries.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
                match (found.next(), found.next()) {
                    (None, _) => Self::Literal(Value::Null),
                    (Some(value), None) => value.clone(),
                    // Which of them counts is the server's choice.
                    (Some(_), Some(_)) => Self::Unknown,
                }
            }
            Self::OneOf(parts) => Self::one_of(parts.iter().map(|part| part.clone().entry(key))),
            of if of.depth() >= DEPTH_MAX => Self::Unknown,
            of => Self::Entry(Arc::new(of), key.to_owned()),
        }
    }

    /// An item of these lists.
    pub(crate) fn item(self) -> Self {
        match self {
            Self::List(items, _) if items.iter().any(|item| matches!(item, Self::Map(..))) => {
                Self::of_maps(&items)
            }
            Self::List(items, _) => Self::one_of(items.iter().cloned()),
            Self::Unknown | Self::Literal(_) | Self::Map(..) => Self::Unknown,
            of if of.depth() >= DEPTH_MAX => Self::Unknown,
            of => Self::Item(Arc::new(of)),
        }
    }

    /// An item of a list of maps that the text spells out, as one map: each of its entries is that of one of them.
    fn of_maps(items: &[Self]) -> Self {
        let keys: BTreeSet<&String> = items
            .iter()
            .flat_map(|item| if let Self::Map(entries, _) = item { entries.iter() } else { [].iter() })
            .map(|(key, _)| key)
            .collect();
        if !items.iter().all(|item| matches!(item, Self::Map(..))) || keys.len() > CLASSES_MAX {
            return Self::Unknown;
        }
        let entry = |key: &String| {
            let values = items.iter().map(|item| item.clone().entry(key));
            (key.clone(), Self::one_of(values))
        };
        let entries: Arc<[(String, Self)]> = keys.into_iter().map(entry).collect();
        let depth = entries.iter().map(|(_, value)| value.depth()).max().unwrap_or(0) + 1;
        if depth > DEPTH_MAX { Self::Unknown } else { Self::Map(entries, depth) }
    }

    fn one_of(parts: impl Iterator<Item = Self>) -> Self {
        let mut all: Vec<Self> = Vec::new();
        for part in parts {
            match part {
                Self::Unknown | Self::List(..) | Self::Map(..) => return Self::Unknown,
                Self::OneOf(more) => all.extend(more.iter().cloned()),
                other => all.push(other),
            }
            if all.len() > CLASSES_MAX {
                return Self::Unknown;
            }
        }
        let of = Self::OneOf(all.into());
        if of.depth() > DEPTH_MAX { Self::Unknown } else { of }
    }

    /// Whether its values may be known scalars.
    pub(crate) const fn is_scalar(&self) -> bool {
        !matches!(self, Self::Unknown | Self::List(..) | Self::Map(..))
    }

    /// The values that it can have in a run with these parameters; `None` if they are not known.
    fn values<'v>(&'v self, arguments: &'v Arguments, left: &mut usize) -> Option<Vec<&'v Value>> {
        let values = match self {
            Self::Unknown | Self::List(..) | Self::Map(..) => return None,
            Self::Literal(value) => vec![value],
            Self::Parameter(name) => vec![only(arguments.values.as_ref()?, name)??],
            Self::OneOf(parts) => {
                let mut values = Vec::new();
                for part in parts.iter() {
                    values.extend(part.values(arguments, left)?);
                }
                values
            }
            Self::Item(of) => {
                let mut values = Vec::new();
                for list in of.values(arguments, left)? {
                    match list {
                        Value::List(items) if items.len() <= *left => values.extend(items),
                        Value::Null => {}
                        _ => return None,
                    }
                }
                values
            }
            Self::Entry(of, key) => {
                let entry = |map: &'v Value| match map {
                    Value::Null => Some(&NULL),
                    Value::Map(_) => Some(only(map, key)?.unwrap_or(&NULL)),
                    _ => None,
                };
                of.values(arguments, left)?.into_iter().map(entry).collect::<Option<_>>()?
            }
        };
        *left = left.checked_sub(values.len())?;
        Some(values)
    }

    /// How many items the list has, in a run with these parameters; `None` if that is not known.
    pub(crate) fn length(&self, arguments: &Arguments) -> Option<i64> {
        if let Self::List(items, _) = self {
            return i64::try_from(items.len()).ok();
        }
        match self.values(arguments, &mut VALUES_MAX.clone())?.as_slice() {
            [Value::List(items)] => i64::try_from(items.len()).ok(),
            _ => None,
        }
    }

    /// The classes of values to which something is equal: `None` if they are not known, if one of them has no class, if there
    /// are none, or too many. Then nobody can tell what is equal to one of them.
    pub(crate) fn classes(&self, arguments: &Arguments) -> Option<Classes> {
        let values = self.values(arguments, &mut VALUES_MAX.clone())?;
        let classes: Classes =
            values.into_iter().map(|value| arguments.class_of(value)).collect::<Option<_>>()?;
        (1..=CLASSES_MAX).contains(&classes.len()).then_some(classes)
    }

    /// The same of values by which nodes are found by this key. Neo4j reads an element id, and does not compare it as text: only the form
    /// in which it writes one has a class.
    pub(crate) fn classes_by(&self, key: &KeyRef, arguments: &Arguments) -> Option<Classes> {
        if *key == KeyRef::ElementId {
            let values = self.values(arguments, &mut VALUES_MAX.clone())?;
            if !values.into_iter().all(|value| arguments.is_element_id(value)) {
                return None;
            }
        }
        self.classes(arguments)
    }

    /// The classes that a property can have to which such a value is given. A value without a class gives none: no value with a
    /// class is equal to it. `None` if they are not known, or too many.
    pub(crate) fn given_classes(&self, arguments: &Arguments) -> Option<Classes> {
        if matches!(self, Self::List(..)) {
            return Some(Classes::new());
        }
        let values = self.values(arguments, &mut VALUES_MAX.clone())?;
        let classes: Classes = values.into_iter().filter_map(|value| arguments.class_of(value)).collect();
        (classes.len() <= CLASSES_MAX).then_some(classes)
    }

    /// The classes that each key of a map has, over all maps; `None` if the keys are not known. A key whose classes are not known has
    /// `None`.
    pub(crate) fn keys(&self, arguments: &Arguments) -> Option<Vec<(String, Option<Classes>)>> {
        if let Self::Map(entries, _) = self {
            let names: BTreeSet<&String> = entries.iter().map(|(key, _)| key).collect();
            let classes = |key: &String| self.clone().entry(key).given_classes(arguments);
            return Some(names.into_iter().map(|key| (key.clone(), classes(key))).collect());
        }
        let maps = self.values(arguments, &mut VALUES_MAX.clone())?;
        let mut keys = std::collections::BTreeMap::<&str, Classes>::new();
        for map in maps {
            let Value::Map(entries) = map else { return None };
            for (key, value) in entries {
                keys.entry(key).or_default().extend(arguments.class_of(value));
            }
            if keys.len() > KEYS_MAX {
                return None;
            }
        }
        let few = |classes: Classes| (classes.len() <= CLASSES_MAX).then_some(classes);
        Some(keys.into_iter().map(|(key, classes)| (key.to_owned(), few(classes))).collect())
    }
}

impl std::fmt::Display for Source {
    /// `$rows[].id`: an entry of each item of a parameter.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(Value::String(text)) => write!(to, "{text:?}"),
            Self::Literal(Value::Int(number)) => write!(to, "{number}"),
            Self::Literal(Value::Float(number)) => write!(to, "{number:?}"),
            Self::Literal(Value::Bool(is_true)) => write!(to, "{is_true}"),
            Self::Literal(_) => to.write_str("null"),
            Self::Parameter(name) => write!(to, "${name}"),
            Self::Item(of) => write!(to, "{of}[]"),
            Self::Entry(of, key) => write!(to, "{of}.{key}"),
            Self::OneOf(parts) => {
                let parts: Vec<String> = parts.iter().map(ToString::to_string).collect();
                to.write_str(&parts.join(" | "))
            }
            Self::Unknown | Self::List(..) | Self::Map(..) => to.write_str("?"),
        }
    }
}

/// As Neo4j 5 and later write one: a number, a UUID in small letters, and a number, `4:5f0e8b3a-…-9d3c:42`.
pub(super) fn is_element_id(text: &str) -> bool {
    let is_number = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_digit())
            && (text == "0" || !text.starts_with('0'))
    };
    let is_uuid = |text: &str| {
        text.len() == 36 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-'))
    };
    let mut parts = text.split(':');
    parts.next().is_some_and(is_number)
        && parts.next().is_some_and(is_uuid)
        && parts.next().is_some_and(is_number)
        && parts.next().is_none()
}

/// The most keys of a map that are told apart: more than the marks of one write can name.
const KEYS_MAX: usize = crate::tags::limits::MARKS_MAX;

/// The entry of a map. Outside: none if it is there twice, since which of them counts is the server's choice.
#[allow(clippy::option_option, reason = "an entry that is there twice is not an entry that is not there")]
fn only<'v>(map: &'v Value, key: &str) -> Option<Option<&'v Value>> {
    let Value::Map(entries) = map else { return None };
    let mut found = entries.iter().filter(|(name, _)| name == key).map(|(_, value)| value);
    let first = found.next();
    found.next().is_none().then_some(first)
}

/// A number as it is written, if it is a plain decimal one.
fn number(digits: &str, sign: &str) -> Source {
    let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_octal = digits.len() > 1 && digits.starts_with('0');
    let value = if is_plain(digits) && !is_octal {
        format!("{sign}{digits}").parse().ok().map(Value::Int)
    } else {
        let parts = digits.split_once('.').filter(|(whole, part)| is_plain(whole) && is_plain(part));
        parts.and_then(|_| format!("{sign}{digits}").parse().ok()).map(Value::Float)
    };
    value.map_or(Source::Unknown, Source::Literal)
}

/// The parameters of a run, decoded.
#[derive(Debug, Clone)]
pub(crate) struct Arguments {
    values: Option<Value>,
    /// Whether bytes stand for values that have a class ([`place`]).
    have_places: bool,
}

impl Arguments {
    /// `params`: one PackStream map. Of anything else, and of more than [`ARGUMENTS_BYTES_MAX`], nothing is known.
    pub(crate) fn of(params: &[u8]) -> Self {
        let values = (params.len() <= ARGUMENTS_BYTES_MAX).then(|| decode(params).ok()).flatten();
        Self { values, have_places: false }
    }

    /// Of all runs whose values are these, but for those at places.
    pub(super) const fn with_places(values: Value) -> Self {
        Self { values: Some(values), have_places: true }
    }

    /// The class of a value: of a literal of the text, or of an argument.
    fn class_of(&self, value: &Value) -> Option<ClassId> {
        match value {
            Value::Bytes(at) if self.have_places => at.first().map(|place| of_place(*place)),
            _ => class_of(value),
        }
    }

    fn is_element_id(&self, value: &Value) -> bool {
        match value {
            Value::Bytes(at) => self.have_places && at.get(1) == Some(&1),
            _ => value.as_str().is_some_and(is_element_id),
        }
    }
}

/// A value that a run has at a place. No literal is of this kind.
pub(super) fn place(place: u8, is_element_id: bool) -> Value {
    Value::Bytes(vec![place, u8::from(is_element_id)])
}
