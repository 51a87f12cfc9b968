//! Which earlier values are an answer without a run.

use hopcache_core::bookmark::Bookmark;
use hopcache_core::time::Millis;
use hopcache_core::write_position::WritePosition;

use crate::model::ask::Ask;

/// The bounds that a request or a refresh puts on an earlier value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueBounds {
    /// Older values do not count; zero for `no-cache`.
    pub age_max_ms: Option<Millis>,
    /// Whether a stale value is an answer.
    pub stale_use: StaleUse,
    /// Whether only a value that is proved counts.
    pub proved_only: bool,
    /// The client's bookmarks: a value whose run did not carry as much does not count, and a run carries them.
    pub after: Bookmark,
    /// The mark of the database when the request came: a value that a write has ended does not count, and a run carries
    /// the mark.
    pub written: Option<WritePosition>,
}

/// Whether a stale value is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StaleUse {
    /// A request waits: serve the stale value, if it is past its soft TTL by no more than this.
    Serve {
        /// The request's `max-stale`.
        past_max_ms: Option<Millis>,
    },
    /// The stale value is being refreshed, or the request does not want it.
    Ignore,
}

impl ValueBounds {
    /// No earlier value is an answer.
    pub const NOTHING: Self = Self {
        age_max_ms: Some(Millis::ZERO),
        stale_use: StaleUse::Ignore,
        proved_only: false,
        after: Bookmark::NONE,
        written: None,
    };

    /// The bounds of a request.
    #[must_use]
    pub fn of_request(ask: &Ask) -> Self {
        let freshness = ask.freshness;
        let proved_only = freshness.proved_only || freshness.may_write;
        let stale_use = if freshness.no_cache || proved_only {
            StaleUse::Ignore
        } else {
            StaleUse::Serve { past_max_ms: freshness.stale_max_ms }
        };
        let (after, written) = (ask.bookmarks.clone(), ask.written);
        Self { age_max_ms: freshness.age_max_ms, stale_use, proved_only, after, written }
    }
}
