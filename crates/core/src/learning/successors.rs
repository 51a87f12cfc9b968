//! What follows what, as one node knows it: its own counts and everybody else's.

use bytes::Bytes;

use super::{Decayed, Definition, Digest, FormId, Lesson, OriginTag, PatternTag, SourceId};
use crate::node::Incarnation;
use crate::time::MonoTime;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Pattern sources (`prefetch.max_patterns`).
    pub patterns: usize,
    /// Exact queries with successors of their own.
    pub queries: usize,
    /// Slots altogether.
    pub slots: usize,
    /// Bytes of definitions.
    pub definition_bytes: usize,
}

impl Bounds {
    /// What goes with `prefetch.max_patterns`.
    #[must_use]
    pub fn for_patterns(patterns: usize) -> Self {
        let _ = patterns;
        Self { patterns: 0, queries: 0, slots: 0, definition_bytes: 0 }
    }

    /// Bytes that a model with these bounds takes at the most, whatever peers send.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        0
    }
}

/// What may follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// What to run; its definition may not be here yet ([`Successors::form`]).
    pub form: FormId,
    /// Probability: seen of the form ÷ (seen of the source + 1), both decayed; at most 1.
    pub p: f64,
    /// The form's counts, decayed.
    pub tally: Decayed,
    /// Which nodes counted how much of `tally.seen`, the most first.
    pub taught_by: Vec<(OriginTag, f64)>,
}

/// What became of a lesson's slots and definitions; each is counted once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Merged {
    /// Slots that said more than was known.
    pub taken: usize,
    /// Slots that said nothing new.
    pub known: usize,
    /// Slots of epochs that do not count any more.
    pub refused_old: usize,
    /// Slots of lives that claim to be further than they can be.
    pub refused_future: usize,
    /// Slots that there is no room for, or with impossible counts.
    pub refused_bounds: usize,
    /// Definitions that were missing.
    pub defined: usize,
    /// Definitions that failed the check.
    pub refused_forged: usize,
    /// Definitions that nobody refers to, or that there is no room for.
    pub refused_definitions: usize,
    /// For an answer to a pull: the sender had more that differs. Pull again at once (within
    /// [`crate::limits::PULL_PAGES_MAX`]).
    pub more: bool,
}

/// One source as an operator sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceView {
    /// The source.
    pub source: SourceId,
    /// Text of the pattern, where it is known.
    pub text: Option<String>,
    /// Counts of the source itself, decayed (`seen` only).
    pub tally: Decayed,
    /// Its successors, as [`Successors::predictions`].
    pub successors: Vec<Prediction>,
}

/// For gauges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Pattern sources.
    pub patterns: usize,
    /// Exact sources.
    pub queries: usize,
    /// Slots.
    pub slots: usize,
    /// Lives of nodes.
    pub lives: usize,
    /// Definitions of forms.
    pub forms: usize,
    /// Bytes of definitions and texts.
    pub definition_bytes: usize,
    /// Bytes altogether, as estimated from the counts above.
    pub bytes: usize,
}

/// Successors as one node knows them. Needs `&mut` for all but looking: keep it behind one lock, held for single calls.
#[derive(Debug)]
pub struct Successors {}

impl Successors {
    /// Nothing known yet; `me` counts in life `life` from `now` on.
    #[must_use]
    pub fn new(me: OriginTag, life: Incarnation, bounds: Bounds, now: MonoTime) -> Self {
        let _ = (me, life, bounds, now);
        Self {}
    }

    /// Names the nodes that are members now: their lives do not give way to invented ones. Optional.
    pub fn members(&mut self, members: &[OriginTag]) {
        let _ = members;
    }

    /// An observation of `source` has settled. Counts whether something followed or not.
    pub fn saw(&mut self, source: SourceId, now: MonoTime) {
        let _ = (source, now);
    }

