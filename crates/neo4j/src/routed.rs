//! The origin for a cluster (`neo4j://`): each statement goes to a member of [`Members`], whose own origin runs it.
//!
//! A failure that says that the member does not lead the database, or is gone, makes the routing table be asked for anew. The
//! statement is repeated there only where that is safe:
//! - A member that is not the leader did not run it. It is repeated, unless parts of it may have been committed before.
//! - A member that does not serve the database, or that was lost before its first record: reads are repeated.
//! - A write that may have reached a member that was lost is never repeated (I6).
//!
//! Tries are bounded in number and in time ([`Tries`]).
//!
//! A read may go to a reader. First the leader says which transaction is its newest, and then that it still leads; the run
//! carries that. So the read shows all that was committed before it began, as a read at one server does. The reader is asked
//! beside the leader, and one that lags gets no reads.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hopcache_core::bookmark::Position;
use hopcache_core::limits::READER_ASK_MS_MAX;
use hopcache_core::proof::ServerRun;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_core::routing_table::{MemberFault, TableKey};
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_cypher::checks::graphs::may_name_graph;
use hopcache_engine::identity::Identity;
use hopcache_engine::ports::{
    AccessMode, Origin, OriginError, OriginFault, OriginMember, OriginRun, Parts, RunBookmarks, WriteOf,
};

use crate::fault;
use crate::members::{Member, Members, Tries, Whom};

/// The origin of a cluster.
pub struct RoutedOrigin {
    members: Arc<Members>,
}

impl RoutedOrigin {
    /// Of these members.
    #[must_use]
    pub fn new(members: Arc<Members>) -> Self {
        Self { members }
    }

    /// Runs something at the leader of a run's database, and again at the next one where that is safe.
    async fn at_leader<'r, T>(
        &self,
        run: &'r OriginRun,
        tries: &mut Tries,
        what: impl Fn(Arc<Member>) -> BoxFuture<'r, Result<T, OriginError>> + Send + Sync,
    ) -> Result<T, OriginError> {
        let whom = of_run(run);
        let key = self.members.key_of(&whom);
        loop {
            let leader = if run.class == RunClass::Prefetch {
                // It logs on nowhere, and so asks for no table.
                self.members.known_leader(&key).map(|(leader, _)| leader).ok_or(OriginFault::Overloaded)?
            } else {
                self.members.leader(&whom, tries).await?
            };
            let error = match what(Arc::clone(&leader)).await {
                Ok(ended) => return Ok(ended),
                Err(error) => error,
            };
            let Some(fault) = self.members.saw(&key, &leader, &error) else { return Err(error) };
            if !may_repeat(run, fault, &error) {
                return Err(error);
            }
            if let OriginFault::Failed(said) = &error.kind
                && Box::pin(self.members.is_read_only(&whom, &leader, &said.code)).await
            {
                return Err(error);
            }
            if !tries.again().await {
                return Err(not_taken(run, error));
            }
            tracing::info!(member = %leader.name(), ?fault, "a statement goes to another member of the cluster");
        }
    }

    /// Runs a read that carries what the leader has now: at a reader that has it too or will have it in a moment, else at the
    /// leader. A leader that has lost its office meanwhile makes the run wait for that as well.
    async fn read(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        let whom = of_run(run);
        let key = self.members.key_of(&whom);
        let mut tries = tries_of(run);
        let (reader, newest) = self.reader_for(run, &key, &mut tries).await?;
        let bound = newest.map(|newest| after(run, newest));
        let run = bound.as_ref().unwrap_or(run);
        if let Some(reader) = reader {
            let error = match reader.origin.run(run).await {
                Ok(read) => return Ok(read),
                Err(error) => error,
            };
            let is_of_member =
                self.members.saw(&key, &reader, &error).is_some() || error.kind.is_bookmark_timeout();
            if !is_of_member || !is_unseen(run, &error) {
                return Err(error);
            }
        }
        self.at_leader(run, &mut tries, |leader| async move { leader.origin.run(run).await }.boxed()).await
    }

    /// A reader for a run, and what the leader has: the run has to carry that, wherever it goes. A cluster of one member is asked
    /// nothing.
    async fn reader_for(
        &self,
        run: &OriginRun,
        key: &TableKey,
        tries: &mut Tries,
    ) -> Result<(Option<Arc<Member>>, Option<Position>), OriginError> {
        let is_judged = matches!(run.bookmarks, RunBookmarks::After { .. });
        if !is_judged || run.database.is_empty() || run.class == RunClass::Prefetch {
            return Ok((None, None));
        }
        let leader = self.members.leader(&of_run(run), tries).await?;
        if self.members.is_alone(key) {
            return Ok((None, None));
        }
        let within = Millis(READER_ASK_MS_MAX).min(run.timeout_ms).duration();
        let reader = self.members.reader(key, &leader).filter(|_| !may_name_graph(&run.statement));
        let known = self.members.known(&run.database);
        let own = async { reader.as_ref()?.origin.applied(run, known?, within).await };
        let of = question_of(run);
        let newest = self.ask(&of, tries, |leader| {
            let of = &of;
            async move { leader.origin.newest(of, of.timeout_ms).await }.boxed()
        });
        let (newest, own) = tokio::join!(newest, own);
        let newest = newest?;
        let keeps_up =
            |reader: &Arc<Member>| newest.zip(own).is_some_and(|ids| self.members.keeps_up(reader, ids));
        Ok((reader.filter(keeps_up), newest))
    }

    /// Asks the leader of a database, and whether it still is the leader then. One that has lost its office may know less than the
    /// next one has committed. Then the next one is asked.
    async fn ask<'w, T>(
        &self,
        of: &'w WriteOf,
        tries: &mut Tries,
        question: impl Fn(Arc<Member>) -> BoxFuture<'w, Result<T, OriginError>> + Send + Sync,
    ) -> Result<T, OriginError> {
        let whom =
            Whom { identity: &of.identity, database: &of.database, impersonated: of.impersonated.as_deref() };
        let key = self.members.key_of(&whom);
        loop {
            let leader = self.members.leader(&whom, tries).await?;
            let error = match question(Arc::clone(&leader)).await {
                Ok(answer) => match self.members.still_leads(&key, &whom, &leader).await {
                    Ok(true) => return Ok(answer),
                    Ok(false) => {
                        OriginFault::Transient(fault::no_leader(&of.database, "it has changed")).into()
                    }
                    Err(error) => return Err(error),
                },
                Err(error) => {
                    self.members.saw(&key, &leader, &error);
                    error
                }
            };
            let is_of_member = matches!(
                error.kind,
                OriginFault::Transient(_) | OriginFault::Unreachable(_) | OriginFault::Cut(_)
            );
            if !is_of_member || !tries.again().await {
                return Err(error);
            }
        }
    }
}

