//! Bounds of checked credentials: how many are remembered, for how long, and how often Neo4j is asked about strangers'.

use super::{ORIGIN_CONNECT_MS_MAX, ORIGIN_VERIFIES_MAX, ORIGIN_WAIT_MS_MAX, PARSED_REQUEST_BYTES_MAX};

/// For how long an accepted check of credentials is used (FAULTS, threats: revoked credentials ≤ 30 s).
pub const CREDENTIALS_TTL_MS: u64 = 30_000;
/// From this age of a check on, a hit that uses it repeats the check in the background. A silent Neo4j is given up
/// after a log-on of 2 s and a connection of 5 s. So when the check expires, this node knows whether it can ask Neo4j,
/// and no hit waits for that.
pub const CREDENTIALS_RECHECK_MS: u64 = 20_000;
const _: () = assert!(CREDENTIALS_RECHECK_MS + 2 * ORIGIN_CONNECT_MS_MAX <= CREDENTIALS_TTL_MS);
/// Accepted credentials remembered. Refused ones take no place among them.
pub const CREDENTIALS_MAX: usize = 10_000;
/// How often requests of senders without accepted credentials are forgotten, since they hold credentials in the clear.
/// Looking at 16,384 places takes well under a millisecond.
pub const CREDENTIALS_SWEEP_MS: u64 = 10_000;
/// Refused credentials remembered. Forgetting one costs a question to Neo4j.
pub const CREDENTIALS_REFUSED_MAX: usize = 1_000;
/// The longest check of credentials, and the longest wait for one: a place in the queue, and two connections opened one
/// after the other. New credentials wait in a queue of their own before that one. A sender that both delay too long
/// gets a timeout.
pub const CREDENTIALS_CHECK_MS_MAX: u64 = ORIGIN_WAIT_MS_MAX + 2 * ORIGIN_CONNECT_MS_MAX;
/// Checks of credentials never accepted before, at a time. A quarter of [`ORIGIN_VERIFIES_MAX`] is left for accepted
/// credentials, whose hits wait for it.
pub const STRANGERS_CHECKED_MAX: usize = ORIGIN_VERIFIES_MAX / 4 * 3;
/// Different credentials of one user, never accepted before, that wait for a check. A sender with more of them is
/// guessing.
pub const STRANGERS_WAITING_PER_USER_MAX: usize = 32;
/// Credentials never accepted before that wait for a check, in total.
pub const STRANGERS_WAITING_MAX: usize = 1_024;
/// Credentials of one user, never accepted before, that Neo4j is asked about until it accepts any of that user's or a
/// window is over ([`STRANGERS_ASKED_WINDOW_MS_FIRST`] to [`STRANGERS_ASKED_WINDOW_MS`]). One more would lock the user
/// out there for 5 s. Each node counts for itself.
pub const STRANGERS_ASKED_PER_USER_MAX: usize = 2;
/// Neo4j (5.26, tried) counts wrong passwords since the last accepted one, with any time between them. So a window as
/// short as its lock would only pace them. Within this window accepted credentials are checked again, and that success
/// resets Neo4j's count.
pub const STRANGERS_ASKED_WINDOW_MS: u64 = CREDENTIALS_TTL_MS;
/// The first window for a user that this node has not met: as long as Neo4j's own lock (`dbms.security.auth_lock_time`,
/// 5 s). So two wrong passwords delay the right one no longer than Neo4j itself would after three. It doubles while
/// only wrong ones come.
pub const STRANGERS_ASKED_WINDOW_MS_FIRST: u64 = 5_000;
/// Users with counted questions; each costs about 100 bytes. Forgetting one allows two questions more.
pub const STRANGERS_ASKED_USERS_MAX: usize = 10_000;
/// For how long Neo4j's refusal of credentials, or its lock of the user, is remembered.
/// [`STRANGERS_ASKED_PER_USER_MAX`] bounds how often Neo4j is asked about them at all.
pub const CREDENTIALS_REFUSED_MS: u64 = 2_000;
/// While Neo4j cannot be reached: pause between two questions about the same credentials.
pub const CREDENTIALS_RETRY_MS: u64 = 5_000;
/// While Neo4j cannot be reached: how long before the end of that pause a hit asks the next question in the background.
/// A client that comes once a second does not wait.
pub const CREDENTIALS_RETRY_AHEAD_MS: u64 = 1_000;
const _: () = assert!(CREDENTIALS_RETRY_AHEAD_MS < CREDENTIALS_RETRY_MS);
/// While Neo4j cannot be reached: how long a request waits for an answer about its credentials. Also how long one waits for the
/// name of a database if Neo4j may be silent.
pub const CREDENTIALS_RETRY_WAIT_MS: u64 = 250;
/// How long a request waits for a Neo4j that may be silent before an earlier acceptance of its credentials counts, at this
/// node or at another. The gate knows of a silence only after
/// [`ORIGIN_DOUBT_MS`](super::ORIGIN_DOUBT_MS) and a probe, and drivers should not feel one.
pub const SILENCE_PATIENCE_MS: u64 = 500;
const _: () = assert!(CREDENTIALS_RETRY_WAIT_MS <= SILENCE_PATIENCE_MS);
/// Largest body, in bytes, that is read before its sender's credentials are checked. A request with a larger one is
/// never remembered, and for a remembered one that check would cost time.
pub const STRANGERS_BODY_BYTES_MAX: u64 = PARSED_REQUEST_BYTES_MAX as u64;