    /// `form` followed `source`.
    pub fn count(&mut self, source: SourceId, form: FormId, now: MonoTime) {
        let _ = (source, form, now);
    }

    /// A prefetch of `form` was launched because of `source`.
    pub fn launched(&mut self, source: SourceId, form: FormId, now: MonoTime) {
        let _ = (source, form, now);
    }

    /// Such a prefetch was used (or joined while it ran).
    pub fn used(&mut self, source: SourceId, form: FormId, now: MonoTime) {
        let _ = (source, form, now);
    }

    /// What may follow `source`: at most [`crate::limits::PREDICTIONS_MAX`], the likeliest first.
    #[must_use]
    pub fn predictions(&self, source: SourceId, now: MonoTime) -> Vec<Prediction> {
        let _ = (source, now);
        Vec::new()
    }

    /// Launched and used of all forms of `source` together, decayed (`seen` is the source's own).
    #[must_use]
    pub fn precision(&self, source: SourceId, now: MonoTime) -> Decayed {
        let _ = (source, now);
        Decayed::default()
    }

    /// Keeps the definition of a form that this node has learned. Whether it is kept: not when it is longer than
    /// [`crate::limits::FORM_BYTES_MAX`] or there is no room. Call it before or after [`Self::count`], as often as you like.
    pub fn define_form(&mut self, id: FormId, bytes: &[u8]) -> bool {
        let _ = (id, bytes);
        false
    }

    /// The definition of a form.
    #[must_use]
    pub fn form(&self, id: FormId) -> Option<Bytes> {
        let _ = id;
        None
    }

    /// Keeps the text of a pattern, cut to [`crate::limits::PATTERN_TEXT_BYTES_MAX`].
    pub fn define_pattern(&mut self, tag: PatternTag, text: &str) {
        let _ = (tag, text);
    }

    /// The text of a pattern.
    #[must_use]
    pub fn pattern(&self, tag: PatternTag) -> Option<&str> {
        let _ = tag;
        None
    }

    /// Takes in what another node said. `is_true` is asked about each new definition: whether a form's id is the
    /// digest of its bytes and they parse; a pattern's tag cannot be recomputed without its principal, so say yes to
    /// a text that is fit to be shown.
    pub fn merge(
        &mut self,
        lesson: &Lesson,
        now: MonoTime,
        is_true: impl FnMut(&Definition) -> bool,
    ) -> Merged {
        let _ = (lesson, now, is_true);
        Merged::default()
    }

    /// What this node counted or defined and has not told yet, as pieces of at most
    /// [`crate::limits::DELTA_PIECE_BYTES_MAX`] bytes, together at most `budget_bytes`; the largest change of
    /// probability first. Each change is told once: gossip repeats it, pulls mend what is lost.
    pub fn next_pieces(&mut self, budget_bytes: usize, now: MonoTime) -> Vec<Vec<u8>> {
        let _ = (budget_bytes, now);
        Vec::new()
    }

    /// What this node has, to be sent with a pull.
    #[must_use]
    pub fn digest(&mut self, now: MonoTime) -> Digest {
        let _ = now;
        Digest::default()
    }

    /// The answer to a pull: slots that differ and definitions that are missing, at most
    /// [`crate::limits::PULL_PAGE_BYTES_MAX`] bytes. Read it with [`Lesson::decode`].
    #[must_use]
    pub fn answer_pull(&mut self, digest: &Digest, now: MonoTime) -> Vec<u8> {
        let _ = (digest, now);
        Vec::new()
    }

    /// All pattern sources, the most seen first, at most `max`.
    #[must_use]
    pub fn patterns(&self, max: usize, now: MonoTime) -> Vec<SourceView> {
        let _ = (max, now);
        Vec::new()
    }

    /// One source.
    #[must_use]
    pub fn view(&self, source: SourceId, now: MonoTime) -> Option<SourceView> {
        let _ = (source, now);
        None
    }

    /// For gauges.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        Sizes::default()
    }
}
