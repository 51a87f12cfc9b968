//! Renderings: bytes that a front makes of a result, under a name that says nothing of the front.
//!
//! The engine keeps renderings beside copies and sends them between nodes. It never makes one and never looks inside.

use bytes::Bytes;
use hopcache_core::result::ResultSet;

/// The name of a rendering. A front chooses the number; all nodes of a cluster give it the same meaning, since the owner
/// of a key renders for the entry node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RenderingId(pub u8);

impl RenderingId {
    /// No rendering: the result in its stored form ([`ResultSet::to_bytes`]), with the records as the origin sent them.
    pub const RECORDS: Self = Self(u8::MAX);
}

/// Makes renderings. A node has one, put together from all of its fronts.
pub trait Renderer: Send + Sync + 'static {
    /// Whether this node can make such renderings. One of a later version may know more of them.
    fn knows(&self, id: RenderingId) -> bool;
    /// Renders a whole result; with the bookmark of its run where the run itself answers.
    ///
    /// # Errors
    /// [`RenderError`] when there is no such rendering of the result.
    fn render(
        &self,
        id: RenderingId,
        result: &ResultSet,
        bookmark: Option<&str>,
    ) -> Result<Vec<u8>, RenderError>;
    /// The same rendering with a bookmark, made from the one without.
    fn with_bookmark(&self, id: RenderingId, rendered: Bytes, bookmark: &str) -> Bytes;
}

/// Why there is no rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// It would be over the pass-through limit.
    #[error("the rendered answer is over {limit_bytes} bytes")]
    TooLarge {
        /// That limit.
        limit_bytes: usize,
    },
    /// The records are not what the origin's format says.
    #[error("the records cannot be read")]
    BadRecords,
    /// This node knows no rendering of that name.
    #[error("rendering {0:?} is not known here")]
    Unknown(RenderingId),
}
