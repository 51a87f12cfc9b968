//! The questions that nodes ask each other, each with the way to read its answer.
//!
//! `message` defines the bytes. The rooms that ask decide when to ask.

use bytes::Bytes;
use hopcache_core::key::{DatabaseTag, KeyHasher, QueryKey};
use hopcache_core::limits::{FIELDS_ASKED_MAX, HANDOVER_PLANS_MAX, ORDERS_IN_MESSAGE_MAX};
use hopcache_core::node::Holder;
use hopcache_core::proof::{IdRange, Tally};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::Millis;
use hopcache_core::write_position::DataOwner;
use hopcache_learning::fields::Fields;
use serde::de::DeserializeOwned;

use crate::model::ask::Ask;
use crate::model::inspection::{Inspection, KeyPlan};
use crate::model::order::{Launch, Order};
use crate::model::ports::{CursorDigest, Scope};
use crate::peers::message::{
    BadMessage, ComingWrite, FormerAnswer, KnownWrites, Launches, ObservationBatch, Question, Reply,
    SentOrder, WriteNews, decode_answer, decode_fields, decode_moved, decode_page, decode_reply, encode_ask,
    encode_question,
};

/// A question to one node, with the type of its answer.
pub(crate) struct PeerQuestion<A> {
    pub(crate) message: Bytes,
    pub(crate) read: fn(&Bytes) -> Result<A, BadMessage>,
}

impl<A: DeserializeOwned> PeerQuestion<A> {
    fn of(question: &Question) -> Self {
        Self { message: encode_question(question), read: decode_answer }
    }
}

/// A client's request, for the owner of its key: from a node with this ring that wants an answer of this database. With
/// `near_hits`, the hits of this node's near copy that the owner does not know of, the answer may bring a near copy.
pub(crate) fn forward(
    asked: (&Ask, &KeyHasher),
    left_ms: Millis,
    of: (RingEpoch, DataOwner),
    near_hits: Option<u32>,
) -> PeerQuestion<Reply> {
    PeerQuestion { message: encode_ask(asked, left_ms, of, near_hits), read: decode_reply }
}

/// A purge. The answer is the number of copies.
pub(crate) fn purge(scope: &Scope) -> PeerQuestion<u64> {
    PeerQuestion::of(&Question::Purge(scope.clone()))
}

/// Drop prefetched copies that were not used. The answer is the number of copies.
pub(crate) fn flush_waste() -> PeerQuestion<u64> {
    PeerQuestion::of(&Question::FlushWaste)
}

/// Asks for the state of memory and flights for a key.
pub(crate) fn inspect(key: QueryKey) -> PeerQuestion<Inspection> {
    PeerQuestion::of(&Question::Inspect(key))
}

/// Asks for the value of a key that this node owns now, by this ring, and the asked one owned before. `log` is how much of the
/// invalidation log this node has read.
pub(crate) fn wanted(key: QueryKey, log: CursorDigest, ring: RingEpoch) -> PeerQuestion<FormerAnswer> {
    PeerQuestion { message: encode_question(&Question::Wanted { key, log, ring }), read: decode_moved }
}

/// This node's facts of keys that the asked node will own, at most [`HANDOVER_PLANS_MAX`]. The answer is the number of keys.
pub(crate) fn plans(plans: &[(QueryKey, KeyPlan)]) -> PeerQuestion<u64> {
    PeerQuestion::of(&Question::Plans(plans.get(..HANDOVER_PLANS_MAX).unwrap_or(plans).to_vec()))
}

/// Observations of sessions that the asked node owns.
pub(crate) fn observed(page: ObservationBatch) -> PeerQuestion<()> {
    PeerQuestion::of(&Question::Observed(page))
}

/// Asks for the fields of the results of these keys, at most [`FIELDS_ASKED_MAX`].
pub(crate) fn fields(keys: &[QueryKey]) -> PeerQuestion<Vec<Option<Fields>>> {
    let keys = keys.get(..FIELDS_ASKED_MAX).unwrap_or(keys).to_vec();
    PeerQuestion { message: encode_question(&Question::Fields(keys)), read: decode_fields }
}

/// Asks for the differences of lessons from this digest.
pub(crate) fn pull(digest: Vec<u8>) -> PeerQuestion<Bytes> {
    PeerQuestion { message: encode_question(&Question::Pull(digest.into())), read: decode_page }
}

/// Prefetches, for the owner of their keys, at most [`ORDERS_IN_MESSAGE_MAX`]. The answer has as many launches.
pub(crate) fn orders(orders: &[Order]) -> PeerQuestion<Vec<Launch>> {
    let orders = orders.iter().take(ORDERS_IN_MESSAGE_MAX).map(SentOrder::of).collect();
    let read = |answer: &Bytes| decode_answer(answer).map(|Launches(launches)| launches);
    PeerQuestion { message: encode_question(&Question::Orders(orders)), read }
}

/// These databases have been written so far. The answer is what the asked node knows of the same names.
pub(crate) fn written(told: WriteNews) -> PeerQuestion<KnownWrites> {
    PeerQuestion::of(&Question::Written(told))
}

/// A write is about to begin. The answer comes when the asked node has asked for what will keep results of its own.
pub(crate) fn coming(write: &ComingWrite) -> PeerQuestion<()> {
    PeerQuestion::of(&Question::Coming(write.clone()))
}

/// Asks what a node has written into a database, as far as it concerns these ids.
pub(crate) fn tally(name: DatabaseTag, range: IdRange) -> PeerQuestion<(Holder, Tally)> {
    PeerQuestion::of(&Question::Tally(name, range))
}
