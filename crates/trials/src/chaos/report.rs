//! The report of chaos: which faults happened, their cost, and which promises were broken. This module judges nothing.

use std::collections::BTreeMap;

use crate::checks::{Judgement, PROMISES, Violation};
use hopcache_testbed::cluster::fault::Fault;
use hopcache_testbed::cluster::history::{FaultRecord, History, RequestRecord};
use hopcache_testbed::report::{Report, Spread};

/// The report shows this much of the history around a violation.
const AROUND_US: u64 = 300_000;
/// Violations that are shown whole.
const SHOWN_MAX: usize = 10;

pub(super) fn write(history: &History, judgement: &Judgement, has_filter: bool, report: &mut Report) {
    totals(history, report);
    faults(history, judgement, has_filter, report);
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
    judgement.violations.iter().take(SHOWN_MAX).for_each(|violation| shown(violation, history, report));
}

fn totals(history: &History, report: &mut Report) {
    let mut by_status: BTreeMap<u16, usize> = BTreeMap::new();
    history.requests.iter().for_each(|request| *by_status.entry(request.status).or_default() += 1);
    let statuses: Vec<String> =
        by_status.iter().map(|(status, count)| format!("{count} × {status}")).collect();
    let undemanded = history.runs.iter().filter(|run| !run.is_demand).count();
    let whole = history.purges.iter().filter(|purge| purge.is_whole).count();
    report.line(&format!(
        "{} requests (status, 0: the connection broke: {}), {} origin runs, {undemanded} of them of the nodes' own accord (prefetch), {} purges, {whole} of them heard by all",
        history.requests.len(),
        statuses.join(", "),
        history.runs.len(),
        history.purges.len()
    ));
    let idle: Vec<&RequestRecord> =
        history.requests.iter().filter(|request| request.was_closed_idle).collect();
    let writes = idle.iter().filter(|request| request.is_write).count();
    report.line(&format!(
        "kept connections that were closed before a byte of the answer: {} reads asked again, {writes} writes not",
        idle.len() - writes
    ));
}

fn faults(history: &History, judgement: &Judgement, has_filter: bool, report: &mut Report) {
    let calm =
        history.requests.iter().filter(|request| !history.faults.iter().any(|fault| is_in(request, fault)));
    let calm: Vec<&RequestRecord> = calm.collect();
    report.line("\n| fault | times | errors until 2 s after | P99 ms | max ms | extra runs | answers that a purge had not reached | evidence of the last |\n|---|---|---|---|---|---|---|---|");
    report.line(&format!("| none | | {} | {} | | |", errors(&calm), times(&calm)));
    for fault in Fault::ALL {
        let happened: Vec<&FaultRecord> = history.faults.iter().filter(|seen| seen.fault == fault).collect();
        if happened.is_empty() {
            let why =
                if fault.is_cut() && !has_filter { "no packet filter here" } else { "its turn did not come" };
            report.line(&format!("| {fault:?} | 0 | | | | | | {why} |"));
            continue;
        }
        let during: Vec<&RequestRecord> = history
            .requests
            .iter()
            .filter(|request| happened.iter().any(|seen| is_in(request, seen)))
            .collect();
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

/// Whether the time overlaps the fault, or its direct consequences such as back-off.
fn is_in(request: &RequestRecord, fault: &FaultRecord) -> bool {
    request.sent_us <= fault.ended_us + 2_000_000 && request.ended_us >= fault.began_us
}

fn errors(request: &[&RequestRecord]) -> String {
    format!("{}, of {}", request.iter().filter(|request| request.status != 202).count(), request.len())
}

/// P99 and the longest, as two cells.
fn times(request: &[&RequestRecord]) -> String {
    let mut took: Vec<u64> = request.iter().map(|request| request.ended_us - request.sent_us).collect();
    took.sort_unstable();
    let at = |place: usize| took.get(place).copied().map_or(0.0, as_ms);
    format!("{:.1} | {:.1}", at(took.len() * 99 / 100), at(took.len().saturating_sub(1)))
}

fn shown(violation: &Violation, history: &History, report: &mut Report) {
    let Violation { promise, at_us, what } = violation;
    report.line(&format!("\n{promise} at {:.3} s: {what}\n", as_ms(*at_us) / 1e3));
    let about = |us: u64| us + AROUND_US >= *at_us && us <= at_us + AROUND_US;
    history
        .faults
        .iter()
        .filter(|fault| fault.began_us <= *at_us && fault.ended_us + 5_000_000 >= *at_us)
        .for_each(|fault| report.line(&format!("    {fault:?}")));
    let key = history.requests.iter().find(|request| request.sent_us == *at_us).map(|request| request.key);
    let key = key.or_else(|| history.runs.iter().find(|run| run.began_us == *at_us).map(|run| run.key));
    let of_key = |other: i64| key.is_none_or(|key| key == other);
    history
        .purges
        .iter()
        .filter(|each| of_key(each.key) && about(each.asked_us))
        .take(5)
        .for_each(|each| report.line(&format!("    {each:?}")));
    history
        .runs
        .iter()
        .filter(|run| of_key(run.key) && about(run.began_us))
        .take(10)
        .for_each(|run| report.line(&format!("    {run:?}")));
    history
        .requests
        .iter()
        .filter(|request| of_key(request.key) && about(request.sent_us))
        .take(10)
        .for_each(|request| report.line(&format!("    {request:?}")));
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn as_ms(us: u64) -> f64 {
    us as f64 / 1e3
}
