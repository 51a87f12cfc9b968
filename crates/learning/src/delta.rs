//! The wire format of lessons: pieces of gossip and pages of pulls are one format.
//!
//! ```text
//! version, kind (0 piece, 1 page), next (0, or 1 + kind of source, tag),
//! number of lives, each: origin, incarnation, up for how many ms,
//! records until the end, each a number whose lowest three bits say what it is, and for rows the rest how many slots:
//!   1 pattern, 2 exact query (tag): what the rows after it are of
//!   3 row of the source itself, 4 row of a form (id): its slots
//!   5 form (id, length, bytes), 6 pattern's text (tag, length, bytes)
//! slot: number of (life × 6 + age) × 8 + which counts follow, counts
//! ```
//!
//! Slots travel by age, not by epoch. So a message can only claim an absurd epoch by claiming an absurd uptime. This
//! module decides which bytes are well formed; a lesson that was read is within bounds, and not accepted yet.

use bytes::Bytes;
use hopcache_core::limits::{
    EPOCHS_KEPT, FORM_BYTES_MAX, LIVES_MAX, PATTERN_TEXT_BYTES_MAX, PULL_PAGE_BYTES_MAX, SLOTS_PER_FORM_MAX,
    UPTIME_MS_MAX,
};
use hopcache_core::node::Incarnation;

use crate::epochs::Claim;
use crate::slots::Tally;
use crate::wire::{Reader, put_number, put_tag};
use crate::{FormId, OriginTag, PatternTag, QueryTag, SourceId};

/// Version of this format.
const VERSION: u8 = 1;

const PATTERN: u64 = 1;
const QUERY: u64 = 2;
const ANY_ROW: u64 = 3;
const FORM_ROW: u64 = 4;
const FORM: u64 = 5;
const TEXT: u64 = 6;
const SEEN: u64 = 1;
const LAUNCHED: u64 = 2;
const USED: u64 = 4;

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
pub(super) struct ToldSlot {
    pub(super) life: usize,
    pub(super) age: u32,
    pub(super) tally: Tally,
}

/// The slots of one source and form that a lesson has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToldRow {
    pub(super) source: SourceId,
    pub(super) form: FormId,
    pub(super) slots: Vec<ToldSlot>,
}

/// The content of a piece or a page, read and within bounds, not accepted yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lesson {
    pub(super) is_page: bool,
    /// Where the next page continues.
    pub(super) next: Option<SourceId>,
    pub(super) lives: Vec<Claim>,
    /// Rows of one source are adjacent.
    pub(super) rows: Vec<ToldRow>,
    pub(super) definitions: Vec<Definition>,
}

/// Why bytes are no lesson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LessonError {
    /// Written by another version of Hopcache.
    #[error("lesson of version {0}")]
    Version(u8),
    /// More than a page can have, or cut, or not of this format.
    #[error("malformed lesson")]
    Malformed,
}

impl Lesson {
    /// Reads a piece or a page. Total: any bytes are a lesson or an error, in time and memory linear in their length.
    ///
    /// # Errors
    /// [`LessonError`], for the caller to count.
    pub fn decode(bytes: &[u8]) -> Result<Self, LessonError> {
        match bytes.first() {
            Some(&VERSION) if bytes.len() <= PULL_PAGE_BYTES_MAX => {}
            Some(&version) if version != VERSION => return Err(LessonError::Version(version)),
            _ => return Err(LessonError::Malformed),
        }
        Self::read(Reader(bytes.get(1..).unwrap_or_default())).ok_or(LessonError::Malformed)
    }

    fn read(mut from: Reader<'_>) -> Option<Self> {
        let is_page = match from.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let next = read_source(&mut from)?;
        let lives = from.up_to(LIVES_MAX)?;
        let lives = (0..lives).map(|_| read_claim(&mut from)).collect::<Option<Vec<_>>>()?;
        let mut lesson = Self { is_page, next, lives, ..Self::default() };
        let mut source = None;
        while !from.is_empty() {
            lesson.read_record(&mut from, &mut source)?;
        }
        Some(lesson)
    }