/// The question for the newest transaction before a run.
fn question_of(run: &OriginRun) -> WriteOf {
    let OriginRun { database, identity, impersonated, timeout_ms, .. } = run;
    WriteOf::question(Arc::clone(database), Arc::clone(identity), impersonated.clone(), *timeout_ms)
}

fn tries_of(run: &OriginRun) -> Tries {
    Tries::within(run.timeout_ms.duration())
}

/// The run, which carries this position too. What the node knows of the database may be forgotten, or be another one, by the time
/// that the run is sent.
fn after(run: &OriginRun, newest: Position) -> OriginRun {
    let mut bound = run.clone();
    if let RunBookmarks::After { client, .. } = &mut bound.bookmarks {
        client.add(newest);
    }
    bound
}

fn of_run(run: &OriginRun) -> Whom<'_> {
    Whom { identity: &run.identity, database: &run.database, impersonated: run.impersonated.as_deref() }
}

/// Whether a run that has failed so may be sent to another member.
fn may_repeat(run: &OriginRun, fault: MemberFault, error: &OriginError) -> bool {
    let (is_read, is_unseen) = (run.mode == AccessMode::Read, is_unseen(run, error));
    match fault {
        MemberFault::NotLeader => {
            is_unseen && (is_read || Parts::of(&run.statement, &run.params) == Parts::None)
        }
        MemberFault::Unavailable => is_unseen && is_read && (run.may_be_repeated || !error.was_sent),
        MemberFault::Gone => is_unseen && (is_read && run.may_be_repeated || !error.was_sent),
    }
}

/// Whether nobody has seen anything of a run that failed: a client that reads along gets the columns first.
fn is_unseen(run: &OriginRun, error: &OriginError) -> bool {
    error.fields.is_none() || run.live.is_none() && error.records.is_empty()
}

