//! Questions for a database's newest transaction: before a run that has to carry a mark, and after a write whose id is not
//! known.

use std::pin::pin;
use std::time::Duration;

use hopcache_bolt::{Mode, RoutingTable, Run};
use hopcache_core::bookmark::{Bookmark, DatabaseUuid, Position};
use hopcache_core::limits;
use hopcache_core::proof::ServerRun;
use hopcache_core::time::Millis;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{Neo4jFailure, OriginError, OriginFault, OriginRun, RunBookmarks, WriteOf};
use hopcache_packstream::{Value, decode, encode};
use tokio::time::{Instant, timeout, timeout_at};

use super::{BoltOrigin, CallPermit, LentConnection, fault};
use crate::newest::Behind;
use crate::server_runs;

/// Any user may ask it of the databases that he may access. A name may be one of an alias. There is a row for each member that has the
/// database.
const ACCESS: &str = "SHOW DATABASES YIELD name, aliases, access, home \
    WHERE toLower($database) IN [name] + aliases OR ($database = '' AND home) RETURN DISTINCT access";
/// Bytes of its answer: a word for each kind of access.
const ACCESS_BYTES_MAX: usize = 4 << 10;

/// The newest transaction, and the run of the server that told it.
type NewestTransaction = (Position, Option<ServerRun>);

impl BoltOrigin {
    /// Asks on the connection that the run will use: whatever is seen on it may be carried on it.
    pub(super) async fn ask_newest_on(
        &self,
        lent: &mut LentConnection,
        run: &OriginRun,
        deadline: Instant,
    ) -> Result<Option<Position>, OriginError> {
        let begun = Instant::now();
        let within = deadline.saturating_duration_since(begun);
        let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
        let database = (!run.database.is_empty()).then_some(&*run.database);
        let answer = connection.newest(database, run.impersonated.as_deref(), within).await;
        let returned = answer.map_err(|error| OriginError { was_sent: false, ..fault::of_run(error) })?;
        let Some(returned) = returned else { return Ok(None) };
        // A member that is behind catches up while the run waits for what it carries.
        Ok(self.settings.newest.asked(&run.database, &returned, begun).unwrap_or(None))
    }

    /// A run whose time is over may have waited for a bookmark of its client that the server has not reached. Then its
    /// failure is Neo4j's own for that, which Neo4j sends after up to 60 s: later than this node waits.
    pub(super) async fn or_behind_bookmark(&self, run: &OriginRun, error: OriginError) -> OriginError {
        let asked = match &run.bookmarks {
            RunBookmarks::AsSent(texts) => Bookmark::parse_all(texts).unwrap_or_default(),
            RunBookmarks::After { client, .. } => client.clone(),
        };
        if error.kind != OriginFault::TimedOut || asked.is_empty() {
            return error;
        }
        let deadline = Instant::now() + Duration::from_millis(limits::BOOKMARK_QUESTION_MS_MAX);
        let newest = async {
            let ticket = self.gate.admit().ok()?;
            let mut lent = self.connection_of(run, deadline, &ticket).await.ok()?;
            self.ask_newest_on(&mut lent, run, deadline).await.ok()?
        };
        let newest = newest.await;
        let ahead = newest.and_then(|newest| {
            let asked = asked.in_database(newest.database)?;
            (asked.id > newest.id).then_some((asked.id.0, newest.id.0))
        });
        match ahead {
            Some(ids) => {
                let failure = Neo4jFailure::bookmark_timeout(&run.database, ids);
                OriginError { kind: OriginFault::Transient(failure), ..error }
            }
            None => error,
        }
    }

    /// The newest transaction, and the run of the server if that is wanted.
    pub(super) async fn ask_newest(
        &self,
        of: &WriteOf,
        timeout_ms: Millis,
        wants_run: bool,
    ) -> Result<Option<NewestTransaction>, OriginError> {
        let deadline = Instant::now() + timeout_ms.duration();
        self.settings.login.check()?;
        let _permit = self.permit_to_verify(deadline).await?;
        let ticket = self.gate.admit()?;
        let whose = self.fingerprint(&of.identity);
        let asked = async {
            let asking = timeout_at(deadline, self.newest_on_lent(of, deadline, &ticket));
            let Ok(newest) = asking.await else { return Err(OriginError::of_sent(OriginFault::TimedOut)) };
            let Some((mut lent, newest)) = newest? else { return Ok(None) };
            let run = if wants_run { self.run_behind(&mut lent, of).await? } else { None };
            Ok(Some((newest, run)))
        };
        let answer = self.gate.in_doubt_while(pin!(asked)).await;
        ticket.report(answer.as_ref().err().map(|error: &OriginError| &error.kind));
        answer.map_err(|error| OriginError { kind: self.settings.login.blamed(&whose, error.kind), ..error })
    }

