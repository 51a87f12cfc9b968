//! The modules of one crate: finds the file that a path leads to, through imports and re-exports.
//!
//! Resolves by text only. An unknown name belongs to the module that the path names, or to another crate.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{self, Kind, Named, Reference};
use super::tokens::word_of;

/// Longest chain of re-exports. A longer one is a circle of names.
const REEXPORTS_MAX: usize = 16;

/// The way from the crate's root: `["cache", "copy"]`.
pub(super) type ModulePath = Vec<String>;

/// A file of the crate, with what it names.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// The path that git reports.
    pub(super) name: String,
    pub(super) module: ModulePath,
    pub(super) named: Named,
}

impl SourceFile {
    /// Nothing if `name` is not below `source_folder` (`crates/engine/src/`).
    pub(super) fn read(source_folder: &str, name: &str, content: &str) -> Option<Self> {
        let module = module_of(name.strip_prefix(source_folder)?)?;
        Some(Self { name: name.to_owned(), module, named: paths::read(content) })
    }
}

/// `a/b.rs` and `a/b/mod.rs` are `a::b`; `lib.rs` is the root. `main.rs` is a crate of its own.
fn module_of(file: &str) -> Option<ModulePath> {
    let mut path: ModulePath = file.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    match path.last().map(String::as_str) {
        Some("main") if path.len() == 1 => return None,
        Some("lib") if path.len() == 1 => path.clear(),
        Some("mod") => {
            path.pop();
        }
        _ => {}
    }
    Some(path.iter().map(|name| word_of(name)).collect())
}

/// The path that `crate::`, `self::` and `super::` stand for in the module `scope`; nothing for any other first name.
pub(super) fn absolute(scope: &[String], segments: &[String]) -> Option<ModulePath> {
    let mut at = scope.to_vec();
    let mut rest = segments;
    match rest.first().map(String::as_str) {
        Some("crate") => {
            at.clear();
            rest = &rest[1..];
        }
        Some("self") => rest = &rest[1..],
        Some("super") => {}
        _ => return None,
    }
    while rest.first().is_some_and(|name| name == "super") {
        at.pop();
        rest = &rest[1..];
    }
    at.extend_from_slice(rest);
    Some(at)
}

#[derive(Debug, Default)]
struct Module {
    file: usize,
    items: BTreeSet<String>,
    imports: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    is_test: bool,
}

/// Where a path ends.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Module(ModulePath),
    /// An item, in the file with this index.
    File(usize),
}

pub(super) struct Modules<'a> {
    files: &'a [SourceFile],
    by_path: BTreeMap<ModulePath, Module>,
}

impl<'a> Modules<'a> {
    pub(super) fn new(files: &'a [SourceFile]) -> Self {
        let mut by_path: BTreeMap<ModulePath, Module> = BTreeMap::new();
        for (index, file) in files.iter().enumerate() {
            let at = |inside: &[String]| [file.module.as_slice(), inside].concat();
            by_path.entry(at(&[])).or_default().file = index;
            for declared in &file.named.modules {
                let mut path = at(&declared.inside);
                path.push(declared.name.clone());
                let module = by_path.entry(path).or_default();
                module.is_test |= declared.is_test;
                if declared.has_body {
                    module.file = index;
                }
            }
            for item in &file.named.items {
                by_path.entry(at(&item.inside)).or_default().items.insert(item.name.clone());
            }
            for reference in &file.named.references {
                let module = by_path.entry(at(&reference.inside)).or_default();
                match &reference.kind {
                    Kind::Import { name, .. } => {
                        module.imports.insert(name.clone(), reference.segments.clone());
                    }
                    Kind::Glob { .. } => module.globs.push(reference.segments.clone()),
                    Kind::Code => {}
                }
            }
        }
        Self { files, by_path }
    }

    /// The other file that the reference needs. Nothing for another crate, for the same file, for test code, and for a
    /// re-export of a module's own child (`pub use child::Thing`).
    pub(super) fn needed(&self, file: usize, reference: &Reference) -> Option<usize> {
        let scope = [self.files[file].module.as_slice(), &reference.inside].concat();
        if reference.is_test || self.is_test(&scope) {
            return None;
        }
        let path = self.absolute(&scope, &reference.segments, REEXPORTS_MAX)?;
        let is_public =
            matches!(reference.kind, Kind::Import { is_public: true, .. } | Kind::Glob { is_public: true });
        if is_public && path.len() > scope.len() && path.starts_with(&scope) {
            return None;
        }
        let target = match self.locate(&path, REEXPORTS_MAX) {
            Some(Target::File(target)) => target,
            // An imported module is only a shorter name. The items that the file takes from it count.
            Some(Target::Module(_)) if !matches!(reference.kind, Kind::Glob { .. }) => return None,
            _ => self.nearest(&path)?.file,
        };
        (target != file).then_some(target)
    }

    fn is_test(&self, scope: &[String]) -> bool {
        (1..=scope.len())
            .any(|length| self.by_path.get(&scope[..length]).is_some_and(|module| module.is_test))
    }

