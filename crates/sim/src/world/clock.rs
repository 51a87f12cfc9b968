//! The clock of a simulated world: tokio's paused time, counted from when the world began.

use std::cell::Cell;

use futures_util::future::BoxFuture;
use hopcache_core::limits::CLOCK_START_US;
use hopcache_core::time::{Millis, MonoTime};
use hopcache_engine::ports::Clock;

use crate::world::process::Process;

thread_local! {
    /// When this thread's world began. The world's clock counts from there.
    static BEGAN: Cell<Option<tokio::time::Instant>> = const { Cell::new(None) };
}

/// Now, on tokio's paused clock, since the world was built. A world begins with what a node's clock shows at its start: what holds
/// times in few bytes has to hold those.
#[must_use]
pub fn sim_now() -> MonoTime {
    let elapsed = BEGAN.get().map_or(std::time::Duration::ZERO, |began| began.elapsed());
    MonoTime(CLOCK_START_US + u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX / 2))
}

/// A world begins on this thread.
pub(crate) fn start_clock() {
    BEGAN.set(Some(tokio::time::Instant::now()));
}

/// A node's clock. A stopped process sees the passed time when it goes on.
pub(crate) struct SimClock {
    pub(crate) apart: Millis,
    pub(crate) process: Process,
}

impl Clock for SimClock {
    fn now(&self) -> MonoTime {
        sim_now() + self.apart
    }

    fn sleep(&self, span: Millis) -> BoxFuture<'static, ()> {
        let process = self.process.clone();
        Box::pin(async move {
            tokio::time::sleep(span.duration()).await;
            process.on().await;
        })
    }
}