    /// The newest transaction, and the connection that told it.
    async fn newest_on_lent(
        &self,
        of: &WriteOf,
        deadline: Instant,
        ticket: &CallPermit<'_>,
    ) -> Result<Option<(LentConnection, Position)>, OriginError> {
        let whose = self.fingerprint(&of.identity);
        let lent = self.pools.lend(&whose, || self.auth(&of.identity), self.settings.wait).await;
        let mut lent = lent.map_err(|error| self.not_lent(&whose, error, ticket))?;
        let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
        let begun = Instant::now();
        let within = deadline.saturating_duration_since(begun);
        let database = (!of.database.is_empty()).then_some(&*of.database);
        match connection.newest(database, of.impersonated.as_deref(), within).await {
            Ok(None) => Ok(None),
            Ok(Some(returned)) => match self.settings.newest.asked(&of.database, &returned, begun) {
                Ok(newest) => Ok(newest.map(|newest| (lent, newest))),
                Err(Behind) => Err(OriginFault::Transient(fault::member_behind(&of.database)).into()),
            },
            Err(error) => {
                lent.close();
                Err(fault::of_run(error))
            }
        }
    }

    /// The newest transaction that this member of a cluster has applied in the database of a run. Nothing is learned from it: the
    /// member may lag.
    pub(crate) async fn applied(
        &self,
        run: &OriginRun,
        database: DatabaseUuid,
        within: Duration,
    ) -> Option<Position> {
        let deadline = Instant::now() + within;
        let ticket = self.gate.admit().ok()?;
        let mut lent = self.connection_of(run, deadline, &ticket).await.ok()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = lent.connection()?.newest(Some(&run.database), run.impersonated.as_deref(), left).await;
        Bookmark::parse(&answer.ok()??)?.in_database(database)
    }

    /// Asks this member of a cluster for the routing table of a database; `None` is the home database of the user.
    pub(crate) async fn route(
        &self,
        identity: &Identity,
        (database, impersonated): (Option<&str>, Option<&str>),
        within: Duration,
    ) -> Result<RoutingTable, OriginError> {
        let deadline = Instant::now() + within;
        self.settings.login.check()?;
        let ticket = self.gate.admit()?;
        let whose = self.fingerprint(identity);
        let asked = async {
            let lending = self.pools.lend(&whose, || self.auth(identity), self.settings.wait);
            let Ok(lent) = timeout_at(deadline, lending).await else {
                return Err(OriginFault::TimedOut.into());
            };
            let mut lent = lent.map_err(|error| self.not_lent(&whose, error, &ticket))?;
            let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
            let left = deadline.saturating_duration_since(Instant::now());
            connection.route(database, impersonated, left).await.map_err(fault::of_run)
        };
        let answer = self.gate.in_doubt_while(pin!(asked)).await;
        ticket.report(answer.as_ref().err().map(|error: &OriginError| &error.kind));
        answer.map_err(|error| OriginError { kind: self.settings.login.blamed(&whose, error.kind), ..error })
    }

    /// Whether the database is read-only, as this server says: at all of its members. An empty name is the user's home database. `None` if
    /// it does not know the database, or does not answer.
    pub async fn says_read_only(
        &self,
        identity: &Identity,
        (database, impersonated): (&str, Option<&str>),
        within: Duration,
    ) -> Option<bool> {
        let asked = async {
            let ticket = self.gate.admit().ok()?;
            let whose = self.fingerprint(identity);
            let mut lent = self.pools.lend(&whose, || self.auth(identity), self.settings.wait).await.ok()?;
            let params = encode(&Value::Map(vec![("database".to_owned(), Value::from(database))]));
            let run = Run {
                statement: ACCESS,
                params: &params,
                database: Some("system"),
                mode: Mode::Read,
                timeout: within,
                server_timeout: Some(within),
                bookmarks: &[],
                metadata: &[],
                impersonated,
                bytes_max: ACCESS_BYTES_MAX,
            };
            let told = lent.connection()?.run(&run).await.map_err(|error| fault::of_run(error).kind);
            ticket.report(told.as_ref().err());
            let told = told.ok()?;
            let read_only = Value::List(vec![Value::from("read-only")]);
            (told.rows > 0).then(|| decode(&told.records) == Ok(read_only))
        };
        // Its end is no failure of the statement that was refused.
        timeout(within, asked).await.ok().flatten()
    }

    /// The run of the server behind a connection that has just answered.
    async fn run_behind(
        &self,
        lent: &mut LentConnection,
        of: &WriteOf,
    ) -> Result<Option<ServerRun>, OriginError> {
        if let Some(known) = self.runs.behind(lent.opened()) {
            return Ok(known);
        }
        let Some(connection) = lent.connection() else { return Err(OriginFault::Overloaded.into()) };
        let database = (!of.database.is_empty()).then_some(&*of.database);
        let within = Duration::from_millis(limits::WATCH_RUN_MS_MAX);
        let question = server_runs::question(database, of.impersonated.as_deref(), within);
        match connection.run(&question).await {
            Ok(finished) => Ok(self.runs.answered(&finished)),
            Err(error) => match fault::of_run(error) {
                OriginError { kind: OriginFault::Failed(refusal), .. } => {
                    Ok(self.runs.refused(&refusal.code))
                }
                error => Err(error),
            },
        }
    }
}
