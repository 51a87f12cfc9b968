//! A memory copy of an entry, with its renderings: what a hit is served from.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use hopcache_core::entry::Entry;
use hopcache_core::key::{DatabaseTag, PrincipalScope};
use hopcache_core::lease::Token;
use hopcache_core::limits::{
    BODY_OVERHEAD_BYTES, COPY_OVERHEAD_BYTES, LATE_MISS_MS_MAX, PASS_THROUGH_BYTES_MAX,
};
use hopcache_core::refresh::Heat;
use hopcache_core::result::ResultSet;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_queryapi::render::{Counters, Encoding, Form, RenderError, ResultView, render_within};

use crate::ask::Freshness;
use crate::prefetch::Ticket;
use crate::refresh::Pace;

/// One result in memory. Its times are readings of this node's monotonic clock.
#[derive(Debug)]
pub struct MemoryCopy {
    content: Content,
    /// When the origin read began: what age counts from (promise I4).
    pub read_started: MonoTime,
    /// End of the soft TTL.
    pub fresh_until: MonoTime,
    /// End of grace.
    pub dead_at: MonoTime,
    /// End of stale-if-error: until then it is kept, and served where the origin fails.
    pub spare_until: MonoTime,
    /// How long the run took.
    pub cost_ms: Millis,
    /// Token that it was stored with; none if the store never took it.
    pub token: Option<Token>,
    /// Database it came from.
    pub database_tag: DatabaseTag,
    /// Whose it is: what the share of one principal in memory is counted by.
    owner: ScopeTag,
    renderings: [OnceLock<Bytes>; 4],
    /// Whether the last run for it failed by no fault of the statement; a newer copy begins without.
    has_origin_failed: AtomicBool,
    /// When another node became its key's owner, and it was left for that one to ask for; zero if none did.
    left_at: AtomicU64,
    /// What it remembers of its refreshes.
    pub(crate) pace: Pace,
    /// How often it is asked for.
    pub heat: Heat,
    /// Of a prefetch that brought it. With its last holder it ends as wasted, unless somebody was answered with it.
    ticket: Option<Arc<Ticket>>,
}

/// What a copy is rendered from.
#[derive(Debug)]
enum Content {
    /// The stored form ([`ResultSet::to_bytes`]) in one allocation: as a tree of names and summary a small
    /// result takes half as much again.
    Stored(Bytes),
    /// As the origin sent it, for those who wait, and never kept: a large result is not copied for them.
    Passing(ResultSet),
    /// Nothing: another node's rendering of one form, and how often it was served since that node was told.
    Near(AtomicU32),
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
    /// Total life, from the start of the read: to the end of stale-if-error.
    pub total_ms: Millis,
    /// How long the run took.
    pub cost_ms: Millis,
}

impl MemoryCopy {
    /// A copy of a result that this node has just read and may keep. It shares no allocation with the result.
    #[must_use]
    pub fn new(
        result: &ResultSet,
        times: CopyTimes,
        token: Option<Token>,
        database_tag: DatabaseTag,
    ) -> Self {
        Self::of(Content::Stored(exact(result.to_bytes())), times, token, database_tag)
    }

    /// A copy of a result that is handed to those who wait for it and then forgotten.
    #[must_use]
    pub fn passing(result: ResultSet, times: CopyTimes, database_tag: DatabaseTag) -> Self {
        Self::of(Content::Passing(result), times, None, database_tag)
    }

    /// A copy of a stored entry of which `left_ms` of its total life is left now.
    ///
    /// # Errors
    /// When the entry's body is no result.
    pub fn of_entry(
        entry: &Entry,
        left_ms: Millis,
        now: MonoTime,
    ) -> Result<Self, hopcache_core::result::BadResult> {
        let times = CopyTimes {
            read_started: now - entry.total.saturating_sub(left_ms),
            soft_ms: entry.soft,
            physical_ms: entry.physical,
            total_ms: entry.total,
            cost_ms: entry.cost,
        };
        ResultSet::from_bytes(&entry.body)?;
        let content = Content::Stored(entry.body.clone());
        Ok(Self::of(content, times, Some(entry.token), entry.database))
    }

    /// A near copy: what the owner of a key answered in one form, for the times given. Everything that an owner's
    /// copy may do is kept from it by who looks for one (`Engine::own_copy`).
    pub(crate) fn near(body: &[u8], form: Form, times: CopyTimes, database_tag: DatabaseTag) -> Self {
        let copy = Self::of(Content::Near(AtomicU32::new(0)), times, None, database_tag);
        // Of its own: a part of the message would keep all of it.
        let body = Bytes::copy_from_slice(body);
        copy.renderings[slot_of(form)].get_or_init(|| body);
        copy
    }

