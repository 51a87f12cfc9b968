//! Ways around the doors of `crates/engine` that hide an import from the rule "rooms".
//!
//! This module never judges which room an import leads to: [`super::rooms`] does.

use super::Finding;
use super::tokens::{self, Placed, Token};

/// Findings of one file of the engine.
pub(super) fn check(file: &str, content: &str) -> Vec<Finding> {
    let tokens = tokens::read(content);
    let found =
        (0..tokens.len()).filter_map(|at| side_door(&tokens[at..]).map(|what| (tokens[at].line, what)));
    found
        .map(|(line, what)| {
            let advice = format!("{what} hides which room is imported: name the room's path in a `use`");
            Finding::new(file, line, "rooms", advice)
        })
        .collect()
}

/// The side door that opens with the first of `tokens`.
fn side_door(tokens: &[Placed]) -> Option<&'static str> {
    match tokens {
        [root, separator, star, ..]
            if is_crate(root) && separator.token == Token::PathSeparator && star.is_symbol('*') =>
        {
            Some("a glob of the crate's root")
        }
        [root, word, ..] if is_crate(root) && word.is_word("as") => Some("another name for the crate's root"),
        [root, _, open, word, alias, ..]
            if is_crate(root) && open.is_symbol('{') && word.is_word("self") && alias.is_word("as") =>
        {
            Some("another name for the crate's root")
        }
        [word, root, ..] if word.is_word("extern") && is_crate(root) => Some("`extern crate`"),
        [hash, open, word, ..] if hash.is_symbol('#') && open.is_symbol('[') && word.is_word("path") => {
            Some("`#[path]`")
        }
        [word, bang, ..] if word.is_word("include") && bang.is_symbol('!') => Some("`include!`"),
        _ => None,
    }
}

fn is_crate(placed: &Placed) -> bool {
    placed.is_word("crate")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_side_door_is_found() {
        for source in [
            "use crate::*;\n",
            "use crate as root;\n",
            "use crate::{self as root};\n",
            "macro_rules! m { () => { use $crate::*; } }\n",
            "extern crate self as root;\n",
            "#[path = \"../fetch/mod.rs\"]\nmod fetch;\n",
            "include!(\"../fetch/run.rs\");\n",
        ] {
            assert!(!check("a.rs", source).is_empty(), "{source}");
        }
    }

    #[test]
    fn usual_imports_casts_and_text_are_no_side_doors() {
        let source = "use crate::model::*;\nuse crate::fetch::Job as FetchJob;\n// use crate::*;\nconst A: &str = \"use crate::*\";\nfn f(self) -> usize { self as usize }\n";
        assert!(check("a.rs", source).is_empty());
    }
}
