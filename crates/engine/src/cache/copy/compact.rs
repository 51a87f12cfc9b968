//! Parts of a copy in as few bytes as they need. A node holds a struct of them for each entry, so that a byte here is a
//! megabyte for a million entries. Nothing is decided here.

use std::num::NonZeroU8;
use std::sync::atomic::{AtomicU8, Ordering};

use hopcache_core::lease::Token;
use hopcache_core::limits::{CLOCK_START_US, ENTRY_LIFE_MS_MAX};
use hopcache_core::short::Short;
use hopcache_core::time::{Millis, MonoTime};

use super::CopyTimes;
use crate::cache::packed_duration::PackedDuration;
use crate::model::outcome::Detail;

/// A time of a node's clock in steps of 4 µs, rounded down: 35 years, of which a node has 15 before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldTime(Short<6>);

const TIME_STEP_US: u64 = 4;
const _: () = assert!(CLOCK_START_US + ENTRY_LIFE_MS_MAX * 1_000 < Short::<6>::MAX * TIME_STEP_US);

impl HeldTime {
    pub(super) fn of(time: MonoTime) -> Self {
        Self(Short::of(time.0 / TIME_STEP_US))
    }

    pub(super) fn time(self) -> MonoTime {
        MonoTime(self.0.get() * TIME_STEP_US)
    }
}

/// Plain data: the times of a copy, as spans from the start of its read, rounded down. Bytes without an alignment, so that they lie
/// beside each other.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldSpans {
    soft: HeldSpan,
    physical: HeldSpan,
    total: HeldSpan,
    cost: HeldCost,
}

#[derive(Debug, Clone, Copy)]
struct HeldSpan([u8; 4]);

impl HeldSpan {
    fn of(span: Millis) -> Self {
        Self(PackedDuration::down(span).0.to_le_bytes())
    }

    fn span(self) -> Millis {
        PackedDuration(u32::from_le_bytes(self.0)).span()
    }
}

/// The time that a run took: the first 12 bits of its number, and by how many bits they are shifted. Exact below 4 s, above by less
/// than a two-thousandth too short; at most 37 hours.
#[derive(Debug, Clone, Copy)]
struct HeldCost([u8; 2]);

const COST_BITS: u32 = 12;

impl HeldCost {
    fn of(Millis(ms): Millis) -> Self {
        let ms = u32::try_from(ms).unwrap_or(u32::MAX).min(((1 << COST_BITS) - 1) << 15);
        let shift = (u32::BITS - ms.leading_zeros()).saturating_sub(COST_BITS);
        let bits = shift << COST_BITS | ms >> shift;
        Self(u16::try_from(bits).unwrap_or(u16::MAX).to_le_bytes())
    }

    fn ms(self) -> Millis {
        let bits = u64::from(u16::from_le_bytes(self.0));
        Millis((bits & ((1 << COST_BITS) - 1)) << (bits >> COST_BITS))
    }
}

impl HeldSpans {
    pub(super) fn of(times: CopyTimes) -> Self {
        Self {
            soft: HeldSpan::of(times.soft_ms),
            physical: HeldSpan::of(times.physical_ms),
            total: HeldSpan::of(times.total_ms.max(times.physical_ms)),
            cost: HeldCost::of(times.cost_ms),
        }
    }

    pub(super) fn from(self, read_started: MonoTime) -> CopyTimes {
        CopyTimes {
            read_started,
            soft_ms: self.soft_ms(),
            physical_ms: self.physical_ms(),
            total_ms: self.total_ms(),
            cost_ms: self.cost.ms(),
        }
    }

    pub(super) fn soft_ms(self) -> Millis {
        self.soft.span()
    }

    pub(super) fn physical_ms(self) -> Millis {
        self.physical.span()
    }

    pub(super) fn total_ms(self) -> Millis {
        self.total.span()
    }
}

/// Plain data: the token that a copy was stored with, or why the store never took it. Its hits report this.
#[derive(Debug, Clone, Copy)]
pub(super) enum StoreToken {
    With(HeldToken),
    Not(Detail),
}

