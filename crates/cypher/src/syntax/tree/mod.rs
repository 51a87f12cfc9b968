//! The nodes of the tree. Each has its parts in the order of the text. Clauses are here.

mod exprs;
mod patterns;

use std::borrow::Cow;

pub use exprs::{
    Call, CallForm, Case, Each, Expr, MapProjectionItem, Operand, Operator, Reduce, Sign, Tail, Term, When,
};
pub use patterns::{Arrow, Element, Filter, LabelExpr, Labels, Length, Map, Node, Path, Relationship};

/// The tokens of a node: from its first one to before `to`, as places among the tokens of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first token.
    pub from: usize,
    /// The token behind the last one.
    pub to: usize,
}

/// A name: of a variable, label, type, key, function or parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name<'t> {
    pub(super) text: Cow<'t, str>,
    /// Whether it has backticks in the text.
    pub is_quoted: bool,
}

impl Name<'_> {
    /// Without backticks.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// As it is written in a statement.
    #[must_use]
    pub fn written(&self) -> Cow<'_, str> {
        if self.is_quoted {
            Cow::Owned(format!("`{}`", self.text.replace('`', "``")))
        } else {
            Cow::Borrowed(&self.text)
        }
    }

    /// Whether it is the number of a parameter: `$0`.
    #[must_use]
    pub fn is_number(&self) -> bool {
        !self.is_quoted && self.text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
    }

    /// The same name, without its text.
    #[must_use]
    pub fn into_owned(self) -> Name<'static> {
        Name { text: Cow::Owned(self.text.into_owned()), is_quoted: self.is_quoted }
    }
}

/// A query: the branches of its `UNION`, each with its clauses.
#[derive(Debug, Default)]
pub struct Query<'t> {
    /// At least one, and each has a clause.
    pub branches: Vec<Vec<Clause<'t>>>,
}

