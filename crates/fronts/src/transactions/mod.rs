//! Transactions that a node holds open for its clients between their requests. Fronts of a protocol without
//! connections use this room: a transaction over HTTP is a name in a path. A Bolt client's transaction is a part of its
//! session, and shares [`lazy_begin`] only.
//!
//! | file | decides |
//! |---|---|
//! | `lazy_begin` | what BEGIN says when it reaches Neo4j at last |
//! | `id` | the name of a transaction: the node that holds it, and a secret |
//! | `held` | one transaction: its statements at Neo4j, its end |
//! | `open` | which transactions are open, who may use them, until when, and how many |
//!
//! Nothing here knows a protocol of clients, and nothing here asks another node.

pub(crate) mod held;
pub(crate) mod id;
pub(crate) mod lazy_begin;
pub(crate) mod open;

pub(crate) use held::HeldTransaction;
pub(crate) use id::TransactionId;
pub use open::{InUse, OpenTransactions, TransactionRefusal};
