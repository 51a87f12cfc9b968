//! Translates answers and errors of Redis into the types of the port.

use std::error::Error;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::lease::{Grant, GrantKind, SlotView, StoredEntry, Token};
use hopcache_core::node::Holder;
use hopcache_core::time::Millis;
use hopcache_engine::ports::StoreError;
use hopcache_net::descriptors::is_shortage;
use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::gate::Missed;

/// Codes of a server that refuses. Asking again soon does not help.
const REFUSALS: [&str; 8] =
    ["READONLY", "OOM", "NOPERM", "MISCONF", "NOAUTH", "WRONGPASS", "NOREPLICAS", "WRONGTYPE"];
/// Codes of a server or cluster that cannot serve now.
const ABSENCES: [&str; 6] = ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED"];

/// Sorts redis' errors by the action that is open to the caller.
pub(super) fn store_error(error: &RedisError) -> StoreError {
    if error.is_timeout() {
        return StoreError::TimedOut;
    }
    let text = error.to_string();
    let code = error.code().unwrap_or_default();
    if ABSENCES.contains(&code) {
        return StoreError::Unreachable(text);
    }
    // Redis 6 wraps the refusal of a command inside a script: "ERR … -OOM command not allowed …".
    let wrapped = |code: &&str| text.contains(&format!("-{code} "));
    let refused = REFUSALS.contains(&code) || REFUSALS.iter().any(wrapped);
    match error.kind() {
        _ if refused => StoreError::Refused(text),
        ErrorKind::AuthenticationFailed | ErrorKind::Server(_) | ErrorKind::Extension => {
            StoreError::Refused(text)
        }
        _ => StoreError::Unreachable(text),
    }
}

/// Like [`store_error`], for a failed connect.
pub(super) fn connect_missed(error: &RedisError) -> Missed {
    let missed = store_error(error);
    if io_error(error).is_some_and(is_shortage) { Missed::Local(missed) } else { Missed::Connection(missed) }
}

/// The error of the operating system, which redis shows only as a shared error.
fn io_error(error: &RedisError) -> Option<&io::Error> {
    let source = error.source()?;
    let shared = source.downcast_ref::<Arc<dyn Error + Send + Sync>>();
    shared.map_or_else(|| source.downcast_ref(), |inner| inner.downcast_ref())
}

/// Like [`store_error`], for a command that was sent. When its connection broke, Redis may have carried it out, as after a
/// timeout. The caller asks again on a new connection, which an absent server refuses.
pub(super) fn exchange_error(error: &RedisError) -> StoreError {
    // A reply that ends in its middle is an error of parsing.
    let is_broken = matches!(error.kind(), ErrorKind::Io | ErrorKind::Parse);
    if is_broken { StoreError::TimedOut } else { store_error(error) }
}

/// Whether the connection must be given up: it is broken, or its server is not the master any more.
pub(super) fn ends_connection(error: &RedisError) -> bool {
    let demoted = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly);
    demoted || error.is_io_error() || error.is_unrecoverable_error() || error.to_string().contains("READONLY")
}

/// The fields of `answer` in `lua/slot.lua`.
pub(super) type Fields = (String, String, String, String, i64, i64, i64, Vec<u8>);

/// The answer of a script about a slot.
#[derive(Debug)]
pub(super) struct Answer {
    what: String,
    token: Token,
    holder: String,
    lease_left_ms: Millis,
    entry_left_ms: Millis,
    entry_bytes: usize,
    has_entry: bool,
    pub(super) bytes: Bytes,
}

impl Answer {
    pub(super) fn read(fields: Fields) -> Result<Self, StoreError> {
        let (what, counter, nonce, holder, lease_left, entry_left, length, bytes) = fields;
        let counter = counter.parse().map_err(|_| foreign("counter"))?;
        let nonce = u128::from_str_radix(&nonce, 16).map_err(|_| foreign("nonce"))?;
        let span = |ms: i64| Millis(u64::try_from(ms).unwrap_or(0));
        Ok(Self {
            what,
            token: Token { counter, nonce },
            holder,
            lease_left_ms: span(lease_left),
            entry_left_ms: span(entry_left),
            entry_bytes: usize::try_from(length).unwrap_or(0),
            has_entry: length >= 0,
            bytes: bytes.into(),
        })
    }

    /// Whether there is an entry with too many bytes for this connection.
    pub(super) fn lacks_bytes(&self) -> bool {
        self.has_entry && self.bytes.is_empty() && self.entry_bytes > 0
    }

    pub(super) fn is_value(&self) -> bool {
        self.what == "value"
    }

    /// The entry with its bytes.
    pub(super) fn entry(&self) -> Option<StoredEntry> {
        (self.has_entry && !self.bytes.is_empty())
            .then(|| StoredEntry { bytes: self.bytes.clone(), left_ms: self.entry_left_ms })
    }

    /// Takes the entry of a later answer about the same slot.
    pub(super) fn with_entry_of(self, later: Self) -> Self {
        Self { entry_left_ms: later.entry_left_ms, has_entry: later.has_entry, bytes: later.bytes, ..self }
    }

    fn parsed_holder(&self) -> Result<Holder, StoreError> {
        self.holder.parse().map_err(|_| foreign("holder"))
    }

    pub(super) fn into_grant(self) -> Result<Grant, StoreError> {
        let stale = self.entry();
        let kind = match self.what.as_str() {
            "value" => return stale.map(Grant::Value).ok_or_else(|| foreign("value")),
            "busy" => {
                let (holder, token, left_ms) = (self.parsed_holder()?, self.token, self.lease_left_ms);
                return Ok(Grant::Busy { holder, token, left_ms, stale });
            }
            "free" => GrantKind::Free,
            "expired" => GrantKind::Expired,
            "stolen" => GrantKind::Stolen,
            _ => return Err(foreign("answer")),
        };
        Ok(Grant::Lease { token: self.token, kind, stale })
    }

    pub(super) fn into_view(self) -> Result<SlotView, StoreError> {
        let busy = self.what == "busy";
        let lease = if busy { Some((self.parsed_holder()?, self.token, self.lease_left_ms)) } else { None };
        Ok(SlotView { entry: self.entry(), lease })
    }
}

/// The error for a foreign value under a key name of hopcache.
pub(super) fn foreign(what: &str) -> StoreError {
    StoreError::Refused(format!("a {what} that hopcache did not write is under its key"))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn want_of_descriptors_here_does_not_count_against_the_store() {
        let failed = |errno: Errno| connect_missed(&RedisError::from(io::Error::from(errno)));
        assert!(matches!(failed(Errno::MFILE), Missed::Local(_)));
        assert!(matches!(failed(Errno::NFILE), Missed::Local(_)));
        assert!(matches!(failed(Errno::CONNREFUSED), Missed::Connection(StoreError::Unreachable(_))));
    }
}
