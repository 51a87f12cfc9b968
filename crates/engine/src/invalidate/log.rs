//! Following the store's invalidation log: the bound on how long a copy here outlives a purge that did not reach this
//! node.

use std::convert::Infallible;

use hopcache_core::limits::{INVALIDATION_PAGE_LEN_MAX, INVALIDATION_POLL_MS, PAUSE_POLL_RETRY_MS};
use hopcache_core::time::Millis;

use crate::invalidate::Invalidate;
use crate::model::ports::{LogCursor, Scope, Store};

impl Invalidate {
    /// Follows the store's invalidation log for ever; the caller owns the task. `on_poll` is called at each look. It
    /// bounds how long a copy here outlives a purge that did not reach this node directly.
    pub(crate) async fn follow_log(&self, on_poll: &(dyn Fn() + Send + Sync)) -> Infallible {
        let mut cursor = LogCursor::default();
        let mut is_first = true;
        loop {
            let began = self.context.now();
            self.cache.guard().mark(began);
            let page = self.store.invalidations_since(cursor).await;
            let (mut is_more, has_read) = (false, page.is_ok());
            on_poll();
            if let Ok(page) = page {
                is_more = page.scopes.len() >= INVALIDATION_PAGE_LEN_MAX;
                // A late first look may have missed invalidations of copies that were kept meanwhile.
                if page.gap && (!is_first || self.cache.copies() > 0) {
                    self.cache.forget_logged(&Scope::All);
                }
                page.scopes.iter().for_each(|scope| {
                    self.cache.forget_logged(scope);
                });
                cursor = page.next;
                self.rings.has_read(cursor);
                is_first = false;
            }
            if is_more {
                continue;
            }
            // A failed look says nothing about purges during a pause (`cache/suspend_guard.rs`).
            if has_read {
                self.cache.guard().polled(began, self.context.now());
            }
            self.store.ask_refusing().await;
            self.cache.guard().mark(self.context.now());
            if !has_read && self.cache.guard().is_waited_for(self.context.now()) {
                // Requests that wait have asked already. To look at once would be a busy loop while the store refuses.
                self.context.sleep(Millis(PAUSE_POLL_RETRY_MS)).await;
                continue;
            }
            tokio::select! {
                biased;
                () = self.cache.guard().wanted() => {}
                () = self.context.sleep(Millis(INVALIDATION_POLL_MS)) => {}
            }
        }
    }
}
