//! The wire of what nodes tell each other: pieces of gossip and pages of pulls are one format.

use bytes::Bytes;

use super::{FormId, PatternTag};

/// What an id stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Definition {
    /// A runnable query.
    Form {
        /// Its id: a digest of the bytes, which the caller of `Successors::merge` checks.
        id: FormId,
        /// What defines it; opaque here.
        bytes: Bytes,
    },
    /// A pattern's text, for people.
    Pattern {
        /// The pattern.
        tag: PatternTag,
        /// Its text.
        text: String,
    },
}

/// What a piece or a page says, read and within bounds, not yet believed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lesson {}

/// Why bytes are no lesson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LessonError {
    /// Written by another version of Hopcache.
    #[error("lesson of version {0}")]
    Version(u8),
    /// More than a page can have, or cut off, or not of this format.
    #[error("malformed lesson")]
    Malformed,
}

impl Lesson {
    /// Reads a piece or a page. Total: any bytes are a lesson or an error, in time and memory linear in their length.
    ///
    /// # Errors
    /// [`LessonError`], for the caller to count.
    pub fn decode(bytes: &[u8]) -> Result<Self, LessonError> {
        let _ = bytes;
        Err(LessonError::Malformed)
    }
}
