//! Parts of a copy in as few bytes as they need. A node holds a struct of them for each entry, so that a byte here is a
//! megabyte for a million entries. Nothing is decided here.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU8, Ordering};

use hopcache_core::lease::Token;
use hopcache_core::limits::ENTRY_LIFE_MS_MAX;
use hopcache_core::time::{Millis, MonoTime};

use super::CopyTimes;
use crate::model::outcome::Detail;

/// Plain data: the times of a copy, as spans from the start of its read. Bytes without an alignment, so that they lie beside each
/// other.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldSpans {
    soft: Span,
    physical: Span,
    total: Span,
    /// At most 49 days.
    cost_ms: [u8; 4],
}

/// A span of milliseconds in five bytes: 34 years.
#[derive(Debug, Clone, Copy)]
struct Span([u8; 5]);

const _: () = assert!(ENTRY_LIFE_MS_MAX < 1 << 40);

impl Span {
    fn of(span: Millis) -> Self {
        let [a, b, c, d, e, ..] = span.0.min((1 << 40) - 1).to_le_bytes();
        Self([a, b, c, d, e])
    }

    fn ms(self) -> Millis {
        let Self([a, b, c, d, e]) = self;
        Millis(u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]))
    }
}

impl HeldSpans {
    pub(super) fn of(times: CopyTimes) -> Self {
        Self {
            soft: Span::of(times.soft_ms),
            physical: Span::of(times.physical_ms),
            total: Span::of(times.total_ms.max(times.physical_ms)),
            cost_ms: u32::try_from(times.cost_ms.0).unwrap_or(u32::MAX).to_le_bytes(),
        }
    }

    pub(super) fn from(self, read_started: MonoTime) -> CopyTimes {
        CopyTimes {
            read_started,
            soft_ms: self.soft_ms(),
            physical_ms: self.physical_ms(),
            total_ms: self.total_ms(),
            cost_ms: Millis(u32::from_le_bytes(self.cost_ms).into()),
        }
    }

    pub(super) fn soft_ms(self) -> Millis {
        self.soft.ms()
    }

    pub(super) fn physical_ms(self) -> Millis {
        self.physical.ms()
    }

    pub(super) fn total_ms(self) -> Millis {
        self.total.ms()
    }
}

/// Plain data: the token that a copy was stored with, or why the store never took it. Its hits report this.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stored {
    With(HeldToken),
    Not(Detail),
}

impl Stored {
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

/// Plain data: a token in half of the room that it takes with the alignment of a `u128`. The store's tokens begin at 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeldToken {
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
