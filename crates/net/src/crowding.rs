//! Large requests that a node does not take now. The fronts give the two cases their own status or code.

/// A principal: the fingerprint of accepted credentials.
pub type Principal = [u8; 32];

/// Whose large requests are in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrowdedBy {
    /// The same principal's.
    Own,
    /// Those of all.
    All,
}

/// Why a large request is not taken. Its text tells the client what to do. Nothing of the request was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CrowdedOut {
    /// Whose requests are in the way.
    pub by: CrowdedBy,
    text: &'static str,
}

impl CrowdedOut {
    /// The principal's other requests wait to be read.
    pub const BY_OWN_WAITING: Self = Self {
        by: CrowdedBy::Own,
        text: "Too many large requests of this user wait to be read. Send fewer at a time, and try again shortly.",
    };
    /// Requests of all wait to be read.
    pub const BY_ALL_WAITING: Self =
        Self { by: CrowdedBy::All, text: "Too many large requests wait to be read. Try again shortly." };
    /// The principal's requests have its share of the room.
    pub(crate) const BY_OWN_HELD: Self = Self {
        by: CrowdedBy::Own,
        text: "Too many large requests of this user at a time. Send fewer, and try again soon.",
    };
    /// Requests of all have the room.
    pub(crate) const BY_ALL_HELD: Self =
        Self { by: CrowdedBy::All, text: "Too many large requests at a time. Try again soon." };
}
