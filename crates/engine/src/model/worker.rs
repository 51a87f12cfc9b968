//! Work that would block an async worker: it runs where the worker's other tasks do not wait for it (F29, F45).
//!
//! This decides nothing about the work and bounds nothing: the caller does.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work on this many bytes. Above `inline_bytes_max` the runtime learns that this worker is busy, and moves its
/// other tasks to another one. A single-threaded runtime, such as the simulator's, has no other.
pub fn apart_if_large<T>(bytes: usize, inline_bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if bytes > inline_bytes_max => tokio::task::block_in_place(work),
        _ => work(),
    }
}
