//! node

pub mod membership;
pub mod peer;
