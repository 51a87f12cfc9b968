//! Labels, relationship types and property keys that a transaction may have made. Neo4j makes each at once, in a transaction of
//! its own: so they stay when the statement's transaction is rolled back (EXACT, section 1).
//!
//! The mark `TagId::TOKENS` ends reads that tell them: `CALL db.propertyKeys()`, and a result with a warning of an unknown label. A
//! COMMIT ends these too, by the mark of any change.

use std::sync::Arc;

use futures_util::future::join_all;
use hopcache_core::key::DatabaseTag;
use hopcache_core::tags::Touched;

use crate::model::ports::WriteOf;
use crate::writes::Writes;

/// A transaction that has sent a statement which may make some. Dropped, it counts as rolled back: its client has gone, or its
/// connection to Neo4j has.
#[must_use = "dropped, it counts as rolled back"]
pub struct MadeTokens {
    /// `None` when it has ended.
    open: Option<(Arc<Writes>, WriteOf)>,
}

impl Writes {
    /// A statement of an explicit transaction goes to Neo4j. `None` if it makes no label, type or key.
    pub fn may_make_tokens(self: &Arc<Self>, of: WriteOf) -> Option<MadeTokens> {
        let makes_none = self.lease_ms().is_none() || of.makes_no_tokens();
        (!makes_none).then(|| MadeTokens { open: Some((Arc::clone(self), of)) })
    }

    /// A transaction was rolled back: nothing but labels, types and keys may be new.
    pub(super) async fn end_tokens(self: &Arc<Self>, of: &WriteOf, name: DatabaseTag) {
        if of.makes_no_tokens() {
            return;
        }
        let of = WriteOf { touched: Touched::tokens(), ..of.clone() };
        if of.may_name_graph {
            self.tell_elsewhere(name, &of.touched).await;
        }
        self.ask_of_refused(&of, name).await;
    }

    /// A write that names its graph may have touched this in any database: Neo4j is asked about those that this node knows.
    pub(super) async fn tell_elsewhere(self: &Arc<Self>, own: DatabaseTag, touched: &Touched) {
        let others = self.watching.all().into_iter().filter(|(name, _)| *name != own);
        let told = others.map(|(name, of)| async move {
            let of = WriteOf { touched: touched.clone(), ..of };
            self.ask_of_refused(&of, name).await
        });
        join_all(told.collect::<Vec<_>>()).await;
    }
}

impl WriteOf {
    pub(super) fn makes_no_tokens(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.is_empty())
    }
}

impl MadeTokens {
    /// Its transaction is committed, and what it has written is told.
    pub fn committed(mut self) {
        self.open = None;
    }

    /// It is rolled back. Completes when no node in touch serves a read of labels, types and keys from before it.
    pub async fn rolled_back(mut self) {
        if let Some(told) = self.tell() {
            let _ = told.await;
        }
    }

    /// Its own task: the caller may be dropped at any await.
    fn tell(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let (writes, of) = self.open.take()?;
        let context = writes.context().clone();
        let name = DatabaseTag::of(&writes.hasher, &of.database);
        Some(context.spawn(async move { writes.end_tokens(&of, name).await }))
    }
}

impl Drop for MadeTokens {
    fn drop(&mut self) {
        let _ = self.tell();
    }
}
