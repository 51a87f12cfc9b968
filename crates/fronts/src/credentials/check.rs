//! Checks credentials with Neo4j. An accepted login stays accepted for 30 seconds.
//!
//! From the 20th second on, a hit starts another check in the background. No request waits for that check, and a refusal
//! ends the acceptance. So the node notices a silent Neo4j before an acceptance ends.
//!
//! Credentials are checked before any hit is served (promise I5). A check is a task of its own: a request that waits for
//! it may leave, and the next request joins the check instead of asking Neo4j again. This file runs no statement, and
//! keeps no credentials after their check.

use std::pin::pin;
use std::sync::Arc;

use hopcache_core::key::PrincipalScope;
use hopcache_core::limits::{
    COMPETE_ROUNDS_MAX, CREDENTIALS_CHECK_MS_MAX, CREDENTIALS_MAX, CREDENTIALS_RETRY_WAIT_MS, FOLLOWERS_MAX,
    ORIGIN_WAIT_MS_MAX, PEER_ANSWERS_ASKED_MAX, PEER_ANSWERS_WAIT_MS, SILENCE_PATIENCE_MS,
    STRANGERS_CHECKED_MAX, STRANGERS_WAITING_MAX, STRANGERS_WAITING_PER_USER_MAX,
};
use hopcache_core::time::{Millis, MonoTime};
use hopcache_core::turns::TurnBounds;
use hopcache_engine::Writes;
use hopcache_engine::flight::{FlightBounds, FlightTable, Follower, Leader, Seat, Wait};
use hopcache_engine::identity::{Credentials as Login, Identity};
use hopcache_engine::ports::{Clock, Neo4jFailure, Origin, OriginError, OriginFault, Users};
use hopcache_neo4j::fault::{is_credential_refusal, must_change_password, of_no_slot};
use hopcache_slots::Slots;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::credential_cache::{Acceptance, CredentialCache, IdentityState};
use super::credential_messages::{CredentialAnswer, Fingerprint};
use super::lockout_guard::{LockoutGuard, RecentRefusal};
use super::peer_answers::{OtherNodes, PeerVerdict, RefusalQueue, newest_verdict};

type Check = Result<Arc<Acceptance>, OriginError>;

/// What Neo4j lets the sender of a request do.
#[derive(Debug, Clone)]
pub enum Standing {
    /// Everything that its rights allow. Its requests may be answered from the cache.
    Accepted(Arc<Acceptance>),
    /// Nothing but changing the password. Its statements go to Neo4j, which knows what it allows.
    MustChangePassword,
}

/// Accepted credentials and the checks under way. Dropping it ends the checks.
pub struct Credentials {
    checker: Arc<Checker>,
    tasks: Mutex<JoinSet<()>>,
}

/// Whether this node hears of every change of users and rights.
pub trait Touch: Send + Sync + 'static {
    /// For how long this node may rely on Neo4j's answer about a user; `None`: until it hears of a change.
    fn trusts_users_for(&self, now: MonoTime) -> Option<Millis>;
}

impl Touch for Writes {
    fn trusts_users_for(&self, now: MonoTime) -> Option<Millis> {
        Self::trusts_users_for(self, now)
    }
}

/// Called with each identity that Neo4j accepts, at every check. It waits for nothing.
pub(crate) type AcceptanceHook = Box<dyn Fn(&Arc<Identity>) + Send + Sync>;

struct Checker {
    cache: Mutex<CredentialCache>,
    /// Checks under way: one for each identity, for any number of waiting requests.
    checks: Arc<FlightTable<Fingerprint, Check>>,
    /// Slots for checks of credentials that Neo4j never accepted. There are fewer than connections, and users take turns.
    /// So such checks do not delay checks of accepted credentials, and guesses at one user do not delay another user.
    unknown_slots: Slots<PrincipalScope>,
    lockout_guard: Mutex<LockoutGuard>,
    others: Arc<dyn OtherNodes>,
    on_acceptance: AcceptanceHook,
    /// Permits for questions to the other nodes.
    asking_others: Semaphore,
    refusals: RefusalQueue,
    origin: Arc<dyn Origin>,
    touch: Arc<dyn Touch>,
    clock: Arc<dyn Clock>,
}

impl Users for Credentials {
    fn have_changed(&self) {
        let mut cache = self.checker.cache.lock();
        cache.make_void(self.checker.clock.now());
        self.checker.checks.detach(|_| true);
        drop(cache);
        self.checker.lockout_guard.lock().forget();
    }

