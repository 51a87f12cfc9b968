//! The renderings of the simulated nodes: the Query API's, as a real node has them.

use bytes::Bytes;
use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_core::result::ResultSet;
use hopcache_engine::rendering::{RenderError, Renderer, RenderingId};
use hopcache_packstream::DecodeError;
use hopcache_queryapi::render::{self, ResponseForm, ResultView};

/// Renders as the node's Query API front does.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueryApiRenderer;

impl Renderer for QueryApiRenderer {
    fn knows(&self, id: RenderingId) -> bool {
        ResponseForm::from_byte(id.0).is_some()
    }

    fn render(
        &self,
        id: RenderingId,
        result: &ResultSet,
        bookmark: Option<&str>,
    ) -> Result<Vec<u8>, RenderError> {
        let form = ResponseForm::from_byte(id.0).ok_or(RenderError::Unknown(id))?;
        let view = ResultView {
            kind: None,
            fields: &result.fields,
            records: &result.records,
            summary: &result.summary,
            bookmarks: &[],
            errors: &[],
        };
        render::answer(&view, form, bookmark, PASS_THROUGH_BYTES_MAX).map_err(|error| match error {
            render::RenderError::TooLarge { limit_bytes } => RenderError::TooLarge { limit_bytes },
            render::RenderError::PackStream(DecodeError::Depth) => RenderError::TooDeep,
            _ => RenderError::BadRecords,
        })
    }

    fn with_bookmark(&self, _: RenderingId, rendered: Bytes, bookmark: &str) -> Bytes {
        render::with_bookmark(&rendered, bookmark).map_or(rendered, Bytes::from)
    }

    fn has_columns(&self, _: RenderingId, rendered: &[u8], columns: &[Box<str>]) -> bool {
        render::has_columns(rendered, columns)
    }

    fn with_columns(&self, _: RenderingId, rendered: &[u8], columns: &[Box<str>]) -> Option<Bytes> {
        render::with_columns(rendered, columns).map(Bytes::from)
    }
}

/// The name of a form's rendering.
#[must_use]
pub fn rendering_of(form: ResponseForm) -> RenderingId {
    RenderingId(form.to_byte())
}
