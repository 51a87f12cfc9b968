//! The report and the CSV of the ablation. It decides no figure and judges nothing.

use std::fmt::Write as _;

use super::arms::Arm;
use super::figures::{COLUMNS, Cells, Column, MORE, NEO4J, P99, PER_S};
use super::load::{Load, Way};
use super::measure::{Workloads, rate};
use super::options::Plan;
use super::workloads::Workload;
use crate::expiry::scene::NODES;
use crate::output::Output;

/// The setting, before anything is measured.
pub(super) fn open(plan: &Plan, (size, neo4j): (&str, Option<u32>), output: &mut Output) {
    output.report.line(&format!(
        "{size}; {NODES} nodes, or {NODES} application processes without nodes; TTL {} s in every arm; {} rounds, arms in turn, new processes and an empty Redis for each arm and workload in a round; {} s of load before the first measurement, then each load for {} s; open loops: Poisson arrivals, at most {} requests under way; Neo4j, Redis, nodes and clients share the machine; CPU of Neo4j: {}",
        plan.ttl.as_secs(),
        plan.rounds,
        plan.warm.as_secs_f64(),
        plan.span.as_secs_f64(),
        plan.under_way_max,
        neo4j.map_or("unknown, it does not run on this machine".to_owned(), |pid| format!("of process {pid}, by /proc")),
    ));
    if cfg!(debug_assertions) {
        output.report.line("\n**A debug build: no figure here is a result.**");
    }
    output.report.line("\n## Arms\n");
    output.report.line("Each arm has what the arm before it has, and what is said here; the first two, `hopcache, caching off` and `hopcache, refresh off` begin anew:\n");
    for arm in &plan.arms {
        output.report.line(&format!("- **{}** (`{}`): {}.", arm.name(), arm.short(), arm.text()));
    }
}

/// What Neo4j can do alone, and the rates that follow.
pub(super) fn workloads(plan: &Plan, workloads: &Workloads, output: &mut Output) {
    let open: Vec<(Load, u32)> = plan
        .loads
        .iter()
        .filter_map(|load| match load.way() {
            Way::Open(percent) => Some((*load, percent)),
            Way::Closed(_) => None,
        })
        .collect();
    let head: String = open.iter().map(|(load, _)| format!(" {} requests/s |", load.name())).collect();
    output.report.line("\n## Workloads\n");
    output.report.line(&format!(
        "| workload | requests | capacity without a cache over Bolt, 32 clients, requests/s |{head} what is asked |"
    ));
    output.report.line(&format!("|{}", "---|".repeat(4 + open.len())));
    for (workload, ready) in workloads {
        let rates: String =
            open.iter().map(|(_, percent)| format!(" {} |", rate(ready.capacity, *percent))).collect();
        output.report.line(&format!(
            "| {} | {} | {:.0} |{rates} {} |",
            workload.name(),
            ready.trace.size(),
            ready.capacity,
            workload.text()
        ));
    }
}

/// One table for each figure that tells most, then everything.
pub(super) fn tables(plan: &Plan, cells: &Cells, output: &mut Output) {
    let closed = last(plan, |way| matches!(way, Way::Closed(_)));
    let open = plan.loads.iter().find(|load| **load == Load::Open80).copied();
    let open = open.or_else(|| last(plan, |way| matches!(way, Way::Open(_))));
    output.report.line("\n## In short\n\nMedian of the rounds (min–max).");
    for (load, column) in [(closed, &PER_S), (open, &P99), (open, &NEO4J)] {
        let Some(load) = load else { continue };
        short(plan, cells, (load, column), output);
    }
    output.report.line("\n## Everything\n\nMedian of the rounds (min–max); errors and drops of all rounds together. README.md says how each figure is made.");
    for workload in &plan.workloads {
        output.report.line(&format!("\n### {}", workload.name()));
        for load in &plan.loads {
            table(plan, cells, (*workload, *load), output);
        }
    }
}

fn last(plan: &Plan, is_wanted: impl Fn(Way) -> bool) -> Option<Load> {
    plan.loads.iter().copied().rfind(|load| is_wanted(load.way()))
}

