//! Whether a copy is an answer: for a request with its bookmarks and bounds, and after a write.

use hopcache_core::bookmark::{Bookmark, ReadRange};
use hopcache_core::time::MonoTime;
use hopcache_core::write_position::WritePosition;

use super::{Life, MemoryCopy};
use crate::model::ask::{Ask, Freshness};
use crate::model::bounds::{StaleUse, ValueBounds};

/// Whether a write has ended a result of a run of this range. See [`MemoryCopy::is_ended_by`].
pub(crate) fn is_ended_by(range: Option<&ReadRange>, written: Option<WritePosition>) -> bool {
    let is_seen = |written: WritePosition| match range {
        Some(range) => written.is_seen_by(range),
        None => written.is_nothing(),
    };
    written.is_some_and(|written| !is_seen(written))
}

impl MemoryCopy {
    /// Whether its run carried all of these bookmarks. A copy of unknown range covers only the empty bookmark.
    #[must_use]
    pub fn covers(&self, asked: &Bookmark) -> bool {
        asked.is_empty() || self.range.as_ref().is_some_and(|range| range.from().covers(asked))
    }

    /// Whether a write has ended it: its run did not carry the mark. A copy of unknown range may be of any time.
    #[must_use]
    pub fn is_ended_by(&self, written: Option<WritePosition>) -> bool {
        is_ended_by(self.range.as_deref(), written)
    }

    /// Whether a request or refresh with these bounds may use it, as far as transactions go.
    #[must_use]
    pub(crate) fn carries_enough(&self, bounds: &ValueBounds) -> bool {
        self.covers(&bounds.after) && !self.is_ended_by(bounds.written)
    }

    /// Whether a request accepts it although a write has ended it: `max-stale` allows that. The copy was not ended for
    /// longer than it is old.
    #[must_use]
    pub fn is_accepted_after_write(&self, freshness: Freshness, now: MonoTime) -> bool {
        freshness.stale_max_ms.is_some_and(|most| self.age_ms(now) < most)
    }

    /// Whether it satisfies a request's own bookmarks, `max-age` and `max-stale`.
    #[must_use]
    pub fn suits(&self, ask: &Ask, now: MonoTime) -> bool {
        self.covers(&ask.bookmarks) && self.keeps_to(ask.freshness, now)
    }

    /// Whether it satisfies these bounds on its age. With `max-stale=0` it is too late from the end of its TTL on.
    #[must_use]
    pub(crate) fn keeps_to(&self, freshness: Freshness, now: MonoTime) -> bool {
        freshness.age_max_ms.is_none_or(|most| self.age_ms(now) <= most)
            && freshness.stale_max_ms.is_none_or(|most| now < self.fresh_until() + most)
    }

    /// Whether it is past its soft TTL, within grace, and an answer within these bounds.
    #[must_use]
    pub(crate) fn is_stale_answer(&self, bounds: &ValueBounds, now: MonoTime) -> bool {
        let (StaleUse::Serve { past_max_ms }, Life::Stale(past)) = (bounds.stale_use, self.life(now)) else {
            return false;
        };
        past_max_ms.is_none_or(|most| past < most)
            && bounds.age_max_ms.is_none_or(|most| self.age_ms(now) <= most)
            && self.carries_enough(bounds)
    }
}
