//! What runs of a text write that differ in the values of their parameters only. The text is read for the first of them
//! (`hopcache_cypher::tags::anchored`); each form of parameters, and each outcome by the counters of its summary, is then known.

use std::sync::Arc;

use arrayvec::ArrayVec;
use hopcache_core::limits::{WRITE_FORM_BYTES_MAX, WRITE_FORMS_MAX};
use hopcache_core::tags::{ClassId, TagId, Touched};
use hopcache_cypher::tags::anchored::{AnchoredWrite, ParamsForm, WriteForm};
use hopcache_cypher::tags::{Counters, WriteEffects};
use parking_lot::Mutex;

/// The forms of a text that came last.
#[derive(Debug, Default)]
pub(super) struct WriteForms(Mutex<ArrayVec<Arc<KnownForm>, WRITE_FORMS_MAX>>);

/// A form, and what summaries have left of it.
#[derive(Debug)]
pub struct KnownForm {
    form: WriteForm,
    /// The room for what summaries leave of it. What is left of a run is narrowed once, so that has none.
    room_bytes: usize,
    narrowed: Mutex<ArrayVec<(Counters, Arc<KnownForm>), WRITE_FORMS_MAX>>,
}

/// What one run may write, or what its summary shows that it has written.
#[derive(Debug, Clone)]
pub enum RunWrite {
    /// Read for this run.
    Own(Box<AnchoredWrite>),
    /// As other runs, with these classes of values.
    OfForm(Arc<KnownForm>, Arc<[ClassId]>),
}

impl WriteForms {
    /// What a run of this text writes with these parameters, if its effects are the same with any.
    pub(super) fn write(&self, effects: &WriteEffects, text: &str, params: &[u8]) -> RunWrite {
        let of_form = || {
            let found = ParamsForm::of(params)?;
            let form = self.known(&found).or_else(|| {
                let form = WriteForm::of(effects.clone(), text, (params, &found))?;
                let bytes = form.weight_bytes();
                let new = KnownForm::new(form, WRITE_FORM_BYTES_MAX.saturating_sub(bytes));
                if bytes <= WRITE_FORM_BYTES_MAX {
                    keep(&mut self.0.lock(), Arc::clone(&new));
                }
                Some(new)
            })?;
            Some(RunWrite::OfForm(form, found.classes().into()))
        };
        of_form().unwrap_or_else(|| AnchoredWrite::of_effects(effects.clone(), text, params).into())
    }

    fn known(&self, found: &ParamsForm) -> Option<Arc<KnownForm>> {
        self.0.lock().iter().find(|known| known.form.is_of(found)).cloned()
    }
}

/// The oldest makes room.
fn keep<T>(places: &mut ArrayVec<T, WRITE_FORMS_MAX>, new: T) {
    if places.is_full() {
        places.remove(0);
    }
    places.push(new);
}

impl KnownForm {
    fn new(form: WriteForm, room_bytes: usize) -> Arc<Self> {
        Arc::new(Self { form, room_bytes, narrowed: Mutex::default() })
    }

    fn narrowed(&self, counters: &Counters) -> Arc<Self> {
        let counters = counters.as_far_as_they_narrow();
        let known = self.narrowed.lock().iter().find(|(of, _)| *of == counters).cloned();
        if let Some((_, known)) = known {
            return known;
        }
        let new = Self::new(self.form.narrowed(&counters), 0);
        let bytes = new.form.weight_bytes();
        if bytes <= self.room_bytes {
            let mut kept = self.narrowed.lock();
            while kept.iter().map(|(_, kept)| kept.form.weight_bytes()).sum::<usize>() + bytes
                > self.room_bytes
            {
                kept.remove(0);
            }
            keep(&mut kept, (counters, Arc::clone(&new)));
        }
        new
    }
}

impl From<AnchoredWrite> for RunWrite {
    fn from(write: AnchoredWrite) -> Self {
        Self::Own(Box::new(write))
    }
}

impl RunWrite {
    /// [`AnchoredWrite::narrowed`].
    #[must_use]
    pub fn narrowed(&self, counters: &Counters) -> Self {
        match self {
            Self::Own(write) => write.narrowed(counters).into(),
            Self::OfForm(form, classes) => Self::OfForm(form.narrowed(counters), Arc::clone(classes)),
        }
    }

    /// [`AnchoredWrite::told`].
    #[must_use]
    pub fn told(&self) -> Touched {
        match self {
            Self::Own(write) => write.told(),
            Self::OfForm(known, classes) => known.form.told(classes),
        }
    }

    /// The labels, types and keys that it may use; `None` if nobody knows how many ids they take.
    #[must_use]
    pub fn tokens(&self) -> Option<Arc<[TagId]>> {
        self.effects().transactions_max()?;
        match self {
            Self::Own(write) => write.effects().tokens().map(Arc::from),
            Self::OfForm(known, _) => known.form.tokens().cloned(),
        }
    }

