//! Struct fields that another room of the engine could reach into.
//!
//! Rule: a field is visible in its own room at most. Two exceptions: the room `model`, and a struct whose doc comment
//! says "Plain data", whose fields all have the same visibility, and which holds no lock, atomic or cell.

use super::tokens::{self, Placed, Token};

/// The words of a doc comment that allow others to take the struct apart.
const MARK: &str = "plain data";
/// A struct that can change through a shared reference has rules, so it is not plain data.
const CHANGING: [&str; 6] = ["Mutex", "RwLock", "Cell", "RefCell", "OnceCell", "UnsafeCell"];

/// A field that a room shows to others, and why that is forbidden.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) line: usize,
    pub(super) advice: String,
}

/// `super_is_room`: whether `pub(super)` of this file is no wider than the room.
pub(super) fn shown(source: &str, super_is_room: bool) -> Vec<Shown> {
    let tokens = tokens::read(source);
    let mut shown = Vec::new();
    for at in 0..tokens.len() {
        if tokens[at].is_word("struct") {
            shown.extend(Struct::read(&tokens, at).and_then(|read| read.breach(super_is_room)));
        }
    }
    shown
}

/// As written before a field: nothing, `pub`, `pub crate`, `pub super`, `pub in crate :: a`.
type Visibility = String;

struct Struct {
    name: String,
    is_marked: bool,
    can_change: bool,
    fields: Vec<(usize, Visibility)>,
}

impl Struct {
    /// Nothing for a struct without fields.
    fn read(tokens: &[Placed], at: usize) -> Option<Self> {
        let name = tokens.get(at + 1)?.word()?.to_owned();
        let behind = behind_generics(tokens, at + 2);
        // The bracket of a tuple struct follows at once. Before the bracket of other structs, a `where` may have
        // brackets too.
        let open = match tokens.get(behind)? {
            placed if placed.is_symbol('(') => behind,
            _ => {
                let is_end = |placed: &Placed| placed.is_symbol('{') || placed.is_symbol(';');
                behind + tokens[behind..].iter().position(is_end)?
            }
        };
        if tokens[open].is_symbol(';') {
            return None;
        }
        let body = &tokens[open + 1..tokens::behind_bracket(tokens, open) - 1];
        let can_change = body
            .iter()
            .filter_map(Placed::word)
            .any(|word| CHANGING.contains(&word) || word.starts_with("Atomic"));
        let fields = starts(body).into_iter().map(|at| (body[at].line, visibility(&body[at..]))).collect();
        Some(Self { name, is_marked: is_marked(&tokens[..at]), can_change, fields })
    }

    fn breach(&self, super_is_room: bool) -> Option<Shown> {
        let is_wide = |visibility: &str| match visibility {
            "" | "pub self" => false,
            "pub super" => !super_is_room,
            _ => true,
        };
        let (line, visibility) = self.fields.iter().find(|(_, visibility)| is_wide(visibility))?;
        let name = &self.name;
        let why = if !self.is_marked {
            format!(
                "`{name}` shows a field beyond its room (`{visibility}`): make it private and give the room a method, \
                 or, when the struct keeps no rule, begin its doc comment with \"Plain data:\""
            )
        } else if self.can_change {
            format!(
                "`{name}` calls itself plain data and holds a lock, an atomic or a cell: make its fields private"
            )
        } else if self.fields.iter().any(|(_, other)| other != visibility) {
            format!(
                "`{name}` calls itself plain data and hides a field: give all of its fields one visibility"
            )
        } else {
            return None;
        };
        Some(Shown { line: *line, advice: why })
    }
}

fn behind_generics(tokens: &[Placed], start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, placed) in tokens.iter().enumerate().skip(start) {
        match placed.token {
            Token::Symbol('<') => depth += 1,
            Token::Symbol('>') if !tokens[at - 1].is_symbol('-') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return if at == start && !placed.is_symbol('>') { start } else { at + 1 };
        }
    }
    tokens.len()
}

