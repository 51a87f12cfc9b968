//! Answering on this node: memory, then a flight. Used by the owner, for requests of its own clients
//! and for forwarded ones, and by whoever stands in for an owner that is gone.
//!
//! Nothing here forwards, and the flights joined here never wait for another node (promise I8).

use std::sync::Arc;

use hopcache_core::lease::{Grant, SlotView};
use hopcache_core::limits::{COMPETE_ROUNDS_MAX, PAUSE_MS};
use hopcache_core::time::{Millis, MonoTime};

use crate::ask::{Ask, Hints};
use crate::copy::{Life, MemoryCopy, SharedCopy};
use crate::engine::Engine;
use crate::flight::{Seat, Wait};
use crate::lead::{Errand, Landed, Landing, StaleUse};
use crate::outcome::{
    Answer, Cause, Class, Detail, Event, Failure, FailureKind, How, Kept, Outcome, Reason, Role,
};
use crate::ports::OriginFault;
use crate::prefetch::Resolution;
use crate::span::scaled;

/// What this node makes of a request.
#[derive(Debug, Clone)]
pub(crate) enum Here {
    /// An answer, or a failure.
    Answered(Outcome),
    /// The server does not vouch for a read: the entry node runs it for its one client.
    NotARead(Reason),
    /// This node is leaving and leads no more: the key's new owner is to be asked.
    Elsewhere,
}

impl Engine {
    /// Answers from memory, or leads or joins a flight.
    pub(crate) async fn answer_here(self: &Arc<Self>, ask: &Ask) -> Here {
        self.look_after_pause().await;
        if ask.freshness.no_cache && ask.freshness.only_if_cached {
            // Neither what is stored nor a run.
            return Here::Answered(self.not_cached(ask));
        }
        if let Some(outcome) = self.from_memory(ask) {
            return Here::Answered(outcome);
        }
        if ask.freshness.only_if_cached {
            return Here::Answered(self.from_store(ask).await);
        }
        if self.is_known_too_large(ask) {
            return Here::NotARead(Reason::TooLarge);
        }
        if self.leads_no_more() {
            return self.hand_on();
        }
        if ask.freshness.no_cache || !self.policy.collapses {
            return self.read_anew(ask).await;
        }
        let left = ask.deadline.since(self.now());
        let here = tokio::select! {
            biased;
            here = self.compete(ask) => here,
            () = self.ports.clock.sleep(left) => {
                Here::Answered(self.failed(ask, FailureKind::DeadlinePassed.into(), Role::Joined))
            }
        };
        self.or_spare(ask, here).await
    }

    /// Serves a fresh copy, or a stale one while a refresh runs (stale while revalidate, RFC 5861).
    pub(crate) fn from_memory(self: &Arc<Self>, ask: &Ask) -> Option<Outcome> {
        if ask.freshness.no_cache {
            return None;
        }
        let copy = self.own_copy(&ask.query.key)?;
        let now = self.now();
        if !self.is_awake(now) {
            return None;
        }
        if !copy.keeps_to(ask.freshness, now) {
            return None;
        }
        match copy.life(now) {
            Life::Fresh(_) => {
                // Nobody asks the origin for a request with `only-if-cached`.
                let errand = || (!ask.freshness.only_if_cached).then(|| Errand::of(ask, Cause::Refresh));
                self.consider_refresh(&ask.query.key, &copy, (1, now), errand);
                Some(self.hit_outcome(ask, &copy, None, now))
            }
            // Nobody asks the origin for this request, so it brings about no refresh.
            Life::Stale(_) if ask.freshness.only_if_cached => Some(self.stale_outcome(ask, &copy, now)),
            Life::Stale(_) => {
                let errand = || Some(Errand::of(ask, Cause::Refresh));
                self.consider_refresh(&ask.query.key, &copy, (1, now), errand);
                Some(self.stale_outcome(ask, &copy, now))
            }
            Life::Dead => None,
        }
    }

