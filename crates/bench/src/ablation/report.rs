//! The tables of the ablation. It decides no figure and judges nothing.

use clap::ValueEnum;
use hopcache_testbed::report::{Report, Spread};

use super::arms::Arm;
use super::stage::Figures;
use super::workload::Workload;
use super::{Cells, Load, Plan, Way, Workloads, name_of};
use crate::delayed::NODES;

/// A column: its head, its figure, and the digits behind the point.
struct Column(&'static str, fn(&Figures) -> f64, usize);

/// The columns of the tables.
const COLUMNS: [Column; 10] = [
    Column("requests/s", |all| all.per_s, 0),
    Column("P50 ms", |all| all.tail_ms[0], 2),
    Column("P95 ms", |all| all.tail_ms[1], 1),
    Column("P99 ms", |all| all.tail_ms[2], 1),
    Column("hits %", |all| all.hits, 1),
    Column("runs per request", |all| all.runs, 3),
    Column("Neo4j CPU µs", |all| all.cpu_us[0], 0),
    Column("nodes' CPU µs", |all| all.cpu_us[1], 0),
    Column("Redis' CPU µs", |all| all.cpu_us[2], 0),
    Column("clients' CPU µs", |all| all.cpu_us[3], 0),
];
/// Those that tell most, each under one load.
const SHORT: [(usize, Load); 3] = [(0, Load::Closed32), (3, Load::Open80), (6, Load::Open80)];

/// The setting, before anything is measured.
pub(super) fn open(plan: &Plan<'_>, size: &str, report: &mut Report) {
    let options = plan.options;
    report.line(&format!(
        "{size}; {NODES} nodes, or {NODES} application processes without nodes; TTL {} s in every arm; {} rounds, arms in turn, new processes and an empty Redis for each arm and workload in a round; {} s of load before the first measurement, then each load for {} s; open loops: Poisson arrivals, at most {} requests under way; Neo4j, Redis, nodes and clients share the machine; CPU of Neo4j: {}",
        options.ttl,
        plan.rounds,
        options.warm,
        options.seconds,
        options.under_way,
        if plan.neo4j.is_some() { "by /proc" } else { "unknown, it does not run on this machine" },
    ));
    if cfg!(debug_assertions) {
        report.line("\n**A debug build: no figure here is a result.**");
    }
    report.line("\n## Arms\n");
    for arm in &options.arms {
        let help = arm.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        report.line(&format!("- **{}**: {}.", name_of(*arm), help.unwrap_or_default()));
    }
}

/// What Neo4j can do alone, and the rates that follow.
pub(super) fn workloads(plan: &Plan<'_>, workloads: &Workloads, report: &mut Report) {
    let shares = plan.loads.iter().filter_map(|load| match load.way() {
        Way::Open(share) => Some((*load, share)),
        Way::Closed(_) => None,
    });
    let open: Vec<(Load, f64)> = shares.collect();
    let head: String = open.iter().map(|(load, _)| format!(" {} requests/s |", name_of(*load))).collect();
    report.line(&format!(
        "\n## Workloads\n\n| workload | requests | capacity without a cache over Bolt, 32 clients, requests/s |{head} what is asked |"
    ));
    report.line(&format!("|{}", "---|".repeat(4 + open.len())));
    for (workload, (trace, capacity)) in workloads {
        let rates: String = open.iter().map(|(_, share)| format!(" {:.0} |", capacity * share)).collect();
        let (name, size) = (name_of(*workload), trace.size());
        report.line(&format!("| {name} | {size} | {capacity:.0} |{rates} {} |", workload.text()));
    }
}

/// One table for each figure that tells most, then everything.
pub(super) fn tables(plan: &Plan<'_>, cells: &Cells, report: &mut Report) {
    report.line("\n## In short\n\nMedian of the rounds (min–max).");
    for (column, load) in SHORT.iter().filter(|(_, load)| plan.loads.contains(load)) {
        let column = &COLUMNS[*column];
        let names: Vec<String> = plan.workloads.iter().copied().map(name_of).collect();
        report.line(&format!("\n{}, {}:\n\n| arm | {} |", column.0, name_of(*load), names.join(" | ")));
        report.line(&format!("|{}", "---|".repeat(1 + names.len())));
        for arm in &plan.options.arms {
            let of = |workload: &Workload| shown(cells, (*workload, *load, *arm), column);
            let figures: Vec<String> = plan.workloads.iter().map(of).collect();
            report.line(&format!("| {} | {} |", name_of(*arm), figures.join(" | ")));
        }
    }
    report
        .line("\n## Everything\n\nMedian of the rounds (min–max); errors and drops of all rounds together.");
    let heads: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    for workload in &plan.workloads {
        for load in &plan.loads {
            report.line(&format!("\n### {}, {}\n", name_of(*workload), name_of(*load)));
            report.line(&format!("| arm | {} | errors | dropped |", heads.join(" | ")));
            report.line(&format!("|{}", "---|".repeat(3 + heads.len())));
            for arm in &plan.options.arms {
                let at = (*workload, *load, *arm);
                let figures: Vec<String> = COLUMNS.iter().map(|column| shown(cells, at, column)).collect();
                let sum = |of: fn(&Figures) -> f64| cells.get(&at).into_iter().flatten().map(of).sum::<f64>();
                let (errors, dropped) = (sum(|all| all.errors), sum(|all| all.dropped));
                let (name, figures) = (name_of(*arm), figures.join(" | "));
                report.line(&format!("| {name} | {figures} | {errors:.0} | {dropped:.0} |"));
            }
        }
    }
}

/// Median (min–max) over the rounds.
fn shown(cells: &Cells, at: (Workload, Load, Arm), Column(_, of, digits): &Column) -> String {
    let Some(rounds) = cells.get(&at) else { return String::new() };
    let Spread { min, median, max } = Spread::of(&rounds.iter().map(of).collect::<Vec<_>>());
    let show = |value: f64| match value {
        _ if value.is_nan() => "–".to_owned(),
        _ if value.is_infinite() => "∞".to_owned(),
        _ => format!("{value:.digits$}"),
    };
    let [median, min, max] = [median, min, max].map(show);
    if min == max { median } else { format!("{median} ({min}–{max})") }
}
