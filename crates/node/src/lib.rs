//! node

pub mod peer;
