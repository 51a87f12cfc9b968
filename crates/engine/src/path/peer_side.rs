//! What this node does for its peers. Whatever arrives here has made its one hop: it is answered
//! here, and never forwarded (promise I8).

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::time::Millis;
use hopcache_packstream::{Reader, Writer};

use crate::copy::Life;
use crate::engine::Engine;
use crate::here::{Here, how};
use crate::lead::Errand;
use crate::message::{BadMessage, ForwardedAsk, Question, Reply, decode_question, encode_reply};
use crate::outcome::{Answer, Cause, Class, Detail, Outcome};
use crate::outlook::{self, Outlook};
use crate::prefetch::{PrefetchedView, Ticket, view};

/// What memory and flights of a node hold under a key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inspection {
    /// Age of the memory copy, in milliseconds.
    pub memory_age_ms: Option<u64>,
    /// Followers of the flight under way.
    pub flight_followers: Option<u32>,
    /// Its next refresh.
    pub outlook: Outlook,
    /// The prefetch that brought the copy.
    pub prefetched: Option<PrefetchedView>,
}

impl Engine {
    /// Answers a peer's message.
    ///
    /// # Errors
    /// [`BadMessage`] when it is none, or its key is not the query's.
    pub async fn serve_peer(self: &Arc<Self>, message: &Bytes) -> Result<Bytes, BadMessage> {
        match decode_question(message)? {
            Question::Ask(forwarded) => self.serve_forwarded(&forwarded).await,
            Question::Purge(scope) => {
                let count = self.forget(&scope);
                let mut writer = Writer::new();
                writer.int(i64::try_from(count).unwrap_or(i64::MAX));
                Ok(writer.into_bytes().into())
            }
            Question::Wanted { key, log } => Ok(self.give(&key, log).await),
            Question::Plans(plans) => Ok(self.learn_all(&plans)),
            Question::Fields(keys) => Ok(self.give_fields(&keys)),
            Question::Pull(digest) => self.answer_pull(&digest),
            Question::Observed(observed) => Ok(self.take_observed(&observed)?),
            Question::Prefetch(sent) => {
                let order = sent.read(&self.hasher, &self.policy.procedures)?;
                Ok(Bytes::copy_from_slice(&[self.launch_prefetch(order).to_byte()]))
            }
            Question::FlushWaste => Ok(self.serve_flush()),
            Question::Inspect(key) => Ok(encode_inspection(&self.inspect_here(&key))),
        }
    }

    async fn serve_forwarded(self: &Arc<Self>, forwarded: &ForwardedAsk) -> Result<Bytes, BadMessage> {
        if let Some(reply) = self.hit_of_forwarded(forwarded) {
            return Ok(encode_reply(&reply));
        }
        let _under_way = self.leaving.forwarded.token();
        let ask = forwarded.read(&self.hasher, &self.policy.procedures, self.now())?;
        #[cfg(hopcache_seeded)]
        if let Some(reply) = self.seeded_serve(&ask).await {
            return Ok(encode_reply(&reply));
        }
        self.pay_for_retries();
        let reply = match self.answer_here(&ask).await {
            Here::Answered(outcome) => Reply::Answered(outcome),
            Here::NotARead(reason) => Reply::NotARead(reason),
            Here::Elsewhere => Reply::Elsewhere,
        };
        Ok(encode_reply(&reply))
    }

    /// A fresh, rendered copy needs no look at the query behind its key. Of a hot key the asker may answer more
    /// with it; only here, where the very copy that is answered with says for how long.
    fn hit_of_forwarded(self: &Arc<Self>, forwarded: &ForwardedAsk) -> Option<Reply> {
        if !forwarded.is_plain {
            return None;
        }
        let copy = self.own_copy(&forwarded.key)?;
        let now = self.now();
        // Whoever answers this request, these were answered with what came from here.
        let near_hits = forwarded.near_hits.unwrap_or(0);
        let is_answer = self.is_awake(now) && copy.has_rendering(forwarded.form);
        if !is_answer || !matches!(copy.life(now), Life::Fresh(_)) {
            copy.heat.arrive(near_hits);
            return None;
        }
        self.consider_refresh(&forwarded.key, &copy, (near_hits.saturating_add(1), now), || {
            // Decoded, and its key checked, only where it leads to a run.
            let ask = forwarded.read(&self.hasher, &self.policy.procedures, now).ok()?;
            Some(Errand::of(&ask, Cause::Refresh))
        });
        let detail = self.is_for_want_of_a_store(&copy).then_some(Detail::Degraded);
        let how = how(&copy, Class::Hit, detail, now);
        let body = copy.rendering(forwarded.form).ok()?;
        copy.serves_demand();
        let near_ms = match forwarded.near_hits {
            Some(_) => self.near_ms_for_others((&forwarded.key, &copy), body.len(), now),
            None => Millis::ZERO,
        };
        let outcome = Outcome { answer: Answer::Body(body), how, answered_by: None, key: forwarded.key };
        if near_ms == Millis::ZERO {
            return Some(Reply::Answered(outcome));
        }
        Some(Reply::Near(outcome, near_ms))
    }

    pub(crate) fn inspect_here(&self, key: &hopcache_core::key::QueryKey) -> Inspection {
        Inspection {
            memory_age_ms: self.own_copy(key).map(|copy| copy.age_ms(self.now()).0),
            flight_followers: self.flights.followers(key),
            outlook: self.outlook_here(key),
            prefetched: self.own_copy(key).and_then(|copy| copy.ticket().map(Ticket::view)),
        }
    }
}

fn encode_inspection(seen: &Inspection) -> Bytes {
    let mut writer = Writer::new();
    writer.int(seen.memory_age_ms.and_then(|age| i64::try_from(age).ok()).unwrap_or(-1));
    writer.int(seen.flight_followers.map_or(-1, i64::from));
    outlook::write(&seen.outlook, &mut writer);
    view::write(seen.prefetched.as_ref(), &mut writer);
    writer.into_bytes().into()
}

pub(crate) fn decode_inspection(bytes: &[u8]) -> Option<Inspection> {
    let mut reader = Reader::new(bytes);
    let age = reader.value().ok()?.as_int()?;
    let followers = reader.value().ok()?.as_int()?;
    Some(Inspection {
        memory_age_ms: u64::try_from(age).ok(),
        flight_followers: u32::try_from(followers).ok(),
        outlook: outlook::read(&mut reader),
        prefetched: view::read(&mut reader),
    })
}
