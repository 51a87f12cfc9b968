//! What proofs of freshness and writes cost and gain, beside `freshness.mode = "ttl"`, over a real Neo4j.
//!
//! Every measurement has new nodes and a new Redis. Arms alternate.

mod arms;
mod cost;
mod figures;
mod hot;
mod mix;
mod noticed;
mod scene;
pub(crate) mod social;

use clap::Subcommand;

/// Options of the benchmarks of freshness.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Reads with a share of writes: hits, runs and times, `proved` beside `ttl`.
    Mix(mix::Options),
    /// The social mix of the other benchmarks on LDBC's graph, warm: `proved` beside `ttl`.
    Social(social::Options),
    /// After what time a write past Hopcache is noticed, and what the watcher costs.
    Noticed(noticed::Options),
    /// The CPU time of a proved hit, and the time that telling adds to a write.
    Cost(cost::Options),
    /// A hot key that is written once a second.
    Hot(hot::Options),
}

/// Runs one.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.bench {
        Bench::Mix(options) => mix::run(options).await,
        Bench::Social(options) => social::run(options).await,
        Bench::Noticed(options) => noticed::run(options).await,
        Bench::Cost(options) => cost::run(options).await,
        Bench::Hot(options) => hot::run(options).await,
    }
}
