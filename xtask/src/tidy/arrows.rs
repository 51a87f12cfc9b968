//! Which crate may depend on which (DESIGN section 7), read from `cargo metadata`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Finding;

/// The crate `from` may depend on each crate of `to`. An unlisted crate may depend on no crate of the workspace.
const ALLOWED: &[(&str, &[&str])] = &[
    ("hopcache-packstream", &[]),
    ("hopcache-bolt", &["hopcache-packstream"]),
    ("hopcache-queryapi", &["hopcache-packstream"]),
    ("hopcache-core", &["hopcache-packstream"]),
    ("hopcache-learning", &["hopcache-core", "hopcache-packstream"]),
    ("hopcache-cypher", &["hopcache-core", "hopcache-packstream"]),
    ("hopcache-engine", &["hopcache-core", "hopcache-cypher", "hopcache-learning", "hopcache-packstream"]),
    ("hopcache-slots", &["hopcache-core"]),
    ("hopcache-gossip", &["hopcache-core"]),
    ("hopcache-embedded", &["hopcache-engine", "hopcache-cypher", "hopcache-core", "hopcache-packstream"]),
    ("hopcache-net", &["hopcache-core", "hopcache-engine"]),
    ("hopcache-config", &["hopcache-core", "hopcache-net"]),
    (
        "hopcache-ops",
        &[
            "hopcache-config",
            "hopcache-core",
            "hopcache-cypher",
            "hopcache-engine",
            "hopcache-learning",
            "hopcache-net",
            "hopcache-queryapi",
        ],
    ),
    ("hopcache-store", &["hopcache-core", "hopcache-engine", "hopcache-net"]),
    (
        "hopcache-neo4j",
        &[
            "hopcache-bolt",
            "hopcache-config",
            "hopcache-core",
            "hopcache-cypher",
            "hopcache-engine",
            "hopcache-net",
            "hopcache-packstream",
            "hopcache-slots",
        ],
    ),
    (
        "hopcache-cluster",
        &[
            "hopcache-config",
            "hopcache-core",
            "hopcache-engine",
            "hopcache-gossip",
            "hopcache-net",
            "hopcache-ops",
        ],
    ),
    (
        "hopcache",
        &[
            "hopcache-packstream",
            "hopcache-bolt",
            "hopcache-queryapi",
            "hopcache-core",
            "hopcache-cypher",
            "hopcache-learning",
            "hopcache-engine",
            "hopcache-embedded",
            "hopcache-gossip",
            "hopcache-slots",
            "hopcache-net",
            "hopcache-config",
            "hopcache-ops",
            "hopcache-store",
            "hopcache-neo4j",
            "hopcache-cluster",
        ],
    ),
    (
        "hopcache-sim",
        &[
            "hopcache-core",
            "hopcache-cypher",
            "hopcache-engine",
            "hopcache-gossip",
            "hopcache-learning",
            "hopcache-packstream",
            "hopcache-queryapi",
            "hopcache-slots",
        ],
    ),
    (
        "hopcache-fuzzing",
        &[
            "hopcache",
            "hopcache-bolt",
            "hopcache-core",
            "hopcache-cypher",
            "hopcache-engine",
            "hopcache-gossip",
            "hopcache-learning",
            "hopcache-packstream",
            "hopcache-queryapi",
        ],
    ),
    ("hopcache-testbed", &[]),
    ("hopcache-bench", &["hopcache-testbed"]),
    ("hopcache-trials", &["hopcache-testbed"]),
    ("xtask", &[]),
];

/// A dependency between two crates of this workspace, of any kind (normal, build, dev).
#[derive(Debug)]
pub(super) struct Arrow {
    from: String,
    to: String,
}

