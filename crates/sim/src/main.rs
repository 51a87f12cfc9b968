//! `hopcache-sim`: runs seeds, prints their results, and keeps the trace of each seed that breaks a promise.
//!
//! `cargo xtask sim` usually starts it. It does not decide what a seed does.
#![allow(clippy::print_stdout, reason = "a command-line tool prints to stdout")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use hopcache_sim::check::coverage::{Coverage, EXCLUDED, FAULTS, OUTCOMES};
use hopcache_sim::drive::minimise::minimise;
use hopcache_sim::drive::simulate::{Keep, Report, Without, simulate, simulate_without};

const USAGE: &str = "hopcache-sim --seed S | --seeds N [--from K] [--cover yes] | --replay FILE | --minimise S   [--threads T] [--out DIR]";

struct Options {
    work: Work,
    threads: usize,
    out: PathBuf,
    /// Whether a fault or an outcome that never occurred fails the run.
    covers: bool,
}

enum Work {
    One(u64),
    Many { from: u64, seeds: u64 },
    Replay(PathBuf),
    Minimise(u64),
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        println!("{USAGE}");
        return ExitCode::from(2);
    };
    let holds = match &options.work {
        Work::One(seed) => one(*seed, &options.out),
        Work::Many { from, seeds } => many(*from, *seeds, &options),
        Work::Replay(file) => replay(file),
        Work::Minimise(seed) => smaller(*seed, &options.out),
    };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let (mut work, mut from, mut seeds, mut covers) = (None, 0, None, false);
    let mut threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut out = PathBuf::from("target/sim");
    while let Some(name) = args.next() {
        let value = args.next()?;
        match name.as_str() {
            "--seed" => work = Some(Work::One(value.parse().ok()?)),
            "--seeds" => seeds = Some(value.parse().ok()?),
            "--from" => from = value.parse().ok()?,
            "--replay" => work = Some(Work::Replay(value.into())),
            "--minimise" => work = Some(Work::Minimise(value.parse().ok()?)),
            "--cover" => covers = value == "yes",
            "--threads" => threads = value.parse().ok().filter(|threads| *threads > 0)?,
            "--out" => out = value.into(),
            _ => return None,
        }
    }
    let work = work.or_else(|| seeds.map(|seeds| Work::Many { from, seeds }))?;
    Some(Options { work, threads, out, covers })
}

/// One seed with its whole trace.
fn one(seed: u64, out: &Path) -> bool {
    let report = simulate(seed, Keep::Trace);
    report.trace.iter().for_each(|line| println!("{line}"));
    println!("{}", summary(&report));
    tell(&report, &Without::default(), out)
}

fn summary(report: &Report) -> String {
    let Report { seed, hash, steps, answers, runs, .. } = report;
    format!("seed {seed}: {steps} steps, {answers} answers, {runs} runs, trace {hash:016x}")
}

/// Prints and keeps a violation. Returns whether the seed has no violation.
fn tell(report: &Report, without: &Without, out: &Path) -> bool {
    let Some(violation) = &report.violation else { return true };
    let Report { seed, hash, .. } = report;
    println!("seed {seed}: {}: {}", violation.check, violation.what);
    let is_whole = *without == Without::default();
    let file = out.join(format!("seed-{seed}{}.trace", if is_whole { "" } else { ".min" }));
    let acts: Vec<String> = without.acts.iter().map(ToString::to_string).collect();
    let head = format!(
        "seed {seed}\nwithout acts {}\nwithout weather {}\ntrace {hash:016x}\n{}: {}\n",
        acts.join(","),
        without.weather,
        violation.check,
        violation.what
    );
    let written = std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&file, head + &report.trace.join("\n") + "\n"));
    match written {
        Ok(()) => println!("seed {seed}: trace in {}", file.display()),
        Err(error) => println!("seed {seed}: the trace could not be written: {error}"),
    }
    if is_whole {
        println!("seed {seed}: a smaller plan: cargo xtask sim --minimise {seed}");
        println!(
            "seed {seed}: after the fix, keep the seed: ({seed}, {:?}, \"the defect\") in crates/sim/tests/regression_seeds.rs",
            violation.check
        );
    }
    false
}

/// Removes the parts of a seed's plan that its violation does not need. Returns whether the seed breaks no promise.
fn smaller(seed: u64, out: &Path) -> bool {
    let Some((without, report)) = minimise(seed) else {
        println!("seed {seed}: every promise holds");
        return true;
    };
    report.trace.iter().for_each(|line| println!("{line}"));
    let left = report.acts - without.acts.len();
    println!(
        "seed {seed}: {left} of {} acts are left{}, {} facts",
        report.acts,
        if without.weather { ", and fair weather" } else { "" },
        report.trace.len()
    );
    tell(&report, &without, out)
}

