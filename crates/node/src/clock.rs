//! The machine's clock and dice, behind the engine's ports.

use std::time::Instant;

use futures_util::future::BoxFuture;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::{Clock, Dice};
use rand::RngCore;

/// The operating system's monotonic clock, counted from this process' start.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Starts counting now.
    #[must_use]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> MonoTime {
        // One hour ahead of zero, so that "a minute before now" is representable from the start.
        MonoTime(3_600_000_000 + u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX / 2))
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
