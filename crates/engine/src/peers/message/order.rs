//! Orders of prefetches. Like a forwarded request, an order contains the query's parts and the asking identity. The key is checked
//! before it leads to a run.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::node::NodeName;
use hopcache_core::wire::{from_bytes, piece, to_bytes};
use hopcache_cypher::verdict::Allowed;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::{FormId, SourceId};
use serde::{Deserialize, Serialize};

use super::BadMessage;
use super::query::SentQuery;
use crate::model::ask::{Query, QueryParts};
use crate::model::order::Order;
use crate::model::rendering::RenderingId;

/// An order with its query unread: one that cannot be read refuses no other of its message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentOrder {
    /// The candidate's key, as the sender states it.
    key: QueryKey,
    rendering: RenderingId,
    source: SourceId,
    form: FormId,
    kind: CandidateKind,
    p: f64,
    steps_left: u8,
    by: NodeName,
    #[serde(with = "piece")]
    query: Bytes,
}

impl SentOrder {
    /// An order for the owner of its key.
    #[must_use]
    pub fn of(order: &Order) -> Self {
        let Order { ref query, rendering, source, form, kind, p, steps_left, ref by } = *order;
        let sent = to_bytes(&SentQuery::of(query)).into();
        Self { key: query.key, rendering, source, form, kind, p, steps_left, by: by.clone(), query: sent }
    }

    /// The candidate's key, as the sender states it.
    #[must_use]
    pub fn key(&self) -> &QueryKey {
        &self.key
    }

    /// Reads the order.
    ///
    /// # Errors
    /// [`BadMessage`], in particular [`BadMessage::Key`] when the key is not the query's.
    pub fn read(&self, hasher: &KeyHasher, allowed: &Allowed) -> Result<Order, BadMessage> {
        self.read_by(|parts| Query::read(parts, hasher, allowed))
    }

    /// As [`SentOrder::read`]; `read` makes the query of its parts.
    pub(crate) fn read_by(&self, read: impl FnOnce(QueryParts) -> Query) -> Result<Order, BadMessage> {
        let Self { key, rendering, source, form, kind, p, steps_left, ref by, .. } = *self;
        if !(0.0..=1.0).contains(&p) {
            return Err(BadMessage::Form("probability"));
        }
        // Copied: a slice would keep the credentials alive for as long as this order runs.
        let query = read(from_bytes::<SentQuery<'_>>(&self.query)?.parts(Bytes::copy_from_slice));
        if query.key != key {
            return Err(BadMessage::Key);
        }
        Ok(Order { query: Arc::new(query), rendering, source, form, kind, p, steps_left, by: by.clone() })
    }
}
