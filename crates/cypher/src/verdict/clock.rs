//! Whether the argument of a temporal function could make it read the clock.
//!
//! Three arguments do: none, a map with nothing but a time zone, and the string by which Neo4j marks "no argument"
//! ([`names::DEFAULT_ARGUMENT`]). A value of the graph may be any of them, and so may a variable. So a function with an
//! argument that is not listed at [`argument`] counts as volatile. That costs sharing, never a wrong answer: for
//! example `date(n.born)` is not cached, and `n.born` by itself is.
//!
//! `time` reads the clock for more arguments. A value of it has an offset and no date, so Neo4j takes the offset that a
//! named zone has *today*: `time({hour: 12, timezone: 'Europe/Berlin'})` is another value in summer than in winter. A time
//! without a zone gets the one of `db.temporal.timezone`, which may be a named one too. So `time` needs an offset in its
//! text ([`time_argument`]). All other functions have a date, or refuse a zone beside other keys (tried on 5.26.12 and
//! 2026.09.0; the default zone by `TimeValue.parseOffset` of 5.26.12).

use super::{View, names};
use crate::functions::{TEMPORAL, temporal};
use crate::lexer::TokenKind;

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

/// The kind of the arguments of `date(…)` and its like, which begin at `from`.
pub(super) fn constructed(view: View<'_>, family: &str, from: usize) -> Argument {
    if family != TIME {
        return argument(view, from);
    }
    // With a pattern behind it, a text may be read in another way.
    let is_only = argument_end(view, from).is_some_and(|end| view.is(end, ')'));
    if is_only { time_argument(view, from) } else { Argument::Uncertain }
}

/// The kind of the arguments of `date.truncate(unit, value, fields)` and its like, which begin at `from`. Without a value
/// they are the clock.
pub(super) fn truncated(view: View<'_>, family: &str, from: usize) -> Argument {
    let Some(value) = argument_behind(view, from) else { return Argument::Uncertain };
    if family != TIME {
        return argument(view, value);
    }
    match argument_behind(view, value) {
        Some(fields) if !is_fields_of_time(view, fields) => Argument::Uncertain,
        _ => time_argument(view, value),
    }
}

/// The family whose values have an offset and no date.
const TIME: &str = "time";

/// As [`argument`], for `time`: harmless with an offset in the text, or from a function whose result has one.
fn time_argument(view: View<'_>, from: usize) -> Argument {
    let Some(end) = argument_end(view, from) else { return Argument::Uncertain };
    // Behind a time only an offset has a sign. Neo4j refuses the name of a zone there.
    let has_offset = |text: &str| text.contains(['+', '-']) || text.ends_with('Z');
    let is_fixed = plain_text(view, from, end).is_some_and(has_offset)
        || (is_dated_map(view, from, end) && has_fixed_zone(view, from, end) == Some(true))
        || is_temporal(view, from, end, &[TIME, "datetime"]);
    if is_fixed { Argument::Harmless } else { Argument::Uncertain }
}

/// Whether the third argument of `time.truncate` is a map literal without a named zone.
fn is_fields_of_time(view: View<'_>, from: usize) -> bool {
    let end = argument_end(view, from);
    end.is_some_and(|end| {
        entries(view, from, end).is_some() && has_fixed_zone(view, from, end) != Some(false)
    })
}

/// The kind of the argument that begins at `from`. Harmless are a string without an escape, a map literal with a key
/// other than the time zone, and the result of a temporal function; a parameter or a part of it depends on its value.
pub(super) fn argument(view: View<'_>, from: usize) -> Argument {
    let Some(end) = argument_end(view, from) else { return Argument::Uncertain };
    let is_fixed = plain_text(view, from, end).is_some()
        || is_dated_map(view, from, end)
        || is_temporal(view, from, end, &TEMPORAL);
    if is_fixed {
        Argument::Harmless
    } else if is_param(view, from, end) {
        Argument::Param
    } else {
        Argument::Uncertain
    }
}

/// Where the argument begins that stands behind the one at `from`.
fn argument_behind(view: View<'_>, from: usize) -> Option<usize> {
    argument_end(view, from).filter(|end| view.is(*end, ',')).map(|end| end + 1)
}

/// Whether one of the parameters, a PackStream map, may be a clock.
pub(super) fn is_in(params: &[u8]) -> bool {
    let default = names::DEFAULT_ARGUMENT.as_bytes();
    params.windows(default.len()).any(|part| part == default)
        || (0..params.len()).any(|from| begins_clock_key(&params[from..]).is_some())
}

/// What stands in a string literal that does not mean "no argument". An escape in it may spell anything.
fn plain_text<'a>(view: View<'a>, from: usize, end: usize) -> Option<&'a str> {
    let text = view.texts.get(from).copied().unwrap_or_default();
    let is_text = view.tokens.get(from).is_some_and(|token| token.kind == TokenKind::Text);
    let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
    let is_plain = is_text && end == from + 1 && !inside.contains('\\') && inside != names::DEFAULT_ARGUMENT;
    is_plain.then_some(inside)
}

/// A map literal with another key than a time zone.
fn is_dated_map(view: View<'_>, from: usize, end: usize) -> bool {
    entries(view, from, end).is_some_and(|entries| entries.iter().any(|entry| !is_clock_key(&entry.key)))
}

/// Whether the time zone in a map literal is an offset and no name, such as `'+01:00'`; `None` if the map has no zone.
fn has_fixed_zone(view: View<'_>, from: usize, end: usize) -> Option<bool> {
    let is_offset = |entry: &Entry| {
        plain_text(view, entry.value, entry.end)
            .is_some_and(|zone| zone.starts_with(['+', '-']) || zone == "Z")
    };
    let entries = entries(view, from, end)?;
    let zones = entries.iter().filter(|entry| is_clock_key(&entry.key));
    zones.map(is_offset).reduce(|one, other| one && other)
}

/// An entry of a map literal: its key, and where its value begins and ends.
struct Entry {
    key: String,
    value: usize,
    end: usize,
}

/// The entries of a map literal; `None` if `from..end` is none, or has no entry.
fn entries(view: View<'_>, from: usize, end: usize) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut before = Some(from).filter(|open| view.is(*open, '{'))?;
    loop {
        let (key, value) = (view.name(before + 1)?, before + 3);
        let value_end = argument_end(view, value).filter(|_| view.is(before + 2, ':'))?;
        entries.push(Entry { key, value, end: value_end });
        if !view.is(value_end, ',') {
            return (value_end + 1 == end).then_some(entries);
        }
        before = value_end;
    }
}

/// A call of a function of `families` that returns a point in time, with additions and subtractions. If such a sum is a
/// string, it begins with that point in time.
fn is_temporal(view: View<'_>, from: usize, end: usize, families: &[&str]) -> bool {
    if !view.is_name(from) {
        return false;
    }
    let open = view.chain_end(from);
    let name = view.lowered_chain(from, open);
    let parts = temporal(&name).unwrap_or_else(|| name.split_once('.').unwrap_or((&name, "")));
    let (family, member) = parts;
    let returns_time =
        families.contains(&family) && matches!(member, "" | "truncate" | "fromepoch" | "fromepochmillis");
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