pub(super) fn read(root: &Path) -> Result<Vec<Arrow>> {
    let output = Command::new("cargo")
        .current_dir(root)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .context("could not run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    parse(&output.stdout)
}

fn parse(metadata: &[u8]) -> Result<Vec<Arrow>> {
    let metadata: Value = serde_json::from_slice(metadata).context("cargo metadata is not JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut arrows = Vec::new();
    for package in packages {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            // Only a dependency on a crate of this workspace has a path.
            if let (Some(from), Some(to), Some(_)) =
                (package["name"].as_str(), dependency["name"].as_str(), dependency["path"].as_str())
            {
                arrows.push(Arrow { from: from.to_owned(), to: to.to_owned() });
            }
        }
    }
    Ok(arrows)
}

pub(super) fn check(arrows: &[Arrow]) -> Vec<Finding> {
    let is_allowed =
        |arrow: &Arrow| ALLOWED.iter().any(|(from, to)| *from == arrow.from && to.contains(&&*arrow.to));
    arrows.iter().filter(|arrow| !is_allowed(arrow)).map(finding).collect()
}

fn finding(arrow: &Arrow) -> Finding {
    let folder = arrow.from.strip_prefix("hopcache-").unwrap_or("node");
    let manifest =
        if arrow.from == "xtask" { "xtask/Cargo.toml".into() } else { format!("crates/{folder}/Cargo.toml") };
    let advice = format!("{} must not know {}: move the code, or put a port between", arrow.from, arrow.to);
    Finding::new(&manifest, 1, "arrows", advice)
}

/// Top-level tests speak HTTP to the program and import none of its crates.
pub(super) fn check_test_file(file: &str, content: &str) -> Vec<Finding> {
    if !file.starts_with("tests/") {
        return Vec::new();
    }
    let crates: Vec<String> =
        ALLOWED.iter().map(|(name, _)| format!("{}::", name.replace('-', "_"))).collect();
    let knows = |line: &str| {
        let path = line.trim_start().trim_start_matches("pub ").trim_start_matches("use ");
        crates.iter().any(|name| path.starts_with(name.as_str()) || line.contains(&format!(" {name}")))
    };
    content
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//") && knows(line))
        .map(|(at, _)| Finding::new(file, at + 1, "arrows", "tests know only HTTP: drop the crate's path"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(from: &str, to: &str) -> Vec<u8> {
        format!(
            r#"{{"packages":[{{"name":"{from}","dependencies":[{{"name":"{to}","path":"/x"}},{{"name":"bytes"}}]}}]}}"#
        )
        .into_bytes()
    }

    #[test]
    fn core_that_knows_engine_is_caught() {
        let arrows = parse(&metadata("hopcache-core", "hopcache-engine")).unwrap();
        let findings = check(&arrows);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().starts_with("crates/core/Cargo.toml:1: arrows: "));
    }

    #[test]
    fn core_that_knows_learning_is_caught() {
        assert_eq!(check(&parse(&metadata("hopcache-core", "hopcache-learning")).unwrap()).len(), 1);
        assert!(check(&parse(&metadata("hopcache-learning", "hopcache-core")).unwrap()).is_empty());
    }

    #[test]
    fn an_unknown_crate_may_know_nothing() {
        assert_eq!(check(&parse(&metadata("hopcache-new", "hopcache-core")).unwrap()).len(), 1);
    }

    #[test]
    fn engine_may_know_core() {
        let arrows = parse(&metadata("hopcache-engine", "hopcache-core")).unwrap();
        assert_eq!(arrows.len(), 1);
        assert!(check(&arrows).is_empty());
    }

    #[test]
    fn a_test_that_reaches_into_the_engine_is_caught() {
        assert_eq!(check_test_file("tests/a/main.rs", "use hopcache_engine::Engine;\n").len(), 1);
        assert!(check_test_file("tests/a/main.rs", "let metric = \"hopcache_engine_total\";\n").is_empty());
        assert!(check_test_file("crates/engine/tests/a.rs", "use hopcache_engine::Engine;\n").is_empty());
    }
}
