//! What a report of chaos says: which faults happened, what each cost, and which promises were broken. It
//! judges nothing.

use std::collections::BTreeMap;

use super::checks::{Judgement, PROMISES, Violation};
use crate::arena::fault::Fault;
use crate::arena::history::{Asked, FaultSeen, Told};
use crate::report::{Report, Spread};

/// So long about a violation the history is shown.
const AROUND_US: u64 = 300_000;
/// Violations that are shown whole.
const SHOWN_MAX: usize = 10;

pub(super) fn tell(told: &Told, judgement: &Judgement, has_filter: bool, report: &mut Report) {
    totals(told, report);
    faults(told, judgement, has_filter, report);
    report.line(
        "\n| promise | judged without an excuse, from the first fault on | violations |\n|---|---|---|",
    );
    let mut broken: BTreeMap<&str, usize> = BTreeMap::new();
    for violation in &judgement.violations {
        *broken.entry(violation.promise).or_default() += 1;
    }
    for promise in PROMISES {
        let judged = judgement.judged.get(promise).copied().unwrap_or(0);
        report.line(&format!("| {promise} | {judged} | {} |", broken.get(promise).copied().unwrap_or(0)));
    }
    if !judgement.next_values_us.is_empty() {
        let next: Vec<f64> = judgement.next_values_us.iter().map(|us| as_ms(*us)).collect();
        report.line(&format!(
            "\nlongest answer of a living node about each of {} lone kills, ms: {}",
            next.len(),
            Spread::of(&next)
        ));
    }
    report.line(&format!("\nviolations: {}", judgement.violations.len()));
    judgement.violations.iter().take(SHOWN_MAX).for_each(|violation| shown(violation, told, report));
}

fn totals(told: &Told, report: &mut Report) {
    let mut by_status: BTreeMap<u16, usize> = BTreeMap::new();
    told.asked.iter().for_each(|asked| *by_status.entry(asked.status).or_default() += 1);
    let statuses: Vec<String> =
        by_status.iter().map(|(status, count)| format!("{count} × {status}")).collect();
    let whole = told.purges.iter().filter(|purge| purge.is_whole).count();
    report.line(&format!(
        "{} requests (status, 0: the connection broke: {}), {} origin runs, {} purges, {whole} of them heard by all",
        told.asked.len(),
        statuses.join(", "),
        told.runs.len(),
        told.purges.len()
    ));
    let idle: Vec<&Asked> = told.asked.iter().filter(|asked| asked.was_closed_idle).collect();
    let writes = idle.iter().filter(|asked| asked.is_write).count();
    report.line(&format!(
        "kept connections that were closed before a byte of the answer: {} reads asked again, {writes} writes not",
        idle.len() - writes
    ));
}

fn faults(told: &Told, judgement: &Judgement, has_filter: bool, report: &mut Report) {
    let calm = told.asked.iter().filter(|asked| !told.faults.iter().any(|fault| is_in(asked, fault)));
    let calm: Vec<&Asked> = calm.collect();
    report.line("\n| fault | times | errors until 2 s after | P99 ms | max ms | extra runs | answers that a purge had not reached | evidence of the last |\n|---|---|---|---|---|---|---|---|");
    report.line(&format!("| none | | {} | {} | | |", errors(&calm), times(&calm)));
    for fault in Fault::ALL {
        let happened: Vec<&FaultSeen> = told.faults.iter().filter(|seen| seen.fault == fault).collect();
        if happened.is_empty() {
            let why =
                if fault.is_cut() && !has_filter { "no packet filter here" } else { "its turn did not come" };
            report.line(&format!("| {fault:?} | 0 | | | | | | {why} |"));
            continue;
        }
        let during: Vec<&Asked> =
            told.asked.iter().filter(|asked| happened.iter().any(|seen| is_in(asked, seen))).collect();
        report.line(&format!(
            "| {fault:?} | {} | {} | {} | {} | {} | {} |",
            happened.len(),
            errors(&during),
            times(&during),
            judgement.extra_runs.get(&fault).unwrap_or(&0),
            judgement.late_hearings.get(&fault).unwrap_or(&0),
            happened.last().map_or("", |seen| &seen.evidence)
        ));
    }
}

/// Overlaps the fault, or what follows at once, such as back-off.
fn is_in(asked: &Asked, fault: &FaultSeen) -> bool {
    asked.sent_us <= fault.ended_us + 2_000_000 && asked.ended_us >= fault.began_us
}

fn errors(asked: &[&Asked]) -> String {
    format!("{}, of {}", asked.iter().filter(|asked| asked.status != 202).count(), asked.len())
}

/// P99 and the longest, as two cells.
fn times(asked: &[&Asked]) -> String {
    let mut took: Vec<u64> = asked.iter().map(|asked| asked.ended_us - asked.sent_us).collect();
    took.sort_unstable();
    let at = |place: usize| took.get(place).copied().map_or(0.0, as_ms);
    format!("{:.1} | {:.1}", at(took.len() * 99 / 100), at(took.len().saturating_sub(1)))
}

fn shown(violation: &Violation, told: &Told, report: &mut Report) {
    let Violation { promise, at_us, what } = violation;
    report.line(&format!("\n{promise} at {:.3} s: {what}\n", as_ms(*at_us) / 1e3));
    let about = |us: u64| us + AROUND_US >= *at_us && us <= at_us + AROUND_US;
    told.faults
        .iter()
        .filter(|fault| fault.began_us <= *at_us && fault.ended_us + 5_000_000 >= *at_us)
        .for_each(|fault| report.line(&format!("    {fault:?}")));
    let key = told.asked.iter().find(|asked| asked.sent_us == *at_us).map(|asked| asked.key);
    let key = key.or_else(|| told.runs.iter().find(|run| run.began_us == *at_us).map(|run| run.key));
    let of_key = |other: i64| key.is_none_or(|key| key == other);
    told.purges
        .iter()
        .filter(|each| of_key(each.key) && about(each.asked_us))
        .take(5)
        .for_each(|each| report.line(&format!("    {each:?}")));
    told.runs
        .iter()
        .filter(|run| of_key(run.key) && about(run.began_us))
        .take(10)
        .for_each(|run| report.line(&format!("    {run:?}")));
    told.asked
        .iter()
        .filter(|asked| of_key(asked.key) && about(asked.sent_us))
        .take(10)
        .for_each(|asked| report.line(&format!("    {asked:?}")));
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn as_ms(us: u64) -> f64 {
    us as f64 / 1e3
}