    /// How often a near copy was served since its owner was told; none for any other copy.
    pub(crate) fn near_hits(&self) -> Option<&AtomicU32> {
        match &self.content {
            Content::Near(hits) => Some(hits),
            Content::Stored(_) | Content::Passing(_) => None,
        }
    }

    fn of(content: Content, times: CopyTimes, token: Option<Token>, database_tag: DatabaseTag) -> Self {
        Self {
            content,
            read_started: times.read_started,
            fresh_until: times.read_started + times.soft_ms,
            dead_at: times.read_started + times.physical_ms,
            spare_until: times.read_started + times.total_ms.max(times.physical_ms),
            cost_ms: times.cost_ms,
            token,
            database_tag,
            owner: ScopeTag::default(),
            renderings: Default::default(),
            has_origin_failed: AtomicBool::new(false),
            left_at: AtomicU64::new(0),
            pace: Pace::default(),
            heat: Heat::new(times.read_started, None),
            ticket: None,
        }
    }

    /// The same content with other times and no token.
    #[must_use]
    pub fn with_times(&self, times: CopyTimes) -> Self {
        let content = match &self.content {
            Content::Stored(body) => Content::Stored(body.clone()),
            Content::Passing(result) => Content::Passing(result.clone()),
            Content::Near(_) => Content::Near(AtomicU32::new(0)),
        };
        let ticket = self.ticket.clone();
        Self { owner: self.owner, ticket, ..Self::of(content, times, None, self.database_tag) }
    }

    /// The same copy, known to be this principal's.
    #[must_use]
    pub fn of_principal(self, scope: PrincipalScope) -> Self {
        Self { owner: ScopeTag::of(scope), ..self }
    }

    /// The same copy, counted from now on.
    #[must_use]
    pub fn with_heat(self, heat: Heat) -> Self {
        Self { heat, ..self }
    }

    /// The same copy, brought by a prefetch if by one.
    #[must_use]
    pub(crate) fn with_ticket(self, ticket: Option<Arc<Ticket>>) -> Self {
        Self { ticket, ..self }
    }

    /// Of the prefetch that brought it.
    pub(crate) fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_deref()
    }

    /// A demand request is answered with it, or a new owner gets it for one.
    pub(crate) fn serves_demand(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.used();
        }
    }

    /// Its soft TTL, jitter included.
    #[must_use]
    pub fn ttl_ms(&self) -> Millis {
        self.fresh_until.since(self.read_started)
    }

    /// Whose it is.
    #[must_use]
    pub fn owner(&self) -> ScopeTag {
        self.owner
    }

    /// The stored form.
    #[must_use]
    pub fn stored_form(&self) -> Bytes {
        match &self.content {
            Content::Stored(body) => body.clone(),
            Content::Passing(result) => exact(result.to_bytes()),
            // It has none, and these bytes are no result.
            Content::Near(_) => Bytes::new(),
        }
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

    /// How it stands beside a failing origin: stale or dead, and not past the end of stale-if-error.
    #[must_use]
    pub fn is_spare(&self, now: MonoTime) -> bool {
        self.fresh_until <= now && now < self.spare_until
    }

    /// Until when a run that had to take its place shows that its refresh is late. Asked for later than this it was
    /// not worth one.
    #[must_use]
    pub fn late_until(&self) -> MonoTime {
        self.fresh_until + Millis((self.ttl_ms().0 / 2).min(LATE_MISS_MS_MAX))
    }

    /// Until when it is of use in memory, if only to tell by it that nobody was served a stale copy.
    #[must_use]
    pub fn kept_until(&self) -> MonoTime {
        if self.token.is_some() { self.spare_until.max(self.late_until()) } else { self.spare_until }
    }

    /// The last run for it failed by an outage: what is served of it from now on says so.
    pub fn origin_failed(&self) {
        self.has_origin_failed.store(true, Ordering::Relaxed);
    }

    /// Whether it did.
    #[must_use]
    pub fn has_origin_failed(&self) -> bool {
        self.has_origin_failed.load(Ordering::Relaxed)
    }

    /// Another node owns its key since then; whether that is new.
    pub(crate) fn leave(&self, now: MonoTime) -> bool {
        // A clock that begins at zero must not make it look unmarked.
        let at = now.0.max(1);
        self.left_at.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Since when another node has owned its key, if one has: it is no answer of this node's own any more.
    pub(crate) fn left_at(&self) -> Option<MonoTime> {
        let at = self.left_at.load(Ordering::Relaxed);
        (at != 0).then_some(MonoTime(at))
    }

    /// Whether it keeps to a request's own `max-age` and `max-stale`.
    #[must_use]
    pub fn keeps_to(&self, freshness: Freshness, now: MonoTime) -> bool {
        freshness.age_max_ms.is_none_or(|most| self.age_ms(now) <= most)
            && freshness.stale_max_ms.is_none_or(|most| now.since(self.fresh_until) <= most)
    }

    /// Time since the origin read began.
    #[must_use]
    pub fn age_ms(&self, now: MonoTime) -> Millis {
        now.since(self.read_started)
    }

    /// Whether a refresh may be tried now.
    #[must_use]
    pub fn is_refresh_due(&self, now: MonoTime) -> bool {
        self.pace.is_due(now)
    }

    /// No refresh before `until`: the last one failed, or is under way.
    pub fn put_off_refresh(&self, until: MonoTime) {
        self.pace.put_off(until, self.fresh_until);
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
        let body = match &self.content {
            Content::Stored(body) => {
                // Checked when the copy was made; bytes that are no result have no rendering.
                let result = ResultSet::from_bytes(body).map_err(|_| RenderError::Record)?;
                exact(render_result(&result, form, &[])?)
            }
            Content::Passing(result) => body_of(result, form, &[])?,
            Content::Near(_) => return Err(RenderError::Record),
        };
        Ok(kept.get_or_init(|| body).clone())
    }

    /// The body for those whom the run itself answers: with its bookmark, which covers what they read.
    ///
    /// # Errors
    /// As [`MemoryCopy::rendering`].
    pub(crate) fn live_body(&self, form: Form, bookmark: Option<&str>) -> Result<Bytes, RenderError> {
        match (&self.content, bookmark) {
            (Content::Passing(result), Some(bookmark)) => body_of(result, form, &[bookmark.to_owned()]),
            _ => Ok(with_bookmark(self.rendering(form)?, bookmark)),
        }
    }

    /// Whether this form has been made already.
    #[must_use]
    pub fn has_rendering(&self, form: Form) -> bool {
        self.renderings[slot_of(form)].get().is_some()
    }

    /// Bytes kept alive: the result and all renderings made so far, each with what the allocator adds.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let content = match &self.content {
            Content::Stored(body) => body.len(),
            Content::Passing(result) => result.weight_bytes(),
            Content::Near(_) => 0,
        };
        let renderings = self.renderings.iter().filter_map(OnceLock::get);
        let renderings: usize = renderings.map(|body| allocated_bytes(body.len())).sum();
        let ticket = self.ticket.as_ref().map_or(0, |_| allocated_bytes(size_of::<Ticket>()));
        allocated_bytes(content) + renderings + ticket + COPY_OVERHEAD_BYTES
    }
}

