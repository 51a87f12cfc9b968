//! The origin over Bolt: a Neo4j server, as the engine's port sees it.
//!
//! Decides how many runs there are at a time, how long each waits and lasts, with whose connection it
//! runs, and what its end means. Never retries, never caches, and never answers from anything but a
//! complete result (promise I10).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hopcache_bolt::{Address, Auth, Finished, Mode, OpenError, Options, Run};
use hopcache_core::limits;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::{AccessMode, Neo4jFailure, Origin, OriginError, OriginFault, OriginRun};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::fault;
use super::pools::{self, Bounds, Fingerprint, LendError, Lent, Pools};
use super::room::ResultRoom;

/// Whose credentials a run logs on with.
#[derive(Debug, Clone)]
pub enum Login {
    /// Each client's own.
    Passthrough,
    /// These, whoever asks.
    Service(Credentials),
}

/// How this node uses its Neo4j server.
#[derive(Debug, Clone)]
pub struct BoltSettings {
    /// Where it is.
    pub address: Address,
    /// Whose credentials.
    pub login: Login,
    /// Runs at a time.
    pub max_concurrent: usize,
    /// Longest run, whatever a request asks for.
    pub timeout: Duration,
    /// Longest wait for a run slot, and for a connection of the principal.
    pub wait: Duration,
    /// For opening a connection, log-on included.
    pub connect_timeout: Duration,
    /// Connections of one principal.
    pub connections_per_principal: usize,
    /// Principals with connections.
    pub principals: usize,
    /// For how long an idle connection is kept.
    pub idle: Duration,
}

impl BoltSettings {
    /// Defaults of INTERFACE section 3 and of `limits`, for a server.
    #[must_use]
    pub fn new(address: Address, login: Login) -> Self {
        Self {
            address,
            login,
            max_concurrent: 32,
            timeout: Duration::from_secs(30),
            wait: Duration::from_millis(limits::ORIGIN_WAIT_MS_MAX),
            connect_timeout: Duration::from_millis(limits::ORIGIN_CONNECT_MS_MAX),
            connections_per_principal: 32,
            principals: limits::ORIGIN_PRINCIPALS_MAX,
            idle: Duration::from_millis(limits::ORIGIN_IDLE_MS_MAX),
        }
    }
}

/// A Neo4j server over Bolt. Dropping it closes its idle connections.
pub struct BoltOrigin {
    settings: BoltSettings,
    pools: Arc<Pools>,
    slots: Semaphore,
    verifies: Semaphore,
    room: ResultRoom,
    _sweeper: AbortOnDropHandle<()>,
}

impl BoltOrigin {
    /// Connects to nothing yet. Must be called inside a tokio runtime: it owns a task that closes idle
    /// connections.
    #[must_use]
    pub fn new(mut settings: BoltSettings) -> Self {
        settings.max_concurrent = settings.max_concurrent.clamp(1, Semaphore::MAX_PERMITS / 4);
        let bounds = Bounds {
            per_principal: settings.connections_per_principal,
            principals: settings.principals,
            lent: settings.max_concurrent + limits::ORIGIN_VERIFIES_MAX,
            idle: settings.idle,
        };
        let options = Options { connect_timeout: settings.connect_timeout, ..Options::default() };
        let pools = Arc::new(Pools::new(settings.address.clone(), options, bounds));
        let every = (settings.idle / 2).max(Duration::from_millis(10));
        let sweeper = tokio::spawn(pools::sweep_while_used(Arc::downgrade(&pools), every));
        Self {
            slots: Semaphore::new(settings.max_concurrent),
            verifies: Semaphore::new(limits::ORIGIN_VERIFIES_MAX),
            room: ResultRoom::new(settings.wait),
            settings,
            pools,
            _sweeper: AbortOnDropHandle::new(sweeper),
        }
    }

