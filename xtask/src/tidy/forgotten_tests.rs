//! Test files that belong to no test program.
//!
//! A package with `autotests = false` lists its test programs. A test file that no program declares as a module would
//! never run, and neither cargo nor rustc would report it.

use super::Finding;

/// `sources` are the Rust files of the repository with their text.
pub(super) fn check(manifest: &str, content: &str, sources: &[(&str, String)]) -> Vec<Finding> {
    let Some(package) = manifest.strip_suffix("Cargo.toml") else { return Vec::new() };
    if !content.lines().any(|line| line.trim() == "autotests = false") {
        return Vec::new();
    }
    let folder = format!("{package}tests/");
    let inside = || sources.iter().filter_map(|(file, text)| Some((file.strip_prefix(&folder)?, text)));
    let is_program = |file: &str| content.contains(&format!("path = \"tests/{file}\""));
    let declared: Vec<&str> = inside()
        .filter(|(file, _)| is_program(file))
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let is_forgotten = |file: &&str| {
        let module = file.strip_suffix("/mod.rs").or_else(|| file.strip_suffix(".rs")).unwrap_or(file);
        let is_direct = !module.contains('/');
        is_direct && !is_program(file) && !declared.contains(&module)
    };
    inside()
        .map(|(file, _)| file)
        .filter(is_forgotten)
        .map(|file| {
            let advice =
                "no test program holds it: declare it as `mod` in one of those that Cargo.toml names";
            Finding::new(&format!("{folder}{file}"), 1, "forgotten-test", advice)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str =
        "[package]\nautotests = false\n[[test]]\nname = \"all\"\npath = \"tests/all.rs\"\n";

    fn found(files: &[(&'static str, &str)]) -> Vec<String> {
        let sources: Vec<(&str, String)> =
            files.iter().map(|(file, text)| (*file, (*text).to_owned())).collect();
        check("crates/a/Cargo.toml", MANIFEST, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_that_no_program_declares_is_found() {
        let program = ("crates/a/tests/all.rs", "mod one;\nmod folder;\n");
        let held = [
            ("crates/a/tests/one.rs", ""),
            ("crates/a/tests/folder/mod.rs", ""),
            ("crates/a/tests/folder/deep.rs", ""),
        ];
        assert!(found(&[&[program][..], &held].concat()).is_empty());
        let forgotten = found(&[program, ("crates/a/tests/two.rs", ""), ("crates/b/tests/two.rs", "")]);
        assert_eq!(forgotten.len(), 1, "{forgotten:?}");
        assert!(forgotten[0].starts_with("crates/a/tests/two.rs:1: forgotten-test"), "{}", forgotten[0]);
    }

    #[test]
    fn a_package_whose_tests_cargo_finds_is_left_alone() {
        assert!(
            check("crates/a/Cargo.toml", "[package]\n", &[("crates/a/tests/b.rs", String::new())]).is_empty()
        );
    }
}
