//! The plots: a figure over the arms, for each workload. Decides no figure.

use std::path::PathBuf;

use super::figures::{Cells, Column, NEO4J, P99, PER_S};
use super::load::{Load, Way};
use super::options::Plan;
use super::workloads::Workload;
use crate::output::Output;
use crate::plot::{Chart, Scale, Series};

/// One figure in one plot.
struct Kind {
    stem: &'static str,
    title: &'static str,
    up: &'static str,
    scale: Scale,
    column: Column,
    is_wanted: fn(Load) -> bool,
}

const KINDS: [Kind; 3] = [
    Kind {
        stem: "throughput",
        title: "requests/s in closed loops",
        up: "requests/s, median of the rounds",
        scale: Scale::Logarithmic,
        column: PER_S,
        is_wanted: |load| matches!(load.way(), Way::Closed(_)),
    },
    Kind {
        stem: "p99",
        title: "P99 (no point: 1 % or more had no answer)",
        up: "P99 in ms, median of the rounds",
        scale: Scale::Logarithmic,
        column: P99,
        is_wanted: |_| true,
    },
    Kind {
        stem: "neo4j-cpu",
        title: "CPU time of Neo4j for each request",
        up: "µs, median of the rounds",
        scale: Scale::Logarithmic,
        column: NEO4J,
        is_wanted: |_| true,
    },
];

pub(super) fn draw(plan: &Plan, cells: &Cells, output: &mut Output) -> anyhow::Result<()> {
    output.report.line("\n## Plots");
    // A point in a name would be taken for the begin of its extension.
    for workload in &plan.workloads {
        for kind in &KINDS {
            let chart = chart(plan, cells, *workload, kind);
            if chart.series.iter().all(|series| series.points.is_empty()) {
                continue;
            }
            output.draw(
                &PathBuf::from(format!("{}-{}", workload.name().replace('.', "_"), kind.stem)),
                &chart,
            )?;
        }
    }
    Ok(())
}

/// A line for each load. Where a figure is unknown or without an end there is no point.
#[expect(clippy::cast_precision_loss, reason = "a few arms")]
fn chart(plan: &Plan, cells: &Cells, workload: Workload, kind: &Kind) -> Chart {
    let of_load = |load: Load| {
        let points = plan.arms.iter().enumerate().filter_map(|(place, arm)| {
            let median = cells.spread((workload, load, *arm), &kind.column)?.median;
            median.is_finite().then_some((place as f64, median))
        });
        Series { name: load.name().to_owned(), points: points.collect() }
    };
    Chart {
        title: format!("{}: {}", workload.name(), kind.title),
        across: "arms, each with what the one before has",
        up: kind.up,
        scale: kind.scale,
        names: plan.arms.iter().map(|arm| arm.short().to_owned()).collect(),
        series: plan.loads.iter().copied().filter(|load| (kind.is_wanted)(*load)).map(of_load).collect(),
    }
}
