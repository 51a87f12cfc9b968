//! A copy's renderings: the renderer of the node's fronts makes each form once.

use bytes::Bytes;
use hopcache_core::bookmark::Bookmark;
use hopcache_core::limits::RENDER_INLINE_BYTES_MAX;
use hopcache_core::result::ResultSet;

use super::MemoryCopy;
use super::content::exact;
use crate::model::rendering::{RenderError, Renderer, RenderingId};
use crate::model::worker::in_place_if_large;

impl MemoryCopy {
    /// The answer in a rendering. Made once, and again after [`MemoryCopy::cool`] has dropped it. Its bookmark is the end of the copy's range, if that is known.
    ///
    /// # Errors
    /// [`RenderError`].
    pub fn rendering(&self, id: RenderingId, renderer: &dyn Renderer) -> Result<Bytes, RenderError> {
        if let Some(body) = self.renderings.get(id) {
            return Ok(body);
        }
        if id == RenderingId::RECORDS
            && let Some(form) = self.content.stored_form()
        {
            return Ok(form);
        }
        let body = self.rendered(id, renderer)?;
        Ok(self.renderings.keep(id, body))
    }

    /// The answer in a rendering, which the copy does not keep.
    fn rendered(&self, id: RenderingId, renderer: &dyn Renderer) -> Result<Bytes, RenderError> {
        if let Some(result) = self.content.as_passing() {
            return render_passing(result, id, renderer, self.own_bookmark().as_deref());
        }
        // A near copy has no stored form.
        let form = self.content.stored_form().ok_or(RenderError::BadRecords)?;
        in_place_if_large(form.len(), RENDER_INLINE_BYTES_MAX, || {
            // The bytes were checked when the copy was made; bytes that are no result have no rendering.
            let result = ResultSet::from_bytes(&form).map_err(|_| RenderError::BadRecords)?;
            self.rendered_of(id, &result, renderer)
        })
    }

    /// The same of the result that it is a copy of.
    ///
    /// # Errors
    /// [`RenderError`].
    pub(crate) fn rendered_of(
        &self,
        id: RenderingId,
        result: &ResultSet,
        renderer: &dyn Renderer,
    ) -> Result<Bytes, RenderError> {
        Ok(exact(renderer.render(id, result, self.own_bookmark().as_deref())?))
    }

    /// The bookmark that covers its read.
    fn own_bookmark(&self) -> Option<String> {
        self.range().and_then(|range| range.bookmark_for(&Bookmark::NONE).encode())
    }

    /// The answer for the requests that the run itself answers, if the node cannot parse the run's bookmark. It has that
    /// bookmark as Neo4j sent it, which covers their read.
    ///
    /// # Errors
    /// As [`MemoryCopy::rendering`].
    pub(crate) fn live_rendering(
        &self,
        id: RenderingId,
        renderer: &dyn Renderer,
        bookmark: Option<&str>,
    ) -> Result<Bytes, RenderError> {
        match (self.content.as_passing(), bookmark) {
            (Some(result), Some(_)) => render_passing(result, id, renderer, bookmark),
            (_, Some(bookmark)) if !id.is_bare() => {
                Ok(renderer.with_bookmark(id, self.rendering(id, renderer)?, bookmark))
            }
            _ => self.rendering(id, renderer),
        }
    }

    /// Drops its renderings if nobody has asked for one since the last call. Returns whether it did. A near copy keeps its own,
    /// because it has nothing to make it of.
    pub fn cool(&self) -> bool {
        self.content.is_stored() && self.renderings.cool()
    }

    /// Whether its renderings are made in microseconds.
    #[must_use]
    pub(crate) fn is_small(&self) -> bool {
        self.content.is_small()
    }

    /// Whether the copy can answer in this rendering at once.
    #[must_use]
    pub fn has_rendering(&self, id: RenderingId) -> bool {
        let is_stored_form = id == RenderingId::RECORDS && self.content.is_stored();
        is_stored_form || self.renderings.has(id)
    }
}

/// The rendering of a result that is not kept. It shares nothing with the records: their room is free again when the
/// last request has rendered them, however slowly its client then reads.
pub(crate) fn render_passing(
    result: &ResultSet,
    id: RenderingId,
    renderer: &dyn Renderer,
    bookmark: Option<&str>,
) -> Result<Bytes, RenderError> {
    in_place_if_large(result.records.len(), RENDER_INLINE_BYTES_MAX, || {
        if id == RenderingId::RECORDS {
            return Ok(exact(result.to_bytes()));
        }
        Ok(exact(renderer.render(id, result, bookmark)?))
    })
}
