//! One hop to the owner, and the reaction when the owner does not answer.
//!
//! Requests of this node's clients for one key share one forward, as they share one flight at the owner. These shared
//! forwards have a table of their own, which forwarded requests never use. So two nodes that take each other for the
//! owner cannot wait for each other (I8).

use std::convert::Infallible;
use std::sync::Arc;

use hopcache_core::bookmark::Bookmark;
use hopcache_core::key::QueryKey;
use hopcache_core::limits::ORIGIN_DOUBT_MS;
use hopcache_core::node::NodeName;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::write_position::WritePosition;
use hopcache_cypher::forms::normal::NormalForm;

use crate::cache::copy::{SharedCopy, is_ended_by};
use crate::cache::flight::{Follower, Leader, Seat, Wait};
use crate::cache::{Permission, add_near_hits};
use crate::model::ask::{Ask, Hints};
use crate::model::event::{Event, ForwardWord};
use crate::model::outcome::{Answer, AnsweredBy, Class, Detail, FailureKind, How, Outcome, Role};
use crate::model::ports::PeerError;
use crate::model::rendering::RenderingId;
use crate::model::trace::{Fact, Step};
use crate::path::Path;
use crate::path::answers::LocalAnswer;
use crate::peers;
use crate::peers::message::Reply;

/// Time for an answer's way back after the request's own deadline.
const FORWARD_MARGIN_MS: u64 = 500;

/// Requests with the same key, rendering, run limit and bookmarks share a forward, if no write ended between them.
pub(super) type ForwardKey = (QueryKey, RenderingId, Option<Millis>, Bookmark, Option<WritePosition>);

pub(super) fn forward_key(ask: &Ask) -> ForwardKey {
    (ask.query.key, ask.rendering, ask.run_ms_max, ask.bookmarks.clone(), ask.written)
}

/// How a forward ended.
#[derive(Debug, Clone)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are answers: a box would cost each hit an allocation"
)]
pub(super) enum Hop {
    /// The node answered.
    Answered(LocalAnswer),
    /// The node cannot be asked; the next node of the ring is.
    NextNode,
}

/// A peer's answer, and for how long this node may reuse it.
struct ReachedAnswer {
    hop: Hop,
    near_ms: Millis,
}

impl From<Hop> for ReachedAnswer {
    fn from(hop: Hop) -> Self {
        Self { hop, near_ms: Millis::ZERO }
    }
}

/// How a shared forward ended. With it: when it was sent, its hints, its deadline, its text, and the fingerprint of its
/// credentials.
#[derive(Debug)]
pub(super) struct SharedForward {
    sent: MonoTime,
    hints: Hints,
    deadline: MonoTime,
    whose: [u8; 32],
    text: NormalForm,
    hop: Hop,
}

/// The use of a shared forward's end for a request that joined it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// The answer, or the failure that the request would get as well.
    Everybodys,
    /// The leader's bad luck or want of room. One more shared forward finds out for all. If each follower asked for
    /// itself, that would be as many forwards as followers, at the most loaded moment.
    Luck,
    /// An answer that may already have been too old when this request joined (I4).
    TooOld,
    /// A failure from the leader's deadline, credentials or spelling, which does not apply to this request.
    Leaders,
}

impl Path {
    pub(super) async fn forward(self: &Arc<Self>, ask: &Ask, to: &NodeName) -> Hop {
        if !ask.freshness.is_plain() {
            return self.forward_unshared(ask, to).await;
        }
        let failed = |kind: FailureKind, role| {
            Hop::Answered(LocalAnswer::Answered(self.failed(ask, kind.into(), role)))
        };
        // How the first shared forward ended, for a request that tries again.
        let mut first: Option<Arc<SharedForward>> = None;
        loop {
            let joined = self.context.now();
            let (follower, role) = match self.forwards.join(&forward_key(ask)) {
                Seat::Full => return failed(FailureKind::Overloaded, Role::Joined),
                // The node may have judged its answer before this request came. See [`Path::is_current`].
                Seat::Follow(_) if ask.freshness.may_write => return self.forward_unshared(ask, to).await,
                Seat::Follow(follower) => {
                    follower.wanted_by(ask.client.as_ref());
                    (follower, Role::Joined)
                }
                Seat::Lead(leader) => {
                    if let Some(shared) = &first
                        && !self.fetch.may_retry()
                    {
                        leader.land(Arc::clone(shared));
                        return self.as_role(&shared.hop, Role::Joined);
                    }
                    (self.lead_forward(leader, ask, to), Role::Led)
                }
            };
            let left = ask.deadline.since(self.context.now());
            let end = tokio::select! {
                biased;
                end = follower.wait() => end,
                () = self.context.sleep(left) => return failed(FailureKind::DeadlinePassed, role),
            };
            let Wait::Landed(shared) = end else { return Hop::NextNode };
            match self.share(ask, &shared, joined) {
                _ if role == Role::Led => return self.as_role(&shared.hop, role),
                Share::Everybodys => return self.as_role(&shared.hop, role),
                Share::Luck | Share::TooOld if first.is_none() => first = Some(shared),
                // A second failure is the answer for everybody.
                Share::Luck => return self.as_role(&shared.hop, role),
                Share::TooOld | Share::Leaders => return self.forward_unshared(ask, to).await,
            }
        }
    }

