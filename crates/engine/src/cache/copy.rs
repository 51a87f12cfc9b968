//! A memory copy of an entry, with its renderings. Hits are served from it. It is decoded from a stored entry and
//! sealed as one.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use bytes::Bytes;
use hopcache_core::bookmark::ReadRange;
use hopcache_core::key::PrincipalScope;
use hopcache_core::lease::Token;
use hopcache_core::limits::{BODY_OVERHEAD_BYTES, COPY_OVERHEAD_BYTES, LATE_MISS_MS_MAX};
use hopcache_core::refresh::Heat;
use hopcache_core::result::ResultSet;
use hopcache_core::tags::Tags;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::dependence::Dependence;
use crate::cache::copy_pace::CopyPace;
use crate::cache::provenance::Provenance;
use crate::cache::renderings::Renderings;
use crate::model::outcome::{Class, Detail, How};
use crate::model::rendering::RenderingId;

/// One result in memory. Its times are readings of this node's monotonic clock.
#[derive(Debug)]
pub struct MemoryCopy {
    content: Content,
    /// When the origin read began. Age counts from here (promise I4).
    read_started: MonoTime,
    /// End of the soft TTL.
    fresh_until: MonoTime,
    /// End of grace.
    dead_at: MonoTime,
    /// End of stale-if-error: until then the copy is kept, and served while the origin fails.
    fallback_until: MonoTime,
    /// How long the run took.
    cost_ms: Millis,
    /// The token that it was stored with; `None` if the store never took it.
    token: Option<HeldToken>,
    /// Why the store never took it, if it did not. Its hits report this.
    unstored: Detail,
    /// The tags of the entry.
    tags: Tags,
    /// The transactions between which it was read; `None` if they are unknown.
    range: Option<Arc<ReadRange>>,
    /// What of its database it depends on.
    dependence: Dependence,
    /// Its principal. The principal's share of memory counts by it.
    owner: ScopeTag,
    renderings: Renderings,
    /// Whether the last run for it failed, other than by the statement's own fault. A newer copy begins without.
    has_origin_failed: AtomicBool,
    /// When another node became owner of its key, and this copy was left for that node to fetch; zero if none did.
    left_at: AtomicU64,
    /// State of its refreshes.
    pace: CopyPace,
    /// How often requests ask for it.
    heat: Heat,
    /// What fetched it, if that follows the copy's use.
    provenance: Option<Arc<dyn Provenance>>,
}

/// The source of a copy's renderings.
#[derive(Debug)]
enum Content {
    /// The stored form ([`ResultSet::to_bytes`]) in one allocation. As a tree of names and summary, a small result
    /// takes half as much again.
    Stored(Bytes),
    /// As the origin sent it, for the waiters only and never kept: a large result is not copied for them.
    Passing(Box<ResultSet>),
    /// None: another node's rendering of one form, and how often it was served since its last report to that node.
    Near(AtomicU32),
}

/// Fresh, stale or dead, and by how much (DESIGN section 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Before the soft TTL, with the rest of it.
    Fresh(Millis),
    /// Past the soft TTL by this span, within grace.
    Stale(Millis),
    /// After grace.
    Dead,
}

