//! A memory copy of an entry, with its renderings: what a hit is served from; read from and sealed as a stored entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use hopcache_core::bookmark::{Bookmark, ReadRange};
use hopcache_core::key::PrincipalScope;
use hopcache_core::lease::Token;
use hopcache_core::limits::{BODY_OVERHEAD_BYTES, COPY_OVERHEAD_BYTES, LATE_MISS_MS_MAX};
use hopcache_core::refresh::Heat;
use hopcache_core::result::ResultSet;
use hopcache_core::tags::Tags;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy_pace::CopyPace;
use crate::cache::provenance::Provenance;
use crate::cache::renderings::Renderings;
use crate::model::ask::{Ask, Freshness};
use crate::model::bounds::{StaleUse, ValueBounds};
use crate::model::outcome::{Class, Detail, How};
use crate::model::rendering::RenderingId;

/// One result in memory. Its times are readings of this node's monotonic clock.
#[derive(Debug)]
pub struct MemoryCopy {
    content: Content,
    /// When the origin read began: what age counts from (promise I4).
    read_started: MonoTime,
    /// End of the soft TTL.
    fresh_until: MonoTime,
    /// End of grace.
    dead_at: MonoTime,
    /// End of stale-if-error: until then the copy is kept, and served where the origin fails.
    fallback_until: MonoTime,
    /// How long the run took.
    cost_ms: Millis,
    /// Token that it was stored with; none if the store never took it.
    token: Option<Token>,
    /// Why the store never took it, if it did not: what its hits say.
    unstored: Detail,
    /// What it depends on.
    tags: Tags,
    /// Between which transactions it was read, where that is known.
    range: Option<Arc<ReadRange>>,
    /// Whose it is: what the share of one principal in memory is counted by.
    owner: ScopeTag,
    renderings: Renderings,
    /// Whether the last run for it failed by no fault of the statement; a newer copy begins without.
    has_origin_failed: AtomicBool,
    /// When another node became its key's owner, and it was left for that one to ask for; zero if none did.
    left_at: AtomicU64,
    /// What it remembers of its refreshes.
    pace: CopyPace,
    /// How often it is asked for.
    heat: Heat,
    /// What brought it, if that wants to know what becomes of the copy.
    provenance: Option<Arc<dyn Provenance>>,
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

/// Plain data: times of a copy that is made now.
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
    pub fn new(result: &ResultSet, times: CopyTimes, token: Option<Token>, tags: Tags) -> Self {
        let range = result.range.clone().map(Arc::new);
        Self { range, ..Self::of(Content::Stored(exact(result.to_bytes())), times, token, tags) }
    }

    /// A copy of a result that is handed to those who wait for it and then forgotten.
    #[must_use]
    pub fn passing(result: ResultSet, times: CopyTimes, tags: Tags) -> Self {
        let range = result.range.clone().map(Arc::new);
        Self { range, ..Self::of(Content::Passing(result), times, None, tags) }
    }

    /// A near copy: what the owner of a key answered in one form, for the times given. Everything that an owner's
    /// copy may do is kept from it by who looks for one (`Cache::look`).
    pub(crate) fn near(body: &[u8], id: RenderingId, times: CopyTimes, tags: Tags) -> Self {
        let copy = Self::of(Content::Near(AtomicU32::new(0)), times, None, tags);
        // Bytes of its own: a slice would keep the whole message alive.
        copy.renderings.keep(id, Bytes::copy_from_slice(body));
        copy
    }

    /// How often a near copy was served since its owner was told; none for any other copy.
    pub(crate) fn near_hits(&self) -> Option<&AtomicU32> {
        match &self.content {
            Content::Near(hits) => Some(hits),
            Content::Stored(_) | Content::Passing(_) => None,
        }
    }

