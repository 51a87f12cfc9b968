//! The headers around a query: our hints, cache control, cache status, credentials, media types.

pub mod authorization;
pub mod cache_control;
pub mod cache_status;
pub mod hint;
pub mod media;
