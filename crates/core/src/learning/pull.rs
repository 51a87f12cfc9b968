//! Digests: what a node has, summed up, so that another one can answer with what differs.

/// What a node knows, summed up by ranges of sources, and the definitions that it lacks. Opaque to the caller: made by
/// `Successors::digest`, sent as bytes, answered by `Successors::answer_pull`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {}

impl Digest {
    /// As bytes, at most [`crate::limits::PULL_DIGEST_BYTES_MAX`].
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Reads [`Self::encode`]; `None` for anything else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let _ = bytes;
        None
    }
}
