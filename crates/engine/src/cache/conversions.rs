//! Copies from stored entries and into them, and their renderings, for the rooms above: large ones where no task waits
//! for them (`model::worker`).

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::entry::unpacked_len;
use hopcache_core::key::QueryKey;
use hopcache_core::lease::{StoredEntry, Token};
use hopcache_core::limits::RENDER_INLINE_BYTES_MAX;
use hopcache_core::result::ResultSet;
use hopcache_core::time::MonoTime;

use crate::cache::Cache;
use crate::cache::copy::{MemoryCopy, SharedCopy};
use crate::model::ask::Query;
use crate::model::rendering::{RenderError, RenderingId};
use crate::model::worker::apart_if_large;

impl Cache {
    /// A copy of a stored entry whose checksum holds. `held` is the copy in memory before it.
    pub(crate) async fn decode(
        &self,
        query: &Query,
        stored: &StoredEntry,
        asked: MonoTime,
        held: Option<&MemoryCopy>,
    ) -> Option<SharedCopy> {
        let unpacked_len = unpacked_len(&stored.bytes);
        let (stored, key, checksum_key) = (stored.clone(), query.key, self.checksum_key.clone());
        let decode = move || MemoryCopy::decode(&stored, (&key, &checksum_key), asked);
        let copy = apart_if_large(unpacked_len, RENDER_INLINE_BYTES_MAX, decode).await?;
        let heat = self.key_stats.heat_after(held, &query.key, self.context.now());
        let copy = copy.of_principal(query.identity.scope).with_heat(heat);
        Some(SharedCopy::new(self.of_query(copy, query)))
    }

    /// The entry to store for a copy; `None` if it is too large for one.
    pub(crate) fn seal(&self, key: &QueryKey, copy: &MemoryCopy, token: Token) -> Option<Bytes> {
        let owner = self.written.owner(copy.tags().database());
        copy.seal((key, &self.checksum_key), token, (self.context.node(), owner))
    }

    /// Makes the rendering of a copy that a request will ask for, where no task waits for it. It keeps nothing of a
    /// failure: the request finds it again.
    pub(crate) async fn prepare(&self, copy: &SharedCopy, id: RenderingId) {
        if !copy.has_rendering(id) {
            let bytes = copy.weight_bytes();
            let (copy, renderer) = (SharedCopy::clone(copy), Arc::clone(&self.renderer));
            let render = move || drop(copy.rendering(id, &*renderer));
            apart_if_large(bytes, RENDER_INLINE_BYTES_MAX, render).await;
        }
    }

    /// As [`MemoryCopy::live_rendering`], where no task waits for it.
    pub(crate) async fn live_rendering(
        &self,
        copy: &SharedCopy,
        id: RenderingId,
        bookmark: Option<String>,
    ) -> Result<Bytes, RenderError> {
        let bytes = copy.weight_bytes();
        let (copy, renderer) = (SharedCopy::clone(copy), Arc::clone(&self.renderer));
        let render = move || copy.live_rendering(id, &*renderer, bookmark.as_deref());
        apart_if_large(bytes, RENDER_INLINE_BYTES_MAX, render).await
    }

    /// The rendering of a small copy of this result for those who wait for its run, which the copy does not keep; `None` for a large
    /// one, which is not made twice.
    pub(crate) fn passing_rendering(
        &self,
        copy: &MemoryCopy,
        id: RenderingId,
        result: &ResultSet,
    ) -> Option<Bytes> {
        // The stored form is there already.
        if !copy.is_small() || id == RenderingId::RECORDS {
            return None;
        }
        copy.rendered_of(id, result, &*self.renderer).ok()
    }

    /// Renders a copy for a request. A copy in memory then weighs more.
    pub(crate) fn render(
        &self,
        key: QueryKey,
        copy: &SharedCopy,
        id: RenderingId,
        now: MonoTime,
    ) -> Result<Bytes, RenderError> {
        let is_new = !copy.has_rendering(id);
        let body = copy.rendering(id, &*self.renderer);
        if is_new {
            self.memory.weigh_again(key, copy, self.kept_until(copy, copy.kept_until()).since(now));
        }
        body
    }
}
