//! Procedures and functions. A name before an opening bracket is a call unless a keyword or the end of
//! an index hint; a call that no list allows makes the text a bypass.

use super::super::lexer::TokenKind;
use super::{BypassReason, Lexed, View, names};

/// How far an argument list is read for the one thing that matters in it. A temporal function whose
/// first argument is longer is taken for a clock, so that nested calls cannot make this quadratic.
const ARGUMENT_TOKENS_MAX: usize = 64;

/// The verdict on everything the text calls.
pub(super) fn judge(view: View<'_>, procedures: &[String]) -> Lexed {
    let mut clock = Clock::default();
    let mut index = 0;
    while index < view.tokens.len() {
        let (next, reason) = if let Some(procedure) = procedure_name(view, index) {
            let allowed = is_allowed(view, index + 1, procedure, procedures);
            (procedure, if allowed { None } else { Some(BypassReason::Procedure) })
        } else if view.is_name(index) {
            let end = chain_end(view, index);
            (end, if view.is(end, '(') { function(view, index, end, &mut clock) } else { None })
        } else {
            (index + 1, None)
        };
        if let Some(reason) = reason {
            return Lexed::Bypass(reason);
        }
        clock.note(view, index, next);
        index = next.max(index + 1);
    }
    clock.verdict()
}

/// Where the name of the procedure that is called at `index` ends; `None` where none is called.
fn procedure_name(view: View<'_>, index: usize) -> Option<usize> {
    let is_call = view.is_word(index, "CALL") && !view.is_qualified(index) && view.is_name(index + 1);
    let is_variable = view.is_any_word(index + 1, &names::AFTER_VARIABLE) && !view.is(index + 2, '.');
    if is_call && !is_variable { Some(chain_end(view, index + 1)) } else { None }
}

/// The index behind `a.b.c`, which begins at `index`.
fn chain_end(view: View<'_>, mut index: usize) -> usize {
    while view.is(index + 1, '.') && view.is_name(index + 2) {
        index += 2;
    }
    index + 1
}

fn chain(view: View<'_>, start: usize, end: usize) -> String {
    let parts = (start..end).step_by(2).filter_map(|index| view.name(index));
    parts.collect::<Vec<_>>().join(".")
}

fn is_allowed(view: View<'_>, start: usize, end: usize, procedures: &[String]) -> bool {
    // A dot inside backticks is part of one name, and would make two different names look alike.
    let has_dot =
        (start..end).step_by(2).any(|index| view.name(index).is_some_and(|part| part.contains('.')));
    let name = chain(view, start, end);
    !has_dot && (names::PROCEDURES.contains(&name.as_str()) || procedures.contains(&name))
}

/// Why the call of the function named in `start..end` is no part of a cacheable read, if so.
fn function(view: View<'_>, start: usize, end: usize, clock: &mut Clock) -> Option<BypassReason> {
    // A property cannot be called, so a dot before the chain is part of something else: `[0].rand(`.
    let is_quoted = view.word(start).is_none();
    let is_single = end == start + 1;
    // `$any(…)` and `$all(…)` in dynamic labels.
    if is_single && start > 0 && view.is(start - 1, '$') {
        return None;
    }
    if is_single && !is_quoted && view.is_any_word(start, &names::BEFORE_BRACKET) {
        return None;
    }
    if is_single && is_index_hint(view, start) {
        return None;
    }
    // Neo4j lowers function names by Unicode's rules: the Kelvin sign is a k.
    let name = chain(view, start, end).to_lowercase();
    let name = name.as_str();
    if names::DETERMINISTIC.binary_search(&name).is_ok() || names::DETERMINISTIC_MORE.contains(&name) {
        clock.saw_properties |= name == "properties";
        return None;
    }
    if names::TEMPORAL.contains(&name) {
        return if clock.reads(view, end + 1) { Some(BypassReason::VolatileFunction) } else { None };
    }
    let (family, member) = name.split_once('.').unwrap_or((name, ""));
    let temporal_member = names::TEMPORAL.contains(&family);
    if temporal_member && member == "truncate" && has_second_argument(view, end + 1) {
        return None;
    }
    let clock_member = temporal_member && (member == "truncate" || names::CLOCK_MEMBERS.contains(&member));
    let volatile = clock_member || names::VOLATILE.contains(&name);
    Some(if volatile { BypassReason::VolatileFunction } else { BypassReason::UnknownFunction })
}

/// `USING INDEX n:Label(property)`: the label is not called.
fn is_index_hint(view: View<'_>, label: usize) -> bool {
    label >= 3
        && view.is(label - 1, ':')
        && view.is_name(label - 2)
        && view.is_any_word(label - 3, &["INDEX", "SEEK"])
}

/// Whether a comma follows the first argument of the list that begins at `from`.
fn has_second_argument(view: View<'_>, from: usize) -> bool {
    argument_end(view, from).is_some_and(|end| view.is(end, ','))
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

/// What the text does with temporal functions of values: whether one of the values could be a map that
/// has a time zone and nothing else.
#[derive(Default)]
struct Clock {
    takes_values: bool,
    /// The text makes maps of properties whose names it does not say.
    saw_properties: bool,
    saw_key: bool,
}

impl Clock {
    /// Whether the temporal function whose arguments begin at `from` certainly reads the clock; notes
    /// where that depends on a value.
    fn reads(&mut self, view: View<'_>, from: usize) -> bool {
        let kind = view.tokens.get(from).map(|token| token.kind);
        match kind {
            None | Some(TokenKind::Punct(')')) => true,
            // A map literal with another key is no clock. Its first key is nearly always one.
            Some(TokenKind::Punct('{')) => {
                let mut key = from + 1;
                while view.name(key).is_some_and(|name| is_clock_key(&name)) {
                    let Some(end) = argument_end(view, key) else { return true };
                    if !view.is(end, ',') {
                        return true;
                    }
                    key = end + 1;
                }
                !view.is_name(key)
            }
            Some(TokenKind::Text) if view.is(from + 1, ')') => false,
            _ => {
                self.takes_values = true;
                false
            }
        }
    }

    fn note(&mut self, view: View<'_>, from: usize, to: usize) {
        for index in from..to {
            let is_key = view.name(index).is_some_and(|name| is_clock_key(&name)) && is_map_key(view, index);
            self.saw_key |= is_key;
            self.saw_properties |= view.is(index, '*') && index > 0 && view.is(index - 1, '.');
        }
    }

    fn verdict(&self) -> Lexed {
        match (self.takes_values, self.saw_key || self.saw_properties) {
            (true, true) => Lexed::Bypass(BypassReason::VolatileFunction),
            (true, false) => Lexed::PerhapsReadOfParams,
            (false, _) => Lexed::PerhapsRead,
        }
    }
}

/// `{timezone: …}`, `n {.timezone}` and `n {timezone}`, but not `n.timezone`.
fn is_map_key(view: View<'_>, index: usize) -> bool {
    let begins = |index: usize| view.is(index, '{') || view.is(index, ',');
    let projected = index >= 2 && view.is(index - 1, '.') && begins(index - 2);
    let named = index >= 1 && begins(index - 1) && (view.is(index + 1, '}') || view.is(index + 1, ','));
    view.is(index + 1, ':') || projected || named
}

fn is_clock_key(name: &str) -> bool {
    name.as_bytes().eq_ignore_ascii_case(names::CLOCK_KEY)
}
