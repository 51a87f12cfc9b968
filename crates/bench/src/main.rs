//! Benchmarks of hopcache, side by side with something. Knows hopcache by its HTTP interface only.

mod bare;
mod hit;
mod load;
mod process;
mod report;

use clap::{Parser, Subcommand};

/// Benchmarks of hopcache.
#[derive(Parser)]
#[command(name = "hopcache-bench", version)]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// CPU time of a hit on its owner, of a forwarded hit, and of a bare axum handler, alternated.
    Hit(hit::Options),
    /// The bare axum handler that `hit` compares with.
    #[command(hide = true)]
    Bare(bare::Options),
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    match Cli::parse().bench {
        Bench::Hit(options) => runtime.block_on(hit::run(&options)),
        Bench::Bare(options) => runtime.block_on(bare::run(&options)),
    }
}
