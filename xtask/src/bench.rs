//! `cargo xtask bench` and `cargo xtask trials`: builds hopcache and the program that drives it with the published
//! profile (`dist`), then runs one benchmark or one trial.
//!
//! This module decides what is built and started. It passes the arguments to the program unchanged.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::command::finish;

/// The program that measures.
pub(crate) const BENCHMARKS: &str = "hopcache-bench";
/// The program that judges promises.
pub(crate) const TRIALS: &str = "hopcache-trials";

/// Builds hopcache and `program`, and runs `program`. `program` starts the hopcache that is built beside it.
pub(crate) fn run(root: &Path, program: &str, args: &[String]) -> Result<()> {
    let mut build = Command::new("cargo");
    build.current_dir(root).args([
        "build",
        "--profile",
        "dist",
        "--package",
        "hopcache",
        "--package",
        program,
    ]);
    finish(&mut build, "the build")?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let file = target.join("dist").join(program);
    finish(Command::new(file).current_dir(root).args(args), program)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The packages that a section of the workspace's manifest names.
    fn packages(manifest: &str, section: &str) -> BTreeSet<String> {
        let lines = manifest.lines().skip_while(|line| *line != format!("[{section}]")).skip(1);
        let entries = lines.take_while(|line| !line.starts_with('['));
        entries.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
    }

    /// `dist` inherits what `release` says of single packages: one that it does not name itself stays as it is in `release`.
    #[test]
    fn dist_names_every_package_that_release_names() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
        let manifest = std::fs::read_to_string(root).unwrap();
        let [release, dist] =
            ["release", "dist"].map(|profile| packages(&manifest, &format!("profile.{profile}.package")));
        assert!(release.contains("tokio"), "{release:?}");
        assert_eq!(release, dist);
    }
}
