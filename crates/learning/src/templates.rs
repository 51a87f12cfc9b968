//! The lesson of one step of a session: possible sources of the next query's parameters.
//!
//! For each parameter there are hypotheses: a field of the result before that has the same value, a parameter before
//! that has it, a constant. A template is one hypothesis for each parameter. Each returned template makes the next
//! query's parameters from the query before, since that is tried first.
//!
//! How much an equal value proves depends on the value:
//! - *Trivial* values (null, booleans, the empty text, integers from zero below [`TRIVIAL_INT_BELOW`], empty lists and
//!   maps) occur in most results by chance. They are never learned as a field, and as a parameter only of the same
//!   name.
//! - Among the other values that can be explained, the one with the most bytes is the *telling* one: the step is
//!   learned from the nearest query that explains it. It is learned as a constant only if nothing else explains it,
//!   because a constant describes one place and a template all of them.
//! - The rest (a page size, a language) may well be constants, and always have that hypothesis.
//!
//! Types count: `1`, `1.0` and `"1"` are three values. A list or map is compared as a whole, and never searched. A list may be the
//! values of a column, or of a property in it, in all rows of the result before: what a search found, handed to the next step. An id
//! in the text of a statement is no parameter, so this learns nothing from it.
//!
//! Pure and bounded. It decides which forms one step supports, never how often a step was seen or how likely it is.

use std::collections::BTreeMap;

use hopcache_core::limits::{
    FIELDS_ROWS_MAX, FORM_CONSTANT_BYTES_MAX, FORM_STATEMENT_BYTES_MAX, SESSION_BEFORE_MAX,
    TEMPLATE_SOURCES_MAX, TEMPLATE_TRIES_MAX, TEMPLATES_PER_STEP_MAX, TRIVIAL_INT_BELOW,
};

use crate::fields::{Field, Fields};
use crate::form::{Binding, Form, Rows};
use crate::params::{Kind, Params};

/// A query before the next one.
#[derive(Debug, Clone, Copy)]
pub struct EarlierQuery<'a> {
    /// Its statement, in normal form.
    pub statement: &'a str,
    /// Its parameters: one canonical PackStream map.
    pub params: &'a [u8],
    /// Its result's fields, if known.
    pub fields: Option<&'a Fields>,
}

/// The lesson of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedForms {
    /// The index of the earlier query that it is learned from.
    pub before: usize,
    /// The forms that it supports, the likeliest first; at least one, at most [`TEMPLATES_PER_STEP_MAX`].
    pub forms: Vec<Form>,
}

/// The templates by which `statement` with `params` follows one of the queries `before` it, nearest first: those of the
/// nearest query that explains it, or of the nearest of all if only constants do.
///
/// `None` if there is no query before, the nearest is this query itself (a reload), or it is too large to be learned.
#[must_use]
pub fn templates_of(before: &[EarlierQuery<'_>], statement: &str, params: &[u8]) -> Option<LearnedForms> {
    let nearest = before.first()?;
    if is_query(nearest, statement, params) || statement.len() > FORM_STATEMENT_BYTES_MAX {
        return None;
    }
    let next = Next { statement, packed: params, params: Params::read(params)? };
    let sources: Vec<Source<'_>> = before.iter().take(SESSION_BEFORE_MAX).map(Source::of).collect();
    // Of equally telling values, that of the nearest query.
    let mut best: Option<(usize, usize, &str)> = None;
    for (at, source) in
        sources.iter().enumerate().filter(|(at, _)| !is_query(&before[*at], statement, params))
    {
        if let Some((bytes, name)) = next.telling(source)
            && best.is_none_or(|(most, ..)| bytes > most)
        {
            best = Some((bytes, at, name));
        }
    }
    let (at, telling) = best.map_or((0, None), |(_, at, name)| (at, Some(name)));
    let forms = next.templates(sources.get(at)?, telling);
    (!forms.is_empty()).then_some(LearnedForms { before: at, forms })
}

/// How many of the queries before, nearest first, may explain the next one by fields of their results: fields of later
/// ones change nothing in what [`templates_of`] learns.
///
/// Example: a person's friends after that person's profile. The person's id was the parameter of the profile, so nothing
/// in the result of the profile, or of any earlier query, explains it better.
#[must_use]
pub fn fields_wanted(before: &[EarlierQuery<'_>], statement: &str, params: &[u8]) -> usize {
    let Some(nearest) = before.first() else { return 0 };
    let next = Params::read(params).filter(|_| !is_query(nearest, statement, params));
    let Some(next) = next else { return 0 };
    let values = || next.iter().map(|(_, value)| value).filter(|value| !is_trivial(value));
    let Some(most) = values().map(<[u8]>::len).max() else { return 0 };
    let is_explained = |seen: &EarlierQuery<'_>| {
        let known = Params::read(seen.params).unwrap_or_default();
        values().any(|value| value.len() == most && known.iter().any(|(_, found)| found == value))
    };
    let others = before.iter().take(SESSION_BEFORE_MAX);
    let explained = others.clone().position(|seen| !is_query(seen, statement, params) && is_explained(seen));
    explained.unwrap_or_else(|| others.count())
}

fn is_query(seen: &EarlierQuery<'_>, statement: &str, params: &[u8]) -> bool {
    seen.statement == statement && seen.params == params
}

/// An earlier query, read.
struct Source<'a> {
    packed: &'a [u8],
    params: Params<'a>,
    fields: Option<&'a Fields>,
}

