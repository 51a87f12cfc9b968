//! Sizes and headers of source files (STYLE: 500 lines a file, 70 a function, `//!` on top).

use super::Finding;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

pub(super) fn check(file: &str, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = content.lines().count();
    if lines > FILE_LINES_MAX {
        let advice = format!("{lines} lines, {FILE_LINES_MAX} at most: split where a name appears");
        findings.push(Finding::new(file, FILE_LINES_MAX + 1, "file-size", advice));
    }
    if needs_header(file) && !content.starts_with("//!") {
        let advice = "open the file with `//!`: what it decides and what it never does";
        findings.push(Finding::new(file, 1, "module-header", advice));
    }
    findings.extend(long_functions(file, content));
    findings
}

fn needs_header(file: &str) -> bool {
    file.starts_with("xtask/src/") || (file.starts_with("crates/") && file.contains("/src/"))
}

/// Relies on rustfmt: a function's last line is a `}` indented as its first line is.
fn long_functions(file: &str, content: &str) -> Vec<Finding> {
    let lines: Vec<&str> = content.lines().collect();
    let mut findings = Vec::new();
    for (start, line) in lines.iter().enumerate().filter(|(_, line)| opens_function(line)) {
        // A declaration without a body, or one on a single line, ends before any line ends with `{`.
        let signature = lines[start..].iter().find(|line| line.ends_with(['{', ';', '}']));
        if !signature.is_some_and(|line| line.ends_with('{')) {
            continue;
        }
        let end = format!("{}}}", &line[..indent(line)]);
        let length = lines[start..].iter().position(|line| *line == end).map_or(1, |last| last + 1);
        if length > FUNCTION_LINES_MAX {
            let advice = format!("{length} lines, {FUNCTION_LINES_MAX} at most: split where a name appears");
            findings.push(Finding::new(file, start + 1, "function-size", advice));
        }
    }
    findings
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn opens_function(line: &str) -> bool {
    let Some((before, _)) = line.trim_start().split_once("fn ") else { return false };
    before
        .split_whitespace()
        .all(|word| matches!(word, "const" | "async" | "unsafe" | "extern") || word.starts_with("pub"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(file: &str, content: &str) -> Vec<&'static str> {
        check(file, content).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_file_of_501_lines_is_caught_and_500_is_not() {
        assert_eq!(rules("tests/a.rs", &"x\n".repeat(501)), ["file-size"]);
        assert!(rules("tests/a.rs", &"x\n".repeat(500)).is_empty());
    }

    #[test]
    fn a_missing_header_is_caught_under_src_only() {
        assert_eq!(rules("crates/core/src/a.rs", "fn a() {}\n"), ["module-header"]);
        assert_eq!(rules("xtask/src/main.rs", "fn main() {}\n"), ["module-header"]);
        assert!(rules("crates/core/src/a.rs", "//! Says what.\n").is_empty());
        assert!(rules("crates/core/tests/a.rs", "fn a() {}\n").is_empty());
    }

    #[test]
    fn a_function_of_71_lines_is_caught_and_70_is_not() {
        let function =
            |lines: usize| format!("    pub async fn a() {{\n{}    }}\n", "x();\n".repeat(lines - 2));
        assert_eq!(rules("tests/a.rs", &function(71)), ["function-size"]);
        assert!(rules("tests/a.rs", &function(70)).is_empty());
    }

    #[test]
    fn a_declaration_is_not_measured_to_the_end_of_the_next_function() {
        let trait_with_default = format!(
            "    fn a(\n        x: u8,\n    ) -> u8;\n    fn b() {{\n{}    }}\n",
            "x();\n".repeat(68)
        );
        assert!(rules("tests/a.rs", &trait_with_default).is_empty());
    }
}