    /// The effects without constraints.
    #[must_use]
    pub fn effects(&self) -> &WriteEffects {
        match self {
            Self::Own(write) => write.effects(),
            Self::OfForm(known, _) => known.form.effects(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hopcache_packstream::{Value, encode};

    use super::*;

    const TEXT: &str = "MERGE (t:Turn {id: $id}) SET t.at = $at";

    fn params(id: i64, at: &str) -> Vec<u8> {
        encode(&Value::Map(vec![("id".to_owned(), Value::Int(id)), ("at".to_owned(), Value::from(at))]))
    }

    /// The second run of a form does not read the text: it has the first one's reading, with its own values.
    #[test]
    fn a_form_is_read_once_and_told_with_the_values_of_each_run() {
        let (forms, effects) = (WriteForms::default(), WriteEffects::of_text(TEXT).expect("any parameters"));
        let made = Counters { nodes_created: 1, properties_set: 2, ..Counters::default() };
        let more = Counters { properties_set: 3, ..made };
        let found = Counters { properties_set: 1, ..Counters::default() };
        let form_of = |write: &RunWrite| match write {
            RunWrite::OfForm(form, _) => Arc::clone(form),
            RunWrite::Own(_) => panic!("read for one run"),
        };
        let first = form_of(&forms.write(&effects, TEXT, &params(0, "")));
        for id in 1..4 {
            let params = params(id, "now");
            let (write, own) = (forms.write(&effects, TEXT, &params), AnchoredWrite::of(TEXT, &params));
            assert!(Arc::ptr_eq(&first, &form_of(&write)));
            assert_eq!((write.told(), write.effects()), (own.told(), own.effects()));
            for counters in [made, more, found] {
                assert_eq!(write.narrowed(&counters).told(), own.narrowed(&counters).told());
            }
            assert_eq!(write.tokens().as_deref(), own.effects().tokens());
        }
        assert_eq!(first.narrowed.lock().len(), 2, "what the counters make no difference for is known once");
        let other = encode(&Value::Map(vec![("id".to_owned(), Value::Null), ("at".to_owned(), Value::Null)]));
        assert!(!Arc::ptr_eq(&first, &form_of(&forms.write(&effects, TEXT, &other))));
    }

    /// I9: as many forms as there is room for; the oldest goes.
    #[test]
    fn forms_are_bounded() {
        let (forms, effects) = (WriteForms::default(), WriteEffects::of_text(TEXT).expect("any parameters"));
        for len in 0..3 * WRITE_FORMS_MAX {
            let list = Value::List(vec![Value::Int(1); len]);
            let params = encode(&Value::Map(vec![("id".to_owned(), list), ("at".to_owned(), Value::Null)]));
            assert!(matches!(forms.write(&effects, TEXT, &params), RunWrite::OfForm(..)));
            assert!(forms.0.lock().len() <= WRITE_FORMS_MAX);
        }
        let long = Value::List((0..1_000).map(Value::Int).collect());
        let params = encode(&Value::Map(vec![("id".to_owned(), long)]));
        assert!(matches!(forms.write(&effects, TEXT, &params), RunWrite::Own(_)), "too long for a form");
    }

    /// I9: a form with what summaries leave of it takes no more than its bytes, however long the names of its text are. What has no
    /// room is found again for each run.
    #[test]
    fn large_forms_are_not_kept() {
        for (name_bytes, sets, is_kept) in [(3, 6, true), (3, 20, false), (300, 6, false), (3_000, 20, false)]
        {
            let keys = (0..sets).map(|n| format!("SET t.{}{n} = $at", "k".repeat(name_bytes)));
            let text = format!("MERGE (t:Turn {{id: $id}}) {}", keys.collect::<Vec<_>>().join(" "));
            let (forms, effects) =
                (WriteForms::default(), WriteEffects::of_text(&text).expect("any parameters"));
            for round in 0..3 * i64::try_from(WRITE_FORMS_MAX).expect("few") {
                let params = params(round, "now");
                let (write, own) = (forms.write(&effects, &text, &params), AnchoredWrite::of(&text, &params));
                let counters =
                    Counters { nodes_created: round % 2, properties_set: round, ..Counters::default() };
                assert_eq!(write.narrowed(&counters).told(), own.narrowed(&counters).told(), "{name_bytes}");
                let kept = forms.0.lock();
                let of = |form: &KnownForm| {
                    form.narrowed.lock().iter().map(|(_, form)| form.form.weight_bytes()).sum::<usize>()
                };
                assert!(kept.iter().all(|form| form.form.weight_bytes() + of(form) <= WRITE_FORM_BYTES_MAX));
                assert_eq!(!kept.is_empty(), is_kept, "{name_bytes} {sets}");
            }
        }
    }
}
