//! Tables and data of walks. It judges nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::arm::Arm;
use super::counts::{Counts, KINDS};
use super::options::WalkOptions;
use super::pages::Page;
use super::round::{Measured, Round, Setting};
use super::verdict::{Beside, Figures, median};
use super::walk::Click;
use crate::output::Output;
use hopcache_testbed::report::Spread;

pub(super) fn open(options: &WalkOptions, setting: &Setting<'_>, output: &mut Output) {
    let WalkOptions { common, .. } = options;
    let traffic = format!(
        "{:.0} % of clicks follow from an earlier result (row by AOL's shares of clicks by rank), the others jump to a person (Zipf {} over persons by their friends)",
        options.follow * 100.0,
        options.exponent
    );
    output.report.line(&format!(
        "LDBC SNB: {}; {traffic}; {} clicks/s in sessions of {} clicks ({:?} arrivals, exponential pauses of {} s in the mean), each session's clicks round robin over three nodes; TTL {} s ± {:.0} %, so {:.0} clicks; {} s measured behind {} s of warm-up; {} rounds, arms in turn, the same clicks in every arm; origin time Neo4j's and {} ms more in the mean; origin.max_concurrent {}{}",
        setting.source.size(),
        options.rate,
        options.clicks,
        common.arrivals,
        options.think,
        options.ttl,
        common.jitter * 100.0,
        options.rate * options.ttl as f64,
        options.seconds,
        options.warm,
        common.rounds,
        options.origin_ms,
        common.max_concurrent,
        if setting.applications > 1 { format!("; sessions belong in turn to {} applications with statements of their own", setting.applications) } else { String::new() }
    ));
}

/// Of the first round.
pub(super) fn clicks(clicks: &[Click], output: &mut Output) {
    let sessions: std::collections::BTreeSet<usize> = clicks.iter().map(|click| click.session).collect();
    let different: std::collections::BTreeSet<(Page, usize)> =
        clicks.iter().map(|click| (click.page, click.place)).collect();
    let follows = clicks.iter().filter(|click| click.is_follow).count();
    let mut kinds: BTreeMap<Page, usize> = BTreeMap::new();
    clicks.iter().for_each(|click| *kinds.entry(click.page).or_default() += 1);
    let kinds: Vec<String> = kinds.iter().map(|(page, count)| format!("{page:?} {count}")).collect();
    output.report.line(&format!(
        "round 1: {} clicks of {} sessions, {} different queries; {:.1} % follow (of clicks that are not a session's first: {:.1} %); {}",
        clicks.len(),
        sessions.len(),
        different.len(),
        percent(follows, clicks.len()),
        percent(follows, clicks.len() - sessions.len()),
        kinds.join(", ")
    ));
}

fn percent(part: usize, whole: usize) -> f64 {
    crate::expiry::figures::share(part, whole) * 100.0
}

pub(super) fn all(arms: &[Measured], output: &mut Output) -> anyhow::Result<()> {
    table(arms, output);
    relative(arms, output);
    details(arms, output);
    output.keep("rounds.csv", &rounds_csv(arms))
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn table(arms: &[Measured], output: &mut Output) {
    output.report.line("\nMedian of the rounds (min–max), of the measured time. Latencies in ms from the intended time. README.md says how each figure is made.\n");
    output.report.line("| arm | requests | hits | waited | demand misses | runs: refresh | runs: prefetch | origin runs | launched | used | late | wasted | pending | accuracy | at least | P50 | P95 | P99 | errors |");
    output.report.line(&format!("|{}", "---|".repeat(19)));
    for Measured { arm, rounds } in arms {
        let of = |figure: &dyn Fn(&Figures) -> f64| {
            Spread::of(&rounds.iter().map(|round| figure(&round.figures)).collect::<Vec<_>>())
        };
        let whole = |figure: &dyn Fn(&Figures) -> f64| {
            let Spread { min, median, max } = of(figure);
            format!("{median:.0} ({min:.0}–{max:.0})")
        };
        let accuracy = |share: &dyn Fn(&Counts) -> Option<f64>| match arm {
            Arm::Off => "–".to_owned(),
            _ => of(&|each| share(&each.counts).unwrap_or(0.0)).to_string(),
        };
        output.report.line(&format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            arm.name(),
            whole(&|each| each.requests as f64),
            whole(&|each| each.counts.hits as f64),
            whole(&|each| each.waited as f64),
            whole(&|each| each.counts.miss_runs as f64),
            whole(&|each| each.counts.refresh_runs as f64),
            whole(&|each| each.counts.prefetch_runs as f64),
            whole(&|each| each.counts.runs as f64),
            whole(&|each| each.counts.launched as f64),
            whole(&|each| each.counts.used as f64),
            whole(&|each| each.counts.late as f64),
            whole(&|each| each.counts.wasted as f64),
            whole(&|each| each.counts.pending as f64),
            accuracy(&|counts| counts.accuracy()),
            accuracy(&|counts| counts.accuracy_at_least()),
            of(&|each| each.p50_ms),
            of(&|each| each.p95_ms),
            of(&|each| each.p99_ms),
            rounds.iter().map(|round| round.figures.errors).sum::<usize>(),
        ));
    }
}

