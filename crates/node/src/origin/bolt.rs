//! The origin over Bolt: a Neo4j server, as the engine's port sees it.
//!
//! Decides how many runs there are at a time, how long each waits and lasts, with whose connection it
//! runs, what its end means, and that nothing is asked of a server that is known to be away, or to refuse
//! this node's own log-on. Never retries, never caches, and never answers from anything but a complete
//! result (promise I10).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use hopcache_bolt::{Address, Auth, Connection, Finished, Mode, OpenError, Options, Run};
use hopcache_core::breaker::BreakerState;
use hopcache_core::limits;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_core::turns::{RunClass, TurnBounds};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::{AccessMode, Neo4jFailure, Origin, OriginError, OriginFault, OriginRun};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::fault;
pub use super::gate::BreakerHook;
use super::gate::{Gate, Ticket};
use super::own_login::Refusal;
use super::pools::{self, Bounds, Fingerprint, LendError, Lent, Pools};
use super::result_budget::ResultBudget;
use super::run_slots::{NoSlot, Slot, Slots};
pub use super::settings::{BoltSettings, Login};

/// A Neo4j server over Bolt. Dropping it closes its idle connections.
pub struct BoltOrigin {
    settings: BoltSettings,
    pools: Arc<Pools>,
    /// Run slots, which principals take in turn (F37).
    slots: Slots<Fingerprint>,
    verifies: Semaphore,
    gate: Arc<Gate>,
    /// Neo4j's refusal of this node's own credentials, if they are refused.
    refusal: Refusal,
    room: ResultBudget,
    _sweeper: AbortOnDropHandle<()>,
    _prober: AbortOnDropHandle<()>,
}

impl BoltOrigin {
    /// Connects to nothing yet. Must be called inside a tokio runtime: it owns a task that closes idle
    /// connections, and one that probes a server that is away.
    #[must_use]
    pub fn new(settings: BoltSettings) -> Self {
        Self::watched(settings, Arc::new(|_| {}))
    }

    /// The same; `on_breaker` is told of each change of the breaker's state.
    #[must_use]
    pub fn watched(mut settings: BoltSettings, on_breaker: BreakerHook) -> Self {
        settings.max_concurrent = settings.max_concurrent.clamp(1, Semaphore::MAX_PERMITS / 4);
        let bounds = Bounds {
            per_principal: settings.connections_per_principal,
            principals: settings.principals,
            lent: settings.max_concurrent + limits::ORIGIN_VERIFIES_MAX,
            idle: settings.idle,
        };
        let options = Options { connect_timeout: settings.connect_timeout, ..Options::default() };
        let pools = Arc::new(Pools::new(settings.address.clone(), options, bounds));
        let gate = Arc::new(Gate::new(on_opening(&pools, on_breaker)));
        let prober = tokio::spawn(watch(Arc::clone(&gate), settings.address.clone()));
        let every = (settings.idle / 2).max(Duration::from_millis(10));
        let sweeper = tokio::spawn(pools::sweep_while_used(Arc::downgrade(&pools), every));
        Self {
            slots: Slots::new(turn_bounds(&settings)),
            verifies: Semaphore::new(limits::ORIGIN_VERIFIES_MAX),
            refusal: Refusal::default(),
            room: ResultBudget::new(settings.wait, settings.max_concurrent),
            settings,
            pools,
            gate,
            _sweeper: AbortOnDropHandle::new(sweeper),
            _prober: AbortOnDropHandle::new(prober),
        }
    }

    /// One statement in one slot on one connection of `run`'s principal.
    async fn run_as_is(&self, run: &OriginRun, mode: Mode, text: &str) -> Result<Finished, OriginError> {
        let allowed = run.timeout_ms.duration().min(self.settings.timeout);
        let whose = self.fingerprint(&run.identity);
        // Before the wait for a slot, so that nobody queues for a server that is away, and after it, since it
        // may have gone meanwhile; and so for this node's own log-on, or all who queue would try it in turn.
        self.check_own_login()?;
        self.gate.check()?;
        let _slot = self.take(&whose, run.class, allowed).await?;
        // Only now: a wait behind others is not this statement's slowness.
        let deadline = Instant::now() + allowed;
        self.check_own_login()?;
        let ticket = self.gate.admit()?;
        let ended = self.gate.in_doubt_while(self.run_in_slot(run, (mode, text), deadline, &ticket)).await;
        ticket.report(ended.as_ref().err().map(|error| &error.kind));
        ended.map_err(|error| OriginError { kind: self.blamed(error.kind), ..error })
    }

