//! How clients and the origin notice an expiry, by strategy: a mutex, and three rules of early refresh. Sends open-loop
//! load to three real nodes with a real Redis. The origin is Neo4j or a scripted server, behind a proxy that delays and
//! counts its runs.
//!
//! Strategies are configurations ([`strategy`]); this knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`hot`] | one key over many TTLs: latency about its expiries, origin runs per TTL |
//! | [`scene`], [`proxy`], [`delay`], [`graph`] | the processes, the origin's delay, the queries |
//! | [`open_loop`], [`cache_status`] | when requests are sent, and how answers are read |
//! | [`lifetimes`], [`figures`] | expiries, windows and percentiles from the answers |
//! | [`options`] | options of all workloads, and the order of arms |

pub(crate) mod cache_status;
mod delay;
pub(crate) mod figures;
pub(crate) mod graph;
mod hot;
mod lifetimes;
pub(crate) mod open_loop;
pub(crate) mod options;
pub(crate) mod proxy;
pub(crate) mod scene;
pub(crate) mod strategy;

use clap::Subcommand;

/// Options of the expiry benchmark.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Subcommand)]
enum Workload {
    /// One hot key over many TTLs, four strategies.
    Hot(hot::Options),
}

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    match &options.workload {
        Workload::Hot(options) => hot::run(options).await,
    }
}