/// Runs the seed of a kept trace again. Returns whether the result is the same.
fn replay(file: &Path) -> bool {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => {
            println!("{}: {error}", file.display());
            return false;
        }
    };
    let word = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (seed, hash) = (word("seed ").and_then(|seed| seed.parse().ok()), word("trace "));
    let (Some(seed), Some(hash)) = (seed, hash.and_then(|hash| u64::from_str_radix(hash, 16).ok())) else {
        println!("{} is no trace of a seed", file.display());
        return false;
    };
    let acts = word("without acts ").unwrap_or_default();
    let without = Without {
        acts: acts.split(',').filter_map(|act| act.parse().ok()).collect(),
        weather: word("without weather ") == Some("true"),
    };
    let report = simulate_without(seed, Keep::Trace, &without);
    let is_same = report.hash == hash;
    println!("{}", summary(&report));
    match &report.violation {
        Some(violation) => println!("{}: {}", violation.check, violation.what),
        None => println!("every promise holds"),
    }
    println!(
        "{}",
        if is_same {
            "the same trace"
        } else {
            "ANOTHER TRACE: the code has changed since, or a run depends on more than its seed"
        }
    );
    is_same
}

#[derive(Default)]
struct Sum {
    seeds: u64,
    steps: u64,
    answers: u64,
    near: u64,
    runs: u64,
    living: u64,
    /// How long after everything had healed, and the last lesson, nodes last knew different things.
    alike_ms: Vec<u64>,
    failed: Vec<u64>,
    coverage: Coverage,
    /// Of all seeds, in no order.
    hash: u64,
}

fn many(from: u64, seeds: u64, options: &Options) -> bool {
    let started = Instant::now();
    let next = AtomicU64::new(from);
    let (tell_report, reports) = mpsc::sync_channel::<Report>(64);
    let mut sum = Sum::default();
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            let (next, tell_report) = (&next, tell_report.clone());
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= from + seeds || tell_report.send(simulate(seed, Keep::Failures)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell_report);
        for report in reports {
            sum.add(&report, &options.out);
        }
    });
    sum.print(from, started.elapsed().as_secs_f64(), options.threads);
    let is_covered = print_coverage(&sum.coverage) || !options.covers;
    sum.failed.is_empty() && is_covered
}

/// Prints how often each fault and outcome occurred. Returns whether only excluded ones are missing.
fn print_coverage(coverage: &Coverage) -> bool {
    for (what, words) in [("faults", &FAULTS[..]), ("outcomes", &OUTCOMES[..])] {
        let counted: Vec<String> = words.iter().map(|word| format!("{word} {}", coverage.of(word))).collect();
        println!("{what} that occurred: {}", counted.join(", "));
    }
    for (word, reason) in EXCLUDED {
        println!("excluded: {word} ({}): {reason}", coverage.of(word));
    }
    let gaps = coverage.gaps();
    if !gaps.is_empty() {
        println!("NEVER OCCURRED, or is in no list: {}", gaps.join(", "));
    }
    gaps.is_empty()
}

impl Sum {
    fn add(&mut self, report: &Report, out: &Path) {
        self.seeds += 1;
        self.steps += report.steps;
        self.answers += report.answers;
        self.near += report.near;
        self.runs += report.runs;
        self.living += u64::from(report.is_living);
        self.alike_ms.extend(report.alike_after.map(|after| after.0));
        self.hash ^= report.hash.rotate_left((report.seed % 64) as u32);
        self.coverage.take(&report.coverage);
        if !tell(report, &Without::default(), out) {
            self.failed.push(report.seed);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "rates for the eye")]
    fn print(&self, from: u64, seconds: f64, threads: usize) {
        let rate = |count: u64| count as f64 / seconds.max(0.001);
        let Self { seeds, steps, answers, near, runs, living, hash, .. } = self;
        println!("{seeds} seeds from {from} in {seconds:.1} s on {threads} threads");
        println!("{:.1} seeds/s, {:.0} steps/s", rate(*seeds), rate(*steps));
        println!("{living} seeds with nodes that come and go; hash of all traces {hash:016x}");
        println!("{steps} steps checked, {answers} answers ({near} near), {runs} runs");
        let mut alike_ms = self.alike_ms.clone();
        alike_ms.sort_unstable();
        let at =
            |percent: usize| alike_ms.get((alike_ms.len() * percent / 100).min(alike_ms.len().max(1) - 1));
        if let (Some(half), Some(most), Some(last)) = (at(50), at(99), alike_ms.last()) {
            let of = alike_ms.len();
            println!(
                "all nodes knew the same {half} ms after a heal and the last lesson (P50 of {of} seeds; P99 {most}, last {last})"
            );
        }
        println!("violations: {}", self.failed.len());
        if !self.failed.is_empty() {
            let mut failed = self.failed.clone();
            failed.sort_unstable();
            println!("seeds: {failed:?}");
        }
    }
}
