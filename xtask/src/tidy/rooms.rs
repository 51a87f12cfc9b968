//! Doors between the rooms of `crates/engine`: which room may import which, and which fields a room shows.
//!
//! A room is a folder (or file) under `crates/engine/src`. The rooms have an order, and imports run down. The caller
//! asks first whether rooms exist ([`exist`]).

use super::Finding;
use super::fields;
use super::modules::{SourceFile, absolute};
use super::paths::Reference;

pub(super) const SOURCE_FOLDER: &str = "crates/engine/src/";

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
/// Plain types: every field may be seen.
const MODEL: &str = "model";

/// Whether the engine's files are in rooms yet; the first room is [`MODEL`].
pub(super) fn exist(files: &[(SourceFile, &str)]) -> bool {
    files.iter().any(|(file, _)| file.module.first().is_some_and(|name| name == MODEL))
}

/// `files` are those of the engine, in rooms.
pub(super) fn check(files: &[(SourceFile, &str)]) -> Vec<Finding> {
    files.iter().flat_map(|(file, content)| check_file(file, content)).collect()
}

/// Counts the imports between rooms.
pub(super) fn doors_used(files: &[(SourceFile, &str)]) -> usize {
    let crosses = |file: &SourceFile, reference: &Reference| {
        let scope = [file.module.as_slice(), &reference.inside].concat();
        let to = absolute(&scope, &reference.segments).and_then(|path| path.into_iter().next());
        to.is_some_and(|to| to != file.module[0] && ROOMS.iter().any(|(room, _)| *room == to))
    };
    let in_rooms = files.iter().filter(|(file, _)| matches!(location(file), Some(Location::Room(_))));
    in_rooms
        .flat_map(|(file, _)| file.named.references.iter().filter(move |reference| crosses(file, reference)))
        .count()
}

