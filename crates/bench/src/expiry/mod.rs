//! What clients and the origin notice of an expiry, by strategy: no protection, a mutex, and three rules of
//! early refresh. Open-loop load on three real nodes with a real Redis; the origin is Neo4j or a scripted
//! server behind a proxy that makes it slow and counts its runs.
//!
//! Strategies are configurations ([`strategy`]); this knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`hot`] | one key over many TTLs: latency about its expiries, origin runs per TTL |
//! | [`zipf`] | a mix of keys on a graph with hubs |
//! | [`together`] | many keys loaded within a second: the wave of their refreshes |
//! | [`scene`], [`proxy`], [`delay`], [`graph`] | what runs, how slow the origin is, what is asked |
//! | [`open_loop`], [`dice`], [`told`] | when requests are sent, and what their answers say |
//! | [`lives`], [`figures`] | expiries, windows and percentiles out of the answers |
//! | [`plot`] | charts |

mod delay;
pub(crate) mod dice;
pub(crate) mod figures;
pub(crate) mod graph;
mod hot;
mod lives;
pub(crate) mod open_loop;
pub(crate) mod plot;
pub(crate) mod proxy;
pub(crate) mod scene;
mod strategy;
mod together;
pub(crate) mod told;
mod zipf;

use std::path::PathBuf;

use clap::Subcommand;

use crate::output::Output;
use open_loop::Arrivals;

/// Options of the expiry benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// One hot key over many TTLs, five strategies.
    Hot(hot::Options),
    /// A Zipf mix of queries about persons, on LDBC's graph or the sample graph.
    Zipf(zipf::Options),
    /// Ten thousand keys loaded within a second, with and without TTL jitter.
    Together(together::Options),
}

/// What all workloads share.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Rounds; each measures every arm once, and begins with another one.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// How arrivals are spaced.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    pub(crate) arrivals: Arrivals,
    /// Share by which TTLs are made longer or shorter.
    #[arg(long, default_value_t = 0.1)]
    pub(crate) jitter: f64,
    /// Requests under way at a time at the most, each with a thread; more wait, and their wait counts.
    #[arg(long, default_value_t = 512)]
    pub(crate) threads: usize,
    /// `origin.max_concurrent` of each node.
    #[arg(long, default_value_t = 64)]
    pub(crate) max_concurrent: u32,
    /// Seed of arrivals, keys and delays.
    #[arg(long, default_value_t = 5)]
    pub(crate) seed: u64,
    /// Directory of the report, its raw data and its plots; docs/benchmarks/DATE-WORKLOAD unless said.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// A TrueType font for the plots; DejaVu Sans where Debian puts it unless said.
    #[arg(long)]
    pub(crate) font: Option<PathBuf>,
}

impl Common {
    /// Where the report of a workload goes; before anything is measured.
    pub(crate) fn open(&self, name: &str, title: &str) -> anyhow::Result<Output> {
        Output::open(self.out.as_deref(), self.font.as_deref(), name, title)
    }
}

/// How to read what these workloads leave.
const READING: &str = include_str!("reading.md");

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.workload {
        Workload::Hot(options) => hot::run(options).await,
        Workload::Zipf(options) => zipf::run(options).await,
        Workload::Together(options) => together::run(options).await,
    }
}

/// Places of the arms in the order of this round: each round begins with another one, so that none is
/// always the first on a machine that has just become quiet.
pub(crate) fn turns(arms: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..arms).map(move |place| (place + round) % arms)
}

#[cfg(test)]
mod tests {
    use super::turns;

    #[test]
    fn each_round_begins_with_another_arm() {
        assert_eq!(turns(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(turns(3, 1).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(turns(3, 5).collect::<Vec<_>>(), [2, 0, 1]);
    }
}