    fn of(content: Content, times: CopyTimes, token: Option<Token>, tags: Tags) -> Self {
        Self {
            content,
            read_started: times.read_started,
            fresh_until: times.read_started + times.soft_ms,
            dead_at: times.read_started + times.physical_ms,
            fallback_until: times.read_started + times.total_ms.max(times.physical_ms),
            cost_ms: times.cost_ms,
            token,
            unstored: Detail::Degraded,
            tags,
            range: None,
            owner: ScopeTag::default(),
            renderings: Renderings::default(),
            has_origin_failed: AtomicBool::new(false),
            left_at: AtomicU64::new(0),
            pace: CopyPace::default(),
            heat: Heat::new(times.read_started, None),
            provenance: None,
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
        let (provenance, range) = (self.provenance.clone(), self.range.clone());
        Self { owner: self.owner, provenance, range, ..Self::of(content, times, None, self.tags.clone()) }
    }

    /// Its times, as spans from the start of the read.
    #[must_use]
    pub fn times(&self) -> CopyTimes {
        CopyTimes {
            read_started: self.read_started,
            soft_ms: self.fresh_until.since(self.read_started),
            physical_ms: self.dead_at.since(self.read_started),
            total_ms: self.fallback_until.since(self.read_started),
            cost_ms: self.cost_ms,
        }
    }

    /// The same copy, known to be this principal's.
    #[must_use]
    pub fn of_principal(self, scope: PrincipalScope) -> Self {
        Self { owner: ScopeTag::of(scope), ..self }
    }

    /// The same copy, read between these transactions.
    #[must_use]
    pub(crate) fn of_range(self, range: Option<Arc<ReadRange>>) -> Self {
        Self { range, ..self }
    }

    /// The same copy, which the store never took for this reason.
    #[must_use]
    pub fn unstored(self, why: Detail) -> Self {
        Self { unstored: why, ..self }
    }

    /// The same copy, counted from now on.
    #[must_use]
    pub fn with_heat(self, heat: Heat) -> Self {
        Self { heat, ..self }
    }

    /// The same copy, brought by this.
    #[must_use]
    pub(crate) fn with_provenance(self, provenance: Option<Arc<dyn Provenance>>) -> Self {
        Self { provenance, ..self }
    }

    /// What brought it, if that wants to know what becomes of the copy.
    pub(crate) fn provenance(&self) -> Option<&dyn Provenance> {
        self.provenance.as_deref()
    }

    /// A client's request is answered with it, or a new owner gets it for one.
    pub(crate) fn serves_demand(&self) {
        if let Some(provenance) = &self.provenance {
            provenance.used();
        }
    }

    /// What it remembers of its own refreshes.
    pub(crate) fn pace(&self) -> &CopyPace {
        &self.pace
    }

    /// When the origin read began: what age counts from (I4).
    #[must_use]
    pub fn read_started(&self) -> MonoTime {
        self.read_started
    }

    /// End of the soft TTL.
    #[must_use]
    pub fn fresh_until(&self) -> MonoTime {
        self.fresh_until
    }

    /// End of grace.
    #[must_use]
    pub fn dead_at(&self) -> MonoTime {
        self.dead_at
    }

    /// End of stale-if-error.
    #[must_use]
    pub fn fallback_until(&self) -> MonoTime {
        self.fallback_until
    }

    /// How long the run took.
    #[must_use]
    pub fn cost_ms(&self) -> Millis {
        self.cost_ms
    }

    /// Token that it was stored with; none if the store never took it.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.token
    }

    /// Why the store never took it; nothing if it did.
    #[must_use]
    pub fn why_unstored(&self) -> Option<Detail> {
        self.token.is_none().then_some(self.unstored)
    }

    /// What it depends on.
    #[must_use]
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Between which transactions it was read, where that is known.
    #[must_use]
    pub fn range(&self) -> Option<&Arc<ReadRange>> {
        self.range.as_ref()
    }

