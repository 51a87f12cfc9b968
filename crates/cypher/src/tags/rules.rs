//! The rules: what a read depends on ([`Need`]), what a write does ([`Touch`]), and which marks each of them has.
//!
//! A write touches a read if they share a mark. The rows below are all rules; each has a test with its number
//! (`tests/rules.rs`, and on a real Neo4j `tests/oracle`).
//!
//! # Needs of a read
//!
//! | rule | part of the read | need |
//! |---|---|---|
//! | N1 | a pattern whose matches may be a lone node without a label: `(n)`, `(n:!A)`, `(n)-[:R*0..]-(m)` | `Nodes` |
//! | N2 | a label in a pattern or predicate, also behind `!` | `Label(A)` |
//! | N3 | `labels(n)`, `%`, `$(…)`, a whole node in the result | `LabelsOfNodes` |
//! | N4 | a relationship type in a pattern | `Type(R)` |
//! | N5 | a relationship without a type, or with `!R`, `%` or `$(…)` | `Relationships` |
//! | N6 | `n.key`, `{key: …}` in a pattern, `n['key']`, `n {.key}` | `NodeKey(key)` or `RelationshipKey(key)`, by the kinds that `n` may have |
//! | N7 | `properties(n)`, `keys(n)`, `n[$key]`, `n {.*}`, a whole element in the result | `NodeKeys`, `RelationshipKeys` |
//! | N8 | an unknown construct, a write, a procedure, `LOAD CSV`, a function that is unknown or reads the graph | `Anything` |
//! | N10 | the whole statement is `SHOW CONSTRAINTS`, or `SHOW INDEXES` with a `YIELD` of columns that stay (`crate::checks::schema`) | `Schema` |
//! | N9 | N8, unless all that it calls are searches of an index; a result whose summary warns of an unknown label, type or key | `Tokens` |
//!
//! A pure function of a library (`crate::functions`) may show all that the elements among its arguments show: their labels and
//! properties, and those of a relationship's ends (N3, N7 of both kinds).
//!
//! A node without a label needs no `Nodes` if it is only found over a relationship of the same path (N4 or N5 says when
//! that comes or goes), if another node of its path has a label, or if an earlier clause has bound it. A variable that
//! is not in the result, only compared, counted or passed on, needs no properties.
//!
//! # What a write does
//!
//! | rule | part of the write | touch | narrowed by the counter |
//! |---|---|---|---|
//! | T1 | `CREATE (n:A {x: 1})`, `MERGE` | `NodeCreated`, `NewLabel(A)` | `nodes-created` |
//! | T2 | `CREATE ()-[:R {x: 1}]->()`, `MERGE` | `Relationship(R)` | `relationships-created` |
//! | T3 | `DELETE n` | `NodeDeleted` | `nodes-deleted` |
//! | T4 | `DELETE r`; `DETACH DELETE n` of any type | `Relationship(R)`, `AnyRelationship` | `relationships-deleted` |
//! | T5 | `SET n:A`, `REMOVE n:A` | `LabelChanged(A)` | `labels-added`, `labels-removed` |
//! | T6 | `SET n.x = …`, `REMOVE n.x`, `SET n += {x: …}` | `NodeKey(x)` or `RelationshipKey(x)`, by the kinds of `n` | `properties-set` |
//! | T7 | `SET n = …`, `SET n += …` with unknown keys, `SET n[…]` | `AnyNodeKey`, `AnyRelationshipKey` | `properties-set` |
//! | T8 | `SET` on an element that the statement has just created | nothing for keys, `NewLabel(A)` for labels | – |
//! | T9 | dynamic labels, types and keys: the parameter's value, else any | `NewAnyLabel`, `AnyLabelChanged`, … | as the others |
//! | T10 | an unknown construct, another procedure, a schema change | `Anything` | never |
//! | T13 | `apoc.merge.node`, `apoc.create.*`, `db.create.setNodeVectorProperty` and their like (`crate::procedures`) | as the clauses that do the same; names and keys from literals and parameters, else any | never: the counters do not count procedures, and then those of the clauses beside it narrow nothing either |
//! | T14 | `SET n += row` with `UNWIND $rows AS row`, `SET n += row.props`, `SET n += $p.q` | `NodeKey(k)` for the keys of all rows (≤ 65,536), else T7 | `properties-set` |
//! | T12 | a function that no list has | nothing by itself: Neo4j gives a function a reading view. What it gives may be any element, so `SET (own.f()).x = 1` touches keys of both kinds | as the others |
//!
//! Besides, a write may create tokens:
//!
//! | rule | part of the write | tokens |
//! |---|---|---|
//! | T11 | labels, types and keys in `CREATE`, `MERGE` and `SET`; dynamic ones as in T9, else unknown | `Label`, `Type`, `Key` |
//!
//! What is read or removed gets no token. A token is not narrowed: a run that fails may have created it. It stays when its transaction
//! is rolled back: such a write marks `Tokens` alone, and needs no touch. `Change` is with every other.
//!
//! T1, T2 and T8 have no keys: nobody has read the new element before, so a read sees its properties only if it sees
//! the element itself, and then it has the need of its label, its type, or `Nodes`. The same holds for T3: a deleted
//! node is in a result by one of its labels (all of them are touched, since the text does not tell which it has), as any
//! node, or over a relationship (which has to be deleted before or with it: T4).
//!
//! # Marks
//!
//! | mark | needs with it | touches with it |
//! |---|---|---|
//! | `Nodes` | `Nodes` | `NodeCreated`, `NodeDeleted` |
//! | `Label(A)` | `Label(A)` | `NewLabel(A)`, `LabelChanged(A)` |
//! | `EveryLabel` | `Label(…)` | `NewAnyLabel`, `AnyLabelChanged`, `NodeDeleted` |
//! | `LabelsOfNodes` | `LabelsOfNodes` | `LabelChanged(…)`, `AnyLabelChanged` |
//! | `Type(R)` | `Type(R)` | `Relationship(R)` |
//! | `EveryType` | `Type(…)` | `AnyRelationship` |
//! | `Relationships` | `Relationships` | `Relationship(…)`, `AnyRelationship` |
//! | `NodeKey(k)`, `RelationshipKey(k)` | the same | the same |
//! | `EveryNodeKey`, `EveryRelationshipKey` | `NodeKey(…)`; `RelationshipKey(…)` | `AnyNodeKey`; `AnyRelationshipKey` |
//! | `NodeKeys`, `RelationshipKeys` | the same | every touch of a node's, a relationship's key |
//! | `Change` | `Anything`, `Tokens` | every touch |
//! | `Tokens` | `Tokens` | none: a write with T11 that is rolled back |
//! | `Schema` | `Schema` | none: a schema change is `Anything` (T10) |
//! | `Everything` | every read | `Anything` |
//!
//! # Volatile reads
//!
//! The result of a volatile read may change while the graph stays. No write says when.
//!
//! | rule | part of the read | volatile |
//! |---|---|---|
//! | V1 | `rand()`, `randomUUID()`, `timestamp()`, `date.realtime()`, `file()`, … | always |
//! | V2 | `date(…)` and the other temporal functions, with `.truncate(…)` | unless the argument is certainly no clock; a parameter decides by its value |
//! | V3 | a function that is on no list of `crate::functions` | always |
//! | V4 | N8: procedures (full-text indexes may lag behind), `LOAD CSV`, `SHOW` beside N10, unknown constructs | always |
//!
//! Rights, the configuration, and an index that comes online (another order of rows) change results as well, and are in
//! no statement.
//!
//! # What "not touched" promises
//!
//! The old result is *a* valid result of the read after the write. Neo4j promises no order of rows without `ORDER BY`,
//! no order inside `collect()`, and does not promise which rows a `LIMIT` without a total order keeps; a write to other
//! labels can change them (reused storage, another plan). The rows that such a read may choose from are the same, so
//! its old result is still one that Neo4j could give, and stays. The same holds for ids of elements: a result has ids of
//! elements that were not deleted, since a deletion touches it.
//!
//! Not seen by these rules: triggers (APOC), and other code in the server that writes behind a statement; and rights that
//! depend on labels or properties (Enterprise), by which a write changes what a user may see in a read that does not name
//! them. The operator then sets `freshness.triggers`, and writes count as `Anything`.

