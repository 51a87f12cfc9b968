//! The state of a simulated process: it runs, is stopped, or is gone.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Power {
    /// It runs.
    On,
    /// The process is stopped (SIGSTOP): awaited events reach it only after it goes on.
    Paused,
    /// It is killed: events that it waits for never reach it.
    Off,
}

/// One simulated process.
#[derive(Debug, Clone)]
pub struct Process {
    power: Arc<WatchCell<Power>>,
}

impl Default for Process {
    fn default() -> Self {
        Self { power: Arc::new(WatchCell::new(Power::On)) }
    }
}

impl Process {
    /// Sets it.
    pub fn set(&self, power: Power) {
        self.power.set(power);
    }

    /// Reads it.
    #[must_use]
    pub fn power(&self) -> Power {
        self.power.get()
    }

    /// Waits until the process runs.
    pub async fn on(&self) {
        self.power.until(|power| power == Power::On).await;
    }

    /// Waits until the process is gone.
    pub async fn off(&self) {
        self.power.until(|power| power == Power::Off).await;
    }
}

/// A value that tasks can wait on. It wakes its waiters in the order in which they came. tokio's watch channel wakes in
/// random order, so no schedule could be repeated.
#[derive(Debug)]
pub(crate) struct WatchCell<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> WatchCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), changed: Notify::new() }
    }

    pub(crate) fn set(&self, value: T) {
        *self.value.lock() = value;
        self.changed.notify_waiters();
    }

    pub(crate) fn get(&self) -> T {
        *self.value.lock()
    }

    pub(crate) async fn until(&self, holds: impl Fn(T) -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // The waiter queues before it looks. Otherwise a change between look and wait would wake nobody.
            changed.as_mut().enable();
            if holds(self.get()) {
                return;
            }
            changed.await;
        }
    }
}
