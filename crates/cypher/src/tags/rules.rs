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
//! | N2 | a label in a pattern, also behind `!`, of a node that the pattern finds by itself: `(n:A)`, `(n:A)-[:R*0..]-(m)` | `Label(A)` |
//! | N2 | a label elsewhere: beside a relationship that cannot be absent, of a variable that is bound already, in a predicate | `LabelAt(A)` |
//! | N3 | `labels(n)`, `%`, `$(…)`, a whole node in the result | `LabelsOfNodes` |
//! | N4 | a relationship type in a pattern | `Type(R)`, `Detached` |
//! | N5 | a relationship without a type, or with `!R`, `%` or `$(…)` | `Relationships`, `Detached` |
//! | N6 | `n.key`, `{key: …}` in a pattern, `n['key']`, `n {.key}` | `NodeKey(key)`, `RelationshipKeyOf(R, key)`, `RelationshipKey(key)`, by the kinds and types that `n` may have |
//! | N7 | `properties(n)`, `keys(n)`, `n[$key]`, `n {.*}`, a whole element in the result | `NodeKeys`, `RelationshipKeysOf(R)`, `RelationshipKeys` |
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
//! The clauses of Cypher 25 read what their expressions and patterns read: `FILTER` as `WHERE`, `LET` as `WITH *, …`, `FOR` as `UNWIND`,
//! `ORDER BY` and `LIMIT` by themselves as behind `WITH *`, `GROUP BY` as more items, a case of `WHEN` and a query in braces as a query
//! of its own. Behind `NEXT` no variable counts as one that an earlier clause has bound.
//!
//! `LabelAt(A)` asks less than `Label(A)`. A node that comes or goes is in a match only with a relationship of its own, which comes or
//! goes with it (N4, N5), or by another need of the same node (N1, or `Label`): nodes that come or go do not touch it. Only the labels
//! of nodes that were there, and stay, do.
//!
//! # What a write does
//!
//! | rule | part of the write | touch | narrowed by the counter |
//! |---|---|---|---|
//! | T1 | `CREATE (n:A {x: 1})`, `MERGE` | `NodeCreated`, `NewLabel(A)` | `nodes-created` |
//! | T2 | `CREATE ()-[:R {x: 1}]->()`, `MERGE` | `Relationship(R)` | `relationships-created` |
//! | T3 | `DELETE n` | `NodeDeleted` | `nodes-deleted` |
//! | T4 | `DELETE r`; `DETACH DELETE n` | `Relationship(R)`, `AnyRelationship`; `Detached` | `relationships-deleted` |
//! | T5 | `SET n:A`, `REMOVE n:A` | `LabelChanged(A)` | `labels-added`, `labels-removed` |
//! | T6 | `SET n.x = …`, `REMOVE n.x`, `SET n += {x: …}` | `NodeKey(x)`, `RelationshipKeyOf(R, x)`, `RelationshipKey(x)`, by the kinds and types of `n` | `properties-set` |
//! | T7 | `SET n = …`, `SET n += …` with unknown keys, `SET n[…]` | `AnyNodeKey`, `AnyRelationshipKeyOf(R)`, `AnyRelationshipKey` | `properties-set` |
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
//! A relationship has one type, which never changes. So a property of `[:R]` and one of `[:S]` are two things. An element of which
//! the text allows more than eight types counts as one of any type.
//!
//! # Marks
//!
//! | mark | needs with it | touches with it |
//! |---|---|---|
//! | `Nodes` | `Nodes` | `NodeCreated`, `NodeDeleted` |
//! | `Label(A)` | `Label(A)` | `NewLabel(A)`, `LabelChanged(A)` |
//! | `EveryLabel` | `Label(…)` | `NewAnyLabel`, `AnyLabelChanged`, `NodeDeleted` |
//! | `LabelAt(A)` | `LabelAt(A)` | `LabelChanged(A)` |
//! | `EveryLabelAt` | `LabelAt(…)` | `AnyLabelChanged` |
//! | `LabelsOfNodes` | `LabelsOfNodes` | `LabelChanged(…)`, `AnyLabelChanged` |
//! | `Type(R)` | `Type(R)` | `Relationship(R)` |
//! | `EveryType` | `Type(…)` | `AnyRelationship` |
//! | `Relationships` | `Relationships` | `Relationship(…)`, `AnyRelationship` |
//! | `Detached` | `Detached` | `Detached` |
//! | `NodeKey(k)` | `NodeKey(k)` | `NodeKey(k)` |
//! | `EveryNodeKey` | `NodeKey(…)` | `AnyNodeKey` |
//! | `NodeKeys` | `NodeKeys` | every touch of a node's key |
//! | `KeyLost(k)`, `EveryKeyLost`, `KeyGained(k)`, `EveryKeyGained` | of [`crate::tags::anchored`] alone | the same |
//! | `RelationshipKeyOf(R, k)` | `RelationshipKeyOf(R, k)` | `RelationshipKeyOf(R, k)` |
//! | `RelationshipKeyOfEvery(k)` | `RelationshipKeyOf(…, k)` | `RelationshipKey(k)` |
//! | `EveryRelationshipKeyOf(R)` | `RelationshipKeyOf(R, …)` | `AnyRelationshipKeyOf(R)` |
//! | `EveryRelationshipKeyOfEvery` | `RelationshipKeyOf(…, …)` | `AnyRelationshipKey` |
//! | `RelationshipKey(k)` | `RelationshipKey(k)` | `RelationshipKeyOf(…, k)`, `RelationshipKey(k)` |
//! | `EveryRelationshipKey` | `RelationshipKey(…)` | `AnyRelationshipKeyOf(…)`, `AnyRelationshipKey` |
//! | `RelationshipKeysOf(R)` | `RelationshipKeysOf(R)` | `RelationshipKeyOf(R, …)`, `AnyRelationshipKeyOf(R)` |
//! | `RelationshipKeysOfEvery` | `RelationshipKeysOf(…)` | `RelationshipKey(…)`, `AnyRelationshipKey` |
//! | `RelationshipKeys` | `RelationshipKeys` | every touch of a relationship's key |
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
    /// Which of the nodes that something else finds have the label.
    LabelAt(String),
    /// Which labels the nodes of the read have.
    LabelsOfNodes,
    /// Which relationships of the type there are.
    Type(String),
    /// Which relationships there are.
    Relationships,
    /// Which relationships go with their nodes.
    Detached,
    /// The values of a property of nodes.
    NodeKey(String),
    /// All properties of the nodes of the read.
    NodeKeys,
    /// The values of a property of relationships of any type: the key.
    RelationshipKey(String),
    /// The values of a property of relationships of a type: the type, and the key.
    RelationshipKeyOf(String, String),
    /// All properties of the relationships of the read, which may have any type.
    RelationshipKeys,
    /// All properties of the relationships of the read, which have the type.
    RelationshipKeysOf(String),
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
    /// A node goes, and all of its relationships with it.
    Detached,
    /// The property of a node that was there changes.
    NodeKey(String),
    /// Properties of a node that was there change.
    AnyNodeKey,
    /// The property of a relationship that was there changes; its type is not known.
    RelationshipKey(String),
    /// The property of a relationship of a type, which was there, changes: the type, and the key.
    RelationshipKeyOf(String, String),
    /// Properties of a relationship that was there change; its type is not known.
    AnyRelationshipKey,
    /// Properties of a relationship of the type, which was there, change.
    AnyRelationshipKeyOf(String),
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
pub enum TagSubject<'a> {
    Nodes,
    Label(&'a str),
    EveryLabel,
    LabelAt(&'a str),
    EveryLabelAt,
    LabelsOfNodes,
    Type(&'a str),
    EveryType,
    Relationships,
    Detached,
    NodeKey(&'a str),
    EveryNodeKey,
    NodeKeys,
    KeyLost(&'a str),
    EveryKeyLost,
    KeyGained(&'a str),
    EveryKeyGained,
    RelationshipKey(&'a str),
    RelationshipKeyOf(&'a str, &'a str),
    RelationshipKeyOfEvery(&'a str),
    EveryRelationshipKey,
    EveryRelationshipKeyOf(&'a str),
    EveryRelationshipKeyOfEvery,
    RelationshipKeys,
    RelationshipKeysOf(&'a str),
    RelationshipKeysOfEvery,
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
            Self::Label(name) | Self::LabelAt(name) => write!(to, ":{name}"),
            Self::LabelsOfNodes => to.write_str("any label"),
            Self::Type(name) => write!(to, "[:{name}]"),
            Self::Relationships => to.write_str("any relationship"),
            Self::Detached => to.write_str("relationships of deleted nodes"),
            Self::NodeKey(name) => write!(to, ".{name} of nodes"),
            Self::NodeKeys => to.write_str("any property of nodes"),
            Self::RelationshipKey(name) => write!(to, ".{name} of relationships"),
            Self::RelationshipKeyOf(of, name) => write!(to, ".{name} of [:{of}]"),
            Self::RelationshipKeys => to.write_str("any property of relationships"),
            Self::RelationshipKeysOf(of) => write!(to, "any property of [:{of}]"),
            Self::Tokens => to.write_str("new labels, types and keys"),
            Self::Schema => to.write_str("constraints and indexes"),
            Self::Anything => to.write_str("anything"),
        }
    }
}

impl Need {
    /// The label of [`Need::Label`].
    pub(crate) const fn found_label(&self) -> Option<&String> {
        if let Self::Label(name) = self { Some(name) } else { None }
    }

    /// The marks that a read with this need watches. Every read also watches [`TagSubject::Everything`].
    #[must_use]
    pub fn marks(&self) -> Vec<TagSubject<'_>> {
        match self {
            Self::Nodes => vec![TagSubject::Nodes],
            Self::Label(name) => vec![TagSubject::Label(name), TagSubject::EveryLabel],
            Self::LabelAt(name) => vec![TagSubject::LabelAt(name), TagSubject::EveryLabelAt],
            Self::LabelsOfNodes => vec![TagSubject::LabelsOfNodes],
            Self::Type(name) => vec![TagSubject::Type(name), TagSubject::EveryType],
            Self::Relationships => vec![TagSubject::Relationships],
            Self::Detached => vec![TagSubject::Detached],
            Self::NodeKey(name) => vec![TagSubject::NodeKey(name), TagSubject::EveryNodeKey],
            Self::NodeKeys => vec![TagSubject::NodeKeys],
            Self::RelationshipKey(name) => {
                vec![TagSubject::RelationshipKey(name), TagSubject::EveryRelationshipKey]
            }
            Self::RelationshipKeyOf(of, name) => vec![
                TagSubject::RelationshipKeyOf(of, name),
                TagSubject::RelationshipKeyOfEvery(name),
                TagSubject::EveryRelationshipKeyOf(of),
                TagSubject::EveryRelationshipKeyOfEvery,
            ],
            Self::RelationshipKeys => vec![TagSubject::RelationshipKeys],
            Self::RelationshipKeysOf(of) => {
                vec![TagSubject::RelationshipKeysOf(of), TagSubject::RelationshipKeysOfEvery]
            }
            Self::Tokens => vec![TagSubject::Tokens, TagSubject::Change],
            Self::Schema => vec![TagSubject::Schema],
            Self::Anything => vec![TagSubject::Change],
        }
    }
}

impl Touch {
    /// Bytes of the names in it.
    pub(super) fn name_bytes(&self) -> usize {
        match self {
            Self::NewLabel(name)
            | Self::LabelChanged(name)
            | Self::Relationship(name)
            | Self::NodeKey(name)
            | Self::RelationshipKey(name)
            | Self::AnyRelationshipKeyOf(name) => name.len(),
            Self::RelationshipKeyOf(of, name) => of.len() + name.len(),
            Self::NodeCreated
            | Self::NewAnyLabel
            | Self::NodeDeleted
            | Self::AnyLabelChanged
            | Self::AnyRelationship
            | Self::Detached
            | Self::AnyNodeKey
            | Self::AnyRelationshipKey
            | Self::Anything => 0,
        }
    }

    /// The marks that a write with this touch makes. Every touch also makes [`TagSubject::Change`].
    #[must_use]
    pub fn marks(&self) -> Vec<TagSubject<'_>> {
        match self {
            Self::NodeCreated => vec![TagSubject::Nodes],
            Self::NewLabel(name) => vec![TagSubject::Label(name)],
            Self::NewAnyLabel => vec![TagSubject::EveryLabel],
            Self::NodeDeleted => vec![TagSubject::Nodes, TagSubject::EveryLabel],
            Self::LabelChanged(name) => {
                vec![TagSubject::Label(name), TagSubject::LabelAt(name), TagSubject::LabelsOfNodes]
            }
            Self::AnyLabelChanged => {
                vec![TagSubject::EveryLabel, TagSubject::EveryLabelAt, TagSubject::LabelsOfNodes]
            }
            Self::Relationship(name) => vec![TagSubject::Type(name), TagSubject::Relationships],
            Self::AnyRelationship => vec![TagSubject::EveryType, TagSubject::Relationships],
            Self::Detached => vec![TagSubject::Detached],
            Self::NodeKey(name) => vec![TagSubject::NodeKey(name), TagSubject::NodeKeys],
            Self::AnyNodeKey => vec![TagSubject::EveryNodeKey, TagSubject::NodeKeys],
            Self::RelationshipKeyOf(of, name) => vec![
                TagSubject::RelationshipKeyOf(of, name),
                TagSubject::RelationshipKey(name),
                TagSubject::RelationshipKeysOf(of),
                TagSubject::RelationshipKeys,
            ],
            Self::RelationshipKey(name) => vec![
                TagSubject::RelationshipKeyOfEvery(name),
                TagSubject::RelationshipKey(name),
                TagSubject::RelationshipKeysOfEvery,
                TagSubject::RelationshipKeys,
            ],
            Self::AnyRelationshipKeyOf(of) => vec![
                TagSubject::EveryRelationshipKeyOf(of),
                TagSubject::EveryRelationshipKey,
                TagSubject::RelationshipKeysOf(of),
                TagSubject::RelationshipKeys,
            ],
            Self::AnyRelationshipKey => vec![
                TagSubject::EveryRelationshipKeyOfEvery,
                TagSubject::EveryRelationshipKey,
                TagSubject::RelationshipKeysOfEvery,
                TagSubject::RelationshipKeys,
            ],
            Self::Anything => vec![TagSubject::Everything],
        }
    }
}
