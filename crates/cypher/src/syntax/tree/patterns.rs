//! Patterns: paths with their nodes, relationships, labels and properties.

use super::{Expr, Name, Span};

/// A path of a pattern.
#[derive(Debug, Default)]
pub struct Path<'t> {
    /// `p = …`.
    pub name: Option<Name<'t>>,
    /// `ANY SHORTEST`, `ALL PATHS` and their like.
    pub has_selector: bool,
    /// `shortestPath(…)` or `allShortestPaths(…)`.
    pub is_shortest: bool,
    /// Its parts. Neo4j wants nodes and relationships in turn; this reader takes any order.
    pub elements: Vec<Element<'t>>,
}

/// A part of a path.
#[derive(Debug)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Element<'t> {
    Node(Node<'t>),
    Relationship(Relationship<'t>),
    /// `((a)-[:R]->(b) WHERE …){1,3}`.
    Group {
        path: Path<'t>,
        condition: Option<Expr<'t>>,
        quantifier: Option<Length>,
    },
}

impl<'t> Element<'t> {
    /// The variable of a node or relationship.
    #[must_use]
    pub fn name(&self) -> Option<&Name<'t>> {
        match self {
            Self::Node(node) => node.name.as_ref(),
            Self::Relationship(found) => found.name.as_ref(),
            Self::Group { .. } => None,
        }
    }
}

/// `(name:Labels {key: value} WHERE …)`.
#[derive(Debug, Default)]
pub struct Node<'t> {
    /// Its variable.
    pub name: Option<Name<'t>>,
    /// Its labels.
    pub labels: Option<Labels<'t>>,
    /// Its properties and its condition.
    pub filter: Filter<'t>,
}

/// `-[name:TYPES*1..3 {key: value} WHERE …]->{2}`.
#[derive(Debug)]
pub struct Relationship<'t> {
    /// Where it points.
    pub arrow: Arrow,
    /// Whether no gap splits `<-`, `--` and `->`.
    pub is_glued: bool,
    /// Its variable.
    pub name: Option<Name<'t>>,
    /// Its types.
    pub types: Option<Labels<'t>>,
    /// `*1..3`. Its variable is a list then.
    pub length: Option<Length>,
    /// Its properties and its condition.
    pub filter: Filter<'t>,
    /// `{2}`, `+` or `*` behind it.
    pub quantifier: Option<Length>,
}

impl Relationship<'_> {
    /// Whether it matches zero relationships as well.
    #[must_use]
    pub fn may_be_empty(&self) -> bool {
        self.length.into_iter().chain(self.quantifier).any(|length| length.least == 0)
    }
}

/// Where a relationship points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of Cypher are their names")]
pub enum Arrow {
    None,
    Left,
    Right,
    Both,
}

/// How often a relationship or a group may follow itself.
#[derive(Debug, Clone, Copy)]
pub struct Length {
    /// At least so often.
    pub least: u64,
    /// At most so often.
    pub most: Option<u64>,
    /// Its tokens.
    pub tokens: Span,
}

/// The properties and the condition of a node or relationship in a pattern.
#[derive(Debug, Default)]
pub struct Filter<'t> {
    /// `{key: value}`.
    pub properties: Option<Map<'t>>,
    /// The parameter in place of a map: `(n $map)`.
    pub parameter: Option<Name<'t>>,
    /// `WHERE`.
    pub condition: Option<Expr<'t>>,
}

impl<'t> Filter<'t> {
    /// The properties that it names.
    pub fn entries(&self) -> impl Iterator<Item = &(Name<'t>, Expr<'t>)> {
        self.properties.iter().flat_map(|map| &map.entries)
    }

    /// The values of the properties, and the condition.
    pub fn values(&self) -> impl Iterator<Item = &Expr<'t>> {
        self.entries().map(|(_, value)| value).chain(&self.condition)
    }
}

/// `{key: value, …}`.
#[derive(Debug)]
pub struct Map<'t> {
    /// Its keys and values.
    pub entries: Vec<(Name<'t>, Expr<'t>)>,
    /// With its brackets.
    pub tokens: Span,
}

/// The labels of a node, or the types of a relationship, behind `:` or `IS`.
#[derive(Debug)]
pub struct Labels<'t> {
    /// Which they are.
    pub expr: LabelExpr<'t>,
    /// `IS` stands before them, and no `:`.
    pub is_worded: bool,
    /// Whether this reader knows which `|` belong to them, and that `IS` begins labels.
    pub is_certain: bool,
    /// Without the `:` or `IS`.
    pub tokens: Span,
}

/// An expression of labels or types.
#[derive(Debug)]
pub enum LabelExpr<'t> {
    /// `A`.
    Name(Name<'t>),
    /// `$($param)`, `$(expression)`, `$any(…)`, `$all(…)`.
    Dynamic(Box<Expr<'t>>),
    /// `%`.
    Any,
    /// `!A`.
    Not(Box<LabelExpr<'t>>),
    /// `A:B`, `A&B`.
    And(Vec<LabelExpr<'t>>),
    /// `A|B`.
    Or(Vec<LabelExpr<'t>>),
}
