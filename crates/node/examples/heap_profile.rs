//! A node whose heap is counted by call site, by dhat. It takes the arguments of `hopcache`. When the file that `HEAP_PROFILE_WHEN`
//! names is there, it writes what is allocated at that moment to the file that `HEAP_PROFILE_OUT` names, and runs on.
//!
//! docs/benchmarks/2026-11-26-memory says how it was used. The product has neither dhat nor this allocator.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Frames of each call site: enough to reach the product's own function.
const FRAMES: usize = 24;

fn main() -> ExitCode {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    if let (Some(when), Some(out)) = (named("HEAP_PROFILE_WHEN"), named("HEAP_PROFILE_OUT")) {
        let profiler = dhat::Profiler::builder().file_name(out).trim_backtraces(Some(FRAMES)).build();
        std::thread::spawn(move || {
            while !when.exists() {
                std::thread::sleep(Duration::from_millis(100));
            }
            // dhat writes its file here.
            drop(profiler);
        });
    }
    hopcache::cli::main()
}
