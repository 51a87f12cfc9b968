//! `cargo xtask fuzz`: runs every fuzz target in turn, from its seeds and from the inputs of `fuzz/corpus`.
//!
//! Decides bounds and folders. `crates/fuzzing` has the properties. libFuzzer writes inputs that it finds to
//! `target/fuzz/found`, never into the repository: people choose which inputs to keep (`fuzz/README.md`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::command::finish;

/// Largest input, in bytes. Every message format fits into it, and a run stays fast.
const INPUT_BYTES_MAX: u32 = 4096;
/// Largest memory of a target, with its corpus and the sanitizer.
const RESIDENT_MIB_MAX: u32 = 2048;
/// Largest single allocation. A larger one means that the program trusted a length field without checking the bytes
/// behind it.
const ALLOCATION_MIB_MAX: u32 = 256;
/// Longest time for one input, in seconds.
const INPUT_SECONDS_MAX: u32 = 10;

pub(crate) struct Plan<'a> {
    pub(crate) target: Option<&'a str>,
    pub(crate) runs: u64,
    pub(crate) seconds: u64,
}

pub(crate) fn run(root: &Path, plan: &Plan<'_>) -> Result<()> {
    let rustup = ["run", "nightly", "cargo", "fuzz", "--version"];
    finish(
        Command::new("rustup").args(rustup),
        "cargo fuzz on a nightly toolchain (rustup toolchain install nightly; cargo install cargo-fuzz --locked)",
    )?;
    let seeds = root.join("target/fuzz/seeds");
    // Targets of before would be taken for targets of now.
    if seeds.exists() {
        std::fs::remove_dir_all(&seeds).context("cannot empty the seeds")?;
    }
    let mut write = Command::new("cargo");
    write.current_dir(root).args(["run", "--quiet", "--package", "hopcache-fuzzing", "--"]).arg(&seeds);
    finish(&mut write, "the seeds' writer")?;
    // It has made a folder for each target.
    let mut known = Vec::new();
    for folder in std::fs::read_dir(&seeds).context("cannot list the targets")? {
        known.push(folder?.file_name().to_string_lossy().into_owned());
    }
    known.sort();
    let wanted: Vec<&String> =
        known.iter().filter(|name| plan.target.is_none_or(|target| target == *name)).collect();
    if wanted.is_empty() {
        bail!("no such target; there are: {}", known.join(", "));
    }
    let mut failed = Vec::new();
    for target in wanted {
        println!("== {target}: {} inputs, {} s at most", plan.runs, plan.seconds);
        if !one(root, target, plan)? {
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("broken: {}; the inputs are under fuzz/artifacts", failed.join(", "));
    }
    Ok(())
}

/// Runs one target. Returns whether all properties held.
fn one(root: &Path, target: &str, plan: &Plan<'_>) -> Result<bool> {
    let (found, broken) =
        (root.join("target/fuzz/found").join(target), root.join("fuzz/artifacts").join(target));
    for folder in [&found, &broken] {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let status = Command::new("rustup")
        .current_dir(root)
        // SQLite's symbols are linked twice (its crate's object and its archive). That is no bug of hopcache.
        .env("ASAN_OPTIONS", "detect_odr_violation=0")
        .env("HOPCACHE_FUZZ_TARGET", target)
        .args(["run", "nightly", "cargo", "fuzz", "run", "any"])
        // libFuzzer writes inputs that it finds to the first folder.
        .arg(&found)
        .arg(root.join("target/fuzz/seeds").join(target))
        .arg("--")
        .args([
            format!("-runs={}", plan.runs),
            format!("-max_total_time={}", plan.seconds),
            format!("-max_len={INPUT_BYTES_MAX}"),
            format!("-rss_limit_mb={RESIDENT_MIB_MAX}"),
            format!("-malloc_limit_mb={ALLOCATION_MIB_MAX}"),
            format!("-timeout={INPUT_SECONDS_MAX}"),
            format!("-artifact_prefix={}/", broken.display()),
            "-print_final_stats=1".to_owned(),
            "-verbosity=0".to_owned(),
        ])
        .status()
        .context("could not start cargo fuzz")?;
    Ok(status.success())
}