/// Where each field begins, behind its doc comments and attributes.
fn starts(body: &[Placed]) -> Vec<usize> {
    let mut starts = Vec::new();
    let (mut at, mut is_start, mut angles) = (0, true, 0_usize);
    while at < body.len() {
        match &body[at].token {
            Token::Doc(_) => at += 1,
            Token::Symbol('#') => at = tokens::behind_bracket(body, at + 1),
            Token::Symbol(',') if angles == 0 => {
                is_start = true;
                at += 1;
            }
            _ => {
                if std::mem::take(&mut is_start) {
                    starts.push(at);
                }
                let is_bracket = matches!(body[at].token, Token::Symbol('(' | '[' | '{'));
                let is_arrow = at > 0 && body[at - 1].is_symbol('-');
                match body[at].token {
                    Token::Symbol('<') => angles += 1,
                    Token::Symbol('>') if !is_arrow => angles = angles.saturating_sub(1),
                    _ => {}
                }
                at = if is_bracket { tokens::behind_bracket(body, at) } else { at + 1 };
            }
        }
    }
    starts
}

fn visibility(field: &[Placed]) -> Visibility {
    if !field[0].is_word("pub") {
        return Visibility::new();
    }
    if !field.get(1).is_some_and(|placed| placed.is_symbol('(')) {
        return "pub".to_owned();
    }
    let behind = tokens::behind_bracket(field, 1);
    let words: Vec<&str> = field[2..behind].iter().filter_map(Placed::word).collect();
    // `pub (A, B)` of a tuple struct.
    match words.first() {
        Some(&("crate" | "super" | "self" | "in")) => format!("pub {}", words.join(" ")),
        _ => "pub".to_owned(),
    }
}

/// Whether the doc comment right before the struct says that it is plain data.
fn is_marked(before: &[Placed]) -> bool {
    let start = before
        .iter()
        .rposition(|placed| placed.is_symbol(';') || placed.is_symbol('}') || placed.is_symbol('{'));
    before[start.map_or(0, |at| at + 1)..].iter().any(|placed| match &placed.token {
        Token::Doc(text) => text.to_lowercase().starts_with(MARK),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(source: &str) -> Vec<String> {
        shown(source, true).into_iter().map(|shown| format!("{} {}", shown.line, shown.advice)).collect()
    }

    #[test]
    fn a_field_that_other_rooms_see_is_found() {
        let found = advice("struct A {\n    a: u8,\n    /// Why.\n    #[x(y)]\n    pub(crate) b: u8,\n}\n");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("5 `A` shows a field beyond its room (`pub crate`)"), "{}", found[0]);
        assert_eq!(advice("struct A(u8, pub u8);\n").len(), 1);
        assert_eq!(advice("struct A { pub(in crate::fetch) a: u8 }\n").len(), 1);
    }

    #[test]
    fn fields_of_the_own_room_are_allowed() {
        let source = "struct A<T> where T: Fn(u8) -> u8 {\n    a: HashMap<u8, T>,\n    pub(super) b: u8,\n}\nstruct C;\n";
        assert!(advice(source).is_empty(), "{:?}", advice(source));
        assert_eq!(shown(source, false).len(), 1);
    }

    #[test]
    fn plain_data_shows_all_of_its_fields_or_none() {
        assert!(
            advice("/// Plain data: a row.\n#[derive(Debug)]\npub struct A { pub a: u8, pub b: Vec<u8> }\n")
                .is_empty()
        );
        let hides = "/// Plain data: a row.\npub struct A { pub a: u8, b: u8 }\n";
        assert!(advice(hides)[0].contains("hides a field"));
        let locks = "/// Plain data: a row.\npub struct A { pub a: Mutex<u8> }\n";
        assert!(advice(locks)[0].contains("holds a lock"));
    }

    #[test]
    fn a_mark_counts_for_the_next_struct_only() {
        let source = "/// Plain data: a row.\npub struct A { pub a: u8 }\npub struct B { pub b: u8 }\n";
        assert_eq!(advice(source).len(), 1);
        assert!(advice(source)[0].contains("`B`"));
    }
}
