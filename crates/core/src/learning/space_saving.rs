//! Space-Saving.

/// Placeholder.
#[derive(Debug)]
pub struct SpaceSaving;
