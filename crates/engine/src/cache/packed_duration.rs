//! Spans in half of their room, for what a node holds once for each entry. Nothing is decided here.

use hopcache_core::limits::ENTRY_LIFE_MS_MAX;
use hopcache_core::time::Millis;

/// Plain data: a span in 32 bits, in the order of spans. Below 24 days it is kept to the millisecond, longer ones in steps of
/// 256 ms: up to 17 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PackedDuration(pub(crate) u32);

/// Spans below this are kept to the millisecond.
pub(crate) const EXACT_MS: u64 = 1 << 31;
/// Steps of longer ones.
pub(crate) const STEP_MS: u64 = 256;
const _: () = assert!(ENTRY_LIFE_MS_MAX < EXACT_MS * STEP_MS);

impl PackedDuration {
    /// This span or the next shorter one.
    pub(crate) fn down(Millis(ms): Millis) -> Self {
        Self::of(if ms < EXACT_MS { ms } else { EXACT_MS + (ms - EXACT_MS) / STEP_MS })
    }

    /// This span or the next longer one.
    pub(crate) fn up(Millis(ms): Millis) -> Self {
        Self::of(if ms < EXACT_MS { ms } else { EXACT_MS + (ms - EXACT_MS).div_ceil(STEP_MS) })
    }

    fn of(steps: u64) -> Self {
        Self(u32::try_from(steps).unwrap_or(u32::MAX))
    }

    pub(crate) fn span(self) -> Millis {
        let steps = u64::from(self.0);
        Millis(if steps < EXACT_MS { steps } else { EXACT_MS + (steps - EXACT_MS) * STEP_MS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_the_order_of_spans() {
        for ms in [0, 1, EXACT_MS - 1, EXACT_MS, EXACT_MS + 1, EXACT_MS + STEP_MS, ENTRY_LIFE_MS_MAX] {
            let (down, up) = (PackedDuration::down(Millis(ms)), PackedDuration::up(Millis(ms)));
            assert!(down <= up && down.span().0 <= ms && ms <= up.span().0, "{down:?}, {up:?} for {ms}");
            assert!(up.span().0 - down.span().0 <= STEP_MS && PackedDuration::down(down.span()) == down);
        }
    }
}