impl StoreToken {
    pub(super) fn with(token: Option<Token>) -> Self {
        token.and_then(HeldToken::of).map_or(Self::Not(Detail::Degraded), Self::With)
    }

    pub(super) fn token(self) -> Option<Token> {
        match self {
            Self::With(token) => Some(token.token()),
            Self::Not(_) => None,
        }
    }

    pub(super) fn is(self) -> bool {
        matches!(self, Self::With(_))
    }
}

/// Plain data: a token in bytes without an alignment. The counter is the store's clock in microseconds, or a little more: it has 55
/// bits, for a thousand years from now.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldToken {
    /// The counter's highest bits, with the top bit set: so the reason of a copy without a token needs no byte of its own.
    first: NonZeroU8,
    rest: Short<6>,
    nonce: [u8; 16],
}

const HAS_TOKEN: u8 = 1 << 7;

impl HeldToken {
    fn of(token: Token) -> Option<Self> {
        let first = u8::try_from(token.counter >> 48).ok().filter(|first| first & HAS_TOKEN == 0)?;
        Some(Self {
            first: NonZeroU8::new(first | HAS_TOKEN)?,
            rest: Short::of(token.counter & Short::<6>::MAX),
            nonce: token.nonce.to_le_bytes(),
        })
    }

    fn token(self) -> Token {
        let first = u64::from(self.first.get() & !HAS_TOKEN);
        Token { counter: first << 48 | self.rest.get(), nonce: u128::from_le_bytes(self.nonce) }
    }
}

/// What has happened to a copy. Each happens once.
#[derive(Debug, Default)]
pub(super) struct CopyFlags(AtomicU8);

/// One of the [`CopyFlags`].
#[derive(Debug, Clone, Copy)]
pub(super) enum CopyFlag {
    /// The last run for it failed, other than by the statement's own fault. A newer copy begins without.
    OriginFailed = 1,
    /// It was served past its TTL because it is proved.
    Revalidated = 2,
    /// A hit has found it stale.
    Late = 4,
}

impl CopyFlags {
    pub(super) fn has(&self, flag: CopyFlag) -> bool {
        self.0.load(Ordering::Relaxed) & flag as u8 != 0
    }

    /// Sets a mark. Returns whether it is new. A mark that is set costs a load, so that hits on several cores share the line.
    pub(super) fn is_first(&self, flag: CopyFlag) -> bool {
        !self.has(flag) && self.0.fetch_or(flag as u8, Ordering::Relaxed) & flag as u8 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_exact_below_four_seconds_and_hardly_too_short_above() {
        for ms in (0..4_096).chain([4_097, 60_001, 3_600_000, 4_095 << 15]) {
            let held = HeldCost::of(Millis(ms)).ms().0;
            assert!(held <= ms && ms - held <= ms / 2_048, "{held} for {ms}");
            assert_eq!(HeldCost::of(Millis(held)).ms().0, held, "it does not shrink from copy to copy");
        }
        assert_eq!(HeldCost::of(Millis(u64::MAX)).ms().0, 4_095 << 15);
    }

    /// I4: a copy never seems younger than it is.
    #[test]
    fn a_node_of_fifteen_years_holds_its_times() {
        for us in [0, CLOCK_START_US, CLOCK_START_US + 7, CLOCK_START_US + 15 * 365 * 86_400 * 1_000_000] {
            let held = HeldTime::of(MonoTime(us)).time().0;
            assert!(held <= us && us - held < TIME_STEP_US, "{held} for {us}");
        }
    }

    /// Redis counts in microseconds since 1970, so that its tokens have 51 bits today.
    #[test]
    fn a_token_is_held_whole_or_not_at_all() {
        for counter in [0, 1, 1 << 48, 1_764_000_000_000_000, (1 << 55) - 1] {
            let token = Token { counter, nonce: u128::MAX - u128::from(counter) };
            assert_eq!(StoreToken::with(Some(token)).token(), Some(token));
        }
        assert_eq!(StoreToken::with(Some(Token { counter: 1 << 55, nonce: 7 })).token(), None);
        assert_eq!(size_of::<StoreToken>(), size_of::<HeldToken>(), "the reason lies in the token's place");
    }
}
