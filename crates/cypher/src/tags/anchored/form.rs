//! Runs of one write that differ in the values of their parameters only. The text is read for the first of them; the others put their
//! own classes in.
//!
//! The **form** of parameters is all of them but their values: names, lengths, nulls, what has a class, which values are of one class, and
//! which are written as element ids are. Nothing else of them decides what is known of the nodes of a write ([`Arguments`]), unless
//! they name labels, types or keys. A text with such names has no form.
//!
//! Each class gets a number, its **place**, in the order in which the parameters bring them. The text is read with places in the
//! values' stead. A place that is put beside a literal of the text counts as another class. Where both are one, a bound may be reached
//! sooner than by the run's own values. That tells less of its nodes, which ends more than necessary.

use std::cell::Cell;
use std::sync::Arc;

use hopcache_core::tags::{ClassId, TagId, Touched, TouchedForm};
use hopcache_packstream::{Reader, Token, Value};

use crate::tags::anchored::classes::{of_float, of_int, of_text, place_of};
use crate::tags::anchored::conflict::AnchoredWrite;
use crate::tags::anchored::sources::{Arguments, is_element_id, place};
use crate::tags::counters::Counters;
use crate::tags::limits::{FORM_BYTES_MAX, FORM_DEPTH_MAX, FORM_TOUCHES_MAX, PLACES_MAX};
use crate::tags::write::WriteEffects;

/// The parameters of a run: their form, and the classes at its places.
#[derive(Debug, Clone)]
pub struct ParamsForm {
    form: Vec<u8>,
    classes: Vec<ClassId>,
}

impl ParamsForm {
    /// `params`: one PackStream map. `None` if it is too large for a form, or no map.
    #[must_use]
    pub fn of(params: &[u8]) -> Option<Self> {
        let mut found =
            Self { form: Vec::with_capacity(params.len().min(FORM_BYTES_MAX)), classes: Vec::new() };
        let mut reader = Reader::new(params);
        found.value(&mut reader, 0)?;
        (reader.is_empty() && found.form.first() == Some(&b'm')).then_some(found)
    }

    /// The classes at the places.
    #[must_use]
    pub fn classes(&self) -> &[ClassId] {
        &self.classes
    }

    /// Each value begins with another letter, and each length stands before what it counts: no two forms are one.
    fn value(&mut self, reader: &mut Reader<'_>, depth: usize) -> Option<()> {
        if depth > FORM_DEPTH_MAX {
            return None;
        }
        let mut fields = reader.clone();
        match fields.token().ok()? {
            Token::Null => self.form.push(b'n'),
            Token::Int(number) => self.place(b'v', of_int(number))?,
            Token::Float(number) => match of_float(number) {
                Some(class) => self.place(b'v', class)?,
                None => self.form.push(b'o'),
            },
            Token::Str(text) => self.place(if is_element_id(text) { b'e' } else { b'v' }, of_text(text))?,
            Token::List(len) => {
                self.length(b'l', len);
                for _ in 0..len {
                    self.value(&mut fields, depth + 1)?;
                }
            }
            Token::Map(len) => {
                self.length(b'm', len);
                for _ in 0..len {
                    let key = fields.key().ok()?;
                    self.length(b'k', key.len());
                    self.form.extend_from_slice(key.as_bytes());
                    self.value(&mut fields, depth + 1)?;
                }
            }
            // Without a class.
            Token::Bool(_) | Token::Bytes(_) | Token::Struct { .. } | Token::Uuid(_) => {
                self.form.push(b'o');
                reader.skip().ok()?;
                return self.fits();
            }
        }
        *reader = fields;
        self.fits()
    }

    fn fits(&self) -> Option<()> {
        (self.form.len() <= FORM_BYTES_MAX).then_some(())
    }

    fn length(&mut self, kind: u8, len: usize) {
        self.form.push(kind);
        self.form.extend_from_slice(&(len as u64).to_le_bytes());
    }

    fn place(&mut self, kind: u8, class: ClassId) -> Option<()> {
        let known = self.classes.iter().position(|other| *other == class);
        let place = known.unwrap_or(self.classes.len());
        if known.is_none() {
            if self.classes.len() >= PLACES_MAX {
                return None;
            }
            self.classes.push(class);
        }
        self.form.extend([kind, u8::try_from(place).ok()?]);
        Some(())
    }

