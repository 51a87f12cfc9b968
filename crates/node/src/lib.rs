//! node

pub mod origin;
