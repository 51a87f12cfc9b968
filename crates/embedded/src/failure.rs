//! Maps the library's errors to Neo4j's codes and messages. It does not decide whether a statement is tried again.

use graphdblite::{ErrorCode, GraphError, QueryError, QueryPhase};
use hopcache_engine::ports::{Neo4jFailure, OriginFault};

pub(crate) const SYNTAX: &str = "Neo.ClientError.Statement.SyntaxError";
pub(crate) const ARGUMENT: &str = "Neo.ClientError.Statement.ArgumentError";
pub(crate) const ACCESS_MODE: &str = "Neo.ClientError.Statement.AccessMode";
pub(crate) const NO_DATABASE: &str = "Neo.ClientError.Database.DatabaseNotFound";
pub(crate) const FORBIDDEN: &str = "Neo.ClientError.Security.Forbidden";
pub(crate) const FAILED: &str = "Neo.DatabaseError.Statement.ExecutionFailed";
const PARAMETER: &str = "Neo.ClientError.Statement.ParameterMissing";
const TYPE: &str = "Neo.ClientError.Statement.TypeError";
const ARITHMETIC: &str = "Neo.ClientError.Statement.ArithmeticError";
const NOT_FOUND: &str = "Neo.ClientError.Statement.EntityNotFound";
const CONSTRAINT: &str = "Neo.ClientError.Schema.ConstraintValidationFailed";
const PROCEDURE: &str = "Neo.ClientError.Procedure.ProcedureNotFound";
pub(crate) const MEMORY: &str = "Neo.TransientError.General.MemoryPoolOutOfMemoryError";
const LOCKED: &str = "Neo.TransientError.Transaction.LockAcquisitionTimeout";

/// A statement's own failure.
pub(crate) fn failed(code: &str, message: impl Into<String>) -> OriginFault {
    OriginFault::Failed(Neo4jFailure { code: code.to_owned(), message: message.into(), as_sent: Vec::new() })
}

/// Neo4j's code for a refusal or failure of the library. Going over a bound of memory is the statement's failure and
/// not transient: the same statement would go over it again.
pub(crate) fn of_library(error: &GraphError) -> OriginFault {
    match error {
        GraphError::Query(query) => failed(query_code(query), query.to_string()),
        GraphError::Transaction { .. } => {
            failed(ACCESS_MODE, "Writing in read access mode not allowed. Attempted write to neo4j")
        }
        GraphError::NodeNotFound { .. } | GraphError::EdgeNotFound { .. } => {
            failed(NOT_FOUND, error.to_string())
        }
        GraphError::HasEdges { .. } => failed(CONSTRAINT, error.to_string()),
        GraphError::SizeLimit { .. } => failed(MEMORY, format!("the embedded sample graph: {error}")),
        GraphError::InvalidName { .. } => failed(SYNTAX, error.to_string()),
        // SQLite's busy and locked: another write holds the file for longer than the busy timeout.
        GraphError::Storage { source, .. } if source.to_string().contains("locked") => {
            OriginFault::Transient(Neo4jFailure {
                code: LOCKED.to_owned(),
                message: error.to_string(),
                as_sent: Vec::new(),
            })
        }
        _ => failed(FAILED, error.to_string()),
    }
}

fn query_code(error: &QueryError) -> &'static str {
    let planned = error.phase() != QueryPhase::Runtime;
    match (error.code(), error) {
        (ErrorCode::MissingParameter, _) => PARAMETER,
        // The check before planning has this message and no code of its own.
        _ if error.message().starts_with("missing parameter") => PARAMETER,
        (ErrorCode::DivisionByZero, _) | (_, QueryError::ArithmeticError { .. }) => ARITHMETIC,
        (ErrorCode::DeleteConnectedNode, _) | (_, QueryError::ConstraintViolation { .. }) => CONSTRAINT,
        (_, QueryError::EntityNotFound { .. }) => NOT_FOUND,
        (_, QueryError::ProcedureError { .. }) => PROCEDURE,
        (_, QueryError::TypeError { .. }) if !planned => TYPE,
        (_, QueryError::ArgumentError { .. }) if !planned => ARGUMENT,
        _ => SYNTAX,
    }
}
