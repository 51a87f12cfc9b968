//! Numbers in as few bytes as they need. They have no alignment, so they lie beside each other in structs of which a node holds
//! one for each entry. Nothing is decided here.

/// A number of `BYTES` bytes, one to seven. A greater number is kept as the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short<const BYTES: usize>([u8; BYTES]);

impl<const BYTES: usize> Short<BYTES> {
    /// The greatest number that is kept as it is.
    pub const MAX: u64 = u64::MAX >> (64 - 8 * BYTES);

    /// This number, or the greatest.
    #[must_use]
    pub fn of(number: u64) -> Self {
        let number = number.min(Self::MAX);
        #[expect(clippy::cast_possible_truncation, reason = "each byte is taken in its turn")]
        Self(std::array::from_fn(|at| (number >> (8 * at)) as u8))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests {
    use super::Short;

    #[test]
    fn short_numbers_are_not_changed() {
        for number in [0, 1, 86_400_000, 315_360_000_000, (1 << 48) - 1] {
            assert_eq!(Short::<6>::of(number).get(), number);
        }
        assert_eq!(Short::<6>::of(1 << 48).get(), Short::<6>::MAX, "the greatest");
        assert_eq!([0, 255, 256].map(|number| Short::<1>::of(number).get()), [0, 255, 255]);
        assert_eq!([Short::<3>::of(u64::MAX).get(), Short::<5>::MAX], [(1 << 24) - 1, (1 << 40) - 1]);
    }
}
