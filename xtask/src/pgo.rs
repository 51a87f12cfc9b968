//! `cargo xtask pgo`: the program as it is published, optimised by a profile of what it does (profile-guided optimisation).
//!
//! A node runs through half a megabyte of code for a miss, so where that code lies counts: a program that was built by the profile
//! takes a fifth to a quarter less CPU for the modelled applications than the same code without it (docs/BENCHMARKS.md). The profile
//! is in the repository. This command, `dist` for `x86_64-unknown-linux-gnu`, and the `Dockerfile` read it.
//!
//! A profile knows functions by their symbols' names. These hang on the target, on cargo's profile, and on the version, features and
//! dependencies of each crate: with another of them it matches nothing, and does no harm. Not on flags, and not on where the sources
//! lie. A function that has changed since is compiled as without a profile. `--train` makes it anew.
//!
//! A profile belongs to a version of LLVM, that is to the compiler of `rust-toolchain.toml`: with another one it is made anew
//! (<https://doc.rust-lang.org/rustc/profile-guided-optimization.html>).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench;
use crate::command::{answers, finish, host, rustc_tells, target};

/// The profile, packed. Only functions that ran are in it.
const PROFILE: &str = "crates/node/release.profdata.gz";
/// What cargo wants between flags in `CARGO_ENCODED_RUSTFLAGS`.
const BETWEEN_FLAGS: &str = "\u{1f}";
/// No warning for each function that has changed since the profile was made.
const CHANGED: &str = "-Cllvm-args=-no-pgo-warn-mismatch";
/// [`names`] of the tree that the profile was made from.
const MADE_FOR: &str = "crates/node/release.profdata.txt";
/// Where an instrumented program writes what it counted, when it ends (LLVM's runtime reads this variable).
const COUNTS: &str = "LLVM_PROFILE_FILE";
/// The flags of rustc for cargo. It goes before `RUSTFLAGS`.
pub(crate) const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";
/// The folder of the instrumented program and of what it has counted.
const TRAINED_IN: &str = "pgo-train";
/// What the instrumented program does: each application's traffic with 5 % of writes, three nodes before a Neo4j, by an official driver.
const TRAINING: [&str; 7] = ["apps", "--debug", "--wipe", "--writes", "5", "--only", "hopcache"];

/// Builds the program by the profile, and says where it is.
pub(crate) fn build(root: &Path) -> Result<()> {
    let program = compile(root, "pgo", &flags(root)?)?;
    println!("{}", program.display());
    Ok(())
}

/// The flags of rustc for a build by the profile, which is unpacked for it, as `CARGO_ENCODED_RUSTFLAGS` has them.
pub(crate) fn flags(root: &Path) -> Result<String> {
    let made_for =
        std::fs::read_to_string(root.join(MADE_FOR)).with_context(|| format!("cannot read {MADE_FOR}"))?;
    if made_for.trim() != names(root)? {
        println!("{PROFILE} was made for other dependencies, so it says little: cargo xtask pgo --train");
    }
    let folder = target(root).join("pgo");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    // Named by what it holds: cargo compiles anew what another profile was read for, and nothing where it is the same.
    let profile = folder.join(format!("{}.profdata", digest(root, &[PROFILE])?));
    if !profile.exists() {
        // Another command may be at it: each writes a file of its own.
        let part = folder.join(format!("{}.part", std::process::id()));
        let into =
            std::fs::File::create(&part).with_context(|| format!("cannot write {}", part.display()))?;
        finish(Command::new("gzip").current_dir(root).args(["-dc", PROFILE]).stdout(into), "gzip")?;
        std::fs::rename(&part, &profile).with_context(|| format!("cannot write {}", profile.display()))?;
    }
    let profile = profile.canonicalize().context("the profile is gone")?;
    Ok([format!("-Cprofile-use={}", profile.display()), CHANGED.to_owned()].join(BETWEEN_FLAGS))
}

