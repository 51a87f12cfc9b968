//! Seeded dice. SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.

use hopcache_engine::ports::Dice;
use parking_lot::Mutex;

/// Dice of one seed. Each throw of any user gets the next number of the seed's sequence.
pub struct SimDice {
    state: Mutex<u64>,
}

impl SimDice {
    /// Dice of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: Mutex::new(seed) }
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.u64() % bound.max(1)
    }

    /// A number in `from..=to`.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// True `per_mille` times in a thousand. A chance of zero throws no dice.
    pub fn chance(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }

    /// An index of a list of this length.
    pub fn index(&self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }
}

impl Dice for SimDice {
    fn u64(&self) -> u64 {
        let mut state = self.state.lock();
        *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
