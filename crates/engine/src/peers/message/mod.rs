//! Messages between nodes about queries: bytes in, bytes out, no sockets.
//!
//! Every message begins with the wire version ([`WIRE_VERSION`]). A message of another version is refused, never guessed at (F10).
//! A question goes on with its kind. A forwarded request opens with a fixed head, so that the owner finds a hit without reading
//! the rest; all other questions and all answers are values of serde and postcard.
//!
//! The transport provides authenticity and secrecy: these bytes contain credentials.

mod asked;
mod moved;
mod observed;
mod order;
mod query;
mod reply;

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::bookmark::DatabaseUuid;
use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::limits::{
    COUNTED_TOLD_MAX, EVENTS_IN_MESSAGE_MAX, FIELDS_ANSWER_BYTES_MAX, FIELDS_ASKED_MAX, HANDOVER_PLANS_MAX,
    ORDERS_IN_MESSAGE_MAX, WRITTEN_RECORDS_MAX,
};
use hopcache_core::node::Holder;
use hopcache_core::proof::{CountedWrite, IdRange, SettledIds};
use hopcache_core::ring::RingEpoch;
use hopcache_core::tags::TouchedTags;
use hopcache_core::wire::{BadForm, WIRE_VERSION, append, at_most, from_bytes, piece};
use hopcache_core::write_position::{WriteEvent, WriteRecord};
use hopcache_learning::fields::Fields;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::model::inspection::KeyPlan;
use crate::model::order::Launch;
use crate::model::ports::{CursorDigest, Scope};

pub use asked::{ForwardedAsk, encode_ask};
pub use moved::{FormerAnswer, MovedValue, decode_moved, encode_moved};
pub use observed::{Observation, ObservationBatch, ObservedQuery, observed_pages};
pub use order::SentOrder;
pub use query::{FactsOf, Lexicon};
pub use reply::{Reply, decode_reply, encode_reply};

/// The kind of a forwarded request. postcard gives the other kinds of [`Question`] numbers from 0.
const KIND_ASK: u8 = 63;

/// The kind of questions that fronts of different nodes ask each other. The engine refuses it.
pub const KIND_OF_FRONTS: u8 = 64;

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// A message of another version of this program.
    #[error("wire version {0}, this node speaks {WIRE_VERSION}")]
    Version(u8),
    /// Not a message of ours.
    #[error("not a message: {0}")]
    Form(&'static str),
    /// Not a value of the kind that it says.
    #[error("not a message: {0}")]
    Value(#[from] BadForm),
    /// The key does not belong to the query: the two nodes derive keys differently.
    #[error(
        "the key does not belong to the query: check that all nodes have the same cluster key and version"
    )]
    Key,
}

/// A question from a peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Question {
    /// Forget. The answer is the number of copies.
    Purge(Scope),
    /// Asks for the state of memory and flights for a key. The answer is an [`Inspection`](crate::inspection::Inspection).
    Inspect(QueryKey),
    /// The value of a key that the asker owns now. The answer is a [`FormerAnswer`].
    Wanted {
        /// The key.
        key: QueryKey,
        /// How much of the invalidation log the asker has read.
        log: CursorDigest,
        /// The asker's ring.
        ring: RingEpoch,
    },
    /// A leaving node's facts of keys that the asked node will own. The answer is the number of keys.
    Plans(#[serde(deserialize_with = "at_most::<_, _, HANDOVER_PLANS_MAX>")] Vec<(QueryKey, KeyPlan)>),
    /// Answered requests of sessions that the asked node owns. The answer is empty.
    Observed(ObservationBatch),
    /// The fields of the results of these keys. The answer has as many ([`encode_fields`]).
    Fields(#[serde(deserialize_with = "at_most::<_, _, FIELDS_ASKED_MAX>")] Vec<QueryKey>),
    /// Asks for the differences of lessons from this digest. The answer is a page, or empty.
    Pull(#[serde(with = "piece")] Bytes),
    /// Prefetches, for the owner of their keys. The answer has as many launches.
    Orders(#[serde(deserialize_with = "at_most::<_, _, ORDERS_IN_MESSAGE_MAX>")] Vec<SentOrder>),
    /// Drop prefetched copies that were not used. The answer is the number of copies.
    FlushWaste,
    /// These databases have been written so far. The answer is [`KnownWrites`] of the same names.
    Written(WriteNews),
    /// Asks what the node has written into a database, as far as it concerns these ids. The answer is the node with its tally.
    Tally(DatabaseTag, IdRange),
    /// A write is about to begin. The answer comes when the node has asked for what will keep results of its own.
    Coming(ComingWrite),
    /// A client's request, forwarded. The answer is a [`Reply`]. [`encode_ask`] writes it, and serde does not know it: so it is
    /// the last one here.
    #[serde(skip)]
    Ask(ForwardedAsk),
}

/// Plain data: what a node tells of writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteNews {
    /// Its own writes, or where it does not keep them one by one any more, the marks that they have left.
    #[serde(deserialize_with = "at_most::<_, _, EVENTS_IN_MESSAGE_MAX>")]
    pub events: Vec<WriteEvent>,
    /// The node, in its life.
    pub by: Holder,
    /// Writes of this life, each with a mark here or in an earlier telling.
    #[serde(deserialize_with = "at_most::<_, _, COUNTED_TOLD_MAX>")]
    pub counted: Vec<CountedWrite>,
    /// What the node has settled, if it has. Of the writes in it each node in touch has heard before.
    pub settled: Option<SettledIds>,
}

/// Plain data: a write that is about to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComingWrite {
    /// The name of its database.
    pub name: DatabaseTag,
    /// Its database.
    pub database: DatabaseUuid,
    /// What it may touch.
    pub touched: TouchedTags,
}

/// Plain data: the marks that a node knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownWrites(
    #[serde(deserialize_with = "at_most::<_, _, WRITTEN_RECORDS_MAX>")] pub Vec<WriteRecord>,
);

