//! Following the store's invalidation log: the bound on how long a copy here outlives a purge that did not reach this
//! node.

use std::convert::Infallible;

use hopcache_core::limits::{INVALIDATION_PAGE_LEN_MAX, INVALIDATION_POLL_MS};
use hopcache_core::time::Millis;

use crate::invalidate::Invalidate;
use crate::model::ports::{LogCursor, Scope, Store};

impl Invalidate {
    /// Follows the store's invalidation log for ever; the caller owns the task. `on_look` is called at each look. It
    /// bounds how long a copy here outlives a purge that did not reach this node directly.
    pub(crate) async fn follow_log(&self, on_look: &(dyn Fn() + Send + Sync)) -> Infallible {
        let mut cursor = LogCursor::default();
        let mut is_first = true;
        loop {
            let began = self.context.now();
            let page = self.store.invalidations_since(cursor).await;
            let mut is_more = false;
            on_look();
            if let Ok(page) = page {
                is_more = page.scopes.len() >= INVALIDATION_PAGE_LEN_MAX;
                // A late first look may have missed invalidations of copies that were kept meanwhile.
                if page.gap && (!is_first || self.cache.copies() > 0) {
                    self.cache.forget(&Scope::All);
                }
                page.scopes.iter().for_each(|scope| {
                    self.cache.forget(scope);
                });
                cursor = page.next;
                self.rings.has_read(cursor);
                is_first = false;
            }
            if is_more {
                continue;
            }
            self.cache.guard().looked(began);
            self.store.ask_refusing().await;
            tokio::select! {
                biased;
                () = self.cache.guard().wanted() => {}
                () = self.context.sleep(Millis(INVALIDATION_POLL_MS)) => {}
            }
        }
    }
}
