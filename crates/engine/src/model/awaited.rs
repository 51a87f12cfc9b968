//! Waits until something holds, woken by whoever changes it.

use std::pin::pin;

use tokio::sync::Notify;

/// Completes as soon as `holds`. Whoever changes what it looks at calls [`Notify::notify_waiters`] then. The caller bounds the wait.
pub(crate) async fn until(changed: &Notify, mut holds: impl FnMut() -> bool) {
    loop {
        let mut change = pin!(changed.notified());
        // In line before the look: otherwise a change between look and wait would not wake this task.
        change.as_mut().enable();
        if holds() {
            return;
        }
        change.await;
    }
}
