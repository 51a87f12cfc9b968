//! The node's one renderer: each front makes its own renderings.
//!
//! It decides nothing about caching: the engine keeps the renderings beside its copies.

use bytes::Bytes;
use hopcache_core::result::ResultSet;
use hopcache_engine::rendering::{RenderError, Renderer, RenderingId};

use crate::bolt_front::messages::{self, MESSAGES};
use crate::front::QueryApiRenderer;

/// Renders for HTTP and Bolt.
#[derive(Debug, Clone, Copy)]
pub struct FrontsRenderer;

impl Renderer for FrontsRenderer {
    fn knows(&self, id: RenderingId) -> bool {
        id == MESSAGES || QueryApiRenderer.knows(id)
    }

    fn render(
        &self,
        id: RenderingId,
        result: &ResultSet,
        bookmark: Option<&str>,
    ) -> Result<Vec<u8>, RenderError> {
        if id == MESSAGES { messages::render(result) } else { QueryApiRenderer.render(id, result, bookmark) }
    }

    fn with_bookmark(&self, id: RenderingId, rendered: Bytes, bookmark: &str) -> Bytes {
        if id.is_bare() { rendered } else { QueryApiRenderer.with_bookmark(id, rendered, bookmark) }
    }

    fn has_columns(&self, id: RenderingId, rendered: &[u8], columns: &[Box<str>]) -> bool {
        !id.is_bare() && QueryApiRenderer.has_columns(id, rendered, columns)
    }

    fn with_columns(&self, id: RenderingId, rendered: &[u8], columns: &[Box<str>]) -> Option<Bytes> {
        if id.is_bare() { None } else { QueryApiRenderer.with_columns(id, rendered, columns) }
    }
}
