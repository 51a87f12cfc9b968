//! Whether a result can change while the graph stays: rules V1 to V4 of [`crate::tags::rules`].
//!
//! The lists of functions are those of [`crate::verdict`], which decides by them what is cached at all.

use crate::verdict::{Allowed, TextVerdict};

/// What else than the graph a result depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Volatility {
    /// The parameters alone.
    Stable,
    /// Perhaps the clock: a temporal function takes a parameter, and `{timezone: 'Z'}` means "now".
    ByParameters,
    /// The clock, chance, files, configuration, or something that is not known.
    Volatile,
}

impl Volatility {
    /// The volatility of a text that the parser reads: one without procedures and `SHOW`.
    pub(crate) fn of(statement: &str) -> Self {
        match TextVerdict::of(statement, &Allowed::default()) {
            TextVerdict::PerhapsRead => Self::Stable,
            TextVerdict::PerhapsReadOfParams => Self::ByParameters,
            TextVerdict::Write | TextVerdict::Bypass(_) => Self::Volatile,
        }
    }

    /// Whether the result can change while the graph stays, with these parameters (one PackStream map).
    #[must_use]
    pub fn is_volatile(self, params: &[u8]) -> bool {
        match self {
            Self::Stable => false,
            Self::ByParameters => {
                TextVerdict::PerhapsReadOfParams.with_params(params) != TextVerdict::PerhapsRead
            }
            Self::Volatile => true,
        }
    }
}