    async fn compete(self: &Arc<Self>, ask: &Ask) -> Here {
        // How the flight ended after which this request tries again.
        let mut before: Option<Arc<Landed>> = None;
        for _ in 0..COMPETE_ROUNDS_MAX {
            if self.leads_no_more() {
                return self.hand_on();
            }
            let joined = self.now();
            let (follower, role) = match self.flights.join(&ask.query.key) {
                Seat::Full => break,
                Seat::Follow(follower) => {
                    self.note(Event::Joined);
                    self.prefetch.joined(&ask.query.key);
                    (follower, Role::Joined)
                }
                Seat::Lead(leader) => {
                    if let Some(landed) = &before
                        && !self.may_retry()
                    {
                        leader.land(Arc::clone(landed));
                        return self.of_landing(ask, &landed.landing, Role::Joined);
                    }
                    let follower = leader.follow();
                    #[cfg(hopcache_seeded)]
                    let leader = self.seeded_lead(leader, ask).await;
                    self.launch(leader, self.errand_of_miss(ask));
                    (follower, Role::Led)
                }
            };
            if let Some(outcome) = self.overdue_spare(ask) {
                return Here::Answered(outcome);
            }
            let wait = tokio::select! {
                biased;
                wait = follower.wait() => wait,
                outcome = self.spare_when_overdue(ask) => return Here::Answered(outcome),
            };
            let Wait::Landed(landed) = wait else {
                #[cfg(hopcache_seeded)]
                self.seeded_unlocked(ask).await;
                continue;
            };
            let landing = &landed.landing;
            // A scope has no password: flights are shared by all who send the same user's name. A no to other credentials
            // says nothing of these. A no to the same ones is taken at once: Neo4j locks a user out after three.
            if is_no_to_credentials(landing) && landed.whose != ask.query.identity.fingerprint {
                continue;
            }
            // What the server says of the statement is everybody's answer, and so is a run that used up its
            // time. Any other failure was the leader's luck: a follower tries once more before it takes it for
            // its own, unless such tries have left the key held back.
            if role == Role::Joined
                && before.is_none()
                && is_leaders_luck(landing)
                && self.held_back(&ask.query.key).is_none()
            {
                before = Some(landed);
                continue;
            }
            if self.is_holder_too_old(ask, landing, (role, joined)) {
                continue;
            }
            if role == Role::Joined && !self.is_fresh_enough(ask, landing) {
                // Flights are shared by key; what this request asks beyond that, it asks for itself.
                return self.read_anew(ask).await;
            }
            return self.of_landing(ask, landing, role);
        }
        Here::Answered(self.failed(ask, FailureKind::Overloaded.into(), Role::Joined))
    }

    /// With caching off, what was stored while it was on is no answer any more.
    fn errand_of_miss(&self, ask: &Ask) -> Errand {
        let errand = Errand::of(ask, Cause::Miss);
        if self.policy.ttl_ms > Millis::ZERO {
            return errand;
        }
        Errand { age_max_ms: Some(Millis::ZERO), stale_use: StaleUse::Ignore, ..errand }
    }

    /// Whether what landed is no answer to this request any more (I4). A run's own request takes its result however
    /// long the run took: it is what the origin answers. So do those who joined while the value would have been
    /// within its life. To judge them by its age at landing would refuse them every result whose run outlasts that:
    ///   a TTL of 1 s, runs of 2 s, forty requests at once: one is answered · the others compete again · one of
    ///   them is answered … and after some rounds the rest is told 503 by a healthy origin.
    /// But what is older than any run takes was held by a process that was stopped in between.
    fn is_holder_too_old(&self, ask: &Ask, landing: &Landing, (role, joined): (Role, MonoTime)) -> bool {
        match landing {
            Landing::Found(copy) | Landing::Stale(copy) => copy.life(self.now()) == Life::Dead,
            Landing::Ran { copy, .. } => {
                // Past its own life, jitter included, before this request came. Without a TTL there is no such life.
                let was_dead = copy.dead_at > copy.read_started && copy.dead_at < joined;
                let was_too_old = self.is_too_old(ask, joined.since(copy.read_started), None);
                let age_ms = copy.age_ms(self.now());
                let was_stopped = age_ms.0 > self.policy.run_timeout_ms.0.saturating_add(PAUSE_MS)
                    && self.is_too_old(ask, age_ms, None);
                role == Role::Joined && (was_dead || was_too_old || was_stopped)
            }
            Landing::NotARead(_) | Landing::Failed(_) | Landing::HeldBack { .. } => false,
        }
    }

    /// Whether what landed keeps to the request's own `max-age` and `max-stale`.
    fn is_fresh_enough(&self, ask: &Ask, landing: &Landing) -> bool {
        let (Landing::Found(copy) | Landing::Stale(copy) | Landing::Ran { copy, .. }) = landing else {
            return true;
        };
        copy.keeps_to(ask.freshness, self.now())
    }

    /// Whether an answer of this age is past TTL and grace, by the least that they can be; past
    /// stale-if-error too where it is one of those.
    pub(crate) fn is_too_old(&self, ask: &Ask, age_ms: Millis, detail: Option<Detail>) -> bool {
        self.age_ms_max(ask.hints, detail).is_some_and(|most_ms| age_ms > most_ms)
    }

