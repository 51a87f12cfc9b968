//! The ablation: from no cache to hopcache as shipped, one mechanism after another, on workloads as the field publishes
//! them, in closed and open loops. Real Neo4j, real Redis, real nodes; this knows hopcache by its HTTP interface only.
//!
//! | module | decides |
//! |---|---|
//! | [`arms`] | what each arm adds, and its configuration |
//! | [`workloads`] | the graphs, the requests and their order |
//! | [`cache_aside`], [`flights`], [`redis_store`], [`pool`], [`bolt_pool`] | what an application without hopcache does |
//! | [`stage`] | the processes of an arm, and who answers |
//! | [`load`] | when requests are sent |
//! | [`measure`], [`figures`] | the rounds, and what a figure counts |
//! | [`verdict`] | which arms do not help |
//! | [`report`], [`options`] | tables, data, options |

mod arms;
mod bolt_pool;
mod cache_aside;
mod figures;
mod flights;
mod load;
mod measure;
mod options;
mod pool;
mod redis_store;
mod report;
mod stage;
mod verdict;
mod workloads;

pub(crate) use options::Options;

use std::sync::Arc;

use anyhow::Context;

use self::measure::Bench;
use self::options::{Plan, READING};
use self::workloads::graphs::Graphs;
use crate::output::Output;
use hopcache_testbed::neo4j;

/// Runs it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let plan = Plan::of(options)?;
    let mut output = Output::open(options.out.as_deref(), "ablation", "Ablation")?;
    output.say(&format!("about {:.0} minutes, and the time to load the graphs", plan.minutes()));
    let graphs = Graphs::load(&plan.workloads, (plan.scale, plan.seed), &plan.data).await?;
    let measured = everything(&plan, &graphs, &mut output).await;
    graphs.remove().await?;
    measured?;
    output.close(READING)
}

async fn everything(plan: &Plan, graphs: &Graphs, output: &mut Output) -> anyhow::Result<()> {
    let bench = Bench { plan, neo4j: neo4j::pid()? };
    report::open(plan, (&graphs.size(), bench.neo4j), output);
    let mut traces = Vec::new();
    for workload in &plan.workloads {
        let trace = graphs.trace(*workload, plan.seed).with_context(|| workload.name())?;
        traces.push((*workload, Arc::new(trace)));
    }
    output.say("Neo4j's capacity without a cache");
    let workloads = bench.capacities(traces).await?;
    report::workloads(plan, &workloads, output);
    let cells = bench.rounds(&workloads, output).await?;
    output.keep("rounds.csv", &report::rounds_csv(&cells))?;
    output.keep("medians.csv", &report::medians_csv(plan, &cells))?;
    report::tables(plan, &cells, output);
    for line in verdict::section(&cells, plan) {
        output.report.line(&line);
    }
    Ok(())
}
