//! The questions that nodes ask each other, each with the type of its answer.
//!
//! `message` defines the bytes. The rooms that ask decide when to ask.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_core::node::Holder;
use hopcache_core::proof::{CountedWrite, IdRange, Tally};
use hopcache_core::ring::RingEpoch;
use hopcache_core::time::Millis;
use hopcache_core::written::{Whose, WrittenRecord};
use hopcache_learning::fields::Fields;
use hopcache_packstream::Reader;

use crate::model::ask::Ask;
use crate::model::inspection::{Inspection, KeyPlan};
use crate::model::order::{Launch, Order};
use crate::model::ports::{LogMark, Scope};
use crate::peers::message::{
    BadMessage, Moved, Reply, decode_fields, decode_inspection, decode_known_written, decode_launches,
    decode_moved, decode_reply, decode_tally, encode_ask, encode_counted, encode_fields_wanted,
    encode_flush_waste, encode_inspect, encode_orders, encode_plans, encode_pull, encode_purge,
    encode_tally_wanted, encode_wanted, encode_written,
};

/// A question to one node, with the type of its answer.
pub(crate) trait PeerQuestion: Sync {
    /// The answer of the node.
    type Answer;
    /// The question's bytes.
    fn encode(&self) -> Bytes;
    /// Reads the answer.
    fn decode(&self, answer: &Bytes) -> Result<Self::Answer, BadMessage>;
}

/// Plain data: a client's request, for the owner of its key.
pub(crate) struct Forward<'a> {
    pub(crate) ask: &'a Ask,
    pub(crate) left_ms: Millis,
    pub(crate) epoch: RingEpoch,
    /// Hits of this node's near copy that the owner does not know of; `None` if no near copy is wanted.
    pub(crate) near_hits: Option<u32>,
    /// Of which database this node's client wants an answer.
    pub(crate) whose: Whose,
}

impl PeerQuestion for Forward<'_> {
    type Answer = Reply;

    fn encode(&self) -> Bytes {
        encode_ask(self.ask, self.left_ms, (self.epoch, self.whose), self.near_hits)
    }

    fn decode(&self, answer: &Bytes) -> Result<Reply, BadMessage> {
        decode_reply(answer)
    }
}

/// Plain data: a purge. The answer is the number of copies.
pub(crate) struct Purge<'a>(pub(crate) &'a Scope);

impl PeerQuestion for Purge<'_> {
    type Answer = u64;

    fn encode(&self) -> Bytes {
        encode_purge(self.0)
    }

    fn decode(&self, answer: &Bytes) -> Result<u64, BadMessage> {
        count_of(answer)
    }
}

/// Drop prefetched copies that were not used. The answer is the number of copies.
pub(crate) struct FlushWaste;

impl PeerQuestion for FlushWaste {
    type Answer = u64;

    fn encode(&self) -> Bytes {
        encode_flush_waste()
    }

    fn decode(&self, answer: &Bytes) -> Result<u64, BadMessage> {
        count_of(answer)
    }
}

/// Plain data: asks for the state of memory and flights for a key.
pub(crate) struct Inspect(pub(crate) QueryKey);

impl PeerQuestion for Inspect {
    type Answer = Inspection;

    fn encode(&self) -> Bytes {
        encode_inspect(&self.0)
    }

    fn decode(&self, answer: &Bytes) -> Result<Inspection, BadMessage> {
        decode_inspection(answer).ok_or(BadMessage::Form("inspection"))
    }
}

/// Plain data: asks for the value of a key that this node owns now and the asked one owned before.
pub(crate) struct Wanted {
    pub(crate) key: QueryKey,
    /// How much of the invalidation log this node has read.
    pub(crate) log: LogMark,
}

impl PeerQuestion for Wanted {
    type Answer = Option<Moved>;

    fn encode(&self) -> Bytes {
        encode_wanted(&self.key, self.log)
    }

    fn decode(&self, answer: &Bytes) -> Result<Option<Moved>, BadMessage> {
        decode_moved(answer)
    }
}

