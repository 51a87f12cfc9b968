//! The audit: one structured line for each act that matters to an auditor, under a tracing target of its own.
//!
//! | action | outcomes | when |
//! |---|---|---|
//! | `credentials` | `refused`, `locked_out`, `put_off` | a client's log-on was refused, or not even tried |
//! | `admin_token` | `missing`, `refused` | a request to the admin listener without the right token |
//! | `invalidate`, `purge`, `flush_waste` | `done`, `failed` | an operator's order |
//! | `drain` | `begun` | an operator's order, or a signal |
//! | `config` | `read` | the configuration in force was shown |
//! | `keys` | `in_use` | the start of a node: its keys, each by a tag that shows nothing else of it |
//!
//! Every line names the actor (`who`) and the address (`from`). No line has a statement, a parameter or a secret,
//! because the functions here take none. Lines of refusals are paced, so that guesses do not push the other lines out
//! of the log's queue.

use std::borrow::Cow;
use std::time::Instant;

use hopcache_core::limits::{AUDIT_REFUSALS_BURST, AUDIT_REFUSALS_PER_S, AUDIT_WHO_CHARS_MAX};
use hopcache_engine::identity::{Credentials, Identity};
use hopcache_engine::ports::OriginFault;
use hopcache_neo4j::fault::is_credential_refusal;
use hopcache_net::client_addr;
use parking_lot::Mutex;

/// The target of every line: `log.level = "warn,hopcache::audit=info"` keeps the audit alone.
const TARGET: &str = "hopcache::audit";

/// Why a client's credentials were not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogOn {
    /// Neo4j refuses them.
    Refused,
    /// Neo4j has locked the user out, and did not look at them.
    LockedOut,
    /// Neo4j was not asked: more wrong ones would lock the user out.
    PutOff,
}

impl LogOn {
    const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::LockedOut => "locked_out",
            Self::PutOff => "put_off",
        }
    }
}

/// The listener at which a client logged on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientListener {
    /// The Query API.
    Http,
    /// Bolt.
    Bolt,
}

impl ClientListener {
    const fn label(self) -> &'static str {
        match self {
            Self::Http => "client",
            Self::Bolt => "bolt",
        }
    }
}

/// Neo4j did not accept a client's credentials. Credentials that could not be checked are not refused.
pub fn log_on_failed(identity: &Identity, fault: &OriginFault, listener: ClientListener) {
    match fault {
        OriginFault::Unauthorized(error) if is_credential_refusal(error) => {
            credentials(identity, LogOn::Refused, &error.code, listener);
        }
        OriginFault::Unauthorized(error) => credentials(identity, LogOn::LockedOut, &error.code, listener),
        OriginFault::TooManyRuns => credentials(identity, LogOn::PutOff, "", listener),
        _ => {}
    }
}

/// A client's credentials were refused.
pub fn credentials(identity: &Identity, outcome: LogOn, code: &str, listener: ClientListener) {
    let Some(left_out) = REFUSALS.lock().admit(Instant::now()) else { return };
    let (who, from) = (client(identity), client_addr::current());
    let (outcome, listener) = (outcome.label(), listener.label());
    let who = &*who;
    tracing::info!(
        target: TARGET,
        action = "credentials", outcome, who, from, listener, code, left_out,
        "credentials are refused"
    );
}

/// A request to the admin listener had no token, or a wrong one.
pub fn admin_token(was_given: bool, path: &str) {
    let Some(left_out) = REFUSALS.lock().admit(Instant::now()) else { return };
    let outcome = if was_given { "refused" } else { "missing" };
    let (from, listener) = (client_addr::current(), "admin");
    let who = "unknown";
    tracing::info!(
        target: TARGET,
        action = "admin_token", outcome, who, from, listener, path, left_out,
        "a request without this node's admin token"
    );
}

/// A purge has ended. `scope` names what was purged: `all`, `database …` or `query_key …`.
pub fn purge(who: &str, scope: &str, is_done: bool, entries: Option<u64>) {
    let (outcome, from) = (done(is_done), client_addr::current());
    tracing::info!(target: TARGET, action = "purge", outcome, who, from, scope, entries, "a purge");
}

/// The entries that a write past the cluster has touched are ended. `tags`: how many labels, types and keys were named; `None`
/// if anything may have been touched.
pub fn invalidate(who: &str, database: &str, is_done: bool, tags: Option<usize>) {
    let (outcome, from) = (done(is_done), client_addr::current());
    let scope = format!("database {}", shown(database));
    tracing::info!(target: TARGET, action = "invalidate", outcome, who, from, scope, tags, "a write past the cluster was told");
}

/// Prefetched copies were dropped.
pub fn flush_waste(who: &str, copies: u64) {
    let (outcome, from) = (done(true), client_addr::current());
    tracing::info!(target: TARGET, action = "flush_waste", outcome, who, from, copies, "prefetched copies are dropped");
}

