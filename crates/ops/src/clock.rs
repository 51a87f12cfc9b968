//! The machine's clock and dice, behind the engine's ports.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use hopcache_core::limits::CLOCK_START_US;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{Clock, Dice};
use rand::RngCore;
use rustix::time::{ClockId, clock_gettime};

/// The operating system's monotonic clock (`CLOCK_BOOTTIME`), counted from the start of this process. It goes on while the
/// machine is suspended. `Instant` stops then: a copy would be as young after a night of suspension as before. Both clocks
/// are read through the vDSO at the same cost.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started_us: u64,
}

fn boot_time_us() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let part = |part: i64| u64::try_from(part).unwrap_or(0);
    part(now.tv_sec).saturating_mul(1_000_000).saturating_add(part(now.tv_nsec) / 1_000)
}

/// The time on the wall, since 1970. It may jump: for people and records, never to measure a span.
#[must_use]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

impl SystemClock {
    /// A clock that counts from now on.
    #[must_use]
    pub fn start() -> Self {
        Self { started_us: boot_time_us() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> MonoTime {
        MonoTime(CLOCK_START_US + boot_time_us().saturating_sub(self.started_us))
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

#[cfg(test)]
mod tests {
    use hopcache_core::limits::ENTRY_LIFE_MS_MAX;

    use super::*;

    /// I4: an entry of any age has the same age on a node that was started this moment.
    #[test]
    fn the_oldest_entry_was_read_after_zero() {
        let now = SystemClock::start().now();
        let longest = Millis(ENTRY_LIFE_MS_MAX);
        let read_started = now - longest;
        assert!(read_started > MonoTime(0));
        assert_eq!(now.since(read_started), longest);
    }
}
