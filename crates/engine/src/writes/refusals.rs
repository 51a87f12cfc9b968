//! What Neo4j's failure of a write proves about it. This is the one place that knows.
//!
//! | the failure | of a write that is one transaction | of one that may commit in parts |
//! |---|---|---|
//! | says that it has not begun | nothing has changed | the same for batches |
//! | is a `SyntaxError` | as of one that is rolled back: `date('xx')` fails so while it runs | parts may be committed |
//! | comes from a transaction that is rolled back | labels, types and keys may be new | parts may be committed |
//! | says nothing for certain | all may be committed | all may be committed |
//! | is of a cluster that may commit it later | in doubt | in doubt |
//!
//! A procedure's failure may have any code: Neo4j passes on the code of what the procedure met inside.
//!   a first batch is committed · the second one meets a label that its user may not write · `Security.Forbidden`.
//! So of a statement that calls a procedure Neo4j is asked, by EXPLAIN: one that only reads, or that cannot be planned, for the
//! same reason as it failed, has changed nothing. Without an answer it may have.

use std::sync::Arc;

use hopcache_core::limits::WRITTEN_ASK_MS_MAX;
use hopcache_core::result::StatementKind;
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;
use hopcache_cypher::checks::calls::is_profiled;
use hopcache_cypher::lexer::escapes::decoded;

use crate::model::fetch_times::FetchTimes;
use crate::model::ports::{AccessMode, OriginError, OriginFault, OriginRun, Parts, RunBookmarks, WriteOf};
use crate::writes::Writes;
use crate::writes::pending::WriteEnd;

/// What a failure's code proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The statement was never executed.
    NeverBegan,
    /// Its transaction was rolled back.
    RolledBack,
    /// Nothing for certain.
    Nothing,
    /// The cluster may still commit it.
    MayBeCommittedLater,
}

/// What is known of a write that has ended.
#[derive(Debug)]
pub(super) enum Fate {
    /// It has changed nothing.
    ChangedNothing,
    /// It has changed nothing but labels, types and keys, which stay.
    RolledBack,
    /// It may have changed what it touches.
    MayHaveChanged(WriteEnd),
}

impl Writes {
    pub(super) async fn fate_of(&self, of: &WriteOf, end: WriteEnd) -> Fate {
        let WriteEnd::Refused(code) = &end else { return Fate::MayHaveChanged(end) };
        match (&of.parts, proof_of(code)) {
            (_, Proof::MayBeCommittedLater) => Fate::MayHaveChanged(WriteEnd::InDoubt),
            (Parts::Called { .. }, proof) => {
                let may_be_of_planning = proof == Proof::NeverBegan || code == SYNTAX_ERROR;
                let never_began = Some(code.as_str()).filter(|_| may_be_of_planning);
                if self.may_write(of, never_began).await {
                    return Fate::MayHaveChanged(end);
                }
                Fate::ChangedNothing
            }
            // A later batch may name a graph that is not there.
            (Parts::Batches, Proof::NeverBegan) if of.may_name_graph => Fate::MayHaveChanged(end),
            (_, Proof::NeverBegan) => Fate::ChangedNothing,
            (Parts::None, Proof::RolledBack) => Fate::RolledBack,
            (Parts::None, Proof::Nothing) | (Parts::Batches, _) => Fate::MayHaveChanged(end),
        }
    }

    /// Whether the statement of a write may write at all. Of one that calls a procedure Neo4j is asked. `never_began` is the code of
    /// its failure, if that may say so.
    pub(super) async fn may_write(&self, of: &WriteOf, never_began: Option<&str>) -> bool {
        let Parts::Called { statement, params } = &of.parts else { return true };
        // Neo4j does not explain a statement with PROFILE.
        if is_profiled(&decoded(statement)) {
            return true;
        }
        let run = OriginRun {
            identity: Arc::clone(&of.identity),
            impersonated: of.impersonated.clone(),
            database: Arc::clone(&of.database),
            statement: Arc::clone(statement),
            pattern: None,
            params: params.clone(),
            mode: AccessMode::Write,
            may_be_repeated: false,
            bookmarks: RunBookmarks::default(),
            timeout_ms: Millis(WRITTEN_ASK_MS_MAX),
            bytes_max: 0,
            traceparent: None,
            class: RunClass::Bypass,
            metadata: None,
            live: None,
            times: FetchTimes::default(),
        };
        let kind = tokio::select! {
            biased;
            kind = self.origin.kind(&run) => kind,
            () = self.context().sleep(Millis(WRITTEN_ASK_MS_MAX)) => return true,
        };
        match kind {
            Ok(kind) => kind != StatementKind::Read,
            Err(OriginError { kind: OriginFault::Failed(said), .. }) => never_began != Some(&said.code),
            Err(_) => true,
        }
    }
}

