//! A successor of a query that can be run: a statement with its parameters, or a statement with a source for each of
//! its parameters. Decides its encoding, and its query after a given query.
//!
//! It never decides whether that is worth a run, and never changes a statement's text. An id in the text itself, not in
//! a parameter, is not bound, so such successors are only ever learned as exact ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use hopcache_core::key::{KeyHasher, PrincipalScope};
use hopcache_core::limits::{
    FIELDS_DEPTH_MAX, FIELDS_ROWS_MAX, FORM_BYTES_MAX, FORM_CONSTANT_BYTES_MAX, FORM_STATEMENT_BYTES_MAX,
    LEARNED_PARAMS_BYTES_MAX, LEARNED_PARAMS_MAX,
};
use hopcache_core::wire::{fixed, from_bytes, piece, to_bytes};
use hopcache_packstream::{Value, decode, encode_canonical};

use crate::fields::Fields;
use crate::params::{Kind, Params, written};
use crate::source::FormId;

/// Keyed digest of a database and of the asking principal. It is part of a form's definition and so of its id: the same
/// statement is another form for each principal (I5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct RealmTag(#[serde(with = "fixed")] pub u64);

impl RealmTag {
    /// The tag of a database, named in any case, and of the asking principal.
    #[must_use]
    pub fn of(hasher: &KeyHasher, database: &str, scope: PrincipalScope) -> Self {
        Self(hasher.scoped_learning_tag(b"realm", database, scope, b""))
    }
}

/// A successor that can be run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Form {
    /// This statement with these parameters.
    Exact {
        /// The statement, in its normal form.
        statement: Box<str>,
        /// One canonical PackStream map.
        #[serde(with = "piece")]
        params: Vec<u8>,
    },
    /// This statement, each parameter from somewhere.
    Template {
        /// The statement, in its normal form.
        statement: Box<str>,
        /// One for each parameter of the statement, by its name.
        bindings: BTreeMap<Box<str>, Binding>,
    },
}

/// The source of a parameter of the next query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Binding {
    /// A parameter of the query before.
    Param {
        /// Its name there.
        name: Box<str>,
        /// Its required type.
        kind: Kind,
    },
    /// A scalar of the result before.
    Field {
        /// Name of the column.
        column: Box<str>,
        /// Keys of maps or properties inside the column's value; empty for the value itself.
        path: Vec<Box<str>>,
        /// The rows that it is taken from.
        rows: Rows,
        /// Its required type.
        kind: Kind,
    },
    /// Always the same canonical PackStream value.
    Constant(#[serde(with = "piece")] Vec<u8>),
}

/// Which rows of a result a field is taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Rows {
    /// The first.
    First,
    /// Any of the first [`FIELDS_ROWS_MAX`]; all such fields of one query are of one row.
    Each,
    /// All of them, as one list: the ids that a search has found.
    All,
}

/// A form with the values of a given query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// One canonical PackStream map.
    pub params: Vec<u8>,
    /// The row of its fields of [`Rows::Each`]; zero if it has none.
    pub row: u8,
}

impl Form {
    /// An exact successor, if it is small enough to be learned.
    #[must_use]
    pub fn exact(statement: &str, params: &[u8]) -> Option<Self> {
        let form = Self::Exact { statement: statement.into(), params: params.to_vec() };
        form.define(RealmTag(0)).map(|_| form)
    }

    /// A template, if it is small enough to be learned.
    #[must_use]
    pub fn template(statement: &str, bindings: BTreeMap<Box<str>, Binding>) -> Option<Self> {
        let form = Self::Template { statement: statement.into(), bindings };
        form.define(RealmTag(0)).map(|_| form)
    }

    /// The id of this form in a realm; `None` if it exceeds a bound.
    #[must_use]
    pub fn id(&self, hasher: &KeyHasher, realm: RealmTag) -> Option<FormId> {
        self.define(realm).map(|definition| FormId::of(hasher, &definition))
    }

    /// The statement that it runs.
    #[must_use]
    pub fn statement(&self) -> &str {
        match self {
            Self::Exact { statement, .. } | Self::Template { statement, .. } => statement,
        }
    }

    /// Whether it stands for one query for each of the first rows.
    #[must_use]
    pub fn is_each(&self) -> bool {
        let Self::Template { bindings, .. } = self else { return false };
        bindings.values().any(|binding| matches!(binding, Binding::Field { rows: Rows::Each, .. }))
    }

    /// Whether a parameter comes from the result of the query before.
    #[must_use]
    pub fn needs_fields(&self) -> bool {
        let Self::Template { bindings, .. } = self else { return false };
        bindings.values().any(|binding| matches!(binding, Binding::Field { .. }))
    }

    /// The same template for the first row only, if it is one for each row. Lessons about both show how likely the
    /// first row is and how likely another.
    #[must_use]
    pub fn of_first_row(&self) -> Option<Self> {
        let Self::Template { statement, bindings } = self else { return None };
        let mut bindings = bindings.clone();
        for binding in bindings.values_mut() {
            if let Binding::Field { rows, .. } = binding
                && *rows == Rows::Each
            {
                *rows = Rows::First;
            }
        }
        self.is_each().then(|| Self::Template { statement: statement.clone(), bindings })
    }

