//! Renderings: bytes that a front makes of a result, under a name that is neutral to the front.
//!
//! The engine keeps renderings beside copies and sends them between nodes. It never makes one and never looks inside.

use bytes::Bytes;
use hopcache_core::result::ResultSet;

/// The name of a rendering. A front chooses the number. All nodes of a cluster give it the same meaning, because the
/// owner of a key renders for the entry node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct RenderingId(pub u8);

impl RenderingId {
    /// No rendering: the result in its stored form ([`ResultSet::to_bytes`]), with the records as the origin sent them.
    pub const RECORDS: Self = Self(u8::MAX);
    /// The first name of a bare rendering.
    pub const BARE_FIRST: Self = Self(128);

    /// Whether its bytes have no bookmark. A front of bare renderings sends the bookmark apart, names the columns, and streams
    /// a result that no entry can hold.
    #[must_use]
    pub const fn is_bare(self) -> bool {
        self.0 >= Self::BARE_FIRST.0
    }
}

/// Makes renderings. A node has one renderer, combined from all of its fronts.
pub trait Renderer: Send + Sync + 'static {
    /// Whether this node can make such renderings.
    fn knows(&self, id: RenderingId) -> bool;
    /// Renders a whole result. If the run itself answers, with the bookmark of the run.
    ///
    /// # Errors
    /// [`RenderError`] if the result has no such rendering.
    fn render(
        &self,
        id: RenderingId,
        result: &ResultSet,
        bookmark: Option<&str>,
    ) -> Result<Vec<u8>, RenderError>;
    /// The same rendering with a bookmark, made from the one without.
    fn with_bookmark(&self, id: RenderingId, rendered: Bytes, bookmark: &str) -> Bytes;
    /// Whether the rendering has these names of columns. It has those of the spelling that was run. It may say no of the
    /// same names. Bare renderings are not asked: their front names the columns itself (`Query::name_columns`).
    fn has_columns(&self, id: RenderingId, rendered: &[u8], columns: &[Box<str>]) -> bool;
    /// The same rendering with these names of columns. `None` if it has another number of columns: then the server does not
    /// name columns as Neo4j does.
    fn with_columns(&self, id: RenderingId, rendered: &[u8], columns: &[Box<str>]) -> Option<Bytes>;
}

/// Why there is no rendering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    /// It would exceed the pass-through limit.
    #[error("the rendered answer is over {limit_bytes} bytes")]
    TooLarge {
        /// That limit.
        limit_bytes: usize,
    },
    /// A value nests deeper than the format is written.
    #[error("the result nests too deep for this format")]
    TooDeep,
    /// The records do not have the origin's format.
    #[error("the records cannot be read")]
    BadRecords,
    /// This node knows no rendering of that name.
    #[error("rendering {0:?} is not known here")]
    Unknown(RenderingId),
}