    async fn run_in_slot(
        &self,
        run: &OriginRun,
        (mode, text): (Mode, &str),
        deadline: Instant,
        ticket: &Ticket<'_>,
    ) -> Result<Finished, OriginError> {
        let mut lent = self.connection_of(run, deadline, ticket).await?;
        let traceparent = run.traceparent.as_deref().map(|parent| [("traceparent", parent)]);
        let bolt_run = Run {
            statement: text,
            params: &run.params,
            database: (!run.database.is_empty()).then_some(&*run.database),
            mode,
            timeout: deadline.saturating_duration_since(Instant::now()),
            bookmarks: &run.bookmarks,
            metadata: traceparent.as_ref().map_or(&[], |pairs| &pairs[..]),
            impersonated: run.impersonated.as_deref(),
            bytes_max: run.bytes_max,
        };
        let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
        let place = self.room.place();
        match connection.run_in(&bolt_run, &place).await {
            Ok(finished) => Ok(Finished { records: place.keep(finished.records), ..finished }),
            Err(error) => {
                let mut error = fault::of_run(error);
                // As large as a result, and shown like one.
                error.records = place.keep(error.records);
                // Also where the server noticed the deadline first and said so: what it does with a statement
                // that is to end is not waited for.
                if fault::ends_connections(&error.kind) {
                    lent.close();
                    self.pools.forget(&self.fingerprint(&run.identity));
                } else if error.kind == OriginFault::TimedOut {
                    lent.close();
                }
                Err(error)
            }
        }
    }

    /// Waits no longer than the run itself may take: the two together are what a client waits for.
    async fn take(
        &self,
        whose: &Fingerprint,
        class: RunClass,
        allowed: Duration,
    ) -> Result<Slot<'_, Fingerprint>, OriginFault> {
        let deadline = Instant::now() + allowed.min(self.settings.wait);
        self.slots.take_in_time(whose, class, deadline).await.map_err(refused)
    }

    async fn permit_to_verify(&self, deadline: Instant) -> Result<SemaphorePermit<'_>, OriginFault> {
        let wait_until = deadline.min(Instant::now() + self.settings.wait);
        match timeout_at(wait_until, self.verifies.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(OriginFault::Overloaded),
        }
    }

    async fn connection_of(
        &self,
        run: &OriginRun,
        deadline: Instant,
        ticket: &Ticket<'_>,
    ) -> Result<Lent, OriginFault> {
        let whose = self.fingerprint(&run.identity);
        let lending = async {
            if self.may_log_on(&run.identity, run.class) {
                self.pools.lend(&whose, || self.auth(&run.identity), self.settings.wait).await
            } else {
                self.pools.lend_idle(&whose).await
            }
        };
        match timeout_at(deadline, lending).await {
            Ok(lent) => lent.map_err(|error| self.not_lent(&whose, error, ticket)),
            Err(_) => Err(OriginFault::TimedOut),
        }
    }

    fn not_lent(&self, whose: &Fingerprint, error: LendError, ticket: &Ticket<'_>) -> OriginFault {
        if matches!(error, LendError::Open(OpenError::TimedOut)) {
            ticket.note_silence();
        }
        match error {
            LendError::Full => OriginFault::Overloaded,
            LendError::Open(error) => {
                let fault = fault::of_open(error);
                if fault::ends_connections(&fault) {
                    self.pools.forget(whose);
                }
                fault
            }
        }
    }

    /// A refusal of the node's own credentials is nobody's who asks: for them Neo4j cannot be had. It is
    /// kept until `reach` is accepted. The gate has heard of it as the answer that it is.
    fn blamed(&self, fault: OriginFault) -> OriginFault {
        match (&self.settings.login, &fault) {
            (Login::Service(_), OriginFault::Unauthorized(failure)) => {
                self.refusal.refused(failure);
                own_login_refused()
            }
            _ => fault,
        }
    }

    fn check_own_login(&self) -> Result<(), OriginFault> {
        if self.refusal.stands() { Err(own_login_refused()) } else { Ok(()) }
    }

    /// Logs on anew on a connection of the principal's pool, where there is one and a connection of it is free:
    /// a new one was checked when it was opened. `None`: there is none, or it broke, and the question is still
    /// open. A check makes no pool: each wrong password would take the place of somebody's who is believed.
    async fn verify_in_pool(
        &self,
        identity: &Identity,
        ticket: &Ticket<'_>,
    ) -> Option<Result<(), OriginFault>> {
        let whose = self.fingerprint(identity);
        let mut lent = match self.pools.lend_again(&whose).await? {
            Ok(lent) => lent,
            Err(LendError::Full) => return None,
            Err(error) => return Some(Err(self.not_lent(&whose, error, ticket))),
        };
        if lent.is_new() {
            return Some(Ok(()));
        }
        let connection = lent.connection().filter(|connection| connection.can_log_on_again())?;
        match connection.log_on_again().await {
            Ok(()) => Some(Ok(())),
            Err(error @ OpenError::Refused(_)) => {
                Some(Err(self.not_lent(&whose, LendError::Open(error), ticket)))
            }
            Err(_) => None,
        }
    }

    /// With a LOGON that happens now.
    async fn verify_now(&self, identity: &Identity, ticket: &Ticket<'_>) -> Result<(), OriginFault> {
        if let Some(answer) = self.verify_in_pool(identity, ticket).await {
            return answer;
        }
        match self.pools.open_apart(self.auth(identity)).await {
            Ok(connection) => {
                connection.close().await;
                Ok(())
            }
            Err(error) => Err(self.not_lent(&self.fingerprint(identity), error, ticket)),
        }
    }

    fn fingerprint(&self, identity: &Identity) -> Fingerprint {
        match self.settings.login {
            Login::Passthrough => identity.fingerprint,
            // The only pool there is.
            Login::Service(_) => [0; 32],
        }
    }

    fn credentials<'a>(&'a self, identity: &'a Identity) -> &'a Credentials {
        match &self.settings.login {
            Login::Passthrough => &identity.credentials,
            Login::Service(credentials) => credentials,
        }
    }

    fn auth(&self, identity: &Identity) -> Auth {
        auth_of(self.credentials(identity))
    }

    /// Not for a prediction: the credentials of a hit are only believed, and from the third wrong password in a row on Neo4j
    /// refuses the right one as well. It takes a connection that clients' runs left idle, as many at a time as there
    /// are; a client's run that finds none opens one, so their number grows to what both use together.
    fn may_log_on(&self, identity: &Identity, class: RunClass) -> bool {
        class != RunClass::Prefetch || matches!(self.credentials(identity), Credentials::None)
    }
}

