//! Which room of `crates/engine` may import which.
//!
//! A room is a folder (or file) under `crates/engine/src`. The rooms have an order, and imports run down. An import from another room
//! is written `crate::ROOM::…`, one room a path, so that this can read it; other ways to the crate's root are findings.

use super::Finding;

const SOURCE_FOLDER: &str = "crates/engine/src/";

/// The rooms, bottom up, each with the lower rooms that it may import. Remove a name to close a door.
const ROOMS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("cache", &["model"]),
    ("peers", &["model", "cache"]),
    ("invalidate", &["model", "cache", "peers"]),
    ("writes", &["model", "cache", "peers", "invalidate"]),
    ("fetch", &["model", "cache", "peers", "invalidate", "writes"]),
    ("refresh", &["model", "cache", "peers", "invalidate", "fetch"]),
    ("prefetch", &["model", "cache", "peers", "invalidate", "fetch", "refresh"]),
    ("path", &["model", "cache", "peers", "invalidate", "writes", "fetch", "refresh", "prefetch"]),
];

/// Assembles the rooms: imports all of them, and only `lib.rs` imports it.
const ASSEMBLY: &str = "engine";

/// Findings of one file of the engine.
pub(super) fn check(file: &str, content: &str) -> Vec<Finding> {
    let Some(inside) = file.strip_prefix(SOURCE_FOLDER).and_then(|file| file.strip_suffix(".rs")) else {
        return Vec::new();
    };
    let mut module: Vec<&str> = inside.split('/').collect();
    module.pop_if(|last| *last == "mod");
    let from = module[0];
    let doors = match ROOMS.iter().find(|(room, _)| *room == from) {
        _ if from == "lib" => return Vec::new(),
        Some((_, doors)) => doors.to_vec(),
        None if from == ASSEMBLY => ROOMS.iter().map(|(room, _)| *room).collect(),
        None => {
            let advice = "the file is in no room: move it into one, or name a new room in tidy's ROOMS";
            return vec![Finding::new(file, 1, "rooms", advice)];
        }
    };
    let (mut findings, mut depth) = (Vec::new(), module.len());
    for (line, text) in (1..).zip(content.lines()) {
        let code = text.split("//").next().unwrap_or_default();
        // Inline modules stand last in a file (rustfmt's form).
        depth += usize::from(code.trim_end().ends_with('{') && format!(" {code}").contains(" mod "));
        for name in names(code, depth) {
            if name != from && !doors.contains(&name) {
                findings.push(Finding::new(
                    file,
                    line,
                    "rooms",
                    format!("`{from}` → `{name}`: {}", advice(from, name)),
                ));
            }
        }
    }
    findings
}

/// The names that a line takes from the crate's root.
fn names(code: &str, depth: usize) -> Vec<&str> {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
    let name =
        |path: &'_ str| path.find(|c| !is_of_name(c)).map_or(path.len(), |end| end.max(1).min(path.len()));
    let root = "super::".repeat(depth);
    let from_root = code.split("crate::").skip(1).chain(code.split(root.as_str()).skip(1));
    let mut names: Vec<&str> = from_root.map(|path| &path[..name(path)]).collect();
    if code.contains("crate as ") {
        names.push("the root");
    }
    names
}

fn advice(from: &str, to: &str) -> &'static str {
    let height = |name: &str| ROOMS.iter().position(|(room, _)| *room == name);
    match to {
        ASSEMBLY => "the assembly is for lib.rs alone; take what you need as an argument or port",
        _ if height(to).is_none() => "this is no room's path; write `crate::ROOM::…`, one room a path",
        _ if height(to) > height(from) => {
            "the arrow runs up; move what both need into the lower room, or let the upper room pass it in (a value, a \
             closure, a trait that the lower room owns)"
        }
        _ => {
            "the door is closed; go through a room between, or open it in tidy's ROOMS and say in ARCHITECTURE why"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(name: &str, content: &str) -> Vec<String> {
        check(&format!("{SOURCE_FOLDER}{name}"), content).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn doors_of_the_table_run_down() {
        for (at, (room, doors)) in ROOMS.iter().enumerate() {
            let is_below = |door: &&str| ROOMS[..at].iter().any(|(name, _)| name == door);
            assert!(doors.iter().all(is_below), "{room}");
        }
    }

    #[test]
    fn an_arrow_up_and_every_other_way_to_the_root_are_found() {
        for source in [
            "use crate::fetch::Job;\n",
            "fn f() { crate::fetch::run() }\n",
            "use super::super::fetch::Job;\n",
            "use crate::{model::Ask, fetch::{self, Job}};\n",
            "use crate::*;\n",
            "use super::super::*;\n",
            "use crate as root;\n",
        ] {
            assert_eq!(findings("cache/copy.rs", source).len(), 1, "{source}");
        }
        let found = findings("cache/copy.rs", "\nuse crate::fetch::Job;\n");
        assert!(
            found[0].starts_with(
                "crates/engine/src/cache/copy.rs:2: rooms: `cache` → `fetch`: the arrow runs up"
            )
        );
        assert_eq!(findings("cache/mod.rs", "mod tests {\n    use super::super::fetch::Job;\n}\n").len(), 1);
        assert!(findings("path/mod.rs", "use crate::engine::Engine;\n")[0].contains("for lib.rs alone"));
        assert!(findings("path/mod.rs", "use crate::Engine;\n")[0].contains("this is no room's path"));
        assert!(findings("lead.rs", "")[0].contains("the file is in no room"));
    }

    #[test]
    fn arrows_down_and_inside_a_room_and_comments_are_allowed() {
        let cache = "//! See crate::fetch::Job.\nuse crate::model::Ask;\nuse super::near::Near;\npub(crate) fn f() { crate::cache::copy::g() }\nuse tokio::fetch::X;\n";
        assert!(findings("cache/a.rs", cache).is_empty());
        assert!(findings("cache/a/b.rs", "use super::super::*;\nuse super::*;\n").is_empty());
        assert!(findings("cache/mod.rs", "mod tests {\n    use super::*;\n}\n").is_empty());
        assert!(findings("engine.rs", "use crate::path::Path;\n").is_empty());
        assert!(findings("lib.rs", "pub use engine::Engine;\npub use crate::fetch::Job;\n").is_empty());
    }
}
