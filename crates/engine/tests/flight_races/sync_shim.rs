//! Shuttle's locks for the explored table, in place of `crates/engine/src/cache/sync_shim.rs`.
//!
//! tokio's `Notify` stays. The scheduler cannot interrupt it, so each call is a single step, as tokio's own lock makes
//! it. An atomic is read before each call, and there the scheduler may run other threads first.

use std::sync::PoisonError;

use shuttle::sync::MutexGuard;
pub use shuttle::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::futures::Notified;

/// shuttle's mutex with parking_lot's interface.
#[derive(Debug)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// tokio's `Notify`. Before each call the scheduler may choose another thread.
pub struct Notify {
    notify: tokio::sync::Notify,
    others_first: AtomicU32,
}

impl Notify {
    pub fn new() -> Self {
        Self { notify: tokio::sync::Notify::new(), others_first: AtomicU32::new(0) }
    }

    pub fn notified(&self) -> Notified<'_> {
        self.others_first.load(Ordering::SeqCst);
        self.notify.notified()
    }

    pub fn notify_waiters(&self) {
        self.others_first.load(Ordering::SeqCst);
        self.notify.notify_waiters();
    }
}
