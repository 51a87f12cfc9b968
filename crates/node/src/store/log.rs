//! Positions in an invalidation log, packed into the cursor of the port.
//!
//! A position is (log, sequence number). The id of a log is random. So a store that restarted empty has another log, even
//! when the new log reaches the same number.

use hopcache_core::key::{DatabaseTag, QueryKey};
use hopcache_engine::ports::{LogCursor, Scope};

const SEQUENCE_BITS: u32 = 40;
const LOG_BITS: u32 = 64 - SEQUENCE_BITS;

/// A position in one log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogPlace {
    /// The id of the log: 1 to 2^24 − 1. The default cursor has 0, which is no log.
    pub(super) log: u64,
    /// The number of the last entry that was read.
    pub(super) sequence: u64,
}

impl LogPlace {
    pub(super) const fn from_cursor(cursor: LogCursor) -> Self {
        Self { log: cursor.0 >> SEQUENCE_BITS, sequence: cursor.0 & ((1 << SEQUENCE_BITS) - 1) }
    }

    pub(super) const fn to_cursor(self) -> LogCursor {
        LogCursor((self.log << SEQUENCE_BITS) | (self.sequence & ((1 << SEQUENCE_BITS) - 1)))
    }
}

/// A log id from random bits.
pub(super) const fn log_id(random: u64) -> u64 {
    let id = random & ((1 << LOG_BITS) - 1);
    if id == 0 { 1 } else { id }
}

/// `a`, `d<16 hex>` or `k<64 hex>`.
pub(super) fn scope_text(scope: &Scope) -> String {
    match scope {
        Scope::All => "a".to_owned(),
        Scope::Database(tag) => format!("d{:016x}", tag.0),
        Scope::Key(key) => format!("k{}", key.to_hex()),
    }
}

/// Reads [`scope_text`].
pub(super) fn scope_from_text(text: &str) -> Option<Scope> {
    match text.split_at_checked(1)? {
        ("a", "") => Some(Scope::All),
        ("d", tag) => u64::from_str_radix(tag, 16).ok().map(|tag| Scope::Database(DatabaseTag(tag))),
        ("k", key) => QueryKey::from_hex(key).map(Scope::Key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_scopes_survive_their_texts() {
        let place = LogPlace { log: log_id(u64::MAX), sequence: (1 << SEQUENCE_BITS) - 1 };
        assert_eq!(LogPlace::from_cursor(place.to_cursor()), place);
        assert_eq!(LogPlace::from_cursor(LogCursor::default()).log, 0);
        assert_eq!(log_id(0), 1);
        for scope in [Scope::All, Scope::Database(DatabaseTag(7)), Scope::Key(QueryKey([9; 32]))] {
            assert_eq!(scope_from_text(&scope_text(&scope)), Some(scope));
        }
        for text in ["", "x", "aa", "d", "k12", "é"] {
            assert_eq!(scope_from_text(text), None, "{text}");
        }
    }
}
