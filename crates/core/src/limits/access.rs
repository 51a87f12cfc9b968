//! Bounds of what decides who may do what: names of hosts, what nodes tell each other of credentials, lines of the audit.

use super::CREDENTIALS_RETRY_WAIT_MS;

/// Names in `node.allowed_hosts`. Each request that is checked is compared with all of them.
pub const ALLOWED_HOSTS_MAX: usize = 64;
/// Lines of the audit on refused credentials at once, before they are paced: a deployment with a wrong password is seen whole.
pub const AUDIT_REFUSALS_BURST: u32 = 100;
/// The same each second from then on. Guesses by the thousand would push everything else out of the log's queue.
pub const AUDIT_REFUSALS_PER_S: u32 = 20;
/// Longest user name that a line of the audit shows, in characters; Neo4j's own bound is 65,534.
pub const AUDIT_WHO_CHARS_MAX: usize = 64;
/// How long a node waits for the other nodes' answers about credentials that it has not cached, while Neo4j cannot be
/// asked: as long as a request waits for Neo4j itself there. A silent member costs each such client this wait.
pub const PEER_ANSWERS_WAIT_MS: u64 = CREDENTIALS_RETRY_WAIT_MS;
/// Questions about credentials at a time, each to every other node. Further questions wait for a permit, at most as long
/// as for the answers.
pub const PEER_ANSWERS_ASKED_MAX: usize = 16;
/// Refusals in one message: 40 bytes each.
pub const REFUSALS_TOLD_AT_ONCE: usize = 64;
/// Refusals that wait to be told. Beyond that the oldest go first: guesses are refused by everybody anyway, and a belief that
/// nobody ends lasts for 30 s.
pub const REFUSALS_WAITING_MAX: usize = 1_024;
/// How long a node waits for another to take a message of refusals.
pub const REFUSALS_TOLD_WITHIN_MS: u64 = 500;
