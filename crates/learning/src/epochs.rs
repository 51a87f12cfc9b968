//! Lives of nodes and their present epochs, by this node's own clock.
//!
//! A life counts epochs from its own start on its own monotonic clock; no clock is ever compared with another. A
//! message states how long its origin was up when it was sent (`up_ms`). When it is read, the origin has been up for
//! longer. So each node keeps the largest such lower bound, lets it run on by its own clock, and passes it on with
//! pulls. Merging is a maximum, so order and repetition do not matter, and a departed node's counts decay on every
//! node. The bound runs a little slower than the clock ([`CLOCK_SKEW_PER`]), so that it stays a lower bound if two
//! clocks differ in speed.
//!
//! Decides the present epoch of a life, which claims are plausible, and which life gives way when there are too many
//! (F14). Never decides which events are counted.

use std::collections::BTreeMap;

use hopcache_core::limits::{
    CLOCK_SKEW_PER, EPOCH_LEAD_FORGIVEN_PER, EPOCH_LEAD_MS_MAX, EPOCH_MS, EPOCHS_KEPT, LIFE_KEPT_MS,
    LIFE_QUIET_MS, LIVES_MAX, LIVES_PER_ORIGIN_MAX, MEMBERS_MAX, UPTIME_MS_MAX,
};
use hopcache_core::node::Incarnation;
use hopcache_core::time::{Millis, MonoTime};

use crate::OriginTag;

/// A life in the table of lives. A place that goes to another life gets a new generation, so that remaining slots of
/// the old life count for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LifeId {
    place: u16,
    generation: u16,
}

/// A message's claim about a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Claim {
    pub(super) origin: OriginTag,
    pub(super) life: Incarnation,
    /// The least uptime.
    pub(super) up_ms: u64,
}

impl Claim {
    /// The epoch of the origin at that uptime.
    pub(super) const fn epoch(&self) -> u32 {
        epoch_of(self.up_ms)
    }
}

/// Why a life's slots are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disbelief {
    /// It cannot have been up for that long.
    Future,
    /// There are too many lives.
    Full,
}

#[derive(Debug)]
struct Life {
    origin: OriginTag,
    life: Incarnation,
    generation: u16,
    is_taken: bool,
    up_ms: u64,
    at: MonoTime,
    /// How far claims ran ahead of the estimate, less the decrease since.
    lead_ms: u64,
    /// When it last sent something new.
    news_at: MonoTime,
    slots: usize,
}

impl Life {
    const fn up_ms(&self, now: MonoTime) -> u64 {
        let elapsed = now.since(self.at).0;
        self.up_ms.saturating_add(elapsed - elapsed.div_ceil(CLOCK_SKEW_PER))
    }
}

/// All known lives. The first one is this node's own.
#[derive(Debug)]
pub(super) struct Lives {
    lives: Vec<Life>,
    places: BTreeMap<(OriginTag, Incarnation), u16>,
    started: MonoTime,
    members: Vec<OriginTag>,
    /// Until then no unknown node's life gives way to another one's: a flood must not cost a search for each.
    full_until: MonoTime,
}

const fn epoch_of(up_ms: u64) -> u32 {
    // The greatest accepted uptime, a hundred years, has five million epochs, and so may a node's own uptime. There is
    // no bound here: with one, a life would never get older.
    (up_ms / EPOCH_MS) as u32
}

impl Lives {
    /// This node's own life.
    pub(super) const ME: LifeId = LifeId { place: 0, generation: 0 };

    pub(super) fn new(me: OriginTag, life: Incarnation, now: MonoTime) -> Self {
        Self {
            lives: vec![Life::new(&Claim { origin: me, life, up_ms: 0 }, now)],
            places: BTreeMap::from([((me, life), 0)]),
            started: now,
            members: Vec::new(),
            full_until: now,
        }
    }

