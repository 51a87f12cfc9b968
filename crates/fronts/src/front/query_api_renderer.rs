//! The Query API's renderings, for the engine: the bytes of an answer in each form.
//!
//! It decides nothing about caching: the engine keeps the renderings beside its copies.

use bytes::Bytes;
use hopcache_core::limits::PASS_THROUGH_BYTES_MAX;
use hopcache_core::result::{ResultSet, StatementKind};
use hopcache_engine::rendering::{RenderError, Renderer, RenderingId};
use hopcache_packstream::DecodeError;
use hopcache_queryapi::render::{self, Encoding, ResponseForm, ResultView};

/// Renders results as Neo4j's Query API does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryApiRenderer;

/// The rendering of a form.
pub(super) fn rendering_of(form: ResponseForm) -> RenderingId {
    RenderingId(form.to_byte())
}

/// How values are written in a rendering. Plain if the rendering is not one of this front.
pub(super) fn encoding_of(id: RenderingId) -> Encoding {
    ResponseForm::from_byte(id.0).map_or(Encoding::Plain, |form| form.encoding)
}

/// Why there is no rendering, as the engine needs it.
pub(super) fn for_engine(error: render::RenderError) -> RenderError {
    match error {
        render::RenderError::TooLarge { limit_bytes } => RenderError::TooLarge { limit_bytes },
        render::RenderError::PackStream(DecodeError::Depth) => RenderError::TooDeep,
        _ => RenderError::BadRecords,
    }
}

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
            kind: result.kind.map(StatementKind::to_bolt),
            fields: &result.fields,
            records: &result.records,
            summary: &result.summary,
            bookmarks: &[],
            errors: &[],
        };
        render::answer(&view, form, bookmark, PASS_THROUGH_BYTES_MAX).map_err(for_engine)
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
