//! Rules for all text: no registry hosts, no seeded bugs.

use super::Finding;

/// Split in two so that this file does not break its own rule.
const REGISTRY_HOSTS: &[(&str, &str)] = &[
    ("crates", ".io/api"),
    ("static.", "crates.io"),
    ("index.", "crates.io"),
    ("repo1.", "maven.org"),
    ("repo.", "maven.apache.org"),
    ("registry.", "npmjs.org"),
    ("files.", "pythonhosted.org"),
    ("deb.", "debian.org"),
    ("registry-1.", "docker.io"),
];

/// The repository has to build behind any mirror, so only the user's configuration names hosts.
pub(super) fn registry_hosts(file: &str, content: &str) -> Vec<Finding> {
    let names_host =
        |line: &str| REGISTRY_HOSTS.iter().any(|(head, tail)| line.contains(&format!("{head}{tail}")));
    content
        .lines()
        .enumerate()
        .filter(|(_, line)| names_host(line))
        .map(|(at, _)| {
            let advice = "name no registry host: leave it to the user's cargo, Maven or apt configuration";
            Finding::new(file, at + 1, "registry-host", advice)
        })
        .collect()
}

/// The switch of seeded bugs. It is split in two so that this file does not break its own rule.
const SEEDED_SWITCH: (&str, &str) = ("hopcache", "_seeded");

/// Seeded bugs are patches in `crates/sim/seeded`, so the source itself has none.
pub(super) fn seeded_bugs(file: &str, content: &str) -> Vec<Finding> {
    let (head, tail) = SEEDED_SWITCH;
    let switch = format!("{head}{tail}");
    let found = content.lines().enumerate().filter(|(_, line)| line.contains(&switch));
    let advice = "make the bug a patch in crates/sim/seeded";
    found.map(|(at, _)| Finding::new(file, at + 1, "seeded-bug", advice)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registry_host_is_caught() {
        for (head, tail) in REGISTRY_HOSTS {
            let line = format!("url = https://{head}{tail}/x\n");
            assert_eq!(registry_hosts("a.toml", &line).len(), 1, "{line}");
        }
        assert!(registry_hosts("a.md", "the crates.io registry\n").is_empty());
    }

    #[test]
    fn a_bug_behind_a_switch_is_caught() {
        let (head, tail) = SEEDED_SWITCH;
        let content = format!("fn a() {{\n    #[cfg({head}{tail})]\n    b();\n}}\n");
        let findings = seeded_bugs("crates/core/src/a.rs", &content);
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
    }
}
