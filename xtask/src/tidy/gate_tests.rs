//! Names of tests in `.config/nextest.toml`. A filter that names a test which has another name by now selects nothing, and
//! cargo-nextest does not report it.

use super::Finding;

/// The file that names tests.
pub(super) const FILE: &str = ".config/nextest.toml";

/// `sources` are the Rust files of the repository with their text.
pub(super) fn check(content: &str, sources: &[(&str, String)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(content.lines()) {
        let names = text.split("test(=").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        for name in names.filter(|name| !is_there(name, sources)) {
            let advice = format!("there is no test {name}: write its name of now, or remove the line");
            findings.push(Finding::new(FILE, line, "gate-test", advice));
        }
    }
    findings
}

/// Whether a file of this module has a function of this name.
fn is_there(name: &str, sources: &[(&str, String)]) -> bool {
    let mut parts = name.rsplit("::");
    let (Some(test), module) = (parts.next(), parts.next()) else { return false };
    let function = format!("fn {test}(");
    let is_of_module =
        |file: &str| module.is_none_or(|module| file.split(['/', '.']).any(|part| part == module));
    sources.iter().any(|(file, text)| is_of_module(file) && text.contains(&function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_test_is_found() {
        let sources = [("tests/cluster/hits.rs", "async fn a_hit_asks_nobody() {}".to_owned())];
        let named = "  test(=cluster::hits::a_hit_asks_nobody)\n| test(=cluster::hits::an_old_name)\n| test(=cluster::misses::a_hit_asks_nobody)";
        let found: Vec<String> = check(named, &sources).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with(
                ".config/nextest.toml:2: gate-test: there is no test cluster::hits::an_old_name"
            )
        );
    }
}