    fn may_have_changed(&self) {
        let cache = self.checker.cache.lock();
        cache.ask_again_about_all();
        self.checker.checks.detach(|_| true);
    }
}

impl Credentials {
    /// No credentials are accepted yet. `unreachable_grace_ms` is how long an identity that was accepted before is served
    /// while Neo4j cannot be reached.
    #[must_use]
    pub fn new(
        unreachable_grace_ms: Millis,
        (origin, touch): (Arc<dyn Origin>, Arc<dyn Touch>),
        (others, on_acceptance): (Arc<dyn OtherNodes>, AcceptanceHook),
        clock: Arc<dyn Clock>,
    ) -> Self {
        let bounds = FlightBounds { flights_max: CREDENTIALS_MAX, followers_max: FOLLOWERS_MAX };
        let unknown_bounds = TurnBounds {
            slots: STRANGERS_CHECKED_MAX,
            waiting_per_principal: STRANGERS_WAITING_PER_USER_MAX,
            waiting: STRANGERS_WAITING_MAX,
        };
        let checker = Checker {
            cache: Mutex::new(CredentialCache::new(unreachable_grace_ms)),
            checks: FlightTable::new(bounds),
            unknown_slots: Slots::new(unknown_bounds),
            lockout_guard: Mutex::new(LockoutGuard::new()),
            others,
            on_acceptance,
            asking_others: Semaphore::new(PEER_ANSWERS_ASKED_MAX),
            refusals: RefusalQueue::default(),
            origin,
            touch,
            clock,
        };
        Self { checker: Arc::new(checker), tasks: Mutex::new(JoinSet::new()) }
    }

    /// From now on an identity that was accepted before is served for so long while Neo4j cannot be reached.
    pub fn set_grace(&self, grace_ms: Millis) {
        self.checker.cache.lock().set_grace(grace_ms);
    }

    #[cfg(test)]
    fn is_accepted(&self, identity: &Identity) -> bool {
        matches!(self.checker.known(&identity.fingerprint), IdentityState::Accepted(_))
    }

    /// Checks an identity. There is at most one question to Neo4j at a time for each identity.
    ///
    /// While Neo4j cannot be reached, an identity that it accepted within the stale-if-error time is still served,
    /// because credentials cannot be revoked in a database that is down. The answer that Neo4j gave to another node
    /// counts as well (`peer_answers`). An identity that Neo4j never accepted is not served. A Neo4j that is silent for
    /// [`SILENCE_PATIENCE_MS`] counts as one that cannot be reached, until its answer comes.
    ///
    /// A refusal is cached briefly. Neo4j is asked about at most two unknown passwords of one user between two successful
    /// logins (`lockout_guard`). At the third wrong password Neo4j locks the user out, and a client with an old password
    /// must not do that to the other clients. The answer that a user is locked out is cached as long as a refusal. It says
    /// nothing about these credentials, so it neither ends nor prolongs an acceptance.
    ///
    /// # Errors
    /// Neo4j's own error, or that Neo4j cannot be reached.
    pub async fn check(&self, identity: &Arc<Identity>) -> Result<Standing, OriginError> {
        let check_timeout = Millis(CREDENTIALS_CHECK_MS_MAX).duration();
        let late = |_| Err(OriginFault::TimedOut.into());
        match timeout(check_timeout, self.compete(identity)).await.unwrap_or_else(late) {
            Ok(acceptance) => Ok(Standing::Accepted(acceptance)),
            Err(error) if is_password_to_change(&error.kind) => Ok(Standing::MustChangePassword),
            Err(error) => Err(error),
        }
    }

    async fn compete(&self, identity: &Arc<Identity>) -> Check {
        for _ in 0..COMPETE_ROUNDS_MAX {
            let known = match self.checker.known(&identity.fingerprint) {
                IdentityState::Accepted(acceptance) => {
                    self.check_ahead(identity, &acceptance, self.checker.clock.now());
                    return Ok(acceptance);
                }
                IdentityState::Refused(error) => return Err(error),
                IdentityState::Overdue(acceptance) => Some(acceptance),
                IdentityState::Unknown => None,
            };
            let follower = match self.checker.checks.join(&identity.fingerprint) {
                Seat::Full => break,
                Seat::Follow(follower) => follower,
                Seat::Lead(leader) => {
                    let follower = leader.follow();
                    self.launch(leader, Arc::clone(identity));
                    follower
                }
            };
            let wait_ms = match known {
                Some(acceptance) if acceptance.is_in_grace() => CREDENTIALS_RETRY_WAIT_MS,
                _ => SILENCE_PATIENCE_MS,
            };
            match self.checker.wait_for(&identity.fingerprint, follower, Millis(wait_ms)).await {
                Ok(served_on) => return Ok(served_on),
                Err(Wait::Landed(check)) => return check,
                Err(Wait::Lost) => {}
            }
        }
        Err(OriginFault::Overloaded.into())
    }