    /// TTL and grace of what such hints ask for, stale-if-error too where it is one of those. Where the operator gives
    /// no TTL there is no such bound. Who wishes for none is bound by the operator's: a run takes time, so no answer
    /// is younger than nothing, and one that waited in the socket of a stopped node may be of any age.
    pub(crate) fn age_ms_max(&self, hints: Hints, detail: Option<Detail>) -> Option<Millis> {
        let wished_ms = hints.ttl_ms.filter(|ttl_ms| *ttl_ms > Millis::ZERO);
        let ttl_ms = wished_ms.unwrap_or(self.policy.ttl_ms).min(self.policy.ttl_ms);
        let spare_ms = match detail {
            Some(Detail::StaleIfError) => self.policy.stale_if_error_ms,
            _ => Millis::ZERO,
        };
        let most_ms = scaled(ttl_ms, 1.0 + self.policy.grace).0.saturating_add(spare_ms.0);
        (ttl_ms > Millis::ZERO).then_some(Millis(most_ms))
    }

    /// `no-cache`: a read that begins after the request came, so no flight under way will do. It is
    /// stored where nobody else holds the lease; where somebody does, it is only answered.
    async fn read_anew(self: &Arc<Self>, ask: &Ask) -> Here {
        let mut errand = Errand::of(ask, Cause::Miss);
        errand.age_max_ms = Some(Millis::ZERO);
        let engine = Arc::clone(self);
        let task = self.tasks.spawn(async move {
            let leads = async {
                if engine.policy.collapses {
                    engine.lead_anew(&errand).await
                } else {
                    engine.lead_alone(&errand).await
                }
            };
            tokio::select! {
                biased;
                landing = leads => Some(landing),
                // Dropped, it gives its lease back.
                () = engine.flights_handed_on() => None,
            }
        });
        let left = ask.deadline.since(self.now());
        tokio::select! {
            biased;
            ended = task => match ended {
                Ok(Some(landing)) => self.of_landing(ask, &landing, Role::Led),
                Ok(None) => self.hand_on(),
                Err(_) => Here::Answered(self.failed(ask, FailureKind::BadResult.into(), Role::Led)),
            },
            () = self.ports.clock.sleep(left) => {
                Here::Answered(self.failed(ask, FailureKind::DeadlinePassed.into(), Role::Led))
            }
        }
    }

    async fn lead_anew(&self, errand: &Errand) -> Landing {
        if let Some(left_ms) = self.held_back(&errand.query.key) {
            return self.land_held_back(errand, left_ms).await;
        }
        let ask = self.lease_ask(errand, self.lease_ms(&errand.query));
        let grant = self.ports.store.get_or_lease(&errand.query.key, &ask).await;
        self.saw_store(&grant);
        let landing = match grant {
            Ok(Grant::Lease { token, kind, .. }) => {
                self.note(Event::LeaseGrant(kind));
                self.holdings.add(errand.query.key, token);
                self.run_leased(errand, token, ask.lease_ms).await
            }
            Ok(Grant::Value(_) | Grant::Busy { .. }) | Err(_) => self.run(errand, None).await,
        };
        // An older copy must not be served on; the new one is in the store. It is not kept here: without a
        // seat in a table nobody would tell us of a purge in between. A run without a result brought nothing
        // newer, and leaves the copy to those who take it; unless the server would not give that any more.
        if matches!(landing, Landing::Ran { .. } | Landing::Found(_)) || landing.is_refusal() {
            self.ports.memory.remove(&errand.query.key);
        }
        landing
    }

    /// `only-if-cached`: what memory does not have may still be in the store.
    async fn from_store(self: &Arc<Self>, ask: &Ask) -> Outcome {
        let asked = self.now();
        let seen = self.ports.store.peek(&ask.query.key).await;
        self.saw_store(&seen);
        if let Ok(SlotView { entry: Some(stored), .. }) = seen
            && let Some(copy) = self.decode_stored(&ask.query, &stored, asked)
            && self.policy.ttl_ms > Millis::ZERO
        {
            let now = self.now();
            match copy.life(now) {
                _ if !copy.keeps_to(ask.freshness, now) => {}
                Life::Fresh(_) => return self.hit_outcome(ask, &copy, None, now),
                Life::Stale(_) => return self.stale_outcome(ask, &copy, now),
                Life::Dead => {}
            }
        }
        self.not_cached(ask)
    }

    pub(crate) fn not_cached(&self, ask: &Ask) -> Outcome {
        let mut outcome = self.failed(ask, FailureKind::NotCached.into(), Role::Led);
        outcome.how.detail = Some(Detail::NotCached);
        outcome
    }

