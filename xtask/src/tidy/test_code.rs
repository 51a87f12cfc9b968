//! Rules for test code: no sleeps, no ignored tests, no fixed ports, and no crate of hopcache in `tests/`.
//!
//! A sleep that does not synchronise (the pause of a bounded poll, a simulated delay) is allowed by a comment with a
//! reason, on its line or the line above: `// tidy: poll interval`.

use super::Finding;

const MARKER: &str = "// tidy: ";

pub(super) fn check(file: &str, content: &str) -> Vec<Finding> {
    let lines: Vec<&str> = content.lines().collect();
    let first = if is_test_file(file) { 0 } else { test_module_start(&lines) };
    let mut findings = Vec::new();
    for at in first..lines.len() {
        if lines[at].trim_start().starts_with("//") {
            continue;
        }
        let reasoned = has_reason(lines[at]) || (at > 0 && has_reason(lines[at - 1]));
        let code = without_strings(lines[at]);
        if code.contains("#[ignore") {
            findings.push(Finding::new(file, at + 1, "no-ignore", "make the test run, or delete it"));
        }
        if file.starts_with("tests/") && names_crate(&code) {
            findings.push(Finding::new(
                file,
                at + 1,
                "protocols-only",
                "tests know only HTTP and Bolt: drop the crate's path",
            ));
        }
        if !reasoned && sleeps(&code) {
            let advice = "wait on a barrier or counter; a poll's pause says `// tidy: poll interval`";
            findings.push(Finding::new(file, at + 1, "no-sleep", advice));
        }
        if !reasoned && opens_fixed_port(lines[at]) {
            findings.push(Finding::new(file, at + 1, "no-fixed-port", "bind port 0 and read the address"));
        }
    }
    findings
}

fn is_test_file(file: &str) -> bool {
    file.starts_with("tests/")
        || file.contains("/tests/")
        || file.ends_with("/tests.rs")
        || file.ends_with("_tests.rs")
}

/// Test modules stand last in a file: everything from `#[cfg(test)] mod …` on is test code.
fn test_module_start(lines: &[&str]) -> usize {
    lines
        .windows(2)
        .position(|pair| pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod "))
        .unwrap_or(lines.len())
}

fn names_crate(code: &str) -> bool {
    let is_path =
        |rest: &str| rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').starts_with("::");
    code.split("hopcache").skip(1).any(is_path)
}

fn has_reason(line: &str) -> bool {
    line.split_once(MARKER).is_some_and(|(_, reason)| reason.split_whitespace().count() >= 2)
}

/// Drops text between quotes, so that a rule's test data does not count as code.
fn without_strings(line: &str) -> String {
    line.split('"').step_by(2).collect()
}

fn sleeps(code: &str) -> bool {
    ["thread::sleep(", "time::sleep(", "sleep_until("].iter().any(|call| code.contains(call))
        || code.trim_start().starts_with("sleep(")
        || code.contains(" sleep(")
}

fn opens_fixed_port(line: &str) -> bool {
    let code = without_strings(line);
    if !["bind(", "connect("].iter().any(|call| code.contains(call)) {
        return false;
    }
    ["\"127.0.0.1:", "\"0.0.0.0:", "\"localhost:", "\"[::1]:"].iter().any(|host| {
        line.split_once(host).is_some_and(|(_, port)| port.starts_with(|c: char| ('1'..='9').contains(&c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, content: &str) -> Vec<&'static str> {
        check(file, content).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_sleep_is_caught_in_test_code_only() {
        let sleep = "std::thread::sleep(second);\n";
        assert_eq!(rules("tests/a/main.rs", sleep), ["no-sleep"]);
        assert_eq!(rules("crates/a/src/tests.rs", "tokio::time::sleep(s).await;\n"), ["no-sleep"]);
        assert!(rules("crates/a/src/lib.rs", sleep).is_empty());
        assert_eq!(
            rules("crates/a/src/lib.rs", &format!("#[cfg(test)]\nmod tests {{\n{sleep}")),
            ["no-sleep"]
        );
    }

    #[test]
    fn a_test_that_reaches_into_a_crate_is_caught() {
        assert_eq!(rules("tests/a/main.rs", "use hopcache_engine::Engine;\n"), ["protocols-only"]);
        assert!(rules("tests/a/main.rs", "let metric = \"hopcache_engine::total\";\n").is_empty());
        assert!(rules("crates/engine/tests/a.rs", "use hopcache_engine::Engine;\n").is_empty());
    }

    #[test]
    fn a_marker_needs_a_reason() {
        assert!(rules("tests/a.rs", "// tidy: poll interval\nthread::sleep(p);\n").is_empty());
        assert_eq!(rules("tests/a.rs", "thread::sleep(p); // tidy: \n"), ["no-sleep"]);
    }

    #[test]
    fn an_ignored_test_is_caught_even_with_a_reason() {
        assert_eq!(rules("tests/a.rs", "// tidy: too slow\n#[ignore = \"slow\"]\n"), ["no-ignore"]);
    }

    #[test]
    fn a_fixed_port_is_caught_and_port_0_is_not() {
        assert_eq!(rules("tests/a.rs", "TcpListener::bind(\"127.0.0.1:7687\")\n"), ["no-fixed-port"]);
        assert!(rules("tests/a.rs", "TcpListener::bind(\"127.0.0.1:0\")\n").is_empty());
        assert!(rules("tests/a.rs", "parse(\"127.0.0.1:7687\")\n").is_empty());
    }
}