/// What a read depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The set of all nodes.
    Nodes,
    /// Which nodes have the label.
    Label(String),
    /// Which labels the nodes of the read have.
    LabelsOfNodes,
    /// Which relationships of the type there are.
    Type(String),
    /// Which relationships there are.
    Relationships,
    /// The values of a property of nodes.
    NodeKey(String),
    /// All properties of the nodes of the read.
    NodeKeys,
    /// The values of a property of relationships.
    RelationshipKey(String),
    /// All properties of the relationships of the read.
    RelationshipKeys,
    /// Which labels, types and keys the database has.
    Tokens,
    /// Which constraints and indexes there are.
    Schema,
    /// Anything.
    Anything,
}

/// What a write does to the graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touch {
    /// A node comes.
    NodeCreated,
    /// A new node has the label.
    NewLabel(String),
    /// A new node has labels that are not known.
    NewAnyLabel,
    /// A node goes.
    NodeDeleted,
    /// A node that was there gets or loses the label.
    LabelChanged(String),
    /// A node that was there gets or loses labels that are not known.
    AnyLabelChanged,
    /// A relationship of the type comes or goes.
    Relationship(String),
    /// A relationship of a type that is not known comes or goes.
    AnyRelationship,
    /// The property of a node that was there changes.
    NodeKey(String),
    /// Properties of a node that was there change.
    AnyNodeKey,
    /// The property of a relationship that was there changes.
    RelationshipKey(String),
    /// Properties of a relationship that was there change.
    AnyRelationshipKey,
    /// Anything may change.
    Anything,
}

