//! The origin over Bolt: the engine's origin port on a Neo4j server.
//!
//! This file decides how many runs there are at a time, how long each waits and lasts, on which connection it runs,
//! and the meaning of its end. It asks nothing of a server that is known to be away, or to refuse this node's own
//! login. It retries one thing, once: a read whose connection was cut before its first record. It never caches, and answers
//! only from a complete result (promise I10).

mod asking;
mod logins;
mod prober;
mod repeated;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use hopcache_bolt::{Auth, Mode, OpenError, Options, Run, WholeResult};
use hopcache_core::bookmark::{Position, ReadRange};
use hopcache_core::breaker::BreakerState;
use hopcache_core::limits;
use hopcache_core::origin_limit::LimitBounds;
use hopcache_core::pattern::PatternId;
use hopcache_core::proof::ServerRun;
use hopcache_core::result::{MarkerEffect, ResultSet, StatementKind};
use hopcache_core::time::Millis;
use hopcache_core::turns::{RunClass, TurnBounds};
use hopcache_cypher::forms::pattern::pattern_id;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{
    AccessMode, Neo4jFailure, Origin, OriginError, OriginFault, OriginRun, WriteOf,
};
use hopcache_slots::{Slot, Slots, tick_while_used};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use self::logins::{follow_password, standing_of};
use super::ResultBudget;
use super::fault;
pub use super::gate::BreakerHook;
use super::gate::{CallPermit, Gate};
use super::live::{self, LiveTap};
use super::marker::Marker;
use super::pools::{self, Bounds, Fingerprint, LendError, LentConnection, Pools};
use super::server_runs::ServerRuns;
use super::service_login::auth_of;
use super::settings::own_login_refused;
pub use super::settings::{BoltSettings, Login, ServiceLogin, SharedOrigin};
use super::updates::WriteWords;

/// The origin over Bolt. Dropping it closes its idle connections.
pub struct BoltOrigin {
    settings: BoltSettings,
    pools: Arc<Pools>,
    /// Run slots, which principals take in turn (F37).
    slots: Arc<Slots<Fingerprint>>,
    verifies: Semaphore,
    gate: Arc<Gate>,
    runs: ServerRuns,
    room: Arc<ResultBudget>,
    _sweeper: AbortOnDropHandle<()>,
    _prober: AbortOnDropHandle<()>,
    _ticker: Option<AbortOnDropHandle<()>>,
    _follower: Option<AbortOnDropHandle<()>>,
}

impl BoltOrigin {
    /// An origin without connections. It must be called inside a tokio runtime, because it owns a task that closes idle
    /// connections and a task that probes an absent server.
    #[must_use]
    pub fn new(settings: BoltSettings) -> Self {
        Self::watched(settings, Arc::new(|_| {}))
    }

    /// Like [`BoltOrigin::new`]. `on_breaker` is called at each change of the breaker's state.
    #[must_use]
    pub fn watched(mut settings: BoltSettings, on_breaker: BreakerHook) -> Self {
        settings.max_concurrent = settings.max_concurrent.clamp(1, Semaphore::MAX_PERMITS / 4);
        let bounds = Bounds {
            per_principal: settings.connections_per_principal,
            principals: settings.principals,
            lent: settings.max_concurrent + limits::ORIGIN_VERIFIES_MAX,
            idle: settings.idle,
            life: settings.life,
        };
        let options = Options {
            connect_timeout: settings.connect_timeout,
            silence_max: Duration::from_millis(limits::ORIGIN_SILENCE_MS_MAX),
            roots: settings.roots.clone(),
            routed: settings.routed.clone(),
            ..Options::default()
        };
        let follower = follow_password(&settings, &options);
        let pools = Arc::new(Pools::new(settings.address.clone(), options, bounds));
        let gate = settings.gate.clone().unwrap_or_default();
        gate.on_moves(on_opening(&pools, on_breaker));
        let whom = (settings.address.clone(), settings.roots.clone());
        let prober = tokio::spawn(prober::watch(Arc::clone(&gate), whom, Arc::downgrade(&pools)));
        let every = (settings.idle / 2).max(Duration::from_millis(10));
        let own_room = || Arc::new(ResultBudget::new(settings.wait, settings.max_concurrent));
        let room = settings.results.clone().unwrap_or_else(own_room);
        let sweeper = tokio::spawn(pools::sweep_while_used(Arc::downgrade(&pools), every));
        let slots = Slots::within(turn_bounds(&settings), limit_bounds(&settings), wall_clock_us())
            .in_order(settings.line);
        let slots = Arc::new(slots);
        let start_ticking = || AbortOnDropHandle::new(tokio::spawn(tick_while_used(Arc::downgrade(&slots))));
        let ticker = settings.is_adaptive.then(start_ticking);
        Self {
            slots,
            verifies: Semaphore::new(limits::ORIGIN_VERIFIES_MAX),
            runs: ServerRuns::default(),
            room,
            settings,
            pools,
            gate,
            _sweeper: AbortOnDropHandle::new(sweeper),
            _prober: AbortOnDropHandle::new(prober),
            _ticker: ticker,
            _follower: follower,
        }
    }

