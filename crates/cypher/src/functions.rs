//! What is known of functions, by their names: the lists of `crates/cypher/lists`. A function writes nothing: Neo4j gives it a
//! reading view of its transaction. So these lists decide what may be cached and proved, and never what a write touches.
//!
//! | word in a list | the value of the function |
//! |---|---|
//! | `pure` | depends on its arguments alone, and on what the graph elements among them show: their labels, types and properties. It is, or holds, no other element |
//! | `graph` | depends on anything in the graph, or on the server's configuration, and may be any element |
//! | `volatile` | changes by itself: chance, the clock |
//!
//! To add names: `SHOW FUNCTIONS YIELD name, isBuiltIn, description` on a server that has them, read what each depends on, and say in
//! the list which version was asked.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Where the value of a function comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// A function of Cypher. `crate::tags` knows what it reads.
    Cypher,
    /// A pure function of a library.
    Pure,
    /// A function of a library that reads the graph.
    Graph,
    /// A function that changes by itself.
    Volatile,
}

/// Temporal functions: without arguments, or with a time zone only, they are the clock.
pub(crate) const TEMPORAL: [&str; 5] = ["date", "time", "datetime", "localtime", "localdatetime"];

/// Names that Cypher 25 has beside those of [`TEMPORAL`]. They have no members.
const OTHER_TEMPORAL: [(&str, &str); 4] = [
    ("local_datetime", "localdatetime"),
    ("local_time", "localtime"),
    ("zoned_datetime", "datetime"),
    ("zoned_time", "time"),
];

/// Members of the temporal functions that read the clock for any arguments.
const CLOCK_MEMBERS: [&str; 3] = ["transaction", "statement", "realtime"];

const OF_CYPHER: &str = include_str!("../lists/cypher.txt");
const OF_LIBRARIES: [&str; 2] = [include_str!("../lists/apoc-core.txt"), include_str!("../lists/gds.txt")];

type Kinds = BTreeMap<String, FunctionKind>;

static KINDS: LazyLock<Kinds> = LazyLock::new(|| {
    let libraries = OF_LIBRARIES.iter().flat_map(|list| rows(list));
    let all = rows(OF_CYPHER).map(|row| (row, true)).chain(libraries.map(|row| (row, false)));
    all.filter_map(|((name, word), is_cypher)| Some((name.to_lowercase(), kind(word, is_cypher)?))).collect()
});

/// The kind of the function with this name, in lower case, if a list has it. What a temporal function of Cypher is, depends on
/// its arguments: see [`crate::verdict`].
///
/// ```
/// use hopcache_cypher::functions::{FunctionKind, function_kind};
///
/// assert_eq!(function_kind("apoc.coll.toset"), Some(FunctionKind::Pure));
/// assert_eq!(function_kind("my.own"), None);
/// ```
#[must_use]
pub fn function_kind(name: &str) -> Option<FunctionKind> {
    if temporal(name).is_some() { Some(FunctionKind::Cypher) } else { KINDS.get(name).copied() }
}

/// The family and the member of a function that may read the clock: `date`, `date.truncate`, `date.realtime`.
pub(crate) fn temporal(name: &str) -> Option<(&str, &str)> {
    if let Some((_, family)) = OTHER_TEMPORAL.iter().find(|(other, _)| *other == name) {
        return Some((family, ""));
    }
    let (family, member) = name.split_once('.').unwrap_or((name, ""));
    let is_member = matches!(member, "" | "truncate") || CLOCK_MEMBERS.contains(&member);
    (TEMPORAL.contains(&family) && is_member).then_some((family, member))
}

/// `name kind`, one a line. `#` begins a comment.
pub(crate) fn rows(list: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    list.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

fn kind(word: &str, is_cypher: bool) -> Option<FunctionKind> {
    match word {
        "pure" if is_cypher => Some(FunctionKind::Cypher),
        "pure" => Some(FunctionKind::Pure),
        "graph" => Some(FunctionKind::Graph),
        "volatile" => Some(FunctionKind::Volatile),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_a_list_is_a_name_and_its_kind() {
        for list in [OF_CYPHER, OF_LIBRARIES[0], OF_LIBRARIES[1]] {
            let lines = list.lines().filter(|line| !line.starts_with('#')).count();
            assert_eq!(rows(list).count(), lines);
            for (name, word) in rows(list) {
                assert!(kind(word, true).is_some(), "{name} {word}");
            }
            assert!(list.starts_with('#') && list.ends_with('\n'), "its source is named");
        }
        let all = [OF_CYPHER, OF_LIBRARIES[0], OF_LIBRARIES[1]].into_iter().flat_map(rows);
        assert_eq!(all.count(), KINDS.len(), "each name once");
    }

    #[test]
    fn what_changes_by_itself_is_no_pure_function() {
        let named = |word: &str| {
            ["rand", "random", "uuid", "shuffle", "current", "timestamp", "now"]
                .iter()
                .any(|part| word.contains(part))
        };
        // `uuid` is chance without arguments, which the verdict looks for.
        let other = [
            "apoc.create.uuidbase64tohex",
            "apoc.create.uuidhextobase64",
            "uuid",
            "uuid.leastsignificantbits",
            "uuid.mostsignificantbits",
        ];
        for (name, kind) in KINDS.iter().filter(|(name, _)| named(name) && !other.contains(&name.as_str())) {
            assert_eq!(*kind, FunctionKind::Volatile, "{name}");
        }
    }
}
