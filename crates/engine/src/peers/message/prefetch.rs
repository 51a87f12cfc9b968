//! Orders of prefetches, and orders to drop their unused copies. A node that does not know these questions refuses
//! them, and launches nothing.
//!
//! Like a question, an order contains the query's parts and the asking identity. The key is checked before it leads to
//! a run.

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::limits::ORDERS_IN_MESSAGE_MAX;
use hopcache_core::node::NodeName;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::{FormId, PatternTag, QueryTag, SourceId};
use hopcache_packstream::{Reader, Writer};

use super::query::{read_query, write_query};
use super::{BadMessage, Head, KIND_FLUSH_WASTE, KIND_ORDERS, KIND_PREFETCH, VERSION};
use crate::model::ask::{Query, QueryParts};
use crate::model::order::{Launch, Order};
use crate::model::rendering::RenderingId;

const SOURCE_PATTERN: u8 = 0;
const SOURCE_QUERY: u8 = 1;

/// The head of an order, and the unread rest.
#[derive(Debug, Clone)]
pub struct SentOrder {
    /// The candidate's key, as the sender states it.
    key: QueryKey,
    rendering: RenderingId,
    source: SourceId,
    form: FormId,
    kind: CandidateKind,
    p: f64,
    rest: Bytes,
}

/// Writes an order for the owner of its key.
#[must_use]
pub fn encode_prefetch(order: &Order) -> Bytes {
    let query = &order.query;
    let mut head = Vec::with_capacity(256 + query.statement.len() + query.params.len());
    head.extend_from_slice(&[VERSION, KIND_PREFETCH]);
    head.extend_from_slice(&query.key.0);
    head.push(order.rendering.0);
    let (kind, tag) = match order.source {
        SourceId::Pattern(PatternTag(tag)) => (SOURCE_PATTERN, tag),
        SourceId::Query(QueryTag(tag)) => (SOURCE_QUERY, tag),
    };
    head.push(kind);
    head.extend_from_slice(&tag.to_be_bytes());
    head.extend_from_slice(&order.form.0.to_be_bytes());
    head.push(order.kind.to_byte());
    head.extend_from_slice(&order.p.to_be_bytes());
    let mut writer = Writer::new();
    writer.string(order.by.as_str());
    write_query(&mut writer, query);
    head.extend_from_slice(&writer.into_bytes());
    head.into()
}

/// Writes orders for the owner of their keys, at most [`ORDERS_IN_MESSAGE_MAX`]. Each is written as a message of its own.
#[must_use]
pub fn encode_orders(orders: &[Order]) -> Bytes {
    let mut bytes = vec![VERSION, KIND_ORDERS];
    for order in orders.iter().take(ORDERS_IN_MESSAGE_MAX) {
        let encoded = encode_prefetch(order);
        bytes.extend_from_slice(&u32::try_from(encoded.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(&encoded);
    }
    bytes.into()
}

/// Reads orders, each for itself: one that this version cannot read refuses no other.
pub(super) fn read_orders(
    head: &mut Head<'_>,
    bytes: &Bytes,
) -> Result<Vec<Result<SentOrder, BadMessage>>, BadMessage> {
    let mut orders = Vec::new();
    while !head.0.is_empty() {
        let len = usize::try_from(u32::from_be_bytes(head.take()?)).unwrap_or(usize::MAX);
        let (encoded, rest) = head.0.split_at_checked(len).ok_or(BadMessage::Form("cut"))?;
        head.0 = rest;
        if orders.len() >= ORDERS_IN_MESSAGE_MAX {
            return Err(BadMessage::Form("orders"));
        }
        orders.push(read_one_of_orders(&bytes.slice_ref(encoded)));
    }
    Ok(orders)
}

fn read_one_of_orders(encoded: &Bytes) -> Result<SentOrder, BadMessage> {
    let mut order = Head(encoded);
    if order.take()? != [VERSION, KIND_PREFETCH] {
        return Err(BadMessage::Form("orders"));
    }
    read_order(&mut order, encoded)
}

/// Writes the answer to orders: what became of each at once.
#[must_use]
pub fn encode_launches(launches: impl Iterator<Item = Launch>) -> Bytes {
    launches.map(Launch::to_byte).collect::<Vec<u8>>().into()
}

/// Reads the answer to `count` orders.
///
/// # Errors
/// [`BadMessage`] if it is not as many.
pub fn decode_launches(answer: &[u8], count: usize) -> Result<Vec<Launch>, BadMessage> {
    let launches: Vec<Launch> = answer.iter().map(|byte| Launch::of_byte(*byte)).collect();
    if launches.len() == count { Ok(launches) } else { Err(BadMessage::Form("as many launches as orders")) }
}

/// Writes an order to drop unused prefetched copies.
#[must_use]
pub fn encode_flush_waste() -> Bytes {
    Bytes::from_static(&[VERSION, KIND_FLUSH_WASTE])
}

pub(super) fn read_order(head: &mut Head<'_>, bytes: &Bytes) -> Result<SentOrder, BadMessage> {
    let key = QueryKey(head.take()?);
    let rendering = RenderingId(head.byte()?);
    let (kind, tag) = (head.byte()?, u64::from_be_bytes(head.take()?));
    let source = match kind {
        SOURCE_PATTERN => SourceId::Pattern(PatternTag(tag)),
        SOURCE_QUERY => SourceId::Query(QueryTag(tag)),
        _ => return Err(BadMessage::Form("source")),
    };
    let form = FormId(u64::from_be_bytes(head.take()?));
    let kind = CandidateKind::of_byte(head.byte()?).ok_or(BadMessage::Form("kind of candidate"))?;
    let p = f64::from_be_bytes(head.take()?);
    if !(0.0..=1.0).contains(&p) {
        return Err(BadMessage::Form("probability"));
    }
    Ok(SentOrder { key, rendering, source, form, kind, p, rest: bytes.slice_ref(head.0) })
}

impl SentOrder {
    /// The candidate's key, as the sender states it.
    #[must_use]
    pub fn key(&self) -> &QueryKey {
        &self.key
    }

    /// Reads the rest.
    ///
    /// # Errors
    /// [`BadMessage`], in particular [`BadMessage::Key`] when the key is not the query's.
    pub fn read(&self, hasher: &KeyHasher, procedures: &[String]) -> Result<Order, BadMessage> {
        self.read_by(|parts| Query::read(parts, hasher, procedures))
    }

    /// As [`SentOrder::read`]; `read` makes the query of its parts.
    pub(crate) fn read_by(&self, read: impl FnOnce(QueryParts) -> Query) -> Result<Order, BadMessage> {
        let mut reader = Reader::new(&self.rest);
        let by = NodeName::new(reader.key()?).map_err(|_| BadMessage::Form("node"))?;
        // Copied: a slice would keep the whole message alive for as long as this order runs, with the credentials of
        // all its orders.
        let read =
            |parts: QueryParts| read(QueryParts { params: Bytes::copy_from_slice(&parts.params), ..parts });
        let query = read_query(&mut reader, &self.rest, &self.key, read)?;
        let Self { rendering, source, form, kind, p, .. } = *self;
        Ok(Order { query, rendering, source, form, kind, p, by })
    }
}