    /// One statement in one slot on one connection of `run`'s principal. Each run moves this future once: what it seldom needs is
    /// in boxes of its own.
    async fn run_as_is(
        &self,
        run: &OriginRun,
        mode: Mode,
        (text, pattern): (&str, Option<PatternId>),
    ) -> Result<RunEnd, OriginError> {
        let allowed = run.timeout_ms.duration().min(self.settings.timeout);
        let whose = self.fingerprint(&run.identity);
        // The check comes before the wait for a slot, so that no run queues for an absent server, and again after it,
        // because the server may have gone meanwhile. The same holds for this node's own login: otherwise every queued
        // run would try it.
        self.settings.login.check()?;
        self.gate.check()?;
        let pattern = pattern.unwrap_or_else(|| pattern_id(text));
        let came = Instant::now();
        let slot = self.take(&whose, (run.class, pattern), allowed).await;
        run.times.waited(Millis::from(came.elapsed()));
        let slot = slot?;
        // The time starts only now, because waiting for other runs does not make this statement slow.
        let deadline = Instant::now() + allowed;
        self.settings.login.check()?;
        let ticket = self.gate.admit()?;
        let ended =
            self.gate.in_doubt_while(pin!(self.run_in_slot(run, (mode, text), deadline, &ticket))).await;
        ticket.report(ended.as_ref().err().map(|error| &error.kind));
        if says_how_busy(&ended) {
            slot.ended_as(pattern);
        }
        let ended = match ended {
            Err(error) => Err(Box::pin(self.or_behind_bookmark(run, error)).await),
            ended => ended,
        };
        ended.map_err(|error| OriginError { kind: self.settings.login.blamed(&whose, error.kind), ..error })
    }