/// The end of a run that no member has taken: drivers try again later.
fn not_taken(run: &OriginRun, error: OriginError) -> OriginError {
    match &error.kind {
        OriginFault::Failed(said) => {
            let kind = OriginFault::Transient(fault::no_leader(&run.database, &said.code));
            OriginError { kind, ..error }
        }
        _ => error,
    }
}

#[async_trait]
impl Origin for RoutedOrigin {
    async fn run(&self, run: &OriginRun) -> Result<ResultSet, OriginError> {
        if run.mode == AccessMode::Read {
            return self.read(run).await;
        }
        self.at_leader(run, &mut tries_of(run), |leader| async move { leader.origin.run(run).await }.boxed())
            .await
    }

    async fn kind(&self, run: &OriginRun) -> Result<StatementKind, OriginError> {
        self.at_leader(run, &mut tries_of(run), |leader| async move { leader.origin.kind(run).await }.boxed())
            .await
    }

    async fn newest(&self, of: &WriteOf, timeout_ms: Millis) -> Result<Option<Position>, OriginError> {
        self.ask(of, &mut Tries::within(timeout_ms.duration()), |leader| {
            async move { leader.origin.newest(of, timeout_ms).await }.boxed()
        })
        .await
    }

    async fn newest_and_run(
        &self,
        of: &WriteOf,
        timeout_ms: Millis,
    ) -> Result<Option<(Position, Option<ServerRun>)>, OriginError> {
        self.ask(of, &mut Tries::within(timeout_ms.duration()), |leader| {
            async move { leader.origin.newest_and_run(of, timeout_ms).await }.boxed()
        })
        .await
    }

    /// At the leader of `system`, where passwords are changed, if it is known; else at the member that speaks for the cluster, and
    /// at the others if that one is gone.
    async fn verify(&self, identity: &Identity) -> Result<(), OriginError> {
        let leader = self.members.known_leader_of_system();
        let verified = leader.unwrap_or_else(|| self.members.main()).origin.verify(identity).await;
        match verified {
            Err(OriginError { kind: OriginFault::Unreachable(_) | OriginFault::Cut(_), .. })
                if self.members.is_reachable() =>
            {
                self.members.main().origin.verify(identity).await
            }
            verified => verified,
        }
    }

    async fn reach(&self) -> Result<(), OriginError> {
        let mut reached = self.members.main().origin.reach().await;
        for member in self.members.all() {
            if !matches!(&reached, Err(OriginError { kind: OriginFault::Unreachable(_), .. })) {
                break;
            }
            reached = member.origin.reach().await;
        }
        reached
    }

    fn would_shed(&self, identity: &Identity, class: RunClass, timeout_ms: Millis) -> Option<OriginFault> {
        self.members.main().origin.would_shed(identity, class, timeout_ms)
    }

    fn in_flight(&self) -> usize {
        self.members.main().origin.in_flight()
    }

    fn has_spare(&self) -> bool {
        self.members.main().origin.has_spare()
    }

    fn slots(&self) -> Option<usize> {
        self.members.main().origin.slots()
    }

    fn is_reachable(&self) -> bool {
        self.members.is_reachable()
    }

    fn is_away(&self) -> bool {
        self.members.is_away()
    }

    fn doubt(&self) {
        self.members.main().origin.doubt();
    }

    fn refuses_us(&self) -> bool {
        self.members.main().origin.refuses_us()
    }

    fn members(&self) -> Vec<OriginMember> {
        self.members.shown()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bolt::tests::run_within;

    /// I6: a read that may do something outside of the graph is sent again only where its member has not run it.
    #[test]
    fn a_read_with_an_unknown_function_goes_on_elsewhere_only_before_it_was_sent() {
        for (fault, sent, unsent) in [
            (MemberFault::NotLeader, true, true),
            (MemberFault::Unavailable, false, true),
            (MemberFault::Gone, false, true),
        ] {
            for (was_sent, expected) in [(true, sent), (false, unsent)] {
                let error = OriginError { was_sent, ..OriginFault::Cut(String::new()).into() };
                let run = OriginRun { may_be_repeated: false, ..run_within(1) };
                assert_eq!(may_repeat(&run, fault, &error), expected, "{fault:?} {was_sent}");
                assert!(may_repeat(&run_within(1), fault, &error), "{fault:?} {was_sent}");
            }
        }
    }
}
