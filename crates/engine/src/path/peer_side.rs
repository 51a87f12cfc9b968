//! The owner's side: the answers of this node to its peers. A message that arrives here has made its one hop. It is
//! answered here and never forwarded (I8).

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::{AHEAD_PEER_MS, COPY_INLINE_BYTES_MAX};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::DataOwner;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cache::Provenance;
use crate::cache::copy::{Life, MemoryCopy};
use crate::model::ask::{Ask, Query};
use crate::model::event::{Cause, Event};
use crate::model::inspection::Inspection;
use crate::model::job::FetchJob;
use crate::model::outcome::{Answer, Class, FailureKind, How, Outcome};
use crate::model::trace::{Step, traceparent_below};
use crate::model::worker::apart_if_large;
use crate::path::Path;
use crate::path::answers::LocalAnswer;
use crate::path::request::MemoryLookup;
use crate::peers::message::{
    BadMessage, ForwardedAsk, KnownWrites, Lexicon, Question, Reply, decode_question, encode_answer,
    encode_moved, encode_reply,
};

impl Path {
    /// Answers a peer's message.
    ///
    /// # Errors
    /// [`BadMessage`] if the bytes are no message, or its key is not the query's.
    pub async fn serve_peer(self: &Arc<Self>, message: &Bytes) -> Result<Bytes, BadMessage> {
        match decode_question(message)? {
            Question::Ask(forwarded) => self.serve_forwarded(&forwarded).await,
            Question::Purge(scope) => Ok(encode_answer(&self.cache.forget(&scope))),
            Question::Wanted { key, log, ring } => {
                Ok(encode_moved(&self.invalidate.give(&key, log, ring).await))
            }
            Question::Plans(plans) => Ok(encode_answer(&u64::from(self.invalidate.learn_plans(&plans)))),
            Question::Fields(keys) => Ok(self.prefetch.give_fields(&keys)),
            Question::Pull(digest) => self.prefetch.answer_pull(&digest),
            Question::Observed(observed) => {
                self.prefetch.take_observed(observed).map(|()| encode_answer(&()))
            }
            Question::Orders(sent) => Ok(encode_answer(&self.prefetch.take_orders(&sent))),
            Question::Tally(name, range) => {
                Ok(encode_answer(&(self.context.me(), self.writes.tally(name, &range))))
            }
            Question::Written(told) => Ok(encode_answer(&KnownWrites(self.writes.hear(&told)))),
            Question::Coming(coming) => {
                self.writes.ask_ahead_here(&coming, Millis(AHEAD_PEER_MS)).await;
                Ok(encode_answer(&()))
            }
            Question::FlushWaste => Ok(encode_answer(&self.prefetch.flush_waste_here())),
            Question::Inspect(key) => Ok(encode_answer(&self.inspect_here(&key))),
        }
    }

    async fn serve_forwarded(self: &Arc<Self>, forwarded: &ForwardedAsk) -> Result<Bytes, BadMessage> {
        if !self.cache.can_render(forwarded.rendering()) {
            return Err(BadMessage::Form("unknown rendering"));
        }
        let lookup = match self.hit_of_forwarded(forwarded) {
            Ok(reply) => {
                self.prefetch.answered_forwarded(forwarded, None);
                return Ok(encoded(reply).await);
            }
            Err(lookup) => lookup,
        };
        let _under_way = self.forwarded.token();
        let ask = self.read_forwarded(forwarded, self.context.now())?;
        if !self.serves(forwarded.whose(), &ask.query).await {
            return Ok(encoded(Reply::Elsewhere).await);
        }
        // This node may have heard of a later write than the sender.
        let now = self.context.now();
        let told = ask.written.filter(|told| self.cache.mark_counts(*told, now));
        let written = self.cache.write_positions().needed(&ask.query, told);
        let span = self.context.begin(ask.traceparent.as_deref(), Step::Serve);
        let traceparent = traceparent_below(span.as_deref(), ask.traceparent.as_deref());
        let ask = Ask { written, traceparent, ..ask };
        self.fetch.pay_for_retries();
        // The sender gives the question up when its client has gone, and then this future is dropped.
        let waiting = ask.client.clone().map(CancellationToken::drop_guard);
        let answer = self.answer_here(&ask, lookup).await;
        waiting.map(DropGuard::disarm);
        let reply = match answer {
            LocalAnswer::Answered(mut outcome) => {
                self.name_outage(&mut outcome);
                if matches!(outcome.answer, Answer::Body(_)) {
                    self.prefetch.answered_forwarded(forwarded, Some((&ask, outcome.how.class)));
                }
                Reply::Answered(outcome)
            }
            LocalAnswer::NotARead(reason) => Reply::NotARead(reason),
            LocalAnswer::Elsewhere => Reply::Elsewhere,
        };
        Ok(encoded(reply).await)
    }

    /// If the run failed and this node does not reach Neo4j, the answer is `OriginUnreachable`. The sender may reach Neo4j, and then asks
    /// the next node.
    fn name_outage(&self, outcome: &mut Outcome) {
        if let Answer::Failed(failure) = &mut outcome.answer
            && matches!(
                failure.kind,
                FailureKind::OriginTimedOut | FailureKind::OriginCut | FailureKind::HeldBack { .. }
            )
            && !self.origin.is_reachable()
        {
            failure.kind = FailureKind::OriginUnreachable;
        }
    }