/// Plain data: times of a new copy.
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

    /// A copy of a result that goes to the waiters and is then forgotten.
    #[must_use]
    pub fn passing(result: ResultSet, times: CopyTimes, tags: Tags) -> Self {
        let range = result.range.clone().map(Arc::new);
        Self { range, ..Self::of(Content::Passing(Box::new(result)), times, None, tags) }
    }

    /// A near copy: the owner's answer in one form, for the given times. `Cache::look` hides it, so it never serves as
    /// an owner's copy.
    pub(crate) fn near(body: &[u8], id: RenderingId, times: CopyTimes, tags: Tags) -> Self {
        let copy = Self::of(Content::Near(AtomicU32::new(0)), times, None, tags);
        // Bytes of its own: a slice would keep the whole message alive.
        copy.renderings.keep(id, Bytes::copy_from_slice(body));
        copy
    }

    /// How often a near copy was served since its last report to the owner; `None` for any other copy.
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
            token: token.and_then(HeldToken::of),
            unstored: Detail::Degraded,
            tags,
            range: None,
            dependence: Dependence::default(),
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
        let (owner, dependence) = (self.owner, self.dependence.clone());
        Self { owner, provenance, range, dependence, ..Self::of(content, times, None, self.tags.clone()) }
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

    /// The same copy, as this principal's.
    #[must_use]
    pub fn of_principal(self, scope: PrincipalScope) -> Self {
        Self { owner: ScopeTag::of(scope), ..self }
    }

    /// The same copy, read between these transactions.
    #[must_use]
    pub(crate) fn of_range(self, range: Option<Arc<ReadRange>>) -> Self {
        Self { range, ..self }
    }

    /// The same copy, which the store did not take for this reason.
    #[must_use]
    pub fn unstored(self, why: Detail) -> Self {
        Self { unstored: why, ..self }
    }

    /// The same copy, counted from now on.
    #[must_use]
    pub fn with_heat(self, heat: Heat) -> Self {
        Self { heat, ..self }
    }

    /// The same copy, fetched by this.
    #[must_use]
    pub(crate) fn with_provenance(self, provenance: Option<Arc<dyn Provenance>>) -> Self {
        Self { provenance, ..self }
    }

    /// What fetched it, if that follows the copy's use.
    pub(crate) fn provenance(&self) -> Option<&dyn Provenance> {
        self.provenance.as_deref()
    }

    /// Notes that the copy answers a client's request, or that a new owner gets it for one.
    pub(crate) fn serves_demand(&self) {
        if let Some(provenance) = &self.provenance {
            provenance.used();
        }
    }

    /// State of its refreshes.
    pub(crate) fn pace(&self) -> &CopyPace {
        &self.pace
    }

    /// When the origin read began.
    #[must_use]
    pub fn read_started(&self) -> MonoTime {
        self.read_started
    }

    /// When the origin read began, or when it was last proved. Age counts from here (I4): a proved value is as good as one that
    /// is read now. A near copy keeps to what its owner permitted: no proof makes its life longer.
    #[must_use]
    pub fn valid_since(&self) -> MonoTime {
        match &self.content {
            Content::Near(_) => self.read_started,
            Content::Stored(_) | Content::Passing(_) => self.read_started.max(self.dependence.proved_at()),
        }
    }

    fn revalidated_ms(&self) -> Millis {
        self.valid_since().since(self.read_started)
    }

    /// End of the soft TTL.
    #[must_use]
    pub fn fresh_until(&self) -> MonoTime {
        self.fresh_until + self.revalidated_ms()
    }

    /// Whether its soft TTL is over, by the time of its read alone.
    pub(crate) fn is_past_ttl(&self, now: MonoTime) -> bool {
        now >= self.fresh_until
    }

    /// End of grace.
    #[must_use]
    pub fn dead_at(&self) -> MonoTime {
        self.dead_at + self.revalidated_ms()
    }

    /// End of stale-if-error.
    #[must_use]
    pub fn fallback_until(&self) -> MonoTime {
        self.fallback_until + self.revalidated_ms()
    }

    /// How long the run took.
    #[must_use]
    pub fn cost_ms(&self) -> Millis {
        self.cost_ms
    }

    /// The token that it was stored with; `None` if the store never took it.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.token.map(HeldToken::token)
    }

    /// Why the store never took it; `None` if it did.
    #[must_use]
    pub fn why_unstored(&self) -> Option<Detail> {
        self.token.is_none().then_some(self.unstored)
    }

    /// The tags of the entry.
    #[must_use]
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// The transactions between which it was read; `None` if they are unknown.
    #[must_use]
    pub fn range(&self) -> Option<&Arc<ReadRange>> {
        self.range.as_ref()
    }

    /// How often requests ask for it.
    #[must_use]
    pub fn heat(&self) -> &Heat {
        &self.heat
    }

    /// The same copy, with the token that it was stored with.
    #[must_use]
    pub(crate) fn with_token(self, token: Option<Token>) -> Self {
        Self { token: token.and_then(HeldToken::of), ..self }
    }

    /// Its soft TTL, jitter included.
    #[must_use]
    pub fn ttl_ms(&self) -> Millis {
        self.fresh_until.since(self.read_started)
    }

    /// The tag of its principal.
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
            // A near copy has none, and these bytes decode to no result.
            Content::Near(_) => Bytes::new(),
        }
    }

    /// Its state at `now`.
    #[must_use]
    pub fn life(&self, now: MonoTime) -> Life {
        let (fresh_until, dead_at) = (self.fresh_until(), self.dead_at());
        if now < fresh_until {
            Life::Fresh(fresh_until.since(now))
        } else if now < dead_at {
            Life::Stale(now.since(fresh_until))
        } else {
            Life::Dead
        }
    }

    /// Whether stale-if-error has not ended for it.
    #[must_use]
    pub fn is_kept_as_fallback(&self, now: MonoTime) -> bool {
        now < self.fallback_until()
    }

    /// A run that replaces it before this time shows that its refresh is late. A later one shows that it was not worth
    /// a refresh.
    #[must_use]
    pub fn late_until(&self) -> MonoTime {
        self.fresh_until() + Millis((self.ttl_ms().0 / 2).min(LATE_MISS_MS_MAX))
    }

    /// Until when memory keeps it. After its end it only shows that nobody was served a stale copy.
    #[must_use]
    pub fn kept_until(&self) -> MonoTime {
        let fallback_until = self.fallback_until();
        if self.token.is_some() { fallback_until.max(self.late_until()) } else { fallback_until }
    }

    /// The last run for it failed by an outage: its answers say so from now on.
    pub fn origin_failed(&self) {
        self.has_origin_failed.store(true, Ordering::Relaxed);
    }

    /// Whether the last run for it failed by an outage.
    #[must_use]
    pub fn has_origin_failed(&self) -> bool {
        self.has_origin_failed.load(Ordering::Relaxed)
    }

    /// Marks that another node owns its key since `now`. Returns whether this is new.
    pub(crate) fn leave(&self, now: MonoTime) -> bool {
        // At least 1, because zero means unmarked and a clock may begin at zero.
        let at = now.0.max(1);
        self.left_at.compare_exchange(0, at, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Since when another node has owned its key, if one has. Then it is no answer of this node any more.
    pub(crate) fn left_at(&self) -> Option<MonoTime> {
        let at = self.left_at.load(Ordering::Relaxed);
        (at != 0).then_some(MonoTime(at))
    }

    /// Time since the origin read began, or since it was last proved.
    #[must_use]
    pub fn age_ms(&self, now: MonoTime) -> Millis {
        now.since(self.valid_since())
    }

    /// The description of an answer that is made from it at `now`.
    #[must_use]
    pub fn how(&self, class: Class, detail: Option<Detail>, now: MonoTime) -> How {
        let is_stale = matches!(detail, Some(Detail::Stale | Detail::StaleIfError));
        let ttl_ms = match self.life(now) {
            // A write has ended it before its time. How long ago is not known.
            Life::Fresh(_) if is_stale => -1,
            Life::Fresh(left) => i64::try_from(left.0).unwrap_or(i64::MAX),
            Life::Stale(_) | Life::Dead => {
                // Negative in the first millisecond too: 0 would mean fresh.
                i64::try_from(now.since(self.fresh_until()).0.max(1)).map_or(i64::MIN, |past| -past)
            }
        };
        How { class, age_ms: Some(self.age_ms(now)), ttl_ms: Some(ttl_ms), detail, is_proved: false }
    }

    /// Whether a refresh may be tried now.
    #[must_use]
    pub fn is_refresh_due(&self, now: MonoTime) -> bool {
        self.pace.is_due(now)
    }

    /// Begins no refresh before `until`: the last one failed, or is under way.
    pub fn put_off_refresh(&self, until: MonoTime) {
        self.pace.put_off(until, self.fresh_until());
    }

    /// Bytes kept alive: the result and all renderings made so far, with the allocator's overhead.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let content = match &self.content {
            Content::Stored(body) => body.len(),
            Content::Passing(result) => result.weight_bytes(),
            Content::Near(_) => 0,
        };
        let renderings = self.renderings.weight_bytes(allocated_bytes);
        let provenance = self.provenance().map_or(0, |from| allocated_bytes(from.weight_bytes()));
        let range = self.range.as_ref().map_or(0, |range| allocated_bytes(range.weight_bytes()));
        let dependence = self.dependence.weight_bytes().map_or(0, allocated_bytes);
        allocated_bytes(content) + renderings + provenance + range + dependence + COPY_OVERHEAD_BYTES
    }
}

