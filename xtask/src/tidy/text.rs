//! A rule for all text: no registry hosts.

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
}
