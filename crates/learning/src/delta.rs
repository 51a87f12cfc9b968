//! The wire format of lessons: pieces of gossip and pages of pulls are one format, a head and records until the end.
//!
//! Slots travel by age, not by epoch. So a message can only claim an absurd epoch by claiming an absurd uptime. This
//! module decides which bytes are well formed; a lesson that was read is within bounds, and not accepted yet.

use bytes::Bytes;
use hopcache_core::limits::{
    EPOCHS_KEPT, FORM_BYTES_MAX, LIVES_MAX, PATTERN_TEXT_BYTES_MAX, PULL_PAGE_BYTES_MAX, SLOTS_PER_FORM_MAX,
    UPTIME_MS_MAX,
};
use hopcache_core::wire::{Piece, append, at_most, take, to_bytes};

use crate::epochs::Claim;
use crate::slots::Tally;
use crate::{FormId, PatternTag, QueryTag, SourceId};

/// The part of a lesson before its records.
#[derive(serde::Serialize, serde::Deserialize)]
struct Head {
    is_page: bool,
    /// Where the next page continues.
    next: Option<SourceId>,
    #[serde(deserialize_with = "at_most::<_, _, LIVES_MAX>")]
    lives: Vec<Claim>,
}

/// The longest head without its lives: what it is, the source, and how many lives.
const HEAD_BYTES_MAX: usize = 1 + 10 + 2;

/// A part of a lesson.
#[derive(serde::Serialize, serde::Deserialize)]
enum Record<'a> {
    /// The rows after it are of this pattern.
    Pattern(PatternTag),
    /// The rows after it are of this exact query.
    Query(QueryTag),
    /// The slots of the source itself.
    Any(#[serde(deserialize_with = "at_most::<_, _, SLOTS_PER_FORM_MAX>")] Vec<SentSlot>),
    /// The slots of a form.
    Row(FormId, #[serde(deserialize_with = "at_most::<_, _, SLOTS_PER_FORM_MAX>")] Vec<SentSlot>),
    /// A form's definition.
    Form(FormId, #[serde(borrow)] Piece<'a>),
    /// A pattern's text.
    Text(PatternTag, &'a str),
}

/// A slot: its life's place in the lesson × [`EPOCHS_KEPT`] + its age, and its counts.
#[derive(serde::Serialize, serde::Deserialize)]
struct SentSlot(u32, Tally);

/// The definition of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Definition {
    /// A runnable query.
    Form {
        /// Its id: a digest of the bytes, which the caller of `Successors::merge` checks.
        id: FormId,
        /// Its definition; opaque here.
        bytes: Bytes,
    },
    /// A pattern's text, for display.
    Pattern {
        /// The pattern.
        tag: PatternTag,
        /// Its text.
        text: String,
    },
}

/// A slot in a message: its life (by its place in the lesson), its age, its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotCounts {
    pub(super) life: usize,
    pub(super) age: u32,
    pub(super) tally: Tally,
}

/// The slots of one source and form that a lesson has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowCounts {
    pub(super) source: SourceId,
    pub(super) form: FormId,
    pub(super) slots: Vec<SlotCounts>,
}

/// The content of a piece or a page, read and within bounds, not accepted yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TransitionCounts {
    pub(super) is_page: bool,
    /// Where the next page continues.
    pub(super) next: Option<SourceId>,
    pub(super) lives: Vec<Claim>,
    /// Rows of one source are adjacent.
    pub(super) rows: Vec<RowCounts>,
    pub(super) definitions: Vec<Definition>,
}

/// The bytes are no lesson: more than a page can have, or cut, or not of this format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed lesson")]
pub struct TransitionCountsError;

impl TransitionCounts {
    /// Reads a piece or a page. Total: any bytes are a lesson or an error, in time and memory linear in their length.
    ///
    /// # Errors
    /// [`TransitionCountsError`], for the caller to count.
    pub fn decode(bytes: &[u8]) -> Result<Self, TransitionCountsError> {
        let is_short = bytes.len() <= PULL_PAGE_BYTES_MAX;
        is_short.then(|| Self::read(bytes)).flatten().ok_or(TransitionCountsError)
    }

    fn read(mut bytes: &[u8]) -> Option<Self> {
        let Head { is_page, next, lives } = take(&mut bytes).ok()?;
        if lives.iter().any(|claim| claim.up_ms > UPTIME_MS_MAX) {
            return None;
        }
        let mut counts = Self { is_page, next, lives, ..Self::default() };
        let mut source = None;
        while !bytes.is_empty() {
            counts.read_record(take(&mut bytes).ok()?, &mut source)?;
        }
        Some(counts)
    }