    /// The values of the form, with places.
    fn values(&self) -> Option<Value> {
        let mut rest = self.form.as_slice();
        tree(&mut rest).filter(|_| rest.is_empty())
    }
}

/// Reads what [`ParamsForm`] has written, which bounds its depth.
fn tree(form: &mut &[u8]) -> Option<Value> {
    Some(match take(form, 1)? {
        b"n" => Value::Null,
        b"v" => place(*take(form, 1)?.first()?, false),
        b"e" => place(*take(form, 1)?.first()?, true),
        b"l" => Value::List((0..length(form)?).map(|_| tree(form)).collect::<Option<_>>()?),
        b"m" => {
            let entry = |form: &mut &[u8]| {
                take(form, 1)?;
                let len = length(form)?;
                let key = std::str::from_utf8(take(form, len)?).ok()?.to_owned();
                Some((key, tree(form)?))
            };
            Value::Map((0..length(form)?).map(|_| entry(form)).collect::<Option<_>>()?)
        }
        // Any value without a class is as good as this one.
        _ => Value::Bool(true),
    })
}

fn length(form: &mut &[u8]) -> Option<usize> {
    let bytes = take(form, 8)?.try_into().ok()?;
    usize::try_from(u64::from_le_bytes(bytes)).ok()
}

fn take<'f>(form: &mut &'f [u8], len: usize) -> Option<&'f [u8]> {
    let (taken, rest) = form.split_at_checked(len)?;
    *form = rest;
    Some(taken)
}

/// What the runs of a text may do whose parameters have one form.
#[derive(Debug)]
pub struct WriteForm {
    params: Arc<[u8]>,
    write: AnchoredWrite,
    /// `None`: anything.
    told: Option<TouchedForm>,
    tokens: Option<Arc<[TagId]>>,
}

impl WriteForm {
    /// Of the runs of `statement` whose effects are these, whatever its parameters are. `params` are those of one of them. `None` if
    /// more of them decides what a run does.
    #[must_use]
    pub fn of(effects: WriteEffects, statement: &str, (params, form): (&[u8], &ParamsForm)) -> Option<Self> {
        let (arguments, are_asked) = (Arguments::with_places(form.values()?), Cell::new(false));
        let write = AnchoredWrite::noting(effects, statement, (params, &arguments), &are_asked);
        let is_small = write.touches().len() <= FORM_TOUCHES_MAX;
        (is_small && !are_asked.get()).then(|| Self::with(form.form.as_slice().into(), write))
    }

    fn with(params: Arc<[u8]>, write: AnchoredWrite) -> Self {
        let tokens = write.effects().tokens().map(Arc::from);
        Self { params, told: write.told_form(), tokens, write }
    }

    /// The bytes that it takes, by estimate.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        size_of::<Self>()
            + self.params.len()
            + self.write.weight_bytes()
            + self.told.as_ref().map_or(0, TouchedForm::weight_bytes)
            + self.tokens.as_deref().map_or(0, size_of_val)
    }

    /// Whether it is of parameters of this form.
    #[must_use]
    pub fn is_of(&self, params: &ParamsForm) -> bool {
        *self.params == *params.form
    }

    /// As [`AnchoredWrite::narrowed`].
    #[must_use]
    pub fn narrowed(&self, counters: &Counters) -> Self {
        Self::with(Arc::clone(&self.params), self.write.narrowed(counters))
    }

    /// As [`AnchoredWrite::told`], for a run whose values have these classes.
    #[must_use]
    pub fn told(&self, classes: &[ClassId]) -> Touched {
        let class = |number: ClassId| {
            let place = place_of(number).and_then(|place| classes.get(place));
            place.copied().unwrap_or(number)
        };
        self.told.as_ref().map_or(Touched::Anything, |form| Touched::These(form.bind(class)))
    }

    /// The effects without constraints.
    #[must_use]
    pub const fn effects(&self) -> &WriteEffects {
        self.write.effects()
    }

    /// [`WriteEffects::tokens`].
    #[must_use]
    pub const fn tokens(&self) -> Option<&Arc<[TagId]>> {
        self.tokens.as_ref()
    }
}