impl<'a> Source<'a> {
    fn of(seen: &EarlierQuery<'a>) -> Self {
        Self {
            packed: seen.params,
            params: Params::read(seen.params).unwrap_or_default(),
            fields: seen.fields,
        }
    }

    fn has_field_with(&self, value: &[u8]) -> bool {
        self.first_fields().any(|field| field.value == value) || self.lists_with(value).next().is_some()
    }

    /// Those of the rows that a form may take a field of.
    fn first_fields(&self) -> impl Iterator<Item = Field<'_>> {
        let fields = self.fields.into_iter().flat_map(Fields::scalars);
        fields.filter(|field| field.row < FIELDS_ROWS_MAX)
    }

    /// The places whose values are this list together.
    fn lists_with(&self, value: &[u8]) -> impl Iterator<Item = Binding> {
        let places = self.fields.map(|fields| fields.places_of_list(value)).unwrap_or_default();
        places.into_iter().map(|(column, path)| Binding::Field {
            column: column.into(),
            path: path.to_vec(),
            rows: Rows::All,
            kind: Kind::List,
        })
    }

    /// The places of this value in the result: the first row before later ones, each place once.
    fn fields_with(&self, value: &[u8], kind: Kind) -> Vec<Binding> {
        let mut bindings: Vec<Binding> = self.lists_with(value).take(TEMPLATE_SOURCES_MAX).collect();
        for field in self.first_fields().filter(|field| field.value == value) {
            let binding =
                |rows| Binding::Field { column: field.column.into(), path: field.path.to_vec(), rows, kind };
            if field.row == 0 {
                bindings.push(binding(Rows::First));
            }
            let each = binding(Rows::Each);
            if !bindings.contains(&each) {
                bindings.push(each);
            }
            if bindings.len() >= TEMPLATE_SOURCES_MAX {
                break;
            }
        }
        bindings
    }

    /// Parameters with this value, the one of the same name first.
    fn params_with(&self, name: &str, value: &[u8], kind: Kind) -> Vec<Binding> {
        let same = self.params.iter().filter(|(own, found)| *own == name && *found == value);
        let others = self.params.iter().filter(|(own, found)| *own != name && *found == value);
        same.chain(others).map(|(name, _)| Binding::Param { name: name.into(), kind }).collect()
    }
}

/// The next query.
struct Next<'a> {
    statement: &'a str,
    packed: &'a [u8],
    params: Params<'a>,
}

impl<'a> Next<'a> {
    /// The most telling parameter that this source explains, and its length in bytes.
    fn telling(&self, source: &Source<'_>) -> Option<(usize, &'a str)> {
        let explained = self.params.iter().filter_map(|(name, value)| {
            Kind::of(value).filter(|_| !is_trivial(value))?;
            let is_explained =
                source.params.iter().any(|(_, found)| found == value) || source.has_field_with(value);
            is_explained.then_some((value.len(), name))
        });
        explained.reduce(|best, other| if other.0 > best.0 { other } else { best })
    }