    /// Whether an identity may be served now without a check.
    #[must_use]
    pub fn serves(&self, acceptance: &Acceptance, now: MonoTime) -> bool {
        acceptance.holds(now) && self.checker.is_trusted(acceptance, now)
    }

    /// Starts another check of a served identity when it is due. No request waits for it.
    pub fn check_ahead(&self, identity: &Arc<Identity>, acceptance: &Acceptance, now: MonoTime) {
        if acceptance.is_due(now)
            && self.checker.cache.lock().take_recheck(&identity.fingerprint, now)
            && let Seat::Lead(leader) = self.checker.checks.join(&identity.fingerprint)
        {
            self.launch(leader, Arc::clone(identity));
        }
    }

    /// Neo4j refused these credentials in a run: they are checked again before the next request.
    ///
    /// A check that asked before that refusal may still be under way:
    ///   the check asks, and Neo4j accepts · the password is changed · Neo4j refuses a run, which ends the acceptance ·
    ///   the answer of the check arrives, and begins an acceptance of 30 s.
    /// So ending an acceptance also takes the check out of its table, in one step under the lock of the cache. The result
    /// of a check that is not in the table is ignored (`Checker::settle`), and its followers ask again.
    pub fn distrust(&self, identity: &Identity) {
        let now = self.checker.clock.now();
        self.ask_again(identity);
        if self.checker.refusals.push(identity.fingerprint, now) {
            let checker = Arc::clone(&self.checker);
            self.spawn(async move { checker.send_refusals().await });
        }
    }

    /// Neo4j refused a run because the password has to be changed: the credentials are checked again before the next request.
    /// They are right, so no other node is told that Neo4j refuses them.
    pub fn ask_again(&self, identity: &Identity) {
        let mut cache = self.checker.cache.lock();
        cache.forget(&identity.fingerprint);
        self.checker.checks.detach(|whose| *whose == identity.fingerprint);
    }

    /// This node's cached result about these credentials, for a node that asks.
    #[must_use]
    pub fn peer_answer(&self, whose: &Fingerprint) -> CredentialAnswer {
        self.checker.cache.lock().peer_answer(whose, self.checker.clock.now())
    }

    /// Neo4j has refused these credentials at another node, `age_ms` ago. An earlier acceptance ends, as in
    /// [`Credentials::distrust`].
    pub fn refuse_from_peer(&self, whose: &Fingerprint, age_ms: Millis) {
        let decided_at = self.checker.clock.now() - age_ms;
        let mut cache = self.checker.cache.lock();
        cache.refuse_from_peer(whose, decided_at, peer_refusal());
        self.checker.checks.detach(|known| known == whose);
    }

    fn launch(&self, leader: Leader<Fingerprint, Check>, identity: Arc<Identity>) {
        let checker = Arc::clone(&self.checker);
        self.spawn(async move { checker.settle(leader, &identity).await });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.tasks.lock();
        // Removes tasks that have ended. The table of checks bounds the number of checks, and one task sends
        // refusals.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }
}

impl Checker {
    fn known(&self, whose: &Fingerprint) -> IdentityState {
        let now = self.clock.now();
        match self.cache.lock().known(whose, now) {
            IdentityState::Accepted(acceptance) if !self.is_trusted(&acceptance, now) => {
                IdentityState::Overdue(acceptance)
            }
            known => known,
        }
    }

    /// Out of touch, this node may miss that a user is gone. Neo4j's answer counts for a moment then, or while it cannot be asked.
    fn is_trusted(&self, acceptance: &Acceptance, now: MonoTime) -> bool {
        let is_young = |trust_ms| now.since(acceptance.accepted_at()) < trust_ms;
        self.touch.trusts_users_for(now).is_none_or(|trust_ms| acceptance.is_in_grace() || is_young(trust_ms))
    }