fn refused(why: NoSlot) -> OriginFault {
    match why {
        NoSlot::PrincipalFull => OriginFault::TooManyRuns,
        NoSlot::Full | NoSlot::Late => OriginFault::Overloaded,
    }
}

fn own_login_refused() -> OriginFault {
    OriginFault::Unreachable("it refuses this node's own log-on".to_owned())
}

fn auth_of(credentials: &Credentials) -> Auth {
    match credentials {
        Credentials::None => Auth::None,
        Credentials::Basic { user, password } => {
            Auth::Basic { user: user.clone(), password: password.clone().into() }
        }
        Credentials::Bearer { token } => Auth::Bearer { token: token.clone().into() },
    }
}

#[async_trait]
impl Origin for BoltOrigin {
    async fn run(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let mode = match run.mode {
            AccessMode::Read => Mode::Read,
            AccessMode::Write => Mode::Write,
        };
        let finished = self.run_as_is(run, mode, &run.statement).await?;
        Ok(ResultSet {
            fields: finished.fields,
            records: finished.records,
            rows: finished.rows,
            kind: finished.statement_type.as_deref().and_then(StatementKind::from_bolt),
            summary: finished.summary,
            bookmark: finished.bookmark,
        })
    }

    /// By `EXPLAIN`, which takes a run slot as well: planning is work. In write mode, since in read mode
    /// the server refuses to plan a write instead of saying that it is one.
    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError> {
        let text = format!("EXPLAIN {}", run.statement);
        let finished = self.run_as_is(run, Mode::Write, &text).await?;
        let word = finished.statement_type.unwrap_or_default();
        StatementKind::from_bolt(&word).ok_or_else(|| {
            OriginFault::Failed(Neo4jFailure {
                code: "Neo.DatabaseError.General.UnknownError".to_owned(),
                message: format!("EXPLAIN gave the statement type {word:?}, which is not known"),
            })
            .into()
        })
    }

