//! Words of Cypher that more than one reader of tokens looks for. This module decides nothing.

/// Clauses that change data.
pub(crate) const CHANGES: [&str; 9] =
    ["CREATE", "MERGE", "INSERT", "SET", "DELETE", "DETACH", "NODETACH", "REMOVE", "FOREACH"];

/// Clauses that begin a statement and change nothing themselves.
pub(crate) const READS: [&str; 15] = [
    "MATCH", "OPTIONAL", "RETURN", "WITH", "UNWIND", "CALL", "FINISH", "LET", "FOR", "FILTER", "WHEN",
    "ORDER", "SKIP", "OFFSET", "LIMIT",
];

/// Commands that change servers, databases and names.
pub(crate) const SERVERS: [&str; 7] =
    ["RENAME", "ENABLE", "DRYRUN", "REALLOCATE", "DEALLOCATE", "CORDON", "UNCORDON"];

/// Commands that change rights.
pub(crate) const RIGHTS: [&str; 3] = ["GRANT", "DENY", "REVOKE"];