    /// Waits for a check. Neo4j may be silent: after `patience_ms` an earlier acceptance counts as if it could not be
    /// reached, this node's or another's. The check goes on, and its result counts.
    async fn wait_for(
        &self,
        whose: &Fingerprint,
        follower: Follower<Check>,
        patience_ms: Millis,
    ) -> Result<Arc<Acceptance>, Wait<Check>> {
        let mut wait = pin!(follower.wait());
        if let Ok(wait) = timeout(patience_ms.duration(), &mut wait).await {
            return Err(wait);
        }
        match self.served_in_silence(whose).await {
            Some(acceptance) => Ok(acceptance),
            None => Err(wait.await),
        }
    }

    /// The acceptance that counts while Neo4j does not answer. None counts from before a refusal or a lock-out: Neo4j was there
    /// then, and its answer is waited for. Otherwise a revoked user could go on by making Neo4j slow.
    async fn served_in_silence(&self, whose: &Fingerprint) -> Option<Arc<Acceptance>> {
        {
            let mut cache = self.cache.lock();
            if cache.last_refusal(whose).is_some() {
                return None;
            }
            if let Some(acceptance) = cache.serve_on(whose, self.clock.now()) {
                return Some(acceptance);
            }
        }
        let Some(PeerVerdict::Accepted(decided_at)) = self.ask_others(whose).await else { return None };
        self.cache.lock().accept_from_peer(whose, decided_at, self.clock.now())
    }

    async fn settle(&self, leader: Leader<Fingerprint, Check>, identity: &Arc<Identity>) {
        let asked_at = self.clock.now();
        let check_timeout = Millis(CREDENTIALS_CHECK_MS_MAX).duration();
        let late = |_| Err(OriginFault::TimedOut.into());
        let verified = timeout(check_timeout, self.ask(identity)).await.unwrap_or_else(late);
        let whose = &identity.fingerprint;
        let peer_verdict = match &verified {
            Err(error) if is_absence(&error.kind) => self.ask_others(whose).await,
            _ => None,
        };
        let is_acceptance = verified.is_ok();
        let is_refusal = verified.as_ref().is_err_and(|error| is_refusal(&error.kind));
        let check = {
            let mut cache = self.cache.lock();
            if !leader.is_attached() {
                return;
            }
            self.keep_result(&mut cache, whose, (verified, peer_verdict), asked_at)
        };
        leader.land(check);
        if is_acceptance {
            (self.on_acceptance)(identity);
        }
        if is_refusal && self.refusals.push(*whose, self.clock.now()) {
            self.send_refusals().await;
        }
    }

    /// Asks the other nodes about these credentials while Neo4j cannot be asked. It asks only if this node's own
    /// cache cannot serve the identity.
    async fn ask_others(&self, whose: &Fingerprint) -> Option<PeerVerdict> {
        {
            let cache = self.cache.lock();
            let must_change =
                cache.last_refusal(whose).is_some_and(|error| is_password_to_change(&error.kind));
            if must_change || cache.may_serve_on(whose, self.clock.now()) {
                return None;
            }
        }
        let within = Millis(PEER_ANSWERS_WAIT_MS);
        let _place = timeout(within.duration(), self.asking_others.acquire()).await.ok()?.ok()?;
        let asked_at = self.clock.now();
        let answers = self.others.ask(whose, within).await;
        let own_refusal = self.cache.lock().refused_at(whose);
        newest_verdict(&answers, (asked_at, self.clock.now()), own_refusal)
    }

    /// Sends refusals to the other nodes until none waits.
    async fn send_refusals(&self) {
        while let Some(refused) = self.refusals.page(self.clock.now()) {
            self.others.send_refusals(refused).await;
        }
    }

    async fn ask(&self, identity: &Identity) -> Result<(), OriginError> {
        let verified = match self.known(&identity.fingerprint) {
            IdentityState::Unknown => self.ask_about_unknown(identity).await,
            IdentityState::Accepted(_) | IdentityState::Overdue(_) | IdentityState::Refused(_) => {
                self.origin.verify(identity).await
            }
        };
        // Neo4j has found the password right in both cases.
        if verified.as_ref().map_or_else(|error| is_password_to_change(&error.kind), |()| true) {
            self.lockout_guard.lock().begin_anew(identity.scope, self.clock.now());
        }
        verified
    }

