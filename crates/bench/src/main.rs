//! Benchmarks of hopcache, side by side with something. They measure; trials (`crates/trials`) judge. Knows hopcache by
//! its protocols only.

mod ablation;
mod apps;
mod bare;
mod bolt;
mod cache_status;
mod cold;
mod cold_clients;
mod delayed;
mod expiry;
mod figures;
mod fresh;
mod graph;
mod hit;
mod hot;
mod lifetimes;
mod load;
mod memory;
mod miss;
mod prefetch;
mod scripted;
mod strategy;

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
    /// CPU time of a hit over Bolt, over HTTP, and of a bare server of either protocol, alternated.
    BoltHit(hot::Options),
    /// CPU time of a miss, beside Neo4j alone and beside a proxy that does only what nobody can leave out.
    Miss(miss::Options),
    /// A server that the others are compared with.
    #[command(hide = true)]
    Yardstick(bare::Options),
    /// Thousands of clients ask one cold key at the same moment.
    Cold(cold::Options),
    /// One process' share of the clients of `cold`.
    #[command(hide = true)]
    ColdClients(cold_clients::Options),
    /// Resident memory of a node that holds many entries.
    Memory(memory::Options),
    /// How clients and the origin notice an expiry, by strategy.
    Expiry(expiry::Options),
    /// What proofs of freshness gain and cost, and when writes are noticed, over a real Neo4j.
    Fresh(fresh::Options),
    /// From no cache to the shipped defaults, one mechanism after another, on four kinds of workload.
    Ablation(Box<ablation::Options>),
    /// Traffic of four modelled applications by an official driver, at Neo4j alone and at nodes before it.
    Apps(Box<apps::Options>),
    /// The use of prefetch on session walks, and its cost elsewhere.
    Prefetch(Box<prefetch::Options>),
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    match Cli::parse().bench {
        Bench::Hit(options) => runtime.block_on(hit::run(&options)),
        Bench::BoltHit(options) => runtime.block_on(hit::over_bolt(&options)),
        Bench::Miss(options) => runtime.block_on(miss::run(&options)),
        Bench::Yardstick(options) => runtime.block_on(bare::run(&options)),
        Bench::Cold(options) => runtime.block_on(cold::run(&options)),
        Bench::ColdClients(options) => runtime.block_on(cold_clients::run(&options)),
        Bench::Memory(options) => runtime.block_on(memory::run(&options)),
        Bench::Expiry(options) => runtime.block_on(expiry::run(&options)),
        Bench::Fresh(options) => runtime.block_on(fresh::run(&options)),
        Bench::Ablation(options) => runtime.block_on(ablation::run(&options)),
        Bench::Apps(options) => runtime.block_on(apps::run(&options)),
        Bench::Prefetch(options) => runtime.block_on(prefetch::run(&options)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
