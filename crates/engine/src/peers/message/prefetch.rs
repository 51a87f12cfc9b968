//! Orders of prefetches, one or several in a message, and orders to drop their unused copies. A node that does not know these questions refuses
//! them, and launches nothing.
//!
//! Like a question, an order contains the query's parts and the asking identity. The key is checked before it leads to
//! a run.

use bytes::Bytes;
use hopcache_core::key::{KeyHasher, QueryKey};
use hopcache_core::limits::ORDERS_IN_MESSAGE_MAX;
use hopcache_core::node::NodeName;
use hopcache_core::time::Millis;
use hopcache_learning::gain::CandidateKind;
use hopcache_learning::{FormId, PatternTag, QueryTag, SourceId};
use hopcache_packstream::{Reader, Writer};

use super::query::{read_query, write_query};
use super::{BadMessage, Head, KIND_FLUSH_WASTE, KIND_PREFETCH, KIND_PREFETCHES, VERSION};
use crate::model::order::{Launch, Order, OrderAnswer};
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

/// Writes orders for the owner of their keys, at most [`ORDERS_IN_MESSAGE_MAX`]. A single order has the kind that every
/// node knows.
#[must_use]
pub fn encode_prefetches(orders: &[Order]) -> Bytes {
    let orders = orders.get(..ORDERS_IN_MESSAGE_MAX).unwrap_or(orders);
    if let [order] = orders {
        return [&[VERSION, KIND_PREFETCH][..], &order_bytes(order)].concat().into();
    }
    let mut message = vec![VERSION, KIND_PREFETCHES];
    for order in orders {
        let bytes = order_bytes(order);
        message.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
        message.extend_from_slice(&bytes);
    }
    message.into()
}

fn order_bytes(order: &Order) -> Vec<u8> {
    let query = &order.query;
    let mut head = Vec::with_capacity(256 + query.statement.len() + query.params.len());
    head.extend_from_slice(&query.key.0);
    head.push(order.rendering.0);
    let (kind, tag) = match order.source {
        SourceId::Pattern(PatternTag(tag)) => (SOURCE_PATTERN, tag),
        SourceId::Query(QueryTag(tag)) => (SOURCE_QUERY, tag),
    };
    head.push(kind);
    head.extend_from_slice(&tag.to_be_bytes());
    head.extend_from_slice(&order.form.0.to_be_bytes());
    head.push(u8::try_from(order.kind.place()).unwrap_or(u8::MAX));
    head.extend_from_slice(&order.p.to_be_bytes());
    let mut writer = Writer::new();
    writer.string(order.by.as_str());
    write_query(&mut writer, query);
    head.extend_from_slice(&writer.into_bytes());
    head
}

/// Writes the answers to orders, in their order: five bytes each, of which an older node reads the first one.
#[must_use]
pub fn encode_order_answers(answers: &[OrderAnswer]) -> Bytes {
    let mut bytes = Vec::with_capacity(answers.len() * 5);
    for OrderAnswer { launch, fresh_ms } in answers {
        bytes.push(launch.to_byte());
        bytes.extend_from_slice(&u32::try_from(fresh_ms.0).unwrap_or(u32::MAX).to_be_bytes());
    }
    bytes.into()
}

/// Reads the answers to `count` orders. An older node answers one order with one byte.
///
/// # Errors
/// [`BadMessage`] if there are not as many.
pub fn decode_order_answers(bytes: &[u8], count: usize) -> Result<Vec<OrderAnswer>, BadMessage> {
    if let (&[byte], 1) = (bytes, count) {
        return Ok(vec![Launch::of_byte(byte).into()]);
    }
    let mut head = Head(bytes);
    let mut answers = Vec::with_capacity(count.min(ORDERS_IN_MESSAGE_MAX));
    for _ in 0..count {
        let launch = Launch::of_byte(head.byte()?);
        let fresh_ms = Millis(u32::from_be_bytes(head.take()?).into());
        answers.push(OrderAnswer { launch, fresh_ms });
    }
    head.end()?;
    Ok(answers)
}

/// Writes an order to drop unused prefetched copies.
#[must_use]
pub fn encode_flush_waste() -> Bytes {
    Bytes::from_static(&[VERSION, KIND_FLUSH_WASTE])
}

pub(super) fn read_orders(head: &mut Head<'_>, bytes: &Bytes) -> Result<Vec<SentOrder>, BadMessage> {
    let mut orders = Vec::new();
    while !head.0.is_empty() {
        if orders.len() >= ORDERS_IN_MESSAGE_MAX {
            return Err(BadMessage::Form("too many orders"));
        }
        let len = usize::try_from(u32::from_be_bytes(head.take()?)).unwrap_or(usize::MAX);
        let (order, rest) = head.0.split_at_checked(len).ok_or(BadMessage::Form("cut"))?;
        orders.push(read_order(&mut Head(order), bytes)?);
        head.0 = rest;
    }
    Ok(orders)
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
    let kind = CandidateKind::ALL.get(usize::from(head.byte()?)).copied();
    let kind = kind.ok_or(BadMessage::Form("kind of candidate"))?;
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
        let mut reader = Reader::new(&self.rest);
        let by = NodeName::new(reader.key()?).map_err(|_| BadMessage::Form("node"))?;
        let query = read_query(&mut reader, &self.rest, &self.key, (hasher, procedures))?;
        let Self { rendering, source, form, kind, p, .. } = *self;
        Ok(Order { query, rendering, source, form, kind, p, by })
    }
}