/// Arms down, workloads across.
fn short(plan: &Plan, cells: &Cells, (load, column): (Load, &Column), output: &mut Output) {
    output.report.line(&format!("\n{}, {}:\n", column.head, load.name()));
    let names: Vec<&str> = plan.workloads.iter().map(|workload| workload.name()).collect();
    output.report.line(&format!("| arm | {} |", names.join(" | ")));
    output.report.line(&format!("|{}", "---|".repeat(1 + names.len())));
    for arm in &plan.arms {
        let of = |workload: &Workload| shown(cells, (*workload, load, *arm), column);
        let figures: Vec<String> = plan.workloads.iter().map(of).collect();
        output.report.line(&format!("| {} | {} |", arm.name(), figures.join(" | ")));
    }
}

fn shown(cells: &Cells, at: (Workload, Load, Arm), column: &Column) -> String {
    cells.spread(at, column).map_or_else(String::new, |spread| column.spread(spread))
}

fn table(plan: &Plan, cells: &Cells, (workload, load): (Workload, Load), output: &mut Output) {
    let heads: Vec<&str> = COLUMNS.iter().map(|column| column.head).collect();
    output.report.line(&format!("\n{}, {}:\n", workload.name(), load.name()));
    output.report.line(&format!("| arm | {} | errors | dropped |", heads.join(" | ")));
    output.report.line(&format!("|{}", "---|".repeat(3 + heads.len())));
    for arm in &plan.arms {
        let at = (workload, load, *arm);
        let figures: Vec<String> = COLUMNS.iter().map(|column| shown(cells, at, column)).collect();
        output.report.line(&format!(
            "| {} | {} | {:.0} | {:.0} |",
            arm.name(),
            figures.join(" | "),
            cells.sum(at, |all| all.errors),
            cells.sum(at, |all| all.dropped)
        ));
    }
}

/// Every measurement.
pub(super) fn rounds_csv(cells: &Cells) -> String {
    let columns = || COLUMNS.iter().chain(&MORE);
    let heads: Vec<&str> = columns().map(|column| column.csv).collect();
    let mut text = format!("workload,load,arm,round,{}\n", heads.join(","));
    for cell in &cells.0 {
        let figures: Vec<String> =
            columns().map(|column| format!("{:.4}", (column.of)(&cell.figures))).collect();
        let _ = writeln!(
            text,
            "{},{},{},{},{}",
            cell.workload.name(),
            cell.load.name(),
            cell.arm.short(),
            cell.round + 1,
            figures.join(",")
        );
    }
    text
}

/// Each figure's median, least and greatest.
pub(super) fn medians_csv(plan: &Plan, cells: &Cells) -> String {
    let mut text = "workload,load,arm,figure,median,min,max\n".to_owned();
    for (workload, load) in
        plan.workloads.iter().flat_map(|workload| plan.loads.iter().map(move |load| (*workload, *load)))
    {
        for (arm, column) in
            plan.arms.iter().flat_map(|arm| COLUMNS.iter().chain(&MORE).map(move |column| (*arm, column)))
        {
            let Some(spread) = cells.spread((workload, load, arm), column) else { continue };
            let _ = writeln!(
                text,
                "{},{},{},{},{:.4},{:.4},{:.4}",
                workload.name(),
                load.name(),
                arm.short(),
                column.csv,
                spread.median,
                spread.min,
                spread.max
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Cell, Figures};
    use super::*;

    #[test]
    fn every_row_has_a_value_for_each_column() {
        let cell = |round, per_s: f64| Cell {
            workload: Workload::Rmat,
            load: Load::Open80,
            arm: Arm::All,
            round,
            figures: Figures { per_s, neo4j_us: f64::NAN, ..Figures::default() },
        };
        let cells = Cells(vec![cell(0, 10.0), cell(1, 30.0), cell(2, 20.0)]);
        let csv = rounds_csv(&cells);
        assert_eq!(csv.lines().count(), 4);
        let commas: Vec<usize> = csv.lines().map(|line| line.matches(',').count()).collect();
        assert!(commas.iter().all(|count| *count == commas[0]), "{csv}");
        let plan = Plan {
            workloads: vec![Workload::Rmat],
            arms: vec![Arm::NoCache, Arm::All],
            loads: vec![Load::Open80],
            ..Plan::default()
        };
        let medians = medians_csv(&plan, &cells);
        assert!(medians.contains("rmat,open-80,all,per_s,20.0000,10.0000,30.0000\n"), "{medians}");
        assert_eq!(
            medians.lines().count(),
            1 + COLUMNS.len() + MORE.len(),
            "what was not measured has no line"
        );
    }
}