fn check_file(file: &SourceFile, content: &str) -> Vec<Finding> {
    let Some(location) = location(file) else {
        let advice = "the file is in no room: move it into one, or name a new room in tidy's ROOMS";
        return vec![Finding::new(&file.name, 1, "rooms", advice)];
    };
    let mut findings: Vec<Finding> = match location {
        Location::Root => Vec::new(),
        _ => file.named.references.iter().filter_map(|reference| arrow(file, &location, reference)).collect(),
    };
    if location != Location::Room(MODEL) {
        // In files below `ROOM/mod.rs`, `pub(super)` does not reach outside of the room.
        let super_is_room = file.module.len() > 1;
        let shown = fields::shown(content, super_is_room);
        findings.extend(
            shown.into_iter().map(|field| Finding::new(&file.name, field.line, "room-fields", field.advice)),
        );
    }
    findings
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Location {
    /// `lib.rs`.
    Root,
    Assembly,
    Room(&'static str),
}

fn location(file: &SourceFile) -> Option<Location> {
    match file.module.as_slice() {
        [] => Some(Location::Root),
        [only] if only == ASSEMBLY => Some(Location::Assembly),
        [first, ..] => ROOMS.iter().find(|(room, _)| room == first).map(|(room, _)| Location::Room(room)),
    }
}

/// The finding, if the reference passes a closed door.
fn arrow(file: &SourceFile, location: &Location, reference: &Reference) -> Option<Finding> {
    let scope = [file.module.as_slice(), &reference.inside].concat();
    let path = absolute(&scope, &reference.segments)?;
    let from = file.module[0].as_str();
    let Some(to) = path.first().map(String::as_str) else { return of_root(location, from, file, reference) };
    if from == to {
        return None;
    }
    let written = reference.segments.join("::");
    let advice = match location {
        _ if to == ASSEMBLY => {
            format!(
                "`{from}` → `{to}` (`{written}`): the assembly is for lib.rs alone; take what you need as an argument or port"
            )
        }
        _ if !ROOMS.iter().any(|(room, _)| *room == to) => {
            format!("`{from}` → `{written}`: this is no room's path; name the room that holds it")
        }
        Location::Room(room) => closed_door(room, to, &written)?,
        Location::Root | Location::Assembly => return None,
    };
    Some(Finding::new(&file.name, reference.line, "rooms", advice))
}

/// The finding, if a room takes the crate's root itself, by a glob or another name: behind it all rooms can be reached.
fn of_root(location: &Location, from: &str, file: &SourceFile, reference: &Reference) -> Option<Finding> {
    let written = reference.segments.join("::");
    let advice = format!("`{from}` → `{written}`: this is the crate's root; name the room's path");
    matches!(location, Location::Room(_)).then(|| Finding::new(&file.name, reference.line, "rooms", advice))
}

/// The advice, if the room `from` may not import `to`.
fn closed_door(from: &str, to: &str, written: &str) -> Option<String> {
    let height = |name: &str| ROOMS.iter().position(|(room, _)| *room == name);
    let (_, doors) = ROOMS.iter().find(|(room, _)| *room == from)?;
    if doors.contains(&to) {
        return None;
    }
    let why = if height(to) > height(from) {
        "the arrow runs up; move what both need into the lower room, or let the upper room pass it in (a value, a closure, \
         a trait that the lower room owns)"
    } else {
        "the door is closed; go through a room between, or open it in tidy's ROOMS and say in docs/ARCHITECTURE.md why"
    };
    Some(format!("`{from}` → `{to}` (`{written}`): {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(sources: &[(&str, &'static str)]) -> Vec<String> {
        let read = |(name, content): &(&str, &'static str)| {
            let file = SourceFile::read(SOURCE_FOLDER, &format!("{SOURCE_FOLDER}{name}"), content).unwrap();
            (file, *content)
        };
        let files: Vec<_> = sources.iter().map(read).collect();
        if !exist(&files) {
            return Vec::new();
        }
        check(&files).iter().map(ToString::to_string).collect()
    }

    const MODEL_FILE: (&str, &str) = ("model/mod.rs", "pub struct Ask { pub text: u8 }\n");

    #[test]
    fn doors_of_the_table_run_down() {
        for (at, (room, doors)) in ROOMS.iter().enumerate() {
            for door in *doors {
                let below = ROOMS.iter().position(|(name, _)| name == door);
                assert!(below.is_some_and(|below| below < at), "{room} → {door}");
            }
        }
    }

    #[test]
    fn an_arrow_up_is_found_in_every_form() {
        for source in [
            "use crate::fetch::Job;\n",
            "use crate::{model::Ask, fetch::{self, Job}};\n",
            "fn f() { crate::fetch::run() }\n",
            "use super::super::fetch::Job;\n",
            "use crate::r#fetch::Job;\n",
            "macro_rules! m { () => { $crate::fetch::run() } }\n",
            "macro_rules! m { () => { use $crate::{fetch::Job}; } }\n",
        ] {
            let found = findings(&[MODEL_FILE, ("cache/copy.rs", source)]);
            assert!(!found.is_empty(), "{source}");
            let head = "crates/engine/src/cache/copy.rs:1: rooms: `cache` → `fetch` (`";
            assert!(found[0].starts_with(head), "{}", found[0]);
            assert!(found[0].contains("the arrow runs up"), "{}", found[0]);
        }
    }

    #[test]
    fn the_root_by_a_glob_or_another_name_is_found() {
        for (name, source) in [
            ("cache/copy.rs", "use super::super::*;\nfn f() { fetch::run() }\n"),
            ("cache/mod.rs", "use super::*;\nfn f() { fetch::run() }\n"),
            ("cache/copy.rs", "use super::super as root;\n"),
        ] {
            let found = findings(&[MODEL_FILE, (name, source)]);
            assert!(
                found.iter().any(|each| each.contains("this is the crate's root")),
                "{source}: {found:?}"
            );
        }
        let inside = ("cache/a/b.rs", "use super::super::*;\nuse super::*;\n");
        assert!(findings(&[MODEL_FILE, inside]).is_empty());
    }

    #[test]
    fn arrows_down_and_inside_a_room_are_allowed() {
        let cache = "use crate::model::Ask;\nuse super::near::Near;\nuse crate::cache::copy::Copy;\nuse tokio::fetch::X;\n";
        let engine = "use crate::path::Path;\nuse crate::model::Ask;\n";
        let lib = "mod engine;\npub use engine::Engine;\npub use crate::fetch::Job;\n";
        let found = findings(&[MODEL_FILE, ("cache/a.rs", cache), ("engine.rs", engine), ("lib.rs", lib)]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn imports_between_rooms_are_counted() {
        let source =
            "use crate::model::{Ask, Other};\nuse super::near::Near;\nfn f() { crate::peers::ask() }\n";
        let file = SourceFile::read(SOURCE_FOLDER, "crates/engine/src/cache/a.rs", source).unwrap();
        assert_eq!(doors_used(&[(file, source)]), 3);
    }

    #[test]
    fn text_that_looks_like_a_path_is_no_arrow() {
        let source = "//! See crate::fetch::Job.\n/* use crate::path::X; */\nconst A: &str = \"crate::engine::Engine\";\n";
        assert!(findings(&[MODEL_FILE, ("cache/a.rs", source)]).is_empty());
    }

    #[test]
    fn the_assembly_is_for_lib_rs_alone() {
        let found = findings(&[MODEL_FILE, ("path/mod.rs", "use crate::engine::Engine;\n")]);
        assert!(found[0].contains("the assembly is for lib.rs alone"), "{}", found[0]);
    }

    #[test]
    fn a_path_through_lib_rs_is_found() {
        let found = findings(&[MODEL_FILE, ("path/mod.rs", "use crate::Engine;\n")]);
        assert!(found[0].contains("this is no room's path"), "{}", found[0]);
    }

    #[test]
    fn a_file_outside_rooms_is_found_once_rooms_exist() {
        let outside = ("lead.rs", "use crate::engine::Engine;\n");
        assert!(findings(&[outside]).is_empty());
        let found = findings(&[outside, MODEL_FILE]);
        assert!(
            found[0].starts_with("crates/engine/src/lead.rs:1: rooms: the file is in no room"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn a_field_that_another_room_could_touch_is_found() {
        let wide = "pub struct Copy { pub(crate) bytes: u8 }\n";
        let found = findings(&[MODEL_FILE, ("cache/copy.rs", wide)]);
        assert!(found[0].contains(": room-fields: `Copy` shows a field"), "{}", found[0]);
        let room = "pub struct Copies { pub(super) count: u8 }\n";
        assert!(findings(&[MODEL_FILE, ("cache/copy.rs", room)]).is_empty());
        assert_eq!(findings(&[MODEL_FILE, ("cache/mod.rs", room)]).len(), 1);
    }
}
