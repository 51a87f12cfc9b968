//! Counts and their sums: slots of absolute counts, rows of slots.
//!
//! Decides how two counts of one slot merge (the larger one stands, since both are absolute) and how much a slot is
//! worth at its age. Never decides which slots are kept.

use hopcache_core::limits::SLOT_COUNT_MAX;
use hopcache_core::time::MonoTime;

use crate::FormId;
use crate::epochs::{LifeId, Lives};

/// The counts of one life of one node, for a source and form in one epoch. They are absolute, so a message that arrives
/// twice, late or not at all changes nothing in the end (THEORY: never gossip increments).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Tally {
    /// How often the form followed the source; in the row of `FormId::ANY`, how often the source was seen.
    pub seen: u32,
    /// How many prefetches of it were launched and have ended.
    pub launched: u32,
    /// How many of those were used, late ones included.
    pub used: u32,
}

impl Tally {
    /// The larger one of each count: both are absolute counts of one slot, so the larger one is the later one.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            seen: self.seen.max(other.seen),
            launched: self.launched.max(other.launched),
            used: self.used.max(other.used),
        }
    }

    /// Whether a node can have counted that much in one epoch.
    #[must_use]
    pub const fn is_possible(self) -> bool {
        self.seen <= SLOT_COUNT_MAX && self.launched <= SLOT_COUNT_MAX && self.used <= SLOT_COUNT_MAX
    }

    /// Counts one more event, unless the counts would become impossible.
    pub(super) fn add(&mut self, event: Event) {
        let count = match event {
            Event::Seen => &mut self.seen,
            Event::Launched => &mut self.launched,
            Event::Used => &mut self.used,
        };
        *count = count.saturating_add(1).min(SLOT_COUNT_MAX);
    }
}

/// A counted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    Seen,
    Launched,
    Used,
}

/// Tallies of several nodes and epochs, each halved with every epoch of its age.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DecayedTally {
    /// See [`Tally::seen`].
    pub seen: f64,
    /// See [`Tally::launched`].
    pub launched: f64,
    /// See [`Tally::used`].
    pub used: f64,
}

impl DecayedTally {
    /// Adds `tally` as it counts at `age` epochs: each epoch halves it.
    pub(super) fn add(&mut self, tally: Tally, age: u32) {
        let weight = weight(age);
        self.seen += weight * f64::from(tally.seen);
        self.launched += weight * f64::from(tally.launched);
        self.used += weight * f64::from(tally.used);
    }

    /// Adds another sum.
    pub(super) fn join(&mut self, other: Self) {
        self.seen += other.seen;
        self.launched += other.launched;
        self.used += other.used;
    }
}

/// 2^−age.
pub(super) fn weight(age: u32) -> f64 {
    // Exactly, and without a call of the mathematical library for each slot.
    f64::from_bits((1_023 - u64::from(age.min(1_022))) << 52)
}

/// A slot without the source and form of its row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) life: LifeId,
    pub(super) epoch: u32,
    pub(super) tally: Tally,
    /// Whether it was counted by this node and has not been sent yet.
    pub(super) untold: bool,
}

impl Slot {
    pub(super) fn new(life: LifeId, epoch: u32, tally: Tally) -> Self {
        Self { life, epoch, tally, untold: false }
    }
}

/// All slots of one source and form.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) form: FormId,
    /// Its weight when a row has to give way: sightings so far, each weighed by its time (`Table::amount`), plus the
    /// weight of the row that it replaced.
    pub(super) rank: f64,
    /// The probability that was last sent.
    pub(super) told_p: f32,
    /// Whether this node itself has counted in it.
    pub(super) is_own: bool,
    pub(super) slots: Vec<Slot>,
}

impl Row {
    pub(super) const fn new(form: FormId) -> Self {
        Self { form, rank: 0.0, told_p: 0.0, is_own: false, slots: Vec::new() }
    }

    pub(super) fn slot_mut(&mut self, life: LifeId, epoch: u32) -> Option<&mut Slot> {
        self.slots.iter_mut().find(|slot| slot.life == life && slot.epoch == epoch)
    }

    pub(super) fn has_untold(&self) -> bool {
        self.slots.iter().any(|slot| slot.untold)
    }

    /// The slots that still count, with their ages.
    pub(super) fn live<'a>(
        &'a self,
        lives: &'a Lives,
        now: MonoTime,
    ) -> impl Iterator<Item = (&'a Slot, u32)> {
        self.slots.iter().filter_map(move |slot| Some((slot, lives.age(slot.life, slot.epoch, now)?)))
    }

    /// The present value of the row.
    pub(super) fn value(&self, lives: &Lives, now: MonoTime) -> DecayedTally {
        let mut value = DecayedTally::default();
        for (slot, age) in self.live(lives, now) {
            value.add(slot.tally, age);
        }
        value
    }
}