#[expect(clippy::cast_precision_loss, reason = "thousands")]
fn relative(arms: &[Measured], output: &mut Output) {
    let Some(off) = arms.iter().find(|each| each.arm == Arm::Off).map(Measured::figures) else { return };
    output.report.line("\nBeside the same round of `off`, median (min–max):\n");
    output.report.line("| arm | demand misses fewer % | waits fewer % | origin runs more % | P99 more ms | successors known at the end by the node that knows least |");
    output.report.line("|---|---|---|---|---|---|");
    for measured in arms.iter().filter(|each| each.arm != Arm::Off) {
        let beside: Vec<Beside> =
            measured.figures().iter().zip(&off).map(|(arm, off)| Beside::of(arm, off)).collect();
        let of = |figure: &dyn Fn(&Beside) -> f64| Spread::of(&beside.iter().map(figure).collect::<Vec<_>>());
        output.report.line(&format!(
            "| {} | {} | {} | {} | {} | {:.0} |",
            measured.arm.name(),
            of(&|each| each.misses_fewer * 100.0),
            of(&|each| each.waits_fewer * 100.0),
            of(&|each| each.runs_more * 100.0),
            of(&|each| each.p99_more_ms),
            median(measured.rounds.iter().map(|round| round.figures.forms_known as f64)),
        ));
    }
}

/// The conditions of the run, which a reader needs to judge the figures.
#[expect(clippy::cast_precision_loss, reason = "a few runs")]
fn details(arms: &[Measured], output: &mut Output) {
    output.report.line("");
    for Measured { arm, rounds } in arms {
        for (number, round) in rounds.iter().enumerate() {
            let Round { whole, proxied, sent_late_ms, looks, node_cpu_us, .. } = round;
            let under_way: Vec<f64> = looks.iter().map(|(_, counts)| counts.in_flight as f64).collect();
            let under_way = Spread::of(&under_way);
            output.report.line(&format!(
                "- {} round {}, from the start on: {} runs counted; {proxied} runs seen before Neo4j, {:.0} ({:.0}–{:.0}) under way at a time; launched {} = used {} + late {} + wasted {} + pending {}: {}{}; nodes' CPU {node_cpu_us:.0} µs per request; generator's P99 lateness {sent_late_ms:.2} ms",
                arm.name(),
                number + 1,
                whole.runs,
                under_way.median,
                under_way.min,
                under_way.max,
                whole.launched,
                whole.used,
                whole.late,
                whole.wasted,
                whole.pending,
                if whole.is_whole() { "whole" } else { "NOT WHOLE" },
                by_kind(whole),
            ));
        }
    }
}

/// Launches by kind of candidate, and how many of them were used or joined by now.
fn by_kind(counts: &Counts) -> String {
    let launched = KINDS.iter().zip(counts.kinds).filter(|(_, [launched, _])| *launched > 0);
    launched.map(|(kind, [launched, used])| format!("; {kind} {launched}, of them used {used}")).collect()
}

fn rounds_csv(arms: &[Measured]) -> String {
    let mut text = "arm,round,requests,hits,misses,waited,errors,p50_ms,p95_ms,p99_ms,runs,miss_runs,refresh_runs,prefetch_runs,launched,used,late,wasted,pending,gossip_bytes_sent,forms_known\n".to_owned();
    for Measured { arm, rounds } in arms {
        for (number, round) in rounds.iter().enumerate() {
            let Figures { requests, waited, errors, p50_ms, p95_ms, p99_ms, forms_known, counts } =
                round.figures;
            let _ = writeln!(
                text,
                "\"{}\",{},{requests},{},{},{waited},{errors},{p50_ms:.3},{p95_ms:.3},{p99_ms:.3},{},{},{},{},{},{},{},{},{},{},{forms_known}",
                arm.name(),
                number + 1,
                counts.hits,
                counts.misses,
                counts.runs,
                counts.miss_runs,
                counts.refresh_runs,
                counts.prefetch_runs,
                counts.launched,
                counts.used,
                counts.late,
                counts.wasted,
                counts.pending,
                counts.gossip_bytes,
            );
        }
    }
    text
}