/// A clause.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Clause<'t> {
    Match(Match<'t>),
    Unwind {
        list: Expr<'t>,
        name: Name<'t>,
    },
    With(Projection<'t>),
    Return(Projection<'t>),
    /// `CALL { … }`.
    Call(Subquery<'t>),
    /// `CALL a.procedure(…) YIELD column`.
    Procedure(Procedure<'t>),
    LoadCsv {
        source: Expr<'t>,
        name: Name<'t>,
    },
    Create(Vec<Path<'t>>),
    Merge {
        path: Path<'t>,
        on_create: Vec<Change<'t>>,
        on_match: Vec<Change<'t>>,
    },
    Set(Vec<Change<'t>>),
    Remove(Vec<Change<'t>>),
    Delete {
        targets: Vec<Expr<'t>>,
        is_detach: bool,
    },
    Foreach {
        name: Name<'t>,
        list: Expr<'t>,
        body: Vec<Clause<'t>>,
    },
    Finish,
    /// A clause that came with Cypher 25.
    New(NewClause<'t>),
}

/// A clause that Cypher 5 does not have. A user that does not follow it knows nothing of what stands behind it.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum NewClause<'t> {
    /// `FILTER condition`, `FILTER WHERE condition`: the rows for which it holds.
    Filter(Expr<'t>),
    /// `LET a = value, b = value`: no value knows the other names.
    Let(Vec<(Name<'t>, Expr<'t>)>),
    /// `FOR x IN list`: as `UNWIND`.
    For { list: Expr<'t>, name: Name<'t> },
    /// `ORDER BY …`, `SKIP …`, `OFFSET …` and `LIMIT …` by themselves: a projection without items.
    Page(Projection<'t>),
    /// `WITH` or `RETURN` with a `GROUP BY`.
    Grouped {
        projection: Projection<'t>,
        /// The keys; none in `GROUP BY ()` and `GROUP BY ALL`.
        keys: Vec<Expr<'t>>,
        is_return: bool,
    },
    /// `{ query }` in the place of a query's clauses: the only clause of its branch.
    Braces(Query<'t>),
    /// `WHEN condition THEN query … ELSE query`: the only clause of its branch.
    When { cases: Vec<(Expr<'t>, Query<'t>)>, otherwise: Option<Query<'t>> },
    /// `query NEXT query`: each has the rows and the columns of the one before it. The only clause of its query. At least two.
    Next(Vec<Query<'t>>),
}

impl<'t> NewClause<'t> {
    /// The queries in it.
    pub fn queries(&self) -> Vec<&Query<'t>> {
        match self {
            Self::Braces(query) => vec![query],
            Self::When { cases, otherwise } => {
                cases.iter().map(|(_, query)| query).chain(otherwise).collect()
            }
            Self::Next(queries) => queries.iter().collect(),
            Self::Filter(_) | Self::Let(_) | Self::For { .. } | Self::Page(_) | Self::Grouped { .. } => {
                Vec::new()
            }
        }
    }
}

/// `MATCH`, and the paths with a `WHERE` in `EXISTS { … }`, `COUNT { … }` and comprehensions.
#[derive(Debug, Default)]
pub struct Match<'t> {
    /// `OPTIONAL MATCH`.
    pub is_optional: bool,
    /// `REPEATABLE ELEMENTS`, `DIFFERENT RELATIONSHIPS`.
    pub has_mode: bool,
    /// `USING INDEX …`. A hint does not change a result.
    pub has_hints: bool,
    /// At least one.
    pub paths: Vec<Path<'t>>,
    /// `WHERE`.
    pub condition: Option<Expr<'t>>,
}

/// `CALL (a, b) { … }`.
#[derive(Debug)]
pub struct Subquery<'t> {
    /// The variables that it takes from outside.
    pub scope: Scope<'t>,
    /// What stands in its brackets.
    pub query: Query<'t>,
    /// `IN TRANSACTIONS`.
    pub in_transactions: bool,
}

/// `CALL a.procedure(…) YIELD column AS name WHERE condition`.
#[derive(Debug)]
pub struct Procedure<'t> {
    /// Its name, with its dots.
    pub name: String,
    /// What stands in its brackets; none without brackets, where Neo4j takes parameters.
    pub arguments: Vec<Expr<'t>>,
    /// Its columns, and their other names.
    pub columns: Vec<(Name<'t>, Option<Name<'t>>)>,
    /// `WHERE` behind `YIELD`.
    pub condition: Option<Expr<'t>>,
}

/// The variables that a subquery takes from outside.
#[derive(Debug)]
pub enum Scope<'t> {
    /// `CALL (a, b) { … }`; none in `CALL { … }`, whose own `WITH` takes them.
    Names(Vec<Name<'t>>),
    /// `CALL (*) { … }`.
    All,
}

/// The body of `WITH` and `RETURN`.
#[derive(Debug, Default)]
pub struct Projection<'t> {
    /// `DISTINCT`.
    pub is_distinct: bool,
    /// It has a `*`, which stands before the items.
    pub is_all: bool,
    /// The items.
    pub items: Vec<Item<'t>>,
    /// `ORDER BY`.
    pub order: Vec<SortKey<'t>>,
    /// `SKIP`, `OFFSET` and `LIMIT`, as often as they stand there.
    pub bounds: Vec<(Bound, Expr<'t>)>,
    /// `WHERE`, which only a `WITH` has.
    pub condition: Option<Expr<'t>>,
}

impl<'t> Projection<'t> {
    /// The expressions behind the items.
    pub fn rest(&self) -> impl Iterator<Item = &Expr<'t>> {
        let order = self.order.iter().map(|key| &key.value);
        order.chain(self.bounds.iter().map(|(_, count)| count)).chain(&self.condition)
    }
}

/// An item of a projection.
#[derive(Debug)]
pub struct Item<'t> {
    /// What it is.
    pub value: Expr<'t>,
    /// The name behind `AS`.
    pub alias: Option<Name<'t>>,
}

impl<'t> Item<'t> {
    /// The variable behind the projection: the alias, or the variable that the item is.
    #[must_use]
    pub fn name(&self) -> Option<&Name<'t>> {
        self.alias.as_ref().or_else(|| self.value.variable())
    }
}

/// A key of `ORDER BY`.
#[derive(Debug)]
pub struct SortKey<'t> {
    /// What it is.
    pub value: Expr<'t>,
    /// `DESC`.
    pub is_descending: bool,
}

/// What bounds the rows of a projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Bound {
    Skip,
    Offset,
    Limit,
}

/// An item of `SET` or `REMOVE`.
#[derive(Debug)]
pub enum Change<'t> {
    /// `n.key = value`, `n[key] = value`; without a value in `REMOVE`.
    Key {
        /// What has the key.
        target: Target<'t>,
        /// The last key of the item.
        key: Key<'t>,
        /// The new value.
        value: Option<Expr<'t>>,
    },
    /// `n = map` with `is_replaced`, or `n += map`.
    Keys {
        /// What has the keys.
        target: Target<'t>,
        /// The map.
        value: Expr<'t>,
        /// Whether all other keys go.
        is_replaced: bool,
    },
    /// `n:Label`.
    Labels {
        /// What has the labels.
        target: Target<'t>,
        /// The labels.
        labels: Labels<'t>,
    },
}

impl<'t> Change<'t> {
    /// What is changed.
    #[must_use]
    pub fn target(&self) -> &Target<'t> {
        match self {
            Self::Key { target, .. } | Self::Keys { target, .. } | Self::Labels { target, .. } => target,
        }
    }
}

/// What a change is made to: `n`, `(CASE … END)`, and `n.a` in `n.a.b`.
#[derive(Debug)]
pub struct Target<'t> {
    /// A variable, or an expression in brackets.
    pub base: Operand<'t>,
    /// How many keys stand between the base and the last key.
    pub keys_between: usize,
}

impl<'t> Target<'t> {
    /// The variable, if the target is one and nothing else.
    #[must_use]
    pub fn variable(&self) -> Option<&Name<'t>> {
        if self.keys_between == 0 { self.base.variable() } else { None }
    }
}

/// A property key.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Key<'t> {
    Name(Name<'t>),
    /// `n[expression]`.
    Dynamic(Expr<'t>),
}
