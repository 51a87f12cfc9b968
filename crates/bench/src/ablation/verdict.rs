//! What helps and what does not: each arm beside the one before it, figure by figure. A median counts as better or worse
//! where it differs by more than the rounds of either arm do among themselves, and by more than a share of it.

use std::collections::BTreeSet;

use super::arms::Arm;
use super::figures::{Cells, Column, NEO4J, P99, PER_S, RUNS};
use super::load::{Load, Way};
use super::options::Plan;
use super::workloads::Workload;
use hopcache_testbed::report::Spread;

/// A difference below this share of the arm before is none: rounds of a quiet moment may lie closer than rounds of the
/// whole run.
const SHARE_MIN: f64 = 0.05;

/// A figure that is judged.
struct Judged {
    column: Column,
    more_is_better: bool,
    /// A closed loop sends as fast as it is answered; an open loop's rate is given.
    closed_only: bool,
}

const JUDGED: [Judged; 4] = [
    Judged { column: PER_S, more_is_better: true, closed_only: true },
    Judged { column: P99, more_is_better: false, closed_only: false },
    Judged { column: RUNS, more_is_better: false, closed_only: false },
    Judged { column: NEO4J, more_is_better: false, closed_only: false },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beside {
    Better,
    Same,
    Worse,
}

/// Where an arm is better and worse than the one before.
struct Row {
    arm: Arm,
    before: Arm,
    cells: usize,
    /// By figure: better in, worse in, of so many.
    counts: [[usize; 3]; JUDGED.len()],
    better_on: BTreeSet<Workload>,
}

/// The section of the report, line by line.
pub(super) fn section(cells: &Cells, plan: &Plan) -> Vec<String> {
    let rows: Vec<Row> = {
        let pairs = plan.arms.iter().filter_map(|arm| Some((arm.before(&plan.arms)?, *arm)));
        pairs.map(|pair| row(cells, plan, pair)).collect()
    };
    let mut lines = vec![
        "\n## What does not help\n".to_owned(),
        format!(
            "Each arm beside the one that it adds to: in how many cells (workload × load) its median is better, and in how many worse, by more than the spread of either arm's rounds and by more than {:.0} %.{}\n",
            SHARE_MIN * 100.0,
            if plan.rounds < 3 {
                " With fewer than three rounds a spread says little: differences here may be chance."
            } else {
                ""
            }
        ),
        format!(
            "| arm | beside | {} |",
            JUDGED
                .iter()
                .map(|judged| format!("{}: better, worse, of", judged.column.head))
                .collect::<Vec<_>>()
                .join(" | ")
        ),
        format!("|{}", "---|".repeat(JUDGED.len() + 2)),
    ];
    lines.extend(rows.iter().map(Row::cells));
    lines.push(String::new());
    lines.extend(rows.iter().filter_map(|row| row.sentence(plan)));
    lines
}

fn row(cells: &Cells, plan: &Plan, (before, arm): (Arm, Arm)) -> Row {
    let mut row = Row { arm, before, cells: 0, counts: [[0; 3]; JUDGED.len()], better_on: BTreeSet::new() };
    for (workload, load) in
        plan.workloads.iter().flat_map(|workload| plan.loads.iter().map(move |load| (*workload, *load)))
    {
        row.cells += 1;
        for (judged, counts) in JUDGED.iter().zip(&mut row.counts) {
            if judged.closed_only && !is_closed(load) {
                continue;
            }
            let of = |arm| cells.spread((workload, load, arm), &judged.column);
            let Some((one, other)) = of(before).zip(of(arm)) else { continue };
            let beside = beside(&one, &other, judged.more_is_better);
            counts[0] += usize::from(beside == Beside::Better);
            counts[1] += usize::from(beside == Beside::Worse);
            counts[2] += 1;
            if beside == Beside::Better {
                row.better_on.insert(workload);
            }
        }
    }
    row
}

const fn is_closed(load: Load) -> bool {
    matches!(load.way(), Way::Closed(_))
}

/// A request without an end is worse than any that ends; figures that could not be read say nothing.
fn beside(before: &Spread, arm: &Spread, more_is_better: bool) -> Beside {
    let [one, other] =
        [before, arm].map(|spread| if more_is_better { spread.median } else { -spread.median });
    let spread = (before.max - before.min).max(arm.max - arm.min).max(SHARE_MIN * before.median.abs());
    let differ = match (one.is_finite(), other.is_finite()) {
        (true, true) => (other - one).abs() > spread,
        // Both for ever, or one and not the other.
        _ => one != other && !one.is_nan() && !other.is_nan(),
    };
    match (differ, other > one) {
        (true, true) => Beside::Better,
        (true, false) => Beside::Worse,
        (false, _) => Beside::Same,
    }
}

impl Row {
    fn cells(&self) -> String {
        let counts = self.counts.map(|[better, worse, of]| format!("{better}, {worse}, {of}"));
        format!("| {} | {} | {} |", self.arm.name(), self.before.name(), counts.join(" | "))
    }

    /// What does not help: anywhere, or on some workloads. Nothing where all workloads have something better.
    fn sentence(&self, plan: &Plan) -> Option<String> {
        let (name, before) = (self.arm.name(), self.before.name());
        let worse: Vec<String> = JUDGED
            .iter()
            .zip(&self.counts)
            .filter(|(_, counts)| counts[1] > 0)
            .map(|(judged, counts)| format!("{} in {}", judged.column.head, counts[1]))
            .collect();
        let worse = if worse.is_empty() { String::new() } else { format!("; worse: {}", worse.join(", ")) };
        if self.better_on.is_empty() {
            return Some(format!(
                "- **{name}** helps nowhere: no figure is better than with `{before}` in any of {} cells{worse}.",
                self.cells
            ));
        }
        let without: Vec<&str> = plan
            .workloads
            .iter()
            .filter(|workload| !self.better_on.contains(workload))
            .map(|workload| workload.name())
            .collect();
        (!without.is_empty()).then(|| format!("- {name} does not help on {}{worse}.", without.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Cell, Figures};
    use super::*;

    const fn spread(min: f64, median: f64, max: f64) -> Spread {
        Spread { min, median, max }
    }

    #[test]
    fn a_difference_within_the_spread_is_none() {
        let before = spread(90.0, 100.0, 110.0);
        assert_eq!(beside(&before, &spread(115.0, 121.0, 122.0), true), Beside::Better);
        assert_eq!(beside(&before, &spread(115.0, 121.0, 122.0), false), Beside::Worse);
        assert_eq!(beside(&before, &spread(115.0, 119.0, 122.0), true), Beside::Same);
        assert_eq!(
            beside(&before, &spread(60.0, 121.0, 122.0), true),
            Beside::Same,
            "its own rounds differ more"
        );
        let exact = spread(100.0, 100.0, 100.0);
        assert_eq!(beside(&exact, &spread(104.0, 104.0, 104.0), true), Beside::Same, "too little");
    }

    #[test]
    fn to_end_is_better_than_not_to_end() {
        let (never, ends) = (spread(9.0, f64::INFINITY, f64::INFINITY), spread(9.0, 10.0, 11.0));
        assert_eq!(beside(&never, &ends, false), Beside::Better);
        assert_eq!(beside(&ends, &never, false), Beside::Worse);
        assert_eq!(beside(&never, &never, false), Beside::Same);
        let unknown = spread(f64::NAN, f64::NAN, f64::NAN);
        assert_eq!(beside(&unknown, &ends, false), Beside::Same);
    }

    #[test]
    fn an_arm_that_helps_nowhere_is_named() {
        let plan = Plan {
            workloads: vec![Workload::Rmat],
            arms: vec![Arm::Prefetch, Arm::Gossip, Arm::Scheduler],
            loads: vec![Load::Closed32],
            rounds: 3,
            ..Plan::default()
        };
        let cell = |arm, round, per_s: f64| Cell {
            workload: Workload::Rmat,
            load: Load::Closed32,
            arm,
            round,
            figures: Figures { per_s, ..Figures::default() },
        };
        let rounds = [(Arm::Prefetch, 100.0), (Arm::Gossip, 101.0), (Arm::Scheduler, 200.0)];
        let cells = rounds.into_iter().flat_map(|(arm, per_s)| {
            (0..3_u8).map(move |round| cell(arm, round.into(), per_s + f64::from(round)))
        });
        let text = section(&Cells(cells.collect()), &plan).join("\n");
        assert!(text.contains("**+ gossip** helps nowhere"), "{text}");
        assert!(!text.contains("- + scheduler") && !text.contains("**+ scheduler**"), "{text}");
        assert!(text.contains("| + scheduler | + gossip | 1, 0, 1 |"), "{text}");
    }
}
