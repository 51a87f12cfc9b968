//! A copy and what memory knows of it, in as few bytes as they need: memory holds one for each entry. It decides nothing.

use hopcache_core::limits::PRINCIPAL_OVERHEAD_BYTES;
use hopcache_core::short::Short;
use hopcache_core::time::MonoTime;
use hopcache_engine::copy::SharedCopy;

use super::principal_shares::Serial;

/// A copy in memory.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) copy: SharedCopy,
    /// What it was counted with: its weight at that time, and that of its principal's account if it bears this. Renderings that
    /// were made or dropped since then count when it is weighed again.
    pub(super) bytes: u32,
    /// Milliseconds on the memory's clock, rounded down: memory keeps no copy past its end. 8,900 years.
    ends_at: Short<6>,
    /// Three million a second for 17 months, and in the highest bit whether it bears its principal's account.
    serial: Short<6>,
}

/// Plain data: how a copy is counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub(super) serial: Serial,
    /// Its own weight.
    pub(super) bytes: u32,
    /// [`PRINCIPAL_OVERHEAD_BYTES`] or nothing.
    pub(super) account_bytes: u32,
}

const _: () = assert!(size_of::<Kept>() == 24);

const BEARS_ACCOUNT: u64 = 1 << 47;

impl Kept {
    pub(super) fn new(copy: SharedCopy, ends_at: MonoTime, counted: Counted) -> Self {
        let bears_account = if counted.account_bytes > 0 { BEARS_ACCOUNT } else { 0 };
        let serial = Short::of(counted.serial.get() & (BEARS_ACCOUNT - 1) | bears_account);
        Self { copy, bytes: counted.all_bytes(), ends_at: Short::of(ends_at.0 / 1_000), serial }
    }

    /// Its own weight when it was last counted.
    pub(super) fn own_bytes(&self) -> u32 {
        let bears_account = self.serial.get() & BEARS_ACCOUNT != 0;
        if bears_account { self.bytes.saturating_sub(PRINCIPAL_OVERHEAD_BYTES) } else { self.bytes }
    }

    /// When its life is over, on the memory's clock.
    pub(super) fn ends_at(&self) -> MonoTime {
        MonoTime(self.ends_at.get() * 1_000)
    }

    pub(super) fn serial(&self) -> Serial {
        Serial::new(self.serial.get() & (BEARS_ACCOUNT - 1))
    }
}

impl Counted {
    /// All that it is counted with.
    pub(super) fn all_bytes(self) -> u32 {
        self.bytes.saturating_add(self.account_bytes)
    }
}