/// A name for which the database keeps a token from its first use on. Nodes and relationships share the tokens of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Token<'a> {
    /// A label.
    Label(&'a str),
    /// A relationship type.
    Type(&'a str),
    /// A property key.
    Key(&'a str),
}

/// A thing that a read watches and a write marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the table above says what each mark is for")]
pub enum Mark<'a> {
    Nodes,
    Label(&'a str),
    EveryLabel,
    LabelsOfNodes,
    Type(&'a str),
    EveryType,
    Relationships,
    NodeKey(&'a str),
    EveryNodeKey,
    NodeKeys,
    RelationshipKey(&'a str),
    EveryRelationshipKey,
    RelationshipKeys,
    Change,
    Tokens,
    Schema,
    Everything,
}

impl std::fmt::Display for Need {
    /// As people write it in Cypher: `:Person`, `[:KNOWS]`, `.name`.
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nodes => to.write_str("any node"),
            Self::Label(name) => write!(to, ":{name}"),
            Self::LabelsOfNodes => to.write_str("any label"),
            Self::Type(name) => write!(to, "[:{name}]"),
            Self::Relationships => to.write_str("any relationship"),
            Self::NodeKey(name) => write!(to, ".{name} of nodes"),
            Self::NodeKeys => to.write_str("any property of nodes"),
            Self::RelationshipKey(name) => write!(to, ".{name} of relationships"),
            Self::RelationshipKeys => to.write_str("any property of relationships"),
            Self::Tokens => to.write_str("new labels, types and keys"),
            Self::Schema => to.write_str("constraints and indexes"),
            Self::Anything => to.write_str("anything"),
        }
    }
}

impl Need {
    /// The marks that a read with this need watches. Every read also watches [`Mark::Everything`].
    #[must_use]
    pub fn marks(&self) -> Vec<Mark<'_>> {
        match self {
            Self::Nodes => vec![Mark::Nodes],
            Self::Label(name) => vec![Mark::Label(name), Mark::EveryLabel],
            Self::LabelsOfNodes => vec![Mark::LabelsOfNodes],
            Self::Type(name) => vec![Mark::Type(name), Mark::EveryType],
            Self::Relationships => vec![Mark::Relationships],
            Self::NodeKey(name) => vec![Mark::NodeKey(name), Mark::EveryNodeKey],
            Self::NodeKeys => vec![Mark::NodeKeys],
            Self::RelationshipKey(name) => vec![Mark::RelationshipKey(name), Mark::EveryRelationshipKey],
            Self::RelationshipKeys => vec![Mark::RelationshipKeys],
            Self::Tokens => vec![Mark::Tokens, Mark::Change],
            Self::Schema => vec![Mark::Schema],
            Self::Anything => vec![Mark::Change],
        }
    }
}

impl Touch {
    /// The marks that a write with this touch makes. Every touch also makes [`Mark::Change`].
    #[must_use]
    pub fn marks(&self) -> Vec<Mark<'_>> {
        match self {
            Self::NodeCreated => vec![Mark::Nodes],
            Self::NewLabel(name) => vec![Mark::Label(name)],
            Self::NewAnyLabel => vec![Mark::EveryLabel],
            Self::NodeDeleted => vec![Mark::Nodes, Mark::EveryLabel],
            Self::LabelChanged(name) => vec![Mark::Label(name), Mark::LabelsOfNodes],
            Self::AnyLabelChanged => vec![Mark::EveryLabel, Mark::LabelsOfNodes],
            Self::Relationship(name) => vec![Mark::Type(name), Mark::Relationships],
            Self::AnyRelationship => vec![Mark::EveryType, Mark::Relationships],
            Self::NodeKey(name) => vec![Mark::NodeKey(name), Mark::NodeKeys],
            Self::AnyNodeKey => vec![Mark::EveryNodeKey, Mark::NodeKeys],
            Self::RelationshipKey(name) => vec![Mark::RelationshipKey(name), Mark::RelationshipKeys],
            Self::AnyRelationshipKey => vec![Mark::EveryRelationshipKey, Mark::RelationshipKeys],
            Self::Anything => vec![Mark::Everything],
        }
    }
}