/// The memory that one body costs beyond its bytes: its reference count and the allocator's rounding (up to the next of
/// four steps between powers of two, so an eighth on average).
const fn allocated_bytes(len: usize) -> usize {
    len + len / 8 + BODY_OVERHEAD_BYTES
}

/// Plain data: a short tag of a copy's principal, good for counting, not for access. Two principals with one tag share
/// a share.
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

/// Plain data: a token in half of the room that it takes with the alignment of a `u128`. The store's tokens begin at 1.
#[derive(Debug, Clone, Copy)]
struct HeldToken {
    counter: NonZeroU64,
    nonce: [u8; 16],
}

impl HeldToken {
    fn of(token: Token) -> Option<Self> {
        Some(Self { counter: NonZeroU64::new(token.counter)?, nonce: token.nonce.to_le_bytes() })
    }

    fn token(self) -> Token {
        Token { counter: self.counter.get(), nonce: u128::from_le_bytes(self.nonce) }
    }
}

/// Bytes without a vector's spare room, which would stay as long as the copy.
fn exact(bytes: Vec<u8>) -> Bytes {
    bytes.into_boxed_slice().into()
}

pub(crate) use rendering::render_passing;

/// A copy shared by its readers.
pub type SharedCopy = Arc<MemoryCopy>;

mod dependence;
mod judged;
mod rendering;
mod stored;
#[cfg(test)]
mod tests;
