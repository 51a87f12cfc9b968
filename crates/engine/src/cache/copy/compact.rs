//! Parts of a copy in as few bytes as they need. A node holds a struct of them for each entry, so that a byte here is a
//! megabyte for a million entries. Nothing is decided here.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU8, Ordering};

use hopcache_core::lease::Token;
use hopcache_core::limits::ENTRY_LIFE_MS_MAX;
use hopcache_core::time::{Millis, MonoTime};

use super::CopyTimes;

/// Plain data: the times of a copy, as the start of the read and spans from there.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldTimes {
    read_started: MonoTime,
    soft: Span,
    physical: Span,
    total: Span,
    cost: Span,
}

/// A span of milliseconds in six bytes: 8,900 years.
#[derive(Debug, Clone, Copy)]
struct Span([u8; 6]);

const _: () = assert!(ENTRY_LIFE_MS_MAX < 1 << 48);

impl Span {
    fn of(span: Millis) -> Self {
        let [a, b, c, d, e, f, ..] = span.0.min((1 << 48) - 1).to_le_bytes();
        Self([a, b, c, d, e, f])
    }

    fn ms(self) -> Millis {
        let Self([a, b, c, d, e, f]) = self;
        Millis(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }
}

impl HeldTimes {
    pub(super) fn of(times: CopyTimes) -> Self {
        Self {
            read_started: times.read_started,
            soft: Span::of(times.soft_ms),
            physical: Span::of(times.physical_ms),
            total: Span::of(times.total_ms.max(times.physical_ms)),
            cost: Span::of(times.cost_ms),
        }
    }

    pub(super) fn times(&self) -> CopyTimes {
        CopyTimes {
            read_started: self.read_started,
            soft_ms: self.soft.ms(),
            physical_ms: self.physical.ms(),
            total_ms: self.total.ms(),
            cost_ms: self.cost.ms(),
        }
    }

    pub(super) fn read_started(&self) -> MonoTime {
        self.read_started
    }

    pub(super) fn fresh_until(&self) -> MonoTime {
        self.read_started + self.soft.ms()
    }

    pub(super) fn dead_at(&self) -> MonoTime {
        self.read_started + self.physical.ms()
    }

    pub(super) fn fallback_until(&self) -> MonoTime {
        self.read_started + self.total.ms()
    }
}

/// Plain data: a token in half of the room that it takes with the alignment of a `u128`. The store's tokens begin at 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldToken {
    counter: NonZeroU64,
    nonce: [u8; 16],
}

impl HeldToken {
    pub(super) fn of(token: Token) -> Option<Self> {
        Some(Self { counter: NonZeroU64::new(token.counter)?, nonce: token.nonce.to_le_bytes() })
    }

    pub(super) fn token(self) -> Token {
        Token { counter: self.counter.get(), nonce: u128::from_le_bytes(self.nonce) }
    }
}

/// What has happened to a copy. Each happens once.
#[derive(Debug, Default)]
pub(super) struct Marks(AtomicU8);

/// One of the [`Marks`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    /// The last run for it failed, other than by the statement's own fault. A newer copy begins without.
    OriginFailed = 1,
    /// It was served past its TTL because it is proved.
    Revalidated = 2,
    /// A hit has found it stale.
    Late = 4,
}

impl Marks {
    pub(super) fn has(&self, mark: Mark) -> bool {
        self.0.load(Ordering::Relaxed) & mark as u8 != 0
    }

    /// Sets a mark. Returns whether it is new. A mark that is set costs a load, so that hits on several cores share the line.
    pub(super) fn is_first(&self, mark: Mark) -> bool {
        !self.has(mark) && self.0.fetch_or(mark as u8, Ordering::Relaxed) & mark as u8 == 0
    }
}
