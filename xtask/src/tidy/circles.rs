//! Import circles between the files of one crate: none in the crates listed here.
//!
//! A file in a circle cannot be read, tested or moved without all the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{Modules, SourceFile};
use super::{Finding, rooms};

/// Which arrows count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Every arrow.
    EveryArrow,
    /// A child module may need the file of a module around it: rustc shows a child what is private there, and a type's methods
    /// may stand in children of its file. Siblings and strangers stay without circles.
    ChildrenKnowParents,
}

/// Source folders of crates without a circle. A crate joins, or gets stricter, when its last circle is gone.
pub(super) const FOLDERS: &[(&str, Level)] = &[
    ("crates/packstream/src/", Level::EveryArrow),
    ("crates/queryapi/src/", Level::ChildrenKnowParents),
    ("crates/core/src/", Level::ChildrenKnowParents),
    ("crates/learning/src/", Level::ChildrenKnowParents),
    // From its first room on: see `rooms`.
    (rooms::SOURCE_FOLDER, Level::ChildrenKnowParents),
    ("crates/gossip/src/", Level::EveryArrow),
    ("crates/embedded/src/", Level::EveryArrow),
    ("crates/fuzzing/src/", Level::EveryArrow),
    ("xtask/src/", Level::ChildrenKnowParents),
];

/// One file needs another, first in this line.
type Arrows = BTreeMap<usize, BTreeMap<usize, usize>>;

/// One finding for each group of files that all reach each other.
pub(super) fn check(files: &[SourceFile], level: Level) -> Vec<Finding> {
    let arrows = arrows(files, level);
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for &start in arrows.keys() {
        if seen.contains(&start) {
            continue;
        }
        let Some(circle) = shortest_circle(&arrows, start) else { continue };
        let group = group(&arrows, start);
        findings.push(finding(files, &arrows, &circle, &group));
        seen.extend(group);
    }
    findings
}

fn arrows(files: &[SourceFile], level: Level) -> Arrows {
    let modules = Modules::new(files);
    let mut arrows = Arrows::new();
    for (from, file) in files.iter().enumerate() {
        for reference in &file.named.references {
            let Some(to) = modules.needed(from, reference) else { continue };
            let is_to_parent = file.module.starts_with(&files[to].module);
            if level == Level::EveryArrow || !is_to_parent {
                arrows.entry(from).or_default().entry(to).or_insert(reference.line);
            }
        }
    }
    arrows
}

/// Breadth first from `start` back to `start`.
fn shortest_circle(arrows: &Arrows, start: usize) -> Option<Vec<usize>> {
    let mut came_from = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for &next in arrows.get(&at).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                let mut circle = vec![at];
                while circle[circle.len() - 1] != start {
                    circle.push(came_from[&circle[circle.len() - 1]]);
                }
                circle.reverse();
                return Some(circle);
            }
            if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(next) {
                entry.insert(at);
                queue.push_back(next);
            }
        }
    }
    None
}

/// Every file that `start` reaches and that reaches `start`.
fn group(arrows: &Arrows, start: usize) -> BTreeSet<usize> {
    let reached = reached(arrows, start);
    reached.iter().copied().filter(|&file| self::reached(arrows, file).contains(&start)).collect()
}

fn reached(arrows: &Arrows, start: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        open.extend(
            arrows.get(&at).into_iter().flat_map(BTreeMap::keys).filter(|next| reached.insert(**next)),
        );
    }
    reached
}

fn finding(files: &[SourceFile], arrows: &Arrows, circle: &[usize], group: &BTreeSet<usize>) -> Finding {
    let next = |at: usize| circle[(at + 1) % circle.len()];
    let steps = circle.iter().enumerate().map(|(at, file)| {
        format!("{}:{} needs {}", files[*file].name, arrows[file][&next(at)], files[next(at)].name)
    });
    let inside = |file: &&usize| arrows.get(file).into_iter().flat_map(BTreeMap::keys);
    let count = group.iter().flat_map(|file| inside(&file)).filter(|to| group.contains(to)).count();
    let advice = format!(
        "{} files import each other by {count} arrows, for example {}: move what both need into a lower file, or pass it in",
        group.len(),
        steps.collect::<Vec<_>>().join(", "),
    );
    Finding::new(&files[circle[0]].name, arrows[&circle[0]][&next(0)], "circle", advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(level: Level, sources: &[(&str, &str)]) -> Vec<String> {
        let read = |(name, content): &(&str, &str)| {
            SourceFile::read("src/", &format!("src/{name}"), content).unwrap()
        };
        let files: Vec<SourceFile> = sources.iter().map(read).collect();
        check(&files, level).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_of_three_files_is_found_once_with_its_arrows() {
        let found = findings(
            Level::EveryArrow,
            &[
                ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
                ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
                ("b.rs", "\nuse crate::c::C;\npub struct B(C);\n"),
                ("c.rs", "\n\npub fn c() { crate::a::A::new() }\npub struct C;\n"),
                ("d.rs", "use crate::a::A;\n"),
            ],
        );
        assert_eq!(found.len(), 1, "{found:?}");
        let steps = "src/a.rs:1 needs src/b.rs, src/b.rs:2 needs src/c.rs, src/c.rs:3 needs src/a.rs";
        assert!(found[0].starts_with("src/a.rs:1: circle: 3 files"), "{}", found[0]);
        assert!(found[0].contains(steps), "{}", found[0]);
    }

    #[test]
    fn a_facade_and_the_tests_of_a_child_make_no_circle() {
        let child = "pub struct Child(super::other::Other);\n#[cfg(test)]\nmod tests {\n    use super::super::*;\n}\n";
        let found = findings(
            Level::EveryArrow,
            &[
                ("lib.rs", "mod a;\n"),
                (
                    "a/mod.rs",
                    "mod child;\nmod other;\n#[cfg(test)]\nmod tests;\npub use child::Child;\npub use other::*;\n",
                ),
                ("a/child.rs", child),
                ("a/other.rs", "pub struct Other;\n"),
                ("a/tests.rs", "use super::*;\nfn t() { super::child::Child }\n"),
            ],
        );
        assert!(found.is_empty(), "{found:?}");
    }

    const PARENT_AND_CHILD: [(&str, &str); 3] = [
        ("lib.rs", "mod a;\n"),
        ("a/mod.rs", "mod child;\nmod other;\nuse child::Child;\npub struct Parent(Child);\n"),
        ("a/child.rs", "use super::Parent;\npub struct Child;\n"),
    ];

    #[test]
    fn a_parent_that_uses_its_child_which_uses_the_parent_is_found_at_the_strict_level() {
        assert_eq!(findings(Level::EveryArrow, &PARENT_AND_CHILD).len(), 1);
        assert!(findings(Level::ChildrenKnowParents, &PARENT_AND_CHILD).is_empty());
    }

    #[test]
    fn siblings_in_a_circle_are_found_at_the_other_level_too() {
        let siblings = [
            ("a/child.rs", "use super::other::Other;\npub struct Child;\n"),
            ("a/other.rs", "use super::child::Child;\npub struct Other;\n"),
        ];
        let sources = [&PARENT_AND_CHILD[..2], &siblings].concat();
        assert_eq!(findings(Level::ChildrenKnowParents, &sources).len(), 1);
    }
}