    /// Sends the forward that others may join. The returned seat is the leading request's own.
    fn lead_forward(
        self: &Arc<Self>,
        leader: Leader<ForwardKey, Arc<SharedForward>>,
        ask: &Ask,
        to: &NodeName,
    ) -> Follower<Arc<SharedForward>> {
        let (follower, abandonment) = (leader.follow(), leader.abandonment());
        follower.wanted_by(ask.client.as_ref());
        let (path, ask, to) = (Arc::clone(self), ask.clone(), to.clone());
        let (sent, hints, deadline) = (self.context.now(), ask.hints, ask.deadline);
        let (whose, text) = (ask.query.identity.fingerprint, ask.query.normal.clone());
        let untold = self.cache.take_near_hits(&ask.query.key);
        self.context.spawn(async move {
            let ReachedAnswer { hop, near_ms } = tokio::select! {
                biased;
                reached = path.ask_peer(&ask, &to, Some(untold.count())) => reached,
                // When the question is dropped, the asked node is told that it was given up: the client has gone.
                () = abandonment.wait() => return untold.put_back(),
            };
            if matches!(hop, Hop::NextNode) {
                untold.put_back();
            }
            if is_body(&hop) {
                path.writes.saw_answer(&ask.query);
            }
            let near = path.keep_near_of(&leader, &ask, (&hop, near_ms, sent));
            let is_of_a_run = is_of_a_run(&hop);
            let followers = leader.land(Arc::new(SharedForward { sent, hints, deadline, whose, text, hop }));
            if is_of_a_run {
                // The owner's flight counts this forward as one follower. Each node counts the followers that it saw.
                path.context.note(Event::Landed { followers });
                path.fetch.crowd_ended(&ask.query, followers, Some(sent));
            }
            if let Some(near) = near {
                // The owner did not see these followers: it was asked once for all of them.
                add_near_hits(&near, followers);
            }
        });
        follower
    }

    /// Keeps the near copy that a shared forward brought.
    ///
    /// A purge detaches the forwards before it empties memory, so the detached seat shows a purge between the owner's
    /// answer and the keeping:
    ///   the owner answers X · a purge detaches this forward · the purge empties memory · we keep X.
    fn keep_near_of(
        &self,
        leader: &Leader<ForwardKey, Arc<SharedForward>>,
        ask: &Ask,
        (hop, near_ms, sent): (&Hop, Millis, MonoTime),
    ) -> Option<SharedCopy> {
        let Hop::Answered(LocalAnswer::Answered(outcome)) = hop else { return None };
        if near_ms == Millis::ZERO {
            return None;
        }
        let kept = self.cache.keep_near(ask, &Permission::new(outcome, near_ms, sent))?;
        if leader.is_attached() {
            return Some(kept);
        }
        self.cache.remove(&ask.query.key);
        None
    }

    /// Asks for this request only, until its own deadline. [`Path::ask_peer`] adds a margin for an answer on its way,
    /// once for each silent node of the ring; the client need not wait for that.
    async fn forward_unshared(self: &Arc<Self>, ask: &Ask, to: &NodeName) -> Hop {
        let left = ask.deadline.since(self.context.now());
        tokio::select! {
            biased;
            reached = self.ask_peer(ask, to, None) => reached.hop,
            () = self.context.sleep(left) => {
                let failure = FailureKind::DeadlinePassed.into();
                Hop::Answered(LocalAnswer::Answered(self.failed(ask, failure, Role::Led)))
            }
        }
    }

