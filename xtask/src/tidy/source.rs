//! Sizes and headers of source files (STYLE: 500 lines a file, `//!` on top). Functions are clippy's (`too_many_lines`).

use super::Finding;

const FILE_LINES_MAX: usize = 500;

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
    findings
}

fn needs_header(file: &str) -> bool {
    file.starts_with("xtask/src/") || (file.starts_with("crates/") && file.contains("/src/"))
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
}
