//! Which room of `crates/engine` may import which.
//!
//! A room is a folder (or file) under `crates/engine/src`. The rooms have an order, and imports run down. Names behind
//! `crate::`, and behind as many `super::` as lead to the crate's root, are read from the text; macros that build such a
//! path from their arguments are not.

use super::Finding;

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

/// Findings of one file of the engine.
pub(super) fn check(file: &str, content: &str) -> Vec<Finding> {
    let Some(inside) = file.strip_prefix(SOURCE_FOLDER).and_then(|file| file.strip_suffix(".rs")) else {
        return Vec::new();
    };
    let mut module: Vec<&str> = inside.split('/').collect();
    module.pop_if(|last| *last == "mod");
    let from = module[0];
    if from == "lib" {
        return Vec::new();
    }
    let doors = ROOMS.iter().find(|(room, _)| *room == from).map(|(_, doors)| *doors);
    if doors.is_none() && from != ASSEMBLY {
        let advice = "the file is in no room: move it into one, or name a new room in tidy's ROOMS";
        return vec![Finding::new(file, 1, "rooms", advice)];
    }
    let is_open = |to: &str| to == from || doors.map_or(is_room(to), |doors| doors.contains(&to));
    let finding = |(line, to): (usize, String)| {
        Finding::new(file, line, "rooms", format!("`{from}` → `{to}`: {}", advice(from, &to)))
    };
    from_root(&code_of(content), module.len())
        .into_iter()
        .filter(|(_, to)| !is_open(to))
        .map(finding)
        .collect()
}

fn is_room(name: &str) -> bool {
    ROOMS.iter().any(|(room, _)| *room == name)
}

fn advice(from: &str, to: &str) -> &'static str {
    let height = |name: &str| ROOMS.iter().position(|(room, _)| *room == name);
    match to {
        ASSEMBLY => "the assembly is for lib.rs alone; take what you need as an argument or port",
        _ if !is_room(to) => "this is no room's path; name the room that holds it",
        _ if height(to) > height(from) => {
            "the arrow runs up; move what both need into the lower room, or let the upper room pass it in (a value, a \
             closure, a trait that the lower room owns)"
        }
        _ => {
            "the door is closed; go through a room between, or open it in tidy's ROOMS and say in ARCHITECTURE why"
        }
    }
}

/// The source without comments and without the text of strings; lines stay.
fn code_of(source: &str) -> String {
    let (mut code, mut rest) = (String::with_capacity(source.len()), source);
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") {
            3
        } else if first == '"' {
            let is_escaped =
                |at: usize| rest[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
            let mut quotes = rest.match_indices('"').map(|(at, _)| at).skip(1);
            quotes.find(|at| !is_escaped(*at)).map_or(rest.len(), |end| end + 1)
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.extend(rest[..skipped].matches('\n'));
        rest = &rest[skipped..];
    }
    code
}

/// The names that the code takes from the crate's root, each with its line. `depth`: of the file's module.
fn from_root(code: &str, depth: usize) -> Vec<(usize, String)> {
    let inline: Vec<(usize, usize)> = inline_modules(code);
    let mut found = Vec::new();
    for (at, word) in words(code).filter(|(_, word)| matches!(*word, "crate" | "super")) {
        let mut behind = at + word.len();
        if word == "super" {
            if code[..at].ends_with("super::") {
                continue;
            }
            let mut supers = 1;
            while code[behind..].starts_with("::super") {
                (supers, behind) = (supers + 1, behind + "::super".len());
            }
            let nested = inline.iter().filter(|(start, end)| (*start..*end).contains(&at)).count();
            if supers != depth + nested {
                continue;
            }
        }
        let line = code[..at].matches('\n').count() + 1;
        match code[behind..].strip_prefix("::") {
            Some(names) => found.extend(heads(names).into_iter().map(|name| (line, name))),
            // `pub(crate)` and `pub(super)` name nothing.
            None if code[behind..].trim_start().starts_with("as ") => {
                found.push((line, "the root".to_owned()));
            }
            None => {}
        }
    }
    found
}