    pub(super) fn set_members(&mut self, members: &[OriginTag]) {
        let members = members.iter().copied().take(MEMBERS_MAX).collect();
        if self.members != members {
            self.members = members;
            self.full_until = MonoTime::default();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, id: LifeId) -> Option<&Life> {
        self.lives.get(usize::from(id.place)).filter(|life| life.is_taken && life.generation == id.generation)
    }

    fn get_mut(&mut self, id: LifeId) -> Option<&mut Life> {
        self.lives
            .get_mut(usize::from(id.place))
            .filter(|life| life.is_taken && life.generation == id.generation)
    }

    fn up_ms(&self, id: LifeId, now: MonoTime) -> Option<u64> {
        // This node knows its own start; for the others it knows a lower bound.
        if id == Self::ME {
            Some(now.since(self.started).0)
        } else {
            self.get(id).map(|life| life.up_ms(now))
        }
    }

    /// This node's claim about a life; `None` for an uptime that no node would accept.
    pub(super) fn claim(&self, id: LifeId, now: MonoTime) -> Option<Claim> {
        let life = self.get(id)?;
        let up_ms = self.up_ms(id, now).filter(|up_ms| *up_ms <= UPTIME_MS_MAX)?;
        Some(Claim { origin: life.origin, life: life.life, up_ms })
    }

    pub(super) fn origin(&self, id: LifeId) -> Option<OriginTag> {
        self.get(id).map(|life| life.origin)
    }

    /// The present epoch of a life.
    pub(super) fn epoch(&self, id: LifeId, now: MonoTime) -> u32 {
        self.up_ms(id, now).map_or(0, epoch_of)
    }

    /// How many epochs ago `epoch` was; `None` if it no longer counts.
    pub(super) fn age(&self, id: LifeId, epoch: u32, now: MonoTime) -> Option<u32> {
        let present = epoch_of(self.up_ms(id, now)?);
        Some(present.saturating_sub(epoch)).filter(|age| *age < EPOCHS_KEPT)
    }

    /// The life of a claim, after the claim was accepted; a new one gets a place.
    pub(super) fn believe(&mut self, claim: &Claim, now: MonoTime) -> Result<LifeId, Disbelief> {
        let Some(id) = self.find(claim) else { return self.admit(claim, now) };
        if id == Self::ME {
            // Other nodes' claims about this node are lower bounds. A larger one does not come from this life.
            let is_possible = claim.up_ms <= now.since(self.started).0;
            return if is_possible { Ok(id) } else { Err(Disbelief::Future) };
        }
        let life = self.get_mut(id).ok_or(Disbelief::Full)?;
        life.advance(claim.up_ms, now).map(|()| id)
    }

    fn find(&self, claim: &Claim) -> Option<LifeId> {
        let place = *self.places.get(&(claim.origin, claim.life))?;
        let generation = self.lives.get(usize::from(place))?.generation;
        Some(LifeId { place, generation })
    }

    fn admit(&mut self, claim: &Claim, now: MonoTime) -> Result<LifeId, Disbelief> {
        let place = self.free_place(claim.origin, now).ok_or(Disbelief::Full)?;
        let generation = self.lives.get(place).map_or(0, |life| life.generation.wrapping_add(1));
        let mut life = Life::new(claim, now);
        life.generation = generation;
        match self.lives.get_mut(place) {
            Some(old) => {
                if old.is_taken {
                    self.places.remove(&(old.origin, old.life));
                }
                *old = life;
            }
            None => self.lives.push(life),
        }
        self.places.insert((claim.origin, claim.life), place as u16);
        Ok(LifeId { place: place as u16, generation })
    }

    /// The place for a new life of `origin`. If that node has too many lives, or all places are taken, one gives way
    /// that was silent for a while. A member's life takes any unknown node's place.
    fn free_place(&mut self, origin: OriginTag, now: MonoTime) -> Option<usize> {
        let is_member = self.members.contains(&origin);
        let of_origin = (origin, Incarnation(0))..=(origin, Incarnation(u64::MAX));
        if self.places.range(of_origin).count() >= LIVES_PER_ORIGIN_MAX {
            let (place, news_at) = self.quietest(|life| life.origin == origin)?;
            return (now.since(news_at).0 >= LIFE_QUIET_MS).then_some(place);
        }
        if self.places.len() < LIVES_MAX {
            let free = self.lives.iter().position(|life| !life.is_taken);
            return Some(free.unwrap_or(self.lives.len()));
        }
        if !is_member && now < self.full_until {
            return None;
        }
        let (place, news_at) = self.quietest(|life| !self.members.contains(&life.origin))?;
        if is_member || now.since(news_at).0 >= LIFE_QUIET_MS {
            return Some(place);
        }
        self.full_until = news_at + Millis(LIFE_QUIET_MS);
        None
    }

    /// Of the other nodes' lives that may go, the one without news for longest, and since when.
    fn quietest(&self, may_go: impl Fn(&Life) -> bool) -> Option<(usize, MonoTime)> {
        let others = self.lives.iter().enumerate().skip(1).filter(|(_, life)| life.is_taken && may_go(life));
        others.map(|(place, life)| (place, life.news_at)).min_by_key(|(_, news_at)| *news_at)
    }

    /// Notes news of a life.
    pub(super) fn news(&mut self, id: LifeId, now: MonoTime) {
        if let Some(life) = self.get_mut(id) {
            life.news_at = now;
        }
    }

    /// Counts a kept slot of a life.
    pub(super) fn kept(&mut self, id: LifeId) {
        if let Some(life) = self.get_mut(id) {
            life.slots += 1;
        }
    }

    /// Counts a dropped slot of a life.
    pub(super) fn dropped(&mut self, id: LifeId) {
        if let Some(life) = self.get_mut(id) {
            life.slots = life.slots.saturating_sub(1);
        }
    }

    /// Forgets the lives that have no slot left and no news for long.
    pub(super) fn sweep(&mut self, now: MonoTime) {
        let is_over =
            |life: &&mut Life| life.is_taken && life.slots == 0 && now.since(life.news_at).0 >= LIFE_KEPT_MS;
        for life in self.lives.iter_mut().skip(1).filter(is_over) {
            life.is_taken = false;
            self.places.remove(&(life.origin, life.life));
        }
    }

    /// This node's claims about every life.
    pub(super) fn claims(&self, now: MonoTime) -> impl Iterator<Item = Claim> {
        let taken = self.lives.iter().enumerate().filter(|(_, life)| life.is_taken);
        taken.filter_map(move |(place, life)| {
            self.claim(LifeId { place: place as u16, generation: life.generation }, now)
        })
    }

    /// Accepts claims about known lives, and ignores others. Slots that two nodes have alike are not sent, but their
    /// ages have to agree too.
    pub(super) fn refresh(&mut self, claims: &[Claim], now: MonoTime) {
        for claim in claims {
            let Some(id) = self.find(claim).filter(|id| *id != Self::ME) else { continue };
            if let Some(life) = self.get_mut(id) {
                // A refused claim changes nothing; its slots are counted as refused.
                let _refused = life.advance(claim.up_ms, now);
            }
        }
    }
}

impl Life {
    const fn new(claim: &Claim, now: MonoTime) -> Self {
        Self {
            origin: claim.origin,
            life: claim.life,
            generation: 0,
            is_taken: true,
            up_ms: claim.up_ms,
            at: now,
            lead_ms: 0,
            news_at: now,
            slots: 0,
        }
    }

    /// Accepts a larger lower bound, unless claims have run too far ahead of this node's clock. So one forged message
    /// moves a life's epochs by less than the kept span. A life whose uptime was overestimated is refused until its
    /// accepted slots have decayed; then it is new again.
    fn advance(&mut self, up_ms: u64, now: MonoTime) -> Result<(), Disbelief> {
        let believed = self.up_ms(now);
        if up_ms <= believed {
            return Ok(());
        }
        let elapsed = now.since(self.at).0;
        let forgiven = elapsed / EPOCH_LEAD_FORGIVEN_PER;
        let lead_ms = self.lead_ms.saturating_sub(forgiven).saturating_add(up_ms - believed);
        if lead_ms > EPOCH_LEAD_MS_MAX {
            return Err(Disbelief::Future);
        }
        (self.up_ms, self.at, self.lead_ms) = (up_ms, now, lead_ms);
        Ok(())
    }
}
