//! A memory copy of an entry, with its renderings: what a hit is served from.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hopcache_core::entry::Entry;
use hopcache_core::key::DatabaseTag;
use hopcache_core::lease::Token;
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_queryapi::render::{Counters, Encoding, Form, RenderError, ResultView, render};

/// One result in memory. Its times are readings of this node's monotonic clock.
#[derive(Debug)]
pub struct MemoryCopy {
    /// The result.
    pub result: ResultSet,
    /// When the origin read began: what age counts from (promise I4).
    pub read_started: MonoTime,
    /// End of the soft TTL.
    pub fresh_until: MonoTime,
    /// End of grace.
    pub dead_at: MonoTime,
    /// How long the run took.
    pub cost_ms: Millis,
    /// Token that it was stored with; none if the store never took it.
    pub token: Option<Token>,
    /// Database it came from.
    pub database_tag: DatabaseTag,
    renderings: [OnceLock<Bytes>; 4],
    /// In microseconds of the node's clock; a failed refresh is not tried again before.
    refresh_after: AtomicU64,
}

/// Fresh, stale or dead, and by how much (DESIGN section 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Before the soft TTL; so much of it is left.
    Fresh(Millis),
    /// Past the soft TTL by so much, within grace.
    Stale(Millis),
    /// After grace.
    Dead,
}

/// Times of a copy that is made now.
#[derive(Debug, Clone, Copy)]
pub struct CopyTimes {
    /// When the origin read began.
    pub read_started: MonoTime,
    /// Soft TTL, from the start of the read.
    pub soft_ms: Millis,
    /// Physical life, from the start of the read.
    pub physical_ms: Millis,
    /// How long the run took.
    pub cost_ms: Millis,
}

impl MemoryCopy {
    /// A copy of a result that this node has just read.
    #[must_use]
    pub fn new(result: ResultSet, times: CopyTimes, token: Option<Token>, database_tag: DatabaseTag) -> Self {
        Self {
            result,
            read_started: times.read_started,
            fresh_until: times.read_started + times.soft_ms,
            dead_at: times.read_started + times.physical_ms,
            cost_ms: times.cost_ms,
            token,
            database_tag,
            renderings: Default::default(),
            refresh_after: AtomicU64::new(0),
        }
    }

    /// A copy of a stored entry of which `left_ms` of its physical life is left now.
    ///
    /// # Errors
    /// When the entry's body is no result.
    pub fn of_entry(
        entry: &Entry,
        left_ms: Millis,
        now: MonoTime,
    ) -> Result<Self, hopcache_core::result::BadResult> {
        let times = CopyTimes {
            read_started: now - entry.physical.saturating_sub(left_ms),
            soft_ms: entry.soft,
            physical_ms: entry.physical,
            cost_ms: entry.cost,
        };
        let result = ResultSet::from_bytes(&entry.body)?;
        Ok(Self::new(result, times, Some(entry.token), entry.database))
    }

    /// How it stands at `now`.
    #[must_use]
    pub fn life(&self, now: MonoTime) -> Life {
        if now < self.fresh_until {
            Life::Fresh(self.fresh_until.since(now))
        } else if now < self.dead_at {
            Life::Stale(now.since(self.fresh_until))
        } else {
            Life::Dead
        }
    }

    /// Time since the origin read began.
    #[must_use]
    pub fn age_ms(&self, now: MonoTime) -> Millis {
        now.since(self.read_started)
    }

    /// Whether a refresh may be tried now.
    #[must_use]
    pub fn is_refresh_due(&self, now: MonoTime) -> bool {
        now.0 >= self.refresh_after.load(Ordering::Relaxed)
    }

    /// No refresh before `until`: the last one failed.
    pub fn put_off_refresh(&self, until: MonoTime) {
        self.refresh_after.store(until.0, Ordering::Relaxed);
    }

    /// The answer's body without bookmarks, made once for each form.
    ///
    /// # Errors
    /// When the records are not what the origin's format says.
    pub fn rendering(&self, form: Form) -> Result<Bytes, RenderError> {
        let kept = &self.renderings[slot_of(form)];
        if let Some(body) = kept.get() {
            return Ok(body.clone());
        }
        let body = Bytes::from(render_result(&self.result, form, &[])?);
        Ok(kept.get_or_init(|| body).clone())
    }

    /// Whether this form has been made already.
    #[must_use]
    pub fn has_rendering(&self, form: Form) -> bool {
        self.renderings[slot_of(form)].get().is_some()
    }

    /// Bytes kept alive: the result and all renderings made so far.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let renderings: usize = self.renderings.iter().filter_map(OnceLock::get).map(Bytes::len).sum();
        self.result.weight_bytes() + renderings + size_of::<Self>() + OVERHEAD_BYTES
    }
}

/// What the map, the reference counts and the allocator add to a copy, by measurement of resident memory.
const OVERHEAD_BYTES: usize = 400;

const fn slot_of(form: Form) -> usize {
    let encoding = match form.encoding {
        Encoding::Plain => 0,
        Encoding::Typed => 2,
    };
    let counters = match form.counters {
        Counters::Omit => 0,
        Counters::Include => 1,
    };
    encoding + counters
}

/// Renders a result with the bookmarks that belong to this answer. The member is always there, as in
/// the server's own answers; a hit has none to give, so its list is empty.
pub(crate) fn render_result(
    result: &ResultSet,
    form: Form,
    bookmarks: &[String],
) -> Result<Vec<u8>, RenderError> {
    let view = ResultView {
        fields: &result.fields,
        records: &result.records,
        summary: &result.summary,
        bookmarks,
        errors: &[],
    };
    let mut body = render(&view, form)?;
    if bookmarks.is_empty() && body.pop() == Some(b'}') {
        body.extend_from_slice(b",\"bookmarks\":[]}");
    }
    Ok(body)
}

/// Shared by everything that serves it.
pub type SharedCopy = Arc<MemoryCopy>;

/// The body with the run's bookmark, for those who were answered by that run. A body without ends
/// in an empty list of bookmarks.
pub(crate) fn with_bookmark(body: Bytes, bookmark: Option<&str>) -> Bytes {
    let (Some(bookmark), Some(head)) = (bookmark, body.strip_suffix(b"[]}")) else { return body };
    if !bookmark.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\') {
        return body;
    }
    [head, b"[\"", bookmark.as_bytes(), b"\"]}"].concat().into()
}