/// Each word of the code with its place.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let split = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    split
        .map(move |word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
        .filter(|(_, word)| !word.is_empty())
}

/// The first names of a path or of a group of paths.
fn heads(path: &str) -> Vec<String> {
    let name = |text: &str| {
        let text = text.trim_start().trim_start_matches("r#");
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        if end == 0 { text.chars().take(1).collect() } else { text[..end].to_owned() }
    };
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut depth, mut start, mut names) = (0_usize, 0, Vec::new());
    for (at, symbol) in group.char_indices() {
        match symbol {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
                if symbol == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Where modules within the file begin and end. Relies on rustfmt: the last line is a `}` indented as the first one is.
fn inline_modules(code: &str) -> Vec<(usize, usize)> {
    let mut modules = Vec::new();
    let mut at = 0;
    for line in code.split_inclusive('\n') {
        let text = line.trim();
        if text.ends_with('{') && (text.starts_with("mod ") || text.contains(" mod ")) {
            let end = format!("\n{}}}", &line[..line.len() - line.trim_start().len()]);
            modules.push((at, code[at..].find(&end).map_or(code.len(), |length| at + length)));
        }
        at += line.len();
    }
    modules
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
            "use super::super::{cache::A, fetch::Job};\n",
            "use crate::r#fetch::Job;\n",
            "macro_rules! m { () => { $crate::fetch::run() } }\n",
        ] {
            let found = findings("cache/copy.rs", source);
            assert_eq!(found.len(), 1, "{source}: {found:?}");
            assert!(found[0].starts_with(
                "crates/engine/src/cache/copy.rs:1: rooms: `cache` → `fetch`: the arrow runs up"
            ));
        }
    }

    #[test]
    fn the_root_itself_is_found() {
        for source in
            ["use crate::*;\n", "use super::super::*;\n", "use crate as root;\n", "use crate::{self as r};\n"]
        {
            assert_eq!(findings("cache/copy.rs", source).len(), 1, "{source}");
        }
        assert_eq!(findings("cache/mod.rs", "use super::*;\n").len(), 1);
        assert!(findings("cache/a/b.rs", "use super::super::*;\nuse super::*;\n").is_empty());
        assert_eq!(findings("cache/mod.rs", "mod tests {\n    use super::super::fetch::Job;\n}\n").len(), 1);
        assert!(findings("cache/mod.rs", "mod tests {\n    use super::*;\n}\n").is_empty());
    }

    #[test]
    fn arrows_down_and_inside_a_room_are_allowed() {
        let cache = "use crate::model::Ask;\nuse super::near::Near;\npub(crate) fn f() { crate::cache::copy::g() }\nuse tokio::fetch::X;\n";
        assert!(findings("cache/a.rs", cache).is_empty());
        assert!(findings("engine.rs", "use crate::path::Path;\n").is_empty());
        assert!(findings("lib.rs", "pub use engine::Engine;\npub use crate::fetch::Job;\n").is_empty());
    }

    #[test]
    fn text_that_looks_like_a_path_is_no_arrow() {
        let source = "//! See crate::fetch::Job.\n/* use crate::path::X; */\nconst A: &str = \"a \\\" crate::engine::Engine\";\n";
        assert!(findings("cache/a.rs", source).is_empty());
        assert_eq!(findings("cache/a.rs", "const A: char = '\"';\nuse crate::path::X;\n").len(), 1);
    }

    #[test]
    fn what_is_no_room_is_found() {
        assert!(
            findings("path/mod.rs", "use crate::engine::Engine;\n")[0]
                .contains("the assembly is for lib.rs alone")
        );
        assert!(findings("path/mod.rs", "use crate::Engine;\n")[0].contains("this is no room's path"));
        assert!(findings("lead.rs", "")[0].contains("the file is in no room"));
    }
}