    fn read_record(&mut self, from: &mut Reader<'_>, source: &mut Option<SourceId>) -> Option<()> {
        let head = from.number()?;
        let slots = usize::try_from(head >> 3).ok()?;
        match head & 7 {
            PATTERN => *source = Some(PatternTag(from.tag()?).into()),
            QUERY => *source = Some(QueryTag(from.tag()?).into()),
            ANY_ROW => self.read_row(from, (*source)?, FormId::ANY, slots)?,
            FORM_ROW => {
                let form = FormId(from.tag()?);
                self.read_row(from, (*source)?, form, slots)?;
            }
            FORM => {
                let id = FormId(from.tag()?);
                let len = from.up_to(FORM_BYTES_MAX)?;
                let bytes = Bytes::copy_from_slice(from.bytes(len)?);
                self.definitions.push(Definition::Form { id, bytes });
            }
            TEXT => {
                let tag = PatternTag(from.tag()?);
                let len = from.up_to(PATTERN_TEXT_BYTES_MAX)?;
                let text = std::str::from_utf8(from.bytes(len)?).ok()?.to_owned();
                self.definitions.push(Definition::Pattern { tag, text });
            }
            _ => return None,
        }
        Some(())
    }

    fn read_row(
        &mut self,
        from: &mut Reader<'_>,
        source: SourceId,
        form: FormId,
        slots: usize,
    ) -> Option<()> {
        if slots == 0 || slots > SLOTS_PER_FORM_MAX {
            return None;
        }
        let slots = (0..slots).map(|_| self.read_slot(from)).collect::<Option<Vec<_>>>()?;
        self.rows.push(ToldRow { source, form, slots });
        Some(())
    }

    fn read_slot(&self, from: &mut Reader<'_>) -> Option<ToldSlot> {
        let head = from.number()?;
        let (which, place) = (head & 7, head >> 3);
        let life = usize::try_from(place / u64::from(EPOCHS_KEPT)).ok()?;
        let age = (place % u64::from(EPOCHS_KEPT)) as u32;
        // No epoch is before a life's first.
        self.lives.get(life).filter(|claim| claim.epoch() >= age)?;
        let mut count = |bit| if which & bit == 0 { Some(0) } else { u32::try_from(from.number()?).ok() };
        let tally = Tally { seen: count(SEEN)?, launched: count(LAUNCHED)?, used: count(USED)? };
        Some(ToldSlot { life, age, tally })
    }
}

fn read_claim(from: &mut Reader<'_>) -> Option<Claim> {
    let (origin, life) = (OriginTag(from.tag()?), Incarnation(from.tag()?));
    let up_ms = from.number().filter(|up_ms| *up_ms <= UPTIME_MS_MAX)?;
    Some(Claim { origin, life, up_ms })
}

/// A source or none, as in digests and lessons.
pub(super) fn read_source(from: &mut Reader<'_>) -> Option<Option<SourceId>> {
    Some(match u64::from(from.byte()?) {
        0 => None,
        PATTERN => Some(PatternTag(from.tag()?).into()),
        QUERY => Some(QueryTag(from.tag()?).into()),
        _ => return None,
    })
}

/// Writes the input of [`read_source`].
pub(super) fn put_source(out: &mut Vec<u8>, source: Option<SourceId>) {
    let Some(source) = source else { return out.push(0) };
    put_number(out, if source.is_pattern() { PATTERN } else { QUERY });
    put_tag(out, source.tag());
}

/// Version, kind, next, number of lives.
const HEAD_BYTES_MAX: usize = 1 + 1 + 9 + 2;

/// Writes a lesson within a number of bytes: each part goes in whole or not at all.
#[derive(Debug)]
pub(super) struct Writer {
    bytes_max: usize,
    is_page: bool,
    lives: Vec<(OriginTag, Incarnation)>,
    claims: Vec<u8>,
    records: Vec<u8>,
    source: Option<SourceId>,
}

