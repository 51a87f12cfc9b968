//! `crate::seams` for the explored table: shuttle's locks, and mistakes that can be planted.
//!
//! tokio's `Notify` stays: the scheduler cannot interrupt it, so each call is a single step, as its own lock
//! makes it. A look at an atomic before the step is where others may come first.

use std::cell::Cell;
use std::sync::PoisonError;

use shuttle::sync::MutexGuard;
pub use shuttle::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::futures::Notified;

/// shuttle's mutex with the face of parking_lot's.
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

/// tokio's, with a point before each call at which the scheduler may choose another thread.
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

/// As in the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    InsertLater,
    CountLater,
    RemoveFirst,
    TellFirst,
    RemoveAny,
    SilentLoss,
    LookFirst,
    KeepPlace,
}

thread_local! {
    static PLANTED: Cell<Option<Seed>> = const { Cell::new(None) };
}

/// From now on, in this thread, the table makes this mistake.
pub fn plant(seed: Option<Seed>) {
    PLANTED.set(seed);
}

pub fn is_seeded(seed: Seed) -> bool {
    PLANTED.get() == Some(seed)
}
