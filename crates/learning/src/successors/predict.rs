//! Predictions from counts: probabilities, precision, and the nodes that counted.
//!
//! p(form | source) = seen of the form ÷ (seen of the source + 1), both decayed. The prior is one alternative that was
//! never seen, so that a single sighting is not certain. Decides no launch.

use hopcache_core::limits::PREDICTIONS_MAX;
use hopcache_core::time::MonoTime;

use super::Successors;
use super::table::Source;
use crate::definitions::Name;
use crate::slots::Row;
use crate::{DecayedTally, FormId, OriginTag, SourceId};

/// A possible successor.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// The form to run; its definition may not be here yet ([`Successors::form`]).
    pub form: FormId,
    /// Probability: seen of the form ÷ (seen of the source + 1), both decayed; at most 1.
    pub p: f64,
    /// The form's counts, decayed.
    pub tally: DecayedTally,
    /// How much of `tally.seen` each node counted, the largest first. Empty in an [`Outlook`].
    pub taught_by: Vec<(OriginTag, f64)>,
}

/// The successors of one source, for a decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Outlook {
    /// How often the source was seen, decayed.
    pub seen: f64,
    /// Its successors, as [`Successors::predictions`], without the nodes that counted them.
    pub successors: Vec<Prediction>,
}

/// One source as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceView {
    /// The source.
    pub source: SourceId,
    /// Text of the pattern, if known.
    pub text: Option<String>,
    /// Counts of the source itself, decayed. Its launches and uses are those without a form (overlaps).
    pub tally: DecayedTally,
    /// Its successors, as [`Successors::predictions`].
    pub successors: Vec<Prediction>,
}

impl Successors {
    /// The successors of `source`: at most [`PREDICTIONS_MAX`], the likeliest first.
    #[must_use]
    pub fn predictions(&self, source: SourceId, now: MonoTime) -> Vec<Prediction> {
        self.table
            .sources
            .get(&source)
            .map(|held| self.predictions_with_teachers(held, now))
            .unwrap_or_default()
    }

    /// The successors of `source`, without the nodes that counted them; `None` if it was never seen.
    #[must_use]
    pub fn outlook(&self, source: SourceId, now: MonoTime) -> Option<Outlook> {
        let held = self.table.sources.get(&source)?;
        let seen = held.any.value(&self.table.lives, now).seen;
        let successors =
            self.likeliest(held, seen, now).into_iter().map(|(_, prediction)| prediction).collect();
        Some(Outlook { seen, successors })
    }

    fn predictions_with_teachers(&self, held: &Source, now: MonoTime) -> Vec<Prediction> {
        let any = held.any.value(&self.table.lives, now).seen;
        let likeliest = self.likeliest(held, any, now).into_iter();
        likeliest
            .map(|(row, prediction)| Prediction { taught_by: self.taught_by(row, now), ..prediction })
            .collect()
    }

    fn likeliest<'a>(&self, held: &'a Source, any: f64, now: MonoTime) -> Vec<(&'a Row, Prediction)> {
        let rows = held.forms.iter().map(|row| (row, row.value(&self.table.lives, now)));
        let mut rows: Vec<_> = rows.filter(|(_, tally)| tally.seen > 0.0).collect();
        rows.sort_by(|(a, a_tally), (b, b_tally)| {
            b_tally.seen.total_cmp(&a_tally.seen).then(a.form.cmp(&b.form))
        });
        rows.truncate(PREDICTIONS_MAX);
        let predict = |(row, tally): (&'a Row, DecayedTally)| {
            let p = probability(tally.seen, any);
            (row, Prediction { form: row.form, p, tally, taught_by: Vec::new() })
        };
        rows.into_iter().map(predict).collect()
    }

    fn taught_by(&self, row: &Row, now: MonoTime) -> Vec<(OriginTag, f64)> {
        let mut shares: Vec<(OriginTag, f64)> = Vec::new();
        for (slot, age) in row.live(&self.table.lives, now) {
            let Some(origin) = self.table.lives.origin(slot.life) else { continue };
            let mut value = DecayedTally::default();
            value.add(slot.tally, age);
            match shares.iter_mut().find(|(other, _)| *other == origin) {
                Some((_, seen)) => *seen += value.seen,
                None => shares.push((origin, value.seen)),
            }
        }
        shares.retain(|(_, seen)| *seen > 0.0);
        shares.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        shares
    }

    /// Launches and uses because of `source`, as all nodes have counted them, decayed (`frequent_sources` is the source's own):
    /// those of its forms, and those without a form in its own row.
    #[must_use]
    pub fn precision(&self, source: SourceId, now: MonoTime) -> DecayedTally {
        let Some(held) = self.table.sources.get(&source) else { return DecayedTally::default() };
        let own = held.any.value(&self.table.lives, now);
        let mut sum = own;
        held.forms.iter().for_each(|row| sum.join(row.value(&self.table.lives, now)));
        DecayedTally { seen: own.seen, ..sum }
    }

    /// One source.
    #[must_use]
    pub fn view(&self, source: SourceId, now: MonoTime) -> Option<SourceView> {
        let held = self.table.sources.get(&source)?;
        let text = match source {
            SourceId::Pattern(tag) => self.table.definitions.get(Name::Pattern(tag)),
            SourceId::Query(_) => None,
        };
        Some(SourceView {
            source,
            text: text.map(|text| String::from_utf8_lossy(text).into_owned()),
            tally: held.any.value(&self.table.lives, now),
            successors: self.predictions_with_teachers(held, now),
        })
    }
}

/// See the top of this file.
pub(super) fn probability(form: f64, any: f64) -> f64 {
    (form / (any + 1.0)).min(1.0)
}