/// What one body in memory costs beside its bytes: its reference count, and what the allocator rounds up to
/// (the next of four steps to the next power of two, so an eighth on average).
const fn allocated_bytes(len: usize) -> usize {
    len + len / 8 + BODY_OVERHEAD_BYTES
}

/// Whose a copy is, in short: enough to count by, not to decide by. Two principals of one tag share a share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ScopeTag(pub u32);

impl ScopeTag {
    /// The tag of a principal's scope.
    #[must_use]
    pub fn of(scope: PrincipalScope) -> Self {
        let [a, b, c, d, ..] = scope.0;
        Self(u32::from_le_bytes([a, b, c, d]))
    }
}

/// Bytes without the room that a vector keeps for more: it would be kept for as long as the copy.
fn exact(bytes: Vec<u8>) -> Bytes {
    bytes.into_boxed_slice().into()
}

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
fn render_result(result: &ResultSet, form: Form, bookmarks: &[String]) -> Result<Vec<u8>, RenderError> {
    let view = ResultView {
        fields: &result.fields,
        records: &result.records,
        summary: &result.summary,
        bookmarks,
        errors: &[],
    };
    let mut body = render_within(&view, form, PASS_THROUGH_BYTES_MAX)?;
    if bookmarks.is_empty() && body.pop() == Some(b'}') {
        body.extend_from_slice(b",\"bookmarks\":[]}");
    }
    Ok(body)
}

/// The body of a result that is not kept. It shares nothing with the records: the room that was taken for
/// them comes back when the last who renders them is done, however slowly the body is read then.
pub(crate) fn body_of(result: &ResultSet, form: Form, bookmarks: &[String]) -> Result<Bytes, RenderError> {
    Ok(exact(render_result(result, form, bookmarks)?))
}

/// Shared by everything that serves it.
pub type SharedCopy = Arc<MemoryCopy>;

/// The body with the run's bookmark, for those who were answered by that run. A body without ends
/// in an empty list of bookmarks.
fn with_bookmark(body: Bytes, bookmark: Option<&str>) -> Bytes {
    let (Some(bookmark), Some(head)) = (bookmark, body.strip_suffix(b"[]}")) else { return body };
    if !bookmark.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\') {
        return body;
    }
    [head, b"[\"", bookmark.as_bytes(), b"\"]}"].concat().into()
}

#[cfg(test)]
mod tests;