impl Writer {
    pub(super) const fn new(bytes_max: usize, is_page: bool) -> Self {
        Self { bytes_max, is_page, lives: Vec::new(), claims: Vec::new(), records: Vec::new(), source: None }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) const fn len(&self) -> usize {
        HEAD_BYTES_MAX + self.claims.len() + self.records.len()
    }

    /// Adds a row. Returns whether it fitted.
    pub(super) fn row(
        &mut self,
        source: SourceId,
        form: FormId,
        slots: impl ExactSizeIterator<Item = (Claim, u32, Tally)>,
    ) -> bool {
        let before = (self.lives.len(), self.claims.len(), self.records.len(), self.source);
        if self.source != Some(source) {
            put_number(&mut self.records, if source.is_pattern() { PATTERN } else { QUERY });
            put_tag(&mut self.records, source.tag());
            self.source = Some(source);
        }
        let slots_head = (slots.len() as u64) << 3;
        if form == FormId::ANY {
            put_number(&mut self.records, slots_head | ANY_ROW);
        } else {
            put_number(&mut self.records, slots_head | FORM_ROW);
            put_tag(&mut self.records, form.0);
        }
        for (claim, age, tally) in slots {
            let life = self.life(&claim);
            put_slot(&mut self.records, life, age, tally);
        }
        let fits = self.len() <= self.bytes_max && self.lives.len() <= LIVES_MAX;
        if !fits {
            self.lives.truncate(before.0);
            self.claims.truncate(before.1);
            self.records.truncate(before.2);
            self.source = before.3;
        }
        fits
    }

    fn life(&mut self, claim: &Claim) -> usize {
        let key = (claim.origin, claim.life);
        if let Some(at) = self.lives.iter().position(|life| *life == key) {
            return at;
        }
        self.lives.push(key);
        put_tag(&mut self.claims, claim.origin.0);
        put_tag(&mut self.claims, claim.life.0);
        put_number(&mut self.claims, claim.up_ms);
        self.lives.len() - 1
    }

    /// Adds the uptime of a life, whether or not its slots follow. Call it before anything else.
    pub(super) fn claim(&mut self, claim: &Claim) {
        if self.lives.len() < LIVES_MAX {
            self.life(claim);
        }
    }

    /// Adds a form's definition. Returns whether it fitted.
    pub(super) fn form(&mut self, id: FormId, bytes: &[u8]) -> bool {
        self.define(FORM, id.0, bytes)
    }

    /// Adds a pattern's text. Returns whether it fitted.
    pub(super) fn text(&mut self, tag: PatternTag, text: &[u8]) -> bool {
        self.define(TEXT, tag.0, text)
    }

    fn define(&mut self, what: u64, tag: u64, bytes: &[u8]) -> bool {
        let before = self.records.len();
        put_number(&mut self.records, what);
        put_tag(&mut self.records, tag);
        put_number(&mut self.records, bytes.len() as u64);
        self.records.extend_from_slice(bytes);
        let fits = self.len() <= self.bytes_max;
        if !fits {
            self.records.truncate(before);
        }
        fits
    }

    /// The bytes; `next` is where the next page continues.
    pub(super) fn finish(self, next: Option<SourceId>) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        out.extend_from_slice(&[VERSION, u8::from(self.is_page)]);
        put_source(&mut out, next);
        put_number(&mut out, self.lives.len() as u64);
        out.extend_from_slice(&self.claims);
        out.extend_from_slice(&self.records);
        out
    }
}

fn put_slot(out: &mut Vec<u8>, life: usize, age: u32, tally: Tally) {
    let counts = [(SEEN, tally.seen), (LAUNCHED, tally.launched), (USED, tally.used)];
    let which = counts.iter().filter(|(_, count)| *count > 0).fold(0, |which, (bit, _)| which | bit);
    let place = life as u64 * u64::from(EPOCHS_KEPT) + u64::from(age);
    put_number(out, place << 3 | which);
    for (_, count) in counts.iter().filter(|(_, count)| *count > 0) {
        put_number(out, u64::from(*count));
    }
}
