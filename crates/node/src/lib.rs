//! node

pub mod store;
