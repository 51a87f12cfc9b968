//! Other spellings of a statement: names in backticks or like keywords, keywords in other case, comments, spaces.

use std::collections::BTreeMap;

use hopcache_cypher::lexer::{Token, TokenKind, tokens};

use super::random::Random;

/// Variables of the generators.
const VARIABLES: [&str; 12] = ["a", "b", "c", "n", "m", "r", "s", "p", "v", "e", "i", "ns"];

/// Names that are keywords somewhere. The server refuses some of them without backticks.
const NAMES: [&str; 24] = [
    "match",
    "where",
    "set",
    "delete",
    "order",
    "exists",
    "count",
    "any",
    "end",
    "is",
    "in",
    "labels",
    "type",
    "case",
    "null",
    "shortestPath",
    "reduce",
    "with",
    "x",
    "LA",
    "on",
    "create",
    "distinct",
    "limit",
];

/// Half of all texts are respelled.
pub fn respelled(text: &str, random: &mut Random) -> String {
    if random.chance(50) {
        return text.to_owned();
    }
    let names = names(random);
    let all: Vec<Token> = tokens(text).collect();
    let mut out = random.pick(&["", "", "CYPHER 5 ", "cypher runtime=slotted planner = dp "]).to_owned();
    let mut end = 0;
    for (index, token) in all.iter().enumerate() {
        let gap = &text[end..token.start];
        out.push_str(gap);
        if !gap.is_empty() && random.chance(5) {
            out.push_str(random.pick(&["/* ' */", "// RETURN n\n", "\t", "/* ( */ "]));
        }
        let is_parameter = index > 0 && all[index - 1].is('$');
        out.push_str(&spelled(token, token.text(text), &names, is_parameter, random));
        end = token.end;
    }
    out
}

/// New names for some variables.
fn names(random: &mut Random) -> BTreeMap<&'static str, String> {
    let mut names = BTreeMap::new();
    if random.chance(30) {
        return names;
    }
    for variable in VARIABLES {
        if random.chance(15) {
            let name = random.pick(&NAMES);
            // Two variables never get the same name: each keeps its own letters at the end.
            let quoted = format!("`{name}{variable}`");
            let alike = format!("`{name} `");
            let is_first = !names.values().any(|other: &String| other.contains(name));
            let bare = if is_first { name.to_owned() } else { quoted.clone() };
            let choices =
                [quoted.as_str(), bare.as_str(), if is_first { alike.as_str() } else { quoted.as_str() }];
            let chosen = if random.chance(70) { choices[0] } else { random.pick(&choices) };
            names.insert(variable, chosen.to_owned());
        }
    }
    names
}

fn spelled(
    token: &Token,
    word: &str,
    names: &BTreeMap<&str, String>,
    is_parameter: bool,
    random: &mut Random,
) -> String {
    if token.kind != TokenKind::Word || is_parameter {
        return word.to_owned();
    }
    if let Some(name) = names.get(word) {
        return name.clone();
    }
    let is_keyword = word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_keyword && random.chance(30) {
        return word.to_lowercase();
    }
    let is_label = ["LA", "LB", "LC", "LD", "TR", "TS", "TT", "x", "y", "z", "w"].contains(&word);
    if is_label && random.chance(10) { format!("`{word}`") } else { word.to_owned() }
}
