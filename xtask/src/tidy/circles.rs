//! Import circles between the files of one crate. The crates in [`FOLDERS`] may have none.
//!
//! A file in a circle cannot be read, tested or moved without all others of the circle.
//!
//! [`Level::ChildrenKnowParents`] has one exception, because Rust is made so: a child module may use private items of
//! its parent, and the methods of a type may stand in children of the type's file. A parent and its children are one
//! unit then. Circles inside the unit are allowed; circles between the unit and any other file are findings:
//!
//! - `fetch.rs → fetch/run.rs → fetch.rs` is allowed: the only way back goes from a child to its parent.
//! - `fetch/run.rs → fetch/wait.rs → fetch/run.rs` is a finding: siblings are no parents.
//! - `fetch.rs → pace.rs → fetch/run.rs → fetch.rs` is a finding: the circle leaves the unit.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::modules::{Modules, SourceFile};
use super::{Finding, rooms};

/// Which arrows count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// Every arrow.
    EveryArrow,
    /// A child may import its parent (the file of a module around it), as long as no file outside of the parent is part
    /// of the circle. See the module's text.
    ChildrenKnowParents,
}

/// Source folders of crates without a circle. A crate joins the list, or gets a stricter level, when its last circle is
/// gone. `xtask` and `engine` are not at [`Level::EveryArrow`]: they have types whose methods stand in children of the
/// type's file.
pub(super) const FOLDERS: &[(&str, Level)] = &[
    ("crates/packstream/src/", Level::EveryArrow),
    ("crates/queryapi/src/", Level::ChildrenKnowParents),
    ("crates/core/src/", Level::ChildrenKnowParents),
    ("crates/learning/src/", Level::ChildrenKnowParents),
    ("crates/cypher/src/", Level::ChildrenKnowParents),
    // From its first room on: see `rooms`.
    (rooms::SOURCE_FOLDER, Level::ChildrenKnowParents),
    ("crates/slots/src/", Level::EveryArrow),
    ("crates/gossip/src/", Level::EveryArrow),
    ("crates/embedded/src/", Level::EveryArrow),
    ("crates/bolt/src/", Level::EveryArrow),
    ("crates/net/src/", Level::ChildrenKnowParents),
    ("crates/config/src/", Level::ChildrenKnowParents),
    ("crates/ops/src/", Level::ChildrenKnowParents),
    ("crates/store/src/", Level::ChildrenKnowParents),
    ("crates/neo4j/src/", Level::ChildrenKnowParents),
    ("crates/cluster/src/", Level::ChildrenKnowParents),
    ("crates/node/src/", Level::ChildrenKnowParents),
    ("crates/fuzzing/src/", Level::EveryArrow),
    ("crates/sim/src/", Level::ChildrenKnowParents),
    ("crates/testbed/src/", Level::EveryArrow),
    ("crates/trials/src/", Level::EveryArrow),
    ("crates/bench/src/", Level::EveryArrow),
    ("xtask/src/", Level::ChildrenKnowParents),
];

/// Arrows of each file: the needed file, and the first line that needs it.
type Arrows = BTreeMap<usize, BTreeMap<usize, usize>>;

/// One finding for each group of files that all reach each other.
pub(super) fn check(files: &[SourceFile], level: Level) -> Vec<Finding> {
    let every = arrows(files, Level::EveryArrow);
    let arrows = arrows(files, level);
    let mut findings = check_arrows(files, &arrows);
    if level == Level::ChildrenKnowParents {
        findings.extend(circles_out_of_parents(files, &every, &arrows));
    }
    findings
}

fn check_arrows(files: &[SourceFile], arrows: &Arrows) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for &start in arrows.keys() {
        if seen.contains(&start) {
            continue;
        }
        let Some(circle) = shortest_circle(arrows, start) else { continue };
        let group = group(arrows, start);
        findings.push(finding(files, arrows, &circle, &group));
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

/// Circles that only a child's import of its parent closes, and that pass through a file outside of the parent.
/// `arrows` are those of `every` without the imports of parents.
fn circles_out_of_parents(files: &[SourceFile], every: &Arrows, arrows: &Arrows) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (&child, targets) in every {
        for (&parent, &line) in targets {
            if arrows.get(&child).is_some_and(|kept| kept.contains_key(&parent)) {
                continue;
            }
            let is_outside = |file: usize| !files[file].module.starts_with(&files[parent].module);
            let Some(way) = way_through(arrows, parent, child, is_outside) else { continue };
            let group = way.iter().copied().collect();
            let mut with_parent = arrows.clone();
            with_parent.entry(child).or_default().insert(parent, line);
            findings.push(finding(files, &with_parent, &way, &group));
        }
    }
    findings
}

/// The shortest way from `from` to `to` with a file that `is_outside`, by breadth first over (file, was outside).
fn way_through(
    arrows: &Arrows,
    from: usize,
    to: usize,
    is_outside: impl Fn(usize) -> bool,
) -> Option<Vec<usize>> {
    let start = (from, false);
    let mut came_from = BTreeMap::from([(start, start)]);
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        if at == (to, true) {
            let mut way = vec![at];
            while way[way.len() - 1] != start {
                way.push(came_from[&way[way.len() - 1]]);
            }
            return Some(way.into_iter().rev().map(|(file, _)| file).collect());
        }
        for &next in arrows.get(&at.0).into_iter().flat_map(BTreeMap::keys) {
            let next = (next, at.1 || is_outside(next));
            if let std::collections::btree_map::Entry::Vacant(entry) = came_from.entry(next) {
                entry.insert(at);
                queue.push_back(next);
            }
        }
    }
    None
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
    let names: Vec<&str> = group.iter().map(|file| files[*file].name.as_str()).collect();
    let advice = format!(
        "{} files ({}) import each other by {count} arrows, for example {}: move the common items into a lower file, or pass \
         them in",
        group.len(),
        names.join(", "),
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
        assert!(
            found[0].starts_with("src/a.rs:1: circle: 3 files (src/a.rs, src/b.rs, src/c.rs)"),
            "{}",
            found[0]
        );
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
    fn a_circle_of_parent_and_child_through_a_file_outside_is_found_at_the_other_level_too() {
        let sources = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a/mod.rs", "pub mod child;\nuse crate::b::B;\npub struct Parent(B);\n"),
            ("a/child.rs", "use super::Parent;\npub struct Child;\n"),
            ("b.rs", "use crate::a::child::Child;\npub struct B(Child);\n"),
        ];
        let found = findings(Level::ChildrenKnowParents, &sources);
        assert_eq!(found.len(), 1, "{found:?}");
        let steps = "src/a/mod.rs:2 needs src/b.rs, src/b.rs:1 needs src/a/child.rs, src/a/child.rs:1 needs src/a/mod.rs";
        assert!(found[0].contains(steps), "{}", found[0]);
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
