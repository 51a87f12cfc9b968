//! The program `hopcache`: one call into the library, and its exit code.

use std::process::ExitCode;

/// Entries come and go on many threads for ever. With glibc's allocator a node of 256 MiB held 389 MiB after a
/// million entries and grew on; with this one it stays where it is (docs/benchmarks/2026-11-21-memory).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hopcache::cli::main()
}