    /// The hypotheses for one parameter, the likeliest first.
    fn hypotheses(&self, source: &Source<'_>, name: &str, value: &[u8], is_telling: bool) -> Vec<Binding> {
        let Some(kind) = Kind::of(value) else { return Vec::new() };
        let mut params = source.params_with(name, value, kind);
        let constant = (value.len() <= FORM_CONSTANT_BYTES_MAX).then(|| Binding::Constant(value.to_vec()));
        if is_trivial(value) {
            params.retain(|binding| matches!(binding, Binding::Param { name: own, .. } if **own == *name));
            return params.into_iter().chain(constant).collect();
        }
        let mut found = source.fields_with(value, kind);
        if is_telling {
            found.truncate(TEMPLATE_SOURCES_MAX - params.len().min(2));
            found.extend(params.into_iter().take(2));
            return found;
        }
        // Most likely carried along under its own name; otherwise constant in the next query.
        found.truncate(2);
        let mut all: Vec<Binding> = params.into_iter().take(1).chain(found).collect();
        let at = usize::from(matches!(all.first(), Some(Binding::Param { name: own, .. }) if **own == *name));
        constant.into_iter().for_each(|constant| all.insert(at, constant));
        all
    }

    /// Templates that make this query from the source, by the sum of their hypotheses' ranks.
    fn templates(&self, source: &Source<'_>, telling: Option<&str>) -> Vec<Form> {
        let mut choices: Vec<(&str, Vec<Binding>)> = Vec::new();
        for (name, value) in self.params.iter() {
            let found = self.hypotheses(source, name, value, telling == Some(name));
            if found.is_empty() {
                return Vec::new();
            }
            choices.push((name, found));
        }
        let mut forms = Vec::new();
        for ranks in by_rank(&choices.iter().map(|(_, found)| found.len()).collect::<Vec<_>>()) {
            let chosen = choices.iter().zip(&ranks);
            let bindings: BTreeMap<Box<str>, Binding> = chosen
                .filter_map(|((name, found), rank)| Some(((*name).into(), found.get(*rank)?.clone())))
                .collect();
            let form = Form::template(self.statement, bindings);
            forms.extend(form.filter(|form| self.is_made_by(form, source)));
            if forms.len() >= TEMPLATES_PER_STEP_MAX {
                break;
            }
        }
        forms
    }

    fn is_made_by(&self, form: &Form, source: &Source<'_>) -> bool {
        form.bind(source.packed, source.fields).iter().any(|bound| bound.params == self.packed)
    }
}

/// Choices of one hypothesis for each parameter, by the sum of their numbers; at most [`TEMPLATE_TRIES_MAX`].
fn by_rank(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut ranks = vec![vec![0; sizes.len()]];
    let mut from = 0;
    // Each choice leads to those with the next rank of one parameter: the one moved last, or one after it. So no choice
    // comes twice.
    while let Some(rank) = ranks.get(from).cloned() {
        let moved = rank.iter().rposition(|at| *at > 0).unwrap_or(0);
        for at in moved..sizes.len() {
            if rank[at] + 1 < sizes[at] && ranks.len() < TEMPLATE_TRIES_MAX {
                let mut next = rank.clone();
                next[at] += 1;
                ranks.push(next);
            }
        }
        from += 1;
    }
    ranks
}

/// Whether a value occurs in most results by chance.
fn is_trivial(packed: &[u8]) -> bool {
    use hopcache_packstream::{Reader, Token};
    match Reader::new(packed).token() {
        Ok(Token::Int(number)) => (0..TRIVIAL_INT_BELOW).contains(&number),
        Ok(Token::Str(text)) => text.is_empty(),
        Ok(Token::List(len) | Token::Map(len)) => len == 0,
        Ok(Token::Float(number)) => number == 0.0 || number == 1.0,
        Ok(_) => Kind::of(packed).is_none_or(|kind| kind <= Kind::Bool),
        Err(_) => true,
    }
}
