//! The machine's clock and dice, behind the engine's ports.

use futures_util::future::BoxFuture;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{Clock, Dice};
use rand::RngCore;
use rustix::time::{ClockId, clock_gettime};

/// The operating system's monotonic clock that goes on while the machine is suspended (`CLOCK_BOOTTIME`), counted
/// from this process' start: by the one that stands still (`Instant`) a copy would be as young after a night as
/// before it. Both are read through the vDSO at the same cost.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started_us: u64,
}

fn boot_time_us() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(now.tv_sec).saturating_mul(1_000_000).saturating_add(part(now.tv_nsec) / 1_000)
}

impl SystemClock {
    /// Starts counting now.
    #[must_use]
    pub fn start() -> Self {
        Self { started_us: boot_time_us() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> MonoTime {
        // One hour ahead of zero, so that "a minute before now" is representable from the start.
        MonoTime(3_600_000_000 + boot_time_us().saturating_sub(self.started_us))
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(span.duration()))
    }
}

/// The thread's cryptographically secure generator, seeded by the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemDice;

impl Dice for SystemDice {
    fn u64(&self) -> u64 {
        rand::rng().next_u64()
    }
}
