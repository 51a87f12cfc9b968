//! Bounds of access control: host names, messages between nodes about credentials, lines of the audit.

use super::CREDENTIALS_RETRY_WAIT_MS;

/// Names in `node.allowed_hosts`. Each checked request is compared with all of them.
pub const ALLOWED_HOSTS_MAX: usize = 64;
/// Networks in `node.proxy_protocol`. Each new connection is compared with all of them.
pub const PROXIES_MAX: usize = 64;
/// Longest PROXY header, in bytes: addresses take 52, and a balancer may add the name that TLS asked for (255), the client's
/// certificate and its cloud's own marks. A new connection holds it before anything is known of its client.
pub const PROXY_HEADER_BYTES_MAX: usize = 2 << 10;
/// How long a balancer may take to send it: the specification asks for 3 s, in which a lost packet is sent again.
pub const PROXY_HEADER_MS_MAX: u64 = 3_000;
/// Pause before the first bytes of a listed balancer are looked at again, if they may begin a header.
pub const PROXY_HEADER_PAUSE_MS: u64 = 5;
/// Audit lines on refused credentials at once, before they are paced: all nodes of a deployment with a wrong password
/// show up.
pub const AUDIT_REFUSALS_BURST: u32 = 100;
/// The same each second after that. Thousands of guesses would fill the log's queue otherwise.
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
/// Refusals that wait to be sent. Beyond that the oldest go first: every node refuses guesses anyway, and an accepted
/// check that nobody ends lasts for 30 s.
pub const REFUSALS_WAITING_MAX: usize = 1_024;
/// How long a node waits for another to take a message of refusals.
pub const REFUSALS_TOLD_WITHIN_MS: u64 = 500;
