//! Trials of hopcache: real processes under load, with faults, judged by the promises (I1 to I13). A trial ends with
//! exit code 1 if a promise is broken. Nodes run with the shipped defaults, prefetch included.
//!
//! Trials judge; benchmarks (`crates/bench`) measure. Both know hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`chaos`] | a seeded schedule of faults; judges every request and run |
//! | [`checks`] | which recorded histories break a promise |
//! | [`soak`] | mixed load with faults for a chosen time; memory and counters |
//! | [`roll`] | a rolling restart |
//! | [`bulk`] | hits of readers beside a bulk upsert of another label |
//! | [`ended`] | answers from before a write, where the run behind the write fails |
//! | [`lost_updates`] | transactions that read through the cache, in outages and beside writes past Hopcache |
//! | [`outage`] | what the drivers of four languages feel of an outage of Neo4j |
//! | [`frameworks`] | what frameworks on top of the drivers see, beside Neo4j |
//! | [`balancer`], [`seconds`], [`stage`] | HAProxy before the nodes; a history by the second; nodes before a Neo4j of their own |

mod balancer;
mod bulk;
mod chaos;
mod checks;
mod ended;
mod frameworks;
mod lost_updates;
mod outage;
mod roll;
mod second_pass;
mod seconds;
mod soak;
mod stage;

use clap::{Parser, Subcommand};

/// Trials of hopcache: each exits 1 where a promise is broken.
#[derive(Parser)]
#[command(name = "hopcache-trials", version)]
struct Cli {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Subcommand)]
enum Trial {
    /// A seeded schedule of faults under load; afterwards every request and every origin run is judged.
    Chaos(chaos::Options),
    /// Mixed load with faults on a timer; then memory and the counters' identities are judged.
    Soak(soak::Options),
    /// A rolling restart of three nodes behind a load balancer.
    Roll(roll::Options),
    /// Hits of readers before, during and after a bulk upsert of another label.
    Bulk(bulk::Options),
    /// Answers older than a write whose next run fails while Neo4j is healthy.
    Ended(ended::Options),
    /// Updates that are lost because a transaction has read an old value.
    LostUpdates(lost_updates::Options),
    /// Cached reads of four drivers while Neo4j is stopped, frozen or black-holed.
    Outage(outage::Options),
    /// What frameworks on top of Neo4j's drivers see through hopcache, beside what they see at Neo4j.
    Frameworks(frameworks::Options),
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    match Cli::parse().trial {
        Trial::Chaos(options) => runtime.block_on(chaos::run(&options)),
        Trial::Soak(options) => runtime.block_on(soak::run(&options)),
        Trial::Roll(options) => runtime.block_on(roll::run(&options)),
        Trial::Bulk(options) => runtime.block_on(bulk::run(&options)),
        Trial::Ended(options) => runtime.block_on(ended::run(&options)),
        Trial::LostUpdates(options) => runtime.block_on(lost_updates::run(&options)),
        Trial::Outage(options) => runtime.block_on(outage::run(&options)),
        Trial::Frameworks(options) => runtime.block_on(frameworks::run(&options)),
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