/// Plain data: this node's facts of keys that the asked node will own.
pub(crate) struct TellPlans<'a>(pub(crate) &'a [(QueryKey, KeyPlan)]);

impl PeerQuestion for TellPlans<'_> {
    type Answer = ();

    fn encode(&self) -> Bytes {
        encode_plans(self.0)
    }

    fn decode(&self, _: &Bytes) -> Result<(), BadMessage> {
        Ok(())
    }
}

/// Plain data: observations of sessions that the asked node owns, already encoded.
pub(crate) struct ObservedPage(pub(crate) Bytes);

impl PeerQuestion for ObservedPage {
    type Answer = ();

    fn encode(&self) -> Bytes {
        self.0.clone()
    }

    fn decode(&self, _: &Bytes) -> Result<(), BadMessage> {
        Ok(())
    }
}

/// Plain data: asks for the fields of the results of these keys.
pub(crate) struct FieldsWanted<'a>(pub(crate) &'a [QueryKey]);

impl PeerQuestion for FieldsWanted<'_> {
    type Answer = Vec<Option<Arc<Fields>>>;

    fn encode(&self) -> Bytes {
        encode_fields_wanted(self.0)
    }

    fn decode(&self, answer: &Bytes) -> Result<Self::Answer, BadMessage> {
        let fields = decode_fields(answer, self.0.len())?;
        Ok(fields.into_iter().map(|each| each.map(Arc::new)).collect())
    }
}

/// Plain data: asks for the differences of lessons from this digest.
pub(crate) struct Pull<'a>(pub(crate) &'a [u8]);

impl PeerQuestion for Pull<'_> {
    type Answer = Bytes;

    fn encode(&self) -> Bytes {
        encode_pull(self.0)
    }

    fn decode(&self, answer: &Bytes) -> Result<Bytes, BadMessage> {
        Ok(answer.clone())
    }
}

/// Plain data: prefetches, for the owner of their keys. The answer has as many launches.
pub(crate) struct Orders<'a>(pub(crate) &'a [Order]);

impl PeerQuestion for Orders<'_> {
    type Answer = Vec<Launch>;

    fn encode(&self) -> Bytes {
        encode_orders(self.0)
    }

    fn decode(&self, answer: &Bytes) -> Result<Vec<Launch>, BadMessage> {
        decode_launches(answer, self.0.len())
    }
}

/// Plain data: these databases have been written so far, with counts of this life's writes, if there are any. The answer is what the
/// asked node knows of the same names.
pub(crate) struct TellWritten<'a> {
    pub(crate) by: &'a Holder,
    pub(crate) counted: &'a [CountedWrite],
    pub(crate) records: &'a [WrittenRecord],
}

impl PeerQuestion for TellWritten<'_> {
    type Answer = Vec<WrittenRecord>;

    fn encode(&self) -> Bytes {
        if self.counted.is_empty() {
            encode_written(self.records)
        } else {
            encode_counted(self.by, self.counted, self.records)
        }
    }

    fn decode(&self, answer: &Bytes) -> Result<Vec<WrittenRecord>, BadMessage> {
        decode_known_written(answer)
    }
}

/// Plain data: asks what a node has written into a database, as far as it concerns these ids.
pub(crate) struct TallyWanted(pub(crate) DatabaseTag, pub(crate) IdRange);

impl PeerQuestion for TallyWanted {
    type Answer = (Holder, Tally);

    fn encode(&self) -> Bytes {
        encode_tally_wanted(self.0, &self.1)
    }

    fn decode(&self, answer: &Bytes) -> Result<Self::Answer, BadMessage> {
        decode_tally(answer)
    }
}

fn count_of(answer: &Bytes) -> Result<u64, BadMessage> {
    let count = Reader::new(answer).value()?.as_int();
    count.and_then(|count| u64::try_from(count).ok()).ok_or(BadMessage::Form("it did not say how many"))
}