    async fn run_once(
        &self,
        run: &OriginRun,
        (mode, text): (Mode, &str),
        deadline: Instant,
        (ticket, tap): (&CallPermit<'_>, &mut LiveTap<'_>),
    ) -> Result<RunEnd, OriginError> {
        let mut lent = self.connection_of(run, deadline, ticket).await?;
        let newest = &self.settings.newest;
        if newest.must_ask(run, lent.opened()) {
            Box::pin(self.ask_newest_on(&mut lent, run, deadline)).await?;
        }
        let (carried, bookmarks) = newest.carried_by(run, lent.opened());
        let begun = Instant::now();
        let metadata = run.transaction_metadata();
        let left = deadline.saturating_duration_since(Instant::now());
        let bolt_run = Run {
            statement: text,
            params: &run.params,
            database: (!run.database.is_empty()).then_some(&*run.database),
            mode,
            timeout: left,
            server_timeout: live::server_timeout(run, left),
            bookmarks: &bookmarks,
            metadata: &metadata,
            impersonated: run.impersonated.as_deref(),
            bytes_max: run.bytes_max,
        };
        let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
        let place = self.room.place();
        let words = self.settings.marker.as_ref().and_then(|_| words_to_mark(run, text));
        let ended = match self.settings.marker.as_ref().zip(words.as_ref()) {
            Some((marker, words)) => {
                let closing = marker.closing(words);
                let ended = Box::pin(connection.run_closed(&bolt_run, &closing, &place)).await;
                ended.map(|(finished, last)| (finished, last.as_ref().map(Marker::done)))
            }
            None => connection.run_tapped(&bolt_run, &place, tap).await.map(|finished| (finished, None)),
        };
        let is_left_open = connection.has_open_result();
        match ended {
            Ok((finished, marked)) => {
                let range = newest.range_of(run, carried, &finished, begun);
                tap.whole(&finished, range.as_ref());
                let finished = WholeResult { records: place.keep(finished.records), ..finished };
                Ok(RunEnd { finished, range, marked })
            }
            Err(error) if is_left_open => {
                let of = (Arc::clone(newest), carried, begun);
                tap.hand_over(lent.detach(), of, (&run.database, &self.room));
                Err(fault::of_run(error))
            }
            Err(error) => {
                let mut error = tap.failed(error);
                newest.failed(run, &carried, &error.kind);
                // The records can be as large as a result, and are shown in the same way.
                error.records = place.keep(error.records);
                // Also when the server noticed the deadline first: the run does not wait for the statement to end.
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

    /// Waits for a slot, at most as long as the run itself may take: a client waits for both together.
    async fn take(
        &self,
        whose: &Fingerprint,
        wish: (RunClass, PatternId),
        allowed: Duration,
    ) -> Result<Slot<'_, Fingerprint>, OriginFault> {
        let deadline = Instant::now() + allowed.min(self.settings.wait);
        self.slots.take_in_time(whose, wish, deadline).await.map_err(fault::of_no_slot)
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
        ticket: &CallPermit<'_>,
    ) -> Result<LentConnection, OriginFault> {
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

    fn not_lent(&self, whose: &Fingerprint, error: LendError, ticket: &CallPermit<'_>) -> OriginFault {
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
}

/// What a statement writes, if its transaction is to be marked. EXPLAIN has another text than its run.
fn words_to_mark(run: &OriginRun, text: &str) -> Option<WriteWords> {
    let is_write = run.mode == AccessMode::Write && run.live.is_none() && *text == *run.statement;
    is_write.then(|| WriteWords::of(text, &run.params)).filter(Marker::is_for)
}

/// A run that ended well.
struct RunEnd {
    finished: WholeResult,
    /// Between which transactions it read.
    range: Option<ReadRange>,
    /// What it did to the marker.
    marked: Option<MarkerEffect>,
}

#[async_trait]
impl Origin for BoltOrigin {
    async fn run(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let mode = match run.mode {
            AccessMode::Read => Mode::Read,
            AccessMode::Write => Mode::Write,
        };
        let RunEnd { finished, range, marked } =
            self.run_as_is(run, mode, (&run.statement, run.pattern)).await?;
        Ok(ResultSet {
            fields: finished.fields,
            records: finished.records,
            rows: finished.rows,
            kind: finished.statement_type.as_deref().and_then(StatementKind::from_bolt),
            summary: finished.summary,
            bookmark: finished.bookmark,
            range,
            marked,
        })
    }

    /// Classifies a statement by `EXPLAIN`. It takes a run slot, because planning is work. It runs in write mode, because
    /// in read mode the server refuses to plan a write instead of reporting that it is one.
    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError> {
        let text = format!("EXPLAIN {}", run.statement);
        let ended = self.run_as_is(run, Mode::Write, (&text, None)).await?;
        let kind = ended.finished.statement_type.unwrap_or_default();
        StatementKind::from_bolt(&kind).ok_or_else(|| {
            OriginFault::Failed(Neo4jFailure {
                code: "Neo.DatabaseError.General.UnknownError".to_owned(),
                message: format!("EXPLAIN gave the statement type {kind:?}, which is not known"),
                as_sent: Vec::new(),
            })
            .into()
        })
    }

    /// Asks on a connection of the principal's pool. It takes no run slot: it costs the server less than a tenth of a
    /// millisecond, and the client of a write waits for it.
    async fn newest(&self, of: &WriteOf, timeout_ms: Millis) -> Result<Option<Position>, OriginError> {
        let asked = self.ask_newest(of, timeout_ms, false).await?;
        Ok(asked.map(|(newest, _)| newest))
    }

    async fn newest_and_run(
        &self,
        of: &WriteOf,
        timeout_ms: Millis,
    ) -> Result<Option<(Position, Option<ServerRun>)>, OriginError> {
        self.ask_newest(of, timeout_ms, true).await
    }

    /// Checks with a LOGON that happens now. In service mode it uses the service's credentials, because no others are
    /// ever used.
    async fn verify(&self, identity: &Identity) -> Result<(), OriginError> {
        let deadline = Instant::now() + self.settings.wait + 2 * self.settings.connect_timeout;
        self.settings.login.check()?;
        self.gate.check()?;
        let _permit = self.permit_to_verify(deadline).await?;
        self.settings.login.check()?;
        let ticket = self.gate.admit()?;
        let whose = self.fingerprint(identity);
        let verified = self.gate.in_doubt_while(pin!(self.verify_now(identity, &ticket))).await;
        ticket.report(verified.as_ref().err());
        verified.map_err(|fault| self.settings.login.blamed(&whose, fault).into())
    }

    /// Without credentials of this node's own, any answer of the server counts as reachable. While the server refuses this
    /// node's credentials, only this function tries them again, at a fixed pace however often it is called.
    async fn reach(&self) -> Result<(), OriginError> {
        let (whose, auth) = match &self.settings.login {
            Login::Passthrough => ([0; 32], Auth::None),
            Login::Service(login) if login.refusal().may_try() => {
                (login.fingerprint(), auth_of(&login.credentials()))
            }
            Login::Service(_) => return Err(own_login_refused().into()),
        };
        let ticket = self.gate.admit()?;
        let asked = Instant::now();
        let opened = match self.pools.open_apart(auth).await {
            Ok(connection) => {
                let standing = standing_of(&connection);
                connection.close().await;
                standing
            }
            Err(LendError::Full) => Err(OriginFault::Overloaded),
            Err(LendError::Open(error)) => {
                if error == OpenError::TimedOut {
                    ticket.note_silence();
                }
                Err(fault::of_open(error))
            }
        };
        // A refusal is an answer as well: without credentials of its own, this node never gets another one here.
        if matches!(opened, Ok(()) | Err(OriginFault::Unauthorized(_) | OriginFault::Failed(_))) {
            self.gate.took(asked.elapsed());
        }
        ticket.report(opened.as_ref().err());
        match (opened, &self.settings.login) {
            (Err(OriginFault::Unauthorized(_) | OriginFault::Failed(_)), Login::Passthrough) => Ok(()),
            (Ok(()), Login::Service(login)) => {
                login.refusal().ended();
                Ok(())
            }
            (Err(OriginFault::Unauthorized(failure)), Login::Service(login)) => {
                login.refused(&whose, &failure);
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
        self.slots.would_refuse(&whose, class, wait).map(fault::of_no_slot)
    }

    fn in_flight(&self) -> usize {
        self.slots.running()
    }

    fn slots(&self) -> Option<usize> {
        Some(self.slots.limit())
    }

    fn has_spare(&self) -> bool {
        self.slots.has_spare()
    }

    fn is_reachable(&self) -> bool {
        self.gate.is_reachable()
    }

    fn is_away(&self) -> bool {
        self.gate.is_away()
    }

    fn doubt(&self) {
        self.gate.doubt();
    }

    fn refuses_us(&self) -> bool {
        self.settings.login.check().is_err()
    }
}

/// Calls the hook and closes idle connections: connections from before an absence of the server are not used after it.
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

/// The queue of one principal is as long as the whole queue if no other principal sends requests.
fn turn_bounds(settings: &BoltSettings) -> TurnBounds {
    let waiting_per_principal = match settings.login {
        Login::Passthrough => (settings.max_concurrent * limits::ORIGIN_WAITING_PER_SLOT_MAX)
            .min(limits::ORIGIN_WAITING_PER_PRINCIPAL_MAX),
        Login::Service(_) => limits::ORIGIN_WAITING_MAX,
    };
    TurnBounds { slots: settings.max_concurrent, waiting_per_principal, waiting: limits::ORIGIN_WAITING_MAX }
}

/// The number of runs follows the server's response times, or is always the same.
fn limit_bounds(settings: &BoltSettings) -> LimitBounds {
    let max = settings.max_concurrent;
    let min = if settings.is_adaptive { limits::ORIGIN_LIMIT_MIN.min(max) } else { max };
    LimitBounds { min, max }
}

/// The time of day.
fn wall_clock_us() -> u64 {
    let wall_clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(wall_clock.as_micros()).unwrap_or_default()
}

/// Whether the time of this run shows how busy the server is: it was answered, or ran until its deadline.
fn says_how_busy(ended: &Result<RunEnd, OriginError>) -> bool {
    match ended {
        Ok(_) => true,
        Err(error) => error.was_sent && error.kind == OriginFault::TimedOut,
    }
}

#[cfg(test)]
pub(super) mod tests;
