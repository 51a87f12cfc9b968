//! Anchors: what a read depends on and what a write touches, told apart by the values of keys: a read of `(:User {id: 1})` and a
//! write to `(:User {id: 2})`. [`AnchoredRead::touched_by`] promises what [`crate::tags::ReadTags::touched_by`] promises.
//!
//! Two steps beyond tags. A need and a touch have a **constraint** for each node that they speak of: for some keys the classes
//! ([`class_of`]) that its value may have. A need and a touch that share a mark **meet**, unless some node separates them: for one key both
//! know the classes, and share none. No uniqueness of a key is used.
//!
//! # What a read needs
//!
//! An environment says for each variable what its nodes certainly have, from clause to clause. A name that a comprehension,
//! `reduce`, a list predicate or a projection inside of an expression binds anywhere in the text is not followed.
//!
//! | rule | construct | need |
//! |---|---|---|
//! | A1 | `{k: v}` in the pattern of a node; `n.k = v`, `v = n.k`, `n.k IN list`, `elementId(n) = v`, `id(n) = v`, if all of the `WHERE` of a `MATCH` or of the node's pattern implies it (`AND`, and nothing else around it) | the value of k is of the classes of v: a literal, a parameter, a part of one, an item of such a list by `UNWIND`, a variable that `WITH` binds to one of these |
//! | A2 | `OPTIONAL MATCH … WHERE` on a variable that was bound before | holds inside of this clause |
//! | A3 | `WITH n AS m`, `collect(n)`, `UNWIND ns AS m`, `CALL (n)`, a column of a subquery without `UNION` | the constraint goes with a value that can hold the elements of one variable only |
//! | A4 | patterns and subqueries in expressions | an environment of their own that begins with the outer one |
//! | R1, R2 | a label by which the pattern finds a node; a label elsewhere | `Label`, `LabelAt` of the node |
//! | R3 | a lone node without a label | `Nodes` of the node |
//! | R4 | a relationship between two nodes, one hop | its type, with its start and its end; without a direction both orders |
//! | R5 | `*`, `+`, `{n,m}`, groups, shortest paths | the type of any nodes |
//! | R6 | any relationship | `Detached` of each end |
//! | R7 | `n.k`, `{k: …}` | `NodeKey(k)` of the node. If k anchors the node: `KeyLost(k)`, a node that has such a value loses it, and `KeyGained(k)`, another one gets it |
//! | R8 | whole nodes, `properties(n)`, `keys(n)`, `labels(n)` | `NodeKeys`, `LabelsOfNodes` of the node |
//! | R9 | `r.k`, whole relationships | the key by type, with both ends |
//! | R10 | a variable that is not followed | no constraint |
//! | R11 | an end of a relationship that another need finds before | `ref`: a node that the write makes does not matter here |
//! | R12 | what the last `RETURN` reads of a node, without `UNION`, also by a map of before | the same, and the node is one that the result shows, if it shows which (`shown`) |
//!
//! # What a write touches
//!
//! | rule | construct | touch |
//! |---|---|---|
//! | W1 | `CREATE (n:A {…})` | `NodeCreated`, `NewLabel(A)` of a node that is made, with its whole map: a key that it does not have has no class |
//! | W2 | `MERGE (n:A {…})` | W1; behind it, and in `ON MATCH`, n is a node that the pattern has found. W1 alone if the counters show that each `MERGE` has made its nodes (`made`) |
//! | W3 | a new relationship | its type with both ends; a node that the statement makes is `fresh` |
//! | W4 | a bare variable in `CREATE` that is not followed | it may be bound: no constraint, not fresh |
//! | W5 | `SET n.k = v`, `n += map`, `REMOVE n.k` | `NodeKey(k)`, `KeyLost(k)`, `KeyGained(k)` |
//! | W6 | `SET n = map` | `AnyNodeKey`, `AnyKeyLost`; `AnyKeyGained` with the whole map |
//! | W7 | `DELETE n`, `DETACH DELETE n` | `NodeDeleted`, `Detached` of the node |
//! | W8, W10 | `DELETE r`, `SET r.k` | with both ends; both orders if the pattern had no direction |
//! | W9 | `SET n:A`, `REMOVE n:A` | `LabelChanged(A)` of the node; of a new one `NewLabel(A)` |
//! | W11 | a target that is not followed | no constraint |
//!
//! A key that the statement gives to *any* node has, for every node that it touches, the classes of the pattern and those that it
//! gives (`given`). Bounds ([`crate::tags::limits`]) widen: beyond one, a key or a node is not constrained.
//!
//! # Why that is enough
//!
//! Let a read have a match before the write that it has not after it. A match of which no constrained key changes loses a fact of a
//! node whose values the touch knows as they are: it meets the need of that fact. Otherwise take the first constrained key of the match
//! that the write changes. When the pattern of the write had found the node, no such key had changed, so `KeyLost` of this key covers the
//! values of all constrained keys: it meets the need. For a match that comes, take the last such change: `KeyGained` of that key covers
//! its final value, and for each other constrained key the value that it had when it was found or that the write gives.
//!
//! A node that the write makes is found by a match at a first position (`hops`), where its label, its existence or the relationship
//! that leads to it is new as well. So its touches may be left out where another need finds it before.
//!
//! # What the result shows
//!
//! `MATCH (:Room {id: $r})<-[:IN]-(m:Message)<-[:SENT]-(u:User) RETURN m, u` reads each property of each `u`. Its rows show which nodes these
//! are. So what the last `RETURN` alone reads has one more constraint: the value of a key k is one of S, those of the result's own nodes.
//! k is a key by which writes find nodes, so it is chosen when a result is judged (`showing`).
//!
//! Three kinds of reads have it.
//!
//! - *Whole nodes in a column.* A node is passed on as itself, whatever the expressions are: what is read of it is what the client gets, and
//!   these nodes are in the column. [`env`]'s `is_exact` says where a value may instead be made of a node (`point(n)`).
//! - *A variable*, each of whose nodes is in one of the result's rows: `n`, `n.id`, `n {.id, …}`, or one of these in a map, a list or
//!   `collect`. All that the last `RETURN` reads of it is read of these nodes, also by functions, aggregates and patterns. If `SKIP` or
//!   `LIMIT` hides rows, that holds of the items that choose no rows: not of those in `ORDER BY`, and of none with `DISTINCT` or an aggregate.
//! - *A map that an earlier clause has made of a node* (`WITH m {.id, .name} AS m RETURN collect(m)`), if nothing but the result depends on its
//!   values (`deferred`). Put a sign for the map in its place: the same rows come with the same signs, and only then the signs are values.
//!
//! Why that is enough. Let no touch of later writes meet a need. What the matches, filters, sort keys and groups read has no S, so the rows
//! before the last `RETURN` are the same nodes as before, and so are the rows that are shown. Let a write touch a fact of such a node z.
//! Some run has shown the value s of z. Either z had it before all writes that the run does not carry, or one of these gave it. In both
//! cases the first of these writes that changes k of z has a touch that covers s, and meets the need of k at S. So no write has changed it,
//! every touch of z covers s, and meets the need. A write that had found z by an earlier value, and was under way while z got s, counts by
//! `KeyGained` (`hopcache_core::write_position`), as for the values of the text.
//!
//! - The need of k has no constraint of another shown key. A run may show two values of two states, so that the change of the one hides
//!   behind the other. The keys of the text may stand beside it: they have needs without S.
//! - z is in the result also without the value. So a write that found it by another value changes the result, while the write that gave it
//!   this value may be unheard of. Only transactions up to which a node knows all are told apart (`with_shown`).
//! - A node without a value that has a class (no value, a list) could be any: then k tells nothing of this result. No node at all is no node:
//!   S is empty. But `n.id` is null for both, so it tells nothing.
//! - Two variables have two sets, even if a node is in both. A name that is not followed shows nothing.
//!
//! Several statements of a transaction: each is a write of its own, and their touches count together. A node that one has made is not
//! fresh in the next.
//!
//! ```
//! use hopcache_cypher::tags::anchored::{AnchoredRead, AnchoredWrite};
//!
//! let read = AnchoredRead::of("MATCH (u:User {id: 1})-[:FOLLOWS]->(f) RETURN u.name, f.name", &[0xa0]);
//! let touches = |write| read.touched_by(&AnchoredWrite::of(write, &[0xa0]));
//! assert!(touches("MATCH (u:User {id: 1}) SET u.name = 'Ada'"));
//! // It may be the `f` of the read.
//! assert!(touches("MATCH (u:User {id: 2}) SET u.name = 'Ada'"));
//! assert!(!touches("MATCH (a:User {id: 2}), (b:User {id: 1}) CREATE (a)-[:FOLLOWS]->(b)"));
//! assert!(touches("MATCH (a:User {id: 2}), (b:User {id: 1}) CREATE (a)<-[:FOLLOWS]-(b)"));
//! assert!(touches("MATCH (u:User {id: 2}) SET u.id = 1"));
//! ```

mod changes;
mod classes;
mod conflict;
mod deferred;
mod env;
mod foreign;
mod form;
mod given;
mod holds;
mod hops;
mod made;
mod mentioned;
mod needs;
mod shape;
mod showing;
mod shown;
mod sources;
mod told;
mod touches;

pub use classes::class_of;
pub use conflict::{AnchoredTouch, AnchoredWrite, Cover, Others, TouchFact};
pub use env::KeyRef;
pub use foreign::TouchedNodes;
pub use form::{ParamsForm, WriteForm};
pub use shape::{AnchoredNeed, AnchoredRead, BoundConstraint, NeedFact, NeedRole, ReadShape};
pub use showing::ShownNeeds;
pub use sources::Classes;
pub use told::label_pair;
