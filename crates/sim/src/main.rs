//! `hopcache-sim`: runs seeds, prints what they came to, and keeps the trace of those that break a promise.
//!
//! Usually started by `cargo xtask sim`. It decides nothing about what a seed does.
#![allow(clippy::print_stdout, reason = "a command-line tool speaks on stdout")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use hopcache_sim::simulate::{Keep, Report, simulate};

const USAGE: &str =
    "hopcache-sim --seed S | --seeds N [--from K] | --replay FILE   [--threads T] [--out DIR]";

struct Options {
    work: Work,
    threads: usize,
    out: PathBuf,
}

enum Work {
    One(u64),
    Many { from: u64, seeds: u64 },
    Replay(PathBuf),
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
    };
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(mut args: impl Iterator<Item = String>) -> Option<Options> {
    let (mut work, mut from, mut seeds) = (None, 0, None);
    let mut threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut out = PathBuf::from("target/sim");
    while let Some(name) = args.next() {
        let value = args.next()?;
        match name.as_str() {
            "--seed" => work = Some(Work::One(value.parse().ok()?)),
            "--seeds" => seeds = Some(value.parse().ok()?),
            "--from" => from = value.parse().ok()?,
            "--replay" => work = Some(Work::Replay(value.into())),
            "--threads" => threads = value.parse().ok().filter(|threads| *threads > 0)?,
            "--out" => out = value.into(),
            // For whoever works on a checker: with `--seed`, since a bug is this thread's.
            #[cfg(hopcache_seeded)]
            "--bug" => {
                use hopcache_core::seeded::{Bug, choose};
                choose(Some(Bug::ALL.into_iter().find(|bug| format!("{bug:?}") == value)?));
            }
            _ => return None,
        }
    }
    let work = work.or_else(|| seeds.map(|seeds| Work::Many { from, seeds }))?;
    Some(Options { work, threads, out })
}

/// One seed, with all that happened.
fn one(seed: u64, out: &Path) -> bool {
    let report = simulate(seed, Keep::Trace);
    report.trace.iter().for_each(|line| println!("{line}"));
    println!("{}", summary(&report));
    tell(&report, out)
}

fn summary(report: &Report) -> String {
    let Report { seed, hash, steps, answers, runs, .. } = report;
    format!("seed {seed}: {steps} steps, {answers} answers, {runs} runs, trace {hash:016x}")
}

/// Says and keeps a violation; whether there is none.
fn tell(report: &Report, out: &Path) -> bool {
    let Some(violation) = &report.violation else { return true };
    println!("seed {}: {}: {}", report.seed, violation.check, violation.what);
    let file = out.join(format!("seed-{}.trace", report.seed));
    let head = format!(
        "seed {}\ntrace {:016x}\n{}: {}\n",
        report.seed, report.hash, violation.check, violation.what
    );
    let written = std::fs::create_dir_all(out)
        .and_then(|()| std::fs::write(&file, head + &report.trace.join("\n") + "\n"));
    match written {
        Ok(()) => println!("seed {}: trace in {}", report.seed, file.display()),
        Err(error) => println!("seed {}: the trace could not be written: {error}", report.seed),
    }
    false
}

/// Runs the seed of a kept trace again; whether the same came out.
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
    let report = simulate(seed, Keep::Trace);
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
            "ANOTHER TRACE: the code has changed since, or a seed does not decide all"
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
    failed: Vec<u64>,
    faults: BTreeMap<&'static str, u64>,
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
    sum.failed.is_empty()
}

impl Sum {
    fn add(&mut self, report: &Report, out: &Path) {
        self.seeds += 1;
        self.steps += report.steps;
        self.answers += report.answers;
        self.near += report.near;
        self.runs += report.runs;
        for (word, count) in &report.faults {
            *self.faults.entry(word).or_default() += count;
        }
        if !tell(report, out) {
            self.failed.push(report.seed);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "rates for the eye")]
    fn print(&self, from: u64, seconds: f64, threads: usize) {
        let rate = |count: u64| count as f64 / seconds.max(0.001);
        let Self { seeds, steps, answers, near, runs, .. } = self;
        println!("{seeds} seeds from {from} in {seconds:.1} s on {threads} threads");
        println!("{:.1} seeds/s, {:.0} steps/s", rate(*seeds), rate(*steps));
        println!("{steps} steps checked, {answers} answers ({near} near), {runs} runs");
        let faults: Vec<String> = self.faults.iter().map(|(word, count)| format!("{word} {count}")).collect();
        println!("faults: {}", faults.join(", "));
        println!("violations: {}", self.failed.len());
        if !self.failed.is_empty() {
            let mut failed = self.failed.clone();
            failed.sort_unstable();
            println!("seeds: {failed:?}");
        }
    }
}
