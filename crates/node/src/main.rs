//! The program `hopcache`: one call into the library, and its exit code.

use std::process::ExitCode;

/// Entries come and go on many threads for ever. With glibc's allocator a node of 256 MiB held 389 MiB after a
/// million entries and grew on; with this one it stays where it is (docs/benchmarks/2026-11-21-memory).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    without_huge_pages();
    hopcache::cli::main()
}

/// The allocator asks the kernel for pages of 2 MiB, and a node whose memory is small and spread over many threads
/// then holds whole ones for a few bytes each: 33 MiB idle instead of 16, and 70 instead of 43 more for 10,000 waiting
/// clients over three nodes. A kernel that cannot be told so, or knows no such pages, changes nothing that a client
/// sees, so its error is passed over.
fn without_huge_pages() {
    let _outcome = rustix::thread::disable_transparent_huge_pages(true);
}