    /// One statement in one slot on one connection of `run`'s principal.
    async fn run_as_is(&self, run: &OriginRun, mode: Mode, text: &str) -> Result<Finished, OriginError> {
        let allowed = run.timeout_ms.duration().min(self.settings.timeout);
        let deadline = Instant::now() + allowed;
        let _slot = self.take(&self.slots, deadline).await?;
        let mut lent = self.connection_of(&run.identity, deadline).await?;
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
                let error = fault::of_run(error);
                if matches!(error.kind, OriginFault::Unauthorized(_)) {
                    lent.close();
                    self.pools.forget(&self.fingerprint(&run.identity));
                }
                Err(error)
            }
        }
    }

    async fn take<'a>(
        &self,
        of: &'a Semaphore,
        deadline: Instant,
    ) -> Result<SemaphorePermit<'a>, OriginFault> {
        let patience = deadline.min(Instant::now() + self.settings.wait);
        match timeout_at(patience, of.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(OriginFault::Overloaded),
        }
    }

    async fn connection_of(&self, identity: &Identity, deadline: Instant) -> Result<Lent, OriginFault> {
        let whose = self.fingerprint(identity);
        let lending = self.pools.lend(&whose, || self.auth(identity), self.settings.wait);
        match timeout_at(deadline, lending).await {
            Ok(lent) => lent.map_err(|error| self.not_lent(&whose, error)),
            Err(_) => Err(OriginFault::TimedOut),
        }
    }

    fn not_lent(&self, whose: &Fingerprint, error: LendError) -> OriginFault {
        match error {
            LendError::Full => OriginFault::Overloaded,
            LendError::Open(error) => {
                let fault = fault::of_open(error);
                if matches!(fault, OriginFault::Unauthorized(_)) {
                    self.pools.forget(whose);
                }
                fault
            }
        }
    }

    /// Logs on anew on a connection of the pool, where one is free: a new one was checked when it was
    /// opened. `None`: none is free, or it broke, and the question is still open.
    async fn verify_in_pool(&self, identity: &Identity) -> Option<Result<(), OriginFault>> {
        let whose = self.fingerprint(identity);
        let mut lent = match self.pools.lend(&whose, || self.auth(identity), Duration::ZERO).await {
            Ok(lent) => lent,
            Err(LendError::Full) => return None,
            Err(error) => return Some(Err(self.not_lent(&whose, error))),
        };
        if lent.is_new() {
            return Some(Ok(()));
        }
        let connection = lent.connection().filter(|connection| connection.can_log_on_again())?;
        match connection.log_on_again().await {
            Ok(()) => Some(Ok(())),
            Err(error @ OpenError::Refused(_)) => Some(Err(self.not_lent(&whose, LendError::Open(error)))),
            Err(_) => None,
        }
    }

    fn fingerprint(&self, identity: &Identity) -> Fingerprint {
        match self.settings.login {
            Login::Passthrough => identity.fingerprint,
            // The only pool there is.
            Login::Service(_) => [0; 32],
        }
    }

    fn auth(&self, identity: &Identity) -> Auth {
        let credentials = match &self.settings.login {
            Login::Passthrough => &identity.credentials,
            Login::Service(credentials) => credentials,
        };
        match credentials {
            Credentials::None => Auth::None,
            Credentials::Basic { user, password } => {
                Auth::Basic { user: user.clone(), password: password.clone().into() }
            }
            Credentials::Bearer { token } => Auth::Bearer { token: token.clone().into() },
        }
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
        let _permit = self.take(&self.verifies, deadline).await?;
        if let Some(answer) = self.verify_in_pool(identity).await {
            return answer.map_err(OriginError::from);
        }
        match self.pools.open_apart(self.auth(identity)).await {
            Ok(connection) => {
                connection.close().await;
                Ok(())
            }
            Err(error) => Err(self.not_lent(&self.fingerprint(identity), error).into()),
        }
    }

    fn in_flight(&self) -> usize {
        self.settings.max_concurrent - self.slots.available_permits()
    }
}