/// What the names of functions hang on, as far as files say it: versions, features and dependencies.
fn names(root: &Path) -> Result<String> {
    digest(root, &["Cargo.lock", "Cargo.toml", "rust-toolchain.toml"])
}

/// A digest of files, in their order.
fn digest(root: &Path, files: &[&str]) -> Result<String> {
    let output = Command::new("sha256sum")
        .current_dir(root)
        .args(files)
        .output()
        .context("could not start sha256sum")?;
    ensure!(output.status.success(), "sha256sum: {}", String::from_utf8_lossy(&output.stderr));
    let sums = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = |line: &str| line.get(..16).unwrap_or(line).to_owned();
    Ok(sums.lines().map(first).collect::<Vec<_>>().join("-"))
}

/// Makes the profile anew: builds an instrumented program, lets it answer [`TRAINING`], and keeps what it counted.
pub(crate) fn train(root: &Path) -> Result<()> {
    let merger = merger()?;
    let counts = target(root).join(TRAINED_IN).join("counts");
    let _ = std::fs::remove_dir_all(&counts);
    std::fs::create_dir_all(&counts).with_context(|| format!("cannot create {}", counts.display()))?;
    let counts = counts.canonicalize().context("the folder of counts is gone")?;
    // Nodes get the name of a file by [`COUNTS`]. What runs without it writes here too, and not into its working directory.
    let program = compile(root, TRAINED_IN, &format!("-Cprofile-generate={}", counts.display()))?;
    let mut traffic: Vec<String> = TRAINING.map(str::to_owned).to_vec();
    traffic.extend(["--binary".to_owned(), program.display().to_string()]);
    let file = counts.join("%p.profraw").display().to_string();
    bench::applications(root, &traffic, &[(COUNTS, &file)])?;
    let raw: Vec<PathBuf> = std::fs::read_dir(&counts)
        .context("cannot list the counts")?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "profraw"))
        .collect();
    ensure!(!raw.is_empty(), "no node has written its counts into {}", counts.display());
    let merged = counts.join("release.profdata");
    let mut merge = Command::new(&merger);
    merge.args(["merge", "--sparse", "-o"]).arg(&merged).args(&raw);
    finish(&mut merge, "llvm-profdata")?;
    let packed = root.join(PROFILE);
    let into = std::fs::File::create(&packed).with_context(|| format!("cannot write {PROFILE}"))?;
    finish(Command::new("gzip").args(["-9nc"]).arg(&merged).stdout(into), "gzip")?;
    std::fs::write(root.join(MADE_FOR), names(root)? + "\n")
        .with_context(|| format!("cannot write {MADE_FOR}"))?;
    println!("{PROFILE}: of {} nodes; commit it, and {MADE_FOR}", raw.len());
    Ok(())
}

/// Builds the program with these flags, into this folder of cargo's own one: with other flags everything is built anew.
fn compile(root: &Path, folder: &str, flags: &str) -> Result<PathBuf> {
    // With an explicit target, the flags do not reach build scripts and macros.
    let triple = host()?;
    let folder = target(root).join(folder);
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).env(FLAGS, flags);
    cargo.args([
        "build",
        "--locked",
        "--release",
        "--package",
        "hopcache",
        "--bin",
        "hopcache",
        "--target",
        &triple,
    ]);
    finish(cargo.arg("--target-dir").arg(&folder), "the build of hopcache")?;
    Ok(folder.join(triple).join("release").join("hopcache"))
}

/// `llvm-profdata` of the compiler's own version of LLVM.
fn merger() -> Result<PathBuf> {
    let version = rustc_tells("LLVM version")?;
    let major = version.split('.').next().unwrap_or_default();
    let names = [format!("/usr/lib/llvm-{major}/bin/llvm-profdata"), format!("llvm-profdata-{major}")];
    names
        .into_iter()
        .map(PathBuf::from)
        .find(|program| answers(program))
        .with_context(|| format!("`llvm-profdata` of LLVM {major} is missing: apt-get install llvm-{major}"))
}
