//! Procedures and functions. A name before an opening bracket is a call, unless it is a keyword or the end of an index
//! hint. A call that no list allows makes the text a bypass.

use std::ops::Range;

use super::clock::{self, Argument};
use super::{Allowed, BypassReason, TextVerdict, View, names};
use crate::functions::{FunctionKind, function_kind, temporal};
use crate::procedures::only_reads;

/// The verdict on all calls in the text, and the name of the call that decides it.
pub(super) fn judge(view: View<'_>, allowed: &Allowed) -> (TextVerdict, Option<Range<usize>>) {
    let mut of_params = None;
    for Call { name, is_procedure } in calls(view) {
        let reason = if is_procedure {
            let is_allowed = is_allowed(view, name.start, name.end, allowed);
            if is_allowed { None } else { Some(BypassReason::Procedure) }
        } else {
            function(view, &name, (allowed, &mut of_params))
        };
        if let Some(reason) = reason {
            return (TextVerdict::Bypass(reason), Some(name));
        }
    }
    let verdict =
        if of_params.is_some() { TextVerdict::PerhapsReadOfParams } else { TextVerdict::PerhapsRead };
    (verdict, of_params)
}

/// Whether each function that the text calls is on a list of this crate.
pub(super) fn knows_functions(view: View<'_>) -> bool {
    let allowed = Allowed::default();
    let reason = |name: &Range<usize>| function(view, name, (&allowed, &mut None));
    calls(view).all(|call| call.is_procedure || reason(&call.name) != Some(BypassReason::UnknownFunction))
}

/// A call, by the tokens of its name.
struct Call {
    name: Range<usize>,
    is_procedure: bool,
}

/// What the text calls, in order, and keywords before a bracket, which [`function`] tells apart.
fn calls(view: View<'_>) -> impl Iterator<Item = Call> {
    let mut index = 0;
    std::iter::from_fn(move || {
        while index < view.tokens.len() {
            if let Some(end) = procedure_name(view, index) {
                let name = index + 1..end;
                index = end;
                return Some(Call { name, is_procedure: true });
            }
            let is_name = view.is_name(index);
            let name = index..if is_name { view.chain_end(index) } else { index + 1 };
            index = name.end;
            if is_name && view.is(name.end, '(') {
                return Some(Call { name, is_procedure: false });
            }
        }
        None
    })
}

/// The end of the name of the procedure that is called at `index`; `None` if none is called.
fn procedure_name(view: View<'_>, index: usize) -> Option<usize> {
    let is_call = view.is_word(index, "CALL") && !view.is_qualified(index) && view.is_name(index + 1);
    let is_variable = view.is_any_word(index + 1, &names::AFTER_VARIABLE) && !view.is(index + 2, '.');
    if is_call && !is_variable { Some(view.chain_end(index + 1)) } else { None }
}

fn is_allowed(view: View<'_>, start: usize, end: usize, allowed: &Allowed) -> bool {
    // A dot inside backticks is part of one name. It would make two different names look alike.
    let has_dot =
        (start..end).step_by(2).any(|index| view.name(index).is_some_and(|part| part.contains('.')));
    let name = view.chain(start, end);
    !has_dot && (only_reads(&name) || allowed.procedures.fit(&name))
}

/// The reason why a call of the function with this name cannot be part of a cacheable read, if there is one. Notes the
/// first temporal function that takes a parameter.
fn function(
    view: View<'_>,
    name: &Range<usize>,
    (allowed, of_params): (&Allowed, &mut Option<Range<usize>>),
) -> Option<BypassReason> {
    let Range { start, end } = *name;
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
    let lowered = view.lowered_chain(start, end);
    let name = lowered.as_str();
    let Some((family, member)) = temporal(name) else {
        // A dot inside backticks is part of one name: it would make two different names look alike.
        let has_dot =
            (start..end).step_by(2).any(|index| view.name(index).is_some_and(|part| part.contains('.')));
        // A random one.
        if name == "uuid" && view.is(end + 1, ')') {
            return Some(BypassReason::VolatileFunction);
        }
        return match function_kind(name).filter(|_| !has_dot) {
            Some(FunctionKind::Volatile) => Some(BypassReason::VolatileFunction),
            Some(_) => None,
            None if !has_dot && allowed.functions.fit(name) => None,
            None => Some(BypassReason::UnknownFunction),
        };
    };
    let argument = match member {
        "" => clock::constructed(view, family, end + 1),
        "truncate" => clock::truncated(view, family, end + 1),
        _ => Argument::Uncertain,
    };
    if argument == Argument::Param && of_params.is_none() {
        *of_params = Some(start..end);
    }
    (argument == Argument::Uncertain).then_some(BypassReason::VolatileFunction)
}

/// `USING INDEX n:Label(property)`: the label is not a call.
fn is_index_hint(view: View<'_>, label: usize) -> bool {
    label >= 3
        && view.is(label - 1, ':')
        && view.is_name(label - 2)
        && view.is_any_word(label - 3, &["INDEX", "SEEK"])
}
