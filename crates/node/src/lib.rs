//! node

pub mod membership;
pub mod peer;
pub mod cli;
pub mod config;
pub mod logging;
pub mod origin;
pub mod store;