    /// With a LOGON that happens now; in service mode, of the service's credentials, since no others
    /// are ever used.
    async fn verify(&self, identity: &Identity) -> Result<(), OriginError> {
        let deadline = Instant::now() + self.settings.wait + 2 * self.settings.connect_timeout;
        self.check_own_login()?;
        self.gate.check()?;
        let _permit = self.permit_to_verify(deadline).await?;
        self.check_own_login()?;
        let ticket = self.gate.admit()?;
        let verified = self.gate.in_doubt_while(self.verify_now(identity, &ticket)).await;
        ticket.report(verified.as_ref().err());
        verified.map_err(|fault| self.blamed(fault).into())
    }

    /// Without credentials of this node's own, a server that refuses to talk to nobody is there. While it
    /// refuses those, this alone tries them again, at its own pace however often it is called.
    async fn reach(&self) -> Result<(), OriginError> {
        let auth = match &self.settings.login {
            Login::Passthrough => Auth::None,
            Login::Service(credentials) => auth_of(credentials),
        };
        if !self.refusal.may_try() {
            return Err(own_login_refused().into());
        }
        let ticket = self.gate.admit()?;
        let opened = match self.pools.open_apart(auth).await {
            Ok(connection) => {
                connection.close().await;
                Ok(())
            }
            Err(LendError::Full) => Err(OriginFault::Overloaded),
            Err(LendError::Open(error)) => {
                if error == OpenError::TimedOut {
                    ticket.note_silence();
                }
                Err(fault::of_open(error))
            }
        };
        ticket.report(opened.as_ref().err());
        match (opened, &self.settings.login) {
            (Err(OriginFault::Unauthorized(_) | OriginFault::Failed(_)), Login::Passthrough) => Ok(()),
            (Ok(()), Login::Service(_)) => {
                self.refusal.ended();
                Ok(())
            }
            (Err(OriginFault::Unauthorized(failure)), Login::Service(_)) => {
                self.refusal.refused(&failure);
                Err(OriginFault::Unauthorized(failure).into())
            }
            (ended, _) => ended.map_err(OriginError::from),
        }
    }

    fn would_shed(&self, identity: &Identity, class: RunClass, timeout_ms: Millis) -> Option<OriginFault> {
        let whose = self.fingerprint(identity);
        if !self.may_log_on(identity, class) && !self.pools.has_standing(&whose) {
            return Some(OriginFault::Overloaded);
        }
        let wait = timeout_ms.duration().min(self.settings.timeout).min(self.settings.wait);
        self.slots.would_refuse(&whose, class, wait).map(refused)
    }

    fn in_flight(&self) -> usize {
        self.slots.running()
    }

    fn slots(&self) -> Option<usize> {
        Some(self.settings.max_concurrent)
    }

    fn is_reachable(&self) -> bool {
        self.gate.is_reachable()
    }

    fn refuses_us(&self) -> bool {
        self.refusal.stands()
    }
}

/// The hook, and the end of the connections that nobody uses: those that stood when the server went away are
/// not trusted when it is back.
fn on_opening(pools: &Arc<Pools>, hook: BreakerHook) -> BreakerHook {
    let pools = Arc::downgrade(pools);
    Arc::new(move |state| {
        if state == BreakerState::Open
            && let Some(pools) = pools.upgrade()
        {
            pools.drop_idle();
        }
        hook(state);
    })
}

async fn watch(gate: Arc<Gate>, address: Address) {
    let connect_timeout = Duration::from_millis(limits::ORIGIN_PROBE_MS_MAX);
    let options = Options { connect_timeout, ..Options::default() };
    let probe = move || {
        let (address, options) = (address.clone(), options.clone());
        async move {
            match Connection::probe(&address, &options).await {
                Err(OpenError::OutOfDescriptors(_)) => None,
                answer => Some(answer.map_err(|error| error.to_string())),
            }
        }
        .boxed()
    };
    gate.watch(Box::new(probe)).await;
}

/// One principal may wait with as many runs as there is room for where nobody else ever asks.
fn turn_bounds(settings: &BoltSettings) -> TurnBounds {
    let waiting_per_principal = match settings.login {
        Login::Passthrough => (settings.max_concurrent * limits::ORIGIN_WAITING_PER_SLOT_MAX)
            .min(limits::ORIGIN_WAITING_PER_PRINCIPAL_MAX),
        Login::Service(_) => limits::ORIGIN_WAITING_MAX,
    };
    TurnBounds { slots: settings.max_concurrent, waiting_per_principal, waiting: limits::ORIGIN_WAITING_MAX }
}

#[cfg(test)]
mod tests;