    /// Whether a copy is of the database that the sender wants an answer of. Mostly both are known, and no lock is taken.
    fn is_wanted(&self, wanted: DataOwner, copy: &MemoryCopy) -> bool {
        match (wanted.database, copy.range()) {
            (Some(wanted), Some(range)) => wanted == range.to().database,
            _ => wanted.is_same(&self.cache.write_positions().whose(copy.tags().database())),
        }
    }

    /// Whether this node serves the data that the sender wants. If its own Neo4j has another database by this name, the sender has to
    /// go on without it: what is right for one of them is wrong for the other.
    async fn serves(&self, wanted: DataOwner, query: &Query) -> bool {
        let is_same = || wanted.is_same(&self.cache.write_positions().whose(query.tags.database()));
        if is_same() {
            return true;
        }
        self.writes.know(query).await;
        is_same()
    }

    fn read_forwarded(&self, forwarded: &ForwardedAsk, now: MonoTime) -> Result<Ask, BadMessage> {
        let on_lexed = || self.context.note(Event::StatementLexed);
        let facts = |database: &Arc<str>, text: &Arc<str>| self.texts.facts(database, text);
        let policy = self.policy.now();
        let (hasher, allowed) = (&self.hasher, &policy.allowed);
        forwarded.read_with(&Lexicon { hasher, allowed, facts: &facts, on_lexed: &on_lexed }, now)
    }

    /// A fresh copy that is rendered, or soon is, answers without a look at the query behind its key. For a hot key this also permits the
    /// asking node to reuse the answer: only here is the copy at hand that says for how long.
    fn hit_of_forwarded(self: &Arc<Self>, forwarded: &ForwardedAsk) -> Result<Reply, MemoryLookup> {
        if !forwarded.is_plain() {
            return Err(MemoryLookup::NotYet);
        }
        let Some(copy) = self.cache.look(forwarded.key()) else { return Err(MemoryLookup::Once(None)) };
        if !self.is_wanted(forwarded.whose(), &copy) {
            return Err(MemoryLookup::Once(Some(copy)));
        }
        let now = self.context.now();
        // Whichever node answers this request, copies from here answered these hits.
        let near_hits = forwarded.near_hits().unwrap_or(0);
        let coverage = self.cache.coverage(&copy, forwarded.after());
        let is_answer = self.cache.vouches_for(&copy, now)
            && !self.cache.is_before_mark(&copy, forwarded.written(), now)
            && !self.cache.write_positions().has_ended(&copy)
            && (copy.is_small() || copy.has_rendering(forwarded.rendering()));
        let is_proved = is_answer && self.cache.proves(&copy, now);
        if !is_answer
            || !coverage.holds(is_proved)
            || !(is_proved || !forwarded.may_write() && matches!(copy.life(now), Life::Fresh(_)))
        {
            copy.heat().arrive(near_hits);
            return Err(MemoryLookup::Once(Some(copy)));
        }
        let Ok(body) = self.cache.render(*forwarded.key(), &copy, forwarded.rendering(), now) else {
            return Err(MemoryLookup::Once(Some(copy)));
        };
        let hits = (near_hits.saturating_add(1), now);
        // Decodes the query and checks its key only where it may lead to a run.
        let job = || {
            let ask = self.read_forwarded(forwarded, now).ok()?;
            Some(FetchJob::of(&ask, Cause::Refresh))
        };
        if is_proved {
            self.refresh.on_proved_hit(&copy, hits, job);
        } else {
            self.refresh.on_hit(forwarded.key(), &copy, hits, job);
        }
        let detail = copy.why_unstored();
        let how = How { is_proved, ..copy.how(Class::Hit, detail, now) };
        copy.serves_demand();
        let near_ms = match forwarded.near_hits() {
            Some(_) => self.cache.near_ms_for_others((forwarded.key(), &copy), body.len(), now),
            None => Millis::ZERO,
        };
        let (answer, range) = (Answer::Body(body), copy.range().cloned());
        let outcome = Outcome { answer, how, answered_by: None, key: *forwarded.key(), range };
        if near_ms == Millis::ZERO {
            return Ok(Reply::Answered(outcome));
        }
        Ok(Reply::Near(outcome, near_ms))
    }

    pub(super) fn inspect_here(&self, key: &QueryKey) -> Inspection {
        let held = self.cache.look(key);
        Inspection {
            memory_age_ms: held.as_ref().map(|copy| copy.age_ms(self.context.now()).0),
            memory_read_ms_ago: held.as_ref().map(|copy| self.context.now().since(copy.read_started()).0),
            flight_followers: self.fetch.flights().followers(key),
            refresh: self.refresh.facts_here(key, held.as_deref()),
            prefetched: held.as_ref().and_then(|copy| copy.provenance().map(Provenance::view)),
            proof: held.as_ref().and_then(|copy| self.cache.proof_of(copy)),
            held_back_ms: self.fetch.held_back(key).map(|left_ms| left_ms.0),
            is_too_large: self.cache.uncacheable().contains(key, self.context.now()),
        }
    }
}

/// The reply as bytes. Its body is copied.
async fn encoded(reply: Reply) -> Bytes {
    let bytes = match &reply {
        Reply::Answered(Outcome { answer: Answer::Body(body), .. })
        | Reply::Near(Outcome { answer: Answer::Body(body), .. }, _) => body.len(),
        _ => 0,
    };
    apart_if_large(bytes, COPY_INLINE_BYTES_MAX, move || encode_reply(&reply)).await
}
