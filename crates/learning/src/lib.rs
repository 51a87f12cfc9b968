//! Successors of queries: learned from every session, shared by every node (DESIGN "Prefetch", THEORY "Learning and
//! prefetch").
//!
//! This crate decides which steps of sessions count, how counts are kept, merged, aged, bounded and sent, what a form
//! means, what a candidate is worth, and what the budget allows. It never launches a prefetch and never sends a
//! message: the engine does.
//!
//! Everything here is a function of its arguments, as in core. There is no clock (times come in), no dice, no socket,
//! no file, no task, no map of random order: `clippy.toml` beside this crate's manifest refuses them. The bounds are
//! in `hopcache_core::limits`.
//!
//! Words. A *source* is the earlier query: a pattern, or one exact query. A *form* is a runnable next query: exact, or
//! a template with bindings. A *slot* holds the absolute counts that one life of one node (an *origin tag* and its
//! incarnation) has counted of one source and form in one *epoch*. A *row* is all slots of one source and form; the row
//! of [`FormId::ANY`] counts the source itself. A *lesson* is a message with such rows: a *piece* in gossip, a *page*
//! in the answer to a pull.

pub mod after_hits;
pub mod budget;
pub mod clock_offsets;
mod definitions;
mod delta;
mod epochs;
pub mod evidence;
pub mod fields;
pub mod form;
pub mod gain;
pub mod in_vain;
pub mod params;
pub mod precision;
mod pull;
mod pull_budget;
pub mod sessions;
mod slots;
mod source;
mod space_saving;
mod successors;
pub mod templates;
pub mod thinning;

pub use delta::{Definition, TransitionCounts, TransitionCountsError};
pub use params::Kind;
pub use pull::Digest;
pub use pull_budget::PullBudget;
pub use slots::{DecayedTally, Tally};
pub use source::{FormId, OriginTag, PatternTag, QueryTag, SourceId};
pub use space_saving::{OfferOutcome, SpaceSaving};
pub use successors::{
    Bounds, FrequentSources, MergeOutcome, Outlook, Prediction, Sizes, SourceSlice, SourceView, Successors,
    Sum,
};

#[cfg(test)]
extern crate self as hopcache_learning;
#[cfg(test)]
#[path = "../tests/main.rs"]
mod tests;