    /// Whether its run carried all of these bookmarks. Of a copy whose range is not known that is not known either.
    #[must_use]
    pub fn covers(&self, asked: &Bookmark) -> bool {
        asked.is_empty() || self.range.as_ref().is_some_and(|range| range.from().covers(asked))
    }

    /// How often it is asked for.
    #[must_use]
    pub fn heat(&self) -> &Heat {
        &self.heat
    }

    /// The same copy, with the token that it was stored with.
    #[must_use]
    pub(crate) fn with_token(self, token: Option<Token>) -> Self {
        Self { token, ..self }
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
    pub fn is_stale_fallback(&self, now: MonoTime) -> bool {
        self.fresh_until <= now && now < self.fallback_until
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
        if self.token.is_some() { self.fallback_until.max(self.late_until()) } else { self.fallback_until }
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

    /// Whether it keeps to a request's own bookmarks, `max-age` and `max-stale`.
    #[must_use]
    pub fn suits(&self, ask: &Ask, now: MonoTime) -> bool {
        self.covers(&ask.bookmarks) && self.keeps_to(ask.freshness, now)
    }

    fn keeps_to(&self, freshness: Freshness, now: MonoTime) -> bool {
        freshness.age_max_ms.is_none_or(|most| self.age_ms(now) <= most)
            && freshness.stale_max_ms.is_none_or(|most| now.since(self.fresh_until) <= most)
    }

    /// Whether it is past its soft TTL, within grace, and an answer within these bounds.
    #[must_use]
    pub fn is_stale_answer(&self, bounds: &ValueBounds, now: MonoTime) -> bool {
        let (StaleUse::Serve { past_max_ms }, Life::Stale(past)) = (bounds.stale_use, self.life(now)) else {
            return false;
        };
        past_max_ms.is_none_or(|most| past <= most)
            && bounds.age_max_ms.is_none_or(|most| self.age_ms(now) <= most)
            && self.covers(&bounds.after)
    }

    /// Time since the origin read began.
    #[must_use]
    pub fn age_ms(&self, now: MonoTime) -> Millis {
        now.since(self.read_started)
    }

    /// What is said of an answer that is made from it at `now`.
    #[must_use]
    pub fn how(&self, class: Class, detail: Option<Detail>, now: MonoTime) -> How {
        let ttl_ms = match self.life(now) {
            Life::Fresh(left) => i64::try_from(left.0).unwrap_or(i64::MAX),
            Life::Stale(_) | Life::Dead => {
                // Negative also in its first millisecond: 0 would call it fresh.
                i64::try_from(now.since(self.fresh_until).0.max(1)).map_or(i64::MIN, |past| -past)
            }
        };
        How { class, age_ms: Some(self.age_ms(now)), ttl_ms: Some(ttl_ms), detail }
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

    /// Bytes kept alive: the result and all renderings made so far, each with what the allocator adds.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let content = match &self.content {
            Content::Stored(body) => body.len(),
            Content::Passing(result) => result.weight_bytes(),
            Content::Near(_) => 0,
        };
        let renderings: usize = self.renderings.all().map(|body| allocated_bytes(body.len())).sum();
        let provenance = self.provenance().map_or(0, |from| allocated_bytes(from.weight_bytes()));
        let range = self.range.as_ref().map_or(0, |range| allocated_bytes(range.weight_bytes()));
        allocated_bytes(content) + renderings + provenance + range + COPY_OVERHEAD_BYTES
    }
}

/// What one body in memory costs beside its bytes: its reference count, and what the allocator rounds up to
/// (the next of four steps to the next power of two, so an eighth on average).
const fn allocated_bytes(len: usize) -> usize {
    len + len / 8 + BODY_OVERHEAD_BYTES
}

/// Plain data: whose a copy is, in short: enough to count by, not to decide by. Two principals of one tag share a share.
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

pub(crate) use rendering::render_passing;

/// Shared by everything that serves it.
pub type SharedCopy = Arc<MemoryCopy>;

mod rendering;
mod stored;
#[cfg(test)]
mod tests;
