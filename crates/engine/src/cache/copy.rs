//! A memory copy of an entry, with its renderings. Hits are served from it. It is decoded from a stored entry and
//! sealed as one.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use bytes::Bytes;
use hopcache_core::bookmark::ReadRange;
use hopcache_core::key::PrincipalScope;
use hopcache_core::lease::Token;
use hopcache_core::limits::{BODY_OVERHEAD_BYTES, COPY_OVERHEAD_BYTES, LATE_MISS_MS_MAX};
use hopcache_core::refresh::{CostHistory, Heat};
use hopcache_core::result::ResultSet;
use hopcache_core::tags::Tags;
use hopcache_core::time::{Millis, MonoTime};

use crate::cache::copy::compact::{CopyFlag, CopyFlags, HeldSpans, HeldTime, StoreToken};
use crate::cache::copy::content::{Content, exact, rounded_bytes};
use crate::cache::copy::dependence::{Dependence, ProofAge};
use crate::cache::provenance::Provenance;
use crate::cache::refresh_schedule::RefreshSchedule;
use crate::cache::renderings::Renderings;
use crate::model::outcome::{Class, Detail, How};
use crate::model::rendering::RenderingId;

/// One result in memory. Its times are readings of this node's monotonic clock.
#[derive(Debug)]
pub struct MemoryCopy {
    content: Content,
    read_started: HeldTime,
    spans: HeldSpans,
    stored: StoreToken,
    /// The tags of the entry.
    tags: Tags,
    /// The transactions between which it was read; `None` if they are unknown.
    range: Option<Arc<ReadRange>>,
    /// What of its database it depends on.
    dependence: Dependence,
    proved: ProofAge,
    /// Its principal. The principal's share of memory counts by it.
    owner: ScopeTag,
    renderings: Renderings,
    flags: CopyFlags,
    /// State of its refreshes, and of its handover.
    schedule: RefreshSchedule,
    /// How often requests ask for it.
    heat: Heat,
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
        Self { range, ..Self::of(Content::stored(result.to_bytes()), times, token, tags) }
    }

    /// A copy of a result that goes to the waiters and is then forgotten.
    #[must_use]
    pub fn passing(result: ResultSet, times: CopyTimes, tags: Tags) -> Self {
        let range = result.range.clone().map(Arc::new);
        Self { range, ..Self::of(Content::passing(result), times, None, tags) }
    }

    /// A near copy: the owner's answer in one form, for the given times. `Cache::look` hides it, so it never serves as
    /// an owner's copy.
    pub(crate) fn near(body: &[u8], id: RenderingId, times: CopyTimes, tags: Tags) -> Self {
        let copy = Self::of(Content::near(), times, None, tags);
        // Bytes of its own: a slice would keep the whole message alive.
        copy.renderings.keep(id, Bytes::copy_from_slice(body));
        copy
    }

    /// How often a near copy was served since its last report to the owner; `None` for any other copy.
    pub(crate) fn near_hits(&self) -> Option<&AtomicU32> {
        self.content.near_hits()
    }

    fn of(content: Content, times: CopyTimes, token: Option<Token>, tags: Tags) -> Self {
        Self {
            content,
            read_started: HeldTime::of(times.read_started),
            spans: HeldSpans::of(times),
            stored: StoreToken::with(token),
            tags,
            range: None,
            dependence: Dependence::default(),
            proved: ProofAge::default(),
            owner: ScopeTag::default(),
            renderings: Renderings::default(),
            flags: CopyFlags::default(),
            schedule: RefreshSchedule::default(),
            heat: Heat::new(times.read_started, None),
        }
    }

    /// The same content with other times and no token.
    #[must_use]
    pub fn with_times(&self, times: CopyTimes) -> Self {
        let range = self.range.clone();
        let copy = Self { range, ..Self::of(self.content.again(), times, None, self.tags.clone()) };
        if let Some(cost) = self.schedule.first_cost() {
            copy.schedule.set_first_cost(&cost);
        }
        if self.proved.is() {
            copy.proved.note(self.proved_at().since(times.read_started));
        }
        Self { owner: self.owner, dependence: self.dependence.clone(), ..copy }
    }

    /// Its times, as spans from the start of the read.
    #[must_use]
    pub fn times(&self) -> CopyTimes {
        self.spans.from(self.read_started())
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
        let stored = if self.stored.is() { self.stored } else { StoreToken::Not(why) };
        Self { stored, ..self }
    }

    /// The same copy, counted from now on.
    #[must_use]
    pub fn with_heat(self, heat: Heat) -> Self {
        Self { heat, ..self }
    }

    /// The same copy, of a key whose runs cost this.
    #[must_use]
    pub(crate) fn with_first_cost(self, cost: &CostHistory) -> Self {
        self.schedule.set_first_cost(cost);
        self
    }

    /// The same copy, fetched by this.
    #[must_use]
    pub(crate) fn with_provenance(self, provenance: Option<Arc<dyn Provenance>>) -> Self {
        Self { content: self.content.fetched_by(provenance), ..self }
    }

    /// What fetched it, if that follows the copy's use.
    pub(crate) fn provenance(&self) -> Option<&dyn Provenance> {
        self.content.provenance().map(|provenance| &**provenance)
    }

    /// Notes that the copy answers a client's request, or that a new owner gets it for one.
    pub(crate) fn serves_demand(&self) {
        if let Some(provenance) = self.provenance() {
            provenance.used();
        }
    }

    /// State of its refreshes.
    pub(crate) fn schedule(&self) -> &RefreshSchedule {
        &self.schedule
    }

    /// When the origin read began.
    #[must_use]
    pub fn read_started(&self) -> MonoTime {
        self.read_started.time()
    }

    /// When it was last proved, rounded down; when it was read if it never was.
    fn proved_at(&self) -> MonoTime {
        self.read_started() + self.proved.after()
    }

    /// When the origin read began, or when it was last proved. Age counts from here (I4): a proved value is as good as one that
    /// is read now. A near copy keeps to what its owner permitted: no proof makes its life longer.
    #[must_use]
    pub fn valid_since(&self) -> MonoTime {
        if self.content.near_hits().is_some() {
            return self.read_started();
        }
        self.proved_at()
    }

    /// End of the soft TTL.
    #[must_use]
    pub fn fresh_until(&self) -> MonoTime {
        self.valid_since() + self.spans.soft_ms()
    }

    /// Whether its soft TTL is over, by the time of its read alone.
    pub(crate) fn is_past_ttl(&self, now: MonoTime) -> bool {
        now >= self.read_started() + self.spans.soft_ms()
    }

    /// End of grace.
    #[must_use]
    pub fn dead_at(&self) -> MonoTime {
        self.valid_since() + self.spans.physical_ms()
    }

    /// End of stale-if-error.
    #[must_use]
    pub fn fallback_until(&self) -> MonoTime {
        self.valid_since() + self.spans.total_ms()
    }

    /// How long the run took.
    #[must_use]
    pub fn cost_ms(&self) -> Millis {
        self.times().cost_ms
    }

    /// The token that it was stored with; `None` if the store never took it.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.stored.token()
    }

    /// Why the store never took it; `None` if it did.
    #[must_use]
    pub fn why_unstored(&self) -> Option<Detail> {
        match self.stored {
            StoreToken::With(_) => None,
            StoreToken::Not(why) => Some(why),
        }
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
        Self { stored: StoreToken::with(token), ..self }
    }

    /// Its soft TTL, jitter included.
    #[must_use]
    pub fn ttl_ms(&self) -> Millis {
        self.spans.soft_ms()
    }

    /// The tag of its principal.
    #[must_use]
    pub fn owner(&self) -> ScopeTag {
        self.owner
    }

    /// The stored form.
    #[must_use]
    pub fn stored_form(&self) -> Bytes {
        match self.content.as_passing() {
            Some(result) => exact(result.to_bytes()),
            // A near copy has none, and no bytes decode to no result.
            None => self.content.stored_form().unwrap_or_default(),
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
        if self.stored.is() { fallback_until.max(self.late_until()) } else { fallback_until }
    }

    /// The last run for it failed, and not with the client's answer: its answers say so from now on.
    pub fn origin_failed(&self) {
        self.flags.is_first(CopyFlag::OriginFailed);
    }

    /// Whether the last run for it failed, and not with the client's answer.
    #[must_use]
    pub fn has_origin_failed(&self) -> bool {
        self.flags.has(CopyFlag::OriginFailed)
    }

    /// Whether this is the first time that a hit finds it stale.
    pub(crate) fn is_first_late(&self) -> bool {
        self.flags.is_first(CopyFlag::Late)
    }

    /// Marks that another node owns its key since `now`. Returns whether this is new.
    pub(crate) fn leave(&self, now: MonoTime) -> bool {
        self.schedule.leave(now.since(self.read_started()))
    }

    /// Since when another node has owned its key, if one has. Then it is no answer of this node any more.
    pub(crate) fn left_at(&self) -> Option<MonoTime> {
        self.schedule.left().map(|after| self.read_started() + after)
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
        self.schedule.is_due(now.since(self.read_started()))
    }

    /// Begins no refresh before `until`: the last one failed, or is under way.
    pub fn put_off_refresh(&self, until: MonoTime) {
        self.schedule.put_off(until.since(self.read_started()), self.fresh_until().since(until));
    }

    /// Bytes kept alive: the result and all renderings made so far, with the allocator's overhead. What it shares with other copies
    /// counts for none of them.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        let content = self.content.weight_bytes(rounded_bytes, allocated_bytes);
        let renderings = self.renderings.weight_bytes(allocated_bytes);
        let provenance = self.provenance().map_or(0, |from| allocated_bytes(from.weight_bytes()));
        // Held by the copy and by the cache's table, and by no other copy.
        let own_range = self.range.as_ref().filter(|range| Arc::strong_count(range) <= 2);
        let range = own_range.map_or(0, |range| allocated_bytes(range.weight_bytes()));
        content + renderings + provenance + range + COPY_OVERHEAD_BYTES
    }
}

/// The memory of one body: that of its allocation, and its reference count.
const fn allocated_bytes(len: usize) -> usize {
    rounded_bytes(len) + BODY_OVERHEAD_BYTES
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

pub(crate) use judged::is_ended_by;
pub(crate) use rendering::render_passing;

/// A copy shared by its readers. Nobody holds it weakly, so it has one count.
pub type SharedCopy = triomphe::Arc<MemoryCopy>;

mod compact;
mod content;
mod dependence;
mod judged;
mod rendering;
mod stored;
#[cfg(test)]
mod tests;