    /// Follows a first name that is a child module or imported; nothing for another crate.
    fn absolute(&self, scope: &[String], segments: &[String], reexports: usize) -> Option<ModulePath> {
        if let Some(path) = absolute(scope, segments) {
            return Some(path);
        }
        let (first, rest) = segments.split_first()?;
        let child = [scope, std::slice::from_ref(first)].concat();
        if self.by_path.contains_key(&child) {
            return Some([&child, rest].concat());
        }
        let import = self.by_path.get(scope)?.imports.get(first)?;
        // `use tokio::time` in a file: `time::sleep` is tokio's; so is `use bytes` itself.
        if reexports == 0 || import.first() == Some(first) {
            return None;
        }
        Some([self.absolute(scope, import, reexports - 1)?.as_slice(), rest].concat())
    }

    fn locate(&self, path: &[String], reexports: usize) -> Option<Target> {
        let length = (0..=path.len()).rev().find(|length| self.by_path.contains_key(&path[..*length]))?;
        let (module_path, rest) = path.split_at(length);
        let Some(name) = rest.first() else { return Some(Target::Module(path.to_vec())) };
        let module = &self.by_path[module_path];
        if module.items.contains(name) {
            return Some(Target::File(module.file));
        }
        let reexports = reexports.checked_sub(1)?;
        let through = |segments: &[String], rest: &[String]| {
            let target = self.absolute(module_path, segments, reexports)?;
            self.locate(&[target.as_slice(), rest].concat(), reexports)
        };
        match module.imports.get(name) {
            Some(import) => through(import, &rest[1..]),
            None => module.globs.iter().find_map(|glob| through(glob, rest)),
        }
    }

    fn nearest(&self, path: &[String]) -> Option<&Module> {
        (0..=path.len()).rev().find_map(|length| self.by_path.get(&path[..length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which file each reference of `a/from.rs` needs, in a crate with facades, private imports and inline modules.
    fn needed(source: &str) -> Vec<String> {
        let sources = [
            ("lib.rs", "pub mod a;\npub mod b;\nmod c;\npub use a::Deep;\n"),
            (
                "a/mod.rs",
                "mod deep;\nmod from;\npub use deep::Deep;\nuse crate::c::Hidden;\npub struct Own;\n",
            ),
            ("a/deep.rs", "pub struct Deep;\n"),
            ("a/from.rs", source),
            ("b.rs", "pub mod inner { pub struct Inner; }\npub use crate::c::*;\n"),
            ("c.rs", "pub struct Hidden;\n"),
        ];
        let read = |(name, content): (&str, &str)| {
            SourceFile::read("src/", &format!("src/{name}"), content).unwrap()
        };
        let files: Vec<SourceFile> = sources.into_iter().map(read).collect();
        let modules = Modules::new(&files);
        let references = &files[3].named.references;
        let found = references.iter().filter_map(|reference| modules.needed(3, reference));
        found.map(|file| files[file].name.trim_start_matches("src/").to_owned()).collect()
    }

    #[test]
    fn a_path_leads_through_facades_to_the_file_of_the_item() {
        assert_eq!(needed("use crate::a::Deep;\n"), ["a/deep.rs"]);
        assert_eq!(needed("use crate::Deep;\n"), ["a/deep.rs"]);
        assert_eq!(needed("use super::{Own, Hidden};\n"), ["a/mod.rs", "c.rs"]);
        assert_eq!(needed("fn f() { crate::b::inner::Inner::new() }\n"), ["b.rs"]);
        assert_eq!(needed("use crate::b::Hidden;\n"), ["c.rs"]);
    }

    #[test]
    fn an_imported_module_is_a_shorter_name() {
        assert_eq!(needed("use crate::b;\nfn f() { b::inner::Inner::new() }\n"), ["b.rs"]);
        assert_eq!(needed("use crate::a as other;\nfn f() { other::Deep::new() }\n"), ["a/deep.rs"]);
    }

    #[test]
    fn other_crates_test_code_and_the_file_itself_are_needed_by_nobody() {
        assert!(
            needed("use tokio::time;\nfn f() { time::sleep(); Self::g(); std::mem::take(x) }\n").is_empty()
        );
        assert!(
            needed("#[cfg(test)]\nmod tests {\n    use super::*;\n    use crate::c::Hidden;\n}\n").is_empty()
        );
        assert!(needed("pub struct Here;\nfn f() { self::Here }\n").is_empty());
    }

    #[test]
    fn a_raw_identifier_and_the_crate_of_a_macro_lead_to_the_same_file() {
        assert_eq!(needed("use crate::r#a::r#Deep;\n"), ["a/deep.rs"]);
        assert_eq!(needed("macro_rules! m { () => { $crate::c::Hidden } }\n"), ["c.rs"]);
        assert_eq!(
            needed("macro_rules! m { () => { use $crate::{a::Deep, c::Hidden}; } }\n"),
            ["a/deep.rs", "c.rs"]
        );
    }

    #[test]
    fn a_file_has_its_module() {
        assert_eq!(module_of("type.rs"), Some(vec!["r#type".to_owned()]));
        assert_eq!(module_of("a/b.rs"), module_of("a/b/mod.rs"));
        assert_eq!(module_of("lib.rs"), Some(Vec::new()));
        assert_eq!(module_of("main.rs"), None);
    }
}
