//! node

pub mod cli;
pub mod config;
pub mod logging;
