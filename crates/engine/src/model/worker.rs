//! Large work: it runs where no async task waits for it (F29, F45).
//!
//! Work on megabytes (rendering, packing, sealing, copying) takes milliseconds without a pause. On an async worker all
//! hits of that worker would wait for it. On threads without a bound, a burst of large results would take all cores
//! from the workers. So a few threads of lower priority do it, one piece after another, for all nodes of the process.
//!
//! This file decides nothing about the work: the caller does.

use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread::available_parallelism;

use hopcache_core::limits::LARGE_WORKS_MAX;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

/// Nice value of the threads: when all cores are busy, each gets about a tenth of a worker's share.
const NICE: i32 = 10;

/// Does work on this many bytes. Above `inline_bytes_max` a thread of large work does it, and the caller's worker goes on
/// with other tasks. A caller that is dropped does not end the work.
///
/// A single-threaded runtime, such as the simulator's, does it at once, so that its runs can be repeated.
pub async fn apart_if_large<T: Send + 'static>(
    bytes: usize,
    inline_bytes_max: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match threads() {
        Some(threads) if bytes > inline_bytes_max && has_workers() => {
            threads.spawn_blocking(work).await.unwrap_or_else(|lost| resume_unwind(lost.into_panic()))
        }
        _ => work(),
    }
}

/// As [`apart_if_large`], for a caller that cannot wait: its worker does the work, after its other tasks have moved to
/// another worker.
pub fn in_place_if_large<T>(bytes: usize, inline_bytes_max: usize, work: impl FnOnce() -> T) -> T {
    if bytes > inline_bytes_max && has_workers() { tokio::task::block_in_place(work) } else { work() }
}

fn has_workers() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// The threads. They start with the first work, and end with the process. `None` if the system gives none.
fn threads() -> Option<&'static Runtime> {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let start = || {
        let cores = available_parallelism().map_or(1, usize::from);
        // Its own task is never polled: only its threads for blocking work run.
        Builder::new_current_thread()
            .max_blocking_threads((cores / 2).clamp(1, LARGE_WORKS_MAX))
            .thread_name("hopcache-large")
            .on_thread_start(step_back)
            .build()
            .ok()
    };
    THREADS.get_or_init(start).as_ref()
}

/// An error is ignored: at the usual priority the system shares the cores evenly.
fn step_back() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE);
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn thread() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    /// F45: on a single worker another task goes on while large work is done, on a thread of lower priority. Small work
    /// changes no thread.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_work_keeps_no_worker() {
        let (end, until) = channel();
        let large = tokio::spawn(apart_if_large(2, 1, move || {
            until
                .recv()
                .map(|()| (thread(), rustix::process::getpriority_process(Some(rustix::thread::gettid()))))
        }));
        let beside = tokio::spawn(async { (thread(), apart_if_large(1, 1, thread).await) }).await.unwrap();
        assert_eq!(beside.0, beside.1, "small work stays on its worker");
        end.send(()).unwrap();
        assert_eq!(large.await.unwrap(), Ok(("hopcache-large".to_owned(), Ok(NICE))));
    }

    /// The simulator's runs can be repeated.
    #[tokio::test]
    async fn a_runtime_without_workers_does_the_work_at_once() {
        let here = std::thread::current().id();
        assert_eq!(apart_if_large(2, 1, move || std::thread::current().id()).await, here);
    }

    /// A panic is its caller's.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_reaches_the_caller() {
        let ended = tokio::spawn(apart_if_large(2, 1, || panic!("in large work"))).await;
        assert!(ended.is_err_and(|error| error.is_panic()));
        assert_eq!(apart_if_large(2, 1, || 7).await, 7, "the threads go on");
    }
}
