//! What follows what: learned from every session, shared by every node (DESIGN "Prefetch", THEORY "Learning and
//! prefetch").
//!
//! Words. A *source* is what was asked before: a pattern, or one exact query. A *form* is a runnable next query: exact,
//! or a template with bindings. A *slot* holds the absolute counts that one life of one node (an *origin tag* and its
//! incarnation) has counted of one source and form in one *epoch*. A *row* is all slots of one source and form; the
//! row of [`FormId::ANY`] counts the source itself. A *piece* is what gossip carries of them, a *page* what an answer
//! to a pull carries.
//!
//! Decides how counts are kept, merged, aged, bounded and told. Never decides what is a session, what a form means or
//! whether a prefetch is launched.

pub mod budget;
mod cursor;
mod definitions;
mod delta;
mod epochs;
pub mod evidence;
pub mod expansion;
pub mod fields;
pub mod form;
pub mod gain;
mod pages;
mod params;
pub mod precision;
mod pull;
pub mod sessions;
mod slots;
mod source;
mod space_saving;
mod successors;
pub mod tellers;
pub mod templates;
mod wire;

pub use delta::{Definition, Lesson, LessonError};
pub use pages::PullPages;
pub use params::Kind;
pub use pull::Digest;
pub use slots::{Decayed, Tally};
pub use source::{FormId, OriginTag, PatternTag, QueryTag, SourceId};
pub use space_saving::{Offered, SpaceSaving};
pub use successors::{Bounds, Merged, MostSeen, Prediction, SeenSlice, Sizes, SourceView, Successors, Sum};