    async fn ask_about_unknown(&self, identity: &Identity) -> Result<(), OriginError> {
        let deadline = Instant::now() + Millis(ORIGIN_WAIT_MS_MAX).duration();
        let _slot = self.unknown_slots.take(&identity.scope, deadline).await.map_err(of_no_slot)?;
        // Only wrong passwords count against a user at Neo4j, and there can be thousands of them.
        if !matches!(identity.credentials, Login::Basic { .. }) {
            return self.origin.verify(identity).await;
        }
        let last_refusal = self.cache.lock().last_refusal(&identity.fingerprint);
        let last_refusal = last_refusal.filter(|error| may_count_as_wrong(&error.kind));
        let seen = if last_refusal.is_some() { RecentRefusal::Refused } else { RecentRefusal::Never };
        let place = self.lockout_guard.lock().take(identity.scope, seen, self.clock.now());
        // Until Neo4j may be asked again, the last refusal is repeated.
        let place = place.ok_or_else(|| last_refusal.unwrap_or_else(|| OriginFault::TooManyRuns.into()))?;
        let verified = self.origin.verify(identity).await;
        if verified.as_ref().is_err_and(|error| !may_count_as_wrong(&error.kind)) {
            self.lockout_guard.lock().give_back(&identity.scope, place);
        }
        verified
    }

    fn keep_result(
        &self,
        cache: &mut CredentialCache,
        whose: &Fingerprint,
        (verified, peer_verdict): (Result<(), OriginError>, Option<PeerVerdict>),
        asked_at: MonoTime,
    ) -> Check {
        let Err(error) = verified else { return Ok(cache.accept(whose, asked_at)) };
        let now = self.clock.now();
        match &error.kind {
            OriginFault::Unauthorized(failure) if must_change_password(failure) => {
                cache.refuse(whose, now, error.clone());
                Err(error)
            }
            // The user is locked out: Neo4j has not looked at these credentials.
            OriginFault::Unauthorized(failure) if !is_credential_refusal(failure) => {
                cache.put_off(whose, now, error.clone());
                Err(error)
            }
            OriginFault::Unauthorized(_) | OriginFault::Failed(_) => {
                cache.refuse(whose, now, error.clone());
                Err(error)
            }
            OriginFault::Unreachable(_) | OriginFault::Cut(_) | OriginFault::TimedOut => match peer_verdict {
                Some(PeerVerdict::Refused(decided_at)) => {
                    cache.refuse_from_peer(whose, decided_at, peer_refusal());
                    Err(peer_refusal())
                }
                Some(PeerVerdict::Accepted(decided_at)) => {
                    cache.accept_from_peer(whose, decided_at, now).ok_or(error)
                }
                None => cache.serve_on(whose, now).ok_or(error),
            },
            // A lack of slots in this node says nothing about Neo4j, and must not prolong the access of a revoked user.
            OriginFault::Transient(_)
            | OriginFault::Overloaded
            | OriginFault::TooManyRuns
            | OriginFault::TooLarge { .. } => Err(error),
        }
    }
}

/// Whether Neo4j could not be asked. Its absence revokes no credentials.
fn is_absence(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Unreachable(_) | OriginFault::Cut(_) | OriginFault::TimedOut)
}

/// Whether Neo4j looked at the credentials and refused them.
fn is_refusal(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Unauthorized(error) if is_credential_refusal(error))
}

/// Whether the password is right, and has to be changed.
fn is_password_to_change(fault: &OriginFault) -> bool {
    matches!(fault, OriginFault::Unauthorized(error) if must_change_password(error))
}

/// The error for a refusal that another node has reported.
fn peer_refusal() -> OriginError {
    let code = "Neo.ClientError.Security.Unauthorized".to_owned();
    let message = "The client is unauthorized due to authentication failure.".to_owned();
    OriginFault::Unauthorized(Neo4jFailure { code, message, as_sent: Vec::new() }).into()
}

/// Whether Neo4j may have counted a wrong password of the user. It counts none while the user is locked out.
fn may_count_as_wrong(fault: &OriginFault) -> bool {
    match fault {
        OriginFault::Unauthorized(error) => is_credential_refusal(error),
        OriginFault::Failed(_) | OriginFault::Cut(_) | OriginFault::TimedOut => true,
        OriginFault::Unreachable(_)
        | OriginFault::Transient(_)
        | OriginFault::Overloaded
        | OriginFault::TooManyRuns
        | OriginFault::TooLarge { .. } => false,
    }
}

#[cfg(test)]
mod tests;
