//! A statement as far as tags need it: clauses and patterns as a tree, expressions as a list of what they read.
//!
//! An expression has no operators and no order here. Tags need to know which properties and labels an expression
//! reads, and which graph elements its value may hold; neither depends on the operators between its parts.

/// A query: the branches of its `UNION`.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) branches: Vec<Vec<Clause>>,
}

/// A clause.
#[derive(Debug)]
pub(crate) enum Clause {
    Match(Match),
    Unwind {
        list: Expr,
        name: String,
    },
    With(Projection),
    Return(Projection),
    Call(Call),
    LoadCsv {
        source: Expr,
        name: String,
    },
    Create(Vec<Path>),
    Merge {
        path: Path,
        on_create: Vec<Change>,
        on_match: Vec<Change>,
    },
    /// `SET`, with `is_added`; or `REMOVE`.
    Change {
        changes: Vec<Change>,
        is_added: bool,
    },
    Delete {
        targets: Vec<Expr>,
        is_detach: bool,
    },
    Foreach {
        name: String,
        list: Expr,
        body: Vec<Clause>,
    },
    Finish,
}

/// `MATCH`, `OPTIONAL MATCH`, and the patterns with a `WHERE` in `EXISTS { … }`, `COUNT { … }` and comprehensions.
#[derive(Debug, Default)]
pub(crate) struct Match {
    pub(crate) paths: Vec<Path>,
    pub(crate) condition: Option<Expr>,
}

/// `CALL { … }`.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) scope: Scope,
    pub(crate) query: Query,
    pub(crate) in_transactions: bool,
}

/// The variables that a subquery takes from outside.
#[derive(Debug)]
pub(crate) enum Scope {
    /// `CALL (a, b) { … }`; none in `CALL { … }`, whose own `WITH` takes them.
    Names(Vec<String>),
    /// `CALL (*) { … }`, and the subqueries of expressions.
    All,
}

/// The body of `WITH` and `RETURN`.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    /// It has a `*`.
    pub(crate) is_all: bool,
    pub(crate) items: Vec<Item>,
    /// `ORDER BY`, `SKIP`, `LIMIT` and `WHERE`.
    pub(crate) rest: Vec<Expr>,
}

/// An item of a projection.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) value: Expr,
    pub(crate) alias: Option<String>,
}

/// A path of a pattern.
#[derive(Debug, Default)]
pub(crate) struct Path {
    pub(crate) name: Option<String>,
    pub(crate) elements: Vec<Element>,
    /// `shortestPath(…)` or `allShortestPaths(…)`.
    pub(crate) is_shortest: bool,
}

/// A part of a path.
#[derive(Debug)]
pub(crate) enum Element {
    Node(Node),
    Relationship(Relationship),
    /// `((a)-[:R]->(b) WHERE …){1,3}`.
    Group {
        path: Path,
        condition: Option<Expr>,
        may_be_empty: bool,
    },
}

/// `(name:Labels {key: value} WHERE …)`.
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: Option<String>,
    pub(crate) labels: Option<LabelExpr>,
    pub(crate) filter: Filter,
}

/// `-[name:TYPES*1..3 {key: value} WHERE …]-`.
#[derive(Debug, Default)]
pub(crate) struct Relationship {
    pub(crate) name: Option<String>,
    pub(crate) types: Option<LabelExpr>,
    pub(crate) filter: Filter,
    /// It matches zero relationships as well.
    pub(crate) may_be_empty: bool,
}

/// The properties and the condition of a node or relationship in a pattern.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) keys: Vec<String>,
    /// The parameter in place of a map: `(n $map)`.
    pub(crate) map: Option<String>,
    /// The values of the properties, and the condition.
    pub(crate) values: Vec<Expr>,
}

/// An expression of labels or types.
#[derive(Debug)]
pub(crate) enum LabelExpr {
    Name(String),
    /// `$($param)`, `$(expression)`, `$any(…)`, `$all(…)`.
    Dynamic(Box<Expr>),
    /// `%`.
    Any,
    Not(Box<LabelExpr>),
    And(Vec<LabelExpr>),
    Or(Vec<LabelExpr>),
}

/// An item of `SET` or `REMOVE`.
#[derive(Debug)]
pub(crate) enum Change {
    Key {
        target: Target,
        key: Key,
    },
    /// `n = map` with `is_replaced`, or `n += map`.
    Keys {
        target: Target,
        value: Expr,
        is_replaced: bool,
    },
    Labels {
        target: Target,
        labels: LabelExpr,
    },
}

/// What a change is made to.
#[derive(Debug)]
pub(crate) struct Target {
    /// The variable, if the target is one and nothing else.
    pub(crate) name: Option<String>,
    /// The elements that it may be.
    pub(crate) elements: Vec<Carrier>,
    /// The expression in brackets, if it is one: it may bind variables.
    pub(crate) computed: Option<Expr>,
}

/// A property key.
#[derive(Debug)]
pub(crate) enum Key {
    Name(String),
    /// `n[expression]`.
    Dynamic(Expr),
}

/// An expression.
#[derive(Debug, Default)]
pub(crate) struct Expr {
    pub(crate) shape: Shape,
    pub(crate) reads: Vec<Read>,
    /// The graph elements that its value may be or hold.
    pub(crate) carried: Vec<Carrier>,
    /// The graph elements that maps in it may hold.
    pub(crate) in_maps: Vec<Carrier>,
    /// Variables that it binds: `x IN list`.
    pub(crate) bindings: Vec<(String, Vec<Carrier>)>,
    pub(crate) patterns: Vec<Match>,
    pub(crate) queries: Vec<Query>,
}

/// What an expression is as a whole.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    #[default]
    Other,
    Variable(String),
    Parameter(String),
    /// A string without an escape.
    Text(String),
    /// An integer.
    Number,
    /// A map literal, with its keys.
    Map(Vec<String>),
}

/// A graph element, or several of them, that a value may be or hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// Those of a variable.
    Name(String),
    /// Those in the maps that a variable holds: `x` of `x.key`, if `x` is a map of nodes.
    Inside(String),
    /// Some node: `startNode(r)`.
    Node,
    /// Some relationship: `relationships(p)`.
    Relationship,
}

/// A read of an expression.
#[derive(Debug)]
pub(crate) enum Read {
    Key(Vec<Carrier>, String),
    AnyKey(Vec<Carrier>),
    Labels(LabelExpr),
    AnyLabel,
}

impl Expr {
    /// Adds what `other` reads and holds.
    pub(crate) fn absorb(&mut self, other: Self) {
        let carried = self.absorb_reads(other);
        self.carried.extend(carried);
    }

    /// Adds what `other` reads; returns what it holds.
    pub(crate) fn absorb_reads(&mut self, other: Self) -> Vec<Carrier> {
        self.reads.extend(other.reads);
        self.in_maps.extend(other.in_maps);
        self.bindings.extend(other.bindings);
        self.patterns.extend(other.patterns);
        self.queries.extend(other.queries);
        other.carried
    }
}

impl Target {
    pub(crate) fn named(name: &str) -> Self {
        let elements = vec![Carrier::Name(name.to_owned())];
        Self { name: Some(name.to_owned()), elements, computed: None }
    }
}
