//! Benchmarks of hopcache, side by side with something. Knows hopcache by its HTTP interface only.

mod arena;
mod bare;
#[path = "../../../tests/support/bolt_bytes.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "shared with the tests, which use all of it; only what reads is used here, and it never panics"
)]
mod bolt_bytes;
mod bolt_origin;
#[path = "../../../tests/support/bolt_proxy.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests, which use all of it")]
mod bolt_proxy;
mod chaos;
mod cold;
mod cold_clients;
mod dashboard;
mod expiry;
mod hit;
mod living;
mod load;
mod memory;
mod metrics;
mod neo4j;
mod output;
mod paced;
mod prefetch;
mod process;
mod report;
mod slow_clients;
mod soak;
#[path = "../../../tests/support/tcp_proxy.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "shared with the tests, which use all of it; only the start may panic, where no port is free"
)]
mod tcp_proxy;

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
    /// Thousands of clients ask one cold key at the same moment.
    Cold(cold::Options),
    /// One process' share of the clients of `cold`.
    #[command(hide = true)]
    ColdClients(cold_clients::Options),
    /// Hits at a fixed rate, without and with slow clients beside them, alternated.
    SlowClients(slow_clients::Options),
    /// Resident memory of a node that holds many entries.
    Memory(memory::Options),
    /// What clients and the origin notice of an expiry, by strategy.
    Expiry(expiry::Options),
    /// Mixed load with faults on a timer; then the counters' identities.
    Soak(soak::Options),
    /// The dashboard's queries at a real Prometheus, and a picture of them.
    Dashboard(dashboard::Options),
    /// A seeded schedule of faults under load; every request and run is judged afterwards.
    Chaos(chaos::Options),
    /// What prefetch is worth on session walks, what it costs elsewhere, and how nodes learn from each other.
    Prefetch(Box<prefetch::Options>),
    /// A rolling restart of three nodes behind a load balancer.
    Roll(living::roll::Options),
    /// From three nodes to five and back under load.
    Scale(living::scale::Options),
    /// How soon a dead node is out of routing, and whether a busy one is suspected.
    Detect(living::detect::Options),
    /// The store killed, emptied, stalled and failed over to a lagging replica, around a late write.
    Failover(living::failover::Options),
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    match Cli::parse().bench {
        Bench::Hit(options) => runtime.block_on(hit::run(&options)),
        Bench::Bare(options) => runtime.block_on(bare::run(&options)),
        Bench::Cold(options) => runtime.block_on(cold::run(&options)),
        Bench::ColdClients(options) => runtime.block_on(cold_clients::run(&options)),
        Bench::SlowClients(options) => runtime.block_on(slow_clients::run(&options)),
        Bench::Memory(options) => runtime.block_on(memory::run(&options)),
        Bench::Expiry(options) => runtime.block_on(expiry::run(&options)),
        Bench::Soak(options) => runtime.block_on(soak::run(&options)),
        Bench::Dashboard(options) => runtime.block_on(dashboard::run(&options)),
        Bench::Chaos(options) => runtime.block_on(chaos::run(&options)),
        Bench::Prefetch(options) => runtime.block_on(prefetch::run(&options)),
        Bench::Roll(options) => runtime.block_on(living::roll::run(&options)),
        Bench::Scale(options) => runtime.block_on(living::scale::run(&options)),
        Bench::Detect(options) => runtime.block_on(living::detect::run(&options)),
        Bench::Failover(options) => runtime.block_on(living::failover::run(&options)),
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