/// An operator or a signal has ordered the node to leave.
pub fn drain(who: &str) {
    let from = client_addr::current();
    tracing::info!(target: TARGET, action = "drain", outcome = "begun", who, from, "the node was told to leave");
}

/// The configuration was read again. `changed` and `needs_restart` are names of keys; `error` says why nothing was taken.
pub fn reload((who, from): (&str, &str), (changed, needs_restart): (&str, &str), error: Option<&str>) {
    let outcome = done(error.is_none());
    tracing::info!(
        target: TARGET,
        action = "reload", outcome, who, from, changed, needs_restart, error,
        "the configuration was read again"
    );
}

/// The configuration in force was shown.
pub fn config_read(who: &str) {
    let from = client_addr::current();
    tracing::info!(target: TARGET, action = "config", outcome = "read", who, from, "the configuration was read");
}

/// The keys that a node starts with, each by its tag.
pub fn keys(cluster_key: &str, previous_key: &str, data_key: &str) {
    let (outcome, who, from) = ("in_use", "configuration", "start");
    tracing::info!(
        target: TARGET,
        action = "keys", outcome, who, from, cluster_key, previous_key, data_key,
        "the keys of this node"
    );
}

/// A text for one line. One that is too long for a name is cut.
pub fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(AUDIT_WHO_CHARS_MAX).collect()
}

const fn done(is_done: bool) -> &'static str {
    if is_done { "done" } else { "failed" }
}

/// The client behind credentials: the scheme, and the user or a keyed digest of the token.
fn client(identity: &Identity) -> Cow<'static, str> {
    match &identity.credentials {
        Credentials::None => "none".into(),
        Credentials::Basic { user, .. } => format!("basic {}", shown(user)).into(),
        Credentials::Bearer { .. } => {
            let digest =
                identity.fingerprint.first_chunk().map_or(0, |digest: &[u8; 4]| u32::from_be_bytes(*digest));
            format!("bearer {digest:08x}").into()
        }
    }
}

/// One pace for the process, like the log.
static REFUSALS: Mutex<LineAllowance> =
    Mutex::new(LineAllowance { lines: AUDIT_REFUSALS_BURST, filled: None, left_out: 0 });

/// Lines on refusals that may still be written now.
#[derive(Debug)]
struct LineAllowance {
    lines: u32,
    /// When the last whole line was added.
    filled: Option<Instant>,
    /// Lines left out since the last one that was written.
    left_out: u64,
}

impl LineAllowance {
    /// Whether a line may be written, and the number of lines left out before it.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        let filled = *self.filled.get_or_insert(now);
        let millis_per_line = u128::from(1_000 / AUDIT_REFUSALS_PER_S);
        let more = now.saturating_duration_since(filled).as_millis() / millis_per_line;
        if more > 0 {
            self.lines =
                u32::try_from(more).unwrap_or(u32::MAX).saturating_add(self.lines).min(AUDIT_REFUSALS_BURST);
            self.filled = Some(now);
        }
        if self.lines == 0 {
            self.left_out += 1;
            return None;
        }
        self.lines -= 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hopcache_core::key::{KeyHasher, PrincipalScope};

    use super::*;

    #[test]
    fn refusals_are_paced_and_those_left_out_are_counted() {
        let mut allowance = LineAllowance { lines: AUDIT_REFUSALS_BURST, filled: None, left_out: 0 };
        let start = Instant::now();
        for _ in 0..AUDIT_REFUSALS_BURST {
            assert_eq!(allowance.admit(start), Some(0));
        }
        for _ in 0..7 {
            assert_eq!(allowance.admit(start), None);
        }
        let second = start + Duration::from_secs(1);
        assert_eq!(allowance.admit(second), Some(7));
        for _ in 1..AUDIT_REFUSALS_PER_S {
            assert_eq!(allowance.admit(second), Some(0));
        }
        assert_eq!(allowance.admit(second), None);
        assert_eq!(allowance.admit(second + Duration::from_secs(3_600)), Some(1));
        assert_eq!(allowance.lines, AUDIT_REFUSALS_BURST - 1, "an hour saves no more than the burst");
    }

    #[test]
    fn who_is_the_user_or_a_digest_and_never_a_secret() {
        let scope = PrincipalScope::of(&KeyHasher::new(b""), "basic", "ann", None);
        let of = |credentials| client(&Identity { scope, fingerprint: [0xAB; 32], credentials }).into_owned();
        let long = format!("ann\n\u{1b}[31m{}", "x".repeat(100));
        let shown = of(Credentials::Basic { user: long, password: "secret".to_owned() });
        assert!(shown.starts_with("basic ann[31mxxx") && shown.len() == 6 + AUDIT_WHO_CHARS_MAX, "{shown}");
        assert_eq!(of(Credentials::Bearer { token: "secret".to_owned() }), "bearer abababab");
        assert_eq!(of(Credentials::None), "none");
    }
}
