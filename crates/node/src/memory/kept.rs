//! A copy and what memory knows of it, in as few bytes as they need: memory holds one for each entry. It decides nothing.

use hopcache_core::time::MonoTime;
use hopcache_engine::copy::SharedCopy;

use super::principal_shares::Serial;

/// A copy in memory.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) copy: SharedCopy,
    /// Its weight when it was last counted. Renderings that were made or dropped since then count when it is weighed again.
    pub(super) bytes: u32,
    /// Milliseconds on the memory's clock, rounded down: memory keeps no copy past its end.
    ends_at: Short,
    serial: Short,
}

const _: () = assert!(size_of::<Kept>() == 24);

/// A number in six bytes, which have no alignment. As milliseconds 8,900 years; as serials, three million a second for three years.
#[derive(Clone, Copy)]
struct Short([u8; 6]);

impl Short {
    fn of(number: u64) -> Self {
        let [a, b, c, d, e, f, ..] = number.min((1 << 48) - 1).to_le_bytes();
        Self([a, b, c, d, e, f])
    }

    fn get(self) -> u64 {
        let Self([a, b, c, d, e, f]) = self;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

impl Kept {
    pub(super) fn new(copy: SharedCopy, ends_at: MonoTime, bytes: u32, serial: Serial) -> Self {
        Self { copy, bytes, ends_at: Short::of(ends_at.0 / 1_000), serial: Short::of(serial.get()) }
    }

    /// When its life is over, on the memory's clock.
    pub(super) fn ends_at(&self) -> MonoTime {
        MonoTime(self.ends_at.get() * 1_000)
    }

    pub(super) fn serial(&self) -> Serial {
        Serial::new(self.serial.get())
    }
}

#[cfg(test)]
mod tests {
    use super::Short;

    #[test]
    fn short_numbers_are_not_changed() {
        for number in [0, 1, 86_400_000, 315_360_000_000, (1 << 48) - 1] {
            assert_eq!(Short::of(number).get(), number);
        }
        assert_eq!(Short::of(u64::MAX).get(), (1 << 48) - 1, "ten years are far below");
    }
}