    /// Asks, and stops waiting as soon as routing knows that the node is gone. A stopped process keeps its connections
    /// open, and the request would wait for it until its own deadline (I7).
    async fn ask_peer(self: &Arc<Self>, ask: &Ask, to: &NodeName, near_hits: Option<u32>) -> ReachedAnswer {
        debug_assert!(!ask.is_forwarded, "I8: a forwarded request is forwarded again");
        let Some(call) = self.peers.admit(to) else {
            self.context.note(Event::Forward(ForwardWord::LeftOut));
            return Hop::NextNode.into();
        };
        let mut span = self.context.begin(ask.traceparent.as_deref(), Step::Forward);
        let traced = span.as_deref().map(|span| Ask { traceparent: Some(span.traceparent()), ..ask.clone() });
        let asked = traced.as_ref().unwrap_or(ask);
        let sent = self.context.now();
        let left_ms = ask.deadline.since(sent);
        let whose = self.cache.write_positions().whose(ask.query.tags.database());
        let epoch = self.routing.view().epoch();
        let question = peers::forward((asked, &self.hasher), left_ms, (epoch, whose), near_hits);
        // The owner itself answers a passed deadline. The margin is for its answer's way back.
        let within = Millis(left_ms.0.saturating_add(FORWARD_MARGIN_MS));
        let mut is_lost = false;
        let life = self.routing.life_of(to);
        let reply = tokio::select! {
            biased;
            reply = self.peers.ask(to, question, within) => reply,
            () = self.routing.lost(to) => {
                is_lost = true;
                Err(PeerError::TimedOut)
            }
            never = self.doubt_meanwhile() => match never {},
        };
        call.ended(&reply);
        let word = ForwardWord::from(&reply);
        self.context.note(Event::Forward(word));
        if let Some(span) = &mut span {
            span.note(Fact::Peer(to));
            span.note(Fact::Forwarded(word));
        }
        drop(span);
        let (mut outcome, near_ms) = match reply {
            Ok(Reply::Answered(outcome)) => (outcome, Millis::ZERO),
            Ok(Reply::Near(outcome, near_ms)) => (outcome, near_ms),
            Ok(Reply::Elsewhere) => return Hop::NextNode.into(),
            Ok(Reply::NotARead(reason)) => return Hop::Answered(LocalAnswer::NotARead(reason)).into(),
            Err(error) => {
                self.routing.report(to, life, &error);
                // The node is dead, or no longer in the ring. The node that is asked instead is the owner now, so
                // nothing is asked twice. Only a peer that stays and fails makes retries multiply.
                let is_out = is_lost || matches!(error, PeerError::Gone(_));
                if is_out || self.fetch.may_retry() {
                    return Hop::NextNode.into();
                }
                let held = self.cache.look(&ask.query.key);
                let failed = self.failed(ask, FailureKind::Overloaded.into(), Role::Led);
                let outcome = self.from_memory(ask, held.as_ref()).unwrap_or(failed);
                return Hop::Answered(LocalAnswer::Answered(outcome)).into();
            }
        };
        if self.is_of_an_outage_there(ask, &outcome) {
            // It may be one here too.
            self.origin.doubt();
            return Hop::NextNode.into();
        }
        outcome.key = ask.query.key;
        outcome.answered_by = Some(AnsweredBy { node: to.clone(), hop_ms: self.context.now().since(sent) });
        // A node that does not know the database gets answers only of nodes with its address. What it has to end is of that database.
        if let Some(range) = &outcome.range {
            self.cache.hear_of(ask.query.tags.database(), range.to().database);
        }
        ReachedAnswer { hop: Hop::Answered(LocalAnswer::Answered(outcome)), near_ms }
    }

    /// Probes Neo4j every 0.3 s while the owner is late. The owner may be waiting for Neo4j; this node then learns of the silence as early
    /// as the owner.
    async fn doubt_meanwhile(&self) -> Infallible {
        loop {
            self.context.sleep(Millis(ORIGIN_DOUBT_MS)).await;
            self.origin.doubt();
        }
    }

