//! Prefetch (DESIGN section 3): what sessions will ask next is read before they ask.
//!
//! `launch` is the side of the *owner of the candidate's key*: it decides whether an order is carried out, carries it out,
//! and keeps a ticket (`tickets`) of what became of it. What it learns so is told to whoever teaches, by [`Learner`].
//!
//! No client ever waits for anything here, and nothing here is shown to one: a prefetch that comes to nothing leaves those
//! who joined it as if it had not been there. A prefetch is no request: it is not observed, so none brings about another.

mod flush;
mod launch;
mod order;
mod policy;
mod tickets;
pub(crate) mod view;

pub use flush::Flushed;
pub use hopcache_core::learning::gain::CandidateKind;
pub use hopcache_core::learning::{FormId, PatternTag, QueryTag, SourceId};
pub use order::{Launch, Order, Skip};
pub use policy::{Kinds, PrefetchPolicy};
pub use tickets::{Learner, PrefetchedView, Resolution, Resolved};
pub(crate) use tickets::{Ticket, Tickets};