    fn read_record(&mut self, record: Record<'_>, source: &mut Option<SourceId>) -> Option<()> {
        match record {
            Record::Pattern(tag) => *source = Some(tag.into()),
            Record::Query(tag) => *source = Some(tag.into()),
            Record::Any(slots) => self.read_row((*source)?, FormId::ANY, &slots)?,
            Record::Row(form, slots) => self.read_row((*source)?, form, &slots)?,
            Record::Form(id, Piece(bytes)) => {
                let bytes = (bytes.len() <= FORM_BYTES_MAX).then(|| Bytes::copy_from_slice(bytes))?;
                self.definitions.push(Definition::Form { id, bytes });
            }
            Record::Text(tag, text) => {
                let text = (text.len() <= PATTERN_TEXT_BYTES_MAX).then(|| text.to_owned())?;
                self.definitions.push(Definition::Pattern { tag, text });
            }
        }
        Some(())
    }

    fn read_row(&mut self, source: SourceId, form: FormId, slots: &[SentSlot]) -> Option<()> {
        let slots = slots.iter().map(|slot| self.read_slot(slot)).collect::<Option<Vec<_>>>()?;
        (!slots.is_empty()).then(|| self.rows.push(RowCounts { source, form, slots }))
    }

    fn read_slot(&self, SentSlot(place, tally): &SentSlot) -> Option<SlotCounts> {
        let life = usize::try_from(place / EPOCHS_KEPT).ok()?;
        let age = place % EPOCHS_KEPT;
        // No epoch is before a life's first.
        self.lives.get(life).filter(|claim| claim.epoch() >= age)?;
        Some(SlotCounts { life, age, tally: *tally })
    }
}

/// Writes a lesson within a number of bytes: each part goes in whole or not at all.
#[derive(Debug)]
pub(super) struct Writer {
    bytes_max: usize,
    is_page: bool,
    lives: Vec<Claim>,
    lives_bytes: usize,
    records: Vec<u8>,
    source: Option<SourceId>,
}

impl Writer {
    pub(super) const fn new(bytes_max: usize, is_page: bool) -> Self {
        Self { bytes_max, is_page, lives: Vec::new(), lives_bytes: 0, records: Vec::new(), source: None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        HEAD_BYTES_MAX + self.lives_bytes + self.records.len()
    }

    fn add(&mut self, record: &Record<'_>) {
        self.records = append(std::mem::take(&mut self.records), record);
    }

    /// Adds a row. Returns whether it fitted.
    pub(super) fn row(
        &mut self,
        source: SourceId,
        form: FormId,
        slots: impl ExactSizeIterator<Item = (Claim, u32, Tally)>,
    ) -> bool {
        let before = (self.lives.len(), self.lives_bytes, self.records.len(), self.source);
        if self.source != Some(source) {
            self.add(&match source {
                SourceId::Pattern(tag) => Record::Pattern(tag),
                SourceId::Query(tag) => Record::Query(tag),
            });
            self.source = Some(source);
        }
        let sent = slots.map(|(claim, age, tally)| SentSlot(self.life(&claim) * EPOCHS_KEPT + age, tally));
        let sent = sent.collect();
        self.add(&if form == FormId::ANY { Record::Any(sent) } else { Record::Row(form, sent) });
        let fits = self.len() <= self.bytes_max && self.lives.len() <= LIVES_MAX;
        if !fits {
            self.lives.truncate(before.0);
            self.lives_bytes = before.1;
            self.records.truncate(before.2);
            self.source = before.3;
        }
        fits
    }

    /// The place of a life among this lesson's.
    fn life(&mut self, claim: &Claim) -> u32 {
        let is_its = |life: &Claim| (life.origin, life.life) == (claim.origin, claim.life);
        let place = self.lives.iter().position(is_its).unwrap_or_else(|| {
            self.lives_bytes += to_bytes(claim).len();
            self.lives.push(*claim);
            self.lives.len() - 1
        });
        u32::try_from(place).unwrap_or(u32::MAX / EPOCHS_KEPT - 1)
    }

    /// Adds the uptime of a life, whether or not its slots follow. Call it before anything else.
    pub(super) fn claim(&mut self, claim: &Claim) {
        if self.lives.len() < LIVES_MAX {
            self.life(claim);
        }
    }

    /// Adds a form's definition. Returns whether it fitted.
    pub(super) fn form(&mut self, id: FormId, bytes: &[u8]) -> bool {
        self.define(&Record::Form(id, Piece(bytes)))
    }

    /// Adds a pattern's text. Returns whether it fitted.
    pub(super) fn text(&mut self, tag: PatternTag, text: &[u8]) -> bool {
        std::str::from_utf8(text).is_ok_and(|text| self.define(&Record::Text(tag, text)))
    }

    fn define(&mut self, definition: &Record<'_>) -> bool {
        let before = self.records.len();
        self.add(definition);
        let fits = self.len() <= self.bytes_max;
        if !fits {
            self.records.truncate(before);
        }
        fits
    }

    /// The bytes; `next` is where the next page continues.
    pub(super) fn finish(self, next: Option<SourceId>) -> Vec<u8> {
        let Self { is_page, lives, mut records, .. } = self;
        let mut out =
            append(Vec::with_capacity(HEAD_BYTES_MAX + records.len()), &Head { is_page, next, lives });
        out.append(&mut records);
        out
    }
}
