//! The use of a flight's end for one request: flights are shared by key, and requests demand more than a key says.

use hopcache_core::time::MonoTime;

use crate::cache::copy::SharedCopy;
use crate::fetch::FlightResult;
use crate::model::ask::Ask;
use crate::model::outcome::Role;
use crate::path::Path;
use crate::path::answers::is_fresh_enough;

/// The use of a flight's end for one request.
pub(super) enum Judgement {
    /// It is the answer.
    Answer,
    /// It is older than a transaction that may write, and Neo4j cannot be reached: it stands in, as what a run of before left in
    /// memory would, and the transaction can write no more. Schedule (I14):
    ///   a run of 10 s begins · a write past Hopcache · Neo4j refuses new connections · a transaction begins, and joins the run
    StandsIn(SharedCopy),
    /// The leader's bad luck: one more flight.
    OnceMore,
    /// It does not apply to this request: another flight.
    Again,
    /// It is not as fresh as this request demands.
    AskAlone,
}

impl Path {
    /// The use of a flight's end for a request that led or joined it.
    pub(super) fn judge(
        &self,
        ask: &Ask,
        landed: &FlightResult,
        (role, joined, now): (Role, MonoTime, MonoTime),
        (came, is_first): (MonoTime, bool),
    ) -> Judgement {
        let result = landed.result();
        // Flights are shared by all requests with the same user's name, because a scope has no password. A refusal of
        // other credentials does not apply to this request. A refusal of the same ones is taken at once: Neo4j locks a
        // user out after three.
        if landed.refuses_other_credentials(&ask.query.identity.fingerprint) {
            return Judgement::Again;
        }
        // One client's `maxExecutionTime` does not bind others: a request that allows more leads or joins the next
        // flight.
        if role == Role::Joined && landed.was_cut_short_for(ask.run_ms_max) {
            return Judgement::Again;
        }
        // A failure that comes from another client's bookmark, or quotes another client's text, is no answer for this one.
        if role == Role::Joined && landed.fails_for_other_than(ask) {
            return Judgement::Again;
        }
        // The run may have begun before what this client has seen, or before a write that had ended. The next flight carries it.
        let written = self.cache.write_positions().still_needed(&ask.query, ask.written);
        let is_earlier = |copy: &SharedCopy| self.cache.write_positions().is_of_earlier_epoch(copy);
        let is_before = landed.is_before(&ask.bookmarks, written) || landed.copy().is_some_and(is_earlier);
        if role == Role::Joined && is_before {
            return if landed.has_no_range() { Judgement::AskAlone } else { Judgement::Again };
        }
        let wants_current = ask.freshness.proved_only || ask.freshness.may_write;
        if wants_current && !self.is_current(result, came, now) {
            let may_stand_in = !self.needs_proof(ask) && self.cache.is_stale_if_error_on();
            return match landed.copy() {
                Some(copy) if may_stand_in && copy.suits(ask, now) => Judgement::StandsIn(copy.clone()),
                _ => Judgement::Again,
            };
        }
        // The server's error for the statement is the answer for everybody, and so is a run that used up its time. Another failure
        // may be the leader's bad luck: a follower tries once more before it takes it, unless such tries left the key held back.
        let is_held_back = || self.fetch.held_back(&ask.query.key).is_some();
        if role == Role::Joined && is_first && result.is_leaders_luck() && !is_held_back() {
            return Judgement::OnceMore;
        }
        if self.is_holder_too_old(ask, result, (role, joined, now)) {
            return Judgement::Again;
        }
        if role == Role::Joined && !is_fresh_enough(ask, result, now) {
            return Judgement::AskAlone;
        }
        Judgement::Answer
    }
}