    /// Whether the caller asks the next node: this node reaches Neo4j, and the other node's answer shows that it does not. So it is too if the
    /// client needs a proved result, and the answer may be old.
    fn is_of_an_outage_there(&self, ask: &Ask, outcome: &Outcome) -> bool {
        let is_of_outage = match &outcome.answer {
            Answer::Failed(failure) => matches!(failure.kind, FailureKind::OriginUnreachable),
            Answer::Body(_) => {
                outcome.how.detail == Some(Detail::StaleIfError)
                    && is_ended_by(outcome.range.as_deref(), ask.written)
            }
        };
        let is_here = self.origin.is_reachable() && !self.origin.refuses_us();
        is_here && is_of_outage || outcome.how.may_be_old() && self.needs_proof(ask)
    }

    /// The use of a shared answer for a request that joined at `joined`.
    fn share(&self, ask: &Ask, shared: &SharedForward, joined: MonoTime) -> Share {
        let Hop::Answered(LocalAnswer::Answered(outcome)) = &shared.hop else { return Share::Everybodys };
        let detail = outcome.how.detail;
        let age_ms = self.age_when_joined(shared, outcome, joined);
        let failure = match &outcome.answer {
            Answer::Body(_) if age_ms.is_some_and(|age_ms| self.is_too_old(ask, age_ms, detail)) => {
                return Share::TooOld;
            }
            // Followers with more time need not take the answer that the leader got in its last moment.
            Answer::Body(_)
                if detail == Some(Detail::StaleIfError)
                    && shared.deadline < ask.deadline
                    && self.context.now() >= shared.deadline =>
            {
                return Share::Leaders;
            }
            Answer::Body(_) => return Share::Everybodys,
            Answer::Failed(failure) => &failure.kind,
        };
        match failure {
            // The message quotes another spelling of the query.
            FailureKind::Neo4j(_) if shared.text != ask.query.normal => Share::Leaders,
            kind if kind.is_of_statement() || kind.is_of_key() => Share::Everybodys,
            FailureKind::DeadlinePassed => Share::Leaders,
            // A refusal applies to all requests with the same credentials: each further refused log-on brings the user
            // nearer to Neo4j's lockout.
            FailureKind::Neo4j(said) if said.code.starts_with("Neo.ClientError.Security.") => {
                if shared.whose == ask.query.identity.fingerprint {
                    Share::Everybodys
                } else {
                    Share::Leaders
                }
            }
            _ => Share::Luck,
        }
    }

    /// The greatest age that a shared answer can have had at `joined`.
    ///
    /// The owner answered after the forward was sent; when exactly is unknown. So a request that joined later counts
    /// the time since the sending as age:
    ///   the owner answers · this process is stopped for 20 s · it goes on, a client comes and joins · the answer is
    ///   read from the socket, says 1 s and is 20 s old.
    /// The age of a run's result includes the run's time, which is no reason to refuse it to the waiters. A run that
    /// the forward led began after the sending. A run that it joined at the owner was not too old then, or it would not
    /// have been the answer (`is_holder_too_old` there).
    fn age_when_joined(&self, shared: &SharedForward, outcome: &Outcome, joined: MonoTime) -> Option<Millis> {
        let said_ms = outcome.how.age_ms?;
        let sent_at_ms = match outcome.how.class {
            Class::Miss { role: Role::Led, .. } => Millis::ZERO,
            Class::Miss { role: Role::Joined, .. } => {
                self.age_ms_max(shared.hints, None).map_or(said_ms, |most_ms| said_ms.min(most_ms))
            }
            Class::Hit | Class::Bypass(_) => said_ms,
        };
        let on_its_way = joined.since(shared.sent);
        Some(Millis(sent_at_ms.0.saturating_add(on_its_way.0)))
    }

    /// The same end, for a request in this role.
    fn as_role(&self, hop: &Hop, role: Role) -> Hop {
        let mut hop = hop.clone();
        if role == Role::Joined
            && let Hop::Answered(LocalAnswer::Answered(outcome)) = &mut hop
            && let Class::Miss { role, .. } = &mut outcome.how.class
        {
            *role = Role::Joined;
            self.context.note(Event::Joined);
        }
        hop
    }
}

/// Whether the client got a result.
fn is_body(hop: &Hop) -> bool {
    matches!(hop, Hop::Answered(LocalAnswer::Answered(Outcome { answer: Answer::Body(_), .. })))
}

/// Whether the answer came from a run.
fn is_of_a_run(hop: &Hop) -> bool {
    matches!(
        hop,
        Hop::Answered(LocalAnswer::Answered(Outcome { how: How { class: Class::Miss { .. }, .. }, .. }))
    )
}
