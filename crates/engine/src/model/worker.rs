//! Work that would keep an async worker from everything else: it is done where the worker's other tasks do not wait for it
//! (F29, F45).
//!
//! This decides nothing about the work, and bounds nothing: who calls it does.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does work over so many bytes. Above `inline_bytes_max` the runtime is told that this worker is busy, so that its other
/// tasks move to another one. On a single-threaded runtime, such as the simulator's, there is no other.
pub fn apart_if_large<T>(bytes: usize, inline_bytes_max: usize, work: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) if bytes > inline_bytes_max => tokio::task::block_in_place(work),
        _ => work(),
    }
}
