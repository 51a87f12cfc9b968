//! The request for one run at the origin.

use std::sync::Arc;

use bytes::Bytes;
use hopcache_core::time::Millis;
use hopcache_core::turns::RunClass;

use crate::model::identity::Identity;

/// One statement for the origin.
#[derive(Debug, Clone)]
pub struct OriginRun {
    /// The asking identity.
    pub identity: Arc<Identity>,
    /// User to act as, if it is another one.
    pub impersonated: Option<String>,
    /// Database name as the client gave it.
    pub database: Arc<str>,
    /// Statement text as the client gave it.
    pub statement: Arc<str>,
    /// Parameters: one PackStream map.
    pub params: Bytes,
    /// Access mode to ask for.
    pub mode: AccessMode,
    /// Bookmarks to wait for.
    pub bookmarks: Vec<String>,
    /// Own deadline of this run from now; the server gets it as `tx_timeout` too.
    pub timeout_ms: Millis,
    /// Largest number of result bytes (records) that are read.
    pub bytes_max: usize,
    /// W3C `traceparent`, for the transaction's metadata.
    pub traceparent: Option<String>,
    /// Its class in the competition for scarce places.
    pub class: RunClass,
}

/// Access mode of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessMode {
    /// The server refuses writes.
    Read,
    /// The server allows writes.
    Write,
}