/// Of a text that is no Cypher, and of a value that a running function cannot read.
const SYNTAX_ERROR: &str = "Neo.ClientError.Statement.SyntaxError";

fn proof_of(code: &str) -> Proof {
    /// Not planned, or not begun.
    const NEVER_BEGAN: [&str; 6] = [
        "Neo.ClientError.Statement.ParameterMissing",
        "Neo.ClientError.Statement.AccessMode",
        "Neo.ClientError.Procedure.ProcedureNotFound",
        "Neo.ClientError.Database.DatabaseNotFound",
        "Neo.ClientError.Transaction.InvalidBookmark",
        "Neo.TransientError.Transaction.BookmarkTimeout",
    ];
    /// The outcome of a commit is not known to its server: a cluster may still replicate it, by its next leader
    /// (`org.neo4j.kernel.api.exceptions.Status` of Neo4j 5.26).
    const MAY_BE_COMMITTED_LATER: [&str; 4] = [
        "Neo.TransientError.Cluster.ReplicationFailure",
        "Neo.TransientError.Transaction.LeaderSwitch",
        "Neo.TransientError.Transaction.LeaseExpired",
        "Neo.DatabaseError.Transaction.TransactionCommitFailed",
    ];
    /// What a server in trouble may say at any time, also while it commits.
    const AT_ANY_TIME: [&str; 6] = [
        "Neo.TransientError.General.OutOfMemoryError",
        "Neo.TransientError.General.StackOverFlowError",
        "Neo.TransientError.General.DatabaseUnavailable",
        "Neo.TransientError.Transaction.Interrupted",
        "Neo.ClientError.Security.AuthorizationExpired",
        "Neo.ClientError.Security.TokenExpired",
    ];
    // A right may be missing in mid-run. All other errors of security are about who asks.
    let is_of_login =
        code.starts_with("Neo.ClientError.Security.") && code != "Neo.ClientError.Security.Forbidden";
    let mut parts = code.split('.').skip(1);
    match (parts.next(), parts.next()) {
        _ if MAY_BE_COMMITTED_LATER.contains(&code) => Proof::MayBeCommittedLater,
        _ if AT_ANY_TIME.contains(&code) => Proof::Nothing,
        _ if is_of_login || NEVER_BEGAN.contains(&code) => Proof::NeverBegan,
        (_, Some("Cluster")) => Proof::Nothing,
        (Some("ClientError" | "TransientError"), Some(_)) => Proof::RolledBack,
        _ => Proof::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_whether_a_write_may_be_committed() {
        let table = [
            ("Neo.ClientError.Statement.SyntaxError", Proof::RolledBack),
            ("Neo.ClientError.Statement.AccessMode", Proof::NeverBegan),
            ("Neo.ClientError.Procedure.ProcedureNotFound", Proof::NeverBegan),
            ("Neo.ClientError.Security.Unauthorized", Proof::NeverBegan),
            ("Neo.ClientError.Security.Forbidden", Proof::RolledBack),
            ("Neo.ClientError.Security.AuthorizationExpired", Proof::Nothing),
            ("Neo.TransientError.General.DatabaseUnavailable", Proof::Nothing),
            ("Neo.ClientError.Statement.ArithmeticError", Proof::RolledBack),
            ("Neo.TransientError.Transaction.DeadlockDetected", Proof::RolledBack),
            ("Neo.ClientError.Schema.ConstraintValidationFailed", Proof::RolledBack),
            ("Neo.ClientError.Transaction.TransactionTimedOut", Proof::RolledBack),
            ("Neo.TransientError.Transaction.LeaderSwitch", Proof::MayBeCommittedLater),
            ("Neo.DatabaseError.Transaction.TransactionCommitFailed", Proof::MayBeCommittedLater),
            ("Neo.DatabaseError.General.UnknownError", Proof::Nothing),
            ("Neo.ClientError.Cluster.NotALeader", Proof::Nothing),
            ("Neo.TransientError.General.OutOfMemoryError", Proof::Nothing),
            ("", Proof::Nothing),
        ];
        for (code, proof) in table {
            assert_eq!(proof_of(code), proof, "{code}");
        }
    }
}
