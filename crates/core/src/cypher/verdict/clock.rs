//! Whether the argument of a temporal function could make it read the clock.
//!
//! Three arguments do: none, a map with nothing but a time zone, and the string by which Neo4j marks "no argument"
//! ([`names::DEFAULT_ARGUMENT`]). A value of the graph may be any of them, and so may a variable. So a function with an
//! argument that is not listed at [`argument`] counts as volatile. That costs sharing, never a wrong answer: for
//! example `date(n.born)` is not cached, and `n.born` by itself is.

use super::super::lexer::TokenKind;
use super::{View, names};

/// How far an argument list is read. A longer argument is uncertain, so that nested calls cannot make this quadratic.
const ARGUMENT_TOKENS_MAX: usize = 128;

/// The argument of a temporal function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Argument {
    /// Certainly no clock.
    Harmless,
    /// A value from a parameter: [`is_in`] decides whether a parameter may be a clock.
    Param,
    /// Anything else.
    Uncertain,
}

/// The kind of the argument that begins at `from`. Harmless are a string without an escape, a map literal with a key
/// other than the time zone, and the result of a temporal function; a parameter or a part of it depends on its value.
pub(super) fn argument(view: View<'_>, from: usize) -> Argument {
    let Some(end) = argument_end(view, from) else { return Argument::Uncertain };
    if is_plain_text(view, from, end) || is_dated_map(view, from, end) || is_temporal(view, from, end) {
        Argument::Harmless
    } else if is_param(view, from, end) {
        Argument::Param
    } else {
        Argument::Uncertain
    }
}

/// The kind of the second argument of the list that begins at `from`. Without one it is the clock.
pub(super) fn second_argument(view: View<'_>, from: usize) -> Argument {
    match argument_end(view, from) {
        Some(end) if view.is(end, ',') => argument(view, end + 1),
        _ => Argument::Uncertain,
    }
}

/// Whether one of the parameters, a PackStream map, may be a clock.
pub(super) fn is_in(params: &[u8]) -> bool {
    let default = names::DEFAULT_ARGUMENT.as_bytes();
    params.windows(default.len()).any(|part| part == default)
        || (0..params.len()).any(|from| begins_clock_key(&params[from..]).is_some())
}

/// A string literal that does not mean "no argument". An escape in it may spell anything.
fn is_plain_text(view: View<'_>, from: usize, end: usize) -> bool {
    let text = view.texts.get(from).copied().unwrap_or_default();
    let is_text = view.tokens.get(from).is_some_and(|token| token.kind == TokenKind::Text);
    let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    is_text && end == from + 1 && !inside.contains('\\') && inside != names::DEFAULT_ARGUMENT
}

/// A map literal with another key than a time zone. Its first key is nearly always one.
fn is_dated_map(view: View<'_>, from: usize, end: usize) -> bool {
    if !view.is(from, '{') {
        return false;
    }
    let mut key = from + 1;
    loop {
        let Some(name) = view.name(key) else { return false };
        let Some(value_end) = argument_end(view, key) else { return false };
        if !is_clock_key(&name) {
            return closing(view, from).is_some_and(|close| close + 1 == end);
        }
        if !view.is(value_end, ',') {
            return false;
        }
        key = value_end + 1;
    }
}

/// A call of a function that returns a point in time, with additions and subtractions. If such a sum is a string, it
/// begins with that point in time.
fn is_temporal(view: View<'_>, from: usize, end: usize) -> bool {
    if !view.is_name(from) {
        return false;
    }
    let open = view.chain_end(from);
    let name = view.lowered_chain(from, open);
    let (family, member) = name.split_once('.').unwrap_or((&name, ""));
    let returns_time = names::TEMPORAL.contains(&family)
        && matches!(member, "" | "truncate" | "fromepoch" | "fromepochmillis");
    let Some(close) = closing(view, open).filter(|_| returns_time && view.is(open, '(')) else {
        return false;
    };
    close + 1 == end || view.is(close + 1, '+') || view.is(close + 1, '-')
}

/// `$name`, `$name.member`, `$name[0]`, `$name['member']` and so on.
fn is_param(view: View<'_>, from: usize, end: usize) -> bool {
    let is_word = |index: usize| {
        let kind = view.tokens.get(index).map(|token| token.kind);
        matches!(kind, Some(TokenKind::Word | TokenKind::QuotedWord | TokenKind::Number))
    };
    if !view.is(from, '$') || !is_word(from + 1) {
        return false;
    }
    let mut index = from + 2;
    while index < end {
        let kind = view.tokens.get(index + 1).map(|token| token.kind);
        if view.is(index, '.') && view.is_name(index + 1) {
            index += 2;
        } else if view.is(index, '[')
            && matches!(kind, Some(TokenKind::Number | TokenKind::Text))
            && view.is(index + 2, ']')
        {
            index += 3;
        } else {
            return false;
        }
    }
    index == end
}

/// The bracket that closes the one at `open`, if it is near.
fn closing(view: View<'_>, open: usize) -> Option<usize> {
    let mut from = open + 1;
    while from <= open + ARGUMENT_TOKENS_MAX {
        let end = argument_end(view, from)?;
        if !view.is(end, ',') {
            return Some(end);
        }
        from = end + 1;
    }
    None
}

/// The comma or bracket that ends the argument that begins at `from`, if it is near.
fn argument_end(view: View<'_>, from: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for index in from..from + ARGUMENT_TOKENS_MAX {
        match view.tokens.get(index)?.kind {
            TokenKind::Punct('(' | '[' | '{') => depth += 1,
            TokenKind::Punct(')' | ']' | '}') if depth > 0 => depth -= 1,
            TokenKind::Punct(',' | ')' | ']' | '}') if depth == 0 => return Some(index),
            _ => {}
        }
    }
    None
}

fn is_clock_key(name: &str) -> bool {
    begins_clock_key(name.as_bytes()) == Some(name.len())
}

/// The length of the clock key at the start of `bytes`, as Java compares it without regard to case. A dotless ı and a
/// dotted İ equal an i there; no other letter of the key has such a double.
fn begins_clock_key(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for letter in names::CLOCK_KEY {
        let rest = bytes.get(at..)?;
        at += match rest.first()? {
            first if first.eq_ignore_ascii_case(letter) => 1,
            _ if *letter == b'i' && names::OTHER_I.iter().any(|other| rest.starts_with(other.as_bytes())) => {
                2
            }
            _ => return None,
        };
    }
    Some(at)
}