/// Plain data: the answer to orders, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launches(#[serde(deserialize_with = "at_most::<_, _, ORDERS_IN_MESSAGE_MAX>")] pub Vec<Launch>);

/// The bytes of any question but a forwarded request.
#[must_use]
pub fn encode_question(question: &Question) -> Bytes {
    encode_answer(question)
}

/// Reads a question.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such message of this version.
pub fn decode_question(bytes: &Bytes) -> Result<Question, BadMessage> {
    match body_of(bytes)? {
        [KIND_ASK, head @ ..] => asked::read_ask(head, bytes).map(Question::Ask),
        body => Ok(from_bytes(body)?),
    }
}

/// Whether it is a client's request, which is a hit in most cases. Any other question may take a worker longer (a purge walks through
/// memory).
#[must_use]
pub fn is_forwarded(question: &[u8]) -> bool {
    matches!(question, [WIRE_VERSION, KIND_ASK, ..])
}

/// The bytes of an answer.
#[must_use]
pub fn encode_answer<T: Serialize + ?Sized>(answer: &T) -> Bytes {
    encode_sized(answer, 0)
}

/// The bytes of an answer that takes about so many.
#[must_use]
pub fn encode_sized<T: Serialize + ?Sized>(answer: &T, about_bytes: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(1 + about_bytes);
    bytes.push(WIRE_VERSION);
    append(bytes, answer).into()
}

/// Reads an answer.
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_answer<T: DeserializeOwned>(answer: &Bytes) -> Result<T, BadMessage> {
    Ok(from_bytes(body_of(answer)?)?)
}

/// The answer to a question for fields, in the order of its keys. Fields beyond [`FIELDS_ANSWER_BYTES_MAX`] in total are left out.
#[must_use]
pub fn encode_fields(fields: impl Iterator<Item = Option<Arc<Fields>>>) -> Bytes {
    let mut bytes = 0;
    let mut fits = |encoded: &Vec<u8>| {
        let is_room = bytes + encoded.len() <= FIELDS_ANSWER_BYTES_MAX;
        bytes += if is_room { encoded.len() } else { 0 };
        is_room
    };
    let encoded = fields.map(|fields| fields.map(|fields| fields.encode()).filter(&mut fits).map(SentFields));
    encode_answer(&FieldsAnswer(encoded.collect()))
}

/// Reads [`encode_fields`].
///
/// # Errors
/// [`BadMessage`] if the bytes are no such answer of this version.
pub fn decode_fields(answer: &Bytes) -> Result<Vec<Option<Fields>>, BadMessage> {
    let FieldsAnswer(fields) = decode_answer(answer)?;
    Ok(fields.into_iter().map(|fields| fields.and_then(|fields| Fields::decode(&fields.0))).collect())
}

#[derive(Serialize, Deserialize)]
struct FieldsAnswer(#[serde(deserialize_with = "at_most::<_, _, FIELDS_ASKED_MAX>")] Vec<Option<SentFields>>);

/// Fields, as they encode themselves.
#[derive(Serialize, Deserialize)]
struct SentFields(#[serde(with = "piece")] Vec<u8>);

/// The page of a pull's answer; empty for a node that does not share.
///
/// # Errors
/// [`BadMessage`] if it is of another version.
pub fn decode_page(answer: &Bytes) -> Result<Bytes, BadMessage> {
    body_of(answer).map(|page| answer.slice_ref(page))
}

/// The answer to a pull.
#[must_use]
pub fn encode_page(page: &[u8]) -> Bytes {
    [&[WIRE_VERSION], page].concat().into()
}

/// What stands behind the version.
fn body_of(bytes: &[u8]) -> Result<&[u8], BadMessage> {
    match bytes {
        [WIRE_VERSION, body @ ..] => Ok(body),
        [other, ..] => Err(BadMessage::Version(*other)),
        [] => Err(BadMessage::Form("cut")),
    }
}
