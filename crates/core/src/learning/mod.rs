//! What follows what: learned from every session, shared by every node.

mod cursor;
pub mod expansion;
pub mod fields;
pub mod form;
mod params;
pub mod sessions;
pub mod templates;

pub use params::Kind;