    /// Its queries after a query with these parameters and this result. None if a value is missing or has another type
    /// than the learned one. One for each row (each only once) if it has fields of [`Rows::Each`], else one. At most
    /// [`FIELDS_ROWS_MAX`], nearest row first.
    #[must_use]
    pub fn bind(&self, params: &[u8], fields: Option<&Fields>) -> Vec<Bound> {
        let bindings = match self {
            Self::Exact { params, .. } => return vec![Bound { params: params.clone(), row: 0 }],
            Self::Template { bindings, .. } => bindings,
        };
        let before = Before { params: Params::read(params).unwrap_or_default(), fields };
        let rows = if self.is_each() { FIELDS_ROWS_MAX } else { 1 };
        let mut bound: Vec<Bound> = Vec::new();
        for row in 0..rows {
            let Some(params) = before.params_of(bindings, row) else { continue };
            if !bound.iter().any(|other| other.params == params) {
                bound.push(Bound { params, row });
            }
        }
        bound
    }
}

/// The query that it follows.
struct Before<'a> {
    params: Params<'a>,
    fields: Option<&'a Fields>,
}

impl Before<'_> {
    fn params_of(&self, bindings: &BTreeMap<Box<str>, Binding>, row: u8) -> Option<Vec<u8>> {
        let mut pairs = Vec::with_capacity(bindings.len());
        for (name, binding) in bindings {
            pairs.push((&**name, self.value(binding, row)?));
        }
        let params = written(pairs.iter().map(|(name, value)| (*name, &**value)));
        (params.len() <= LEARNED_PARAMS_BYTES_MAX).then_some(params)
    }

    fn value<'a>(&'a self, binding: &'a Binding, row: u8) -> Option<Cow<'a, [u8]>> {
        let (value, wanted) = match binding {
            Binding::Constant(value) => return Some(Cow::Borrowed(value)),
            Binding::Param { name, kind } => (Cow::Borrowed(self.params.get(name)?), *kind),
            Binding::Field { column, path, rows, kind } => {
                let fields = self.fields?;
                let value = match rows {
                    Rows::First => fields.value(0, column, path).map(Cow::Borrowed),
                    Rows::Each => fields.value(row, column, path).map(Cow::Borrowed),
                    Rows::All => fields.list(column, path).map(Cow::Owned),
                };
                (value?, *kind)
            }
        };
        (Kind::of(&value) == Some(wanted)).then_some(value)
    }
}

impl Form {
    /// The canonical bytes of this form in a realm, which are sent and whose digest is its id. `None` if it exceeds a
    /// bound.
    #[must_use]
    pub fn define(&self, realm: RealmTag) -> Option<Vec<u8>> {
        let is_bounded = match self {
            Self::Exact { params, .. } => {
                canonical(params).is_some_and(|value| matches!(value, Value::Map(_)))
            }
            Self::Template { bindings, .. } => {
                bindings.len() <= LEARNED_PARAMS_MAX && bindings.values().all(Binding::is_bounded)
            }
        };
        let definition = to_bytes(&(realm, self));
        let fits = definition.len() <= FORM_BYTES_MAX && self.statement().len() <= FORM_STATEMENT_BYTES_MAX;
        (is_bounded && fits).then_some(definition)
    }

    /// Reads [`Form::define`]. Total: any bytes are the encoding of one form of one realm, or none. Before running it
    /// for a query, the caller checks that the query is of this realm.
    #[must_use]
    pub fn of_definition(bytes: &[u8]) -> Option<(RealmTag, Self)> {
        let is_short = bytes.len() <= FORM_BYTES_MAX;
        let (realm, form): (RealmTag, Self) = is_short.then(|| from_bytes(bytes).ok())??;
        // Only one encoding is valid: a second one would be a second id of the same form.
        (form.define(realm).as_deref() == Some(bytes)).then_some((realm, form))
    }
}

/// The value, if these are its canonical bytes.
fn canonical(packed: &[u8]) -> Option<Value> {
    decode(packed).ok().filter(|value| encode_canonical(value) == packed)
}

impl Binding {
    fn is_bounded(&self) -> bool {
        match self {
            Self::Param { .. } => true,
            Self::Field { path, .. } => path.len() <= FIELDS_DEPTH_MAX,
            Self::Constant(value) => value.len() <= FORM_CONSTANT_BYTES_MAX && canonical(value).is_some(),
        }
    }
}

/// For display: `$id`, `friend.id of each row`, `a constant`. Shows no value.
impl fmt::Display for Binding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Param { name, .. } => write!(out, "${name}"),
            Self::Field { column, path, rows, .. } => {
                write!(out, "{column}")?;
                path.iter().try_for_each(|key| write!(out, ".{key}"))?;
                out.write_str(match rows {
                    Rows::First => " of the first row",
                    Rows::Each => " of each row",
                    Rows::All => " of all rows, as a list",
                })
            }
            Self::Constant(_) => out.write_str("a constant"),
        }
    }
}