    fn of_landing(&self, ask: &Ask, landing: &Landing, role: Role) -> Here {
        let now = self.now();
        Here::Answered(match landing {
            Landing::NotARead(reason) => return Here::NotARead(*reason),
            Landing::Failed(error) => self.failed(ask, Failure::from(error.clone()), role),
            Landing::HeldBack { left_ms } => {
                self.failed(ask, FailureKind::HeldBack { left_ms: *left_ms }.into(), role)
            }
            Landing::Found(copy) => self.hit_outcome(ask, copy, None, now),
            Landing::Stale(copy) => {
                // The store's copy does not know how the runs after it went.
                if self.has_setback_since(&ask.query.key, copy.read_started) {
                    copy.origin_failed();
                }
                self.stale_outcome(ask, copy, now)
            }
            Landing::Ran { copy, live, kept, detail } => {
                if role == Role::Joined
                    && let Some(ticket) = copy.ticket()
                {
                    // It landed between this request's joining and its being seen to have: see `Tickets::joined`.
                    ticket.settle(Resolution::Late);
                }
                let answer = match live {
                    Some((form, body)) if *form == ask.form => Answer::Body(body.clone()),
                    _ => answer_of(copy, ask),
                };
                let mut how = how(copy, Class::Miss { kept: *kept, role }, *detail, now);
                if *kept != Kept::Stored {
                    how.ttl_ms = None;
                }
                Outcome { answer, how, answered_by: None, key: ask.query.key }
            }
        })
    }

    /// A stale copy, or a dead one, in its own words.
    fn stale_outcome(&self, ask: &Ask, copy: &SharedCopy, now: MonoTime) -> Outcome {
        self.note(Event::StaleServed);
        let detail = if copy.has_origin_failed() { Detail::StaleIfError } else { Detail::Stale };
        self.hit_outcome(ask, copy, Some(detail), now)
    }

    /// `now` is when the copy was judged: read once more it could be stale by then, and called fresh.
    pub(crate) fn hit_outcome(
        &self,
        ask: &Ask,
        copy: &SharedCopy,
        detail: Option<Detail>,
        now: MonoTime,
    ) -> Outcome {
        copy.serves_demand();
        let detail = detail.or(self.is_for_want_of_a_store(copy).then_some(Detail::Degraded));
        let is_new_form = !copy.has_rendering(ask.form);
        let answer = answer_of(copy, ask);
        if is_new_form {
            // The copy became heavier: weigh it again.
            let life_ms = copy.kept_until().since(now);
            self.ports.memory.weigh_again(ask.query.key, copy, life_ms);
        }
        Outcome { answer, how: how(copy, Class::Hit, detail, now), answered_by: None, key: ask.query.key }
    }

    pub(crate) fn failed(&self, ask: &Ask, failure: Failure, role: Role) -> Outcome {
        Outcome {
            answer: Answer::Failed(failure),
            how: How::failed(role),
            answered_by: None,
            key: ask.query.key,
        }
    }

    fn is_known_too_large(&self, ask: &Ask) -> bool {
        let mut known = self.too_large.lock();
        match known.get(&ask.query.key) {
            Some(until) if *until > self.now() => true,
            Some(_) => {
                known.pop(&ask.query.key);
                false
            }
            None => false,
        }
    }
}

/// What is said of an answer that is made from a copy at `now`.
pub(crate) fn how(copy: &MemoryCopy, class: Class, detail: Option<Detail>, now: MonoTime) -> How {
    let ttl_ms = match copy.life(now) {
        Life::Fresh(left) => i64::try_from(left.0).unwrap_or(i64::MAX),
        Life::Stale(_) | Life::Dead => {
            // Negative also in its first millisecond: 0 would call it fresh.
            i64::try_from(now.since(copy.fresh_until).0.max(1)).map_or(i64::MIN, |past| -past)
        }
    };
    How { class, age_ms: Some(copy.age_ms(now)), ttl_ms: Some(ttl_ms), detail }
}

fn answer_of(copy: &MemoryCopy, ask: &Ask) -> Answer {
    match copy.rendering(ask.form) {
        Ok(body) => Answer::Body(body),
        Err(error) => Answer::Failed(FailureKind::from(error).into()),
    }
}

/// Whether Neo4j refused the leader's log-on.
fn is_no_to_credentials(landing: &Landing) -> bool {
    matches!(landing, Landing::Failed(error) if matches!(error.kind, OriginFault::Unauthorized(_)))
}

/// Whether a failure says something of the leader's circumstances and nothing of the statement.
fn is_leaders_luck(landing: &Landing) -> bool {
    let Landing::Failed(error) = landing else { return false };
    match error.kind {
        // All who ask for a key are one principal, so its full queue is everybody's.
        OriginFault::Failed(_)
        | OriginFault::TooLarge { .. }
        | OriginFault::TimedOut
        | OriginFault::TooManyRuns
        // Of the follower's own credentials: see `is_no_to_credentials`.
        | OriginFault::Unauthorized(_) => false,
        OriginFault::Transient(_)
        | OriginFault::Unreachable(_)
        | OriginFault::Cut(_)
        | OriginFault::Overloaded => true,
    }
}
